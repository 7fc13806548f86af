# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU: the operators Attention and, for mha and long sequences, MultiHeadAttention"""
REQUIRES = ("onnxruntime", "onnx", "numpy")
OPS = ("attention", "mha", "linformer", "linear_decay")

import math  # noqa: E402

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import attnbench_plain as plain  # noqa: E402

# ONNX's names of types. The narrow ones are cast to float32 and back, in the graph and timed: bf16 its
# Attention has not, and in f16 it widens and narrows around each product and the softmax.
NARROW = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
TYPES = {"float32": TensorProto.FLOAT, "bool": TensorProto.UINT8, "int32": TensorProto.INT32,
         **NARROW}
OPSET = 24  # the first with lengths (nonpad_kv_seqlen)
# Largest errors on four million floats, doubled: Sigmoid 1.66e-7; of (1 + Erf) / 2 half of 6e-8, and
# of a sum of at most 2.
A_F = {"sigmoid": 2.0**-21, "laplace": 2.0**-22, "relu2": 0}


def token_major(t):
    """Heads [B,H,S,D] that lie as [B,S,H*D]."""
    return t.permuted(0, 2, 1, 3).dense


def supports(problem):
    t = problem.tensors
    if problem.dtype == "float64":
        return "no float64 in its Attention on the CPU"
    if problem.op == "mha":
        reason = problem.beyond("mha", "b_", "x_k", "x_v", "causal")
        dense = [x for r, x in t.items()]
        if not reason and not all(x.dense for x in dense):
            reason = "it takes dense tensors only"
        return reason
    if problem.op == "linformer":
        reason = problem.beyond("linformer", "groups", "value_width")
        if not reason and not all(x.squeezed().dense for x in t.values()):
            reason = "it takes dense tensors only"
        return reason
    if problem.op == "linear_decay":
        reason = problem.beyond("linear_decay", "value_width", "state_in")
        if not reason and problem.variant == 0:
            reason = "its LinearAttention decays the state before a query reads it"
        if not reason and not all(x.dense for x in t.values()):
            reason = "it takes dense tensors only"
        return reason
    weighed = problem.weight_fn != "softmax"
    own = ("weight_fn",) if weighed else ("softcap", "groups")
    reason = problem.beyond("causal", "window", "bottom_right", "off", "mask", "bias", "len",
                            "value_width", "gate", *own)
    if reason:
        return reason
    if problem.bottom_right and "len" in t and (problem.window or weighed and problem.causal):
        return "it does not do windows, nor other weights, from the corner of lengths"
    if problem.scale <= 0:
        return "its scale is above 0, or the default"
    heads = [t[r] for r in ("q", "k", "v", "out", "gate") if r in t]
    if not (all(x.dense for x in heads) or not weighed and all(token_major(x) for x in heads)) or \
            not all(t[r].squeezed().dense for r in ("mask", "bias") if r in t):
        return "it takes dense tensors only"
    return None


def structure(problem):
    """The mask that shapes alone give, or None where is_causal says it: with lengths that counts
    from their corner (onnx/onnx#8068), without from the first query and key."""
    lengths = "len" in problem.tensors
    if not problem.window and (not problem.causal or
                               problem.bottom_right == lengths and not problem.off):
        return None
    return plain.allowed_cells(problem, {})


