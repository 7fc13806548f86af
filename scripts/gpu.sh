#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh - all that is asked of a machine with an NVIDIA GPU: build, verify, look for races and bad
# accesses, time, report. Every step is taken, whatever the one before said.
#
#   scripts/gpu.sh [-o REPORT] [-j N] [-s STEP,...] [-d OUT] [-t CASES] [attnbench bench options...]
#
# e.g. scripts/gpu.sh --budget 20m. Verifies in N parts side by side (4). cuBLAS and cuDNN are those of
# the machine, of PyTorch beside python3, or of PyPI, 1.2 GB. Adapters in Python take part if
# ATTNBENCH_PYTHON names an environment with PyTorch for the GPU.
#
# Steps: small, matrix, peers, suite, memcheck, racecheck, bench, report. With -s only some are taken,
# with -d into the folder of earlier ones, so that a report can be made in several goes. -t names a file
# of cases to time in place of those of cases/gpu.
#
# Leaves the runs and logs in OUT (results/DATE-gpu), the report in REPORT (reports/gpu-NAME). The exit code
# is that of the first step that failed; 6, at once, where cuda_flash cannot run. For tests: GPU_BUILD
# is a build to take as it is, GPU_PLUGIN a plugin in place of those of CUDA, GPU_CASES cases in place
# of all.
set -euo pipefail
case " $* " in *' -h '* | *' --help '*) exec sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" ;; esac
cd "$(dirname "$0")/.."
report='' out='' worst=0 failed='' sanitizer='' jobs=4 timed=()
known=small,matrix,peers,suite,memcheck,racecheck,bench,report
steps=$known
while [[ ${1:-} == -[ojsdt] ]]; do
    case $1 in
    -o) report=$2 ;;
    -j) jobs=$2 ;;
    -s) steps=$2 ;;
    -d) out=$2 ;;
    -t) timed=("$2") ;;
    esac
    shift 2
done
# where CUDA is installed, which is not always on these
export PATH=$PATH:/usr/local/cuda/bin
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64

say() { printf 'gpu: %s\n' "$*" >&2; }

# fail NAME CODE
fail() {
    failed+=" $1"
    [ "$worst" != 0 ] || worst=$2
}

