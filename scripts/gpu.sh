#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - all that is asked of a machine with an NVIDIA GPU: build, verify, look for races and bad
# accesses, time, report. Every step is taken, whatever the one before said.
#
#   scripts/gpu.sh [-o REPORT] [attnbench bench options...]      e.g. scripts/gpu.sh --budget 20m
#
# Takes two to three hours, by an estimate from the processor's part of it: half of them timing, which
# --budget shortens. cuBLAS and cuDNN come from PyPI, 1.2 GB, where the machine has none. Adapters in
# Python take part if ATTNBENCH_PYTHON names an environment with PyTorch for the GPU.
#
# Leaves the runs and logs in results/DATE-gpu, the report in REPORT (reports/gpu-NAME). The exit code
# is that of the first step that failed; 6, at once, where cuda_flash cannot run. For tests: GPU_BUILD
# is a build to take as it is, GPU_PLUGIN a plugin in place of those of CUDA, GPU_CASES cases in place
# of all.
set -euo pipefail
cd "$(dirname "$0")/.."
report='' worst=0 failed='' sanitizer=''
if [ "${1:-}" = -o ]; then
    report=$2
    shift 2
fi
# where CUDA is installed, which is not always on these
export PATH=$PATH:/usr/local/cuda/bin
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64

say() { printf 'gpu: %s\n' "$*" >&2; }

# fail NAME CODE
fail() {
    failed+=" $1"
    [ "$worst" != 0 ] || worst=$2
}

# step NAME COMMAND...: its output into the log of that name, too
step() {
    local name=$1 code=0 begin=$SECONDS
    shift
    say "$name ..."
    "$@" 2>&1 | tee -a "$out/$name.log" || code=${PIPESTATUS[0]}
    say "$name ended with exit code $code after $((SECONDS - begin)) s"
    [ "$code" = 0 ] || fail "$name" "$code"
}

# Prints the version of CUDA that the driver is for, as 1000 major + 10 minor; 0 without a GPU.
driver() {
    python3 -c 'import ctypes; cuda, n, v = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
known = not cuda.cuInit(0) and not cuda.cuDeviceGetCount(ctypes.byref(n)) and n.value > 0
print(v.value if known and not cuda.cuDriverGetVersion(ctypes.byref(v)) else 0)' 2>/dev/null || echo 0
}

# opens NAME...: can one of these libraries be opened
opens() {
    python3 -c 'import ctypes, sys
for name in sys.argv[1:]:
    try: sys.exit(ctypes.CDLL(name) is None)
    except OSError: pass
sys.exit(1)' "$@"
}

