#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh - builds the libFuzzer targets and runs each of them, three at a time on two processors: the
# six take two turns then, instead of three.
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]     a minute each, all of them
#
# What libFuzzer finds on its way stays in build-fuzz/corpus; an input that breaks something is left
# there, too, and its path is printed.
set -euo pipefail
case " $* " in *' -h '* | *' --help '*) exec sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" ;; esac
cd "$(dirname "$0")/.."
seconds=${1:-60}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(cases packs results import replies requests)

scripts/build.sh fuzz
corpus=build-fuzz/corpus
mkdir -p "$corpus"/{cases,packs,results,import,replies,requests}
# A file a line: short inputs run fast.
grep -hE '^[a-z]' cases/*.cases | split -l 1 -d -a 4 - "$corpus/cases/line"
echo 'most: b/hq/hkv/sq/sk/dk=1/2/1/3/4/5' >"$corpus/cases/linked"
cat >"$corpus/import/two.json" <<'END'
{"context": {"host_name": "box", "executable": "./b", "num_cpus": 2, "library_build_type": "release"},
 "benchmarks": [{"name": "BM_x", "run_type": "iteration", "threads": 1, "real_time": 1.5, "time_unit": "us"},
  {"name": "BM_y", "real_time": 2, "attnbench": {"case": "s=4", "name": "", "id": "00", "backend": "b",
   "options": "", "cache": "hot", "round": 0}}, {"name": "BM_z", "error_occurred": true}]}
END
find cases -name '*.safetensors' -size -32k -exec cp {} "$corpus/packs" \;
grep -ohE '"[A-Za-z][A-Za-z0-9_]*"' harness/{case,pack,results}/*.c harness/report/import.c | sort -u |
    sed 'p;s|"|"/|' >build-fuzz/words

fuzz() {
    local log=build-fuzz/$1.log
    build-fuzz/bin/fuzz_"$1" -max_total_time="$2" -max_len=32768 -timeout=20 -dict=build-fuzz/words \
        -artifact_prefix=build-fuzz/corpus/"$1"- build-fuzz/corpus/"$1" >"$log" 2>&1 &&
        { echo "fuzz_$1: $(tail -n 1 "$log"), nothing found"; return; }
    grep -vE '^#[0-9]+' "$log" | tail -n 40
    echo "fuzz: fuzz_$1 failed" >&2
    return 1
}
export -f fuzz
printf '%s\n' "${targets[@]}" | xargs -P "$((($(nproc) * 3 + 1) / 2))" -I{} bash -c "fuzz {} $seconds"
