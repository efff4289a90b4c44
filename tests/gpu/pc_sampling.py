#!/usr/bin/env python3
"""Where the time of a kernel is: single intervals as `xtrace replay --probes=pair,inst --interval-sites=... --json` has them, beside
how often the hardware's sampler found a warp in front of each instruction (`ncu_counts.py samples`).

    pc_sampling.py REPORT.json SAMPLES.json

One line: how many instructions were compared, the part of all samples that fell on them, and the distance (half of the sum of the
absolute differences of shares: 0 the same, 1 nothing in common) of the estimated intervals, of the pair table and of the dense trace
from the samples. Exit status 1 unless the estimate is nearer than 0.2 and than half of the dense trace's distance."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"))
import report as reports_of  # noqa: E402

FARTHEST, PART_OF_DENSE = 0.2, 0.5


def distance(weights, samples):
    total, seen = sum(weights), sum(samples)
    if not total or not seen:
        return 1.0
    return 0.5 * sum(abs(w / total - s / seen) for w, s in zip(weights, samples))


def compare(sites, instructions):
    """(instructions compared, part of the samples on them, distances by name). What the sampler counts behind the last EXIT, where warps
    wait for their stores, and instructions without an interval of their own are on no side."""
    samples = {i["pc"]: i["samples"] for i in instructions}
    sites = [s for s in sites if s["dense"] and s["measured"] is not None and s["pc"] in samples]
    seen = [samples[s["pc"]] for s in sites]
    times = {"estimate": "cycles", "table": "measured", "dense": "dense"}
    distances = {name: distance([s[key] * s["executions"] for s in sites], seen) for name, key in times.items()}
    return len(sites), sum(seen) / max(1, sum(samples.values())), distances


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    [report] = reports_of.load(sys.argv[1])
    sampled = json.loads(pathlib.Path(sys.argv[2]).read_text())
    intervals = reports_of.config_of(report, "pair")["intervals"]
    count, part, far = compare(intervals["sites"], sampled["instructions"])
    good = far["estimate"] < min(FARTHEST, PART_OF_DENSE * far["dense"])
    print(f"{sampled['kernel']:20} {count:4} instructions, {100 * part:3.0f} % of {sum(i['samples'] for i in sampled['instructions'])} samples; "
          f"distance: estimate {far['estimate']:.3f}, table {far['table']:.3f}, dense trace {far['dense']:.3f}{'' if good else ' FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
