#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - all that is asked of a machine with an NVIDIA GPU: build, verify, look for races and bad
# accesses, time, report. Every step is taken, whatever the one before said.
#
#   scripts/gpu.sh [-o REPORT] [attnbench bench options...]      e.g. scripts/gpu.sh --budget 20m
#
# Leaves the runs and logs in results/DATE-gpu, the report in REPORT (reports/gpu-NAME). The exit code
# is that of the first step that failed; 6, at once, without a GPU. For tests: GPU_BUILD is a build
# to take as it is, GPU_PLUGIN a plugin in place of those of CUDA, GPU_CASES cases in place of all.
set -euo pipefail
cd "$(dirname "$0")/.."
report='' worst=0 sanitizer=''
if [ "${1:-}" = -o ]; then
    report=$2
    shift 2
fi

say() { printf 'gpu: %s\n' "$*" >&2; }

# step NAME COMMAND...: its output into the log of that name, too
step() {
    local name=$1 code=0
    shift
    say "$name"
    "$@" 2>&1 | tee -a "$out/$name.log" || code=${PIPESTATUS[0]}
    [ "$code" = 0 ] || say "$name ended with exit code $code"
    [ "$worst" != 0 ] || worst=$code
}

count_gpus() {
    python3 -c 'import ctypes; cuda, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(n.value if not cuda.cuInit(0) and not cuda.cuDeviceGetCount(ctypes.byref(n)) else 0)' 2>/dev/null
}

# Names of the backends that can run, a line each; why the others cannot goes to stderr.
choose() {
    "$attnbench" list backends "${plugin[@]}" --json | python3 -c '
import json, sys
for b in json.load(sys.stdin):
    if b["name"].startswith("cuda_"):
        print(b["name"]) if b["available"] else print("gpu: left out:", b["name"] + ":", b["reason"], file=sys.stderr)'
}

find_sanitizer() {
    command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | tail -n 1
}

# A run of each small case, under a tool of compute-sanitizer. Closed kernels are not ours to mend.
sanitize() {
    local tool=$1 log=$out/$1.log
    step "$tool" "$sanitizer" --tool "$tool" --target-processes all "$attnbench" verify \
        "${plugin[@]}" "${ours[@]}" --fills none --checks none --timeout 30m "${small[@]}"
    # Processes that are checked end as they like: what counts is the summary of each.
    if ! grep -q 'SUMMARY:' "$log" || grep 'SUMMARY:' "$log" | grep -qv 'SUMMARY: 0 '; then
        say "$tool found something, or did not run: see $log"
        [ "$worst" != 0 ] || worst=3
    fi
}

build=${GPU_BUILD:-build} plugin=()
if [ -z "${GPU_PLUGIN:-}" ] && ! [ "$(count_gpus)" -gt 0 ] 2>/dev/null; then
    say "no GPU: the CUDA driver is missing, or it knows none"
    exit 6
fi
[ -z "${GPU_PLUGIN:-}" ] || plugin=(--plugin "$GPU_PLUGIN")
[ -n "${GPU_BUILD:-}" ] || scripts/build.sh --with-cuda release
attnbench=$build/bin/attnbench

all=() ours=()
for name in $(choose); do
    all+=(-b "$name")
    [ "$name" = cuda_cudnn ] || ours+=(-b "$name")
done
if [ ${#all[@]} = 0 ]; then
    say "no backend of CUDA can run"
    exit 6
fi
small=(backends/cuda/tests/emulation.cases) timed=(cases/gpu/*.cases)
if [ -n "${GPU_CASES:-}" ]; then
    small=("$GPU_CASES") timed=("$GPU_CASES")
fi
out=results/$(date -u +%Y%m%d-%H%M%S)-gpu
[ -z "${GPU_CASES:-}" ] || out=$(mktemp -d)
mkdir -p "$out"

# The standard suite, then the kernels' own cases, under all fills and checks. The check `rerun` does
# 50 runs where a run takes less than 5 ms.
[ -n "${GPU_CASES:-}" ] || step verify "$attnbench" verify "${all[@]}" -o "$out/suite"
step verify "$attnbench" verify "${plugin[@]}" "${all[@]}" -o "$out/small" "${small[@]}"

if sanitizer=$(find_sanitizer) && [ -n "$sanitizer" ]; then
    sanitize memcheck
    sanitize racecheck
else
    say "no compute-sanitizer here: neither races nor bad accesses were looked for"
fi

step bench "$attnbench" bench "${plugin[@]}" "${all[@]}" -o "$out/bench" --run-limit 0 "$@" "${timed[@]}"
name=$(scripts/gpu.py --name "$out")
report=${report:-reports/gpu-$name}
step report "$attnbench" report "$out/bench" -o "$report"
cp "$out/bench/machine.json" "$report/"
step figures scripts/gpu.py "$out" "$report/gpu.md"
# The page holds its pictures itself; the text links those in pixels.
find "$report/plots" -type f ! -name '*.png' -delete
say "see $report/gpu.md and $report/index.html; runs and logs are in $out"
exit "$worst"
