#!/usr/bin/env bash
# PyTorch and Triton, unmodified: record, replay clean, replay under a clock at every instruction.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"

changing=(scatter_add)   # it uses float atomics

record_and_replay() {  # name, least number of distinct kernels
  local name=$1 least=$2 script=$XTRACE_ROOT/fixtures/apps/$1.py run=$work/$1.xtr
  step "$name: record"
  alone python3 "$script"
  record -o "$run" -- python3 "$script"
  "$XTRACE" ls "$run" --json > "$work/ls.json"
  checks bundle "$work/ls.json" --state complete --kernels-at-least "$least"

  step "$name: replay under block and inst"
  for probe in block inst; do
    replay "$run" --probes=$probe --processes=2 --rounds=10 --compare --json "$work/report.json"
    cp "$work/report.json" "$XTRACE_OUT/$name-$probe-report.json"
    # shellcheck disable=SC2046  # one word a kernel
    checks replay "$work/report.json" --may-refuse $(nondeterministic_kernels "$work/report.json")
  done
}

# Kernels whose clean replays differ among themselves, as options of checks.
nondeterministic_kernels() {
  python3 - "$1" <<PY
import sys
sys.path.insert(0, "$XTRACE_ROOT/tools/bench")
import report
for launch in report.load(sys.argv[1]):
    if launch["clean"]["unstable_bytes"]:
        print("--nondeterministic", launch["kernel"])
PY
}

python3 -c 'import torch' 2> /dev/null || skip "no PyTorch in $(command -v python3)"
record_and_replay torch_ops 8
python3 -c 'import triton' 2> /dev/null || skip "PyTorch passed, but not checked: Triton is not installed"
record_and_replay triton_ops 2
