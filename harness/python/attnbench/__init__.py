# SPDX-License-Identifier: Apache-2.0
"""attnbench - is a function that computes attention right, and how fast is it?

    @attnbench.kernel(dtypes=("f32", "bf16"), features=("causal", "gqa"), numerics={"acc_type": "f32"})
    def mine(q, k, v, p):
        return mykernel.attention(q, k, v, scale=p.scale, causal=p.causal)

    attnbench.verify(mine, "hq/hkv=8/2 s=127 d=64 mask=causal")

The function runs in a process of its own, started by the program `attnbench`."""
from ._kernel import FEATURES, Case, cases, kernel
from ._program import program
from ._run import (Failure, Record, Run, Unsupported, bench, compare, load, verify)

__all__ = ["FEATURES", "Case", "Failure", "Record", "Run", "Unsupported", "bench", "cases", "compare",
           "kernel", "load", "program", "verify"]
