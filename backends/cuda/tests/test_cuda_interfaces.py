#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cuda_interfaces.py - what is declared by hand of NVIDIA's libraries is what its own headers
declare: each function's parameters, as a call passes them, and each constant.

    test_cuda_interfaces.py COMPILER FOLDER...

FOLDERs are those of headers; headers that are in none of them are left out.
"""
import os
import re
import subprocess
import sys
import tempfile

BACKENDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
HEADERS = {"cuda.h": ["cuda/driver.c"], "cublas_v2.h": ["cuda/cublas.c"], "nvml.h": ["cuda/nvml.c"],
           "cudnn.h": ["cudnn/library.h", "cudnn/library.c"]}
SLOT = re.compile(r"^    ([\w ]+?\**) ?\(\*(\w+)\)\(([^;]*)\);", re.M)
SYMBOL = re.compile(r'\{"(\w+)",\s*&\w+\.(\w+)\}')
ENUM = re.compile(r"\benum \{(.*?)\}", re.S)
CONSTANT = re.compile(r"\b([A-Z]\w+) = (-?\d+)")
# A call passes an int where an enum is declared, and any pointer for any other.
ALIKE = """#include <%s>
#include <cstddef>
#include <cstdint>
#include <type_traits>
typedef int result;
typedef int status;
typedef uint64_t device_pointer;
template <class A, class B> constexpr bool same = sizeof(A) == sizeof(B) &&
    std::is_pointer<A>::value == std::is_pointer<B>::value &&
    std::is_floating_point<A>::value == std::is_floating_point<B>::value &&
    std::is_class<A>::value == std::is_class<B>::value;
template <class A, class B> constexpr bool alike = false;
template <class R, class... A, class S, class... B>
constexpr bool alike<R (*)(A...), S (*)(B...)> = [] {
    if constexpr (sizeof...(A) == sizeof...(B))
        return same<R, S> && (true && ... && same<A, B>);
    return false;
}();
"""


def program(header, texts):
    """What compiles where the declarations in `texts` are those of `header`, and how many they are."""
    slots = {name: (gives, takes) for text in texts for gives, name, takes in SLOT.findall(text)}
    checks = ["static_assert(alike<decltype(&%s), %s (*)(%s)>);" % (symbol, *slots[name])
              for text in texts for symbol, name in SYMBOL.findall(text)]
    checks += ['static_assert((long)%s == %s, "%s");' % (name, value, name)
               for text in texts for block in ENUM.findall(text) for name, value in CONSTANT.findall(block)]
    return ALIKE % header + "\n".join(checks) + "\n", len(checks)


def main():
    compiler, folders = sys.argv[1], sys.argv[2:]
    failed = False
    for header, sources in HEADERS.items():
        folder = next((f for f in folders if os.path.exists(os.path.join(f, header))), None)
        if not folder:
            print(header, "is not there")
            continue
        texts = []
        for source in sources:
            with open(os.path.join(BACKENDS, source), encoding="utf-8") as file:
                texts.append(file.read())
        text, count = program(header, texts)
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "interfaces.cpp")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", "-w", "-isystem", folder, path],
                                  check=False)
        print(header, "in", folder, "-", count, "declarations", "differ" if done.returncode else "agree")
        failed |= done.returncode != 0 or count < 8
    sys.exit(failed)


if __name__ == "__main__":
    main()
