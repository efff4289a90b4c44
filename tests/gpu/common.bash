# shellcheck shell=bash
# What the scripts of this folder share. They are run by `tools/dev gpu`, which sets XTRACE (the program), XTRACE_BUILD (the
# folder with bin/ and lib/), XTRACE_OUT (for logs) and XTRACE_ROOT (the checkout). Exit status 0 pass, 77 skip with the
# reason on the last line, anything else fail.
set -euo pipefail
: "${XTRACE:?run this by tools/dev gpu}" "${XTRACE_BUILD:?}" "${XTRACE_OUT:?}" "${XTRACE_ROOT:?}"

app=$XTRACE_BUILD/bin/kernels13
# Every kernel of kernels13 but reduce_sum, whose float atomics change the last bits from run to run.
deterministic=(saxpy transpose_tiled histogram sgemm wmma_gemm spmv_csr warp_scan device_calls switch_table double_math
  constant_global collatz)
only_deterministic=()
for kernel in "${deterministic[@]}"; do only_deterministic+=(--only "$kernel"); done

work=$(mktemp -d "${TMPDIR:-/tmp}/xtrace-test.XXXXXX")
cleanup() { rm -rf "$work"; }
trap cleanup EXIT

step() { printf '== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
skip() { printf '%s\n' "$*"; exit 77; }
checks() { python3 "$XTRACE_ROOT/tests/gpu/checks.py" "$@"; }

# Runs a command with its output in $work/stdout and $work/stderr; sets `status`.
capture() {
  status=0
  "$@" > "$work/stdout" 2> "$work/stderr" || status=$?
  printf 'status %d from: %s\n' "$status" "$*"
  sed 's/^/  out: /' "$work/stdout"
  sed 's/^/  err: /' "$work/stderr"
}

need_app() { [ -x "$app" ] || skip "no $app: it is built where nvcc is"; }
