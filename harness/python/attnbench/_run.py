# SPDX-License-Identifier: Apache-2.0
"""Verifying, timing and comparing, and what comes of it."""
from __future__ import annotations

import json
import os
import shutil
import tempfile
import unittest
import weakref
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence, Union

from ._kernel import arguments_of, offered, target
from ._program import execute

Which = Union[Callable[..., Any], str]


class Record(dict):  # type: ignore[type-arg]
    """One result: a dictionary with the fields of results.ndjson, which are attributes, too."""

    type: str
    case: str
    id: str
    backend: str
    status: str
    reason: str
    repro: str
    max_ratio: float | None
    time_ns: dict[str, Any] | None
    peak_bytes: int | None

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"this record has no field '{name}'; it has: {', '.join(self)}")


class Run(list):  # type: ignore[type-arg]
    """The records of a run, in order. pandas.DataFrame(run) has a column for each field. `path` is
    the folder, `text` what the program printed."""

    _whole: "Run | None" = None

    def __init__(self, records: Iterable[Record], path: str = "", text: str = "") -> None:
        super().__init__(records)
        self.path, self.text = path, text

    def of(self, *types: str) -> "Run":
        """The records of these types: "verify", "round", "bench"."""
        part = Run((r for r in self if r["type"] in types), self.path, self.text)
        part._whole = self  # whose folder lives as long as it does
        return part


class Failure(AssertionError):
    """A verdict other than pass, in the program's words. `run` has the records."""

    def __init__(self, text: str, run: Run) -> None:
        super().__init__(text)
        self.run = run


class Unsupported(unittest.SkipTest):
    """The kernel does none of the cases, or a run of it is predicted to take longer than run_limit
    (5 s): pytest and unittest skip the test."""


# The other lines are the journal's own, or what --resume goes on from (harness/results/README.md).
RESULTS = ("verify", "round", "bench", "untimed")


def _lines(path: Path) -> Iterable[Record]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):  # the last one of a run that was cut off may be half a line
                break
            record = json.loads(line)
            if record["type"] in RESULTS:
                yield Record(record)


def load(run: str | os.PathLike[str]) -> Run:
    """The records of a run folder, or of its results.ndjson."""
    path = Path(run)
    file = path / "results.ndjson" if path.is_dir() else path
    return Run(_lines(file), str(file.parent))


def _options(given: dict[str, Any]) -> list[str]:
    """threads=2 is --threads 2, strict=True is --strict, and min_time="5ms" is --min-time 5ms."""
    words: list[str] = []
    for key, value in given.items():
        option = "--" + key.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def _work(verb: str, which: Sequence[Which], lines: Sequence[str], out: str | None,
          options: dict[str, Any]) -> tuple[int, str, Run]:
    """Runs the program. Returns its exit code, what it said on stderr, and the records."""
    targets = [t for t in map(target, which) if t]
    names = [t.name if t else str(w) for w, t in ((w, target(w)) for w in which)]
    place = None if out else tempfile.mkdtemp(prefix="attnbench-run-")
    folder = out or os.path.join(str(place), "run")
    words = [word for name in names for word in ("-b", name)]
    with offered(targets, alone=len(targets) == len(names)) as variables:
        done = execute(verb, *words, "-o", folder, *_options(options), *arguments_of(lines),
                       **variables)
    file = Path(folder, "results.ndjson")
    run = Run(_lines(file) if file.exists() else (), folder, done.stdout.strip())
    if place:
        weakref.finalize(run, shutil.rmtree, place, ignore_errors=True)
    return done.returncode, done.stderr.strip(), run


def _judge(code: int, said: str, run: Run) -> Run:
    __tracebackhide__ = True
    if code == 0:
        return run
    if code == 2:
        raise ValueError(said + ("; attnbench.kernel(name=...) gives a function another"
                                 if "is offered by both" in said else ""))
    if code == 7 and run:
        reasons = list(dict.fromkeys(r["reason"] for r in run if r["reason"]))
        if reasons and all(reason.startswith("budget: a run ") for reason in reasons):
            reasons.append('with run_limit="1m", say, it is verified')
        raise Unsupported("; ".join(reasons))
    if code in (3, 6) and run:
        raise Failure(run.text, run)
    raise RuntimeError(f"attnbench ended with {code}: {said}" if code >= 0 else
                       f"attnbench was ended by signal {-code}: {said}")


def verify(which: Which, *cases: str, **options: Any) -> Run:
    """Verifies a function in a process of its own, with all checks. Returns the records, raises
    Failure with the program's words (the last is the command that runs the case again), or
    Unsupported if the function does none of the cases, or is too slow for them. Options are those of
    the command line: threads=2, timeout="10s", run_limit="1m", fills="none", strict=True."""
    __tracebackhide__ = True
    if not cases:
        raise ValueError("verify needs a case, such as 's=127 d=64'")
    return _judge(*_work("verify", [which], cases, None, options))


def bench(which: Which | Sequence[Which], *cases: str, out: str | None = None, **options: Any) -> Run:
    """Verifies and times functions and backends, in rounds. Returns the records of timings, one a
    function, case and state of the caches; `out` keeps the run in a folder."""
    __tracebackhide__ = True
    if not cases:
        raise ValueError("bench needs a case, such as 's=512 d=64'")
    many = [which] if callable(which) or isinstance(which, str) else list(which)
    return _judge(*_work("bench", many, cases, out, options)).of("bench")


def compare(base: Run | str | os.PathLike[str], new: Run | str | os.PathLike[str],
            **options: Any) -> Record:
    """Compares two runs, as `attnbench compare BASE NEW --json` does. `exit` is the exit code: 0, 4
    (something became slower), 5 (inconclusive, with strict=True) or 8 (not comparable)."""
    paths = [r.path if isinstance(r, Run) else os.fspath(r) for r in (base, new)]
    done = execute("compare", *paths, "--json", *_options(options))
    if done.returncode not in (0, 4, 5, 8) or not done.stdout.strip():
        raise (ValueError if done.returncode in (2, 7, 8) else RuntimeError)(done.stderr.strip())
    found = json.loads(done.stdout)
    record = Record(found if isinstance(found, dict) else {"rows": found})
    record["exit"], record["said"] = done.returncode, done.stderr.strip()
    return record
