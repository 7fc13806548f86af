#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh - set up, build and run the tests; what CI calls.
#
#   scripts/test.sh           the fast tier: all tests in release, then under ASan and UBSan, then a
#                             minute of fuzzing of each reader of what others wrote
#   scripts/test.sh --full    CUDA kernels for all architectures, speed held to its bars
#                             (backends/tests/pace.h), and the campaigns as well, one of them under
#                             ASan and UBSan, too; then the tests under TSan, and line coverage
#
# Each part says what it took. The fast tier's parts have budgets, in seconds on two idle processors,
# 24.5 minutes in all: a part beyond its own is a warning. What makes it so belongs under the label
# "full" (scripts/README.md).
set -euo pipefail
cd "$(dirname "$0")/.."
full=0 tier=(--fast-tier) release=(-LE full) sanitized=(-LE 'full|release')
if [ "${1:-}" = --full ]; then
    full=1 tier=() release=() sanitized=(-LE release)
    export ATTNBENCH_BARS=1
fi

# PyTorch takes seconds to import wherever all backends are looked at.
export ATTNBENCH_PYTHON_BACKENDS=noop,numpy,ort

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
part "tests in release" 670 \
    ctest --test-dir build --output-on-failure -j "$(nproc)" "${release[@]}"

# The same tests with sanitizers. Leak checking stays on; the allocator may refuse, as tests of
# refused memory want it to.
part "building with sanitizers" 200 scripts/build.sh "${tier[@]}" asan-ubsan
part "tests with sanitizers" 340 env \
    ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1 \
    UBSAN_OPTIONS=print_stacktrace=1 \
    ctest --test-dir build-asan-ubsan --output-on-failure -j "$(nproc)" "${sanitized[@]}"

part "fuzzing" 140 scripts/fuzz.sh 60
[ "$full" = 1 ] || exit 0

# A worker with a race ends at once, which is a verdict; nothing is suppressed. blas_attention is
# left out: OpenBLAS's threads wait for each other in code that is not instrumented. Kernels that place
# mappings over more than 28 bits break the runtime of gcc 12 ("unexpected memory mapping"): so
# without, where that is allowed.
scripts/build.sh tsan
fixed=(setarch -R)
"${fixed[@]}" true 2>/dev/null || fixed=()
TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1 \
    "${fixed[@]}" ctest --test-dir build-tsan --output-on-failure -j "$(nproc)" \
    -LE 'full|release' -E '^blas_attention$'

scripts/coverage.sh
