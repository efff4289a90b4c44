#!/usr/bin/env python3
"""Runs the commands in golden/*.txt and compares what they print, and how they exit, with what is written there.

A golden file is a list of transcripts:

    $ [VARIABLE=value ...] xtrace ls run.xtr
    lines of stdout
    ! lines of stderr
    [exit 0]

They run in a directory that holds run.xtr (finished) and died.xtr (incomplete), both made by make_sample_bundle, two
cubins of fixtures/cubins, and the files that prepare() makes. --update rewrites the golden files with what the program does now."""
import argparse
import difflib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Sizes that depend on the version of zstd.
VARIABLE = [(re.compile(r'"pack_bytes": \d+'), '"pack_bytes": N')]


def prepare(directory, make_bundle):
    subprocess.run([make_bundle, directory / "run.xtr"], check=True)
    subprocess.run([make_bundle, directory / "died.xtr", "incomplete"], check=True)
    shutil.copytree(directory / "run.xtr", directory / "torn.xtr")
    with open(directory / "torn.xtr" / "launches", "r+b") as f:
        f.truncate(f.seek(0, os.SEEK_END) - 1)
    for name in ("plain", "calls"):
        shutil.copy(HERE.parent.parent / "fixtures/cubins/sm_90" / f"{name}.cubin", directory / f"{name}.cubin")
    (directory / "empty").mkdir()
    shutil.copytree(directory / "run.xtr", directory / "damaged.xtr")
    (directory / "damaged.xtr" / "manifest").write_text("{}")


def execute(line, xtrace, directory):
    words = shlex.split(line)
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "XTRACE_LOG")}
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        env[name] = value
    if words.pop(0) != "xtrace":
        raise SystemExit(f"a golden command must start with xtrace: {line}")
    done = subprocess.run([xtrace, *words], cwd=directory, env=env, capture_output=True, timeout=60)
    out = done.stdout.decode("utf-8") + "".join("! " + l + "\n" for l in done.stderr.decode("utf-8").splitlines())
    for pattern, replacement in VARIABLE:
        out = pattern.sub(replacement, out)
    return out + f"[exit {done.returncode}]\n"


def check_golden(path, xtrace, directory, update):
    expected = path.read_text() if path.exists() else ""
    commands = [l for l in expected.splitlines() if l.startswith("$ ")]
    if not commands:
        return [f"{path.name}: no command in it"]
    found = "\n".join(l + "\n" + execute(l[2:], xtrace, directory) for l in commands)
    if update:
        path.write_text(found)
        return []
    diff = difflib.unified_diff(expected.splitlines(), found.splitlines(), path.name, "found", lineterm="", n=2)
    return ["\n".join(diff)] if expected != found else []


def command_rows(text):
    return re.findall(r"^  ([a-z-]+) +(\S.*)$", text, re.M)


def check_overview(xtrace, directory):
    """Holds for every command that this build has, so no golden file can say it."""
    bad = []
    run = lambda *args: subprocess.run([xtrace, *args], cwd=directory, capture_output=True, text=True, timeout=60)
    overview = run()
    rows = command_rows(overview.stdout)
    names = [name for name, _ in rows]
    if overview.returncode != 0 or not {"ls", "info"} <= set(names):
        bad.append(f"xtrace alone: exit {overview.returncode}, commands {names}")
    for same in (["help"], ["--help"], ["-h"]):
        if run(*same).stdout != overview.stdout:
            bad.append(f"xtrace {same[0]} differs from xtrace alone")
    unknown = run("nonsense")
    if unknown.returncode != 64 or command_rows(unknown.stderr) != rows or unknown.stdout:
        bad.append(f"unknown command: exit {unknown.returncode}, expected 64 and the list of commands on stderr")
    if "unknown command 'nonsense'" not in unknown.stderr:
        bad.append("unknown command: its name is not in the message")
    for name, summary in rows:
        shown = run("help", name)
        lines = shown.stdout.splitlines()
        if shown.returncode != 0 or shown.stdout != run(name, "--help").stdout:
            bad.append(f"xtrace help {name}: exit {shown.returncode}, or not the same as xtrace {name} --help")
        elif lines[0] != f"xtrace {name}: {summary}" or lines[2] != "Examples:" or f"  xtrace {name}" not in lines[3]:
            bad.append(f"xtrace help {name}: expected summary, then examples; found\n" + "\n".join(lines[:4]))
        wrong = run(name, "--no-such-flag")
        if wrong.returncode != 64 or not wrong.stderr.startswith(f"xtrace {name}: error: "):
            bad.append(f"xtrace {name} --no-such-flag: exit {wrong.returncode}, stderr {wrong.stderr!r}")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xtrace", required=True, type=os.path.abspath)
    parser.add_argument("--make-bundle", required=True, type=os.path.abspath)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    bad = []
    golden = sorted((HERE / "golden").glob("*.txt"))
    if not golden:
        bad.append("no golden files")
    with tempfile.TemporaryDirectory(prefix="xtrace-cli-") as name:
        directory = pathlib.Path(name)
        prepare(directory, args.make_bundle)
        for path in golden:
            bad += check_golden(path, args.xtrace, directory, args.update)
        bad += check_overview(args.xtrace, directory)
    print("\n".join(bad) if bad else f"{len(golden)} golden files and the overview: as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
