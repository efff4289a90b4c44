#!/usr/bin/env python3
"""What the scripts of this folder expect of bundles and reports. Each command prints what it checked; exit status 1, with
every difference on a line, when an expectation does not hold."""
import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"))
import report  # noqa: E402

IDENTICAL = {"output-equal"}
# Bytes differ only where clean replays differ among themselves; the second: every byte the kernel writes is of that kind; the
# third: or may be, as the kernel adds floating-point numbers in memory.
UNSTABLE_ONLY = IDENTICAL | {"output-unstable", "output-all-unstable", "output-unsettled"}


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def recorded(listing):
    return [launch for launch in listing["launches"] if launch["status"] == "recorded"]


def check_bundle(arguments):
    listing, wrong = read(arguments.listing), []
    launches, good = listing["launches"], recorded(listing)
    if arguments.state and listing["state"] != arguments.state:
        wrong.append(f"state: expected {arguments.state}, found {listing['state']}")
    if len(good) < arguments.recorded_at_least:
        wrong.append(f"recorded launches: expected at least {arguments.recorded_at_least}, found {len(good)}")
    kernels = {launch["kernel"] for launch in good}
    if len(kernels) < arguments.kernels_at_least:
        wrong.append(f"distinct kernels: expected at least {arguments.kernels_at_least}, found {len(kernels)}")
    skipped = [launch for launch in launches if launch["status"] == "skipped"]
    wrong += [f"launch {launch['ordinal']} is skipped without a reason" for launch in skipped if not launch.get("skip_reason")]
    if arguments.all_recorded:
        wrong += [f"launch {launch['ordinal']} is skipped: {launch.get('skip_reason')}" for launch in skipped]
    if arguments.not_all_recorded and listing["state"] == "complete" and not skipped:
        wrong.append("expected an incomplete bundle or a skipped launch, found a complete bundle without any")
    print(f"bundle: {listing['state']}, {len(good)} recorded of {len(kernels)} kernels, {len(skipped)} skipped")
    return wrong


def print_last_recorded(arguments):
    print(recorded(read(arguments.listing))[-1]["ordinal"])
    return []


def check_replay(arguments):
    reports, wrong = report.load(arguments.report), []
    if arguments.launches is not None and len(reports) != arguments.launches:
        wrong.append(f"reports: expected {arguments.launches}, found {len(reports)}")
    for launch in reports:
        name = f"launch {launch['launch']} {launch['kernel']}"
        outputs = UNSTABLE_ONLY if launch["kernel"] in arguments.nondeterministic else IDENTICAL
        if not launch["configs"]:
            wrong.append(f"{name}: no configuration")
        for config in launch["configs"]:
            here = f"{name} {config['probe']} {config['sample']}"
            if config["refused"]:
                print(f"{here}: refused: {config['refused']}")
                if not arguments.may_refuse:
                    wrong.append(f"{here}: refused: {config['refused']}")
                continue
            found = report.codes(config)
            print(f"{here}: {config['verdict']}: {report.reasons_text(config)}")
            if not found & outputs:
                wrong.append(f"{here}: expected one of {sorted(outputs)}, found {sorted(found)}")
            faithful = {"replay-faithful"} | ({"replay-unsettled"} if outputs is UNSTABLE_ONLY else set())
            if not found & faithful:
                wrong.append(f"{here}: the clean replay does not equal the recorded launch: {sorted(found)}")
            if config["aspects"]["semantics"] == "not trusted":
                wrong.append(f"{here}: semantics not trusted: {report.reasons_text(config)}")
            # A note (count_changed) takes nothing from the trace.
            if any(loss["count"] for loss in config["losses"] if loss.get("severity") != "note"):
                wrong.append(f"{here}: losses: {config['losses']}")
    print(f"replay: {len(reports)} launches, {sum(len(r['configs']) for r in reports)} configurations")
    return wrong


def inst_tables(path, wrong):
    """kernel -> rows of its instruction table."""
    tables = {}
    for launch in report.load(path):
        config = report.config_of(launch, "inst")
        table = report.table_of(launch, config) if config and not config["refused"] else None
        if table is None:
            why = report.reasons_text(config) if config else "no such configuration"
            wrong.append(f"launch {launch['launch']} {launch['kernel']}: no table of the inst trace: {why}")
        else:
            tables[launch["kernel"]] = table
    return tables


def brx_reissues(table):
    """How much oftener the hardware issues BRX than warps come to it: once for each distinct target of the lanes [measured
    H200: equal to smsp__inst_executed.sum to the last warp; ncu's counts by instruction, like ours, are of warps that come].
    The targets are the blocks that are neither fallen into nor named by a direct branch."""
    brx = [row for row in table if row["sass"].startswith("BRX") or " BRX" in row["sass"]]
    if not brx:
        return 0
    named = {int(text, 16) for row in table for text in re.findall(r"^(?:@\S+ )?(?:BRA|BSSY)\b.*?(0x[0-9a-f]+)$", row["sass"])}
    entered = sum(row["warps"] for before, row in zip(table, table[1:])
                  if row["block"] != before["block"] and row["pc"] not in named
                  and re.fullmatch(r"BRA 0x[0-9a-f]+|BRX\b.*|EXIT|RET\b.*", before["sass"]))
    return entered - sum(row["warps"] for row in brx)


