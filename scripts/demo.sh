#!/usr/bin/env bash
# From nothing to a model that writes plays: installs, builds the compiler,
# compiles models/shakespeare.tfm to one executable, trains it on
# models/tinyshakespeare.txt, and prints a sample. The second run only trains.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

say "Installing what is missing"
scripts/install-deps.sh

say "Building the compiler (about five minutes on two processors, the first time)"
scripts/build.sh tfmc

demo=build/demo
mkdir -p "$demo"

say "tfmc report models/shakespeare.tfm"
build/release/bin/tfmc report models/shakespeare.tfm

say "tfmc build models/shakespeare.tfm -o $demo/shakespeare"
build/release/bin/tfmc build models/shakespeare.tfm -o "$demo/shakespeare"
ls -lh "$demo/shakespeare" | awk '{print "   one executable of " $5}'

say "$demo/shakespeare train"
rm -rf "$demo/run"
"$demo/shakespeare" train --data models/tinyshakespeare.txt --out "$demo/run"

say "$demo/shakespeare generate --weights $demo/run --prompt ROMEO: --tokens 500"
"$demo/shakespeare" generate --weights "$demo/run" --prompt "ROMEO:" --tokens 500
