#!/usr/bin/env python3
"""Where `inst` places the clocks that it does not read, against a replay that reads all of them.

    xtrace replay run.xtr --probes=inst --sample=all --sample=clocks:all --compare --traces FOLDER
    implied_clocks.py FOLDER

Between two clocks that were read, where on the way is each instruction: by the mean over all its executions, in the one and in the other
replay, as parts of the way. The difference is given in cycles of the way in the replay by default. A line a kernel, and one for all."""
import argparse
import json
import pathlib
import statistics

DENSE = "-clocksall"


def spans(rows):
    """Runs of rows of a block from one clock that was read to the next, with implied ones in between."""
    rows = sorted(rows, key=lambda row: row["pc"])
    read = [k for k, row in enumerate(rows) if row["clock"] == "read"]
    return [rows[first:last + 1] for first, last in zip(read, read[1:]) if last > first + 1]


def differences(rows, dense):
    every = {row["pc"]: row["offset_mean_cycles"] for row in dense}
    blocks = {}
    for row in rows:
        if row["warps"] and row["offset_mean_cycles"] is not None:
            blocks.setdefault(row["block"], []).append(row)
    found = []
    for span in (span for block in blocks.values() for span in spans(block)):
        here = [row["offset_mean_cycles"] for row in span]
        there = [every[row["pc"]] for row in span]
        if here[-1] <= here[0] or there[-1] <= there[0]:
            continue
        found += [abs((a - here[0]) / (here[-1] - here[0]) - (b - there[0]) / (there[-1] - there[0])) * (here[-1] - here[0])
                  for a, b in zip(here[1:-1], there[1:-1])]
    return found


def line(name, found):
    within = [sum(d <= most for d in found) / len(found) for most in (4, 16)]
    return (f"| {name} | {len(found)} | {statistics.median(found):.1f} | {100 * within[0]:.0f} % | {100 * within[1]:.0f} % | "
            f"{sorted(found)[int(0.9 * len(found))]:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="+", help="of the traces")
    arguments = parser.parse_args()
    print("| kernel | implied clocks | median, cycles | within 4 | within 16 | 90 % within |\n|---|---|---|---|---|---|")
    total = []
    for folder in arguments.folder:
        for path in sorted(folder.glob(f"launch*{DENSE}.json")):
            rows = json.loads(path.with_name(path.name.replace(DENSE, "")).read_text())
            found = differences(rows, json.loads(path.read_text()))
            if found:
                print(line(path.name.removesuffix(f"{DENSE}.json").split("-", 1)[1], found))
            total += found
    if not total:
        parser.error("no instruction tables of both replays there")
    print(line("all", total))


if __name__ == "__main__":
    main()
