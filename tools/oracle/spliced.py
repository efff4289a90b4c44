#!/usr/bin/env python3
"""Splices random kernels of whole libraries and lets nvdisasm read every result (developers only: needs nvdisasm).

  tools/oracle/spliced.py --nvdisasm NVDISASM --splice BUILD/bin/sass_splice_corpus [--sm N ...] [--kernels N] [--plan NAME]
                          [--read N] [--jobs N] [--work FOLDER] FILE...

Prints, for every architecture, what the splicer says, then how many spliced cubins nvdisasm read, in how many it failed and in
how many it said something, and each message with its count (numbers left out). One architecture at a time is on the disk, in
a temporary folder below --work. Exit status 1 when nvdisasm failed on a cubin, or the splicer found a
fault."""
import argparse
import collections
import concurrent.futures
import pathlib
import random
import re
import subprocess
import sys
import tempfile


def read_one(tool, path):
    """Whether nvdisasm failed on a cubin, and its distinct messages without their numbers."""
    run = subprocess.run([tool, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = {re.sub(r"0x[0-9a-f]+|\d+", "#", line.replace(str(path), "FILE")) for line in run.stderr.splitlines() if line}
    return run.returncode != 0, said


def read_all(tool, cubins, jobs):
    """Cubins that failed, cubins with a message, and the messages."""
    failed, loud, messages = [], 0, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for path, (broken, said) in zip(cubins, pool.map(lambda cubin: read_one(tool, cubin), cubins)):
            loud += bool(said)
            messages.update(said)
            if broken:
                failed.append(path.name)
    return failed, loud, messages


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--splice", required=True, help="the sass_splice_corpus program")
    parser.add_argument("--sm", type=int, action="append", help="only these architectures")
    parser.add_argument("--kernels", default="2000")
    parser.add_argument("--plan", default="block")
    parser.add_argument("--read", type=int, help="only so many of the spliced cubins, drawn at random: nvdisasm takes long")
    parser.add_argument("--jobs", type=int, default=1, help="so many nvdisasm at a time")
    parser.add_argument("--work", help="where the temporary folder is made")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    bad = False
    for sm in args.sm or [75, 80, 86, 89, 90, 100, 103, 120, 121]:
        with tempfile.TemporaryDirectory(dir=args.work) as folder:
            splice = subprocess.run([args.splice, "--kernels", args.kernels, "--sm", str(sm), "--plan", args.plan, "--save",
                                     folder, *args.files])
            cubins = sorted(pathlib.Path(folder).glob(f"*_{args.plan}.cubin"))
            if args.read and args.read < len(cubins):
                cubins = sorted(random.Random(1).sample(cubins, args.read))
            failed, loud, messages = read_all(args.nvdisasm, cubins, args.jobs)
        print(f"sm_{sm}: nvdisasm read {len(cubins)} spliced cubins, failed in {len(failed)}, said something in {loud}")
        for message, n in messages.most_common():
            print(f"  x{n}: {message}")
        for name in failed:
            print(f"  failed: {name}")
        sys.stdout.flush()
        bad = bad or bool(failed) or splice.returncode != 0
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
