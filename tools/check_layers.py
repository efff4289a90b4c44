#!/usr/bin/env python3
"""Checks every #include of the tree against the table of rooms (docs/design.md, "The house").

Rows: room -> rooms it may include, and system headers it may use beyond the standard library. A room may always include
itself. `impl` headers are allowed in .cc files only. Also: only the rooms of ENVIRONMENT read environment variables, so that
what the others compute follows from their arguments; and no loop runs over what is inside a Result that ends before it. Exit
status 1 with one line a violation."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# room: (rooms it may include, foreign headers allowed anywhere, foreign headers allowed in .cc only)
FMT = {"fmt", "tl"}
TABLE = {
    "base": (set(), FMT | {"xxhash", "nlohmann"}, set()),
    "trace/wire": (set(), set(), set()),
    "instrument/sass": ({"base"}, FMT, set()),
    "instrument/cubin": ({"base"}, FMT, {"elf", "zstd"}),
    "capture/bundle": ({"base"}, FMT, {"capnp", "kj", "zstd", "bundle.capnp"}),
    "capture/inject": ({"base", "capture/bundle", "instrument/cubin"}, FMT | {"cuda", "cupti"}, set()),
    "instrument": ({"base", "instrument/sass", "instrument/cubin", "trace/wire"}, FMT, set()),
    "replay": ({"base", "capture/bundle", "instrument/cubin"}, FMT, set()),
    "replay/driver": ({"base", "capture/bundle", "instrument/cubin", "replay"}, FMT | {"cuda"}, set()),
    "replay/interp": ({"base", "capture/bundle", "instrument/cubin", "instrument/sass", "replay"}, FMT, {"zstd"}),
    "trace": ({"base", "trace/wire", "capture/bundle"}, FMT | {"nlohmann"}, {"zstd"}),
    "diff": ({"base", "capture/bundle"}, FMT | {"nlohmann"}, set()),
    "tools/xtrace": ({"base", "trace/wire", "instrument/sass", "instrument/cubin", "capture/bundle", "instrument",
                      "replay", "replay/driver", "replay/interp", "trace", "diff"},
                     FMT | {"nlohmann", "CLI"}, set()),
}
ENVIRONMENT = {"base", "capture/inject", "tools/xtrace"}
GETENV = re.compile(r"\bgetenv\s*\(")
LOOP = re.compile(r"\bfor \(")
OVER = re.compile(r"[^:]:([^:].*)")
# Headers outside every room that any room may use.
STANDARD = re.compile(r"^[a-z0-9_]+$")
POSIX = re.compile(r"^(sys/|unistd|fcntl|dlfcn|poll|signal|spawn|errno|pthread|cxxabi|elf|link|regex)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    parts = pathlib.PurePosixPath(path).parts
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and name in TABLE:
            return name
    return None


def foreign_name(header):
    first = header.split("/")[0]
    return re.sub(r"\.(h|hpp)$", "", first)


def loops_over_inside(line):
    """for (x : f().value()) and for (x : *f()): C++20 keeps what f gives no longer than until the loop begins."""
    for loop in LOOP.finditer(line):
        depth, end = 1, loop.end()
        while depth > 0 and end < len(line):
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        over = OVER.search(line[loop.end():end - 1])
        if over and ";" not in line[loop.end():end]:
            what = over.group(1).strip()
            if what.endswith(").value()") or (what.startswith("*") and what.endswith(")")):
                return True
    return False


def check(root=ROOT):
    bad = []
    files = [p for ext in ("*.h", "*.cc", "*.def") for p in root.rglob(ext)]
    for file in sorted(files):
        rel = file.relative_to(root).as_posix()
        if rel.startswith(("build", ".", "out/")):
            continue
        lines = file.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            if loops_over_inside(line):
                bad.append(f"{rel}:{number}: the loop runs over what is inside a Result that is gone")
        room = room_of(rel)
        if room is None:
            continue
        rooms, foreign, impl = TABLE[room]
        for number, line in enumerate(lines, 1):
            if room not in ENVIRONMENT and GETENV.search(line):
                bad.append(f"{rel}:{number}: {room} may not read environment variables")
            m = INCLUDE.match(line)
            if not m:
                continue
            header = m.group(2)
            target = room_of(header)
            if target is not None:
                if target != room and target not in rooms:
                    bad.append(f"{rel}:{number}: {room} may not include {target} ({header})")
                continue
            name = foreign_name(header)
            if POSIX.match(header) or (m.group(1) == "<" and "/" not in header and "." not in header):
                continue
            if any(name == f or name.startswith(f) for f in foreign):
                continue
            if rel.endswith(".cc") and any(name == f or name.startswith(f) or header.endswith(f + ".h") for f in impl):
                continue
            bad.append(f"{rel}:{number}: {room} may not include <{header}>")
    return bad


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    print("\n".join(problems) if problems else "include rules: no violation")
    sys.exit(1 if problems else 0)
