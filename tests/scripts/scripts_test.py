#!/usr/bin/env python3
"""ncu's output is read right, and the checks of tests/gpu fail when they should."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gpu"), str(ROOT / "tools" / "bench")]
import aims  # noqa: E402
import checks  # noqa: E402
import h200  # noqa: E402
import implied_clocks  # noqa: E402
import markdown  # noqa: E402
import ncu_counts  # noqa: E402
import pc_sampling  # noqa: E402
import report  # noqa: E402

TOTALS = '''==PROF== Connected to process 7
saxpy            grid 4x1x1 block 256x1x1 checksum 0 ok
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"1","7","sgemm","","smsp__inst_executed.sum","inst","96"
"0","7","saxpy","","smsp__inst_executed.sum","inst","12,615,680"
"0","7","saxpy","","launch__registers","register/thread","16"
'''
SOURCE = '''==PROF== Connected to process 7
"Kernel Name","saxpy"
"#","Address","Source","Instructions Executed","# Samples","Instructions Executed","Thread Instructions Executed"
"1","00007f0000000100"," LDC R1, c[0x0][0x28] ","50","2","1,024","32,768"
"2","00007f0000000110"," EXIT ","50","2","8","100"
'''

MEMORY = '''"Address","Source","Instructions Executed","Thread Instructions Executed","L1 Wavefronts Shared","L2 Theoretical Sectors Global"
"0x100"," LDC R1, c[0x0][0x28] ","8","256","",""
"0x110"," LDG.E R0, desc[UR4][R2.64] ","8","256","0","32"
"0x120"," STS [R3], R0 ","8","256","24","0"
'''


def config(probe="inst", code="output-equal", **changes):
    pair = {"before": 10, "after": 12}
    row = {
        "probe": probe, "sample": "all", "refused": None, "verdict": "trusted",
        "aspects": {"semantics": "trusted", "timing": "trusted", "space": "trusted"},
        "reasons": [{"code": code, "numbers": ""}, {"code": "replay-faithful", "numbers": ""}],
        "timing": {"measured": True, "ratio": 1.1, "ratio_low": 1.0, "ratio_high": 1.2, "rounds": 50},
        "space": {"registers": pair, "ctas_per_sm": pair, "local_bytes": pair, "code_bytes": pair, "trace_bytes": 64},
        "records": 4, "losses": [], "artefacts": [],
    }
    return row | changes


def launch(*configs, kernel="saxpy", **changes):
    row = {
        "schema": report.SCHEMA, "schema_version": report.VERSION, "bundle": "run.xtr", "launch": 0, "kernel": kernel,
        "grid": [1, 1, 1], "block": [32, 1, 1], "configs": list(configs), "rotations": [],
        "clean": {"time": {"median_us": 2.0, "q1_us": 1.9, "q3_us": 2.1}, "noise_floor": 0.01, "unstable_bytes": 0},
    }
    return row | changes


class PcSampling(unittest.TestCase):
    INSTRUCTIONS = [{"pc": 0, "samples": 10}, {"pc": 16, "samples": 30}, {"pc": 32, "samples": 60}]

    @staticmethod
    def site(pc, cycles, dense, executions=1, measured=1):
        return {"pc": pc, "cycles": cycles, "dense": dense, "executions": executions, "measured": measured}

    def test_shares_weighted_by_executions(self):
        sites = [self.site(0, 5, 8), self.site(16, 5, 2, executions=3)]
        count, part, far = pc_sampling.compare(sites, self.INSTRUCTIONS)
        self.assertEqual(count, 2)
        self.assertAlmostEqual(part, 0.4)        # nothing is asked of 0x20
        self.assertAlmostEqual(far["estimate"], 0)
        self.assertAlmostEqual(far["dense"], 8 / 14 - 10 / 40)

    def test_nothing_in_common(self):
        _, _, far = pc_sampling.compare([self.site(0, 1, 1), self.site(48, 1, 1)], [{"pc": 0, "samples": 0}, {"pc": 16, "samples": 9}])
        self.assertEqual(far["estimate"], 1)


class Ncu(unittest.TestCase):
    def test_memory_of_instructions(self):
        rows = ncu_counts.parse_instructions(MEMORY, "saxpy", ncu_counts.MEMORY)["instructions"]
        self.assertEqual([(r["pc"], r["warps"], r["sectors"], r["wavefronts"]) for r in rows], [(0, 8, 0, 0), (16, 8, 32, 0),
                                                                                                 (32, 8, 0, 24)])

    def test_columns_that_ncu_leaves_out_are_zero(self):
        rows = ncu_counts.parse_instructions(SOURCE, "k", ncu_counts.MEMORY)["instructions"]
        self.assertEqual([(r["warps"], r["sectors"], r["wavefronts"]) for r in rows], [(1024, 0, 0), (8, 0, 0)])

    def test_samples_of_instructions(self):
        rows = ncu_counts.parse_instructions(SOURCE, "k", ncu_counts.SAMPLES)["instructions"]
        self.assertEqual([(r["pc"], r["warps"], r["samples"]) for r in rows], [(0, 1024, 2), (16, 8, 2)])

    def test_totals_in_launch_order(self):
        self.assertEqual(ncu_counts.parse_totals(TOTALS), [{"kernel": "saxpy", "warp_instructions": 12615680},
                                                           {"kernel": "sgemm", "warp_instructions": 96}])

    def test_instructions_by_offset_and_last_column_of_a_name(self):
        self.assertEqual(ncu_counts.parse_instructions(SOURCE, "saxpy")["instructions"], [
            {"sass": "LDC R1, c[0x0][0x28]", "warps": 1024, "lanes": 32768, "pc": 0},
            {"sass": "EXIT", "warps": 8, "lanes": 100, "pc": 16}])

    def test_refuses_what_it_does_not_understand(self):
        cases = {
            "no header": (ncu_counts.parse_totals, "==ERROR== permission\n"),
            "no metric": (ncu_counts.parse_totals, TOTALS.replace("smsp__inst_executed.sum", "x")),
            "a fraction": (ncu_counts.parse_totals, TOTALS.replace('"96"', '"9.6"')),
            "no column": (lambda t: ncu_counts.parse_instructions(t, "k"), SOURCE.replace("Thread Instr", "Instr")),
            "a gap": (lambda t: ncu_counts.parse_instructions(t, "k"), SOURCE.replace("0110", "0120")),
        }
        for name, (parse, text) in cases.items():
            with self.subTest(name), self.assertRaises(ncu_counts.NcuError):
                parse(text)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, content):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def check(self, *arguments):
        """(exit status, what was printed)"""
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["checks.py", *arguments]), contextlib.redirect_stdout(out):
            status = checks.main()
        return status, out.getvalue()


class Replay(Files):
    def test_verdicts(self):
        semantics = {"semantics": "not trusted", "timing": "trusted", "space": "trusted"}
        cases = [
            # name, report, options, status
            ("identical", launch(config()), [], 0),
            ("unstable bytes of a deterministic kernel", launch(config(code="output-unstable")), [], 1),
            ("unstable bytes where that is known", launch(config(code="output-unstable")), ["--nondeterministic", "saxpy"], 0),
            ("unsettled bytes of a deterministic kernel", launch(config(code="output-unsettled")), [], 1),
            ("unsettled bytes where that is known", launch(config(code="output-unsettled")), ["--nondeterministic", "saxpy"], 0),
            ("diverged", launch(config(code="output-diverged")), ["--nondeterministic", "saxpy"], 1),
            ("not faithful", launch(config(reasons=[{"code": "output-equal", "numbers": ""}])), [], 1),
            ("path differs", launch(config(aspects=semantics)), [], 1),
            ("a loss", launch(config(losses=[{"name": "dropped", "count": 1}])), [], 1),
            ("refused", launch(config(refused="BRX without a table")), [], 1),
            ("refused where that is allowed", launch(config(refused="BRX without a table")), ["--may-refuse"], 0),
            ("no configuration", launch(), [], 1),
        ]
        for name, document, options, expected in cases:
            with self.subTest(name):
                status, output = self.check("replay", self.write("report.json", document), *options)
                self.assertEqual(status, expected, output)

    def test_number_of_launches(self):
        path = self.write("report.json", [launch(config()), launch(config())])
        self.assertEqual(self.check("replay", path, "--launches", "2")[0], 0)
        self.assertEqual(self.check("replay", path, "--launches", "3")[0], 1)

    def test_another_schema_is_refused(self):
        with self.assertRaisesRegex(ValueError, "expected schema"):
            report.load(self.write("report.json", launch(schema_version=99)))


class Counts(Files):
    def report_with(self, rows, artefacts=True):
        table = self.write("table.csv", "pc,block,warps,threads,sass\n" + "".join(f"{pc:#x},0,{w},{t},X\n" for pc, w, t in rows))
        made = [{"kind": "table", "path": table}] if artefacts else []
        return self.write("report.json", launch(config(artefacts=made)))

    def test_totals(self):
        ncu = self.write("ncu.json", [{"kernel": "saxpy", "warp_instructions": 30}])
        self.assertEqual(self.check("totals", self.report_with([(0, 10, 320), (16, 20, 640)]), ncu)[0], 0)
        self.assertEqual(self.check("totals", self.report_with([(0, 10, 320), (16, 21, 640)]), ncu)[0], 1)
        self.assertEqual(self.check("totals", self.report_with([(0, 30, 960)], artefacts=False), ncu)[0], 1)

    def test_the_hardware_issues_brx_once_for_each_target(self):
        rows = [(0, 0, 10, "@P0 BRA 0x60"), (0x10, 1, 10, "BRX R2 -0x20"),    # 10 warps come, 14 go on: 4 issues more
                (0x20, 2, 8, "NOP"), (0x30, 2, 8, "BRA 0x60"), (0x40, 3, 6, "NOP"), (0x50, 3, 6, "BRA 0x60"),
                (0x60, 4, 10, "EXIT")]                                         # named by a branch: no target of the BRX
        table = self.write("table.csv", "pc,block,warps,threads,sass\n" +
                           "".join(f"{pc:#x},{block},{w},{w},{sass}\n" for pc, block, w, sass in rows))
        report_path = self.write("report.json", launch(config(artefacts=[{"kind": "table", "path": table}])))
        for expected, status in ((58 + 4, 0), (58, 1)):
            ncu = self.write("ncu.json", [{"kernel": "saxpy", "warp_instructions": expected}])
            self.assertEqual(self.check("totals", report_path, ncu)[0], status)

    def test_instructions(self):
        ncu = self.write("ncu.json", {"kernel": "saxpy", "instructions": [
            {"pc": 0, "sass": "LDC", "warps": 10, "lanes": 320}, {"pc": 16, "sass": "NOP", "warps": 0, "lanes": 0}]})
        cases = [
            ("equal", [(0, 10, 320), (16, 0, 0)], 0),
            ("not executed and not listed", [(0, 10, 320)], 0),
            ("lanes differ", [(0, 10, 319)], 1),
            ("warps differ", [(0, 11, 320)], 1),
            ("one too many", [(0, 10, 320), (32, 1, 32)], 1),
        ]
        for name, rows, expected in cases:
            with self.subTest(name):
                self.assertEqual(self.check("instructions", self.report_with(rows), ncu)[0], expected)

    def test_memory(self):
        ncu = self.write("ncu.json", {"kernel": "saxpy", "instructions": [
            {"pc": 0, "sass": "LDC", "warps": 8, "lanes": 256, "sectors": 0, "wavefronts": 0},
            {"pc": 16, "sass": "LDG", "warps": 8, "lanes": 256, "sectors": 32, "wavefronts": 0},
            {"pc": 32, "sass": "STS", "warps": 8, "lanes": 256, "sectors": 0, "wavefronts": 24}]})

        def row(pc, space, sectors, wavefronts):
            return {"pc": pc, "space": space, "kind": "load", "bytes": 4, "requests": 8, "sectors": sectors,
                    "wavefronts": wavefronts, "sass": "-"}

        cases = [
            ("equal", [row(16, "global", 32, None), row(32, "shared", None, 24)], 0),
            ("sectors differ", [row(16, "global", 33, None), row(32, "shared", None, 24)], 1),
            ("wavefronts differ", [row(16, "global", 32, None), row(32, "shared", None, 8)], 1),
            ("one is missing", [row(16, "global", 32, None)], 1),
            ("no table", None, 1),
        ]
        for name, rows, expected in cases:
            with self.subTest(name):
                path = self.write("report.json", [launch(config(probe="mem", table=rows))])
                self.assertEqual(self.check("memory", path, ncu)[0], expected)


class Bundle(Files):
    def test_expectations(self):
        good = {"ordinal": 0, "status": "recorded", "kernel": "saxpy"}
        skipped = {"ordinal": 1, "status": "skipped", "kernel": "saxpy", "skip_reason": "no space"}
        cases = [
            ("complete", [good], "complete", ["--state", "complete", "--all-recorded", "--recorded-at-least", "1"], 0),
            ("wrong state", [good], "incomplete", ["--state", "complete"], 1),
            ("too few", [good], "complete", ["--recorded-at-least", "2"], 1),
            ("too few kernels", [good, good], "complete", ["--kernels-at-least", "2"], 1),
            ("skipped", [good, skipped], "complete", ["--all-recorded"], 1),
            ("skipped, as expected", [good, skipped], "complete", ["--not-all-recorded"], 0),
            ("incomplete, as expected", [good], "incomplete", ["--not-all-recorded"], 0),
            ("nothing missing", [good], "complete", ["--not-all-recorded"], 1),
            ("no reason", [skipped | {"skip_reason": ""}], "complete", [], 1),
        ]
        for name, launches, state, options, expected in cases:
            with self.subTest(name):
                path = self.write("ls.json", {"state": state, "launches": launches})
                self.assertEqual(self.check("bundle", path, *options)[0], expected)


class Probes(Files):
    def one(self, probe="branch", *, refusals="", witness=None, **changes):
        row = config(probe) | {"reasons": [{"code": code, "numbers": ""} for code in ("output-equal", "replay-faithful", "path-equal")]} | changes
        report_file = self.write("report.json", [launch(row)])
        listed = self.write("refusals.tsv", "# none\n" + refusals)
        more = ["--witness", self.write("witness.json", [launch(config("count", table=witness))])] if witness else []
        return self.check("probes", report_file, "--refusals", listed, *more)

    def test_equal_or_not(self):
        self.assertEqual(self.one()[0], 0)
        self.assertEqual(self.one("pair", reasons=[{"code": c, "numbers": ""} for c in ("output-equal", "replay-faithful")])[0], 0)
        lost = [{"name": "wrapped", "severity": "lost", "count": 1, "bytes": 16}]
        for changes in ({"losses": lost}, {"aspects": {"semantics": "not trusted"}},
                        {"reasons": [{"code": c, "numbers": ""} for c in ("output-equal", "replay-faithful")]},
                        {"reasons": [{"code": c, "numbers": ""} for c in ("output-diverged", "replay-faithful", "path-equal")]}):
            with self.subTest(changes=changes):
                self.assertEqual(self.one(**changes)[0], 1)

    def test_refusals_are_exact(self):
        expected = "saxpy\tbranch\tall\tno register is free\n"
        self.assertEqual(self.one(refused="no register is free at saxpy@0x0", refusals=expected)[0], 0)
        self.assertEqual(self.one(refused="another reason", refusals=expected)[0], 1)
        self.assertEqual(self.one(refused="no register is free at saxpy@0x0")[0], 1)
        status, text = self.one(refusals=expected)
        self.assertEqual(status, 1)
        self.assertIn("no longer refused", text)

    def test_counts_are_the_interpreters(self):
        rows = [{"pc": 0, "threads": 64}, {"pc": 16, "threads": 32}]
        self.assertEqual(self.one("count", table=rows, witness=rows)[0], 0)
        status, text = self.one("count", table=rows, witness=[rows[0], {"pc": 16, "threads": 31}])
        self.assertEqual(status, 1)
        self.assertIn("0x10: 32 lanes, the interpreter has 31", text)
        self.assertEqual(self.one("block", witness=rows)[0], 1)   # nothing was compared
        # Loops that wait go round more or less often each time, also where the trace leaves them out.
        for code, numbers in (("path-waited", ""), ("path-equal", "equal in 4 blocks; 1 of loops that wait for others are not recorded")):
            reasons = [{"code": c, "numbers": ""} for c in ("output-equal", "replay-faithful")] + [{"code": code, "numbers": numbers}]
            text = self.one("count", table=rows, witness=[rows[0], {"pc": 16, "threads": 31}], reasons=reasons)[1]
            self.assertNotIn("the interpreter has", text)


class Bench(unittest.TestCase):
    def test_summary_counts_refusals_apart(self):
        def with_ratio(ratio):
            return config(timing={"measured": True, "ratio": ratio, "ratio_low": 1, "ratio_high": 2, "rounds": 9})

        rows = [h200.launch_row(launch(c), 132) for c in (with_ratio(1.0), with_ratio(4.0), config(refused="why"))]
        self.assertEqual(h200.summarise({"name": "app", "launches": rows}), [
            {"program": "app", "probe": "inst", "sample": "all", "launches": 2, "ratio_median": 2.5,
             "ratio_geometric_mean": 2.0, "ratio_worst": 4.0, "refused": 1}])

    def test_sparse_samples_once_more_where_there_are_four_waves(self):
        # 10 CTAs an SM, 132 SMs.
        rows = [h200.launch_row(launch(config(sample="cta:1/16"), grid=[waves * 1320, 1, 1]), 132) for waves in (1, 4)]
        self.assertEqual([row["waves"] for row in rows], [1, 4])
        summary = h200.summarise({"name": "app", "launches": rows})
        self.assertEqual([(row["sample"], row["launches"]) for row in summary],
                         [("cta:1/16", 2), ("cta:1/16, 4 waves and more", 1)])

    def test_parts_of_a_rotation_are_one_row(self):
        floor = {"ratio": 1.0, "added": 1.02, "bound": "issue", "in_turn": 1.05}
        parts = [{"sample": sample, "records": 4, "ratio": ratio, "ratio_low": 1, "ratio_high": 2, "rounds": 9, "floor": floor}
                 for sample, ratio in (("site:1/8", 1.001), ("site:1/8+3", 1.006), ("site:1/8+7", 1.003))]
        rotation = {"probe": "block", "sample": "site:1/8", "parts": parts, "ratio": 1.003, "ratio_low": 1.002, "ratio_high": 1.004,
                    "rounds": 9, "floor": floor}
        worst = {"semantics": "trusted", "timing": "inconclusive", "space": "trusted"}
        configs = [config("block", sample="site:1/8"), config("block", sample="site:1/8+3", verdict="inconclusive", aspects=worst),
                   config("block", sample="site:1/8+7"), config("block", sample="site:1/8+6", refused="no block of this part"), config("pair", sample="site:1/8")]
        row = h200.launch_row(launch(*configs, rotations=[rotation], grid=[13200, 1, 1]), 132)
        pair, block = row["configurations"]
        self.assertEqual((pair["probe"], pair["ratio"]), ("pair", 1.1))
        self.assertEqual((block["ratio"], block["records"], len(block["parts"])), (1.003, 12, 3))
        self.assertEqual((block["verdict"], block["aspects"]), ("inconclusive", worst))
        self.assertEqual([r["sample"] for r in h200.summarise({"name": "app", "launches": [row]})],
                         ["site:1/8", "site:1/8, 4 waves and more", "site:1/8"])   # of pair, of pair, of block
        self.assertEqual(markdown.cell(block), "1.003, parts 1.001 to 1.006 (1.02 issue)")
        self.assertEqual(markdown.cell(block | {"ratio": 1.03, "parts": []}), "1.030 (1.02 issue, 1.05 in turn)")

    def test_time_that_was_not_measured_is_null(self):
        row = h200.configuration(config(timing={"measured": False, "ratio": 0}))
        self.assertIsNone(row["ratio"])
        self.assertEqual(row["registers"], {"before": 10, "after": 12})


class Aims(unittest.TestCase):
    """A miss is accounted for by the floor beside it, or said to be above."""

    def result(self, *configs, waves=16.0):
        rows = [{"probe": "block", "sample": "all", "refused": None, "ratio_low": c["ratio"] - 0.01, "ratio_high": c["ratio"] + 0.01,
                 "floor": {"added": 1.0, "in_turn": 1.0, "bound": "stores"}} | c for c in configs]
        return {"programs": [{"launches": [{"kernel": "saxpy", "waves": waves, "configurations": [row]} for row in rows]}]}

    def check(self, aim, *configs, **more):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            members = list(aims.rows([self.result(*configs, **more)], aim))
            kind = (aims.check_mean if aim.mean else aims.check_each)(aim, members) if members else None
        return kind, printed.getvalue()

    def test_each_launch(self):
        aim = aims.Aim("block", 1.15, "block")
        floor = lambda added, in_turn: {"added": added, "in_turn": in_turn, "bound": "stores"}
        self.assertEqual(self.check(aim, {"ratio": 1.15})[0], "met")
        for row, kind in (({"ratio": 1.3, "floor": floor(1.31, 1.4)}, "part"), ({"ratio": 1.3, "floor": floor(1.2, 1.3)}, "in turn"),
                          ({"ratio": 1.3, "ratio_low": 1.14}, "aim"), ({"ratio": 1.3, "floor": floor(1.2, 1.29)}, "ABOVE"),
                          ({"ratio": 1.3, "floor": None}, "ABOVE")):
            verdict, text = self.check(aim, {"ratio": 1.0}, row)
            self.assertIn(f"    {kind} ", text)
            self.assertEqual(verdict, "ABOVE" if kind == "ABOVE" else "in turn")
            self.assertIn("MISSED block 1.15: 1 of 2, worst 1.300", text)

    def test_a_mean(self):
        aim = aims.Aim("block", 1.03, "block", mean=True)
        self.assertEqual(self.check(aim, {"ratio": 1.1}, {"ratio": 0.9})[0], "met")
        self.assertEqual(self.check(aim, {"ratio": 1.1}, {"ratio": 1.1})[0], "ABOVE")
        self.assertEqual(self.check(aim, {"ratio": 1.1, "floor": {"added": 1.2, "in_turn": 1.2, "bound": "stores"}})[0], "part")

    def test_what_an_aim_is_about(self):
        sampled = next(aim for aim in aims.AIMS if aim.sample == "cta:1/16")
        sparse = {"ratio": 1.5, "sample": "cta:1/16"}
        self.assertEqual(self.check(sampled, sparse)[0], "ABOVE")
        self.assertIsNone(self.check(sampled, sparse, waves=3.9)[0])
        self.assertIsNone(self.check(sampled, {"ratio": 1.5})[0])
        rotated = next(aim for aim in aims.AIMS if aim.rotated)
        self.assertIsNone(self.check(rotated, {"ratio": 1.5, "sample": "site:1/8"})[0])
        self.assertEqual(self.check(rotated, {"ratio": 1.5, "sample": "site:1/8", "rotated": True})[0], "ABOVE")
        self.assertIsNone(self.check(rotated, {"ratio": 1.5, "rotated": True, "refused": "no site"})[0])


class ImpliedClocks(unittest.TestCase):
    @staticmethod
    def rows(*offsets, clocks=("read", "implied", "read", "none", "read")):
        return [{"pc": 16 * k, "block": 0, "warps": 1, "clock": clock, "offset_mean_cycles": offset}
                for k, (offset, clock) in enumerate(zip(offsets, clocks))]

    def test_parts_of_the_way(self):
        dense = self.rows(0, 10, 20, 60, 80, clocks=["read"] * 5)   # half of the way, two thirds
        self.assertEqual(implied_clocks.differences(self.rows(0, 5, 10, 30, 40), dense), [0, 0])
        for other in (dense, dense[::-1]):
            self.assertEqual([round(d, 9) for d in implied_clocks.differences(self.rows(0, 8, 10, 10, 40), other)], [3, 20])

    def test_nothing_on_the_way(self):
        dense = self.rows(0, 10, 20, 60, 80, clocks=["read"] * 5)
        self.assertEqual(implied_clocks.differences(dense, dense), [])
        self.assertEqual(implied_clocks.differences(self.rows(None, None, None, None, None), dense), [])


if __name__ == "__main__":
    unittest.main()
