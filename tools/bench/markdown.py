#!/usr/bin/env python3
"""Prints a result of h200.py as the tables of docs/performance.md: ratios, and behind each what the probe's largest part takes if
it overlaps with nothing (`floor.added`), where the ratio lies above that also what all its parts take one after the other
(`floor.in_turn`). Of a rotated sample (site:1/N) the median part, and the lowest and highest of them.

  tools/bench/markdown.py [FILE] [--sample all] [--probe block ...]"""
import argparse
import json
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def cell(config):
    if config is None:
        return ""
    if config["refused"]:
        return "refused"
    if not config["ratio"]:
        return "not timed"
    floor = config["floor"]
    text = f"{config['ratio']:.3f}"
    parts = [part["ratio"] for part in config.get("parts", []) if part["ratio"]]
    if parts:
        text += f", parts {min(parts):.3f} to {max(parts):.3f}"
    if floor:
        above = config["ratio"] > floor["added"] and "in_turn" in floor
        text += f" ({floor['added']:.2f} {floor['bound']}{', %.2f in turn' % floor['in_turn'] if above else ''})"
    return text + ("" if config["aspects"]["semantics"] == "trusted" else " " + config["verdict"])


def short(kernel):
    """Names of templates are long: what tells them apart is in the JSON. The function's own name, without namespaces and
    arguments, where c++filt is there; never longer than 40 characters."""
    if kernel.startswith("_Z") and shutil.which("c++filt"):
        kernel = subprocess.run(["c++filt", kernel], capture_output=True, text=True, check=True).stdout.strip()
        kernel = kernel.replace("(anonymous namespace)", "").split("<")[0].split("(")[0].split()[-1].split("::")[-1]
    return kernel if len(kernel) <= 40 else kernel[:37] + "..."


def table(program, probes, sample):
    yield "| kernel | waves | clean, us | " + " | ".join(probes) + " |"
    yield "|---|---|---|" + "---|" * len(probes)
    for launch in program["launches"]:
        configs = {c["probe"]: c for c in launch["configurations"] if c["sample"] == sample}
        clean = "" if launch["clean_us"] is None else f"{launch['clean_us']:.1f}"
        waves = "" if launch["waves"] is None else f"{launch['waves']:.2g}"
        yield f"| `{short(launch['kernel'])}` | {waves} | {clean} | " + " | ".join(cell(configs.get(p)) for p in probes) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=ROOT / "docs" / "results" / "h200.json")
    parser.add_argument("--sample", default="all")
    parser.add_argument("--probe", action="append")
    arguments = parser.parse_args()
    result = json.loads(arguments.file.read_text())
    print(f"{result['gpu']}, driver {result['driver']}, {result['date']}, commit {result['commit'][:7]}\n")
    for program in result["programs"]:
        print(f"{program['name']}\n")
        print("\n".join(table(program, arguments.probe or ["block", "inst", "mem", "pair"], arguments.sample)) + "\n")
    print("| program | probe | sample | launches | refused | median | geometric mean | worst |\n|---|---|---|---|---|---|---|---|")
    for row in result["summary"]:
        figures = ("" if row[k] is None else f"{row[k]:.3f}" for k in ("ratio_median", "ratio_geometric_mean", "ratio_worst"))
        print(f"| {row['program']} | {row['probe']} | {row['sample']} | {row['launches']} | {row['refused']} | " + " | ".join(figures) + " |")


if __name__ == "__main__":
    main()
