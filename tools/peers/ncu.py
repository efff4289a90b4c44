#!/usr/bin/env python3
"""What Nsight Compute's instruction-level collection costs on kernels13: passes and wall time of each kernel, as JSON
(docs/results/README.md, "Peers"). Needs a GPU, ncu and a build with bin/kernels13."""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

# Executed instructions by address, and the section that `--set source` has for it.
COLLECTIONS = {"inst_executed": ["--metrics", "inst_executed"], "source": ["--section", "SourceCounters"]}
PROFILING = re.compile(r'==PROF== Profiling "([^"]*)"[^\n]*?- (\d+) pass')


def collect(ncu, options, program, timeout):
    """Rows of kernels in order, and the seconds of the whole program. ncu writes a dot for each quarter of a kernel, so the time
    between the beginning and the end of its line is what it took."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [ncu, "--clock-control", "none", *options, "--export", f"{folder}/report", str(program)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        rows, line, started = [], "", None
        try:
            while chunk := child.stdout.read1(4096):
                now = time.monotonic()
                for character in chunk.decode(errors="replace"):
                    line += character
                    if started is None and line.startswith("==PROF== Profiling"):
                        started = now
                    if character != "\n":
                        continue
                    if found := PROFILING.match(line):
                        rows.append({"kernel": found[1], "passes": int(found[2]), "wall_ms": 1000 * (now - started)})
                    elif "ERROR" in line:
                        print(line.rstrip(), file=sys.stderr)
                    line, started = "", None
                if now - begin > timeout:
                    child.kill()
                    print(f"ncu: given up after {timeout} s", file=sys.stderr)
        finally:
            child.wait()
    return rows, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--timeout", type=int, default=300, help="seconds for each collection")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    program = arguments.build / "bin" / "kernels13"
    begin = time.monotonic()
    subprocess.run([program], check=True, capture_output=True)
    result = {"schema": "xtrace-peer-ncu", "schema_version": 1, "version": subprocess.run(
        [ncu, "--version"], capture_output=True, text=True, check=True).stdout.strip().splitlines()[-1],
        "plain_seconds": time.monotonic() - begin, "collections": []}
    for name, options in COLLECTIONS.items():
        rows, seconds = collect(ncu, options, program, arguments.timeout)
        result["collections"].append({"name": name, "options": options, "seconds": seconds, "kernels": rows})
        print(f"{name}: {len(rows)} kernels in {seconds:.1f} s")
        for row in rows:
            print(f"  {row['kernel']:16} {row['passes']:3} passes {row['wall_ms']:9.1f} ms")
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
