#!/usr/bin/env python3
"""Every relative link in the Markdown files under version control leads to something that exists, to a heading where it names one."""
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


def anchors(page):
    """Of its headings, as GitHub makes them."""
    code, seen = False, {}
    for line in page.read_text().splitlines():
        code ^= line.startswith("```")
        if code or not re.match(r"#+ ", line):
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        seen[name] = seen.get(name, -1) + 1
        yield name if seen[name] == 0 else f"{name}-{seen[name]}"


def dangling(page):
    code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        code ^= line.startswith("```")
        if code or line.startswith("    "):
            continue
        for target in LINK.findall(line):
            path, _, anchor = target.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            leads_to = page.parent / path if path else page
            if not leads_to.exists() or (anchor and leads_to.suffix == ".md" and anchor not in anchors(leads_to)):
                yield f"{page.relative_to(ROOT)}:{number}: {target}"


found = list(pages())
bad = [line for page in found for line in dangling(page)]
if len(found) < 5:
    bad.append(f"only {len(found)} pages found under {ROOT}")
print("\n".join(bad) if bad else f"links of {len(found)} pages: as expected")
sys.exit(1 if bad else 0)
