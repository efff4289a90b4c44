#!/usr/bin/env bash
# Addresses against the hardware's view of them: sectors of every global access and wavefronts of every access of shared
# memory, computed from the mem trace, against what ncu says of the same instruction of the unrecorded program.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
need_app
hard=$XTRACE_BUILD/bin/hard_cases
[ -x "$hard" ] || skip "no $hard: it is built where nvcc is"

# Name of a program, kernels of it.
compare() {
  local program=$1 kernel
  shift
  for kernel in "$@"; do
    step "$kernel: record, and replay under mem"
    "$XTRACE" record -o "$work/$kernel.xtr" --kernel "^$kernel\$" -- "$program" --only "$kernel" > "$work/stdout"
    replay "$work/$kernel.xtr" --probes=mem --compare --json "$work/$kernel.json"
    cp "$work/$kernel.json" "$XTRACE_OUT/mem-$kernel.json"
    checks replay "$work/$kernel.json" --launches 1
    command -v ncu > /dev/null || continue
    step "$kernel: sectors and wavefronts against ncu"
    python3 "$XTRACE_ROOT/tests/gpu/ncu_counts.py" memory "$work/$kernel.ncu.json" --kernel "$kernel" -- \
      "$program" --only "$kernel"
    cp "$work/$kernel.ncu.json" "$XTRACE_OUT/mem-$kernel.ncu.json"
    checks memory "$work/$kernel.json" "$work/$kernel.ncu.json" || differ="$differ $kernel"
  done
}

differ=
compare "$app" transpose_tiled spmv_csr histogram
compare "$hard" bank_conflicts
[ -z "$differ" ] || fail "not as ncu says:$differ"
command -v ncu > /dev/null || skip "passed, but not checked: sectors and wavefronts against ncu, which is not on the PATH"