def check_totals(arguments):
    wrong = []
    tables = inst_tables(arguments.report, wrong)
    counted = {row["kernel"]: row["warp_instructions"] for row in read(arguments.ncu)}
    for kernel, expected in counted.items():
        table = tables.get(kernel)
        found = sum(row["warps"] for row in table) + brx_reissues(table) if table else None
        print(f"{kernel:20} ncu {expected:>14,}  trace {'-' if found is None else format(found, ','):>14}")
        if found != expected:
            wrong.append(f"{kernel}: executed instructions: ncu {expected}, trace {found}")
    wrong += [f"{kernel}: traced, but not seen by ncu" for kernel in tables.keys() - counted.keys()]
    return wrong


def check_instructions(arguments):
    wrong, ncu = [], read(arguments.ncu)
    kernel = ncu["kernel"]
    table = {row["pc"]: row for row in inst_tables(arguments.report, []).get(kernel, [])}
    if not table:
        return [f"{kernel}: no table of the inst trace"]
    for expected in ncu["instructions"]:
        # An instruction that the table leaves out is taken as not executed.
        row = table.pop(expected["pc"], {"warps": 0, "threads": 0})
        if (row["warps"], row["threads"]) != (expected["warps"], expected["lanes"]):
            wrong.append(f"{kernel} {expected['pc']:#x} {expected['sass']}: ncu {expected['warps']} warps "
                         f"{expected['lanes']} lanes, trace {row['warps']} warps {row['threads']} lanes")
    wrong += [f"{kernel} {pc:#x}: in the trace, but not in ncu's listing" for pc in table if table[pc]["warps"]]
    print(f"{kernel}: {len(ncu['instructions'])} instructions compared, warps and lanes")
    return wrong


def check_memory(arguments):
    """Sectors of global accesses and wavefronts of shared ones, instruction by instruction."""
    wrong, ncu = [], read(arguments.ncu)
    kernel = ncu["kernel"]
    config = next((report.config_of(r, "mem") for r in report.load(arguments.report) if r["kernel"] == kernel), None)
    rows = config.get("table") if config and not config["refused"] else None
    if not rows:
        return [f"{kernel}: no table of the mem trace: {report.reasons_text(config) if config else 'no such configuration'}"]
    expected = {row["pc"]: row for row in ncu["instructions"]}
    compared = 0
    for row in rows:
        what = {"global": "sectors", "shared": "wavefronts"}.get(row["space"])
        if what is None:
            continue
        counted = expected[row["pc"]]
        print(f"{kernel} {row['pc']:#x} {row['space']} {row['kind']} {row['bytes']}: requests {row['requests']:,} "
              f"{what} ncu {counted[what]:,} trace {row[what]:,}  {row['sass']}")
        compared += 1
        if row[what] != counted[what]:
            wrong.append(f"{kernel} {row['pc']:#x} {row['sass']}: {what}: ncu {counted[what]}, trace {row[what]}")
    traced = {row["pc"] for row in rows}
    wrong += [f"{kernel} {pc:#x} {row['sass']}: {row['sectors']} sectors and {row['wavefronts']} wavefronts by ncu, not in the trace"
              for pc, row in expected.items() if (row["sectors"] or row["wavefronts"]) and pc not in traced]
    print(f"{kernel}: {compared} accesses compared")
    return wrong


PATHS = {"path-equal", "path-waited"}


def waits_for_others(config):
    """Its warps do: how often such loops go round differs each time, in the trace or not."""
    text = report.reasons_text(config)
    return "path-waited" in text or "loops that wait for others" in text


def one_probe(launch, config, wrong, refusals):
    """equal, refused or failed, and why."""
    key = (launch["kernel"], config["probe"], config["sample"])
    if config["refused"]:
        expected = refusals.get(key)
        as_expected = expected is not None and config["refused"].startswith(expected)
        return ("refused", config["refused"].splitlines()[0]) if as_expected else ("failed", f"refused: {config['refused']}")
    found = report.codes(config)
    outputs = UNSTABLE_ONLY if launch["clean"]["unstable_bytes"] else IDENTICAL
    paths = PATHS if config["probe"] != "pair" else PATHS | {None}
    missing = [name for name, some in (("output", outputs), ("replay", {"replay-faithful"})) if not found & some]
    if not found & PATHS and None not in paths:
        missing.append("path")
    if config["aspects"]["semantics"] != "trusted":
        missing.append("semantics")
    lost = [loss for loss in config["losses"] if loss["count"] and loss.get("severity") != "note"]
    if missing or lost or key in wrong:
        return "failed", f"{missing} {lost} {wrong.get(key, '')} {report.reasons_text(config)}"
    return "equal", f"{config['records']} records"


