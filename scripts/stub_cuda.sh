#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# stub_cuda.sh - stand-ins for the CUDA libraries that PyTorch's libraries name as needed.
#
#   scripts/stub_cuda.sh FOLDER     torch/lib of an installation
#
# A machine without a GPU never calls them, but the dynamic loader wants files of these names with
# all symbols whose address is taken, in the versions that are asked for: 4.3 GB in place of 50 kB.
# A call would end the process at once (ud2).
set -euo pipefail
cd "$1"
readelf --dyn-syms -W libtorch*.so | awk '$7 == "UND" { sub("@.*", "", $8); print $8 }' |
    sort -u >wanted.txt

stub() { # SONAME PATTERN [VERSION]
    local soname=$1 pattern=$2 version=${3:-} map=()
    [ -z "$version" ] || { echo "$version { *; };" >stub.map; map=("-Wl,--version-script=stub.map"); }
    grep -E "^($pattern)" wanted.txt | sed 's/.*/.globl &\n&:/' >stub.s || true
    echo ud2 >>stub.s
    cc -shared -nostdlib -o "$soname" "-Wl,-soname,$soname" "${map[@]}" stub.s
    rm -f stub.s stub.map
}

stub libcublas.so.13 'cublas[A-KM-Z]' libcublas.so.13
stub libcublasLt.so.13 cublasLt libcublasLt.so.13
stub libcudnn.so.9 cudnn libcudnn.so.9
stub libcufft.so.12 cufft libcufft.so.12
stub libcufile.so.0 cuFile
stub libcusparse.so.12 'cusparse[A-KM-Z]' libcusparse.so.12
stub libcusparseLt.so.0 cusparseLt
stub libnccl.so.2 'p?nccl'
stub libnvrtc.so.13 nvrtc libnvrtc.so.13
stub libnvshmem_host.so.3 nvshmem NVSHMEM
rm -f wanted.txt
