#!/usr/bin/env bash
# Formats our C and C++ sources in place; with --check only says which files
# are not formatted, and fails if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files -z --cached --others --exclude-standard '*.h' '*.c' '*.cpp' |
  xargs -0 clang-format-22 "${mode[@]}"
