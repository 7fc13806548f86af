# SPDX-License-Identifier: Apache-2.0
"""attnbench_cuda - what the adapters of PyTorch's world share on a GPU: which problems they take, and
operands as tensors of PyTorch. Their kernels launch on PyTorch's current stream, which is the legacy
default stream, where the plugin's events are."""
import os

import torch

UNIT = 2.0**-24
# ex2.approx: 2^-22 by the PTX manual; its argument is rounded once, and so is scale * log2(e).
HARDWARE = {"e_exp": 2.0**-22, "e_arg": 2.0**-22, "e_log": 2.0**-22}


def reason(problem):
    """Why PyTorch cannot use the device, or None; makes it the current one."""
    stub = os.path.join(os.path.dirname(torch.__file__), "lib", "libcublas.so.13")
    if os.path.exists(stub) and os.path.getsize(stub) < 1 << 24:
        return "this PyTorch is for processors (scripts/stub_cuda.sh); ATTNBENCH_PYTHON names another Python"
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} cannot use the GPU"
    torch.cuda.set_device(problem.device)
    torch.set_grad_enabled(False)
    return None


def rows_without_keys(problem):
    """By shapes. Libraries differ in what they answer, and do not say."""
    return problem.sk == 0 or problem.bottom_right and problem.sq > problem.sk


def supports(problem, types, *features):
    """Why a problem is refused that goes beyond `types` and `features`."""
    if problem.dtype not in types:
        return f"it does not do {problem.dtype}"
    if rows_without_keys(problem):
        return "rows without keys are not supported"
    if any(problem.tensors[r].strides[-1] != 1 and problem.tensors[r].shape[-1] > 1 for r in "qkv"):
        return "it wants the elements of a head beside each other"
    if problem.deterministic:
        return "it does not say that it is deterministic"
    return problem.beyond(*features) or reason(problem)


def from_last(problem):
    """Is the diagonal of causal and window the one from the last row and key."""
    return not problem.off and (problem.bottom_right or problem.sq == problem.sk)


def view(tensor):
    return torch.from_dlpack(tensor.viewed("uint8") if tensor.dtype == "bool" else tensor)


def views(tensors):
    return {role: view(t) for role, t in tensors.items()}


def tensor_cores(problem, key_tile, splits=0):
    """Numerics of fused kernels for tensor cores: sums in f32, weights in the type of q, the
    denominator of unrounded weights."""
    low = problem.dtype in ("float16", "bfloat16")
    return {"key_tile": key_tile, "p_type": problem.dtype if low else None, "denominator": 1,
            "acc_toward_zero": int(low), "splits": splits, **HARDWARE}


def splits_of(problem, key_tile):
    """Parts that a kernel may split the keys of few rows into: nobody says how many. At most 128."""
    return min(128, -(-problem.sk // key_tile)) if problem.sq <= 128 else 0
