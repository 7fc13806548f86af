#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh - set up, build and run the tests; what CI calls.
#
#   scripts/test.sh           the fast tier: all tests in release, then under ASan and UBSan
#   scripts/test.sh --full    the campaigns as well
set -euo pipefail
cd "$(dirname "$0")/.."
release=(-LE full) sanitized=(-LE 'full|release')
[ "${1:-}" != --full ] || { release=() sanitized=(-LE release); }

scripts/build.sh release
ctest --test-dir build --output-on-failure -j "$(nproc)" "${release[@]}"

# The same tests with sanitizers. Leak checking stays on; the allocator may refuse, as tests of
# refused memory want it to.
ATTNBENCH_NO_INSTALL=1 scripts/build.sh asan-ubsan
ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1 \
UBSAN_OPTIONS=print_stacktrace=1 \
    ctest --test-dir build-asan-ubsan --output-on-failure -j "$(nproc)" "${sanitized[@]}"
