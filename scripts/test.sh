#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh - set up, build and run the tests; what CI calls.
#
#   scripts/test.sh           the fast tier: all tests in release, then under ASan and UBSan, then a
#                             minute of fuzzing of each reader of what others wrote
#   scripts/test.sh --full    CUDA kernels for all architectures, speed held to its bars
#                             (backends/tests/pace.h), and the campaigns as well, one of them under
#                             ASan and UBSan, too; then a build by clang, the tests under TSan, and
#                             line coverage
#
# Each part says what it took. The fast tier's parts have budgets, in seconds on two idle processors,
# 24.5 minutes in all: a part beyond its own is a warning. What makes it so belongs under the label
# "full" (scripts/README.md).
set -euo pipefail
case " $* " in *' -h '* | *' --help '*) exec sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" ;; esac
cd "$(dirname "$0")/.."
full=0 tier=(--fast-tier) release=(-LE full) sanitized=(-LE 'full|release') share=4
if [ "${1:-}" = --full ]; then
    full=1 tier=() release=() sanitized=(-LE release) share=1
    export ATTNBENCH_BARS=1
    shift
fi
[ $# = 0 ] || { echo "test: no argument '$1' (--help says which there are)" >&2 && exit 2; }

# PyTorch takes seconds to import wherever all backends are looked at.
export ATTNBENCH_PYTHON_BACKENDS=noop,numpy,ort

# What tests draw at random, as the part of the planted bugs, depends on all committed files but texts: other
# commits draw other parts, and the same commit draws the same again.
: "${ATTNBENCH_TEST_SEED:=$(git ls-tree -r HEAD 2>/dev/null | grep -v '\.md$' | sha256sum | head -c 16)}"
export ATTNBENCH_TEST_SEED

say() { printf 'test: %s\n' "$*" >&2; }

# part NAME BUDGET COMMAND...
part() {
    local name=$1 budget=$2 begun=$SECONDS took
    shift 2
    "$@"
    took=$((SECONDS - begun))
    if [ "$full" = 1 ]; then
        say "$name took $took s"
    elif [ "$took" -le "$budget" ]; then
        say "$name took $took s of its $budget"
    else
        say "warning: $name took $took s, its budget is $budget s"
    fi
}

scripts/build.sh "${tier[@]}" --install-only fuzz # which needs what the others need, and clang
export ATTNBENCH_NO_INSTALL=1
part "building for release" 120 scripts/build.sh "${tier[@]}" release
# Many tests wait, for a plan to grow old or for a signal: so twice as many as processors.
jobs=$((2 * $(nproc)))
say "random parts are drawn with ATTNBENCH_TEST_SEED=$ATTNBENCH_TEST_SEED"
part "tests in release" 670 \
    ctest --test-dir build --output-on-failure -j "$jobs" "${release[@]}"

# The same tests with sanitizers; of those of the command line, which last longest, the fast tier takes a
# quarter. Leak checking stays on; the allocator may refuse, as tests of
# refused memory want it to.
part "building with sanitizers" 200 scripts/build.sh "${tier[@]}" asan-ubsan
part "tests with sanitizers" 340 env \
    ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1 \
    UBSAN_OPTIONS=print_stacktrace=1 ATTNBENCH_TEST_SHARE="$share" \
    ctest --test-dir build-asan-ubsan --output-on-failure -j "$jobs" "${sanitized[@]}"

part "fuzzing" 140 scripts/fuzz.sh 60
[ "$full" = 1 ] || exit 0

scripts/build.sh clang # all of it, without a warning

# A worker with a race ends at once, which is a verdict; nothing is suppressed. Some tests want a crash,
# so reports go to files, and any report is a failure.
# blas_attention is left out: OpenBLAS's threads wait for each other in code that is not instrumented.
# Kernels that place mappings over more than 28 bits break the runtime of gcc 12 ("unexpected memory
# mapping"): so without, where that is allowed.
scripts/build.sh --fast-tier tsan
fixed=(setarch -R)
"${fixed[@]}" true 2>/dev/null || fixed=()
races=$PWD/build-tsan/races
rm -rf "$races" && mkdir "$races"
tests_with_tsan() {
    TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1:log_path=$races/of \
        "${fixed[@]}" ctest --test-dir build-tsan --output-on-failure -j "$jobs" \
        -LE 'full|release' -E '^blas_attention$'
    ! grep -rs 'WARNING: ThreadSanitizer' -A 30 "$races" || { say "races: see above"; exit 1; }
}
part "tests with TSan" 0 tests_with_tsan

scripts/coverage.sh
