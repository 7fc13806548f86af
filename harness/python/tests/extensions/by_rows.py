# SPDX-License-Identifier: Apache-2.0
"""Kernels of the extension rows.cpp, which the test has built as rows.so in the folder ROWS_FOLDER."""
import importlib.util
import os

import attnbench
import torch  # noqa: F401

FILE = os.path.join(os.environ["ROWS_FOLDER"], "rows.so")
spec = importlib.util.spec_from_file_location("rows", FILE)
rows = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rows)
does = attnbench.kernel(features=("causal", "gqa", "value_width"), arrays="torch")


@does
def right(q, k, v, p):
    return rows.attention(q, k, v, p.scale, p.causal, 0)


@does
def late(q, k, v, p):
    return rows.attention(q, k, v, p.scale, p.causal, 1)


@does
def tail(q, k, v, p):
    return rows.attention(q, k, v, p.scale, p.causal, 2)


@does
def past(q, k, v, p):
    return rows.attention(q, k, v, p.scale, p.causal, 3)


@does
def unshifted(q, k, v, p):
    return rows.attention(q, k, v, p.scale, p.causal, 4)
