#!/usr/bin/env bash
# Installs, builds, and runs every test: lit, GoogleTest, end to end. The last
# line is `N passed, N failed`; the exit status is 0 only when nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
scripts/build.sh
exec python3 scripts/run_tests.py "$@"
