#!/usr/bin/env bash
# Kernels cut out of the toolkit's libraries by `xtrace sass extract` load on the GPU, each alone. At least 50, from every library
# that is found; every one must load. A refusal to cut is not a failure; it is counted by reason.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
wanted=50 each=15

capability=$(timeout 60 nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
sm=${capability/./}
[[ $sm =~ ^[0-9]+$ ]] || fail "nvidia-smi names no compute capability: $capability"

step "libraries"
# Smallest first; the large ones take long to look through.
names=(libcusolverMg libcurand libcusparse libcufft libcudnn_ops libcudnn_engines_precompiled libcusolver libcublas)
folders=(${XTRACE_CUDA_LIBRARIES:-} /usr/local/cuda/lib64 /usr/local/cuda/targets/*/lib)
python_folder=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
folders+=("$python_folder"/nvidia/*/lib /usr/local/lib/python3*/*-packages/nvidia/*/lib /usr/lib/x86_64-linux-gnu)
libraries=()
for name in "${names[@]}"; do
  for folder in "${folders[@]}"; do
    found=$(find "$folder/" -maxdepth 1 -name "$name.so.*" 2>/dev/null | sort | head -n 1)
    [ -z "$found" ] || { libraries+=("$found"); break; }
  done
done
[ "${#libraries[@]}" -gt 0 ] || skip "no library of the CUDA toolkit found; name folders in XTRACE_CUDA_LIBRARIES"
printf '  %s\n' "${libraries[@]}"

step "extract"
list=$work/list
: > "$list"
: > "$work/refused"
deadline=$((SECONDS + 330))
for library in "${libraries[@]}"; do
  [ "$SECONDS" -lt "$deadline" ] || { echo "  no time left for $library"; continue; }
  base=$(basename "$library")
  timeout 120 "$XTRACE" sass dump "$library" --sm "$sm" 2> "$work/dump.err" | sed -n 's/^\.text\.\([^ :]*\).*/\1/p' > "$work/functions" ||
    { echo "  $base: $(head -n 1 "$work/dump.err")"; continue; }
  total=$(wc -l < "$work/functions")
  [ "$total" -gt 0 ] || continue
  # Spread over the library; a name that occurs once is one that extract can be asked for.
  sort "$work/functions" | uniq -u | awk -v n="$each" '{ all[NR] = $0 } END { for (k = 0; k < n && k < NR; ++k) print all[1 + int(k * NR / (n < NR ? n : NR))] }' > "$work/chosen"
  number=0
  while read -r kernel; do
    [ "$SECONDS" -lt "$deadline" ] || break
    number=$((number + 1))
    cubin=$work/$base.$number.cubin
    if timeout 60 "$XTRACE" sass extract "$library" --sm "$sm" --kernel "$kernel" -o "$cubin" > "$work/stdout" 2> "$work/stderr"; then
      printf '%s\t%s\n' "$cubin" "$kernel" >> "$list"
    else
      head -n 1 "$work/stderr" | sed "s/$kernel/K/g" >> "$work/refused"
    fi
  done < "$work/chosen"
  echo "  $base: $total functions for sm_$sm, $number chosen"
done
[ ! -s "$work/refused" ] || { echo "refused:"; sort "$work/refused" | uniq -c; }
count=$(wc -l < "$list")
echo "$count extracted"
[ "$count" -ge "$wanted" ] || fail "fewer than $wanted kernels were cut out"

step "load"
status=0
timeout --kill-after=10 120 python3 "$XTRACE_ROOT/tests/gpu/load_cubins.py" "$list" || status=$?
[ "$status" -ne 77 ] || skip "no CUDA driver library"
[ "$status" -eq 0 ] || fail "loading ended with status $status"
