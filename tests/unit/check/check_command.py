#!/usr/bin/env python3
"""`xtrace check` over fixtures/bundles/kernels13-small.xtr on the CPU interpreter: exit statuses and what is written.

  policy    the policy of this repository's CI holds, and says that timing was not judged
  tight     a limit of code growth that no probe can meet is refused by kernel and metric, in every format
  baseline  no drift against itself; a baseline with shorter code, of another GPU, or with more launches
  refusals  bad policies, baselines and bundles
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
BUNDLE = HERE.parent.parent.parent / "fixtures/bundles/kernels13-small.xtr"
KERNELS = 13


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Runner:
    def __init__(self, xtrace, folder):
        self.xtrace, self.folder = xtrace, folder
        self.files = 0

    def file(self, text):
        self.files += 1
        path = self.folder / f"file{self.files}"
        path.write_text(text)
        return path

    def check(self, *arguments, status, bundle=BUNDLE):
        command = [self.xtrace, "check", bundle, "--backend=interp", "--quiet", *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        expect(done.returncode == status,
               f"exit status {done.returncode}, expected {status}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done


def policy(run):
    out = run.folder / "now.json"
    done = run.check("--policy", HERE / "kernels13.toml", "--json", out, "--junit", "now.xml", "--traces", "traces", status=0)
    expect("timing was not judged in 39 of 39 rows: the interp backend did not measure time" in done.stdout, done.stdout)
    now = json.loads(out.read_text())
    expect(now["verdict"] == "trusted" and now["timing_judged"] is False, "verdict of the JSON")
    expect(now["environment"]["backend"] == "interp", "environment of the JSON")
    rows = [(r["launch"], r["probe"]) for r in now["rows"]]
    expect(rows == [(n, p) for n in range(KERNELS) for p in ("block", "inst", "pair")], f"rows: {rows}")
    expect(all(r["semantics"] == "trusted" and r["timing"] is None and not r["findings"] for r in now["rows"]), "rows")
    suites = xml.etree.ElementTree.parse(run.folder / "now.xml").getroot()
    expect(suites.tag == "testsuites" and suites.get("tests") == "39" and suites.get("failures") == "0", "JUnit")
    traces = {p.suffix for p in (run.folder / "traces" / BUNDLE.name).iterdir()}
    expect({".xtrace", ".pftrace"} <= traces, f"traces kept: {traces}")
    required = run.file('[default]\nrequire = []\ntiming = "required"\n[kernel."^saxpy$"]\nrequire = ["block"]\n')
    done = run.check("--policy", required, status=2)
    expect("launch 0 saxpy, block all: timing-not-measured" in done.stdout, done.stdout)


def tight(run):
    tight_policy = run.file('[default]\nrequire = ["block"]\n[kernel."^sgemm$"]\ncode_growth.block = 1.0\n')
    done = run.check("--policy", tight_policy, "--json", "now.json", "--junit", "now.xml", status=1)
    expect("launch 4 sgemm, block all: code-growth: " in done.stdout, done.stdout)
    now = json.loads((run.folder / "now.json").read_text())
    bad = [r["kernel"] for r in now["rows"] if r["verdict"] != "trusted"]
    expect(bad == ["sgemm"] and len(now["rows"]) == KERNELS, f"not trusted: {bad}")
    failures = xml.etree.ElementTree.parse(run.folder / "now.xml").getroot().findall(".//failure")
    expect([f.get("type") for f in failures] == ["not trusted"], "JUnit failures")
    expect(failures[0].get("message").startswith("code-growth: "), failures[0].get("message"))


def baseline(run):
    few = run.file('[default]\nrequire = []\ndrift = 0\n[kernel."^(saxpy|collatz)$"]\nrequire = ["block"]\n')
    run.check("--policy", few, "--json", "before.json", status=0)
    before = json.loads((run.folder / "before.json").read_text())
    done = run.check("--policy", few, "--baseline", "before.json", status=0)
    expect("drift" not in done.stdout, done.stdout)

    def changed(edit):
        copy = json.loads(json.dumps(before))
        edit(copy)
        return run.file(json.dumps(copy))

    def shorter(b):
        b["rows"][1]["metrics"]["code_bytes"]["after"] -= 128

    done = run.check("--policy", few, "--baseline", changed(shorter), status=1)
    expect("launch 12 collatz, block all: drift: code_bytes " in done.stdout, done.stdout)
    expect("saxpy, block all: drift" not in done.stdout, done.stdout)

    elsewhere = changed(lambda b: b["environment"].update(backend="driver", device="NVIDIA H200"))
    done = run.check("--policy", few, "--baseline", elsewhere, "--json", "now.json", status=3)
    expect("backend: driver in the baseline, interp now; device: NVIDIA H200" in done.stderr, done.stderr)
    expect(len(json.loads((run.folder / "now.json").read_text())["rows"]) == 2, "results are written all the same")
    run.check("--policy", few, "--baseline", elsewhere, "--force", status=0)

    more = changed(lambda b: b["rows"].append(dict(b["rows"][0], launch=99)))
    done = run.check("--policy", few, "--baseline", more, status=2)
    expect("not-checked: in the baseline, not in this run: kernels13-small.xtr launch 99" in done.stdout, done.stdout)


def refusals(run):
    good = run.file("[default]\n")
    done = run.check("--policy", run.file("[default]\n\nbudget.blok = 1\n"), status=3)
    expect("line 3: unknown key budget.blok" in done.stderr, done.stderr)
    run.check("--policy", "absent.toml", status=3)
    done = run.check("--policy", good, "--baseline", good, status=3)
    expect("is not JSON" in done.stderr, done.stderr)
    run.check("--policy", good, bundle="absent.xtr", status=3)
    done = run.check(BUNDLE, "--policy", good, status=3)
    expect("two bundles are named kernels13-small.xtr" in done.stderr, done.stderr)
    run.check(status=64)
    run.check("--policy", good, "--force", status=64)
    run.check("--policy", good, "--json", "-", "--junit", "-", status=64)
    done = run.check("--policy", run.file("[default]\n[kernel.\"sgem_\"]\n"), "--junit", "-", status=0)
    suites = xml.etree.ElementTree.fromstring(done.stdout)   # and no table
    expect(not (run.folder / "-").exists() and len(suites) > 0, "JUnit on stdout")
    expect("section-unused" in run.check("--policy", run.file("[default]\n[kernel.\"sgem_\"]\n"), status=0).stdout, "a mistyped section")
    blocked = run.check("--policy", good, "--json", "/dev/full", "--junit", "now.xml", status=3)
    expect("can not write /dev/full" in blocked.stderr and (run.folder / "now.xml").exists(), blocked.stderr)
    done = run.check("--policy", run.file("[default]\nrequire = []\n"), status=2)
    expect("nothing-checked" in done.stdout, done.stdout)


CASES = {c.__name__: c for c in (policy, tight, baseline, refusals)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xtrace", required=True, type=pathlib.Path)
    parser.add_argument("case", choices=CASES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            CASES[arguments.case](Runner(arguments.xtrace.resolve(), pathlib.Path(folder)))
        except Failure as failure:
            print(failure)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
