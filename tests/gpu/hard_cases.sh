#!/usr/bin/env bash
# The hard cases: recorded, replayed clean, and traced or refused by name under every probe, all CTAs and one in four.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
app=$XTRACE_BUILD/bin/hard_cases
need_app
run=$work/run.xtr

step "record: the application's output and status stay the same"
alone "$app"
record -o "$run" -- "$app"
"$XTRACE" ls "$run" --json > "$work/ls.json"
checks bundle "$work/ls.json" --state complete --all-recorded --kernels-at-least 14 --recorded-at-least 14

step "replay under every probe"
replay "$run" --probes=block,inst,pair --pair-sites=16 --sample=all --sample=cta:1/4 --rounds=10 --processes=2 --interval-sites=2 --compare \
  --json "$work/report.json"
cp "$work/report.json" "$XTRACE_OUT/hard_cases-report.json"
checks replay "$work/report.json" --launches "$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["launches"]))' "$work/ls.json")" \
  --may-refuse
