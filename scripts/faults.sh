#!/usr/bin/env bash
# Breaks every file call that the programs make, one after the other, where
# tests/e2e/test_faults.py takes a spread: kills, second kills, interruptions,
# full and failing disks. Arguments go to unittest (`Training`, `-k kill`).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh tfmc
TFM_FAULTS=all exec python3 tests/e2e/test_faults.py "$@"
