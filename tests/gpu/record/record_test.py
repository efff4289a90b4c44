#!/usr/bin/env python3
"""Records every case of record_cases.cu on a real GPU and checks what `xtrace ls --json` and `xtrace info --json` say.

    tests/gpu/record/record_test.py --xtrace build/bin/xtrace [--work DIR] [--nvcc nvcc] [--arch sm_90] [CASE...]

Needs a GPU and nvcc. One line a check; exit status 1 when one failed. What can not be tried on this machine (no
permission to mount, no ncu) is printed as SKIP."""
import argparse
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
failures = 0


def check(name, ok, detail=""):
    global failures
    failures += not ok
    print(f"{'PASS' if ok else 'FAIL'} {name}{'' if ok else ': ' + str(detail)}", flush=True)


def run(command, **kw):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **kw)


# How the cases are built.
KINDS = {
    "static": ["--cudart=static"],
    "shared": ["--cudart=shared"],
    "per_thread": ["--cudart=static", "--default-stream=per-thread"],
}


class Bench:
    def __init__(self, args):
        self.xtrace = str(pathlib.Path(args.xtrace).resolve())
        self.work = pathlib.Path(args.work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.nvcc, self.arch = args.nvcc, args.arch

    def build(self):
        jobs = [[self.nvcc, f"-arch={self.arch}", "-std=c++17", *options, HERE / "record_cases.cu", "-o",
                 self.work / f"cases_{kind}", "-ldl"] for kind, options in KINDS.items()]
        jobs += [[self.nvcc, f"-arch={self.arch}", "-cubin", f"-DADD={n}", HERE / "twin.cu", "-o",
                  self.work / f"twin{n}.cubin"] for n in (1, 2)]
        jobs.append([self.nvcc, HERE / "cupti_holder.cc", "-o", self.work / "cupti_holder", "-ldl"])
        running = [subprocess.Popen([str(c) for c in j]) for j in jobs]
        if any(p.wait() for p in running):
            sys.exit("a test program could not be compiled")

    def app(self, case, kind="static"):
        return [self.work / f"cases_{kind}", case, self.work / "twin1.cubin", self.work / "twin2.cubin"]

    def record(self, command, options=(), bundle=None, **kw):
        bundle = bundle or self.work / "run.xtr"
        shutil.rmtree(bundle, ignore_errors=True)
        r = run([self.xtrace, "record", "-o", bundle, *options, "--", *command], **kw)
        listing = run([self.xtrace, "ls", "--json", bundle])
        r.ls = json.loads(listing.stdout) if listing.returncode == 0 else None
        r.bundle = bundle
        return r

    def info(self, recorded, ordinal):
        return json.loads(run([self.xtrace, "info", "--json", recorded.bundle, ordinal]).stdout)


def kinds(info):
    """Of the memory that the launch reaches by pointers; the variables of the module are in every launch."""
    return sorted(r["kind"] for r in info["regions"] if not r["symbol"])


def recorded(r):
    return [l for l in r.ls["launches"] if l["status"] == "recorded"]


def reasons(r):
    return [l["skip_reason"] for l in r.ls["launches"] if l["status"] == "skipped"]


# Cases that must be recorded completely: (number of launches, check of the infos of all of them).
GOOD = {
    "plain": (3, lambda i: all(kinds(x) == ["device"] and x["regions"][0]["size"] == 400000 and
                               x["regions"][0]["changed_chunks"] == 1 for x in i)),
    "pointers": (1, lambda i: kinds(i[0]) == ["device"] * 3 and i[0]["param_bytes"] == 8),
    "variables": (1, lambda i: {r["symbol"] for r in i[0]["regions"]} >= {"weights", "calls_made", "table_pointer"} and
                  kinds(i[0]).count("device") == 2 and any("hidden_table" in r["symbol"] for r in i[0]["regions"])),
    "big": (1, lambda i: i[0]["param_bytes"] == 8016 and kinds(i[0]).count("device") == 1 and
            i[0]["params"][0]["bytes"][2:8] in ("5a5a5a", "000000")),
    "zero_params": (1, lambda i: i[0]["param_bytes"] == 0),
    "extra": (1, lambda i: i[0]["param_bytes"] == 16 and "device" in kinds(i[0])),
    "clusters": (2, lambda i: i[0]["cluster"] == [2, 1, 1] and i[1]["cluster"] == [4, 1, 1] and
                 {a["name"] for a in i[1]["attributes"]} >= {"cluster_dimension", "programmatic_stream_serialization"}),
    "coop": (1, lambda i: i[0]["cooperative"] is True),
    "async_pool": (1, lambda i: "async_pool" in kinds(i[0]) and kinds(i[0]).count("async_pool") == 1),
    "managed": (1, lambda i: "managed" in kinds(i[0])),
    "pitched": (1, lambda i: any(r["kind"] == "device" and r["size"] % 17 == 0 for r in i[0]["regions"])),
    "vmm": (1, lambda i: kinds(i[0]).count("vmm") == 3),
    "pinned": (1, lambda i: "asked" in kinds(i[0])),
    "tensor_map": (1, lambda i: kinds(i[0]).count("device") == 2),
    "threads": (40, lambda i: all(kinds(x).count("device") == 1 for x in i)),
    "twins": (2, lambda i: i[0]["code"]["hash"] != i[1]["code"]["hash"] and i[0]["kernel"] == i[1]["kernel"] == "twin"),
}


def good_cases(b, wanted):
    for kind in KINDS:
        for case, (count, test) in GOOD.items():
            if wanted and case not in wanted:
                continue
            name = f"{case} ({kind})"
            alone = run(b.app(case, kind))
            r = b.record(b.app(case, kind))
            check(f"{name}: output and status are the program's", (r.stdout, r.returncode) == (alone.stdout, 7), r)
            if r.ls is None:
                check(f"{name}: there is a bundle", False, r.stderr)
                continue
            check(f"{name}: {count} launches recorded", len(recorded(r)) == count and r.ls["state"] == "complete",
                  (r.ls["launches"], r.ls["warnings"]))
            infos = [b.info(r, l["ordinal"]) for l in recorded(r)]
            try:
                ok = len(infos) == count and test(infos)
            except (KeyError, IndexError) as e:
                ok, infos = False, (e, infos)
            check(f"{name}: contents", ok, json.dumps(infos, default=str)[:3000])
            if (case, kind) == ("plain", "per_thread"):
                check(f"{name}: launched in the thread's own stream", all(i["api"].endswith("_ptsz") for i in infos),
                      [i["api"] for i in infos])
            for w in r.ls["warnings"]:
                print(f"  note: {w}")


def refused_cases(b):
    r = b.record(b.app("graph"))
    check("graph: the launch in it and the plain one are recorded, the captured one does not count",
          r.returncode == 7 and len(recorded(r)) == 2 and recorded(r)[0].get("graph") == {"launch": 0, "node": 0} and
          "captured 1 launch" in r.stderr, (r.stderr, r.ls))
    alone = run(b.app("graph"))
    check("graph: the capture survives", r.stdout == alone.stdout, (r.stdout, alone.stdout))

    r = b.record(b.app("failing_launch"))
    check("failing_launch: skipped with the driver's error",
          r.returncode == 3 and any("launch failed: CUDA_ERROR" in x for x in reasons(r)), (r.stderr, r.ls))
    r = b.record(b.app("fault"))
    check("fault: the program sees its error", r.stdout == run(b.app("fault")).stdout, r.stdout)
    check("fault: the failed launch has no images after it",
          len(recorded(r)) == 2 and recorded(r)[1]["changed_bytes"] is None, (r.stderr, r.ls))
    r = b.record(b.app("busy"), ["--drain-timeout", "1"])
    check("busy: the launches beside the waiting kernel are skipped, the program goes on",
          r.returncode == 3 and any("busy device" in x for x in reasons(r)) and r.stdout == run(b.app("busy")).stdout,
          (r.stdout, r.stderr, r.ls))
    r = b.record(b.app("plain"), ["--max-bytes", "100K"])
    check("limit: skipped by size", r.returncode == 3 and all("size limit" in x for x in reasons(r)), r.stderr)
    for case in ("killed", "no_handlers"):
        r = b.record(b.app(case))
        check(f"{case}: the bundle is incomplete and readable",
              r.returncode == 3 and r.ls is not None and r.ls["state"] == "incomplete" and len(recorded(r)) == 3,
              (r.stderr, r.ls))


def selection(b):
    r = b.record(b.app("plain"), ["--kernel", "scale", "--launches", "1"])
    check("selection: the second launch alone", r.returncode == 7 and [l["ordinal"] for l in recorded(r)] == [1], r.ls)
    r = b.record(b.app("plain"), ["--launches", "0"])
    check("selection: the first launch alone, inside which the code is loaded",
          r.returncode == 7 and [l["ordinal"] for l in recorded(r)] == [0], (r.stderr, r.ls))
    r = b.record(b.app("plain"), ["--scope", "all", "--launches", "0"])
    check("scope all: memory that nothing points to",
          len(recorded(r)) == 1 and kinds(b.info(r, 0)).count("device") == 2, (r.stderr, r.ls))


def kill_xtrace_half_way(b):
    bundle = b.work / "run.xtr"
    shutil.rmtree(bundle, ignore_errors=True)
    p = subprocess.Popen([b.xtrace, "record", "-o", bundle, "--", *map(str, b.app("many"))], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    deadline = time.time() + 60
    launches = bundle / "launches"
    while time.time() < deadline and not (launches.exists() and launches.stat().st_size > 100000):
        time.sleep(0.05)
    child = subprocess.run(["ps", "-o", "pid=", "--ppid", str(p.pid)], capture_output=True, text=True).stdout.split()
    for pid in child:
        os.kill(int(pid), 9)
    status = p.wait(timeout=60)
    listing = run([b.xtrace, "ls", "--json", bundle])
    ls = json.loads(listing.stdout) if listing.returncode == 0 else None
    check("kill -9 half way: what was finished can be read",
          status == 3 and ls is not None and ls["state"] == "incomplete" and len(ls["launches"]) > 10,
          (status, listing.stderr))


def taken(b):
    places = [p for pattern in ("/usr/local/cuda*/lib64/libcupti.so.1[23]", "/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1[23]")
              for p in glob.glob(pattern)]
    if not places:
        print("SKIP taken: no libcupti in the toolkit")
        return
    r = b.record([b.work / "cupti_holder", places[0]])
    check("taken: another subscriber is named and the program runs as ever",
          r.returncode == 3 and "CUPTI is taken" in r.stderr and "init 0" in r.stdout, (r.stdout, r.stderr))
    print("  note:", r.stderr.strip().replace("\n", " | "))
    ncu = shutil.which("ncu") or next(iter(glob.glob("/usr/local/cuda*/bin/ncu")), None)
    if ncu is None:
        print("SKIP under ncu: no ncu")
        return
    r = b.record([ncu, "--section", "LaunchStats", *b.app("plain")])
    check("under ncu: refused by name", r.returncode == 3, (r.stdout[-500:], r.stderr))
    print("  note:", r.stderr.strip().replace("\n", " | "))


def full_disk(b):
    mount = b.work / "small"
    mount.mkdir(exist_ok=True)
    if run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", mount]).returncode != 0:
        print("SKIP full disk: no permission to mount a tmpfs")
        return
    try:
        r = b.record(b.app("gigabyte"), bundle=mount / "run.xtr")
        check("full disk: the program runs to its end, the recording says why it stopped",
              r.returncode == 3 and r.stdout == "gigabyte\n" and "No space left" in r.stderr, (r.stdout, r.stderr))
        check("full disk: the launch that did not fit is skipped by name",
              r.ls is not None and r.ls["state"] == "incomplete" and len(reasons(r)) == 1 and
              "No space left" in reasons(r)[0], (r.stderr, r.ls))
    finally:
        run(["umount", mount])


def costs(b):
    times = {}
    for name, options in (("alone", None), ("recorded, nothing selected", ["--launches", "99999999"])):
        best = 1e9
        for _ in range(3):
            start = time.time()
            if options is None:
                run(b.app("many"))
            else:
                b.record(b.app("many"), options)
            best = min(best, time.time() - start)
        times[name] = best
    print("cost of 20000 launches, best of 3:", ", ".join(f"{k} {v:.2f} s" for k, v in times.items()))
    r = b.record(b.app("gigabyte"))
    check("gigabyte: recorded", r.ls is not None and len(recorded(r)) == 1, r.stderr)
    if r.ls and recorded(r):
        seconds = recorded(r)[0]["snapshot_seconds"]
        print(f"cost of a snapshot: {seconds:.2f} s for 2 x 1 GiB, {2 / seconds:.2f} GiB/s, "
              f"stored {r.ls['pack_bytes'] / 2**20:.1f} MiB")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--xtrace", required=True)
    p.add_argument("--work", default="record-test")
    p.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    p.add_argument("--arch", default="sm_90")
    p.add_argument("cases", nargs="*")
    args = p.parse_args()
    b = Bench(args)
    b.build()
    good_cases(b, args.cases)
    if not args.cases:
        for part in (refused_cases, selection, kill_xtrace_half_way, taken, full_disk, costs):
            try:
                part(b)
            except Exception as e:  # one broken part must not hide the others
                check(part.__name__, False, repr(e))
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
