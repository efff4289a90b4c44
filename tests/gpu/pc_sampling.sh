#!/usr/bin/env bash
# An outside check of single intervals: the hardware's own sampler, on the unrecorded program, must find warps where the estimate says
# that the time is. Half a minute.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
need_app
command -v ncu > /dev/null || skip "no ncu on the PATH"
far=
for kernel in sgemm spmv_csr transpose_tiled wmma_gemm histogram; do
  step "$kernel: record, all intervals, samples"
  "$XTRACE" record -q -o "$work/$kernel.xtr" -- "$app" --only "$kernel" > "$work/stdout"
  replay "$work/$kernel.xtr" --quiet --probes=pair,inst --sample=all --sample=clocks:all --pair-sites=100000 --interval-sites=100000 \
    --json "$XTRACE_OUT/intervals-$kernel.json"
  python3 "$XTRACE_ROOT/tests/gpu/ncu_counts.py" samples "$XTRACE_OUT/samples-$kernel.json" --kernel "$kernel" -- \
    "$app" --only "$kernel" --iterations 3
  python3 "$XTRACE_ROOT/tests/gpu/pc_sampling.py" "$XTRACE_OUT/intervals-$kernel.json" "$XTRACE_OUT/samples-$kernel.json" || far="$far $kernel"
done
[ -z "$far" ] || fail "far from the sampler:$far"
