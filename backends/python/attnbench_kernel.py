# SPDX-License-Identifier: Apache-2.0
"""attnbench_kernel - a Python function f(q, k, v, p), or f(q, k, v), as an adapter. The package
`attnbench` writes the adapter, four lines that name the function; what it declares is its attribute
__attnbench__."""
import functools
import importlib
import importlib.util
import inspect
import math
import os
import sys
import types

NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}
LONG = {short: name for name, short in NAMES.items()}
LIBRARIES = ("torch", "jax", "cupy")  # arrays of the first that the function's module uses, else NumPy


def load(file, module, function):
    """The function, of a module that can be imported by name, else of its file."""
    found = None
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        pass
    if found and (not file or (found.origin and os.path.exists(file) and
                               os.path.samefile(found.origin, file))):
        loaded = importlib.import_module(module)
    elif file:
        spec = importlib.util.spec_from_file_location(module, file)
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[module] = loaded
        spec.loader.exec_module(loaded)
    else:
        raise ImportError(f"there is no module {module}")
    for name in function.split("."):
        if not hasattr(loaded, name):
            raise AttributeError(f"{file or module} has no function {function}")
        loaded = getattr(loaded, name)
    return loaded


def _tops(values):
    """The packages from which these objects of a module are."""
    return {str(getattr(v, "__name__" if isinstance(v, types.ModuleType) else "__module__", ""))
            .split(".")[0] for v in values}


def library_of(function):
    """The library whose arrays a function wants: what its module uses, else what the modules use that
    it uses."""
    own = list(getattr(getattr(function, "__wrapped__", function), "__globals__", {}).values())
    modules = [v for v in own if isinstance(v, types.ModuleType)]
    for tops in (_tops(own), *(_tops(list(vars(m).values())) for m in modules)):
        for name in LIBRARIES:
            if name in tops:
                return name
    return "numpy"


def fits(role, array, shape, dtype):
    if tuple(array.shape) != tuple(shape):
        raise ValueError(f"{role} has the shape {tuple(array.shape)}, the case wants {tuple(shape)}")
    if str(array.dtype).split(".")[-1] != dtype:
        raise ValueError(f"{role} is {str(array.dtype).split('.')[-1]}, the case wants {dtype}")


class NumPy:
    """Views of the operands. bfloat16 needs ml_dtypes."""

    def __init__(self, problem):
        import numpy
        self.np = numpy
        self.bf16 = None
        if importlib.util.find_spec("ml_dtypes"):
            import ml_dtypes
            self.bf16 = ml_dtypes.bfloat16

    def refuses(self, problem):
        if problem.dtype == "bfloat16" and self.bf16 is None:
            return "NumPy has no bf16 without the package ml_dtypes"
        return None

    def view(self, tensor):
        if tensor.dtype == "bfloat16":
            return tensor.viewed("int16").numpy().view(self.bf16)
        return (tensor.viewed("uint8") if tensor.dtype == "bool" else tensor).numpy()

    def give(self, view, tensor):
        return view != 0 if tensor.dtype == "bool" else view

    def take(self, role, result, view, tensor):
        array = self.np.asarray(result)
        fits(role, array, tensor.shape, tensor.dtype)
        view[...] = array


class Jax(NumPy):
    """Arrays of JAX are made in each run, because the operands change between runs; without a copy
    where JAX allows it. bfloat16 is of ml_dtypes, which JAX brings."""

    def __init__(self, problem):
        super().__init__(problem)
        import jax
        if problem.dtype == "float64":
            jax.config.update("jax_enable_x64", True)
        self.jnp = jax.numpy

    def give(self, view, tensor):
        return self.jnp.asarray(super().give(view, tensor))


class CuPy(NumPy):
    """Operands are copied to the device in each run, and results back: this is timed."""

    def __init__(self, problem):
        super().__init__(problem)
        import cupy
        self.cupy = cupy

    def give(self, view, tensor):
        return self.cupy.asarray(super().give(view, tensor))

    def take(self, role, result, view, tensor):
        super().take(role, self.cupy.asnumpy(result), view, tensor)


class Torch:
    def __init__(self, problem):
        import torch
        self.torch = torch
        torch.set_num_threads(problem.threads)
        torch.set_grad_enabled(False)

    def refuses(self, problem):
        return None

    def view(self, tensor):
        return self.torch.from_dlpack(tensor.viewed("uint8") if tensor.dtype == "bool" else tensor)

    def give(self, view, tensor):
        return view != 0 if tensor.dtype == "bool" else view

    def take(self, role, result, view, tensor):
        fits(role, result, tensor.shape, tensor.dtype)
        view.copy_(result)


class OnDevice:
    """Arrays of a library that has them on the GPU: views of operands there, and results that stay there
    until they are fetched."""

    def __init__(self, name, problem):
        library = importlib.import_module(name)
        self.name, self.library = name, library
        if name == "torch":
            library.cuda.set_device(problem.device)
            library.set_grad_enabled(False)
        elif name == "cupy":
            library.cuda.Device(problem.device).use()
        elif name == "jax" and problem.dtype == "float64":
            library.config.update("jax_enable_x64", True)

    def refuses(self, problem):
        if self.name == "cupy" and problem.dtype == "bfloat16":
            return "bf16 of CuPy is not supported"  # CuPy 14 has some, which nobody has tried here
        if self.name == "jax" and not all(t.dense for t in problem.tensors.values()):
            return "JAX takes dense arrays only"
        return None

    def view(self, tensor):
        library = self.library.dlpack if self.name == "jax" else self.library
        return library.from_dlpack(tensor.viewed("uint8") if tensor.dtype == "bool" else tensor)

    def give(self, view, tensor):
        return view != 0 if tensor.dtype == "bool" else view

    def done(self, results):
        """JAX computes on streams of its own, which no event here sees."""
        return self.library.block_until_ready(results) if self.name == "jax" else results


