#!/usr/bin/env bash
# Kernels of CUDA graphs: the program computes the same with the recorder, every kernel of every graph launch is recorded or refused
# by name, and what was recorded replays.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
app=$XTRACE_BUILD/bin/graph_launches
need_app
run=$work/run.xtr

places() {  # bundle: ordinal, status, graph launch and node of every launch
  "$XTRACE" ls "$1" --json > "$work/ls.json"
  python3 -c 'import json, sys
for l in json.load(open(sys.argv[1]))["launches"]:
    g = l.get("graph", {})
    print(l["ordinal"], l["status"], g.get("launch", "-"), g.get("node", "-"))' "$work/ls.json"
}

step "every kernel of every graph"
parts=(captured updated nodes branches child programmatic wide pooled)
alone "$app" "${parts[@]}"
record -o "$run" -- "$app" "${parts[@]}"
places "$run" > "$work/places"
checks bundle "$work/ls.json" --state complete --all-recorded --kernels-at-least 6 --recorded-at-least 67
[ "$(wc -l < "$work/places")" -eq 67 ] || fail "expected 67 launches"

step "one kernel in the middle, by its number and by its name"
record -o "$run-one" --launches 4 -- "$app" "${parts[@]}"
[ "$(places "$run-one")" = "4 recorded 1 2" ] || fail "launch 4 is node 2 of graph launch 1, found: $(places "$run-one")"
record -o "$run-name" --kernel add -- "$app" "${parts[@]}"
[ "$(places "$run-name" | wc -l)" -eq 10 ] || fail "expected the ten launches of add"

step "a host node: the kernel behind it is refused by name"
capture "$app" host
cp "$work/stdout" "$work/plain-host"
capture "$XTRACE" record -o "$run-host" -- "$app" host
[ "$status" -eq 3 ] || fail "xtrace record ended with $status"
diff "$work/plain-host" "$work/stdout" || fail "the output differs"
grep -q "a host node (it calls a function of the program) stands before the kernel" "$work/stderr" || fail "no reason is given"
[ "$(places "$run-host" | cut -d' ' -f2 | tr '\n' ' ')" = "recorded skipped recorded skipped " ] || fail "$(places "$run-host")"

step "every fourth of them: the output, and replayed"
record -o "$run-some" --launches every:4 -- "$app" "${parts[@]}"
replay "$run-some" --probes=block --processes=1 --rounds=5 --compare --json "$work/report.json"
cp "$work/report.json" "$XTRACE_OUT/graphs-report.json"
checks replay "$work/report.json" --launches 17

step "PyTorch"
python3 -c 'import torch' 2> /dev/null || skip "passed, but not checked: PyTorch, which python3 lacks"
script=$XTRACE_ROOT/fixtures/apps/torch_graph.py
alone python3 "$script"
record -o "$work/torch.xtr" -- python3 "$script"
places "$work/torch.xtr" > "$work/places"
checks bundle "$work/ls.json" --state complete --all-recorded
grep -c "recorded [0-9]" "$work/places" | xargs printf '%s kernels of graphs\n'
[ "$(grep -c "recorded [0-9]" "$work/places")" -ge 24 ] || fail "expected at least four kernels in each of six graph launches"
replay "$work/torch.xtr" --launch "$(grep "recorded 5 " "$work/places" | head -1 | cut -d' ' -f1)" --probes=block \
  --processes=1 --rounds=5 --compare --json "$work/report.json"
checks replay "$work/report.json" --may-refuse
