#!/usr/bin/env bash
# Installs what building and testing tfm needs on Debian 12, and nothing that is
# there already: the second run does no more than look.
set -euo pipefail

packages=(
  # The compiler's compiler, and the libraries that it is made of.
  clang-22 lld-22 libclang-rt-22-dev llvm-22-dev llvm-22-tools
  libmlir-22-dev mlir-22-tools libzstd-dev zlib1g-dev libjemalloc-dev
  # The build.
  cmake ninja-build ccache
  # What the programs link.
  libcli11-dev nlohmann-json3-dev libfmt-dev libpcre2-dev libutf8proc-dev libxxhash-dev liblz4-dev
  # Tests, benchmarks, formatting.
  libgtest-dev libbenchmark-dev python3 git clang-format-22
  # Training by several processes, with both libraries that clusters have.
  openmpi-bin libopenmpi-dev mpich libmpich-dev
  # Programs in the code of ARM's processors.
  qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  # `tfmc build` links with the C++ compiler driver of the system.
  g++ libc6-dev
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
    cat >&2 <<EOF
install-deps: these packages are missing, and only root can install them (there is no sudo here):
  apt-get install --no-install-recommends ${missing[*]}
EOF
    exit 1
  fi
  root=(sudo)
fi

echo "install-deps: installing ${missing[*]}"
"${root[@]}" apt-get update -qq
for package in "${missing[@]}"; do
  apt-cache show "$package" >/dev/null 2>&1 && continue
  cat >&2 <<EOF
install-deps: there is no package $package here. LLVM 22 is part of Debian 12 (bookworm), in its security suite.
On Debian 12, see that a file below /etc/apt has this line, and run the script again:
  deb http://deb.debian.org/debian-security bookworm-security main
EOF
  exit 1
done
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
