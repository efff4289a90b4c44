# shellcheck shell=bash
# tools/dev demo: the main job from nothing. With a GPU, kernels13 is recorded and replayed on it; without one, the kept
# recording of kernels13 is replayed on the CPU interpreter.

kept_recording=fixtures/bundles/kernels13-small.xtr

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

# Sets XTRACE_BUILD. A build that was brought here (XTRACE_BUILD, build/pack/) is used as it is; else setup and build, which
# take seconds where there is nothing to do.
need_build() {
  if [ -z "${XTRACE_BUILD:-}" ] && { [ -x build/bin/xtrace ] || [ ! -x build/pack/bin/xtrace ]; }; then
    command_setup
    say "demo: building into build/ (the first time: minutes)"
    command_build
  fi
  find_build
}

demo_with_gpu() {
  # A build that is here is used as it is: the machine with the GPU may have no compiler.
  [ -x build/bin/xtrace ] || need_build
  find_build
  [ -x "$XTRACE_BUILD/bin/kernels13" ] || stop 3 "demo: $XTRACE_BUILD has no bin/kernels13 (it is built where nvcc is)"
  set_out demo
  local run=$XTRACE_OUT/run.xtr
  rm -rf "$run"
  show "$XTRACE" record -o "$run" -- "$XTRACE_BUILD/bin/kernels13"
  show "$XTRACE" ls "$run"
  # The status of this one is the verdict: 0 every launch trusted.
  show "$XTRACE" replay "$run" --probes=all --compare
}

demo_without_gpu() {  # why there is none
  say "demo: $1: kernels recorded on an H200 are replayed on the CPU interpreter"
  need_build
  set_out demo
  local run=$XTRACE_OUT/run.xtr status=0
  say "demo: copying $kept_recording to $run, because traces are written beside a recording"
  rm -rf "$run"
  cp -r "$kept_recording" "$run"
  show "$XTRACE" ls "$run"
  show "$XTRACE" replay "$run" --backend=interp --probes=all --compare | tee "$XTRACE_OUT/report.txt" || status=$?
  local rows good timelines=("$run"/traces/*.pftrace)
  rows=$(grep -cE '^  (block|inst|pair) .* [-+?]{3} ' "$XTRACE_OUT/report.txt" || true)
  good=$(grep -cE '^  (block|inst|pair) .* [+][-+?][+] ' "$XTRACE_OUT/report.txt" || true)
  say "demo: verdict: semantics and space are trusted in $good of $rows rows of the tables; times are modelled by the"
  say "demo:   interpreter, so they stay inconclusive (?) without a GPU. The report is in $XTRACE_OUT/report.txt"
  if [ -e "${timelines[0]}" ]; then
    say "demo: ${#timelines[@]} timelines for https://ui.perfetto.dev in $run/traces/, of which a divergent loop is"
    say "demo:   $(printf '%s\n' "${timelines[@]}" | grep -m1 'spmv_csr-inst' || printf '%s' "${timelines[0]}")"
  fi
  # Exit status 2, inconclusive, is what modelled time leads to.
  [ "$status" -ne 2 ] || [ "$rows" -eq 0 ] || [ "$good" -ne "$rows" ] || status=0
  return "$status"
}

command_demo() {
  local reason
  reason=$(no_gpu_reason)
  if [ -z "$reason" ]; then
    demo_with_gpu
  else
    demo_without_gpu "$reason"
  fi
}
