#!/usr/bin/env python3
"""Measures xtrace on a GPU and writes docs/results/h200.json (fields: docs/results/README.md).

For each program: its time without and with recording, then a replay of the recording under every probe. Normally run by
`tools/dev bench`. The commit is taken from --commit, else XTRACE_COMMIT, else git."""
import argparse
import ctypes
import datetime
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
APPS = ROOT / "fixtures" / "apps"
SCHEMA, VERSION = "xtrace-bench", 4
# Rotation over every instruction of library kernels takes minutes; a few sites say what a pair costs.
PAIR_SITES = {"kernels13": 512, "hard_cases": 8, "many_waves": 8, "torch_ops": 8}
PROBES = "block,inst,pair,mem"
# What the probes record that are told so: two registers, a clock and a register, at every instruction; the first block as a region.
ASKED = {"reg": "--regs=R0,R2", "range": "--range=block:0", "custom": "--custom=at not class:branch record clock, R0"}


class BenchError(Exception):
    pass


def run(command, allowed=(0,)):
    """Runs to the end; returns (seconds, stdout). Any status not allowed stops the benchmark with what was printed."""
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in allowed:
        words = " ".join(str(word) for word in command)
        raise BenchError(f"status {done.returncode} from: {words}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return seconds, done.stdout


def find_commit(given):
    commit = given or os.environ.get("XTRACE_COMMIT")
    if commit:
        return commit
    git = ["git", "-C", str(ROOT)]
    try:
        head = run([*git, "rev-parse", "HEAD"])[1].strip()
        dirty = run([*git, "status", "--porcelain", "--untracked-files=no"])[1].strip()
    except (BenchError, OSError) as error:
        raise BenchError(f"no commit: give --commit or XTRACE_COMMIT, since git does not say ({error})") from error
    return head + ("-dirty" if dirty else "")


def gpu_and_driver():
    line = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])[1].splitlines()[0]
    name, driver = (word.strip() for word in line.split(","))
    return name, driver


