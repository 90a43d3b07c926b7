#!/usr/bin/env bash
# Builds every libFuzzer program and runs each for SECONDS (default 60) from its
# seed corpus: scripts/fuzz.sh [SECONDS]. Fails at the first crash.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset release >/dev/null
cmake --build build/release --target fuzzers
for fuzzer in build/release/fuzz/*Fuzzer; do
  echo "== $(basename "$fuzzer")"
  "$fuzzer" -max_total_time="${1:-60}" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$fuzzer." -print_final_stats=1 "$fuzzer.corpus"
done
