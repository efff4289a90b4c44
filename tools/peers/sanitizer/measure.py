#!/usr/bin/env python3
"""Times kernels13 under the vendor's patching interface (peer.cc) and under xtrace, in one run, and writes JSON
(docs/results/README.md, "Peers").

Needs a GPU, a build with bin/xtrace, bin/kernels13, bin/kernels13-timed and lib/libxtrace_peer_sanitizer.so, and
libsanitizer-public.so of the CUDA toolkit."""
import argparse
import datetime
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "bench"))
import report  # noqa: E402

MODES = ["loaded", "empty", "base", "lanes", "all"]
PROBES = ["block", "inst", "mem"]


def find_sanitizer():
    for pattern in ("/usr/local/cuda/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer", "/opt/**/compute-sanitizer"):
        for folder in sorted(glob.glob(pattern, recursive=True)):
            if pathlib.Path(folder, "libsanitizer-public.so").exists():
                return folder
    sys.exit("measure: no libsanitizer-public.so: give its folder by --sanitizer")


def run(command, timeout, environment=None):
    """stdout, or None with the reason on stderr."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout,
                              env=os.environ | (environment or {}), check=False)
    except subprocess.TimeoutExpired:
        print(f"measure: {pathlib.Path(command[0]).name} took more than {timeout} s", file=sys.stderr)
        return None
    if done.returncode not in (0, 1, 2):
        print(f"measure: status {done.returncode} from {pathlib.Path(command[0]).name}: {done.stderr[-2000:]}", file=sys.stderr)
        return None
    return done.stdout


def timed(build, samples, timeout, environment=None):
    """Of each kernel: the median of its samples in us."""
    out = run([build / "bin" / "kernels13-timed", samples], timeout, environment)
    rows = [json.loads(line) for line in (out or "").splitlines() if line.startswith("{")]
    wrong = [row["kernel"] for row in rows if not row["right"]]
    if wrong:
        sys.exit(f"measure: wrong results of {', '.join(wrong)}")
    return {row["kernel"]: statistics.median(row["us"]) for row in rows}


def peer_environment(build, sanitizer, mode, out):
    return {"CUDA_INJECTION64_PATH": str(build / "lib" / "libxtrace_peer_sanitizer.so"), "LD_LIBRARY_PATH": str(sanitizer),
            "CUDA_MODULE_LOADING": "EAGER", "XTRACE_PEER_MODE": mode, "XTRACE_PEER_OUT": str(out)}


def own(build, work, timeout):
    """Of each kernel: the ratio under each probe, and the records of `mem`, by xtrace replay."""
    bundle, out = work / "kernels13.xtr", work / "report.json"
    xtrace = build / "bin" / "xtrace"
    if run([xtrace, "record", "-o", bundle, "--", build / "bin" / "kernels13"], timeout) is None:
        return {}
    run([xtrace, "replay", bundle, "--probes=" + ",".join(PROBES), "--compare", "--json", out], timeout)
    if not out.exists():
        return {}
    rows = {}
    for launch in report.load(out):
        row = rows[launch["kernel_text"] or launch["kernel"]] = {"clean_us": (launch["clean"]["time"] or {}).get("median_us")}
        for config in launch["configs"]:
            timing = config.get("timing")
            row[config["probe"]] = None if config["refused"] or not timing else {
                "ratio": timing["ratio"], "verdict": config["verdict"], "trace_bytes": config["space"]["trace_bytes"],
                "floor": config.get("floor"),
                "requests": sum(access["requests"] for access in config["table"] or [])}   # of mem: the peer's records
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--sanitizer", type=pathlib.Path, help="folder of libsanitizer-public.so")
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--timeout", type=int, default=120, help="seconds for each process")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "results" / "sanitizer-h200.json")
    arguments = parser.parse_args()
    sanitizer = arguments.sanitizer or find_sanitizer()
    gpu = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], 20)
    if not gpu:
        sys.exit("measure: needs a GPU")
    name, driver = (word.strip() for word in gpu.splitlines()[0].split(","))
    result = {"schema": "xtrace-peer-sanitizer", "schema_version": 1,
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "gpu": name, "driver": driver, "samples": arguments.samples, "kernels": []}
    with tempfile.TemporaryDirectory(prefix="xtrace-peer.") as folder:
        work = pathlib.Path(folder)
        clean = timed(arguments.build, arguments.samples, arguments.timeout)
        peers, records = {}, {}
        for mode in MODES:
            out = work / f"{mode}.json"
            peers[mode] = timed(arguments.build, arguments.samples, arguments.timeout,
                                peer_environment(arguments.build, sanitizer, mode, out))
            if out.exists():
                records[mode] = {row["kernel"]: row for row in json.loads(out.read_text())["kernels"]}
        xtrace = own(arguments.build, work, arguments.timeout)
    for kernel, us in clean.items():
        row = {"kernel": kernel, "clean_us": us, "peer": {}, "xtrace": next(
            (found for text, found in xtrace.items() if kernel in text), None)}
        for mode in MODES:
            if kernel not in peers[mode]:
                row["peer"][mode] = None
                continue
            counted = next((found for text, found in records.get(mode, {}).items() if kernel in text), None)
            row["peer"][mode] = {"us": peers[mode][kernel], "ratio": peers[mode][kernel] / us,
                                 "records": counted["records"] // counted["launches"] if counted and counted["records"] else None}
        result["kernels"].append(row)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print_table(result)
    return 0


def print_table(result):
    names = MODES + ["block", "inst", "mem"]
    print(f"{'kernel':16} {'clean us':>9} " + " ".join(f"{name:>8}" for name in names))
    for row in result["kernels"]:
        cells = [row["peer"][mode] for mode in MODES] + [(row["xtrace"] or {}).get(probe) for probe in PROBES]
        print(f"{row['kernel']:16} {row['clean_us']:9.2f} " + " ".join(f"{c['ratio']:8.3f}" if c and c["ratio"] else f"{'-':>8}"
                                                                       for c in cells))


if __name__ == "__main__":
    sys.exit(main())