def sm_count():
    """Of device 0, as the driver says."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, count = ctypes.c_int(), ctypes.c_int()
    multiprocessor_count = 16   # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    for status in (driver.cuInit(0), driver.cuDeviceGet(ctypes.byref(device), 0),
                   driver.cuDeviceGetAttribute(ctypes.byref(count), multiprocessor_count, device)):
        if status != 0:
            raise BenchError(f"the driver does not say how many SMs there are: status {status}")
    return count.value


def folder_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_recording(xtrace, command, bundle, repeats):
    run(command)  # caches warm, lazily compiled code there
    plain, recorded = [], []
    for _ in range(repeats):
        plain.append(run(command)[0])
        shutil.rmtree(bundle, ignore_errors=True)
        recorded.append(run([xtrace, "record", "-o", bundle, "--", *command])[0])
    listing = json.loads(run([xtrace, "ls", bundle, "--json"])[1])
    good = [launch for launch in listing["launches"] if launch["status"] == "recorded"]
    plain_median, recorded_median = statistics.median(plain), statistics.median(recorded)
    return {
        "plain_seconds": plain,
        "recorded_seconds": recorded,
        "plain_median_seconds": plain_median,
        "recorded_median_seconds": recorded_median,
        "ratio": recorded_median / plain_median,
        "launches_seen": listing["launches_seen"],
        "launches_recorded": len(good),
        "memory_bytes": listing["raw_bytes"],
        "bundle_bytes": folder_bytes(bundle),
        "recorder_seconds": sum(launch["snapshot_seconds"] for launch in good),
    }


def configuration(config):
    row = {"probe": config["probe"], "sample": config["sample"], "refused": config["refused"]}
    if config["refused"]:
        return row
    timing, space = config["timing"], config["space"]
    measured = timing is not None and timing["measured"]
    row |= {"verdict": config["verdict"], "aspects": config["aspects"]}
    row |= {key: timing[key] if measured else None for key in ("ratio", "ratio_low", "ratio_high", "rounds")}
    row |= {"floor": config.get("floor"), "records": config["records"], "trace_bytes": space["trace_bytes"] if space else None}
    row |= {key: space[key] if space else None for key in ("registers", "ctas_per_sm", "local_bytes", "code_bytes")}
    return row


def rotated(rotation, parts):
    """One row of all parts of sparse sites or of CTAs (--rotate): what the median part costs, and each. `parts`: their configurations, or the
    one that merges them."""
    tried = [config for config in parts if not config["refused"]]
    order = ["not trusted", "inconclusive", "trusted"]
    worst = lambda verdicts: min(verdicts, key=order.index)
    row = {"probe": rotation["probe"], "sample": rotation["sample"], "rotated": True, "refused": None,
           "verdict": worst([config["verdict"] for config in tried]),
           "aspects": {aspect: worst([config["aspects"][aspect] for config in tried]) for aspect in tried[0]["aspects"]}}
    row |= {key: rotation[key] for key in ("ratio", "ratio_low", "ratio_high", "rounds", "floor")}
    row |= {"records": sum(part["records"] for part in rotation["parts"]), "parts": rotation["parts"]}
    return row


def configurations(replayed):
    """A row for each configuration, and one for all parts of a rotation."""
    rotations = {(r["probe"], r["sample"]): r for r in replayed["rotations"]}
    members = {key: [] for key in rotations}
    rows = []
    for config in replayed["configs"]:
        key = (config["probe"], config["sample"].split("+")[0])
        if key not in rotations:
            rows.append(configuration(config))
            continue
        members[key].append(config)
    return rows + [rotated(rotations[key], parts) for key, parts in members.items()]


def waves_of(replayed, sms):
    """CTAs of the launch over the CTAs that the device holds at a time; None where every configuration is refused."""
    held = [config["space"]["ctas_per_sm"]["before"] for config in replayed["configs"] if config.get("space")]
    return math.prod(replayed["grid"]) / (held[0] * sms) if held and held[0] else None


def launch_row(replayed, sms):
    clean = replayed["clean"]
    times = clean["time"] or {}
    return {
        "launch": replayed["launch"],
        "kernel": replayed["kernel"],
        "grid": replayed["grid"],
        "block": replayed["block"],
        "waves": waves_of(replayed, sms),
        "clean_us": times.get("median_us"),
        "clean_q1_us": times.get("q1_us"),
        "clean_q3_us": times.get("q3_us"),
        "noise_floor": clean["noise_floor"],
        "configurations": configurations(replayed),
    }


def replay(arguments, bundle, sms, out, pair_sites, kernels):
    """The replay itself times every launch in fresh processes. `kernels`: a regular expression of those that are replayed; empty: all."""
    # The traces are thrown away, so that no timelines are drawn.
    command = [arguments.build / "bin" / "xtrace", "replay", bundle, f"--probes={arguments.probes}", "--compare", "--json", out,
               *(option for probe, option in ASKED.items() if probe in arguments.probes.split(",")), *([f"--kernel={kernels}"] if kernels else []),
               *([] if "usual" in arguments.sample else [f"--pair-sites={pair_sites}"]), "--interval-sites=1", f"--processes={arguments.processes}",
               f"--time-limit={arguments.time_limit}", "--max-slices=1000", "--quiet", *(f"--sample={sample}" for sample in arguments.sample if sample != "usual")]
    if arguments.rotate or any("site:" in sample for sample in arguments.sample):
        command.append("--rotate")
    run(command, allowed=(0, 1, 2))   # verdicts; each is a result
    return [launch_row(replayed, sms) for replayed in report.load(out)]


def summarise(program):
    """Of each probe and sample; sparse samples once more over the launches of four waves and more, where a traced CTA need not be
    the tail."""
    groups = {}
    for launch in program["launches"]:
        for row in launch["configurations"]:
            groups.setdefault((row["probe"], row["sample"]), []).append(row)
            if row["sample"] != "all" and not row.get("rotated") and (launch["waves"] or 0) >= 4:
                groups.setdefault((row["probe"], row["sample"] + ", 4 waves and more"), []).append(row)
    rows = []
    for (probe, sample), members in groups.items():
        ratios = [row["ratio"] for row in members if not row["refused"] and row["ratio"]]
        rows.append({
            "program": program["name"],
            "probe": probe,
            "sample": sample,
            "launches": len(ratios),
            "ratio_median": statistics.median(ratios) if ratios else None,
            "ratio_geometric_mean": math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None,
            "ratio_worst": max(ratios, default=None),
            "refused": sum(1 for row in members if row["refused"]),
        })
    return rows


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode == 0


def bench(arguments, work):
    xtrace = arguments.build / "bin" / "xtrace"
    programs = {name: [arguments.build / "bin" / name] for name in ("kernels13", "hard_cases", "many_waves")}
    if has_torch():
        programs["torch_ops"] = [sys.executable, APPS / "torch_ops.py"]
    else:
        print("bench: PyTorch is not installed, torch_ops is left out", flush=True)
    only = dict(only.partition(":")[::2] for only in arguments.only or [])
    if only:
        missing = set(only) - programs.keys()
        if missing:
            raise BenchError(f"no program {', '.join(sorted(missing))} here")
        programs = {name: programs[name] for name in only}

    gpu, driver = gpu_and_driver()
    sms = sm_count()
    result = {
        "schema": SCHEMA,
        "schema_version": VERSION,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": find_commit(arguments.commit),
        "gpu": gpu,
        "driver": driver,
        "programs": [],
        "summary": [],
    }
    for name, command in programs.items():
        bundle = work / f"{name}.xtr"
        print(f"bench: {name}: recording", flush=True)
        program = {"name": name, "command": [pathlib.Path(word).name for word in command]}
        program["recording"] = measure_recording(xtrace, command, bundle, arguments.repeats)
        print(f"bench: {name}: replay", flush=True)
        program["launches"] = replay(arguments, bundle, sms, work / "report.json", PAIR_SITES[name], only.get(name, ""))
        result["programs"].append(program)
        result["summary"] += summarise(program)
        write(arguments.out, result)   # what is measured is kept, also when the next program fails
    return result


def write(path, result):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def print_summary(result):
    for program in result["programs"]:
        cost = program["recording"]
        print(f"{program['name']}: {cost['plain_median_seconds']:.2f} s, recorded {cost['recorded_median_seconds']:.2f} s "
              f"({cost['launches_recorded']} of {cost['launches_seen']} launches, {cost['bundle_bytes']} bytes)")
    for row in result["summary"]:
        ratios = "no timing" if row["ratio_median"] is None else (
            f"median {row['ratio_median']:.3f}, geometric mean {row['ratio_geometric_mean']:.3f}, "
            f"worst {row['ratio_worst']:.3f}")
        print(f"{row['program']:10} {row['probe']:6} {row['sample']:27} {row['launches']:3} launches, "
              f"{row['refused']} refused: {ratios}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), required=True,
                        help="folder with bin/xtrace")
    parser.add_argument("--commit", help="of the sources that were built")
    parser.add_argument("--only", action="append", metavar="PROGRAM[:KERNELS]",
                        help="kernels13, hard_cases, many_waves or torch_ops; of its kernels those whose name matches this regular expression")
    parser.add_argument("--sample", action="append", metavar="all|cta:1/N|site:1/N|usual",
                        help="sampling rate (default: all and cta:1/16); sites are rotated: all N parts, and the median of them; usual: what "
                        "xtrace takes by itself (pair)")
    parser.add_argument("--rotate", action="store_true", help="over the CTAs of cta:1/N as well")
    parser.add_argument("--probes", default=PROBES, help=f"with commas (default: {PROBES})")
    parser.add_argument("--processes", type=int, default=5, help="processes that time a launch")
    parser.add_argument("--time-limit", type=float, default=10, help="seconds for timing a launch that stays undecided")
    parser.add_argument("--repeats", type=int, default=5, help="samples of the time with and without recording")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "results" / "h200.json")
    arguments = parser.parse_args()
    arguments.sample = arguments.sample or ["all", "cta:1/16"]
    if any("site:" in s for s in arguments.sample) and any("cta:1/" in s and "site:" not in s for s in arguments.sample) and not arguments.rotate:
        parser.error("sites are rotated, and with them CTAs of cta:1/N in the same run: say so with --rotate, or measure them apart")
    try:
        with tempfile.TemporaryDirectory(prefix="xtrace-bench.") as work:
            result = bench(arguments, pathlib.Path(work))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 3
    print_summary(result)
    print(f"bench: wrote {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
