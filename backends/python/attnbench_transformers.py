# SPDX-License-Identifier: Apache-2.0
"""attnbench_transformers - what the package `transformers` has for attention, one class for each
function or module: whether it does a problem (refusal), what is made once, a run, and its numerics.

A module of the package makes q, k and v of hidden states by projections of its own. Here either the
weights of these are operands, or stand-ins in their place hand out q, k and v. All that comes after
them is the package's."""
import math
from types import SimpleNamespace

import torch
from torch import nn
from transformers.models.bart import modeling_bart
from transformers.models.deberta_v2 import DebertaV2Config, modeling_deberta_v2
from transformers.models.deprecated.mega import modeling_mega
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.llama import modeling_llama
from transformers.models.longformer import LongformerConfig, modeling_longformer
from transformers.models.nystromformer import NystromformerConfig, modeling_nystromformer
from transformers.models.reformer import ReformerConfig, modeling_reformer
from transformers.models.rwkv import modeling_rwkv

import attnbench_torch as base

ALL = slice(None)


def of_16_bits(p):
    return p.dtype in ("bfloat16", "float16")


def near(x, y):
    return math.isclose(x, y, rel_tol=1e-12)


def refusal(p, *known):
    """Of what the forms have in common."""
    reason = p.beyond(*known)
    if reason is None and of_16_bits(p):
        return "in 16 bits its scores are rounded to that type, too: a bound of that proves too little"
    return reason


class Given(nn.Module):
    """In the place of a projection: an operand, whatever the hidden states are."""

    def __init__(self, operand):
        super().__init__()
        self.operand = operand

    def forward(self, hidden):
        return self.operand


def give(module, operands):
    for name, operand in operands.items():
        setattr(module, name, Given(operand))


def hidden(x):
    """[B,H,S,D] as [B,S,H*D]: a copy unless it lies so in memory."""
    return x.transpose(1, 2).flatten(2)


def heads(x, count):
    """[B,S,H*D] as [B,H,S,D]"""
    return x.unflatten(2, (count, -1)).transpose(1, 2)


def additive(s):
    """Masks and bias as numbers to be added to the scores, in the type of q; None: there are none."""
    mask, q = base.attn_mask(s), s.t.get("q", s.t.get("x_q"))
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros((), dtype=q.dtype).masked_fill(~mask, -math.inf)
    return None if mask is None else mask.to(q.dtype)


class Eager:
    """eager_attention_forward"""

    @staticmethod
    def model(p):
        if p.softcap:
            return modeling_gemma2
        if "sink" in p.features:
            return modeling_gpt_oss
        return modeling_bart if p.hq == p.hkv else modeling_llama

    @staticmethod
    def refusal(p):
        reason = refusal(p, *base.BOTH, "value_width", "weights", "softcap", "sink")
        if reason:
            return reason
        model = Eager.model(p)
        if p.softcap and "sink" in p.features:
            return "no model with a softcap has sinks"
        if "sink" in p.features and p.tensors["sink"].dtype != p.dtype:
            return "GPT-OSS has sinks in the type of q"
        if p.dtype == "float64" and model in (modeling_llama, modeling_gemma2):
            return "the softmax of Llama and Gemma 2 is in float32"
        return None

    def __init__(self, s):
        p = s.problem
        self.attend = self.model(p).eager_attention_forward
        self.module = SimpleNamespace(num_key_value_groups=p.hq // p.hkv, training=False,
                                      sinks=s.t.get("sink"))
        self.options = {"softcap": p.softcap} if p.softcap else {}
        self.fixed = None if s.masks else additive(s)

    def run(self, s):
        t = s.t
        mask = additive(s) if s.masks else self.fixed
        out, weights = self.attend(self.module, t["q"], t["k"], t["v"], mask,
                                   scaling=s.problem.scale, **self.options)
        return {"out": out.transpose(1, 2), "weights": weights}

    @staticmethod
    def numerics(p, u):
        name = Eager.model(p).__name__.rsplit(".", 1)[-1]
        return {"source": f"{name}.py, eager_attention_forward: matmul, softmax, matmul; exp of Sleef, "
                          "1 ulp"}


