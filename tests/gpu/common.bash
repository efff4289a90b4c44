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

# Of the output that was captured, what is the same in every run: without the checksums of lines that begin with a name in `changing`.
changing=()
unchanging() {
  local name script=
  for name in "${changing[@]}"; do script+="/^$name/s/checksum [0-9a-f]*/checksum -/;"; done
  sed "$script" "$work/stdout"
}

# A program and its arguments, without xtrace.
alone() {
  capture "$@"
  [ "$status" -eq 0 ] || fail "$* fails without xtrace"
  unchanging > "$work/plain"
}

# Options of xtrace record, --, and what alone() ran last: output and status stay the same.
record() {
  capture "$XTRACE" record "$@"
  [ "$status" -eq 0 ] || fail "xtrace record ended with $status"
  unchanging | diff "$work/plain" - || fail "the output differs"
}

# The status is the verdict, which also judges time; what a test requires is in the report.
replay() {
  capture "$XTRACE" replay "$@"
  [ "$status" -le 2 ] || fail "xtrace replay ended with $status"
}

need_app() { [ -x "$app" ] || skip "no $app: it is built where nvcc is"; }
