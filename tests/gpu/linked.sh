#!/usr/bin/env bash
# Two translation units linked on the device (nvcc -rdc=true): recorded, replayed clean with function pointers at their recorded values, and under probes.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
app=$XTRACE_BUILD/bin/linked_calls
need_app
run=$work/run.xtr

step "record: the application's output and status stay the same"
alone "$app"
record -o "$run" -- "$app"

step "replay under probes"
replay "$run" --probes=count,block,inst,pair,mem,sync --sample=all --sample=cta:1/4 --pair-sites=16 \
  --interval-sites=0 --rounds=10 --processes=2 --compare --quiet --json "$work/report.json"
cp "$work/report.json" "$XTRACE_OUT/linked-report.json"
checks replay "$work/report.json" --launches 6
grep -q "were compiled apart (-rdc=true)" "$work/stdout" || fail "no word of linked code"
