#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# coverage.sh - build with counters, run the tests, print which share of the lines of harness/ and
# reference/ ran, a row a folder. Exit code 1 where a test failed or a folder is under the floor.
#
# The lines of tests are not counted. A process that a signal ends loses its counts.
set -euo pipefail
cd "$(dirname "$0")/.."
floor=85

scripts/build.sh coverage
find build-coverage -name '*.gcda' -delete
ctest --test-dir build-coverage --output-on-failure -j "$(nproc)" -LE 'full|release'

# gcov says "File 'NAME'", then "Lines executed:P% of N". A file that several objects hold counts as
# the object that ran most of it.
find build-coverage -path '*/tests/*' -prune -o -name '*.gcno' -print0 |
    xargs -0 gcov --no-output --relative-only --source-prefix "$PWD" 2>/dev/null |
    awk -F "[':% ]" -v floor="$floor" '
        function add(folder, file) { ran[folder] += best[file]; of[folder] += lines[file] }
        /^File / { file = $3 }
        /^Lines / && file ~ /^(harness|reference)\// && file !~ /\/tests\// {
            hits = int($3 * $6 / 100 + 0.5)
            lines[file] = $6
            if (hits > best[file]) best[file] = hits
        }
        /^Lines / { file = "" }
        END {
            for (file in lines) {
                folder = file
                sub(/\/[^\/]*$/, "", folder)
                add(folder, file)
                if (folder != "reference") add("harness", file)
            }
            for (folder in of) {
                share = 100 * ran[folder] / of[folder]
                printf "%-26s %5.1f %% of %d lines\n", folder, share, of[folder] | "sort"
                low += share < floor
            }
            close("sort")
            exit low > 0 || of["reference"] == 0
        }'
