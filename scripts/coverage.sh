#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# coverage.sh - build with counters, run the tests, print which share of the lines and branches of
# harness/ and reference/ ran, a row a folder, then the files of which the least ran.
#
#   scripts/coverage.sh [CTEST OPTION...]    e.g. -R journal: what these tests alone reach
#
# Exit code 1 where a test failed, or a folder has fewer of its lines than the floor; with options of
# ctest the floor is not asked for. The lines of tests are not counted. A process that a signal ends
# loses its counts.
set -euo pipefail
case " $* " in *' -h '* | *' --help '*) exec sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" ;; esac
cd "$(dirname "$0")/.."
floor=85 failed=0
[ $# = 0 ] || floor=0

scripts/build.sh --fast-tier coverage
find build-coverage -name '*.gcda' -delete
ctest --test-dir build-coverage --output-on-failure -j "$(nproc)" -LE 'full|release' "$@" || failed=1

# gcov says "File 'NAME'", then "Lines executed:P% of N" and "Taken at least once:P% of N". A file that
# several objects hold counts as the object that ran most of it.
find build-coverage -path '*/tests/*' -prune -o -name '*.gcno' -print0 |
    xargs -0 gcov -b --no-output --relative-only --source-prefix "$PWD" 2>/dev/null |
    awk -F "[':% ]" -v floor="$floor" -v least='%5.1f %% of %4d lines  %s\n' \
        -v row='%-32s %5.1f %% of %5d lines, %5.1f %% of %5d branches\n' '
        function add(folder, file) {
            ran[folder] += best[file]
            of[folder] += lines[file]
            taken[folder] += ways[file]
            branches[folder] += forks[file]
        }
        function share(part, whole) { return whole ? 100 * part / whole : 100 }
        function hits() { return int($(NF - 3) * $NF / 100 + 0.5) }
        /^File / { file = $3; ours = file ~ /^(harness|reference)\// && file !~ /\/tests\// }
        ours && /^Lines / {
            lines[file] = $NF
            if (hits() > best[file]) best[file] = hits()
        }
        ours && /^Taken / {
            forks[file] = $NF
            if (hits() > ways[file]) ways[file] = hits()
        }
        END {
            for (file in lines) {
                folder = file
                sub(/\/[^\/]*$/, "", folder)
                add(folder, file)
                add(file ~ /^harness/ ? "harness (all)" : "reference (all)", file)
                printf least, share(best[file], lines[file]), lines[file], file | "sort -n | head -12 >&2"
            }
            for (folder in of) {
                lived = share(ran[folder], of[folder])
                went = share(taken[folder], branches[folder])
                printf row, folder, lived, of[folder], went, branches[folder] | "sort"
                low += lived < floor
            }
            close("sort")
            exit low > 0 || of["reference (all)"] == 0
        }'
exit "$failed"
