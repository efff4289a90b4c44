# shellcheck shell=bash
# The commands of tools/dev that concern a machine with a GPU: pack, gpu, bench. They need neither cmake nor git, so
# that a build made on another machine (build/pack/) is enough.

# Why the GPU can not be used, in one sentence; empty when it can.
no_gpu_reason() {
  local gpus
  if ! command -v nvidia-smi >/dev/null; then
    echo "this machine has no NVIDIA driver (no nvidia-smi)"
  elif ! gpus=$(nvidia-smi -L 2>/dev/null) || [[ $gpus != *GPU* ]]; then
    echo "the NVIDIA driver shows no GPU on this machine (nvidia-smi -L)"
  fi
}

# Sets XTRACE_BUILD (absolute) to a folder with bin/xtrace.
find_build() {
  local folder
  for folder in ${XTRACE_BUILD:+"$XTRACE_BUILD"} build build/pack; do
    if [ -x "$folder/bin/xtrace" ]; then
      XTRACE_BUILD=$(cd "$folder" && pwd)
      export XTRACE_BUILD XTRACE=$XTRACE_BUILD/bin/xtrace
      return
    fi
    [ -z "${XTRACE_BUILD:-}" ] || stop 3 "XTRACE_BUILD=$XTRACE_BUILD has no bin/xtrace"
  done
  stop 3 "no build: run tools/dev build here, or bring build/pack/ (tools/dev pack) from another machine"
}

set_out() {  # name: makes and exports XTRACE_OUT
  XTRACE_OUT=${XTRACE_OUT:-$root/out}/$1
  mkdir -p "$XTRACE_OUT"
  XTRACE_OUT=$(cd "$XTRACE_OUT" && pwd)
  export XTRACE_OUT XTRACE_ROOT=$root
}

# Test programs that carry the label "gpu", relative to the build folder.
labelled_programs() {  # build folder
  ctest --test-dir "$1" --show-only=json-v1 | python3 -c '
import json, os, sys
for test in json.load(sys.stdin)["tests"]:
    labels = [v for p in test.get("properties", []) if p["name"] == "LABELS" for v in p["value"]]
    if "gpu" not in labels or "command" not in test:
        continue
    if len(test["command"]) > 1:
        sys.exit("tools/dev: the GPU test %s takes arguments, but is run without" % test["name"])
    print(os.path.relpath(test["command"][0], sys.argv[1]))' "$(cd "$1" && pwd)"
}

command_pack() {
  [ -x build/bin/xtrace ] || stop 3 "pack: no build/bin/xtrace; run tools/dev build first"
  local pack=build/pack file
  rm -rf "$pack"
  mkdir -p "$pack/bin" "$pack/lib"
  labelled_programs build > "$pack/gpu-tests.list"
  while read -r file; do
    [ -e "build/$file" ] || stop 3 "pack: build/$file is not built; run tools/dev build"
    [[ $file != ../* ]] || stop 3 "pack: the GPU test $file lies outside build/"
  done < "$pack/gpu-tests.list"
  {
    echo bin/xtrace
    # Without the CUDA toolkit there is neither the injected library nor the programs to record.
    for file in lib/libxtrace_inject.so bin/kernels13 bin/kernels13-shared-cudart bin/hard_cases bin/many_waves bin/graph_launches bin/pointer_calls bin/linked_calls bin/kernels13-timed \
      lib/libxtrace_peer_sanitizer.so; do
      if [ -e "build/$file" ]; then echo "$file"; else say "pack: build/$file is not built, left out" >&2; fi
    done
    cat "$pack/gpu-tests.list"
  } | while read -r file; do
    mkdir -p "$pack/$(dirname "$file")"
    strip --strip-unneeded -o "$pack/$file" "build/$file"
    chmod +x "$pack/$file"
  done
  say "pack: $(find "$pack" -type f | wc -l) files, $(du -sk "$pack" | cut -f1) KiB in $pack"
}

# Runs one test; prints one line, and the end of its log when it failed. Status 77 is a skip, whose reason is the last line.
run_gpu_test() {  # name, command...
  local name=$1 log=$XTRACE_OUT/$1.log start=$SECONDS status=0
  shift
  timeout --kill-after=10 "${XTRACE_TEST_TIMEOUT:-540}" "$@" > "$log" 2>&1 || status=$?
  local took=$((SECONDS - start)) inner
  case $status in
    0)
      # A GoogleTest program passes even when some of its tests skip themselves: say how many.
      inner=$(grep -c '^\[  SKIPPED \].*(' "$log" || true)
      printf 'pass  %-28s %4d s%s\n' "$name" "$took" "$([ "$inner" -eq 0 ] || echo ", $inner tests inside skipped")"
      passed=$((passed + 1))
      ;;
    77) printf 'skip  %-28s %s\n' "$name" "$(tail -n 1 "$log")"; skipped=$((skipped + 1)) ;;
    *)
      printf 'FAIL  %-28s %4d s, status %d%s; end of %s:\n' "$name" "$took" "$status" \
        "$([ "$status" -ne 124 ] || echo ' (timeout)')" "$log"
      tail -n 40 "$log" | sed 's/^/    /'
      failed=$((failed + 1))
      ;;
  esac
}

command_gpu() {
  local reason
  reason=$(no_gpu_reason)
  if [ -n "$reason" ]; then
    say "gpu: skipped, $reason"
    return
  fi
  find_build
  set_out gpu
  # A pack brings the list; in a build folder it is asked of ctest.
  local list=$XTRACE_BUILD/gpu-tests.list
  if [ ! -f "$list" ]; then
    list=$XTRACE_OUT/gpu-tests.list
    labelled_programs "$XTRACE_BUILD" > "$list"
  fi
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  local passed=0 skipped=0 failed=0 name path wanted=" $* "
  while read -r path; do
    name=$(basename "$path")
    [ $# -eq 0 ] || [[ $wanted == *" $name "* ]] || continue
    run_gpu_test "$name" "$XTRACE_BUILD/$path"
  done < "$list"
  for path in tests/gpu/*.sh; do
    name=$(basename "$path" .sh)
    [ $# -eq 0 ] || [[ $wanted == *" $name "* ]] || continue
    run_gpu_test "$name" bash "$path"
  done
  say "gpu: $passed passed, $failed failed, $skipped skipped; logs in $XTRACE_OUT"
  [ $((passed + failed + skipped)) -gt 0 ] || stop 64 "gpu: no test is named:$wanted"
  [ "$failed" -eq 0 ]
}

command_bench() {
  local reason
  reason=$(no_gpu_reason)
  [ -z "$reason" ] || stop 3 "bench: needs a GPU, and $reason"
  find_build
  exec python3 tools/bench/h200.py --build "$XTRACE_BUILD" "$@"
}
