# SPDX-License-Identifier: Apache-2.0
"""What a test says of a function (kernel) and of cases, and functions as backends of the program."""
from __future__ import annotations

import ast
import difflib
import functools
import inspect
import json
import os
import re
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar, Union

from ._program import execute, folder_of_cases

F = TypeVar("F", bound=Callable[..., Any])

DTYPES = ("f64", "f32", "f16", "bf16")
ARRAYS = ("numpy", "torch", "jax", "cupy")
DEVICES = ("cuda",)
#: What a kernel may do beyond plain dense attention, and the program's word for it.
FEATURES: Mapping[str, str] = {
    "causal": "causal", "window": "window", "bottom_right": "bottom_right", "off": "off",
    "softcap": "softcap", "gqa": "groups", "value_width": "value_width", "empty_keys": "empty_keys",
    "lse": "lse", "weights": "weights", "mask": "mask", "bias": "bias", "len": "len", "len2d": "len2d",
    "alibi": "alibi", "sink": "sink", "dropout": "dropout", "keep": "keep", "global": "global",
    "dilation": "dilation", "gate": "gate", "weight_fn": "weight_fn", "gaussian": "gaussian",
    "deterministic": "deterministic"}
_TEXT = re.compile(r"(?P<file>.+\.py)::(?P<of_file>[A-Za-z_][\w.]*)"
                   r"|(?P<module>[A-Za-z_][\w.]*):(?P<of_module>[A-Za-z_][\w.]*)")


def _known(words: Iterable[str], legal: Iterable[str], what: str) -> tuple[str, ...]:
    words = (words,) if isinstance(words, str) else tuple(words)
    for word in words:
        if word not in legal:
            near = difflib.get_close_matches(word, list(legal), 1)
            raise ValueError(f"{what} '{word}' is none of {', '.join(legal)}"
                             + (f"; did you mean '{near[0]}'?" if near else ""))
    return words


def kernel(function: F | None = None, *, dtypes: Iterable[str] = ("f32",),
           features: Iterable[str] = (), numerics: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
           | None = None, arrays: str | None = None, device: str | None = None,
           name: str | None = None) -> Any:
    """Says what a function f(q, k, v, p) does; the function stays as it is. Cases that ask for other
    types or features are skipped. `numerics` are fields of struct attn_numerics (backend.h), from
    which the error bound is derived; types are "f32" and so on. Without it, sums in f32 and an exp
    within 4 units roundoff are assumed. `arrays` names the library of q, k and v (numpy, torch, jax,
    cupy); default: the first of torch, jax and cupy that the function's module uses, else numpy.
    `device="cuda"`: q, k, v and what is returned are on the GPU."""
    if function is None:
        return functools.partial(kernel, dtypes=dtypes, features=features, numerics=numerics,
                                 arrays=arrays, device=device, name=name)
    if arrays is not None:
        _known((arrays,), ARRAYS, "arrays")
    if device is not None:
        _known((device,), DEVICES, "device")
    setattr(function, "__attnbench__", {
        "dtypes": _known(dtypes, DTYPES, "dtype"),
        "features": tuple(FEATURES[f] for f in _known(features, FEATURES, "feature")),
        "numerics": {} if numerics is None else numerics, "arrays": arrays, "device": device,
        "name": name})
    return function


class Case(str):
    """A case line. `id` names the case on every machine."""

    id: str
    name: str

    def __new__(cls, line: str, id: str = "", name: str = "") -> "Case":
        case = super().__new__(cls, line)
        case.id, case.name = id, name
        return case


def cases(*lines: str) -> Callable[[F], F]:
    """Gives a test function the argument `case`, once for each case. A line is a case in the case
    language, a file of cases, a pack, or the name of a file of the standard suite ("smoke"). The
    plugin for pytest does it."""
    def mark(function: F) -> F:
        setattr(function, "attnbench_cases", lines + getattr(function, "attnbench_cases", ()))
        return function
    return mark


def arguments_of(lines: Iterable[str], beside: str | os.PathLike[str] | None = None) -> list[str]:
    """Lines as the program wants them: names of the standard suite and files beside a test as paths."""
    found = []
    for line in lines:
        standard = folder_of_cases() / f"{line}.cases" if re.fullmatch(r"[\w-]+", line) else None
        near = Path(beside) / line if beside and "=" not in line else None
        if near and near.is_file():
            found.append(str(near))
        else:
            found.append(str(standard) if standard and standard.is_file() else line)
    return found


@functools.lru_cache(maxsize=None)
def _listed(arguments: tuple[str, ...]) -> tuple[Case, ...]:
    done = execute(*arguments, "--json")
    if done.returncode != 0:
        raise ValueError(done.stderr.strip() or f"attnbench {arguments} ended with {done.returncode}")
    return tuple(Case(c["case"], c["id"], c["name"]) for c in json.loads(done.stdout))


def _operator(case: str) -> str:
    return next((word for word in case.split() if word.startswith("op=")), "")


def expand(lines: Sequence[str], beside: str | os.PathLike[str] | None = None, *, full: bool = False,
           fuzz: int = 0, seed: int = 1) -> list[Case]:
    """The cases of these lines, each once. `full` adds the largest standard suite, `fuzz` that many
    random cases; both only of the operators that the lines have."""
    found = list(_listed(("list", "cases", *arguments_of(lines, beside))))
    operators = {_operator(case) for case in found}
    if full:
        found += [c for c in _listed(("list", "cases", "--suite", "full")) if _operator(c) in operators]
    wanted, drawn = fuzz, 64
    while wanted and drawn <= 100000:
        random = [c for c in _listed(("list", "cases", "--fuzz", str(drawn), "--seed", str(seed)))
                  if _operator(c) in operators]
        if len(random) >= wanted or drawn == 100000:
            found += random[:wanted]
            break
        drawn = min(4 * drawn, 100000)
    return list({case.id: case for case in found}.values())


