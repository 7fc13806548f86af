#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - from a clone to a report: build, verify and time every backend on the standard suite.
#
#   scripts/run.sh [attnbench run options...]     e.g. scripts/run.sh --threads 2 -b avx2
#
# Ends in a verdict of some twenty lines (--rows: every timing) and leaves
# results/DATE/report/index.html; the exit code is attnbench's.
set -euo pipefail
case " $* " in *' -h '* | *' --help '*) exec sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" ;; esac
cd "$(dirname "$0")/.."
scripts/build.sh --no-tests release
run=results/$(date -u +%Y%m%d-%H%M%S)
build/bin/attnbench run -o "$run" --budget 9m --run-limit 1s "$@"
