#!/usr/bin/env python3
"""What `xtrace replay --probes=pair,inst --interval-sites=... --json` says of single intervals, a line a kernel.

    intervals.py REPORT.json... [--json OUT] [--fixtures N] [--library N]

--fixtures, --library: exit status 1 unless so many kernels of fixtures/, and of a library (reports with "torch" in their name), add up
to their lifetime within 3 % (median warp), and 90 % of the intervals of 20 cycles and more have converged."""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"))
import report as reports_of  # noqa: E402


def rows(path):
    for report in reports_of.load(path):
        for config in report["configs"]:
            intervals = config.get("intervals")
            if config["probe"] == "pair" and not config.get("refused") and intervals and intervals["sites"]:
                yield report, intervals


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("reports", nargs="+")
    parser.add_argument("--json")
    parser.add_argument("--fixtures", type=int, default=0)
    parser.add_argument("--library", type=int, default=0)
    arguments = parser.parse_args()

    print(f"{'kernel':32} {'sites':>5} {'bars 2/5/10 %':>14} {'converged':>11} {'sum':>9} {'life':>9} {'ratio':>6} {'median':>6} "
          f"{'dense':>6} {'dense 10 %':>10} {'clock':>5} {'s':>6}")
    out, good, long_ones, converged = [], [0, 0], 0, 0
    for path in arguments.reports:
        for report, i in rows(path):
            name = (report.get("kernel_text") or report["kernel"]).split("(")[0].split("::")[-1][:32]
            bars = "/".join(f"{100 * i['error_bars'][k]:.0f}" for k in ("within_2", "within_5", "within_10"))
            sums = i["lifetime_cycles"] is not None
            ratio = i["sum_cycles"] / i["lifetime_cycles"] if sums else None
            dense = i["dense_sum_cycles"] / i["lifetime_cycles"] if sums and i["dense_sum_cycles"] else None
            text = lambda value, form: form.format(value) if value is not None else "-"
            print(f"{name:32} {len(i['sites']):5} {bars:>14} {i['long']['converged']:>5} / {i['long']['of']:<3} "
                  f"{text(i['sum_cycles'], '{:9.0f}'):>9} {text(i['lifetime_cycles'], '{:9.0f}'):>9} {text(ratio, '{:6.3f}'):>6} "
                  f"{text(i['median_warp'], '{:6.3f}'):>6} {text(dense, '{:6.3f}'):>6} {100 * i['dense']['within_10']:>8.0f} % "
                  f"{i['inserted_cycles']:5.2f} {i['seconds']:6.1f}")
            out.append({"kernel": name, **{k: v for k, v in i.items() if k != "sites"}, "sites": len(i["sites"])})
            long_ones += i["long"]["of"]
            converged += i["long"]["converged"]
            good["torch" in pathlib.Path(path).name] += bool(sums and abs(i["median_warp"] - 1) <= 0.03)
    print(f"within 3 %: {good[0]} and {good[1]}; converged: {converged} of {long_ones} of 20 cycles and more")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(out, file, indent=1)
    enough = good[0] >= arguments.fixtures and good[1] >= arguments.library
    wanted = arguments.fixtures or arguments.library
    return 0 if not wanted or (enough and converged >= 0.9 * long_ones) else 1


if __name__ == "__main__":
    sys.exit(main())
