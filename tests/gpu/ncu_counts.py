#!/usr/bin/env python3
"""Executed instructions as the hardware counts them: runs ncu on an unrecorded program and writes what it read as JSON.

    ncu_counts.py totals OUT.json -- PROGRAM [ARGUMENT]...
        [{"kernel": mangled name, "warp_instructions": N}, ...] in launch order (smsp__inst_executed.sum)

    ncu_counts.py instructions OUT.json --kernel NAME -- PROGRAM [ARGUMENT]...
        {"kernel": NAME, "instructions": [{"pc": offset, "sass": text, "warps": N, "lanes": N}, ...]} of its first launch

    ncu_counts.py memory OUT.json --kernel NAME -- PROGRAM [ARGUMENT]...
        the same, with "sectors" (memory_l2_theoretical_sectors_global) and "wavefronts" (memory_l1_wavefronts_shared)

    ncu_counts.py samples OUT.json --kernel NAME -- PROGRAM [ARGUMENT]...
        the same of its third launch, with warm caches, with "samples": how often a warp was seen in front of the instruction

Exit status 2 when ncu can not run or prints what is not understood; its output is then shown."""
import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys

INSTRUCTION_BYTES = 16
TOTAL_METRIC = "smsp__inst_executed.sum"
COUNTS = {"warps": "Instructions Executed", "lanes": "Thread Instructions Executed"}
# As the source page heads them, in the section SourceCounters.
MEMORY = COUNTS | {"sectors": "L2 Theoretical Sectors Global", "wavefronts": "L1 Wavefronts Shared"}
# The least interval, as kernels are short.
WARM = ["--launch-skip", "2", "--cache-control", "none", "--warp-sampling-interval", "0"]
SAMPLES = COUNTS | {"samples": "# Samples"}


class NcuError(Exception):
    pass


def number(text):
    """'12,615,680' -> 12615680; a count with a fraction is not a count."""
    value = float(text.replace(",", ""))
    if value != int(value):
        raise NcuError(f"expected a whole number, found '{text}'")
    return int(value)


def csv_rows(output):
    """The rows of ncu's CSV: its own remarks begin with '==', the program's lines are no quoted CSV."""
    lines = [line for line in output.splitlines() if line.startswith('"')]
    return list(csv.reader(io.StringIO("\n".join(lines))))


def parse_totals(output):
    rows = csv_rows(output)
    header = next((row for row in rows if "Metric Name" in row and "Kernel Name" in row), None)
    if header is None:
        raise NcuError("no CSV header with 'Kernel Name' and 'Metric Name'")
    kernel, metric, value, launch = (header.index(c) for c in ("Kernel Name", "Metric Name", "Metric Value", "ID"))
    totals = {}
    for row in rows[rows.index(header) + 1:]:
        if len(row) == len(header) and row[metric] == TOTAL_METRIC:
            totals[int(row[launch])] = {"kernel": row[kernel], "warp_instructions": number(row[value])}
    if not totals:
        raise NcuError(f"no row with the metric {TOTAL_METRIC}")
    return [totals[id] for id in sorted(totals)]


def column(header, name):
    """The last of that name: the page also repeats some columns, in front, as its default navigation. None: a column of memory
    that the page leaves out, because no instruction of the kernel has anything there."""
    if name not in header and name in MEMORY.values() and name not in COUNTS.values():
        return None
    if name not in header:
        raise NcuError(f"no column named '{name}' among {header}")
    return len(header) - 1 - header[::-1].index(name)


def parse_instructions(output, kernel, columns=COUNTS):
    rows = csv_rows(output)
    header = next((row for row in rows if "Address" in row), None)
    if header is None:
        raise NcuError("no CSV header with 'Address'")
    address = column(header, "Address")
    source = column(header, "Source")
    places = {name: column(header, head) for name, head in columns.items()}
    instructions = []
    for row in rows[rows.index(header) + 1:]:
        if len(row) != len(header) or not re.fullmatch(r"(0x)?[0-9a-fA-F]+", row[address]):
            continue
        # Instructions that access no memory have nothing in the columns of memory.
        counts = {name: number(row[at]) if at is not None and (row[at] or name in COUNTS) else 0
                  for name, at in places.items()}
        instructions.append({"address": int(row[address], 16), "sass": row[source].strip()} | counts)
    if not instructions:
        raise NcuError("no row with an address")
    first = instructions[0]["address"]
    for index, instruction in enumerate(instructions):
        instruction["pc"] = instruction.pop("address") - first
        if instruction["pc"] != index * INSTRUCTION_BYTES:
            raise NcuError(f"row {index}: expected offset {index * INSTRUCTION_BYTES:#x}, found {instruction['pc']:#x}")
    return {"kernel": kernel, "instructions": instructions}


def run_ncu(arguments, program):
    ncu = shutil.which("ncu")
    if ncu is None:
        raise NcuError("no ncu on the PATH")
    command = [ncu, "--csv", "--clock-control", "none", "--print-units", "base", *arguments, *program]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise NcuError(f"status {done.returncode} from: {' '.join(command)}\n{done.stdout}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("totals", "instructions", "memory", "samples"))
    parser.add_argument("out")
    parser.add_argument("--kernel", help="mangled name")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    own, program = words[:end], words[end + 1:]
    arguments = parser.parse_args(own)
    if not program:
        parser.error("no program after --")

    output = ""
    try:
        if arguments.what == "totals":
            output = run_ncu(["--print-kernel-base", "mangled", "--metrics", TOTAL_METRIC], program)
            result = parse_totals(output)
        else:
            if not arguments.kernel:
                parser.error(f"{arguments.what} needs --kernel")
            output = run_ncu(["--section", "SourceCounters", "--page", "source", "--kernel-name-base", "mangled",
                              "--kernel-name", arguments.kernel, "--launch-count", "1", *(WARM if arguments.what == "samples" else [])], program)
            columns = {"memory": MEMORY, "samples": SAMPLES}.get(arguments.what, COUNTS)
            result = parse_instructions(output, arguments.kernel, columns)
    except NcuError as error:
        print(f"ncu_counts: {error}\n{output}", file=sys.stderr)
        return 2
    with open(arguments.out, "w") as out:
        json.dump(result, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
