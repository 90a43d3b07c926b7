#!/usr/bin/env bash
# Builds everything with the release preset into build/release, on all cores.
# Arguments are passed on to ninja: `scripts/build.sh tfmc` builds the compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p build
cmake --preset release >build/configure.log 2>&1 || {
  cat build/configure.log >&2
  exit 1
}
exec ninja -C build/release "$@"
