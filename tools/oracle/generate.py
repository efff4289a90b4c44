#!/usr/bin/env python3
"""Compares our text and effects with nvdisasm's over generated words (developers only: needs nvdisasm and a built sass_dump).

  tools/oracle/generate.py --nvdisasm NVDISASM --dump BUILD/bin/sass_dump --sm N [--corpus FOLDER/sm_N.tsv] [--rows FILE]

For every opcode that nvdisasm accepts a few base words are made: from fill patterns, and from a sample of sass_corpus where
there is one. In each base word every single bit, and every value of the usual modifier fields, is tried. Words that nvdisasm
refuses, or prints with ??? or INVALID, are left out. Prints how many words agree, opcodes without a form, and for every
opcode that differs the number of words and examples. --rows adds to an oracle file one row for each
opcode and each set of modifiers that agree, for tests/oracle."""
import argparse
import collections
import re
import subprocess
import sys

from corpus import nvdisasm, normal, registers

DEFAULT_CONTROL = 0x000FE20000000000
CONTROL = ((1 << 20) - 1) << 41
FILLS = [(0, 0), (0, 0x0E000000), (0, 0x07FFE000), (0xFFFFFFFF00FF0000, 0xFF), (0, 0x000E0000), (0xFFF0000000000000, 0),
         (0, 0x0F800000), (0, 0x0B981800), (0x0000000204060000, 0x078E0008)]
FIELDS = [(61, 60), (74, 72), (75, 73), (76, 73), (77, 75), (78, 76), (79, 76), (79, 78), (80, 77), (81, 79), (80, 78), (86, 84),
          (85, 84), (83, 81), (90, 87), (87, 85), (63, 61), (59, 58), (75, 74), (83, 82)]
GRAPHICS = re.compile(r"^(@!?U?P\d )?(ALD|AST|ISBERD|ISBEWR|OUT|IPA|PIXLD|AL2P|LDTRAM|SUQUERY|__HIR|SETCTAID|GETLMEMBASE|SETLMEMBASE)")


def opcode(w):
    return w[0] & 0xFFF | (w[1] >> 27 & 1) << 12


def bases(tool, sm, corpus):
    words = []
    for op in range(8192):
        for lo, hi in FILLS:
            words.append(((lo & ~0xFFFF) | 0x7000 | op & 0xFFF, hi & ~(1 << 27) | op >> 12 << 27 | DEFAULT_CONTROL))
    found = collections.OrderedDict()
    for w, text in zip(words, nvdisasm(tool, sm, words)):
        if text and len(found.setdefault(opcode(w), [])) < 2 and "INVALID" not in text and "???" not in text:
            found[opcode(w)].append(w)
    if corpus:
        seen = collections.Counter()
        for line in open(corpus):
            f = line.split("\t")
            w = (int(f[1], 16), int(f[2], 16))
            if seen[opcode(w)] < 3:
                seen[opcode(w)] += 1
                found.setdefault(opcode(w), []).append(w)
    return found


def variants(w):
    value = w[1] << 64 | w[0]
    mask = (1 << 64) - 1
    out = {value}
    for bit in list(range(12, 91)) + list(range(92, 105)):
        out.add(value ^ 1 << bit)
    for high, low in FIELDS:
        width = (1 << high - low + 1) - 1
        for v in range(width + 1):
            out.add(value & ~(width << low) | v << low)
    return [(v & mask, v >> 64) for v in sorted(out)]


def shape(text):
    """Mnemonic with its modifiers: one oracle row for each."""
    return re.sub(r"^@!?U?P[T0-6] ", "", text).split(" ")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--dump", required=True)
    parser.add_argument("--sm", type=int, required=True)
    parser.add_argument("--corpus")
    parser.add_argument("--rows")
    parser.add_argument("--examples", type=int, default=2)
    args = parser.parse_args()

    words = [w for ws in bases(args.nvdisasm, args.sm, args.corpus).values() for b in ws for w in variants(b)]
    words = list(dict.fromkeys(words))
    texts = nvdisasm(args.nvdisasm, args.sm, words)
    lines = subprocess.run([args.dump, str(args.sm)], capture_output=True, text=True, check=True,
                           input="".join(f"{lo:x} {hi:x} {16 * i:x}\n" for i, (lo, hi) in enumerate(words))).stdout.splitlines()
    compared = equal = 0
    no_form, graphics, rows = {}, set(), {}
    differ, missing = collections.defaultdict(list), collections.defaultdict(list)
    for i, (w, text, line) in enumerate(zip(words, texts, lines)):
        if not text or "???" in text or "INVALID" in text:
            continue
        op = opcode(w)
        if GRAPHICS.match(text):
            graphics.add(op)
            continue
        mine, effects = line.split("\t")
        if effects.strip() == "unknown":
            no_form.setdefault(op, text)
            continue
        compared += 1
        if normal(text) == mine:
            equal += 1
            rows.setdefault((op, shape(text)), (w, 16 * i, text))
        else:
            differ[op].append((text, mine, w))
        lacking = registers(text) - set(effects.replace("<-", " ").split())
        if lacking:
            missing[op].append((text, sorted(lacking), w))
    print(f"sm_{args.sm}: {compared} generated words, {100 * equal / max(1, compared):.3f} % with equal text; "
          f"{len(no_form)} opcodes without a form, {len(graphics)} of graphics, {len(differ)} differ somewhere")
    for op, text in no_form.items():
        print(f"  no form {op:#06x}: {text}")
    for title, table in (("differs", differ), ("register missing", missing)):
        for op, all_rows in sorted(table.items()):
            for text, mine, w in all_rows[:args.examples]:
                print(f"  {title} {op:#06x} x{len(all_rows)}: {text!r}, ours {mine!r} ({w[0]:016x} {w[1]:016x})")
    if args.rows:
        with open(args.rows, "a") as f:
            for w, pc, text in rows.values():
                f.write(f"sm_{args.sm} {w[0]:016x} {w[1]:016x} {pc:x} {normal(text)}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