class Bart:
    """BartAttention"""

    @staticmethod
    def refusal(p):
        reason = refusal(p, "mha", "b_", "x_k", "len", "causal", "head_mask", "weights")
        if reason is None and "x_v" in p.tensors:
            return "it makes keys and values of the same hidden states"
        if reason is None and {"head_mask", "weights"} <= p.features:
            return "its weights of a pruned head are 0"
        return reason

    def __init__(self, s):
        p, t = s.problem, s.t
        config = SimpleNamespace(_attn_implementation="eager")
        self.module = modeling_bart.BartAttention(p.hq * p.dk, p.hq, config=config).eval()
        self.module.scaling = p.scale
        for letter, name in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
            linear = getattr(self.module, name)
            bias = t.get("b_" + letter)
            linear.weight = nn.Parameter(t["w_" + letter], requires_grad=False)
            linear.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.fixed = None if s.masks else additive(s)

    def run(self, s):
        t = s.t
        kept = (t["head_mask"] != 0).to(t["x_q"].dtype) if "head_mask" in t else None
        out, weights = self.module(
            t["x_q"], key_value_states=t.get("x_k"), layer_head_mask=kept,
            attention_mask=additive(s) if s.masks else self.fixed, output_attentions=True)
        return {"out": out, "weights": weights}

    @staticmethod
    def numerics(p, u):
        return {"source": "modeling_bart.py, BartAttention: linear, matmul, softmax, matmul, linear; exp "
                          "of Sleef, 1 ulp"}


class Rwkv:
    """rwkv_linear_attention_cpu"""

    @staticmethod
    def refusal(p):
        if p.dtype == "float64":
            return "its keys are cut to float32"
        return p.beyond("wkv", "state_in", "state_out")

    def __init__(self, s):
        pass

    def run(self, s):
        # The function wants log w. In float32, exp(log w) is not w, and the difference adds up over the
        # steps; in float64 it is. All of the recurrence is then in float64.
        t = s.t
        state = t["state_in"].unbind(-1) if "state_in" in t else None
        out, state = modeling_rwkv.rwkv_linear_attention_cpu(
            t["decay"].double().log(), t["bonus"], t["k"][:, 0], t["v"][:, 0], state, "state_out" in t)
        return {"out": out[:, None], "state_out": torch.stack(state, -1) if state else None}

    @staticmethod
    def numerics(p, u):
        return {"p_normalised": 0, "source": "modeling_rwkv.py, rwkv_linear_attention_cpu, with the "
                "logarithm of the decay in float64: better than these figures, of float32"}


class Deberta:
    """DisentangledSelfAttention of DeBERTa-v2, with stand-ins for its projections"""

    @staticmethod
    def parts(p):
        return {1: ["c2p"], 2: ["p2c"]}.get(p.parts, ["c2p", "p2c"])

    @staticmethod
    def refusal(p):
        reason = refusal(p, "disentangled", "rel_buckets", "causal", "window", "bottom_right", "off", "mask",
                         "len", "len2d", "value_width", "weights")
        if reason:
            return reason
        square = p.dk * (1 + len(Deberta.parts(p)))
        if not near(p.scale, square**-0.5):
            return "its scale is 1/sqrt(dk (1 + parts))"
        if p.dtype == "float64" and math.isqrt(square)**2 != square:
            return "the root of its scale is in float32"
        if "p2c" in Deberta.parts(p) and p.variant:
            return "its index of p2c is that of variant=code"
        if "p2c" in Deberta.parts(p) and (p.sq != p.sk or p.off):
            return "its p2c wants queries and keys at the same places"
        if p.bottom_right and "len" in p.tensors:
            return "it has one table of distances for all batches"
        return None

    def __init__(self, s):
        p = s.problem
        self.span = p.tensors["score_kr"].shape[1] // 2
        self.module = modeling_deberta_v2.DisentangledSelfAttention(DebertaV2Config(
            hidden_size=p.hq * p.dk, num_attention_heads=p.hq, relative_attention=True,
            pos_att_type=self.parts(p), position_buckets=-1, share_att_key=False,
            max_relative_positions=self.span, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0)).eval()
        far = s.rows - s.keys
        self.index = far + p.sk - 1
        self.far = None if "rel_buckets" in s.t else (far + base.offset(s, ALL))[None]
        self.none = torch.empty((2 * self.span, 0))
        self.all = torch.ones((1, 1, 1, 1), dtype=torch.bool)

    def distances(self, s):
        """Distances of which the module makes the rows of the table. A clipped table does not say
        whether its last row stands for span or for span - 1: the mirror image does."""
        table, span = s.t["rel_buckets"].long(), self.span
        last = 2 * span - 1
        far = table - span
        if s.problem.sq == s.problem.sk:
            far = torch.where((table == last) & (table.flip(0) == 0), span, far)
            if "p2c" in self.module.pos_att_type and \
                    not torch.equal((span - far.flip(0)).clamp(0, last), table):
                raise ValueError("the distances of rel_buckets are not those of their mirror image")
        return far[self.index][None]

    def run(self, s):
        p, t = s.problem, s.t
        give(self.module, {"query_proj": hidden(t["q"]), "key_proj": hidden(t["k"]),
                           "value_proj": hidden(t["v"]), "pos_key_proj": hidden(t["score_kr"][None]),
                           "pos_query_proj": hidden(t["score_qr"][None])})
        cells = base.cells(s)
        out, weights = self.module(
            self.none, self.all if cells is None else cells, output_attentions=True,
            relative_pos=self.distances(s) if self.far is None else self.far, rel_embeddings=self.none)
        out = heads(out, p.hq)
        if cells is not None:  # in a row without keys it weighs all of them alike
            some = cells.any(-1, keepdim=True)
            out, weights = out.where(some, 0), weights.where(some, 0)
        return {"out": out, "weights": weights}

    @staticmethod
    def numerics(p, u):
        return {"u_in": 2 * u, "source": "modeling_deberta_v2.py, DisentangledSelfAttention: k over a "
                "number, each part too; exp of Sleef, 1 ulp"}


