#!/usr/bin/env python3
"""What samples mean, through `xtrace replay` on the interpreter: tables of one are tables of another that must be the same."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def replay(xtrace, bundle, kernel, *options):
    """(probe, sample) -> configuration, of the one launch of this kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.json"
        command = [xtrace, "replay", str(ROOT / "fixtures" / "bundles" / bundle), "--backend=interp", "--kernel", f"^{kernel}$", "--compare",
                   "--quiet", "--traces", folder, "--json", str(path), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode > 2:
            sys.exit(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr}")
        (launch,) = json.loads(path.read_text())["launches"]
        return {(c["probe"], c["sample"]): c for c in launch["configs"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xtrace", required=True)
    xtrace = parser.parse_args().xtrace
    wrong = []

    def expect(what, holds, found=""):
        print(f"{'ok' if holds else 'FAILED'}: {what}")
        if not holds:
            wrong.append(f"{what}: {found}")

    # Eight sparse replays of mem, merged, show what the dense one does; each part that has an access has a trace file.
    for kernel in ("transpose_tiled", "spmv_csr"):
        found = replay(xtrace, "kernels13-small.xtr", kernel, "--probes=mem", "--sample=all", "--sample=site:1/8", "--rotate")
        dense, merged = found["mem", "all"], found["mem", "site:1/8"]
        expect(f"{kernel}: merged table of mem", dense["table"] == merged["table"] and len(dense["table"]) > 2, merged)
        expect(f"{kernel}: all accesses in the parts", sum(row["executions"] for row in merged["table"]) > merged["records"] / 8, merged["records"])
        files = [a["path"] for a in merged["artefacts"] if a["kind"] == "trace"]
        expect(f"{kernel}: a trace of each part", 2 <= len(set(files)) <= 8, files)

    # Classes of CTAs, rotated and merged: tables of the dense replay, and records that add up, whatever the grid divides into.
    for bundle, kernel, n in (("kernels13-small.xtr", "transpose_tiled", 4), ("kernels13-small.xtr", "sgemm", 16), ("hard_cases-small.xtr", "grid_3d", 3),
                              ("hard_cases-small.xtr", "cluster_shared", 64)):
        found = replay(xtrace, bundle, kernel, "--probes=count,block,inst,mem,branch", "--sample=all", f"--sample=cta:1/{n}", "--rotate")
        for probe in ("count", "block", "inst", "mem", "branch"):
            dense, merged = found[probe, "all"], found[probe, f"cta:1/{n}"]
            expect(f"{kernel}: {probe} of rotated CTAs", (dense["refused"] is None) == (merged["refused"] is None) and
                   dense.get("records") == merged.get("records") and dense.get("table") == merged.get("table") and
                   merged.get("verdict") in ("trusted", None), (dense, merged))
        traces = [a["path"] for a in found["block", f"cta:1/{n}"]["artefacts"]]
        expect(f"{kernel}: one trace, no timeline", len(traces) == 1 and traces[0].endswith(f"-block-cta1in{n}.xtrace"), traces)

    # Four sparse parts of block and inst: every execution of the part's blocks, or of those with a site of it; each part's path is the
    # counted one.
    for kernel in ("transpose_tiled", "reduce_sum"):
        found = replay(xtrace, "kernels13-small.xtr", kernel, "--probes=count,block,inst", "--sample=site:1/4", "--rotate")
        counted = found["count", "site:1/4"]["table"]
        first = {row["block"]: row for row in reversed(counted)}
        parts = {probe: [c for (p, _), c in found.items() if p == probe] for probe in ("count", "block", "inst")}
        expect(f"{kernel}: one count, four parts, those without a block left out",
               [len(parts[p]) for p in ("count", "block", "inst")] == [1, min(4, len(first)), 4], found.keys())
        expect(f"{kernel}: every block in one part", sum(c["records"] for c in parts["block"]) == sum(row["warps"] for row in first.values()),
               [c["records"] for c in parts["block"]])
        for part in range(4):
            sample = "site:1/4" + (f"+{part}" if part else "")
            with_site = {row["block"] for row in counted if row["pc"] // 16 % 4 == part}
            for probe, blocks in (("block", {b for b in first if b % 4 == part}), ("inst", with_site)):
                if not blocks:
                    continue
                expect(f"{kernel}: blocks of {probe} {sample}", found[probe, sample]["records"] == sum(first[b]["warps"] for b in blocks),
                       found[probe, sample]["records"])
                text = json.dumps(found[probe, sample])
                others = len(first) - len(blocks)
                expect(f"{kernel}: path of {probe} {sample}", "path-equal" in text and
                       (f"{others} are not of this part (site:1/4)" in text) == (others != 0), text)
        for c in parts["block"] + parts["inst"]:
            expect(f"{kernel}: {c['probe']} {c['sample']} has its own files", len(c["artefacts"]) >= 2, c["artefacts"])

    # Parts of which nothing was executed are left out: two of the twelve blocks were not.
    found = replay(xtrace, "hard_cases-small.xtr", "assert_holds", "--probes=count,block", "--sample=site:1/16", "--rotate")
    rows = found["count", "site:1/16"]["table"]
    executed = {row["block"] for row in rows if row["warps"]}
    parts = {int(s.split("+")[1]) if "+" in s else 0 for p, s in found if p == "block"}
    expect("assert_holds: a part for each executed block", parts == executed != {row["block"] for row in rows}, (parts, executed))

    # The interpreter puts CTA n on SM n: counts of SMs are those of CTAs.
    found = replay(xtrace, "kernels13-small.xtr", "saxpy", "--probes=count", "--sample=all", "--sample=sm:1-2", "--sample=cta:1-2")
    by_sm, by_cta, all_of_them = (found["count", s] for s in ("sm:1-2", "cta:1-2", "all"))
    expect("saxpy: count by SM", by_sm["table"] == by_cta["table"] != all_of_them["table"], by_sm)
    found = replay(xtrace, "hard_cases-small.xtr", "spin_lock", "--probes=count", "--sample=sm:0")
    expect("spin_lock: count by SM is refused", "take other paths" in (found["count", "sm:0"]["refused"] or ""), found)

    found = replay(xtrace, "hard_cases-small.xtr", "cluster_shared", "--probes=count", "--sample=cluster:1", "--sample=cta:2-3", "--sample=cluster:7",
                   "--sample=all")
    by_cluster, by_cta = found["count", "cluster:1"], found["count", "cta:2-3"]
    expect("cluster_shared: the second cluster, two CTAs", by_cluster["table"] == by_cta["table"] != found["count", "all"]["table"], by_cluster)
    expect("cluster_shared: there is no eighth", "none of them" in found["count", "cluster:7"]["refused"], found)
    found = replay(xtrace, "kernels13-small.xtr", "saxpy", "--probes=count", "--sample=cluster:0")
    expect("saxpy: has no clusters", found["count", "cluster:0"]["refused"] == "the launch has no clusters", found)

    # Every third execution: of each warp's executions of the loop, rounded up.
    found = replay(xtrace, "kernels13-small.xtr", "collatz", "--probes=branch,sync,range,count,mem,pair,block,inst", "--sample=all", "--sample=nth:3",
                   "--range=block:1")
    rows = {s: {row["pc"]: row["executions"] for row in found["branch", s]["table"]} for s in ("all", "nth:3")}
    warps = 16
    expect("collatz: a third of the branches",
           rows["all"].keys() == rows["nth:3"].keys() and all(n / 3 <= rows["nth:3"][pc] <= n / 3 + warps for pc, n in rows["all"].items()), rows)
    for probe in ("sync", "range", "count", "mem", "pair", "block", "inst"):
        expect(f"collatz: nth of {probe} is refused", "every nth execution" in (found[probe, "nth:3"]["refused"] or ""), found[probe, "nth:3"])

    # Whole sectors: the same records, longer ones; without an L2 only when asked for.
    for kernel in ("transpose_tiled", "collatz"):
        found = replay(xtrace, "kernels13-small.xtr", kernel, "--probes=inst,block", "--sample=all", "--sample=sectors:part", "--sample=sectors:whole")
        usual, part, whole = (found["inst", s] for s in ("all", "sectors:part", "sectors:whole"))
        sectors = [c["space"]["whole_sectors"] for c in (usual, part, whole)]
        expect(f"{kernel}: whole sectors where they were asked for", sectors == [False, False, True], sectors)
        size = [c["space"]["trace_bytes"] for c in (usual, part, whole)]
        expect(f"{kernel}: whole sectors are longer", size[0] == size[1] < size[2] and size[2] % 32 == 0, size)
        expect(f"{kernel}: whole sectors say the same", part["records"] == whole["records"] > 0 and
               all(c["aspects"]["semantics"] == "trusted" for c in (part, whole)), whole)
        expect(f"{kernel}: whole sectors of block are refused", "never written in whole sectors" in (found["block", "sectors:whole"]["refused"] or ""), found)
    # Of addresses the same rows; rotated CTAs and parts of the sites as well; in loops that wait where each warp's bytes are known.
    for bundle, kernel, more in (("kernels13-small.xtr", "transpose_tiled", ["--sample=cta:1/4,sectors:whole"]), ("kernels13-small.xtr", "switch_table", []),
                                 ("hard_cases-small.xtr", "spin_lock", []), ("hard_cases-small.xtr", "cluster_shared", ["--sample=site:1/4,sectors:whole"])):
        found = replay(xtrace, bundle, kernel, "--probes=mem", "--sample=sectors:part", "--sample=sectors:whole", *more, *(["--rotate"] if more else []))
        part = found["mem", "sectors:part"]
        expect(f"{kernel}: mem in part", part["space"]["whole_sectors"] is False and part["table"], part["space"])
        for sample, c in ((s, c) for (_, s), c in found.items() if s != "sectors:part"):
            expect(f"{kernel}: mem {sample} says the same in whole sectors", c["space"]["whole_sectors"] and c["table"] == part["table"] and
                   (c["records"] == part["records"] or "site" in sample) and c["aspects"]["semantics"] == "trusted" and c["losses"] == [] and
                   c["space"]["trace_bytes"] % 32 == 0, (c["space"], c["reasons"], c["records"], part["records"]))
    found = replay(xtrace, "kernels13-small.xtr", "sgemm", "--probes=inst", "--sample=sectors:whole")
    expect("sgemm: leaves no register for whole sectors", "no such register" in (found["inst", "sectors:whole"]["refused"] or ""), found)

    # What a warp asks in a loop has no records, whose number is another one each time: it is listed, and nothing of it is in the table.
    found = replay(xtrace, "hard_cases-small.xtr", "spin_lock", "--probes=mem", "--sample=all", "--at", "op:*")["mem", "all"]
    asking = [line for line in found["not_covered"] if "ATOMG.E.CAS" in line and "whether others are done" in line]
    expect("spin_lock: tries of the lock are listed", len(asking) == 32, found["not_covered"])
    expect("spin_lock: tries of the lock are not in the table",
           found["table"] and not any("ATOMG.E.CAS" in row["sass"] for row in found["table"]), found["table"])

    # A part of sparse sites that has nothing else is left out.
    found = replay(xtrace, "hard_cases-small.xtr", "spin_lock", "--probes=mem", "--sample=site:1/8", "--rotate")["mem", "site:1/8"]
    expect("spin_lock: rotated mem", not found["refused"] and len(found["table"]) == 6, found)

    for line in wrong:
        print(f"FAILED: {line[:600]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