ARRAYS = {"numpy": NumPy, "torch": Torch, "jax": Jax, "cupy": CuPy}


class Parameters:
    """What a kernel learns beside q, k and v. Operands that a case does not have are None."""

    OPERANDS = ("mask", "bias", "len", "alibi", "sink", "keep", "global", "dilation", "gate")

    def __init__(self, problem):
        for name in ("b", "hq", "hkv", "sq", "sk", "dk", "dv", "scale", "softcap", "causal",
                     "threads", "dropout_p", "dropout_seed", "deterministic", "score", "weight_fn"):
            setattr(self, name, getattr(problem, name))
        self.dtype = NAMES[problem.dtype]
        self.window = (problem.window_left, problem.window_right) if problem.window else None
        # of causal, window and alibi; with len and bottom_right it is len - sq, for each batch
        self.off = problem.sk - problem.sq if problem.bottom_right and "len" not in problem.tensors \
            else problem.off
        self.bottom_right = problem.bottom_right
        self.outputs = tuple(r for r in ("out", "lse", "weights") if r in problem.tensors)
        for role in self.OPERANDS:
            setattr(self, role, None)


def is_plain(function):
    """Is it f(q, k, v), without p? More arguments with defaults are its own, unless one is called p."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # built in: PyTorch's attention has no p
        return True
    given = [a for a in parameters if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]
    if any(a.kind == a.VAR_POSITIONAL for a in parameters) or len(given) < 3:
        return False
    return len(given) == 3 or (given[3].name != "p" and given[3].default is not inspect.Parameter.empty)


class Kernel:
    """The functions of an adapter, for one function of the user: f(q, k, v, p), or f(q, k, v) for plain
    attention."""

    def __init__(self, file, module, function):
        self.function = load(file, module, function)
        if not callable(self.function):
            raise TypeError(f"{function} is no function")
        self.declared = getattr(self.function, "__attnbench__", {})
        self.plain = is_plain(self.function)
        if self.plain and self.declared.get("features"):
            raise TypeError(f"{function}(q, k, v) has features, and no fourth argument p to know by which of them "
                            "a case wants")
        name = self.declared.get("arrays") or library_of(self.function)
        self.library = ARRAYS[name]
        self.device = self.declared.get("device")
        if self.device:
            if name not in LIBRARIES:
                raise ValueError(f"device='{self.device}' wants arrays of {', '.join(LIBRARIES)}, not of {name}")
            self.library = functools.partial(OnDevice, name)

    def features(self, problem):
        found = set(problem.features)
        if problem.sq == problem.sk and "len" not in problem.tensors:
            found -= {"bottom_right"}  # both corners are the same
        return found

    def supports(self, problem):
        if bool(self.device) != (problem.device is not None):
            raise ValueError("device='cuda' must stand in the decorator of the function, or of the line that "
                             "makes its decorator, to be found in the source")
        if problem.op != "attention":
            return f"it does not do {problem.op}"
        types_ = self.declared.get("dtypes", ("f32",))
        if NAMES[problem.dtype] not in types_:
            return f"it does not do {NAMES[problem.dtype]} (dtypes: {', '.join(types_)})"
        more = sorted(self.features(problem) - set(self.declared.get("features", ())))
        if more:
            return "it does not do " + ", ".join("gqa" if f == "groups" else f for f in more)
        if self.plain and not math.isclose(problem.scale, problem.dk ** -0.5, rel_tol=1e-6):
            return "f(q, k, v) has the scale 1/sqrt(dk) alone; f(q, k, v, p) has p.scale"
        return self.library(problem).refuses(problem)

    def prepare(self, problem, tensors):
        library = self.library(problem)
        views = {role: library.view(t) for role, t in tensors.items()}
        return library, tensors, views, Parameters(problem)

    def run(self, state):
        library, tensors, views, p = state
        given = {role: library.give(view, tensors[role]) for role, view in views.items()
                 if role not in p.outputs}
        for role in p.OPERANDS:
            setattr(p, role, given.get(role))
        result = self.function(given["q"], given["k"], given["v"], *(() if self.plain else (p,)))
        if not isinstance(result, dict):
            result = dict(zip(p.outputs, result if isinstance(result, (tuple, list)) else (result,)))
        for role in p.outputs:
            if result.get(role) is None:
                raise ValueError(f"the case wants {', '.join(p.outputs)}; {role} was not returned")
        if self.device:
            return library.done({role: result[role] for role in p.outputs})
        for role in p.outputs:
            library.take(role, result[role], views[role], tensors[role])
        return None

    def numerics(self, problem):
        given = self.declared.get("numerics", {})
        given = dict(given(Parameters(problem)) if callable(given) else given)
        return {field: LONG.get(value, value) if field.endswith("_type") else value
                for field, value in given.items()}


def adapter(file, module, function, path):
    """(supports, prepare, run, numerics). `path` goes before what this Python looks through anyway."""
    # Else JAX takes most of a GPU's memory for itself, and operands have no room.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    sys.path[:0] = [folder for folder in path if folder not in sys.path]
    kernel = Kernel(file, module, function)
    return kernel.supports, kernel.prepare, kernel.run, kernel.numerics
