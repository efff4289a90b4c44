# shellcheck shell=bash
# What the scripts of this folder share. They are run by `tools/dev gpu`, which sets XTRACE (the program), XTRACE_BUILD (the
# folder with bin/ and lib/), XTRACE_OUT (for logs) and XTRACE_ROOT (the checkout). Exit status 0 pass, 77 skip with the
# reason on the last line, anything else fail.
set -euo pipefail
: "${XTRACE:?run this by tools/dev gpu}" "${XTRACE_BUILD:?}" "${XTRACE_OUT:?}" "${XTRACE_ROOT:?}"

app=$XTRACE_BUILD/bin/kernels13

work=$(mktemp -d "${TMPDIR:-/tmp}/xtrace-test.XXXXXX")
cleanup() { rm -rf "$work"; }
trap cleanup EXIT

step() { printf '== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
skip() { printf '%s\n' "$*"; exit 77; }
checks() { python3 "$XTRACE_ROOT/tests/gpu/checks.py" "$@"; }

# Runs a command with its output in $work/stdout and $work/stderr, of which it shows the beginning; sets `status`.
capture() {
  status=0
  "$@" > "$work/stdout" 2> "$work/stderr" || status=$?
  printf 'status %d from: %s\n' "$status" "$*"
  sed -n '1,60s/^/  out: /p' "$work/stdout"
  sed -n '1,60s/^/  err: /p' "$work/stderr"
}

need_app() { [ -x "$app" ] || skip "no $app: it is built where nvcc is"; }