for name in ${steps//,/ }; do
    [[ ,$known, == *,$name,* ]] || { say "there is no step '$name', but $known" && exit 2; }
done
wanted() { [[ ,$steps, == *,$1,* ]]; }

# step NAME COMMAND...: its output into the log of that name, too
step() {
    local name=$1 code=0 begin=$SECONDS
    wanted "$name" || return 0
    shift
    say "$name ..."
    "$@" 2>&1 | tee -a "$out/$name.log" || code=${PIPESTATUS[0]}
    say "$name ended with exit code $code after $((SECONDS - begin)) s"
    [ "$code" = 0 ] || fail "$name" "$code"
}

# in_parts NAME COMMAND...: as many parts of what the command verifies as there are jobs, side by side,
# then what they found as one run; each part's output in turn.
# shellcheck disable=SC2317 # step calls it
in_parts() {
    local folder=$out/$1 part code worst=0 parts=()
    shift
    mkdir -p "$folder.parts"
    for ((part = 1; part <= jobs; part++)); do
        "$@" --threads "$threads" --shard "$part/$jobs" -o "$folder.parts/$part" >"$folder.parts/$part.log" 2>&1 &
        parts+=($!)
    done
    for ((part = 1; part <= jobs; part++)); do
        code=0
        wait "${parts[part - 1]}" || code=$?
        [ "$worst" != 0 ] || worst=$code
        cat "$folder.parts/$part.log"
    done
    "$attnbench" merge "$folder.parts"/*/ -o "$folder" || code=$?
    return "$((worst ? worst : code))"
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

# Those that PyTorch brought, else into .deps/cuda-libraries what PyPI has of the CUDA that
# scripts/build.sh --with-cuda brings.
find_libraries() {
    local list=scripts/requirements-gpu.txt place=.deps/cuda-libraries
    local stamp=$place/.made
    if opens libcublas.so.13 libcublas.so.12 && opens libcudnn.so.9; then return 0; fi
    LD_LIBRARY_PATH+=$("${ATTNBENCH_PYTHON:-python3}" -c 'import glob, nvidia
print("".join(":" + folder for place in nvidia.__path__ for folder in glob.glob(place + "/*/lib")))' 2>/dev/null || true)
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

# All fills but one, as a list for --fills.
fills_but() {
    "$attnbench" list fills | awk -v but="$1" '$1 != but { printf "%s%s", comma, $1; comma = "," }'
}

find_sanitizer() {
    command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | tail -n 1
}

# A run of each small case, under a tool of compute-sanitizer, which looks at our kernels alone: the
# closed ones of cuBLAS are not ours to mend. Every status of CUDA is checked by the plugin itself.
sanitize() {
    wanted "$1" || return 0
    local tool=$1 log=$out/$1.log options=(--tool "$1" --target-processes all) kernel
    for kernel in flash merge project softmax repair lay delta backward total; do
        options+=(--kernel-name "kns=${kernel}_")
    done
    [ "$tool" != memcheck ] || options+=(--report-api-errors no)
    step "$tool" in_parts "$tool" "$sanitizer" "${options[@]}" "$attnbench" verify \
        "${plugin[@]}" "${ours[@]}" --fills none --checks none --confine off --timeout 30m "${small[@]}"
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
fi
if [ -z "${GPU_PLUGIN:-}" ]; then
    find_libraries "$version" || say "no cuBLAS or no cuDNN (see the error above)"
fi
attnbench=$build/bin/attnbench
[ -z "${GPU_CASES:-}" ] || out=${out:-$(mktemp -d)}
out=${out:-results/$(date -u +%Y%m%d-%H%M%S)-gpu}
mkdir -p "$out"
# of the host, which makes operands and judges results
processors=$(nproc)
threads=$(((processors + jobs - 1) / jobs))

ours=() peers=()
for name in $(choose); do
    case $name in
    cuda_cudnn) peers+=(-b "$name") ;;
    cuda_*) ours+=(-b "$name") ;;
    *) peers+=(-b "$name") ;;
    esac
done
while read -r line; do say "left out: $line"; done <"$out/left-out.txt"
if [[ " ${ours[*]} " != *" cuda_flash "* ]] && [ -z "${GPU_PLUGIN:-}" ]; then
    say "cuda_flash cannot run: there is nothing to do"
    exit 6
fi
small=(backends/cuda/tests/{emulation,gradients,hopper,unfused}.cases) large=(cases/gpu/matrix.cases)
[ ${#timed[@]} != 0 ] || timed=(cases/gpu/{forward,backward,decode}.cases)
if [ -n "${GPU_CASES:-}" ]; then
    small=("$GPU_CASES") large=("$GPU_CASES") timed=("$GPU_CASES")
fi

# The kernels' own cases, then the standard suite, under all fills and checks. The check `rerun` does
# 50 runs where a run takes less than 5 ms.
step small in_parts small "$attnbench" verify "${plugin[@]}" "${ours[@]}" "${small[@]}"
step matrix in_parts matrix "$attnbench" verify "${plugin[@]}" "${ours[@]}" "${large[@]}"
# Libraries without NaN at masked keys, which most let through: it is not ours to mend.
[ ${#peers[@]} = 0 ] ||
    step peers in_parts peers "$attnbench" verify "${peers[@]}" --fills "$(fills_but poison)" "${large[@]}"
[ -n "${GPU_CASES:-}" ] || step suite in_parts suite "$attnbench" verify "${ours[@]}"

if ! wanted memcheck && ! wanted racecheck; then
    :
elif sanitizer=$(find_sanitizer) && [ -n "$sanitizer" ]; then
    sanitize memcheck
    sanitize racecheck
else
    say "no compute-sanitizer here: neither races nor bad accesses were looked for"
    echo "compute-sanitizer: not installed; races and bad accesses were not looked for" >>"$out/left-out.txt"
fi

step bench "$attnbench" bench "${plugin[@]}" "${ours[@]}" "${peers[@]}" -o "$out/bench" \
    --threads "$processors" --run-limit 0 "$@" "${timed[@]}"
step report write_report
say "runs and logs are in $out"
say "${failed:+failed:}${failed:-all steps passed}"
exit "$worst"
