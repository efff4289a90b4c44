#!/usr/bin/env python3
"""Measures the instruction table against the device code of whole libraries (developers only: needs nvdisasm).

  tools/oracle/corpus.py --nvdisasm NVDISASM --walk BUILD/bin/sass_corpus [--work FOLDER] [--json FILE] FILE...

FILE is a cubin, a fatbin, an executable or a shared library; it is read in place. sass_corpus samples words of every
signature (opcode and modifier bits); nvdisasm disassembles the samples at the addresses where ours were printed, and every
difference counts for the instructions that its signature stands for. Prints, for every architecture: instructions, shares
with a form, with exact effects, with equal text; then the opcodes that lack a form, differ in text or miss a register,
heaviest first. --work keeps the samples; with --reuse they are read from there and FILE is not needed.
Exit status 1 when a register that nvdisasm's text names is missing from our effects."""
import argparse
import collections
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ORACLE_NAME = {100: "SM100a", 103: "SM103a", 120: "SM120a", 121: "SM121a", 90: "SM90a"}


def nvdisasm(tool, sm, words, base=0):
    """Text of each word, or None where nvdisasm refuses it."""
    with tempfile.NamedTemporaryFile(suffix=".bin") as f:
        alive = set(range(len(words)))
        while True:
            f.seek(0)
            nop = struct.pack("<QQ", 0x7918, 0x000FE20000000000)
            f.write(b"".join(struct.pack("<QQ", *w) if i in alive else nop for i, w in enumerate(words)))
            f.flush()
            run = subprocess.run([tool, "-ndf", "-base", hex(base), "-b", ORACLE_NAME.get(sm, f"SM{sm}"), f.name],
                                 capture_output=True, text=True)
            texts = [None] * len(words)
            if f"/*{base:04x}*/" in run.stdout:
                for m in re.finditer(r"/\*([0-9a-f]{4,})\*/\s+(.*?) *;", run.stdout):
                    i = (int(m.group(1), 16) - base) // 16
                    if i in alive:
                        texts[i] = re.sub(r"\s+", " ", m.group(2)).strip()
                return texts
            refused = {(int(x, 16) - base) // 16 for x in re.findall(r"address 0x([0-9a-f]+)", run.stderr)} & alive
            if not refused:  # it names no instruction: look in halves
                if len(words) == 1:
                    return [None]
                half = len(words) // 2
                return nvdisasm(tool, sm, words[:half], base) + nvdisasm(tool, sm, words[half:], base + 16 * half)
            alive -= refused


def normal(text):
    return text.replace(".reuse", "")


def registers(text):
    return set(re.findall(r"(?<![A-Za-z0-9_.])(?:UR|UP|R|P|B)\d+(?![A-Za-z0-9_])", text))


class Arch:
    def __init__(self):
        self.all = self.known = self.exact = self.compared = self.equal = 0
        self.no_form, self.differ, self.missing = {}, {}, {}
        self.inexact = collections.Counter()


def measure(tool, sm, path):
    rows = [line.rstrip("\n").split("\t") for line in open(path)]
    words = [(int(r[1], 16), int(r[2], 16)) for r in rows]
    a = Arch()
    for row, theirs in zip(rows, nvdisasm(tool, sm, words)):
        count, exact, mnemonic, ours = int(row[0]), int(row[4]), row[5], row[6]
        opcode = f"{int(row[1], 16) & 0xfff | (int(row[2], 16) >> 27 & 1) << 12:#06x}"
        a.all += count
        a.known += count if exact else 0
        a.exact += count if exact == 2 else 0
        if exact == 1:
            a.inexact[mnemonic] += count
        if theirs is None:
            continue
        a.compared += count
        example = (theirs, ours, row[1], row[2])

        def add(table):
            n, e = table.get(opcode, (0, []))
            table[opcode] = (n + count, sorted(e + [(count, example)], reverse=True)[:40])
        if not exact:
            add(a.no_form)
            continue
        if normal(theirs) == ours:
            a.equal += count
        else:
            add(a.differ)
        if registers(theirs) - set(row[7].split()):
            add(a.missing)
    return a


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--walk", help="the sass_corpus program")
    parser.add_argument("--per-signature", default="6")
    parser.add_argument("--sm", type=int, action="append", help="only these architectures")
    parser.add_argument("--work", help="folder for the samples")
    parser.add_argument("--reuse", action="store_true", help="take the samples that --work holds")
    parser.add_argument("--examples", type=int, default=1, help="examples an opcode")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    scratch = tempfile.TemporaryDirectory()
    work = pathlib.Path(args.work or scratch.name)
    work.mkdir(parents=True, exist_ok=True)
    if not args.reuse:
        subprocess.run([args.walk, "--per-signature", args.per_signature, "--out", str(work), *args.files], check=True)
    figures, bad = {}, False
    for path in sorted(work.glob("sm_*.tsv"), key=lambda p: int(p.stem[3:])):
        sm = int(path.stem[3:])
        if args.sm and sm not in args.sm:
            continue
        a = measure(args.nvdisasm, sm, path)
        figures[f"sm_{sm}"] = {"instructions": a.all, "with_form": a.known, "exact_effects": a.exact,
                               "compared": a.compared, "equal_text": a.equal}
        share = lambda n, of: 100 * n / max(1, of)
        print(f"sm_{sm}: {a.all} instructions, {share(a.known, a.all):.4f} % with a form, "
              f"{share(a.exact, a.all):.4f} % with exact effects, {share(a.equal, a.compared):.4f} % with equal text")
        for title, table in (("no form", a.no_form), ("text differs", a.differ), ("register missing", a.missing)):
            for opcode, (n, examples) in sorted(table.items(), key=lambda kv: -kv[1][0]):
                for c, (theirs, ours, lo, hi) in examples[:args.examples]:
                    print(f"  {title} {opcode} x{n}: nvdisasm {theirs!r}, ours {ours!r} ({lo} {hi}, x{c})")
        print("  bounds only: " + ", ".join(f"{m} x{n}" for m, n in a.inexact.most_common()))
        bad = bad or bool(a.missing)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
