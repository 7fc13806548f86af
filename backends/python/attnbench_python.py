# SPDX-License-Identifier: Apache-2.0
"""attnbench_python - between the plugin and its adapters: what an adapter sees (Problem, Tensor),
and the functions that the plugin calls, which catch what an adapter raises."""
import ast
import difflib
import importlib.util
import os
import sys

OK, UNSUPPORTED, NO_DEVICE, OUT_OF_MEMORY, INVALID, FAILED = range(6)

# Numbers of backend.h. Type: name, DLPack code and bits, unit roundoff.
TYPES = {1: ("float64", 2, 64), 2: ("float32", 2, 32), 3: ("float16", 2, 16),
         4: ("bfloat16", 4, 16), 16: ("bool", 6, 8), 17: ("int32", 0, 32), 18: ("int64", 0, 64)}
NUMBERS = {name: number for number, (name, _, _) in TYPES.items()}
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
OPS = {1: "attention", 2: "mha", 3: "attention_backward", 4: "chunked", 5: "wkv", 6: "linear_decay",
       7: "linformer", 8: "performer", 9: "nystrom", 10: "lsh"}
PLAIN_OPS = ("attention", "mha")  # those of an adapter that does not say
SCORES = {1: "scaled_dot", 2: "dot", 3: "bilinear", 4: "gaussian", 5: "additive",
          6: "disentangled"}
FLAGS = ("causal", "window", "bottom_right", "softcap", "dropout", "residual", "deterministic")
WEIGHT = 1 << 9  # the flag of weight functions other than softmax
WEIGHT_FNS = {0: "softmax", 1: "sigmoid", 2: "relu2", 3: "laplace"}
ROLES = {1: "q", 2: "k", 3: "v", 4: "out", 5: "lse", 6: "weights",
         16: "mask", 17: "bias", 18: "len", 19: "alibi", 20: "sink", 21: "keep", 22: "head_mask",
         29: "rel_buckets", 24: "gate",
         23: "global", 25: "dilation", 26: "q_global", 27: "k_global", 28: "v_global",
         32: "score_m", 33: "score_wq", 34: "score_wk", 35: "score_wv", 36: "score_kr",
         37: "score_qr",
         48: "x_q", 49: "x_k", 50: "x_v", 51: "w_q", 52: "w_k", 53: "w_v", 54: "w_o",
         55: "b_q", 56: "b_k", 57: "b_v", 58: "b_o",
         80: "dout", 81: "dq", 82: "dk", 83: "dv", 84: "dbias", 85: "dsink", 86: "dalibi",
         87: "dlse",
         102: "features", 100: "proj_e", 101: "proj_f",
         103: "rotations", 104: "buckets_in",
         105: "decay", 106: "bonus", 107: "state_in", 108: "state_out",
         109: "lin_q", 110: "lin_k", 111: "buckets_out"}
OUTPUTS = ("out", "lse", "weights", "state_out", "buckets_out", "dq", "dk", "dv", "dbias", "dsink",
           "dalibi")
# Tensors that every problem of an op or of a score has: no feature of their own.
PLAIN = {"q", "k", "v", "out", "x_q", "w_q", "w_k", "w_v", "w_o", "score_m", "score_wq",
         "score_wk", "score_wv", "score_kr", "score_qr", "decay", "bonus", "features", "lin_q", "lin_k", "proj_e", "proj_f", "rotations",
         "dout", "dq", "dk", "dv"}

CPU, CUDA = 1, 2  # kinds of devices of DLPack

export_tensor = copy_from = None  # functions of the plugin


def accept(name, function):
    globals()[name] = function


def environment(name, value):
    os.environ[name] = value