class Longformer:
    """LongformerSelfAttention, with stand-ins for its projections"""

    @staticmethod
    def refusal(p):
        reason = refusal(p, "window", "global", "q_global", "k_global", "v_global")
        if reason:
            return reason
        if p.dtype == "float64":
            return "its softmax is in float32"
        if not p.window or p.window_left != p.window_right or p.window_left < 1:
            return "its windows reach as far to the right as to the left"
        if not near(p.scale, p.dk**-0.5):
            return "its scale is 1/sqrt(dk)"
        return None

    def __init__(self, s):
        p = s.problem
        twice = 2 * p.window_left
        self.pad = -p.sq % twice
        self.module = modeling_longformer.LongformerSelfAttention(LongformerConfig(
            attention_window=[twice], hidden_size=p.hq * p.dk, num_attention_heads=p.hq,
            num_hidden_layers=1, attention_probs_dropout_prob=0.0), 0).eval()
        # The rows of global tokens, which the module takes out of the hidden states.
        self.module.query_global = nn.Identity()
        self.beyond = (torch.arange(p.sq + self.pad) >= p.sq).expand(p.b, -1)

    def padded(self, x):
        """[S,B,H*D], S a multiple of the window, as LongformerModel pads hidden states."""
        return nn.functional.pad(hidden(x), (0, 0, 0, self.pad)).transpose(0, 1)

    def run(self, s):
        p, t = s.problem, s.t
        q, k, v = (self.padded(t[role]) for role in "qkv")
        own = [self.padded(t[role + "_global"]) if "q_global" in t else x
               for role, x in (("q", q), ("k", k), ("v", v))]
        # The module scales its queries in place.
        give(self.module, {"query": q.clone(), "key": k, "value": v, "key_global": own[1],
                           "value_global": own[2]})
        token = nn.functional.pad(t["global"] != 0, (0, self.pad))
        mask = torch.zeros(token.shape, dtype=q.dtype)
        mask.masked_fill_(token, 10000.0).masked_fill_(self.beyond, -10000.0)
        out = self.module(own[0].transpose(0, 1), attention_mask=mask, is_index_masked=self.beyond,
                          is_index_global_attn=token, is_global_attn=bool(token.any()))[0]
        return {"out": heads(out, p.hq)[:, :, :p.sq]}

    @staticmethod
    def numerics(p, u):
        return {"u_in": 2 * u, "source": "modeling_longformer.py, LongformerSelfAttention: q over the root "
                "of its width; exp of Sleef, 1 ulp"}


class Nystromformer:
    """NystromformerSelfAttention, with stand-ins for its projections"""

    @staticmethod
    def refusal(p):
        reason = p.beyond("nystrom")
        if reason:
            return reason
        if of_16_bits(p):
            return "its unit matrix is in float32, and meets matrices of 16 bits"
        if p.iterations != 6:
            return "it makes 6 iterations"
        if p.landmarks >= p.sq:
            return "with a landmark for each token it is attention"
        if p.sq % p.landmarks:
            return "its segments are all of one length"
        if not near(p.scale, p.dk**-0.5):
            return "its scale is 1/sqrt(dk)"
        return None

    def __init__(self, s):
        p = s.problem
        self.module = modeling_nystromformer.NystromformerSelfAttention(NystromformerConfig(
            hidden_size=p.hq * p.dk, num_attention_heads=p.hq, num_landmarks=p.landmarks,
            segment_means_seq_len=p.sq, attention_probs_dropout_prob=0.0)).eval()
        self.module.conv_kernel_size = None
        # Its configuration can not name the other start: that line of it fails.
        self.module.init_option = "original" if p.variant else "exact"

    def run(self, s):
        t = s.t
        q = hidden(t["q"])
        give(self.module, {"query": q, "key": hidden(t["k"]), "value": hidden(t["v"])})
        return {"out": heads(self.module(q)[0], s.problem.hq)}

    @staticmethod
    def numerics(p, u):
        return {"u_in": 2 * u, "source": "modeling_nystromformer.py, NystromformerSelfAttention: q and k "
                "each over the root of the scale; exp of Sleef, 1 ulp"}


