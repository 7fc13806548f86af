# SPDX-License-Identifier: Apache-2.0
"""small_tree.py - an installation with few plugins, so that little is loaded."""
import os
import shutil


def make(build, folder, *plugins):
    """Copies program, worker and the plugins of a build into the folder. Returns the program."""
    for path in ("bin/attnbench", "lib/attnbench/attnbench-worker",
                 *(f"lib/attnbench/{plugin}.so" for plugin in plugins)):
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        shutil.copy2(os.path.join(build, path), os.path.join(folder, path))
    for path in ("cases", "reports"):
        os.makedirs(os.path.join(folder, "share/attnbench"), exist_ok=True)
        os.symlink(os.path.realpath(os.path.join(build, "share/attnbench", path)),
                   os.path.join(folder, "share/attnbench", path))
    return os.path.join(folder, "bin/attnbench")
