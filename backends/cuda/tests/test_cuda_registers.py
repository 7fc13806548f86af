#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cuda_registers.py - registers, stack and spills of each kernel, as ptxas reports them, and
whether it makes products of warpgroups wait for one another.

    test_cuda_registers.py LOG...     prints the table; fails where a kernel spills or uses a stack
"""
import re
import sys

KERNEL = re.compile(
    r"Compiling entry function '(\w+)' for '(sm_\d+)a?'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers", re.S)


def main():
    table, faults = {}, []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
            # wgmma in the order of the source, one by one
            faults += [line for line in text.splitlines() if "wgmma" in line]
            for name, target, stack, stores, loads, registers in KERNEL.findall(text):
                table.setdefault(name, {})[target] = registers
                if (stack, stores, loads) != ("0", "0", "0"):
                    faults.append("%s for %s: stack %s, spills %s and %s bytes" %
                                  (name, target, stack, stores, loads))
    targets = sorted({t for row in table.values() for t in row}, key=lambda t: int(t[3:]))
    print("| registers a thread |", " | ".join(targets), "|\n|---|" + "---|" * len(targets))
    for name in sorted(table):
        print("|", name, "|", " | ".join(table[name].get(t, "-") for t in targets), "|")
    if not any(name.startswith("flash_") for name in table):
        faults.append("no kernel was found in the logs")
    sys.exit("\n".join(faults) if faults else 0)


if __name__ == "__main__":
    main()