class Exact(modeling_reformer.LSHSelfAttention):
    """Keys of length 1: the class adds 1e-6 to the mean of their squares. Zeros stay zeros."""

    def _len_norm(self, x, epsilon=1e-30):
        return super()._len_norm(x, 1e-30)


class Reformer:
    """LSHSelfAttention, with stand-ins for its projections"""

    @staticmethod
    def refusal(p):
        if "buckets_in" not in p.tensors:
            return "it draws its rotations by itself"
        reason = refusal(p, "lsh", "causal", "buckets_in")
        if reason:
            return reason
        if p.causal or p.chunk == 1:
            return "a token that sees itself alone has a score of -1e5, whose logsumexp is off by 0.4 %"
        if p.variant:
            return "its own token is self=last"
        if p.scale != 1:
            return "its scale is 1, of keys of length 1"
        return None

    def __init__(self, s):
        p = s.problem
        self.module = Exact(ReformerConfig(
            num_attention_heads=p.hq, attention_head_size=p.dk, hidden_size=p.hq * p.dk,
            lsh_attn_chunk_length=p.chunk or p.sq, lsh_num_chunks_before=1, lsh_num_chunks_after=0,
            num_buckets=p.buckets, num_hashes=p.rounds, is_decoder=False,
            lsh_attention_probs_dropout_prob=0.0)).eval()
        self.first = p.buckets * torch.arange(p.rounds)[:, None]

    def run(self, s):
        t = s.t
        q = hidden(t["q"])
        give(self.module, {"query_key": q, "value": hidden(t["v"])})
        out = self.module(q, buckets=t["buckets_in"] + self.first, num_hashes=s.problem.rounds)
        return {"out": heads(out.hidden_states, s.problem.hq)}

    @staticmethod
    def numerics(p, u):
        return {"key_tile": 2 * (p.chunk or p.sq), "e_exp": 40 * u,
                "source": "modeling_reformer.py, LSHSelfAttention: a softmax by logsumexp for each round, "
                          "merged by logsumexp; exp and log of Sleef, 1 ulp"}


class Mega:
    """element_attention of MegaMovingAverageGatedAttention, then products with v and the gate"""

    @staticmethod
    def refusal(p):
        reason = refusal(p, "weight_fn", "bias", "weights", "value_width", "gate")
        if reason:
            return reason
        if p.weight_fn not in ("relu2", "laplace"):
            return "it has no sigmoid"
        if p.weight_fn == "laplace" and p.dtype == "float64":
            return "its Laplace function has a mean and a deviation of six digits"
        if p.sq != p.sk:
            return "it wants as many queries as keys"
        if not near(p.scale, 1 / p.sk):
            return "its scale is 1/sk"
        return None

    def __init__(self, s):
        self.weigh = modeling_mega.MegaMovingAverageGatedAttention.element_attention
        bias = s.t.get("bias")
        self.module = SimpleNamespace(
            rel_pos_bias=lambda steps: 0 if bias is None else bias.to(s.t["q"].dtype),
            config=SimpleNamespace(attention_activation=s.problem.weight_fn))

    def run(self, s):
        t = s.t
        weights = self.weigh(self.module, t["q"], t["k"], None, None)
        out = weights @ t["v"]
        return {"out": out * t["gate"] if "gate" in t else out, "weights": weights}

    @staticmethod
    def numerics(p, u):
        # The slope of Laplace's function is at most sqrt(2), and its mean 2.2e-7 off; its deviation is
        # 2.1e-7 off, which moves a weight by at most a quarter of 2.1e-7 / 0.282.
        return {"p_normalised": 0, "e_f": u, "a_f": 6e-7 + 4 * u if p.weight_fn == "laplace" else 0,
                "source": "modeling_mega.py, element_attention: relu and square, or erf with a mean and a "
                          "deviation of six digits"}
