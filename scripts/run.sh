#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - from a clone to a report: build, verify and time every backend on the standard suite.
#
#   scripts/run.sh [attnbench run options...]     e.g. scripts/run.sh --threads 2 -b avx2
#
# Ends in a verdict of some fifteen lines (--rows: every timing) and leaves
# results/DATE/report/index.html; the exit code is attnbench's.
set -euo pipefail
cd "$(dirname "$0")/.."
# Kernels of a GPU take minutes to compile: not where there is none to run them.
gpu=(--fast-tier)
[ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ] || gpu=()
scripts/build.sh --no-tests "${gpu[@]}" release
run=results/$(date -u +%Y%m%d-%H%M%S)
build/bin/attnbench run -o "$run" --budget 9m --run-limit 1s "$@"
