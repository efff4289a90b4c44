#!/usr/bin/env bash
# Function pointers and virtual functions: recorded, replayed clean with the module's vtables at their recorded addresses, and under every probe.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
app=$XTRACE_BUILD/bin/pointer_calls
need_app
run=$work/run.xtr

step "record: the application's output and status stay the same"
alone "$app"
record -o "$run" -- "$app"

step "replay under every probe"
replay "$run" --probes=count,block,inst,pair,mem,sync,range --range=block:0 --sample=all --sample=cta:1/4 --pair-sites=16 \
  --interval-sites=0 --rounds=10 --processes=2 --compare --quiet --json "$work/report.json"
cp "$work/report.json" "$XTRACE_OUT/pointers-report.json"
checks replay "$work/report.json" --launches 4
grep -q "module variable vtable for Line lies at its recorded address" "$work/stdout" || fail "no word of the vtables"