# Into .deps/cuda-libraries, what PyPI has of the CUDA that scripts/build.sh --with-cuda brings.
find_libraries() {
    local list=scripts/requirements-gpu.txt place=.deps/cuda-libraries
    local stamp=$place/.made
    if opens libcublas.so.13 libcublas.so.12 && opens libcudnn.so.9; then return 0; fi
    if [ "$1" -lt 13000 ]; then
        say "cuBLAS or cuDNN is missing, and the driver is too old for PyPI's: it is for CUDA $(($1 / 1000))"
        return 0
    fi
    if [ ! -e "$stamp" ] || [ "$list" -nt "$stamp" ]; then
        say "fetching cuBLAS and cuDNN"
        rm -rf "$place"
        .deps/venv/bin/python3 -m pip install -q --disable-pip-version-check --no-deps --no-compile \
            --no-cache-dir --target "$place" -r "$list" || return
        touch "$stamp"
    fi
    LD_LIBRARY_PATH+=$(printf ':%s' "$PWD/$place"/nvidia/*/lib)
}

# Names of the backends that can run, a line each; why the others cannot goes to left-out.txt.
choose() {
    "$attnbench" list backends "${plugin[@]}" --json | python3 -c '
import json, sys
peers = "torch_cuda", "flash_attn", "flashinfer", "triton"
for b in json.load(sys.stdin):
    if b["name"].startswith("cuda_") or b["name"] in peers:
        print(b["name"]) if b["available"] else print(b["name"] + ":", b["reason"], file=sys.stderr)' \
        2>"$out/left-out.txt"
}

find_sanitizer() {
    command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | tail -n 1
}

# A run of each small case, under a tool of compute-sanitizer, which looks at our kernels alone: the
# closed ones of cuBLAS are not ours to mend. Every status of CUDA is checked by the plugin itself.
sanitize() {
    local tool=$1 log=$out/$1.log options=(--tool "$1" --target-processes all) kernel
    for kernel in flash merge project softmax repair lay delta backward total; do
        options+=(--kernel-name "kns=${kernel}_")
    done
    [ "$tool" != memcheck ] || options+=(--report-api-errors no)
    step "$tool" "$sanitizer" "${options[@]}" "$attnbench" verify \
        "${plugin[@]}" "${ours[@]}" --fills none --checks none --timeout 30m "${small[@]}"
    # Processes that are checked end as they like: what counts is the summary of each.
    if ! grep -q 'SUMMARY:' "$log" || grep 'SUMMARY:' "$log" | grep -qv 'SUMMARY: 0 '; then
        say "$tool found something, or did not run: see $log"
        fail "$tool" 3
    fi
}

# Text and tables of what was timed.
# shellcheck disable=SC2317 # step calls it
write_report() {
    local name
    name=$(scripts/gpu.py --name "$out") || return
    report=${report:-reports/gpu-$name}
    "$attnbench" report "$out/bench" -o "$report" || return
    cp "$out/bench/machine.json" "$report/" || return
    scripts/gpu.py "$out" "$report/gpu.md" || return
    # The page holds its pictures itself; the text links those in pixels.
    find "$report/plots" -type f ! -name '*.png' -delete || return
    say "see $report/gpu.md and $report/index.html"
}

build=${GPU_BUILD:-build} plugin=()
[ -z "${GPU_PLUGIN:-}" ] || plugin=(--plugin "$GPU_PLUGIN")
version=$(driver)
if [ -z "${GPU_PLUGIN:-}" ] && [ "$version" = 0 ]; then
    say "no GPU: the CUDA driver is missing, or it knows none"
    exit 6
fi
if [ -z "${GPU_BUILD:-}" ]; then
    scripts/build.sh --with-cuda release || { say "the build failed"; exit 1; }
    find_libraries "$version" || say "no cuBLAS or no cuDNN (see the error above)"
fi
attnbench=$build/bin/attnbench
out=results/$(date -u +%Y%m%d-%H%M%S)-gpu
[ -z "${GPU_CASES:-}" ] || out=$(mktemp -d)
mkdir -p "$out"

all=() ours=() peers=()
for name in $(choose); do
    case $name in
    cuda_cudnn) all+=(-b "$name") ;;
    cuda_*) all+=(-b "$name") ours+=(-b "$name") ;;
    *) peers+=(-b "$name") ;;
    esac
done
while read -r line; do say "left out: $line"; done <"$out/left-out.txt"
if [[ " ${ours[*]} " != *" cuda_flash "* ]] && [ -z "${GPU_PLUGIN:-}" ]; then
    say "cuda_flash cannot run: there is nothing to do"
    exit 6
fi
small=(backends/cuda/tests/{emulation,gradients}.cases) large=(cases/gpu/matrix.cases)
timed=(cases/gpu/forward.cases cases/gpu/decode.cases)
if [ -n "${GPU_CASES:-}" ]; then
    small=("$GPU_CASES") large=("$GPU_CASES") timed=("$GPU_CASES")
fi

# The kernels' own cases, then the standard suite, under all fills and checks. The check `rerun` does
# 50 runs where a run takes less than 5 ms.
step small "$attnbench" verify "${plugin[@]}" "${all[@]}" -o "$out/small" "${small[@]}"
step matrix "$attnbench" verify "${plugin[@]}" "${all[@]}" -o "$out/matrix" "${large[@]}"
# Libraries in Python, on what they do: a NaN that they let through is not ours to judge.
[ ${#peers[@]} = 0 ] || step peers "$attnbench" verify "${peers[@]}" --fills none -o "$out/peers" "${large[@]}"
[ -n "${GPU_CASES:-}" ] || step suite "$attnbench" verify "${all[@]}" -o "$out/suite"

if sanitizer=$(find_sanitizer) && [ -n "$sanitizer" ]; then
    sanitize memcheck
    sanitize racecheck
else
    say "no compute-sanitizer here: neither races nor bad accesses were looked for"
    echo "compute-sanitizer: not installed; races and bad accesses were not looked for" >>"$out/left-out.txt"
fi

step bench "$attnbench" bench "${plugin[@]}" "${all[@]}" "${peers[@]}" -o "$out/bench" --run-limit 0 "$@" "${timed[@]}"
step report write_report
say "runs and logs are in $out"
say "${failed:+failed:}${failed:-all steps passed}"
exit "$worst"
