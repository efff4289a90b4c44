#!/usr/bin/env python3
"""Compares our disassembly with nvdisasm's, word by word (developers only: needs nvdisasm and a built sass_dump).

  tools/oracle/compare.py --nvdisasm NVDISASM --dump BUILD/bin/sass_dump --sm 90 FILE...

FILE is a cubin (every .text section is read) or a text file of "low high" hexadecimal words. Words are deduplicated
without their control bits; branch targets are left out of the comparison, because every word is decoded at an address of
its own. Prints the shares of words with a form and with equal text, then one example for each opcode that differs, worst
first, and every register of the oracle's text that our effects lack. Exit status 1 when a register is missing."""
import argparse
import collections
import re
import struct
import subprocess
import sys
import tempfile

CONTROL = ((1 << 20) - 1) << 41
DEFAULT_CONTROL = 0x000FE20000000000  # stall 1, keep issuing, no barriers
NOP = (0x7918, DEFAULT_CONTROL)
TARGET = re.compile(r"\b(BRA|CALL|BSSY|RET|WARPSYNC|LEPC|ULEPC)\b")


def words_of_cubin(data):
    offset = struct.unpack_from("<Q", data, 0x28)[0]
    count, names = struct.unpack_from("<HH", data, 0x3C)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * i) for i in range(count)]
    strings = sections[names][4]
    for s in sections:
        start = strings + s[0]
        if data[start:data.index(b"\0", start)].startswith(b".text."):
            for at in range(s[4], s[4] + s[5], 16):
                yield struct.unpack_from("<QQ", data, at)


def words_of_file(path):
    data = open(path, "rb").read()
    if data[:4] == b"\x7fELF":
        yield from words_of_cubin(data)
        return
    for line in data.decode().splitlines():
        fields = [f for f in re.split(r"\s+", line) if re.fullmatch(r"(0x)?[0-9a-f]{16}", f)]
        if len(fields) >= 2:
            yield int(fields[0], 16), int(fields[1], 16)


def nvdisasm(tool, sm, words):
    """Texts of the words; None for those that nvdisasm refuses (it names them one run at a time)."""
    texts, alive = [None] * len(words), set(range(len(words)))
    while True:
        with tempfile.NamedTemporaryFile(suffix=".bin") as f:
            for i, w in enumerate(words):
                f.write(struct.pack("<QQ", *(w if i in alive else NOP)))
            f.flush()
            run = subprocess.run([tool, "-b", f"SM{sm}", f.name], capture_output=True, text=True)
        if "/*0000*/" in run.stdout:
            for m in re.finditer(r"/\*([0-9a-f]{4,})\*/\s+(.*?);", run.stdout):
                i = int(m.group(1), 16) // 16
                if i in alive:
                    texts[i] = re.sub(r"\s+", " ", m.group(2)).strip()
            return texts
        refused = {int(x, 16) // 16 for x in re.findall(r"address 0x([0-9a-f]+)", run.stderr)} & alive
        if not refused:
            sys.exit(f"nvdisasm failed: {run.stderr[:300]}")
        alive -= refused


def normal(text):
    text = text.replace(".reuse", "")
    if TARGET.search(text):
        text = re.sub(r"-?0x[0-9a-f]+$", "*", text)
    return text


def registers(text):
    return set(re.findall(r"(?<![A-Za-z0-9_.])(?:UR|UP|R|P)\d+(?![A-Za-z0-9_])", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--dump", required=True)
    parser.add_argument("--sm", type=int, default=90)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()

    unique = {(lo, hi & ~CONTROL) for path in args.files for lo, hi in words_of_file(path)}
    words = [(lo, hi | DEFAULT_CONTROL) for lo, hi in sorted(unique)]
    ours = subprocess.run([args.dump, str(args.sm)], input="".join(f"{lo:x} {hi:x}\n" for lo, hi in words),
                          capture_output=True, text=True, check=True).stdout.splitlines()
    texts = nvdisasm(args.nvdisasm, args.sm, words)

    known = equal = compared = 0
    differ, missing = collections.defaultdict(list), []
    for (lo, hi), text, line in zip(words, texts, ours):
        if text is None:
            continue
        compared += 1
        mine, effects = line.split("\t")
        if effects.strip() == "unknown":
            differ[f"{lo & 0xFFF | (hi >> 27 & 1) << 12:#06x} (no form)"].append((text, mine))
            continue
        known += 1
        if normal(text) == normal(mine):
            equal += 1
        else:
            differ[f"{lo & 0xFFF | (hi >> 27 & 1) << 12:#06x}"].append((text, mine))
        lacking = registers(text) - set(effects.replace("<-", " ").split())
        if lacking:
            missing.append((text, lacking))
    print(f"{compared} words: {100 * known / max(1, compared):.3f} % with a form, "
          f"{100 * equal / max(1, compared):.3f} % with equal text")
    for opcode, rows in sorted(differ.items(), key=lambda kv: -len(kv[1])):
        print(f"  {opcode} x{len(rows)}: nvdisasm {rows[0][0]!r}, ours {rows[0][1]!r}")
    for text, lacking in missing[:20]:
        print(f"  register missing from the effects: {sorted(lacking)} of {text!r}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
