# SPDX-License-Identifier: Apache-2.0
"""attnbench on the command line: the program, with functions of Python as backends. FILE.py::FUNCTION
and MODULE:FUNCTION stand where a case may stand; each becomes a backend of that name."""
from __future__ import annotations

import os
import signal
import subprocess
import sys

from ._kernel import Target, named, offered
from ._program import environment, program


def _split(words: list[str]) -> tuple[list[str], list[Target]]:
    """The command line with -b NAME in the place of functions, and the functions. A statement names
    its backends itself."""
    rest: list[str] = []
    targets: list[Target] = []
    for word in words:
        taken = rest and rest[-1] in ("-b", "--backend", "-o", "--out", "--plugin")
        found = None if taken or os.path.exists(word) else named(word)
        alone = word.endswith(".py") and not taken and not os.path.isdir(word)
        if alone and rest and rest[0] in ("verify", "bench", "run"):
            raise ValueError(f"'{word}' is a file of Python: name a function of it, as {word}::FUNCTION")
        if found:
            targets.append(found)
            rest += [] if rest[:1] == ["statement"] else ["-b", found.name]
        else:
            rest.append(word)
    return rest, targets


def main() -> int:
    try:
        words, targets = _split(sys.argv[1:])
        if not targets:
            os.execve(program(), ["attnbench", *words], environment())
        alone = sum(w in ("-b", "--backend") for w in words) == len(targets)
        with offered(targets, alone) as variables:
            # The terminal sends signals to the program, too; it decides when to end.
            for number in (signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_IGN)
            code = subprocess.call([program(), *words], env=environment(**variables),
                                   preexec_fn=_as_usual)
    except (OSError, ValueError) as error:
        print(f"attnbench: {error}", file=sys.stderr)
        return 2
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _as_usual() -> None:
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
