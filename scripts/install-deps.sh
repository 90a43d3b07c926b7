#!/usr/bin/env bash
# Installs what building and testing tfm needs on Debian 12, and nothing that is
# there already: the second run does no more than look.
set -euo pipefail

packages=(
  # The compiler's compiler, and the libraries that it is made of.
  clang-22 lld-22 libclang-rt-22-dev llvm-22-dev llvm-22-tools
  libmlir-22-dev mlir-22-tools libzstd-dev zlib1g-dev
  # The build.
  cmake ninja-build ccache
  # What the programs link.
  libcli11-dev nlohmann-json3-dev libfmt-dev libpcre2-dev libutf8proc-dev
  # Tests, benchmarks, formatting.
  libgtest-dev libbenchmark-dev python3 git clang-format-22
  # `tfmc build` links with the system's C compiler driver.
  gcc libc6-dev
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "install-deps: this script knows Debian's apt-get only; install by hand: ${missing[*]}" >&2
  exit 1
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps: run as root, or install sudo; missing: ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi

echo "install-deps: installing ${missing[*]}"
"${root[@]}" apt-get update -qq
for package in "${missing[@]}"; do
  if ! apt-cache show "$package" >/dev/null 2>&1; then
    echo "install-deps: no package $package; LLVM 22 is in Debian 12's bookworm-security suite: is it enabled?" >&2
    exit 1
  fi
done
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
