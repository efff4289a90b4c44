#!/usr/bin/env bash
# Single intervals of whole kernels: do they add up to the time that the warps take? Two minutes.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
need_app
every=(--probes=pair,inst --sample=all --sample=clocks:all --pair-sites=100000 --interval-sites=100000)
measure() {  # name, command...
  local name=$1
  shift
  step "$name: record"
  capture "$XTRACE" record -o "$work/$name.xtr" -- "$@"
  [ "$status" -eq 0 ] || fail "xtrace record ended with $status"
  step "$name: all intervals"
  replay "$work/$name.xtr" "${every[@]}" --json "$XTRACE_OUT/intervals-$name.json"
}

# Not switch_table: its warps go round so often that records are read for minutes.
only=()
for kernel in saxpy transpose_tiled reduce_sum histogram sgemm wmma_gemm spmv_csr warp_scan device_calls double_math constant_global collatz; do
  only+=(--only "$kernel")
done
measure kernels13 "$app" "${only[@]}"
reports=("$XTRACE_OUT/intervals-kernels13.json") wanted=(--fixtures 10)
hard=$XTRACE_BUILD/bin/hard_cases
if [ -x "$hard" ]; then
  only=()
  for kernel in half_math group_tiles big_shared partial_warp cluster_shared bank_conflicts launch_bounds assert_holds grid_3d async_copy; do
    only+=(--only "$kernel")
  done
  measure hard_cases "$hard" "${only[@]}"
  reports+=("$XTRACE_OUT/intervals-hard_cases.json")
fi
if python3 -c 'import torch' 2> /dev/null; then
  measure torch python3 "$XTRACE_ROOT/fixtures/apps/torch_ops.py" --only gelu --only in_place_add --only layer_norm --only cumsum \
    --only embedding --only softmax
  reports+=("$XTRACE_OUT/intervals-torch.json")
  wanted+=(--library 5)
fi
python3 "$XTRACE_ROOT/tests/gpu/intervals.py" "${reports[@]}" --json "$XTRACE_OUT/intervals.json" "${wanted[@]}"
