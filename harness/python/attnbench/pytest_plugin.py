# SPDX-License-Identifier: Apache-2.0
"""The plugin for pytest: @attnbench.cases(...) becomes parameters, one test a case, named by its id.
Kernels run below the program, so none of them can end pytest."""
from __future__ import annotations

import argparse
from typing import Any

import pytest

from ._kernel import expand


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 on")
    return int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attnbench", "verification of attention kernels")
    group.addoption("--attnbench-fuzz", type=_count, default=0, metavar="N",
                    help="N random cases more for each test with @attnbench.cases")
    group.addoption("--attnbench-seed", type=int, default=1, metavar="N",
                    help="seed of the random cases (default 1)")
    group.addoption("--attnbench-full", action="store_true",
                    help="the largest standard suite beside the cases of each test")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "attnbench: a test with cases of attnbench")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    lines: Any = getattr(metafunc.function, "attnbench_cases", None)
    if lines is None:
        return
    if "case" not in metafunc.fixturenames:
        raise pytest.UsageError(f"{metafunc.function.__name__}: @attnbench.cases needs an argument "
                                "named case")
    option = metafunc.config.getoption
    try:
        found = expand(lines, metafunc.definition.path.parent, full=option("--attnbench-full"),
                       fuzz=option("--attnbench-fuzz"), seed=option("--attnbench-seed"))
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"{metafunc.function.__name__}: {error}") from None
    metafunc.parametrize("case", [pytest.param(c, id=c.id, marks=pytest.mark.attnbench)
                                  for c in found])