def counts_of(reports):
    """(kernel, sample) -> pc -> lanes, of tables of the count probe."""
    tables = {}
    for launch in reports:
        for config in launch["configs"]:
            if config["probe"] == "count" and not config["refused"] and config.get("table"):
                tables[launch["kernel"], config["sample"]] = {row["pc"]: row["threads"] for row in config["table"]}
    return tables


def check_probes(arguments):
    """A line for each kernel, probe and sample. Refusals are exact: what is no longer refused fails as well."""
    refusals = {}
    for line in pathlib.Path(arguments.refusals).read_text().splitlines():
        if line and not line.startswith("#"):
            kernel, probe, sample, reason = line.split("\t")
            refusals[kernel, probe, sample] = reason
    reports = [launch for path in arguments.reports for launch in report.load(path)]
    witness = counts_of([launch for path in arguments.witness for launch in report.load(path)])
    counted, differ, compared = counts_of(reports), {}, 0
    for (kernel, sample), expected in witness.items():
        found = counted.get((kernel, sample))
        waits = any(waits_for_others(c) for launch in reports if launch["kernel"] == kernel for c in launch["configs"])
        if found is None or waits or kernel in arguments.waits:
            continue
        compared += 1
        different = sorted(pc for pc in expected.keys() | found.keys() if expected.get(pc, 0) != found.get(pc, 0))
        if different:
            pc = different[0]
            differ[kernel, "count", sample] = f"{pc:#x}: {found.get(pc, 0)} lanes, the interpreter has {expected.get(pc, 0)}"
    rows, seen = [], set()
    for launch in reports:
        for config in launch["configs"]:
            key = (launch["kernel"], config["probe"], config["sample"])
            result, why = one_probe(launch, config, differ, refusals)
            if result == "refused":
                seen.add(key)
            rows.append((*key, result, why))
    kernels = {launch["kernel"] for launch in reports}
    rows += [(*key, "failed", f"no longer refused: {why}") for key, why in refusals.items()
             if key not in seen and key[0] in kernels]
    table = "".join("\t".join(row) + "\n" for row in rows)
    if arguments.table:
        pathlib.Path(arguments.table).write_text("# kernel\tprobe\tsample\tresult\n" + table)
    results = [row[3] for row in rows]
    print(f"probes: {len(kernels)} kernels, {results.count('equal')} equal, {results.count('refused')} refused by name, "
          f"{results.count('failed')} failed; counts of {compared} compared with the interpreter's")
    if witness and not compared:
        return ["no counts were compared with the interpreter's"]
    return ["\t".join(row) for row in rows if row[3] == "failed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)

    bundle = commands.add_parser("bundle", help="the output of xtrace ls --json")
    bundle.add_argument("listing")
    bundle.add_argument("--state", choices=("complete", "incomplete"))
    bundle.add_argument("--recorded-at-least", type=int, default=0)
    bundle.add_argument("--kernels-at-least", type=int, default=0)
    bundle.add_argument("--all-recorded", action="store_true")
    bundle.add_argument("--not-all-recorded", action="store_true")
    bundle.set_defaults(run=check_bundle)

    last = commands.add_parser("last-recorded", help="prints the ordinal")
    last.add_argument("listing")
    last.set_defaults(run=print_last_recorded)

    replay = commands.add_parser("replay", help="the output of xtrace replay --compare --json")
    replay.add_argument("report")
    replay.add_argument("--launches", type=int)
    replay.add_argument("--nondeterministic", action="append", default=[], metavar="KERNEL")
    replay.add_argument("--may-refuse", action="store_true")
    replay.set_defaults(run=check_replay)

    for name, run, probe in (("totals", check_totals, "inst"), ("instructions", check_instructions, "inst"),
                             ("memory", check_memory, "mem")):
        command = commands.add_parser(name, help=f"the {probe} trace against ncu_counts.py {name}")
        command.add_argument("report")
        command.add_argument("ncu")
        command.set_defaults(run=run)

    probes = commands.add_parser("probes", help="outputs of xtrace replay --compare --json under every probe")
    probes.add_argument("reports", nargs="+")
    probes.add_argument("--witness", action="append", default=[], help="the same on the interpreter, of the count probe")
    probes.add_argument("--refusals", required=True, help="kernel, probe, sample and how the reason begins, tab-separated")
    probes.add_argument("--waits", action="append", default=[], metavar="KERNEL")
    probes.add_argument("--table", help="file for the table")
    probes.set_defaults(run=check_probes)

    arguments = parser.parse_args()
    wrong = arguments.run(arguments)
    for line in wrong:
        print(f"FAILED: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
