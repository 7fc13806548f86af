#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_docs.sh - the manual page and the completion, against the program's own --help.
#
#   test_docs.sh PROGRAM MAN BASH GENERATOR
set -u
program=$1 man=$2 completion=$3 generator=$4
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

complain() { printf 'docs: %s\n' "$*"; failed=1; }

"$generator" "$folder/man" "$folder/bash" || complain "the generator fails"
cmp "$folder/man" "$man" || complain "the page is not what the generator writes"
cmp "$folder/bash" "$completion" || complain "the completion is not what the generator writes"
rm "$folder/man" "$folder/bash"

# The page: nothing that groff or mandoc objects to, and every verb and option of the program.
if command -v groff >/dev/null; then
    said=$(groff -man -ww -Tutf8 -z "$man" 2>&1)
    [ -z "$said" ] || complain "groff: $said"
else
    echo "docs: no groff here: the page is not formatted"
fi
if command -v mandoc >/dev/null; then
    said=$(mandoc -T lint -W error "$man")
    [ -z "$said" ] || complain "mandoc: $said"
fi
verbs=$("$program" --help | sed -n 's/^  attnbench \([a-z-]*\) .*/\1/p')
[ "$(wc -w <<<"$verbs")" -ge 8 ] || complain "--help names too few verbs: $verbs"
options_of() { "$program" "$1" --help | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p'; }
for verb in $verbs; do
    grep -q "^\.SS ${verb//-/\\\\-}" "$man" || complain "the page lacks $verb"
    for option in $(options_of "$verb"); do
        grep -q "^\(.*, \)\?\\\\fB${option//-/\\\\-}" "$man" || complain "the page lacks $option"
    done
done
for code in 0 1 2 3 4 5 6 7 8 130; do
    grep -qx "\.B $code" "$man" || complain "the page lacks exit code $code"
done

# The completion, as bash calls it.
# shellcheck source=/dev/null
source "$completion"
# shellcheck disable=SC2317 # the completion calls it
attnbench() { "$program" "$@"; }
cd "$folder" || exit 1
mkdir runs && touch a.cases b.safetensors other.txt

# expect "WORDS EXPECTED..." LINE...: the last word of LINE is the one under the cursor.
expect() {
    local wanted=$1 got
    shift
    wanted=$(tr ' ' '\n' <<<"$wanted" | sort | xargs)
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _attnbench
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | xargs)
    [ "$got" = "$wanted" ] || complain "'$*' gives '$got'"
}
expect "--help $verbs" attnbench ''
expect verify attnbench ver
expect '' attnbench nonsense
for verb in $verbs; do
    expect "$(options_of "$verb")" attnbench "$verb" --
done
expect '--timeout --threads' attnbench verify --t
expect 'hot cold both' attnbench bench --cache ''
expect 'hot' attnbench bench --cache = h
expect 'hot cold both' attnbench bench --cache =
expect 'backends cases checks fills ops a.cases b.safetensors runs' attnbench list ''
expect 'a.cases' attnbench verify -b naive a
expect 'runs' attnbench compare runs ''
expect 'add rebuild runs' attnbench history ''
expect 'runs' attnbench bench -o ''
expect 'a.cases b.safetensors other.txt runs' attnbench verify --plugin ''
expect '' attnbench verify --threads ''
expect '' attnbench doctor ''
expect 'naive' attnbench verify -b na
expect 'naive' attnbench report runs --baseline = na
expect 'other.txt' attnbench verify --baseline o
exit $failed
