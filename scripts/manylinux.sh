#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# manylinux.sh - what a build must link so that it starts with glibc 2.28, into FOLDER.
#
#   scripts/manylinux.sh PYTHON FOLDER
#
# gcc compiles as ever. Which version of a function it is bound to is decided by the libraries that are
# linked: here those that zig, of the environment of PYTHON, makes for glibc 2.28. Google Benchmark is
# built from the distribution's source package, because there is no static one.
set -euo pipefail
case " $* " in *' -h '* | *' --help '*) exec sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" ;; esac
python=$1 out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)

# The libraries are names and versions only; libc_nonshared.a has what was no symbol then (stat), and
# Scrt1.o the start of a program.
echo 'int main(void) { return 0; }' >"$work/main.c"
ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig "$python" -m ziglang cc \
    -target x86_64-linux-gnu.2.28 -pie "$work/main.c" -o "$work/main"
find "$work/zig" \( -name 'lib*.so.*' -o -name libc_nonshared.a -o -name Scrt1.o \) -exec cp {} "$out" \;
for library in libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1; do
    ln -s $library "$out/${library%.*}"
done
# Since 2.34 the C library holds all of these, and nobody names them who links it.
echo 'GROUP(libc.so.6 libc_nonshared.a AS_NEEDED(libpthread.so.0 libdl.so.2 librt.so.1 libld.so.2))' >"$out/libc.so"
# What libstdc++.a asks for beside that. 0: there may be several threads.
cat >"$work/newer.c" <<'EOF'
#include <sys/random.h>
char __libc_single_threaded;
unsigned arc4random(void)
{
    unsigned word;
    while (getrandom(&word, sizeof word, 0) != sizeof word)
        ;
    return word;
}
EOF
gcc -O2 -fPIC -c "$work/newer.c" -o "$work/newer.o"
ar r "$out/libc_nonshared.a" "$work/newer.o"

# The repositories that apt knows, with their sources, in a folder of our own.
mkdir -p "$work/apt/lists/partial"
# shellcheck disable=SC2016 # apt expands these
apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    sed -nE 's#^(Debian|Ubuntu) #deb-src [signed-by=/usr/share/keyrings/\L\1\E-archive-keyring.gpg] #p' |
    sort -u >"$work/apt/sources.list"
[ -s "$work/apt/sources.list" ] || { echo "apt knows no packages of Debian or Ubuntu: apt-get update" && exit 1; }
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt" -o Debug::NoLocking=1 -o APT::Sandbox::User=)
"${apt[@]}" update
(cd "$work" && "${apt[@]}" source benchmark)
source=$(echo "$work"/benchmark-*/)
source=${source%/}
CXXFLAGS="-D_FORTIFY_SOURCE=2 -fstack-protector-strong -fcf-protection=full -ffile-prefix-map=$work=." cmake \
    -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$out" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DGIT_VERSION="${source##*-}" \
    -DBENCHMARK_ENABLE_TESTING=OFF -DBENCHMARK_ENABLE_WERROR=OFF -DBENCHMARK_INSTALL_DOCS=OFF
cmake --build "$work/build" --target install
