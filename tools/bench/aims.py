#!/usr/bin/env python3
"""Holds a result of h200.py against the project's aims: met or not, and of each launch that misses one what the probe's own work takes.

  tools/bench/aims.py [FILE]...

Several files (the dense bench, one of rotated samples) are read as one. Behind a ratio that misses, with its 95 % interval: the
largest part of the work if it overlaps with nothing (`floor.added`), all parts one after the other (`floor.in_turn`), and which
of them accounts for the figure:

  part     the ratio is no more than the largest part: the aim is not within reach of this work
  in turn  it is no more than all parts one after the other
  aim      it is above its floor, but its interval reaches down to the aim
  ABOVE    none of these: the probe costs more than its work accounts for

Exit status: 0 all met, 2 some missed but all accounted for, 1 some above."""
import argparse
import dataclasses
import json
import math
import pathlib
import sys

import markdown

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Aim:
    text: str
    limit: float
    probe: str = ""          # empty: every probe
    sample: str = "all"      # how the sample begins
    rotated: bool = False    # the median part of a rotation
    waves: float = 0         # launches of at least so many
    mean: bool = False       # the geometric mean over the launches, not each of them


AIMS = [
    Aim("block, geometric mean", 1.03, "block", mean=True),
    Aim("block, each launch", 1.15, "block"),
    Aim("inst, geometric mean", 1.30, "inst", mean=True),
    Aim("inst, each launch", 2.0, "inst"),
    Aim("mem, each launch", 2.0, "mem"),
    Aim("pair, median site", 1.01, "pair"),
    Aim("every probe at cta:1/16, four waves and more", 1.02, sample="cta:1/16", waves=4),
    Aim("rotated, median part", 1.01, sample="", rotated=True),
]


def rows(results, aim):
    """Timed configurations that the aim is about, each with its launch."""
    for result in results:
        for program in result["programs"]:
            for launch in program["launches"]:
                for config in launch["configurations"]:
                    if config["refused"] or not config["ratio"] or bool(config.get("rotated")) != aim.rotated:
                        continue
                    if aim.probe not in ("", config["probe"]) or (launch["waves"] or 0) < aim.waves:
                        continue
                    sampled = config["sample"] == aim.sample if not aim.rotated else True
                    # `pair` samples CTAs of its own accord, and is judged as it is.
                    if sampled or (aim.probe == "pair" and config["probe"] == "pair"):
                        yield launch, config


def account(config, limit):
    floor = config["floor"] or {}
    if config["ratio"] <= floor.get("added", 0):
        return "part"
    if config["ratio"] <= floor.get("in_turn", 0):
        return "in turn"
    if config["ratio_low"] <= limit:
        return "aim"
    return "ABOVE"


def line(launch, config, kind):
    floor = config["floor"]
    floors = f"{floor['added']:.3f} ({floor['bound']}), in turn {floor.get('in_turn', float('nan')):.3f}" if floor else "no floor"
    return (f"    {kind:8} {config['probe']:6} {config['sample']:10} {markdown.short(launch['kernel']):40} "
            f"{config['ratio']:.3f} [{config['ratio_low']:.3f}, {config['ratio_high']:.3f}]  {floors}")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def check_mean(aim, members):
    ratio = geometric_mean([config["ratio"] for _, config in members])
    floored = [config["floor"] for _, config in members if config["floor"]]
    met = ratio <= aim.limit
    print(f"{'met   ' if met else 'MISSED'} {aim.text} {aim.limit}: {ratio:.3f} over {len(members)} launches")
    if met:
        return "met"
    added = geometric_mean([floor["added"] for floor in floored])
    in_turn = geometric_mean([floor.get("in_turn", floor["added"]) for floor in floored])
    kind = "part" if ratio <= added else "in turn" if ratio <= in_turn else "ABOVE"
    print(f"    {kind:8} geometric mean of the largest parts {added:.3f}, in turn {in_turn:.3f}")
    return kind


def check_each(aim, members):
    missed = [(launch, config) for launch, config in members if config["ratio"] > aim.limit]
    worst = max(config["ratio"] for _, config in members)
    print(f"{'MISSED' if missed else 'met   '} {aim.text} {aim.limit}: {len(members) - len(missed)} of {len(members)}, worst {worst:.3f}")
    kinds = set()
    for launch, config in sorted(missed, key=lambda row: -row[1]["ratio"]):
        kind = account(config, aim.limit)
        kinds.add(kind)
        print(line(launch, config, kind))
    return "met" if not missed else "ABOVE" if "ABOVE" in kinds else "in turn"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=[ROOT / "docs" / "results" / "h200.json"])
    results = [json.loads(path.read_text()) for path in parser.parse_args().files]
    for result in results:
        print(f"{result['gpu']}, driver {result['driver']}, {result['date']}, commit {result['commit'][:7]}")
    kinds = set()
    for aim in AIMS:
        members = list(rows(results, aim))
        if not members:
            print(f"not measured: {aim.text} {aim.limit}")
            kinds.add("ABOVE")   # not shown to be met
            continue
        kinds.add((check_mean if aim.mean else check_each)(aim, members))
    return 1 if "ABOVE" in kinds else 0 if kinds == {"met"} else 2


if __name__ == "__main__":
    sys.exit(main())
