#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh - the wheel and the source distribution, into dist/.
#
#   scripts/wheel.sh [-o DIR]
#
# Installs what scripts/build.sh installs to build, and the tools of requirements-wheel.txt into
# .deps/wheel (0.1 GB to fetch, 0.4 GB of disk). What is linked there, by manylinux.sh, lets the wheel start
# with glibc 2.28 and later, and auditwheel proves it. With ATTNBENCH_NO_INSTALL=1 nothing is installed by apt.
set -euo pipefail
case " $* " in *' -h '* | *' --help '*) exec sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" ;; esac
cd "$(dirname "$0")/.."
out=dist
[ "${1:-}" != -o ] || out=$2

say() { printf 'wheel: %s\n' "$*" >&2; }

[ "${ATTNBENCH_NO_INSTALL:-}" = 1 ] || scripts/build.sh --install-only --no-tests release
venv=.deps/wheel list=scripts/requirements-wheel.txt
if [ ! -e $venv/.made ] || [ $list -nt $venv/.made ]; then
    say "fetching build tools into $venv"
    /usr/bin/python3 -m venv $venv
    $venv/bin/python3 -m pip install -q --disable-pip-version-check --no-deps -r $list
    touch $venv/.made
fi
export PATH=$PWD/$venv/bin:$PATH
[ ! -x .deps/venv/bin/cmake ] || PATH=$PATH:$PWD/.deps/venv/bin

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
floor=$venv/glibc-2.28
if [ ! -e $floor/.made ] || [ $venv/.made -nt $floor/.made ] || [ scripts/manylinux.sh -nt $floor/.made ]; then
    say "making what to link for glibc 2.28 into $floor"
    scripts/manylinux.sh $venv/bin/python3 $floor >"$raw/log" 2>&1 || { cat "$raw/log" >&2; exit 1; }
    touch $floor/.made
fi
# libgcc_s.so.1 stays the user's; this machine's asks for a newer glibc than is linked.
export benchmark_ROOT=$PWD/$floor
export LDFLAGS="-B$PWD/$floor -L$PWD/$floor -static-libstdc++ -Wl,--strip-debug,--allow-shlib-undefined"
mkdir -p "$out"
python3 -m build --no-isolation --sdist --outdir "$out" . >"$raw/log" 2>&1 || { cat "$raw/log" >&2; exit 1; }
python3 -m build --no-isolation --wheel --outdir "$raw" -Cbuild-dir=build-manylinux . >"$raw/log" 2>&1 ||
    { cat "$raw/log" >&2; exit 1; }

# oneDNN is looked for where pip puts it (0.5 GB), and never comes along.
without=(--exclude 'libdnnl.so*' --exclude 'libsycl.so*' --exclude 'libtbb*.so*'
    --exclude 'libOpenCL.so*' --exclude 'libur_*.so*' --exclude 'libumf*.so*'
    --exclude 'libsvml.so*' --exclude 'libimf.so*' --exclude 'libintlc.so*' --exclude 'libirng.so*')
rm -f "$out"/attnbench-*.whl
python3 -m auditwheel repair --plat manylinux_2_28_x86_64 --only-plat "${without[@]}" \
    -w "$out" "$raw"/attnbench-*.whl >"$raw/log" 2>&1 ||
    { cat "$raw/log" >&2; exit 1; }
for file in "$out"/attnbench-*; do
    say "$file, $(du -b "$file" | awk '{ printf "%.1f MB", $1 / 1e6 }')"
done
