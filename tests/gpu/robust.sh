#!/usr/bin/env bash
# Trouble while recording: the application killed, no room on the disk, CUPTI held by somebody else. In each case the
# application must not notice, and the reason must be named.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
need_app
not_checked=()

# The process that `xtrace record` (its process id: $1) started, or that it became.
recorded_process() {
  local stat fields
  for stat in /proc/[0-9]*/stat; do
    # pid (comm) state ppid ...; comm here has no blank.
    read -r -a fields < "$stat" 2>/dev/null || continue
    if [ "${fields[1]}" = "(kernels13)" ] && { [ "${fields[3]}" = "$1" ] || [ "${fields[0]}" = "$1" ]; }; then
      echo "${fields[0]}"
      return
    fi
  done
}

step "kill -9 of the application in the middle"
run=$work/killed.xtr
"$XTRACE" record -o "$run" -- "$app" --scale small --only saxpy --iterations 1000000 > "$work/killed.out" 2>&1 &
recorder=$!
for _ in $(seq 600); do
  [ "$(stat -c %s "$run/launches" 2>/dev/null || echo 0)" -lt 20000 ] || break
  kill -0 "$recorder" 2>/dev/null || { cat "$work/killed.out"; fail "xtrace record ended by itself"; }
  sleep 0.1
done
victim=$(recorded_process "$recorder")
[ -n "$victim" ] || { kill "$recorder"; fail "no recorded process found"; }
kill -9 "$victim"
status=0
wait "$recorder" || status=$?
sed 's/^/  record: /' "$work/killed.out"
echo "status of xtrace record: $status"
[ "$status" -ne 0 ] || fail "xtrace record ended with 0 although the application was killed"
capture "$XTRACE" ls "$run"
grep -qi incomplete "$work/stdout" "$work/stderr" || fail "xtrace ls does not say that the bundle is incomplete"
"$XTRACE" ls "$run" --json > "$work/killed.json"
checks bundle "$work/killed.json" --state incomplete --recorded-at-least 3
last=$(checks last-recorded "$work/killed.json")
capture "$XTRACE" replay "$run" --launch "$last" --probes=none --compare --json "$work/killed-replay.json"
checks replay "$work/killed-replay.json" --launches 1

step "a full disk"
disk=$work/disk
mkdir "$disk"
if mount -t tmpfs -o size=8m xtrace-test "$disk" 2> "$work/mount.err"; then
  cleanup() { umount "$disk"; rm -rf "$work"; }
  # The first launch fits, the second does not.
  three=(--only switch_table --only saxpy --only device_calls)
  capture "$app" "${three[@]}"
  cp "$work/stdout" "$work/plain"
  capture "$XTRACE" record -o "$disk/run.xtr" -- "$app" "${three[@]}"
  [ "$status" -ne 0 ] || fail "xtrace record ended with 0 on a full disk"
  cmp "$work/plain" "$work/stdout" || fail "the application's output differs on a full disk"
  grep -qi 'space' "$work/stderr" || fail "xtrace record does not name the full disk"
  "$XTRACE" ls "$disk/run.xtr" --json > "$work/full.json" || fail "the bundle on the full disk can not be listed"
  checks bundle "$work/full.json" --state incomplete --recorded-at-least 1 --not-all-recorded
  grep -q '"skip_reason":.*No space' "$work/full.json" || fail "no skipped launch names the full disk"
  "$XTRACE" replay "$disk/run.xtr" --launch 0 --probes=none --compare --json "$work/full-replay.json" > "$work/full.out" ||
    fail "the launch that was recorded before the disk was full does not replay"
else
  not_checked+=("full disk: $(cat "$work/mount.err")")
fi

step "CUPTI held by the application"
library=
for folder in ${CUPTI_LIBRARY_PATH:-} /usr/local/cuda/extras/CUPTI/lib64 /usr/local/cuda/lib64; do
  for candidate in "$folder"/libcupti.so.1[0-9]; do [ ! -e "$candidate" ] || library=$candidate; done
done
if [ -n "$library" ]; then
  capture "$app" --only saxpy
  cp "$work/stdout" "$work/plain"
  capture "$XTRACE" record -o "$work/taken.xtr" -- "$app" --take-cupti "$library" --only saxpy
  [ "$status" -ne 0 ] || fail "xtrace record ended with 0 although CUPTI was taken"
  cmp "$work/plain" "$work/stdout" || fail "the application's output differs when CUPTI is taken"
  grep -q 'CUPTI is taken by' "$work/stderr" || fail "xtrace record does not say who holds CUPTI"
else
  not_checked+=("CUPTI held by the application: no libcupti in the usual folders; set CUPTI_LIBRARY_PATH")
fi

step "recording under ncu"
if command -v ncu > /dev/null; then
  capture ncu --clock-control none --metrics smsp__inst_executed.sum "$XTRACE" record -o "$work/ncu.xtr" -- "$app" --only saxpy
  # One of the two gets the application. If it is not xtrace, xtrace says so: before it starts the application, or after.
  if [ "$status" -eq 0 ]; then
    "$XTRACE" ls "$work/ncu.xtr" --json > "$work/ncu.json"
    checks bundle "$work/ncu.json" --state complete --recorded-at-least 1
  else
    cat "$work/stdout" "$work/stderr" > "$work/both"
    grep -q 'CUPTI is taken by\|another tool is to be loaded\|did not initialise CUDA' "$work/both" ||
      fail "xtrace record does not say why it could not record"
  fi
  if grep '^saxpy ' "$work/stdout" > "$work/line"; then
    grep -q ' ok$' "$work/line" || fail "the application computes something else under ncu and xtrace"
  else
    [ "$status" -ne 0 ] || fail "the application did not finish under ncu and xtrace"
  fi
else
  not_checked+=("recording under ncu: no ncu")
fi

[ "${#not_checked[@]}" -eq 0 ] || skip "passed, but not checked: ${not_checked[*]}"
