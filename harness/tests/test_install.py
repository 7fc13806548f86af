# SPDX-License-Identifier: Apache-2.0
"""An installation as users use it: staged, moved, and built against from outside.

    test_install.py CMAKE BUILD_DIR SOURCE_DIR LIBDIR [unittest options]

Libraries that a backend brings along are separate components. They are not installed here, because
they may be large.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD, SOURCE, LIBDIR = sys.argv[1:5]
del sys.argv[1:5]
HERE = os.path.dirname(os.path.abspath(__file__))
CC, CXX = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
PLUGINS = LIBDIR + "/attnbench"
STAGED = "/opt/attnbench"  # only ever below DESTDIR
PLAIN = "s=24 dk=8"  # what the plugin of the consumer can do


def execute(*command, code=0, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, **environment))
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="attnbench-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        stage = os.path.join(cls.folder, "stage")
        for component in ("attnbench", "plugins", "devel"):
            execute(CMAKE, "--install", BUILD, "--prefix", STAGED, "--component", component,
                    DESTDIR=stage)
        cls.prefix = os.path.join(cls.folder, "moved")
        os.rename(stage + STAGED, cls.prefix)
        cls.program = os.path.join(cls.prefix, "bin", "attnbench")
        cls.skeleton = os.path.join(cls.folder, "mine")
        execute(cls.program, "new-backend", "mine", "-o", cls.folder)
        cls.consumer = os.path.join(cls.folder, "consumer")
        shutil.copytree(os.path.join(HERE, "consumer"), cls.consumer)
        for file in ("good.c", "base.h"):
            shutil.copy(os.path.join(HERE, "plugins", file), cls.consumer)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def build(self, source, prefix=None):
        """Builds the project with CMake; returns its plugin folder."""
        build = tempfile.mkdtemp(dir=self.folder)
        execute(CMAKE, "-S", source, "-B", build, "-DCMAKE_PREFIX_PATH=" + self.prefix,
                "-DCMAKE_INSTALL_PREFIX=" + (prefix or build + "/unused"))
        execute(CMAKE, "--build", build)
        if prefix:
            execute(CMAKE, "--install", build)
        return os.path.join(build, PLUGINS)

    def pkg_config(self, *arguments):
        return execute("pkg-config", *arguments, "attnbench",
                       PKG_CONFIG_PATH=os.path.join(self.prefix, LIBDIR, "pkgconfig")).strip()

    def compile(self, plugin, *more):
        execute(CC, "-O2", "-shared", "-fPIC", *self.pkg_config("--cflags").split(),
                os.path.join(self.consumer, "good.c"), "-lm", *more, "-o", plugin)

    def backends(self, *arguments, **environment):
        listed = json.loads(execute(self.program, "list", "--json", *arguments, **environment))
        return {item["name"]: item for item in listed}

    def test_what_is_there(self):
        for file in ("include/attnbench/backend.h", "include/attnbench/problem.h",
                     "include/attnbench/rows.h", "share/man/man1/attnbench.1",
                     "share/bash-completion/completions/attnbench", "share/doc/attnbench/LICENSE",
                     "share/attnbench/cases/smoke.cases", PLUGINS + "/naive.skips",
                     PLUGINS + "/planted/slowed.so"):
            self.assertTrue(os.path.isfile(os.path.join(self.prefix, file)), file)
        self.assertEqual(os.path.relpath(self.pkg_config("--variable=plugindir"), self.prefix),
                         PLUGINS)
        self.assertEqual(os.listdir(os.path.join(self.prefix, "bin")), ["attnbench"])

    def test_guides_have_no_link_that_leads_nowhere(self):
        texts = {}
        for root, _, names in os.walk(self.prefix):
            for name in [name for name in names if name.endswith(".md")]:
                guide = os.path.join(root, name)
                with open(guide, encoding="utf-8") as file:
                    text = texts[os.path.relpath(guide, self.prefix)] = file.read()
                for target in re.findall(r"\]\(([^):#\s]+)[)#\s]", text):
                    self.assertTrue(os.path.exists(os.path.join(root, target)), (guide, target))
        for guide, words in (("doc/attnbench/README.md", "`backend.h` is the manual"),
                             ("doc/attnbench/BOUND.md", "bound"),
                             ("attnbench/cases/README.md", "](encoder/README.md)"),
                             ("attnbench/reports/README.md", "(field `approximation`)"),
                             ("attnbench/cluster/README.md", "`--shard`, harness/cli")):
            self.assertIn(words, texts["share/" + guide])

    def test_no_file_knows_where_it_was_built_or_staged(self):
        for root, _, files in os.walk(self.prefix):
            for name in files:
                with open(os.path.join(root, name), "rb") as file:
                    content = file.read()
                for place in (BUILD, SOURCE, STAGED):
                    # not at the end of a longer path: a tree in /src is none of .../aten/src
                    known = re.search(rb"(?<!\w)" + re.escape(place.encode() + b"/"), content)
                    self.assertIsNone(known, name)

    def test_the_moved_program_finds_its_parts(self):
        execute(self.program, "verify", "-b", "naive",
                os.path.join(self.prefix, "share/attnbench/cases/smoke.cases"))
        self.assertGreater(len(json.loads(execute(self.program, "list", "cases", "--json"))), 100)
        execute(self.program, "run", "-b", "naive", "--rounds", "2", "--samples", "1",
                "--min-time", "1ms", "--cache", "hot", PLAIN, "-o", self.path("run"))
        self.assertTrue(os.path.isfile(self.path("run", "report", "index.html")))

    def test_a_backend_without_its_library_says_so(self):
        folder, library = self.path("needy"), self.path("needy", "libgone.so")
        os.mkdir(folder)
        execute(CC, "-shared", "-fPIC", "-x", "c", os.devnull, "-o", library)
        self.compile(os.path.join(folder, "needy.so"), "-Wl,--no-as-needed", library)
        os.remove(library)
        found = self.backends(ATTNBENCH_PLUGIN_PATH=folder)
        self.assertFalse(found["needy"]["available"])
        self.assertIn("libgone.so: cannot open", found["needy"]["reason"])
        self.assertTrue(found["naive"]["available"])
        for verb in ("list", "doctor"):
            self.assertRegex(execute(self.program, verb, ATTNBENCH_PLUGIN_PATH=folder),
                             "needy .*libgone.so")

    def test_a_plugin_from_another_project(self):
        folder = self.build(self.consumer)
        plugin = os.path.join(folder, "good.so")
        refused = (os.path.join(self.prefix, "share/attnbench/cases/smoke.cases"), "--filter",
                   "smoke_mha")
        for arguments, environment in ((["--plugin", plugin], {}),
                                       ([], {"ATTNBENCH_PLUGIN_PATH": folder})):
            self.assertTrue(self.backends(*arguments, **environment)["test"]["available"])
            said = execute(self.program, "verify", "-b", "test", *arguments, PLAIN, **environment)
            self.assertRegex(said, "^pass .* test ")
            execute(self.program, "verify", "-b", "test", *arguments, *refused, **environment,
                    code=7)
        # Without its list of expected skips the refusal is a failure.
        os.remove(os.path.join(folder, "good.skips"))
        execute(self.program, "verify", "-b", "test", "--plugin", plugin, refused[0], "--filter",
                "smoke_*", "--fills", "none", "--checks", "none", code=3)

    def test_a_plugin_that_is_installed_is_found(self):
        other = self.path("other")
        shutil.copytree(self.prefix, other)
        self.build(self.consumer, prefix=other)
        self.assertTrue(os.path.isfile(os.path.join(other, PLUGINS, "good.skips")))
        said = execute(os.path.join(other, "bin/attnbench"), "verify", "-b", "test", PLAIN)
        self.assertRegex(said, "^pass ")

    def test_a_plugin_by_pkg_config_alone(self):
        plugin = self.path("by_hand.so")
        self.compile(plugin)
        said = execute(self.program, "verify", "--plugin", plugin, PLAIN)
        self.assertRegex(said, "^pass .* test ")

    def test_headers_alone_make_no_warnings(self):
        strict = ["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "-o", os.devnull]
        flags = self.pkg_config("--cflags").split()
        for header in ("backend", "problem", "rows"):
            source = self.path(header + ".c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(f"#include <attnbench/{header}.h>\n")
            execute(CC, "-std=c11", *strict, *flags, source)
            execute(CXX, "-std=c++17", "-x", "c++", *strict, *flags, source)
        for command in ((CC, "-std=c11", "problem_c11.c"), (CXX, "-std=c++17", "problem_cxx17.cc")):
            execute(*command[:2], *strict, *flags, os.path.join(HERE, command[2]))

    def test_the_skeleton_is_a_project_of_its_own(self):
        plugin = os.path.join(self.build(self.skeleton), "mine.so")
        self.assertTrue(self.backends("--plugin", plugin)["mine"]["available"])
        said = execute(self.program, "verify", "-b", "mine", "--plugin", plugin,
                       os.path.join(self.prefix, "share/attnbench/cases/smoke.cases"))
        self.assertRegex(said, "(?m)^pass .* mine ")
        self.assertRegex(said, "(?m)^skip .* mine ")

    def test_another_major_version_is_refused(self):
        file = os.path.join(self.path("old"), "CMakeLists.txt")
        shutil.copytree(self.consumer, self.path("old"))
        with open(file, encoding="utf-8") as lines:
            text = lines.read()
        with open(file, "w", encoding="utf-8") as lines:
            lines.write(text.replace("attnbench 0.1", "attnbench 99.0"))
        with self.assertRaisesRegex(AssertionError, "compatible with requested"):
            self.build(self.path("old"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
