#!/usr/bin/env python3
"""What becomes of outputs that can not be written, and of commands that are stopped: exit statuses, messages, and nothing half-written
under a final name. Replays run on the interpreter, on a kept recording."""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
XTRACE = None


def small_files():
    """Writes beyond 8 KiB fail, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


class Outputs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="xtrace-outputs-"))
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(ROOT / "fixtures/bundles/kernels13-small.xtr", self.folder / "run.xtr")

    def run_xtrace(self, *words, **more):
        more.setdefault("stdout", subprocess.PIPE)
        return subprocess.run([XTRACE, *words], cwd=self.folder, stderr=subprocess.PIPE, text=True, timeout=300, **more)

    def replay(self, *words, **more):
        return self.run_xtrace("replay", "run.xtr", "--backend=interp", "--quiet", *words, **more)

    def left_over(self):
        return [str(p) for p in self.folder.rglob("*.tmp")]

    def test_stdout_on_a_full_disk(self):
        cubin = ROOT / "fixtures/cubins/sm_90/plain.cubin"
        for words in (["ls", "run.xtr"], ["ls", "run.xtr", "--json"], ["info", "run.xtr", "0", "--json"], ["explain"], ["probes"], ["--help"],
                      ["ls", "--help"], ["sass", "dump", str(cubin)], ["replay", "run.xtr", "--backend=interp", "--launch=0"],
                      ["replay", "run.xtr", "--backend=interp", "--launch=0", "--json=-"]):
            with open("/dev/full", "w") as full, self.subTest(words=words):
                done = self.run_xtrace(*words, stdout=full)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("error: can not write to stdout", done.stderr)

    def test_traces_on_a_full_disk(self):
        done = self.replay("--launch=1", "--probes=block,inst", "--compare", "--traces=traces", preexec_fn=small_files)
        self.assertIn("verdict: trusted", done.stdout)
        self.assertEqual(done.returncode, 3)
        self.assertIn("xtrace replay: error: launch 1: can not ", done.stderr)
        self.assertIn("pftrace.tmp: File too large", done.stderr)
        self.assertEqual(self.left_over(), [])
        self.assertEqual(list((self.folder / "traces").glob("*.pftrace")), [])

    def test_report_on_a_full_disk(self):
        done = self.replay("--launch=0-3", "--json=report.json", preexec_fn=small_files)
        self.assertEqual(done.returncode, 3)
        self.assertIn("report.json.tmp: File too large", done.stderr)
        self.assertFalse((self.folder / "report.json").exists())
        self.assertEqual(self.left_over(), [])

    def test_report_into_what_is_no_plain_file(self):
        """A pipe stays a pipe and a link a link: a rename would put a file in their place, were it /dev/null."""
        pipe, link, target = (self.folder / name for name in ("pipe", "link.json", "target.json"))
        os.mkfifo(pipe)
        target.write_text("old")
        link.symlink_to("target.json")
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
        done = self.replay("--launch=0", f"--json={pipe}")
        self.assertTrue(pipe.is_fifo(), done.stderr)
        self.assertEqual(len(json.loads(reader.communicate(timeout=60)[0])["launches"]), 1)
        self.replay("--launch=0", "--json=link.json")
        self.assertTrue(link.is_symlink())
        self.assertEqual(len(json.loads(target.read_text())["launches"]), 1)
        done = self.replay("--launch=0", "--json=/dev/stdout")
        self.assertEqual(len(json.loads(done.stdout[done.stdout.index("\n{") :])["launches"]), 1)
        self.assertEqual(self.left_over(), [])

    def test_what_a_recording_lacks_is_said(self):
        pack = self.folder / "run.xtr/pack"
        os.truncate(pack, pack.stat().st_size // 2)
        done = self.replay("--launch=0", "--json=-")
        says = "is incomplete: it holds 5 of 13 launches (pack: expected 207103 bytes, found 103551)"
        self.assertIn(f"xtrace replay: warning: run.xtr {says}\n", done.stderr)
        self.assertEqual(json.loads(done.stdout)["incomplete"], says)
        policy = self.folder / "policy.toml"
        policy.write_text("[default]\n")
        done = self.run_xtrace("check", "run.xtr", "--backend=interp", "--quiet", "--policy=policy.toml")
        self.assertIn(f"bundle-incomplete: run.xtr {says}", done.stdout)
        self.assertEqual(done.returncode, 2, done.stdout)

    def test_a_launch_that_damage_took_away(self):
        """What the recording lacks stands beside the launch that is not in it."""
        pack = self.folder / "run.xtr/pack"
        os.truncate(pack, pack.stat().st_size // 2)
        says = "is incomplete: it holds 5 of 13 launches (pack: expected 207103 bytes, found 103551)"
        for done in (self.run_xtrace("info", "run.xtr", "5"), self.replay("--launch=5")):
            self.assertEqual(done.returncode, 3)
            self.assertIn(f"error: no launch 5 in run.xtr: it {says}\n", done.stderr)
        done = self.run_xtrace("reduce", "run.xtr", "--launch=5", "--backend=interp")
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"xtrace reduce: warning: run.xtr {says}\n", done.stderr)
        os.truncate(pack, 0)
        self.assertIn("no launch of run.xtr was recorded: it is incomplete: it holds 0 of 13 launches (pack: ", self.replay().stderr)

    def test_closed_descriptors(self):
        """Files get the numbers of descriptors that were closed: messages for people must not end up in them, nor end the work."""
        whole = self.written(lambda: None)
        for closed in ([0], [2], [0, 2], [1, 2], [0, 1, 2]):
            with self.subTest(closed=closed):
                self.assertEqual(self.written(lambda: [os.close(fd) for fd in closed]), whole)
        for words in (["reduce", "run.xtr", "--backend=interp"], ["replay", "missing.xtr"], ["repaly"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([XTRACE, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=full, text=True, timeout=300)
            self.assertEqual(done.returncode, {"reduce": 0, "replay": 3, "repaly": 64}[words[0]])

    def written(self, start):
        shutil.rmtree(self.folder / "traces", ignore_errors=True)
        words = [XTRACE, "replay", "run.xtr", "--backend=interp", "--launch=0-1", "--probes=block,inst", "--compare", "--traces=traces", "--json=report.json"]
        done = subprocess.run(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, preexec_fn=start)
        self.assertIn(done.returncode, (0, 3))   # 3: stdout was closed
        files = {p.name: p.read_bytes() for p in (self.folder / "traces").iterdir()}
        self.assertEqual(len(files), 14)
        report = (self.folder / "report.json").read_text()
        json.loads(report)
        (self.folder / "report.json").unlink()
        return files, report

    def test_verdict_of_several_launches(self):
        done = self.replay("--launch=0-1", "--compare")
        self.assertEqual(done.stdout.splitlines()[-1], "verdict of 2 launches: trusted (2 trusted, 0 not trusted, 0 inconclusive, 0 errors)")
        self.assertNotIn("verdict of", self.replay("--launch=0", "--compare").stdout)
        pack = self.folder / "run.xtr/pack"
        with open(pack, "r+b") as file:   # in what only launch 5 has
            file.seek(pack.stat().st_size // 2)
            file.write(b"\xff")
        done = self.replay("--launch=4-5", "--compare")
        self.assertEqual(done.returncode, 3)
        self.assertIn("error: launch 5: damaged chunk at offset 0x18fd2 of run.xtr/pack", done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "verdict of 2 launches: inconclusive (1 trusted, 0 not trusted, 0 inconclusive, 1 errors)")

    def test_why_no_times_are_shown(self):
        self.replay("--launch=6", "--probes=all", "--compare", "--traces=traces")
        table = (self.folder / "traces/launch6-spmv_csr.txt").read_text()
        self.assertIn("(pair is inconclusive: its times are not shown)", table)   # on the interpreter
        self.replay("--launch=6", "--probes=inst", "--compare", "--traces=traces")
        self.assertIn("(no pair probe in this replay)", (self.folder / "traces/launch6-spmv_csr.txt").read_text())

    def test_warnings_are_said_once(self):
        report = json.loads(self.replay("--launch=3", "--compare", "--search", "--json=-").stdout)["launches"][0]
        self.assertEqual(len(report["warnings"]), len(set(report["warnings"])))
        self.assertEqual(len([w for w in report["warnings"] if w.startswith("inst: the clocks of ")]), 1)

    def test_what_a_file_holds_is_shown_as_text(self):
        (self.folder / "policy.toml").write_bytes(b"\x1b[31m\0")
        done = self.run_xtrace("check", "run.xtr", "--policy=policy.toml")
        self.assertEqual((done.returncode, done.stderr),
                         (3, "xtrace check: error: policy.toml: line 1: expected a key of letters, digits, _ and -, found '?[31m?'\n"))

    def test_a_pipe_in_place_of_a_file(self):
        """Nobody writes into it: who opens it must not wait."""
        for name in ("launches", "manifest", "pack"):
            path = self.folder / "run.xtr" / name
            whole = path.read_bytes()
            path.unlink()
            os.mkfifo(path)
            done = self.run_xtrace("ls", "run.xtr")
            self.assertEqual((done.returncode, done.stderr), (3, f"xtrace ls: error: run.xtr/{name} is not a regular file\n"))
            path.unlink()
            path.write_bytes(whole)
        os.mkfifo(self.folder / "pipe")
        for words in (["sass", "dump", "pipe"], ["check", "run.xtr", "--policy=pipe"]):
            done = self.run_xtrace(*words)
            self.assertEqual(done.returncode, 3)
            self.assertIn("error: pipe is not a regular file\n", done.stderr)

    def test_a_working_directory_that_is_gone(self):
        (self.folder / "gone").mkdir()
        leave = 'cd gone && rmdir ../gone && exec "$0" "$@"'
        for words, says in ((["record", "-o", "r.xtr", "--", "/bin/true"], "record: error: the working directory can not be had: No such file"),
                            (["replay", str(self.folder / "run.xtr"), "--backend=interp", "--launch=0", "--json=o.json"], "replay: error: can not create o.json.tmp: No such file")):
            (self.folder / "gone").mkdir(exist_ok=True)
            done = subprocess.run(["bash", "-c", leave, XTRACE, *words], cwd=self.folder, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"xtrace {says}", done.stderr)

    def test_interrupted(self):
        for by in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(by=by):
                self.interrupt(by)

    def interrupt(self, by):
        words = [XTRACE, "replay", "run.xtr", "--backend=interp", "--probes=all", "--compare", "--clean=1000", "--traces=traces", "--json=report.json"]
        traces = self.folder / "traces"
        traces.mkdir(exist_ok=True)
        begun = [traces / f"launch{n}-x.xtrace.tmp" for n in range(13)]   # as if the worker had begun to write
        for path in begun:
            path.touch()
        child = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        child.send_signal(by)   # to the command alone: not as a terminal does
        _, errors = child.communicate(timeout=60)
        child.stdout.close()
        self.assertEqual(child.returncode, 130, errors)
        done = int(re.search(r"xtrace replay: interrupted after (\d+) of 13 launches", errors)[1])
        self.assertEqual([n for n in range(13) if not begun[n].exists()], [done])   # of others: who knows who writes them
        if (self.folder / "report.json").exists():
            json.loads((self.folder / "report.json").read_text())

    def test_nohup_goes_on(self):
        words = [XTRACE, "replay", "run.xtr", "--backend=interp", "--clean=300", "--json=report.json"]
        child = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        time.sleep(0.5)
        child.send_signal(signal.SIGHUP)
        _, errors = child.communicate(timeout=120)
        self.assertEqual(child.returncode, 2, errors)   # nothing to compare with
        self.assertEqual(len(json.loads((self.folder / "report.json").read_text())["launches"]), 13)

    def test_traces_that_can_not_be_written_are_found_out_before(self):
        (self.folder / "run.xtr/traces").write_text("no folder")
        done = self.replay("--launch=0", "--compare")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("hint: --traces names another folder for the traces", done.stderr)
        self.assertEqual(self.replay("--launch=0", "--compare", "--traces=elsewhere").returncode, 0)
        self.assertEqual(self.replay("--launch=0").returncode, 2)   # emits none

    def test_a_verdict_without_traces(self):
        words = ("--launch=0", "--probes=block,count,mem", "--compare")
        self.assertEqual(self.replay(*words, "--no-traces", "--json=judged.json").returncode, 0)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["judged.json", "run.xtr"])
        self.assertFalse((self.folder / "run.xtr/traces").exists())
        self.assertEqual(self.replay(*words, "--json=traced.json").returncode, 0)
        judged, traced = (json.loads((self.folder / name).read_text())["launches"][0]["configs"] for name in ("judged.json", "traced.json"))
        self.assertEqual([c["reasons"] for c in judged], [c["reasons"] for c in traced])
        self.assertEqual([c["artefacts"] for c in judged], [[]] * 3)
        self.assertTrue(all(c["artefacts"] for c in traced))

    def test_check_writes_no_traces(self):
        (self.folder / "policy.toml").write_text('[default]\nrequire = []\n[kernel."^saxpy$"]\nrequire = ["block", "inst"]\n')
        done = self.run_xtrace("check", "run.xtr", "--backend=interp", "--quiet", "--policy=policy.toml", env=dict(os.environ, TMPDIR="/missing"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["policy.toml", "run.xtr"])
        self.assertFalse((self.folder / "run.xtr/traces").exists())

    def test_no_folder_for_temporary_files(self):
        done = self.run_xtrace("reduce", "run.xtr", "--backend=interp", env=dict(os.environ, TMPDIR="/missing"))
        self.assertEqual(done.returncode, 3)
        self.assertIn("no folder for temporary files: /missing: No such file or directory\n  hint: TMPDIR names one", done.stderr)

    def test_an_empty_tmpdir_is_none(self):
        done = self.run_xtrace("reduce", "run.xtr", "--backend=interp", env=dict(os.environ, TMPDIR=""))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_samples_without_a_warp_are_refused(self):
        for sample in ("cta:5000", "warp:8"):
            done = self.replay("--launch=0", "--probes=inst", f"--sample={sample}")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"refused: none of the launch's 4 CTAs of 8 warps is in the sample {sample}\n      hint: ", done.stdout)

    def test_a_sample_by_sm_that_nothing_ran_on_is_not_trusted(self):
        done = self.replay("--launch=0", "--probes=count,block,inst,mem,branch", "--compare", "--sample=sm:131", "--json=-")
        for config in json.loads(done.stdout)["launches"][0]["configs"]:
            self.assertEqual(config["records"], 0)
            self.assertEqual(config["verdict"], "inconclusive", config["probe"])
            self.assertIn("nothing-recorded", [reason["code"] for reason in config["reasons"]])
        done = self.replay("--launch=0", "--probes=block", "--compare", "--sample=sm:500")
        self.assertIn("refused: none of the 132 SMs of ", done.stdout)

    def test_a_rotation_of_more_parts_than_sites_ends(self):
        for probe, parts in (("block", 2), ("inst", 19), ("mem", 3), ("branch", 1)):
            one, many = (json.loads(self.replay("--launch=0", f"--probes={probe}", "--compare", "--json=-", *sample).stdout)["launches"][0]
                         for sample in ([], ["--sample=site:1/4294967295", "--rotate"]))
            self.assertEqual(many["verdict"], "trusted", probe)
            self.assertEqual(len(many["rotations"][0]["parts"]), parts, probe)
            if probe in ("mem", "branch"):
                self.assertEqual(many["configs"][0]["table"], one["configs"][0]["table"], probe)

    def test_data_of_accesses(self):
        """saxpy: the word data names R2 and R7 behind its loads and R7 in front of its store."""
        def table(*words):
            return json.loads(self.replay("--launch=0", "--compare", "--json=-", *words).stdout)["launches"][0]["configs"][0]["table"]
        by_word = table("--probes=custom", "--custom=at class:store record data", "--custom=at class:load behind data")
        by_name = table("--probes=custom", "--custom=at pc:0x110 record R7", "--custom=at pc:0xd0 behind R2", "--custom=at pc:0xf0 behind R7")
        self.assertEqual([(row["pc"], row["side"], row["value"]) for row in by_word], [(0xd0, "behind", "R2"), (0xf0, "behind", "R7"), (0x110, "before", "R7")])
        self.assertEqual(by_word, by_name)
        self.assertEqual(table("--probes=reg", "--regs=data")[-1], by_name[-1])

    def test_columns_are_as_wide_as_samples(self):
        done = self.replay("--launch=0", "--probes=block,custom", "--custom=at op:LDG record clock", "--sample=cta:1/2@12345")
        lines = done.stdout.splitlines()
        title = next(l for l in lines if l.startswith("  probe "))
        rows = [l for l in lines if "cta:1/2@12345 inconclusive" in l]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertEqual(row.index("inconclusive"), title.index("verdict"), done.stdout)

    def test_names_that_were_meant(self):
        for words, meant in ((["repaly"], "replay"), (["explain", "output-diverge"], "output-diverged"),
                             (["replay", "run.xtr", "--probes=brnch"], "branch"), (["replay", "run.xtr", "--probe=inst"], "--probes"),
                             (["check", "run.xtr", "--polcy", "p.toml"], "--policy"), (["record", "--kernl", "x", "--", "app"], "--kernel")):
            done = self.run_xtrace(*words)
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"  hint: did you mean {meant}? ", done.stderr)
        for words in (["--probes=everything"], ["--everything"], ["b.xtr"]):
            self.assertNotIn("did you mean", self.run_xtrace("replay", "run.xtr", *words).stderr)

    def test_a_gpu_that_is_not_there_is_not_the_cpu(self):
        (self.folder / "policy.toml").write_text("[default]\n")
        for words in (["replay", "run.xtr", "--launch=0"], ["check", "run.xtr", "--policy=policy.toml"], ["reduce", "run.xtr"]):
            done = self.run_xtrace(*words, "--device=9")
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertIn("hint: leave out --device to replay on the CPU", done.stderr)
            self.assertNotIn("the CPU interpreter", done.stderr)
            done = self.run_xtrace(*words, "--device=9", "--backend=interp")
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"xtrace {words[0]}: error: --device 9 on the CPU interpreter\n", done.stderr)

    def test_nothing_to_reduce(self):
        done = self.run_xtrace("reduce", "run.xtr", "--launch=3", "--backend=interp")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("launch 3 does not diverge", done.stdout)
        self.assertFalse((self.folder / "run.xtr/reduced").exists())
        done = self.run_xtrace("reduce", "run.xtr", "--launch=3", "--backend=interp", "--json=-")
        outcome = json.loads(done.stdout)
        self.assertEqual((outcome["outcome"], outcome["kernel"], outcome["culprits"], outcome["exit_status"]), ("does-not-diverge", "histogram", [], 0))
        words = set(re.findall(r"[a-z0-9_]+", (ROOT / "docs/report-schema.md").read_text()))
        self.assertEqual(sorted(set(outcome) - words), [])

    def test_samples_that_would_leave_out_what_is_looked_for(self):
        done = self.run_xtrace("reduce", "run.xtr", "--backend=interp", "--sample=site:1/2")
        self.assertEqual(done.returncode, 64)
        self.assertIn("error: --sample site:1/2: reduce looks for the instructions itself\n  hint: ", done.stderr)

    def test_a_refused_probe_is_not_taken_for_no_divergence(self):
        bundle = ROOT / "fixtures/bundles/hard_cases-small.xtr"
        done = self.run_xtrace("reduce", str(bundle), "--backend=interp", "--keep=repro", "--json=out.json", "--launch=8", "--probe=mem")
        why = "launch 8 is not replayed under mem: kernel three_instructions has no memory access"
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertEqual(done.stdout, "")
        self.assertIn(f"xtrace reduce: error: {why}", done.stderr)
        outcome = json.loads((self.folder / "out.json").read_text())
        self.assertEqual((outcome["outcome"], outcome["exit_status"]), ("error", 3))
        self.assertIn(why, outcome["error"])

    def test_fields_are_documented(self):
        words = set()
        for name in ("report-schema", "probes"):
            words |= set(re.findall(r"[a-z0-9_]+", (ROOT / f"docs/{name}.md").read_text()))
        probes = "block,inst,pair,mem,count,branch,sync,range,latency,reg"
        done = self.replay("--launch=4", f"--probes={probes}", "--compare", "--json=-", "--range=line:sgemm.cu:15-20", "--regs=R4,P0",
                           "--at=class:load or op:BAR* or class:branch", "--traces=traces")
        found = set()

        def names(value):
            for key, inner in value.items() if isinstance(value, dict) else ():
                found.add(key)
                names(inner)
            for inner in value if isinstance(value, list) else ():
                names(inner)

        names(json.loads(done.stdout))
        self.assertIn("skew_max", found, done.stderr)
        self.assertEqual(sorted(found - words), [])

    def test_explain_json(self):
        every = json.loads(self.run_xtrace("explain", "--json").stdout)
        one = json.loads(self.run_xtrace("explain", "output-equal", "--json").stdout)
        self.assertIn(one[0], every)
        self.assertEqual(set(one[0]), {"code", "aspect", "effect", "meaning", "computed", "advice"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--xtrace", required=True, type=os.path.abspath)
    XTRACE = parser.parse_args().xtrace
    unittest.main(argv=sys.argv[:1])
