# SPDX-License-Identifier: Apache-2.0
"""The program `attnbench`: where it is, and how it is started."""
from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

_PLACES = (
    Path(__file__).parent / "bin",                                    # a wheel
    Path(sysconfig.get_path("platlib")) / "attnbench" / "bin",        # an editable installation
    Path(__file__).resolve().parents[3] / "build" / "bin",            # a tree that was built
)


def program() -> str:
    """The path of the program: ATTNBENCH_PROGRAM, else the one that this package came with."""
    given = os.environ.get("ATTNBENCH_PROGRAM")
    places = [Path(given)] if given else [place / "attnbench" for place in _PLACES]
    for path in places:
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    raise FileNotFoundError("the program attnbench is not at " + " or ".join(map(str, places)) +
                            " (ATTNBENCH_PROGRAM names another; scripts/build.sh builds it in a tree)")


def folder_of_cases() -> Path:
    return Path(program()).parents[1] / "share" / "attnbench" / "cases"


def environment(**more: str) -> dict[str, str]:
    """For the program: adapters run in this interpreter if the user names no other."""
    return {**os.environ, "ATTNBENCH_PYTHON": os.environ.get("ATTNBENCH_PYTHON") or sys.executable,
            **more}


def execute(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end. Refuses within a worker, which would start workers without end."""
    if os.environ.get("ATTNBENCH_WORKER"):
        raise RuntimeError("the module of a kernel starts attnbench when it is imported: put the call "
                           "below 'if __name__ == \"__main__\":'")
    return subprocess.run([program(), *arguments], text=True, capture_output=True, check=False,
                          stdin=subprocess.DEVNULL, env=environment(**more), errors="replace")