class Graph:
    """A model with the operands as inputs, in the order they are asked for."""

    def __init__(self):
        self.nodes, self.constants, self.inputs = [], [], {}

    def add(self, op, inputs, domain="", unused=(), **attributes):
        """Returns the name of the node's first output; `unused`: names of others that it must have."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name, *unused], domain=domain, **attributes))
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def input(self, tensor, shape=None):
        self.inputs[tensor.role] = (tensor, tuple(shape or tensor.shape))
        if tensor.dtype in NARROW:
            return self.add("Cast", [tensor.role], to=TensorProto.FLOAT)
        return tensor.role

    def session(self, out, dtype, threads):
        to = {"to": NARROW[dtype]} if dtype in NARROW else {}
        self.nodes.append(helper.make_node("Cast" if to else "Identity", [out], ["out"], **to))
        infos = [helper.make_tensor_value_info(r, TYPES[t.dtype], shape)
                 for r, (t, shape) in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "attention", infos,
                                  [helper.make_tensor_value_info("out", TYPES[dtype], None)],
                                  self.constants)
        model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])


def in_tiles(problem):
    """com.microsoft's MultiHeadAttention goes by tiles where nothing is masked. It wants [B,S,H*D]: with
    the copies that heads apart need it is faster than Attention where that one's whole matrix of scores
    leaves the caches: 1.04 times at 1024 x 1024, 1.15 at 2048, 1.4 at 4096; slower below."""
    return problem.op == "attention" and not problem.features and min(problem.sq, problem.sk) >= 1024


def attention(g, problem, tensors):
    """Adds the nodes; returns the name and the shape of their output."""
    by_tokens = not all(tensors[r].dense for r in ("q", "k", "v", "out"))
    if problem.weight_fn != "softmax":
        out, shape = composed(g, problem, tensors)
    else:
        out, shape = (tiles if in_tiles(problem) else matrix)(g, problem, tensors, by_tokens)
    if "gate" in tensors:
        out = g.add("Mul", [out, g.input(tensors["gate"], shape)])
    return out, shape


def composed(g, problem, tensors):
    """Weights that no denominator divides: f(scale q k^T + bias), and 0 where a key takes no part."""
    def number(x):
        return g.constant(np.float32(x))

    q, k, v = (g.input(tensors[r]) for r in "qkv")
    s = g.add("MatMul", [g.add("Mul", [q, number(problem.scale)]),
                         g.add("Transpose", [k], perm=(0, 1, 3, 2))])
    if "bias" in tensors:
        s = g.add("Add", [s, g.input(tensors["bias"].squeezed())])
    if problem.weight_fn == "sigmoid":
        s = g.add("Sigmoid", [s])
    elif problem.weight_fn == "relu2":
        s = g.add("Relu", [s])
        s = g.add("Mul", [s, s])
    else:
        s = g.add("Sub", [s, number(math.sqrt(0.5))])
        s = g.add("Erf", [g.add("Mul", [s, number(math.sqrt(2 * math.pi))])])
        s = g.add("Mul", [g.add("Add", [s, number(1)]), number(0.5)])
    for cells in allowed(g, problem, tensors):
        s = g.add("Where", [cells, s, number(0)])
    return g.add("MatMul", [s, v]), tensors["out"].shape


def allowed(g, problem, tensors):
    """Names of masks, broadcastable over [B,H,Sq,Sk]."""
    if problem.causal or problem.window:
        yield g.constant(plain.allowed_cells(problem, {}))
    if "len" in tensors:
        yield g.add("Less", [g.constant(np.arange(problem.sk, dtype=np.int32)),
                             g.input(tensors["len"], (problem.b, 1, 1, 1))])
    if "mask" in tensors:
        yield g.add("Cast", [g.input(tensors["mask"].squeezed())], to=TensorProto.BOOL)


def linformer(g, problem, tensors):
    q, k, v, e = (g.input(tensors[r].squeezed()) for r in ("q", "k", "v", "proj_e"))
    f = g.input(tensors["proj_f"].squeezed()) if "proj_f" in tensors else e
    names = [q, g.add("MatMul", [e, k]), g.add("MatMul", [f, v])]
    return g.add("Attention", names, scale=problem.scale), tensors["out"].shape


def reshaped(g, x, *shape):
    return g.add("Reshape", [x, g.constant(np.array(shape, dtype=np.int64))])


def packed(g, t, as_it_lies=False):
    """[B,H,S,D] as [B,S,H*D]."""
    b, h, s, d = t.shape
    if as_it_lies:
        return g.input(t, (b, s, h * d))
    return reshaped(g, g.add("Transpose", [g.input(t)], perm=(0, 2, 1, 3)), b, s, h * d)


def unpacked(g, x, shape):
    """[B,S,H*D] as [B,H,S,D] of that shape."""
    b, h, s, d = shape
    return g.add("Transpose", [reshaped(g, x, b, s, h, d)], perm=(0, 2, 1, 3)), shape


def tiles(g, problem, tensors, by_tokens):
    o = g.add("MultiHeadAttention", [packed(g, tensors[r], by_tokens) for r in "qkv"],
              domain="com.microsoft", num_heads=problem.hq, scale=problem.scale)
    b, h, s, d = tensors["out"].shape
    return (o, (b, s, h * d)) if by_tokens else unpacked(g, o, (b, h, s, d))


def linear_decay(g, problem, tensors):
    q, k, v, decay = (packed(g, tensors[r]) for r in ("q", "k", "v", "decay"))
    state = g.input(tensors["state_in"]) if "state_in" in tensors else ""
    o = g.add("LinearAttention", [q, k, v, state, decay], domain="com.microsoft", unused=("state",),
              update_rule="gated", q_num_heads=problem.hq, kv_num_heads=problem.hkv, scale=problem.scale)
    return unpacked(g, o, tensors["out"].shape)


def matrix(g, problem, tensors, by_tokens):
    attributes = {"scale": problem.scale, "softcap": problem.softcap}
    names = []
    for role, heads, width in (("q", problem.hq, problem.dk), ("k", problem.hkv, problem.dk),
                               ("v", problem.hkv, problem.dv)):
        t = tensors[role]
        names.append(g.input(t, (problem.b, t.shape[2], heads * width) if by_tokens else None))
    if by_tokens:
        attributes.update(q_num_heads=problem.hq, kv_num_heads=problem.hkv)
    given = structure(problem)
    mask = bias = ""

    def cells(role):
        """The operator broadcasts batches and heads, but not queries and keys."""
        t = tensors[role].squeezed()
        name = g.input(t)
        if t.dtype == "bool":  # any byte but 0 is true here, 1 alone in ONNX
            name = g.add("Cast", [name], to=TensorProto.BOOL)
        if t.shape[2:] == (problem.sq, problem.sk):
            return name
        shape = t.shape[:2] + (problem.sq, problem.sk)
        return g.add("Expand", [name, g.constant(np.array(shape, dtype=np.int64))])

    if "mask" in tensors:
        mask = cells("mask")
    if given is not None:
        shape = g.constant(given)
        mask = g.add("And", [mask, shape]) if mask else shape
    else:
        attributes["is_causal"] = int(problem.causal)
    if "bias" in tensors:
        bias = cells("bias")
        if mask:
            bias = g.add("Where", [mask, bias, g.constant(np.float32(-np.inf))])
    names.append(bias or mask)
    if "len" in tensors:
        names += ["", "", g.add("Cast", [g.input(tensors["len"])], to=TensorProto.INT64)]
    b, h, s, d = tensors["out"].shape
    return g.add("Attention", names, **attributes), (b, s, h * d) if by_tokens else (b, h, s, d)


def mha(g, problem, tensors):
    def constant(role):  # a weight transposed, a bias as it is
        return g.constant(plain.widen(plain.view(tensors[role]), problem.dtype).T)

    def linear(x, name):
        y = g.add("MatMul", [x, constant("w_" + name)])
        return g.add("Add", [y, constant("b_" + name)]) if "b_" + name in tensors else y

    x_q = g.input(tensors["x_q"])
    x_k = g.input(tensors["x_k"]) if "x_k" in tensors else x_q
    x_v = g.input(tensors["x_v"]) if "x_v" in tensors else x_k
    o = g.add("MultiHeadAttention", [linear(x_q, "q"), linear(x_k, "k"), linear(x_v, "v")],
              domain="com.microsoft", num_heads=problem.hq, scale=problem.scale,
              unidirectional=int(problem.causal))
    return linear(o, "o"), tensors["out"].shape


def prepare(problem, tensors):
    g = Graph()
    make = {"mha": mha, "linformer": linformer, "linear_decay": linear_decay}.get(problem.op, attention)
    name, shape = make(g, problem, tensors)
    session = g.session(name, problem.dtype, problem.threads)
    binding = session.io_binding()
    for role, (tensor, extents) in g.inputs.items():
        binding.bind_input(role, "cpu", 0, TYPES[tensor.dtype], extents, tensor.pointer)
    binding.bind_output("out", "cpu", 0, TYPES[problem.dtype], shape, tensors["out"].pointer)
    masked = problem.features & {"causal", "window", "mask", "bias", "len"}
    views = {r: plain.view(t) for r, t in tensors.items()} if masked else None
    return session, binding, problem, views


def run(state):
    session, binding, problem, views = state
    session.run_with_iobinding(binding)
    if views:
        plain.repair(problem, views)


def describe(problem):
    mha = "com.microsoft MultiHeadAttention"
    path = f"MatMul and {mha}" if problem.op == "mha" else \
        f"{mha}, in tiles" if in_tiles(problem) else \
        "com.microsoft LinearAttention" if problem.op == "linear_decay" else \
        "MatMul, element by element, MatMul" if problem.weight_fn != "softmax" else \
        f"Attention, opset {OPSET}"
    return f"{path}, between casts" if problem.dtype in NARROW else path


def numerics(problem):
    u = 2.0**-24
    if problem.weight_fn != "softmax":
        return {
            "a_f": A_F[problem.weight_fn],
            "source": "onnxruntime/core/mlas/lib: gemm in f32; logistic.cpp and erf.cpp, polynomials; "
                      "their largest error on a grid of floats, doubled",
        }
    if problem.op == "linear_decay":
        return {"e_exp": 8 * u,
                "source": "assumed of com.microsoft's LinearAttention: a recurrence in f32, exp of MLAS"}
    if in_tiles(problem):
        return {
            # Keys of a tile: l2 / (16 (dk + dv)) bytes; this of 256 KiB and heads of 128.
            "e_exp": 8 * u, "denominator": 1, "key_tile": 64,
            "source": "onnxruntime/contrib_ops/cpu/bert/multihead_attention.cc: MLAS's flash attention, "
                      "online softmax, all in f32; exp of MLAS (compute.cpp), a degree 6 polynomial",
        }
    return {
        "e_exp": 8 * u, "e_tanh": 16 * u, "p_normalised": 1,
        "proj_type": "float32" if problem.op == "linformer" else None,
        "source": "onnxruntime/core/providers/cpu/llm/attention.cc: MLAS gemm, softmax over whole "
                  "rows, gemm, all in f32; exp of MLAS (compute.cpp), a degree 6 polynomial",
    }
