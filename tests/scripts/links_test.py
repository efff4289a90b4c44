#!/usr/bin/env python3
"""Every relative link in the Markdown files under version control leads to something that exists."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BUILT = re.compile(r"build|out$|\.")


def pages():
    for entry in sorted(ROOT.iterdir()):
        if BUILT.match(entry.name):
            continue
        yield from sorted(entry.rglob("*.md")) if entry.is_dir() else [entry] if entry.suffix == ".md" else []


def dangling(page):
    code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        code ^= line.startswith("```")
        if code or line.startswith("    "):
            continue
        for target in LINK.findall(line):
            path = target.split("#")[0]
            if path and "://" not in target and not target.startswith("mailto:") and not (page.parent / path).exists():
                yield f"{page.relative_to(ROOT)}:{number}: {target}"


found = list(pages())
bad = [line for page in found for line in dangling(page)]
if len(found) < 5:
    bad.append(f"only {len(found)} pages found under {ROOT}")
print("\n".join(bad) if bad else f"links of {len(found)} pages: as expected")
sys.exit(1 if bad else 0)