@dataclass(frozen=True)
class Target:
    """A function as a backend: its name there, where it is, and what a user calls it."""

    name: str
    file: str
    module: str
    function: str
    shown: str
    path: tuple[str, ...]
    device: str | None = None
    source: str = ""  # of a module, its file

    def adapter(self) -> str:
        title = re.sub(r'["\\\n]', "'", self.shown)
        device = f'DEVICE = "{self.device}"\n' if self.device else ""
        return (f'"""{title}"""\nREQUIRES = ()\n{device}import attnbench_kernel\n'
                f"supports, prepare, run, numerics = attnbench_kernel.adapter(\n"
                f"    {self.file!r}, {self.module!r}, {self.function!r}, {list(self.path)!r})\n")


def _backend_name(function: str) -> str:
    name = re.sub(r"[^a-z0-9_]", "_", function.split(".")[-1].lower()).lstrip("_0123456789")
    return (name or "kernel")[:31]


def _root_of(file: str) -> tuple[str, str]:
    """The folder from which the module of a file is imported, and its name there, as pytest has it."""
    folder, names = os.path.dirname(os.path.abspath(file)), [Path(file).stem]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        names.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    return folder, ".".join(names)


def _device_in(file: str, function: str) -> str | None:
    """What the source of a function says of its device: the program must know before it is imported."""
    try:
        tree = ast.parse(Path(file).read_bytes(), file)
    except (OSError, SyntaxError, ValueError):
        return None  # said when it is imported

    def device(call: ast.AST) -> str | None:
        words = {k.arg: k.value for k in call.keywords} if isinstance(call, ast.Call) else {}
        value = words.get("device")
        return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None

    made = {name.id: device(node.value) for node in tree.body if isinstance(node, ast.Assign)
            for name in node.targets if isinstance(name, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function.split(".")[-1]:
            for mark in node.decorator_list:
                found = made.get(mark.id) if isinstance(mark, ast.Name) else device(mark)
                if found in DEVICES:
                    return found
    return made.get(function) if made.get(function) in DEVICES else None


def _file_of(module: str) -> str:
    """Where a module is, without running anything of it or of its packages."""
    path: Sequence[str] = [os.getcwd(), *sys.path]
    origin = None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, path)
        if not spec:
            return ""
        path, origin = spec.submodule_search_locations or [], spec.origin
    return origin or ""


def named(text: str) -> Target | None:
    """FILE.py::FUNCTION or MODULE:FUNCTION; None: it is neither."""
    match = _TEXT.fullmatch(text)
    if not match:
        return None
    if match["file"]:
        root, module = _root_of(match["file"])
        return Target(_backend_name(match["of_file"]), os.path.abspath(match["file"]), module,
                      match["of_file"], text, (root, os.getcwd()), _device_in(match["file"], match["of_file"]))
    source = _file_of(match["module"])
    return Target(_backend_name(match["of_module"]), "", match["module"], match["of_module"], text,
                  (os.getcwd(),), _device_in(source, match["of_module"]), source)


def _of_function(function: Callable[..., Any]) -> Target:
    plain = inspect.unwrap(function)
    name, module = getattr(plain, "__qualname__", ""), getattr(plain, "__module__", "")
    if not name or "<" in name:
        raise ValueError(f"{name or function!r} cannot be found by another process: it must be a "
                         "function of a module, not of another function")
    file = os.path.abspath(inspect.getfile(plain))
    if module == "__main__":
        module = _root_of(file)[1]
    here = os.path.relpath(file)
    shown = f"{file if here.startswith('..') else here}::{name}"
    path = tuple(os.path.abspath(folder or ".") for folder in sys.path)
    declared = getattr(function, "__attnbench__", {})
    return Target(declared.get("name") or _backend_name(name), file, module, name, shown, path,
                  declared.get("device"))


def target(which: Union[Callable[..., Any], str]) -> Target | None:
    """Of a function or a text; None: the text is the name of a backend."""
    return named(which) if isinstance(which, str) else _of_function(which)


@contextmanager
def offered(targets: Sequence[Target], alone: bool) -> Iterator[dict[str, str]]:
    """The variables that make the program offer these functions; `alone`: no other adapters."""
    if len({t.name for t in targets}) < len(targets):
        raise ValueError("two functions have the same name; attnbench.kernel(name=...) gives another")
    with tempfile.TemporaryDirectory(prefix="attnbench-") as folder:
        for one in targets:
            Path(folder, one.name + ".py").write_text(one.adapter(), encoding="utf-8")
        names = [t.name for t in targets]
        variables = {
            "ATTNBENCH_PYTHON_ADAPTERS": ":".join(
                filter(None, (folder, os.environ.get("ATTNBENCH_PYTHON_ADAPTERS")))),
            "ATTNBENCH_TARGETS": "\n".join(f"{t.name}={t.shown}" for t in targets),
            "ATTNBENCH_SOURCES": "\n".join(f"{t.name}={t.file or t.source}" for t in targets)}
        known = os.environ.get("ATTNBENCH_PYTHON_BACKENDS")
        if alone or known:
            variables["ATTNBENCH_PYTHON_BACKENDS"] = ",".join(
                names + ([known] if known and not alone else []))
        yield variables if targets else {}
