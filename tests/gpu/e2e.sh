#!/usr/bin/env bash
# The main job on kernels13: record, list, replay under every probe, compare; and the trace's counts against ncu's.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
need_app
run=$work/run.xtr

step "record: the application's output and status stay the same"
changing=(reduce_sum)
alone "$app"
record -o "$run" -- "$app"

step "ls"
"$XTRACE" ls "$run"
"$XTRACE" ls "$run" --json > "$work/ls.json"
checks bundle "$work/ls.json" --state complete --all-recorded --kernels-at-least 13 --recorded-at-least 13

step "replay under every probe"
replay "$run" --probes=all --processes=2 --interval-sites=4 --compare --json "$work/report.json"
cp "$work/report.json" "$XTRACE_OUT/e2e-report.json"
checks replay "$work/report.json" --launches 13 --nondeterministic reduce_sum

step "executed instructions against ncu"
command -v ncu > /dev/null || skip "passed, but not checked: the counts against ncu, which is not on the PATH"
python3 "$XTRACE_ROOT/tests/gpu/ncu_counts.py" totals "$work/totals.json" -- "$app"
checks totals "$work/report.json" "$work/totals.json"

# Not spmv_csr: ncu counts by patched code, in which lanes that leave a loop arrive at its BSYNC in fewer groups than in the
# original (8162 warps there, 8191 in the trace and in the hardware's total [measured H200]).
for kernel in sgemm switch_table double_math; do
  step "executed instructions of $kernel, one by one"
  python3 "$XTRACE_ROOT/tests/gpu/ncu_counts.py" instructions "$work/$kernel.json" --kernel "$kernel" -- "$app" --only "$kernel"
  checks instructions "$work/report.json" "$work/$kernel.json"
done
