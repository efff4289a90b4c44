#!/usr/bin/env python3
"""The programs that walk whole libraries (tools/oracle): what is not understood, can not be read or was not there is no run without a
finding."""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

CUBIN = str(pathlib.Path(__file__).resolve().parents[2] / "fixtures/cubins/sm_90/plain.cubin")
BIN = None


def run(name, *words, text=""):
    done = subprocess.run([BIN / name, *words], input=text, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


class Programs(unittest.TestCase):
    def test_wrong_words(self):
        for name, *words in (["sass_live", "--help"], ["sass_live"], ["sass_live", "--kernels", "x", CUBIN], ["sass_live", CUBIN, "--sm"],
                             ["sass_splice_corpus", "--plan", "blok", CUBIN], ["sass_splice_corpus", "--bogus", CUBIN],
                             ["sass_corpus", CUBIN], ["sass_bench", CUBIN, CUBIN], ["sass_dump", "--help"]):
            status, _, errors = run(name, *words)
            self.assertEqual((status, errors[:7 + len(name)]), (64, f"usage: {name}"), words)

    def test_nothing_looked_at(self):
        for name in ("sass_live", "sass_splice_corpus"):
            status, _, errors = run(name, CUBIN, "missing.cubin")
            self.assertEqual(status, 3)
            self.assertIn(f"{name}: missing.cubin: can not open missing.cubin: No such file or directory\n", errors)
            status, _, errors = run(name, "--sm", "80", CUBIN)
            self.assertEqual(status, 3)
            self.assertIn(f"{name}: no kernel was ", errors)
        status, _, errors = run("sass_corpus", "--out", "/dev/null/corpus", CUBIN)
        self.assertEqual((status, errors), (3, "sass_corpus: can not create /dev/null/corpus: Not a directory\n"))

    def test_what_is_there(self):
        status, out, _ = run("sass_splice_corpus", "--plan", "count", "--sm", "90", CUBIN)
        self.assertEqual((status, "plan count: 2" in out, "faults 0" in out), (0, True, True), out)
        self.assertEqual(run("sass_live", "--kernels", "5", CUBIN)[0], 0)
        self.assertEqual(run("sass_dump", "90", text="0000000000007918 000fc00000000000")[:2], (0, "NOP\t <-\n"))
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run("sass_corpus", "--out", f"{folder}/new", CUBIN)[0], 0)
            self.assertTrue((pathlib.Path(folder) / "new/sm_90.tsv").exists())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=lambda text: pathlib.Path(text).resolve())
    BIN = parser.parse_args().bin
    unittest.main(argv=sys.argv[:1])
