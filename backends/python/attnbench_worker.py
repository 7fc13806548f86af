# SPDX-License-Identifier: Apache-2.0
"""attnbench_worker - the worker of the plugin `python`: this interpreter, which opens the harness's
worker as a library and serves the host. python.worker starts it with the host's process number.

PyDLL holds the GIL during the call, which lasts until the process ends."""
import os
import signal
import sys

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    # Signals are the harness's.
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.environ["ATTNBENCH_WORKER"] = "1"  # for the package, which refuses to verify from here
    try:
        import ctypes
        library = ctypes.PyDLL(os.path.join(FOLDER, "attnbench-worker.dso"))
    except (ImportError, OSError) as error:
        # The usual worker says so in the list of backends.
        os.environ["ATTNBENCH_NO_PYTHON"] = f"{sys.executable} cannot be a worker: {error}"
        os.execv(os.path.join(FOLDER, "attnbench-worker"), ["attnbench-worker", sys.argv[1]])
    words = (ctypes.c_char_p * 3)(b"attnbench-worker", os.fsencode(sys.argv[1]), None)
    return library.attn_worker_main(2, words)


if __name__ == "__main__":
    sys.exit(main())
