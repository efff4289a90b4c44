#!/usr/bin/env bash
# Every kept recording under every probe, with all CTAs, one in four, and one site in eight, all eight parts: outputs, paths and losses are those
# of a trusted trace or the probe is refused by name, as probe_refusals.tsv says; executions and lanes that `count` gives for each
# instruction are those of the CPU interpreter.
# shellcheck source=tests/gpu/common.bash
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"
backend=${1:-auto}
bundles=$XTRACE_ROOT/fixtures/bundles
reports=() interpreted=()
# What reg, range and custom record; and hardly any timing, which is judged elsewhere.
asked=(--regs=R0,R2 "--range=block:0" "--custom=at not class:branch record clock, R0")
little=(--pair-sites=8 --interval-sites=0 --rounds=1 --processes=1 --max-slices=1000 --quiet)

step "replay: a process for each recording"
for bundle in kernels13 hard_cases wgmma_bfloat16 dependent_launch; do
  {
    for part in plain rotated; do
      # Apart: --rotate would go through the classes of cta:1/4 as well, of which the interpreter counts one.
      if [ "$part" = plain ]; then samples=(--sample=all --sample=cta:1/4); else samples=(--sample=site:1/8 --rotate); fi
      ended=0
      "$XTRACE" replay "$bundles/$bundle-small.xtr" --backend="$backend" --probes=count,block,inst,pair,mem,branch,reg,sync,range,latency,custom \
        "${samples[@]}" "${asked[@]}" "${little[@]}" --compare --traces "$work/$bundle-$part" --json "$work/$bundle-$part.json" \
        > "$work/$bundle-$part.txt" 2>&1 || ended=$?
      echo "$ended" > "$work/$bundle-$part.status"
    done
  } &
  "$XTRACE" replay "$bundles/$bundle-small.xtr" --backend=interp --probes=count --sample=all --sample=cta:1/4 --compare --quiet \
    --traces "$work/$bundle-interp" --json "$work/$bundle-interp.json" > "$work/$bundle-interp.txt" 2>&1 || [ $? -le 2 ] || fail "no counts of $bundle"
  reports+=("$work/$bundle-plain.json" "$work/$bundle-rotated.json")
  interpreted+=(--witness "$work/$bundle-interp.json")
done
wait
for replayed in {kernels13,hard_cases,wgmma_bfloat16,dependent_launch}-{plain,rotated}; do
  [ "$(cat "$work/$replayed.status")" -le 2 ] || { tail -n 20 "$work/$replayed.txt"; fail "xtrace replay of $replayed ended with $(cat "$work/$replayed.status")"; }
done
step "the table"
checks probes "${reports[@]}" "${interpreted[@]}" --refusals "$XTRACE_ROOT/tests/gpu/probe_refusals.tsv" --table "$XTRACE_OUT/probes.tsv"
