#!/usr/bin/env bash
# Builds every libFuzzer program and runs each for SECONDS (default 60):
# scripts/fuzz.sh [SECONDS] [NAME...], e.g. `scripts/fuzz.sh 600 TokenizerFuzzer`.
# What covers more than the seeds is kept in build/fuzz/NAME and taken up by the
# next run; inputs that fail are kept beside it, in build/fuzz/NAME.findings.
# Ends with a table; the exit status is 1 where there are findings.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
programs=build/release/fuzz
scripts/build.sh "${@:-fuzzers}"

# One fuzzer, for so many seconds in all: it goes on behind a finding.
# What is slow aborts by the CPU time that it takes (tests/fuzz/support); by the
# clock, as libFuzzer has it, it would be whatever waits for a busy machine.
run() {
  local name=$1 corpus=build/fuzz/$1 end=$((SECONDS + seconds))
  local log=$corpus.log executions=0 coverage=0 status left
  local options=("-seed_inputs=@$programs/$name.seeds" -rss_limit_mb=2048 -timeout=60
    -report_slow_units=3600 -print_final_stats=1 "-artifact_prefix=$corpus.findings/")
  mkdir -p "$corpus" "$corpus.findings"
  while left=$((end - SECONDS)) && [ "$left" -gt 0 ]; do
    status=0
    "$programs/$name" "${options[@]}" -max_total_time="$left" "$corpus" 2>"$log" || status=$?
    executions=$((executions + $(sed -n 's/^stat::number_of_executed_units: *//p' "$log")))
    coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    [ "$status" != 0 ] || break
    grep -E '^(==|SUMMARY|artifact_prefix)' "$log" >&2 || tail -5 "$log" >&2
    # One that fails before it has begun fails again.
    [ "$(ls "$corpus.findings" | wc -l)" -lt 20 ] || break
  done
  # As few inputs as cover the same.
  rm -rf "$corpus.merged" && mkdir "$corpus.merged"
  "$programs/$name" -merge=1 -rss_limit_mb=2048 "$corpus.merged" "$corpus" 2>"$log" &&
    rm -rf "$corpus" && mv "$corpus.merged" "$corpus"
  printf '%-20s %12d %9s %7d %9d\n' "$name" "$executions" "${coverage:-0}" \
    "$(ls "$corpus" | wc -l)" "$(ls "$corpus.findings" | wc -l)" >>build/fuzz/table
}

mkdir -p build/fuzz
printf '%-20s %12s %9s %7s %9s\n' fuzzer executions coverage corpus findings >build/fuzz/table
for program in "$programs"/*Fuzzer; do
  name=$(basename "$program")
  [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
  echo "== $name"
  run "$name"
done
cat build/fuzz/table
[ -z "$(find build/fuzz/*.findings -type f)" ]