class Tensor:
    """One operand in the harness's memory, or on the device of an adapter: shape and strides in
    elements, a stride of 0 broadcasts; `device` is None or the index of a GPU. Any library reads it
    without a copy: t.numpy(), torch.from_dlpack(t)."""

    __slots__ = ("role", "dtype", "shape", "strides", "pointer", "device", "readonly")

    def __init__(self, role, dtype, shape, strides, pointer, device=None):
        self.role, self.dtype, self.shape, self.strides = role, dtype, shape, strides
        self.pointer, self.device, self.readonly = pointer, device, role not in OUTPUTS

    @property
    def dense(self):
        """Does it lie in memory as its shape says, without gaps, the last axis fastest."""
        step = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides)):
            if n != 1 and stride != step:
                return False
            step *= n
        return True

    def permuted(self, *axes):
        """The same elements with the axes in another order."""
        return Tensor(self.role, self.dtype, tuple(self.shape[a] for a in axes),
                      tuple(self.strides[a] for a in axes), self.pointer, self.device)

    def squeezed(self):
        """The same elements with every axis that broadcasts cut to one."""
        shape = tuple(1 if s == 0 and n > 1 else n for n, s in zip(self.shape, self.strides))
        return Tensor(self.role, self.dtype, shape, self.strides, self.pointer, self.device)

    def viewed(self, dtype):
        """The same bytes as another type of that width: bfloat16 as int16, say."""
        return Tensor(self.role, dtype, self.shape, self.strides, self.pointer, self.device)

    def _dl(self):
        _, code, bits = DL_TYPES[self.dtype]
        return self.pointer, code, bits, self.shape, self.strides

    def __dlpack_device__(self):
        return (CPU, 0) if self.device is None else (CUDA, self.device)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        # Copies to a device are complete when `bind` returns: no stream has to wait for them.
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("operands are views of the memory that they are in")
        versioned = max_version is not None and max_version[0] >= 1
        return export_tensor(*self._dl(), *self.__dlpack_device__(), int(self.readonly),
                             int(versioned))

    @property
    def __array_interface__(self):
        _, code, bits = DL_TYPES[self.dtype]
        if self.device is not None or self.dtype == "bfloat16":
            raise TypeError(f"NumPy has no {self.role} on a device or of bfloat16")
        return {"version": 3, "typestr": f"<{KINDS[code]}{bits // 8}", "data": (self.pointer, self.readonly),
                "shape": self.shape, "strides": tuple(s * bits // 8 for s in self.strides)}

    def numpy(self):
        """As an array of NumPy, without a copy. By DLPack; before 2.1 NumPy makes outputs read-only that way."""
        import numpy
        array = numpy.from_dlpack(self)
        return array if array.flags.writeable or self.readonly else numpy.asarray(self)

    def assign(self, array, device=CPU):
        """Copies an array of the same shape and type, of any library with __dlpack__, into it; with
        `device` CUDA one that lies there."""
        if array.__dlpack_device__()[0] != device:
            raise BufferError("is not on the device" if device != CPU else
                              "is not an array in host memory")
        # 1: the legacy default stream, to which everything has come to an end
        capsule = array.__dlpack__() if device == CPU else array.__dlpack__(stream=1)
        copy_from(capsule, *self._dl(), device, NUMBERS[self.dtype])


DL_TYPES = {name: (name, code, bits) for name, code, bits in TYPES.values()}
KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}  # NumPy's letters for DLPack's codes
DL_TYPES["int16"] = ("int16", 0, 16)
DL_TYPES["uint8"] = ("uint8", 1, 8)


def _tensors(raw, on_device=False):
    made = {}
    for role, dtype, space, device, shape, strides, pointer in raw:
        if role not in ROLES or dtype not in TYPES or not on_device and (space != 0 or device != 0):
            raise NotImplementedError(f"unknown role {role}, type {dtype} or memory space {space}")
        made[ROLES[role]] = Tensor(ROLES[role], TYPES[dtype][0], shape, strides, pointer,
                                   device if on_device else None)
    return made


class Problem:
    """One problem, as backend.h has it: op, score, dtype by name; sizes; `tensors` without data;
    `features`: the names of all that goes beyond plain dense attention. `device` is the index of the
    GPU or None, `options` what the user chose of the adapter's."""

    def __init__(self, raw, services, module):
        (op, score, dtype, flags, self.b, self.hq, self.hkv, self.sq, self.sk, self.dq, self.dk,
         self.dv, self.scale, self.softcap, self.off, self.window_left, self.window_right,
         self.dropout_p, self.dropout_seed, self.variant, self.parts,
         self.eps, weight_fn, self.chunk, self.lin_scale, self.landmarks,
         self.iterations, self.rounds, self.buckets,
         tensors) = raw
        if op not in OPS or score not in SCORES or dtype not in TYPES or \
                (flags & ~WEIGHT) >> len(FLAGS) or \
                weight_fn not in WEIGHT_FNS or bool(weight_fn) != bool(flags & WEIGHT):
            raise NotImplementedError(f"unknown op {op}, score {score}, type {dtype}, "
                                      f"weight function {weight_fn} or flag in {flags:#x}")
        self.weight_fn = WEIGHT_FNS[weight_fn]
        self.op, self.score, self.dtype = OPS[op], SCORES[score], TYPES[dtype][0]
        if self.op == "attention_backward" and self.score not in ("scaled_dot", "dot"):
            raise NotImplementedError("gradients are those of dot products only")
        self.threads, device, given = services
        self.device = device if device >= 0 else None
        self.options = {**_choices(module), **dict(given)}
        self.tensors = _tensors(tensors)
        self.features = self._features(flags)
        self.causal, self.window, self.bottom_right, _, self.dropout, self.residual, \
            self.deterministic = (bool(flags >> f & 1) for f in range(len(FLAGS)))

    def _features(self, flags):
        found = {flag for f, flag in enumerate(FLAGS) if flags >> f & 1}
        found |= {"b_" if t.startswith("b_") else t for t in self.tensors if t not in PLAIN}
        if "len" in self.tensors and len(self.tensors["len"].shape) == 2:
            found = found - {"len"} | {"len2d"}
        if self.op not in PLAIN_OPS:
            found.add(self.op)
        if self.op == "mha":
            found |= {"mha"} if "w_o" in self.tensors else {"mha", "missing w_o"}
        if self.op == "attention_backward":
            found |= {"missing " + role for role in ("dq", "dk", "dv") if role not in self.tensors}
        if self.score not in ("scaled_dot", "dot"):
            found.add(self.score)
        for name, there in (("weight_fn", flags & WEIGHT), ("off", self.off), ("groups", self.hq != self.hkv),
                            ("value_width", self.dk != self.dv), ("empty_keys", self.sk == 0)):
            if there:
                found.add(name)
        return found

    def beyond(self, *known):
        """Why this problem is refused by who does only the features named; None: it is not."""
        more = sorted(self.features - set(known))
        return f"it does not do {', '.join(more)}" if more else None


def _choices(module):
    """The options of an adapter with their defaults: the first choice of OPTION_NAME = "a|b"."""
    return {name[7:].lower(): value.split("|")[0] for name, value in vars(module).items()
            if name.startswith("OPTION_")}


# --- what the plugin calls; every answer is a tuple, most of a result and a sentence ---

_modules = {}


def _name(path):
    return os.path.splitext(os.path.basename(path))[0]


def _place(path, error):
    """Where the user's own text was when something was raised, as " (line 36 of mine.py)"."""
    import traceback
    own, place = os.path.dirname(os.path.abspath(__file__)), ""
    for frame in traceback.extract_tb(error.__traceback__):
        file = frame.filename
        if file == path or not (os.path.dirname(file) == own or file.startswith("<") or
                                file.startswith((sys.prefix, os.path.dirname(os.__file__)))):
            place = f" (line {frame.lineno} of {os.path.basename(file)})"
    return place


def _advice(error):
    """What to do about something that was raised, where that is plain."""
    name = getattr(error, "name", None)
    if isinstance(error, ModuleNotFoundError) and name:
        return f" in {sys.prefix}{_hint(name.partition('.')[0])}"
    if isinstance(error, NameError) and name in getattr(sys, "stdlib_module_names", ()):
        return f"; the adapter has no 'import {name}'"
    return ""


def _caught(path, error):
    """The answer to something that was raised: one sentence. The traceback goes to the log."""
    import traceback
    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    text = (str(error).strip().splitlines() or [""])[0].replace("\0", " ")
    code = OUT_OF_MEMORY if isinstance(error, MemoryError) else FAILED
    return code, (f"{_name(path)}: {type(error).__name__}" + (f": {text}" if text else "") +
                  _advice(error) + _place(path, error))


def _module(path):
    """The adapter, run once."""
    if path not in _modules:
        spec = importlib.util.spec_from_file_location("attnbench_adapter_" + _name(path), path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for function in ("supports", "prepare", "run"):
            if not callable(getattr(module, function, None)):
                raise AttributeError(f"the adapter has no function {function}")
        _modules[path] = module
    return _modules[path]


def _requires(path):
    """The packages that the adapter's REQUIRES names, without running it; None where it has none."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read(), path)
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "REQUIRES":
            named = ast.literal_eval(node.value)
            return (named,) if isinstance(named, str) else named  # ("numpy") is one name
    return None


def _hint(package):
    """How to get a package: of those that scripts/build.sh brings into its own environment, by that."""
    brings = {"numpy": "", "onnxruntime": "", "torch": " --with-peers",
              "transformers": " --with-peers"}
    made = os.path.realpath(sys.prefix).endswith("/.deps/peers")
    if made and package in brings:
        return f"; scripts/build.sh{brings[package]} brings it"
    return "; install it there, or name another Python by ATTNBENCH_PYTHON"


def probe(path):
    """Packages named by REQUIRES are looked for and not imported, since every command probes every
    backend. Without that line the adapter itself is run."""
    try:
        requires = _requires(path)
        if requires is None:
            _module(path)
        for package in requires or ():
            if importlib.util.find_spec(package) is None:
                return NO_DEVICE, f"no Python package {package} in {sys.prefix}" + _hint(package)
        return OK, ""
    except BaseException as error:
        return NO_DEVICE, _caught(path, error)[1]


def version(path):
    """By the names of *.dist-info beside the packages: importlib.metadata takes longer to load than
    all the rest of listing backends."""
    found = []
    for package in _requires(path) or ():
        spec = importlib.util.find_spec(package)
        if spec and spec.origin:
            for entry in os.listdir(os.path.dirname(os.path.dirname(spec.origin))):
                if entry.startswith(package + "-") and entry.endswith(".dist-info"):
                    found.append(entry[:-len(".dist-info")].replace("-", " "))
    return (", ".join(found + ["Python " + sys.version.split()[0]]),)


class Plan:
    """What the plugin holds between create and destroy. On a device, the runs since the last wait and
    before it, and the adapter's own clock if it has one."""

    def __init__(self, path, raw, services):
        self.path, self.module = path, _module(path)
        self.problem = Problem(raw, services, self.module)
        self.runs = self.timed = 0
        self.clock = None
        if hasattr(self.module, "clock") and self.problem.device is not None:
            self.clock = self.module.clock(self.problem)


def _announced(module, services):
    """The plugin reads DEVICE from the source, before it can ask Python."""
    if getattr(module, "DEVICE", None) == "cuda" and services[1] < 0:
        raise ValueError("DEVICE = \"cuda\" must be a line of its own at the top of the adapter")


def supports(path, raw, services):
    try:
        module = _module(path)
        _announced(module, services)
        try:
            problem = Problem(raw, services, module)
            reason = module.supports(problem) if problem.op in getattr(module, "OPS", PLAIN_OPS) \
                else f"it does not do {problem.op}"
            if not isinstance(reason, (str, type(None))):
                raise TypeError("supports must return None, or a text that says why not; "
                                f"it returned {reason!r}")
        except NotImplementedError as unknown:
            reason = str(unknown)
        return (OK, "") if reason is None else (UNSUPPORTED, str(reason))
    except BaseException as error:
        return _caught(path, error)


def create(path, raw, services):
    try:
        plan = Plan(path, raw, services)
        plan.numerics = declared(plan)  # here, where a mistake in it can still be an error
        return OK, "", plan
    except BaseException as error:
        return _caught(path, error)


# struct attn_numerics in order, `source` last. An adapter's `numerics` gives types by name.
NUMERICS = ("acc_type", "score_type", "p_type", "proj_type", "p_normalised", "denominator",
            "acc_toward_zero", "out_toward_zero", "ftz", "empty_row", "deterministic",
            "gaussian_by_norms", "invariant", "key_tile", "chain", "splits", "u_in", "e_exp",
            "e_arg", "e_tanh", "e_log", "tau", "partial_type", "partial_terms",
            "score_stores", "alibi_by_key", "p_stochastic", "rescale_on_rise", "u_pv", "e_f", "a_f",
            "decay_chunk", "state_type",
            "bwd_lse", "bwd_delta", "ds_type", "delta_type", "grad_partial_type", "dq_acc_type",
            "grad_chain", "query_tile", "dkv_acc_type")
EMPTY_ROW = {"zero": 0, "nan": 1, "uniform": 2, "inf": 3}


def numerics(plan):
    return plan.numerics


def declared(plan):
    """The fields of struct attn_numerics. What an adapter leaves out: sums in f32 (f64 for f64),
    exp, tanh and log within 4 units of that type."""
    acc = "float64" if plan.problem.dtype == "float64" else "float32"
    near = 4 * ROUNDOFF[acc]
    given = {"acc_type": acc, "e_exp": near, "e_tanh": near, "e_log": near,
             "source": "assumed of a plain implementation; the adapter does not say"}
    more = getattr(plan.module, "numerics", lambda problem: {})(plan.problem)
    if more is None:
        raise TypeError("numerics must return a dictionary of fields of struct attn_numerics; it returned None")
    given.update(more)
    unknown = sorted(set(given) - set(NUMERICS) - {"source"})
    if unknown:
        near = difflib.get_close_matches(unknown[0], NUMERICS, 1)
        raise KeyError(f"numerics has no '{unknown[0]}'"
                       + (f"; did you mean '{near[0]}'?" if near else ""))
    for field in ("acc_type", "score_type", "p_type", "proj_type", "partial_type", "state_type",
                  "ds_type", "delta_type", "grad_partial_type", "dq_acc_type", "dkv_acc_type"):
        if given.get(field) is not None and given[field] not in NUMBERS:
            raise ValueError(f"numerics: {field} '{given[field]}' is no type; "
                             f"legal: {', '.join(NUMBERS)}")
        given[field] = NUMBERS.get(given.get(field), 0)
    rule = given.get("empty_row", "zero")
    if rule not in EMPTY_ROW:
        raise ValueError(f"numerics: empty_row '{rule}' is none of {', '.join(EMPTY_ROW)}")
    given["empty_row"] = EMPTY_ROW[rule]
    return tuple(float(given.get(f, 0)) if f[:2] in ("u_", "e_", "a_") and f != "empty_row" or f == "tau"
                 else int(given.get(f, 0)) for f in NUMERICS) + (given["source"],)


def describe(plan):
    try:
        return (str(getattr(plan.module, "describe", lambda problem: "")(plan.problem)),)
    except Exception as error:
        return (_caught(plan.path, error)[1],)


def _store(tensors, result, device=CPU):
    """What `run` returned in place of writing it: the array of out, or a dictionary of several."""
    for role, array in (result if isinstance(result, dict) else {"out": result}).items():
        if role not in OUTPUTS or role not in tensors:
            raise KeyError(f"run returned '{role}', which is no output of this problem")
        try:
            tensors[role].assign(array, device)
        except BufferError as error:
            raise ValueError(f"run returned an array for {role} that {error}") from None


def bind(plan, raw):
    """Answers with the callable that is one run: None, or a result and a sentence."""
    try:
        tensors = _tensors(raw)
        state = plan.module.prepare(plan.problem, tensors)
    except BaseException as error:
        return _caught(plan.path, error)
    run, path = plan.module.run, plan.path

    def once():
        try:
            result = run(state)
            if result is not None:
                _store(tensors, result)
            return None
        except BaseException as error:
            return _caught(path, error)

    return OK, "", once


# --- on a device: runs are started, waited for, and their results fetched ---

class Launch:
    """One binding on a device. `run` starts the work; arrays that it returns stay on the device until
    they are fetched."""

    def __init__(self, plan, state, host):
        self.plan, self.state, self.host, self.result = plan, state, host, None

    def __call__(self):
        plan = self.plan
        try:
            if plan.clock and plan.runs == 0:
                plan.clock.start()
            plan.runs += 1
            self.result = plan.module.run(self.state)
            return None
        except BaseException as error:
            return _caught(plan.path, error)


def bind_device(plan, raw, host):
    try:
        state = plan.module.prepare(plan.problem, _tensors(raw, True))
        return OK, "", Launch(plan, state, _tensors(host))
    except BaseException as error:
        return _caught(plan.path, error)


def stop(plan):
    """All runs have been started. Answers with whether a clock of the adapter's times them."""
    try:
        if plan.clock:
            plan.clock.stop()
        plan.runs, plan.timed = 0, plan.runs
        return OK, "", plan.clock is not None
    except BaseException as error:
        return _caught(plan.path, error)


def elapsed(plan, own):
    """Nanoseconds of one run: by the plugin's events, or the adapter's clock."""
    try:
        return OK, "", float(plan.clock.ns()) / max(1, plan.timed) if plan.clock else own
    except BaseException as error:
        return _caught(plan.path, error)


def fetch(launch):
    """The results that `run` returned; those that it wrote in place are there already."""
    try:
        if launch.result is not None:
            _store(launch.host, launch.result, CUDA)
        return OK, ""
    except BaseException as error:
        return _caught(launch.plan.path, error)


def allocated():
    """(known, peak bytes): what libraries have taken of the device beyond the operands."""
    try:
        for module in _modules.values():
            if hasattr(module, "allocated"):
                return 1, int(module.allocated())
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            return 1, torch.cuda.max_memory_allocated()
    except Exception as error:
        _caught("allocated", error)
    return 0, 0
