#!/usr/bin/env python3
"""Occupancy of every recorded kernel under block and inst, on the interpreter, against docs/occupancy.md.

    occupancy.py --xtrace PROGRAM [--update]      --update writes the table

Fails when a row differs from the table, when a kernel that was spliced loses a CTA and is not listed, and when fewer than 90 % of the
kernels keep all."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLES = ["kernels13-small", "hard_cases-small", "wgmma_bfloat16-small", "dependent_launch-small"]
PROBES = ["block", "inst"]
TABLE = ROOT / "docs" / "occupancy.md"
HEAD = """# Occupancy under probes

CTAs that fit on an SM (sm_90) and registers a thread, of the recorded launches of [fixtures](../fixtures/MANIFEST.md), without a probe
and under `block` and `inst`. Records live in registers that are dead where the probe needs them, or in those that the hardware
allocates anyway (it counts in eights): no kernel that can be spliced loses a CTA. `tests/scripts/occupancy.py` writes this table and, as
a test, holds it against the splicer.

| kernel | CTAs/SM | block | inst | registers | block | inst |
|---|---|---|---|---|---|---|
"""


def replay(xtrace, bundle):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "report.json"
        done = subprocess.run([xtrace, "replay", ROOT / "fixtures" / "bundles" / f"{bundle}.xtr", "--backend=interp", "--quiet",
                               "--probes=" + ",".join(PROBES), "--traces", folder, "--json", out], capture_output=True, text=True,
                              check=False)
        if not out.exists():
            sys.exit(f"occupancy: status {done.returncode}: {done.stderr[-2000:]}")
        return json.loads(out.read_text())


def first_sentence(text):
    """Of an error, without the words of the instruction and the folder of the source."""
    return text.split(": ", 1)[1].split(" (word")[0] if text.startswith("kernel ") else text.split(":")[0]


def rows(xtrace):
    """Lines of the table, kernels that were spliced, and those of them that lose CTAs."""
    lines, spliced, lost = [], [], []
    for bundle in BUNDLES:
        document = replay(xtrace, bundle)
        for launch in document["launches"]:
            name = (launch["kernel_text"] or launch["kernel"]).split("(")[0]
            refused = next((config["refused"] for config in launch["configs"] if config["refused"]), None)
            if refused:
                lines.append(f"| {name} | refused: {first_sentence(refused)} | | | | | |")
                continue
            space = [config["space"] for config in launch["configs"]]
            ctas = [space[0]["ctas_per_sm"]["before"]] + [s["ctas_per_sm"]["after"] for s in space]
            registers = [space[0]["registers"]["before"]] + [s["registers"]["after"] for s in space]
            lines.append(f"| {name} | " + " | ".join(map(str, ctas + registers)) + " |")
            spliced.append(name)
            if min(ctas) < ctas[0]:
                lost.append(name)
        for error in document["errors"]:
            lines.append(f"| launch {error['launch']} of {bundle} | not run: {first_sentence(error['error'])} | | | | | |")
    return lines, spliced, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xtrace", required=True)
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    lines, spliced, lost = rows(arguments.xtrace)
    table = HEAD + "\n".join(lines) + "\n"
    if arguments.update:
        TABLE.write_text(table)
    print(f"occupancy: {len(spliced)} kernels spliced, {len(spliced) - len(lost)} of them keep every CTA; lost: {', '.join(lost) or 'none'}")
    if len(spliced) < 36:
        sys.exit("occupancy: fewer kernels were spliced than there are")
    if len(lost) > len(spliced) // 10:
        sys.exit("occupancy: fewer than 90 % keep their CTAs")
    if TABLE.read_text() != table:
        for old, new in zip(TABLE.read_text().splitlines(), table.splitlines()):
            if old != new:
                print(f"  {TABLE.name}: {old}\n  found:        {new}")
        sys.exit(f"occupancy: {TABLE} differs; --update writes what was found")


if __name__ == "__main__":
    main()
