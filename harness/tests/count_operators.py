#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count_operators.py HARNESS: no source of the harness names an operator by its number.

The operands, outputs and costs of an operator are in its folder of reference/ops. Tests, the
headers of the ABI and the planted plugin may name one.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
named = []
for path in sorted(root.rglob("*.[ch]")) + sorted(root.rglob("*.cc")):
    parts = path.relative_to(root).parts
    if "tests" in parts or "planted" in parts or parts[0] == "include":
        continue
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if re.search(r"\bATTN_OP_\w", line):
            named.append(f"{path.relative_to(root)}:{number}: {line.strip()}")
print("\n".join(named))
if not (root / "case").is_dir():
    sys.exit(f"{root} is not the harness")
if named:
    sys.exit(f"{len(named)} lines name an operator: ask its table (reference/op.h) instead")
