#!/usr/bin/env python3
"""What Proton's intra-kernel profiler (triton.profiler, backend "instrumentation") costs on two Triton kernels, and what xtrace
costs on the same, as JSON (docs/results/README.md, "Peers").

    proton.py measure --build BUILD --out FILE     records and replays the program below, plain and with Proton's scopes
    proton.py plain | scopes                       the program: each kernel once

The kernels are recorded as they are, and a kernel that Proton instrumented is a kernel like any other: one replay times both.
Needs a GPU, PyTorch and Triton with proton, and a build with bin/xtrace."""
import argparse
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program(scopes):
    import torch
    import triton
    import triton.language as tl
    import triton.profiler as proton
    import triton.profiler.language as pl
    globals().update(tl=tl, pl=pl)
    pl.enable_semantic("triton")

    # Without a session the scopes leave nothing behind.
    @triton.jit
    def triton_add(x, y, out, count, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < count
        pl.enter_scope("load")
        total = tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside)
        pl.exit_scope("load")
        pl.enter_scope("store")
        tl.store(out + offsets, total, mask=inside)
        pl.exit_scope("store")

    @triton.jit
    def triton_softmax(rows, out, columns, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        start = tl.program_id(0) * columns
        pl.enter_scope("load")
        row = tl.load(rows + start + offsets, mask=offsets < columns, other=-float("inf"))
        pl.exit_scope("load")
        pl.enter_scope("reduce")
        exponent = tl.exp(row - tl.max(row, axis=0))
        quotient = exponent / tl.sum(exponent, axis=0)
        pl.exit_scope("reduce")
        pl.enter_scope("store")
        tl.store(out + start + offsets, quotient, mask=offsets < columns)
        pl.exit_scope("store")

    generator = torch.Generator().manual_seed(1)
    x, y = (torch.rand(1 << 22, generator=generator).to("cuda") for _ in range(2))
    rows = torch.rand(4096, 1000, generator=generator).to("cuda")
    out, sums = torch.empty_like(rows), torch.empty_like(x)
    if scopes:
        proton.start(os.path.join(tempfile.gettempdir(), "xtrace-proton"), backend="instrumentation", data="trace")
    triton_add[(triton.cdiv(x.numel(), 1024),)](x, y, sums, x.numel(), BLOCK=1024)
    triton_softmax[(rows.shape[0],)](rows, out, rows.shape[1], BLOCK=1024)
    torch.cuda.synchronize()
    if scopes:
        proton.finalize()
    right = torch.allclose(out, torch.softmax(rows, dim=-1), atol=1e-6) and torch.equal(sums, x + y)
    print("right" if right else "WRONG")
    return 0 if right else 1


def start_recording(xtrace, which, work):
    environment = os.environ | {"TRITON_CACHE_DIR": str(work / f"cache-{which}")}
    command = [xtrace, "record", "-o", work / f"{which}.xtr", "--kernel", "triton_", "--", sys.executable, __file__, which]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=environment)


def replayed(xtrace, which, probes, work, timeout):
    """{kernel: (clean us, {probe: ratio})} of the recorded program."""
    sys.path.insert(0, str(ROOT / "tools" / "bench"))
    import report
    bundle, out = work / f"{which}.xtr", work / f"{which}.json"
    command = [xtrace, "replay", bundle, "--probes=" + probes, "--compare", "--json", out]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode not in (0, 1, 2):
        sys.exit(f"proton: {which}: status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    rows = {}
    for launch in report.load(out):
        configs = {c["probe"]: None if c["refused"] or not c["timing"] else c["timing"]["ratio"] for c in launch["configs"]}
        clean = launch["clean"]["time"]
        rows[launch["kernel"]] = (clean and clean["median_us"], configs)
    return rows


def measure(arguments):
    xtrace = arguments.build / "bin" / "xtrace"
    result = {"schema": "xtrace-peer-proton", "schema_version": 1, "triton": importlib.metadata.version("triton"), "kernels": []}
    with tempfile.TemporaryDirectory(prefix="xtrace-proton.") as folder:
        work = pathlib.Path(folder)
        recordings = {which: start_recording(xtrace, which, work) for which in ("plain", "scopes")}
        for which, recording in recordings.items():
            said, _ = recording.communicate(timeout=arguments.timeout)
            if recording.returncode != 0:
                sys.exit(f"proton: recording {which}: status {recording.returncode}: {said[-1500:]}")
        if arguments.wait:   # for whoever uses the GPU meanwhile
            while not arguments.wait.exists():
                time.sleep(0.2)
        plain = replayed(xtrace, "plain", "block,inst", work, arguments.timeout)
        scoped = replayed(xtrace, "scopes", "block", work, arguments.timeout)   # a probe, so that there is a timing round
    for kernel, (us, configs) in plain.items():
        proton_us = scoped.get(kernel, (None, None))[0]
        result["kernels"].append({"kernel": kernel, "clean_us": us, "proton_us": proton_us,
                                  "proton_ratio": proton_us / us if us and proton_us else None, "xtrace": configs})
    text = json.dumps(result, indent=1) + "\n"
    arguments.out.write_text(text)
    print(text)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=["measure", "plain", "scopes"])
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--timeout", type=int, default=120, help="seconds for each process")
    parser.add_argument("--wait", type=pathlib.Path, help="replay when this file is there")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.mode != "measure":
        return program(arguments.mode == "scopes")
    if arguments.build is None or arguments.out is None:
        parser.error("measure needs --build and --out")
    return measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
