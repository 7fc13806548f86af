# SPDX-License-Identifier: Apache-2.0
"""NumPy: scores, softmax and values as whole arrays, matmul over its own OpenBLAS"""

REQUIRES = ("numpy",)
OPS = ("attention", "mha", "wkv", "linear_decay", "performer", "chunked", "linformer", "nystrom", "lsh",
       "attention_backward")

import attnbench_plain as plain  # noqa: E402


def supports(problem):
    if problem.deterministic and problem.threads > 1:
        return "OpenBLAS promises no determinism over threads"
    return None


def prepare(problem, tensors):
    return problem, {role: plain.view(t) for role, t in tensors.items()}


def run(state):
    problem, views = state
    plain.store(problem, views, plain.operator(problem, views))


def numerics(problem):
    u = 2.0**-53 if problem.dtype == "float64" else 2.0**-24
    stored = {"proj_type": "float64" if problem.dtype == "float64" else "float32"} \
        if problem.op in ("linformer", "nystrom") else {}
    return {
        **stored, "p_normalised": 1,
        # Largest errors in ulp (2u each) of float32's exp, log and tanh, doubled.
        "e_exp": 10 * u, "e_log": 16 * u, "e_tanh": 16 * u,
        "e_f": {"softmax": 0, "relu2": 0}.get(problem.weight_fn, 16 * u),
        "source": "NumPy's loops_exponent_log: float32 exp 2.52, log 3.83 ulp; sums pairwise or by "
                  "OpenBLAS's gemm",
    }
