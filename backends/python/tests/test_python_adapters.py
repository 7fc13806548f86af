# SPDX-License-Identifier: Apache-2.0
"""Adapters as their authors meet them: one file in a folder, right and wrong in every way.

    test_python_adapters.py ATTNBENCH FOLDER [unittest options]

FOLDER is `python` beside the plugin.
"""
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

ATTNBENCH, FOLDER = sys.argv[1:3]
del sys.argv[1:3]
PACKAGES = os.path.exists(os.path.join(FOLDER, "venv", "bin", "python3"))
EMPTY = '"""mine: %s"""\nREQUIRES = ()\ndef supports(problem):\n    return None\n' \
        'def prepare(problem, tensors):\n    return tensors\n'
PLAIN = '''"""mine: the plain operator, whose results are returned"""
REQUIRES = ("numpy",)
import attnbench_plain as plain

def supports(problem):
    return problem.beyond("lse", "weights", "causal")

def prepare(problem, tensors):
    return problem, {r: plain.view(t) for r, t in tensors.items()}

def run(state):
    problem, views = state
    made = plain.operator(problem, views)
    return {r: made[r] for r in ("out", "lse", "weights") if r in views}
'''
# Every operand as DLPack gives it against the bytes at its address, by both kinds of capsule.
ROUND_TRIP = '''"""mine: looks at every operand"""
REQUIRES = ("numpy",)
import ctypes, itertools
import numpy as np
import attnbench_plain as plain

class Old:
    def __init__(self, tensor):
        self.tensor = tensor
    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__()
    def __dlpack_device__(self):
        return 1, 0

def bits(t):
    wide = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bool": 1}.get(t.dtype, 2)
    def at(index):
        skip = sum(i * s for i, s in zip(index, t.strides))
        return ctypes.string_at(t.pointer + wide * skip, wide)
    return [at(index) for index in itertools.product(*map(range, t.shape))]

def supports(problem):
    return None

def prepare(problem, tensors):
    for t in tensors.values():
        shown = t.viewed("int16") if t.dtype == "bfloat16" else t
        for a in (np.from_dlpack(shown), np.from_dlpack(Old(shown))):
            assert a.shape == t.shape, f"{t.role} has the shape {a.shape}"
            assert a.dtype.name == shown.dtype, f"{t.role} is {a.dtype}"
            raw = a.view("u1") if a.dtype == bool else a  # a boolean may be any byte
            assert [x.tobytes() for x in raw.reshape(-1)] == bits(t), f"{t.role} differs"
        assert np.from_dlpack(shown).flags.writeable == (t.role in ("out", "lse", "weights"))
    return problem, {r: plain.view(t) for r, t in tensors.items()}

def run(state):
    problem, views = state
    plain.store(problem, views, plain.operator(problem, views))
'''


class Adapters(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attnbench-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def attnbench(self, *arguments, code=0, **environment):
        environment = dict(os.environ, ATTNBENCH_PYTHON_ADAPTERS=self.folder,
                           ATTNBENCH_PYTHON_BACKENDS="noop,numpy,mine", **environment)
        done = subprocess.run([ATTNBENCH, *arguments], capture_output=True, text=True, check=False,
                              timeout=200, stdin=subprocess.DEVNULL, env=environment)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def write(self, text, name="mine.py"):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def backends(self, **environment):
        listed = json.loads(self.attnbench("list", "backends", "--json", **environment))
        return {b["name"]: b for b in (listed["backends"] if isinstance(listed, dict) else listed)}

    def verdict(self, text, case, code, *more):
        self.write(text)
        return self.attnbench("verify", "-b", "mine", *more, case, code=code)

    @unittest.skipUnless(PACKAGES, "no packages for Python")
    def test_one_file_is_a_backend(self):
        self.write(PLAIN)
        self.assertEqual(self.backends()["mine"]["description"],
                         "mine: the plain operator, whose results are returned")
        self.attnbench("verify", "-b", "mine", "b=2 h=2 s=18 d=12 out=lse+weights mask=causal",
                       "h=2 s=9 d=8 view=gaps+permuted")

    @unittest.skipUnless(PACKAGES, "no packages for Python")
    def test_operands_arrive_as_they_are(self):
        case = "b=2 hq=4 hkv=2 s=5 d=4 mask=len:3/5+bool:0.5:bk bias=normal:hk sink=1"
        views = " out=lse+weights view=gaps+permuted+broadcast+offset1"
        for dtype in ("f64", "f32", "f16", "bf16"):
            self.verdict(ROUND_TRIP, f"{case} dtype={dtype}{views}", 0, "--fills", "none",
                         "--checks", "none")

    @unittest.skipUnless(PACKAGES, "no packages for Python")
    def test_numpy_before_2_1(self):
        """Whatever it makes by DLPack is read-only."""
        old = ("import numpy\nreal = numpy.from_dlpack\ndef from_dlpack(tensor):\n    array = real(tensor)\n"
               "    array.flags.writeable = False\n    return array\nnumpy.from_dlpack = from_dlpack\n")
        text = ROUND_TRIP.replace("import ctypes", old + "import ctypes").replace(
            "np.from_dlpack(shown).flags", "shown.numpy().flags").replace(
            "np.from_dlpack(Old(shown))", "shown.numpy()")
        for dtype in ("f64", "f32", "f16", "bf16"):
            self.verdict(text, f"b=2 hq=4 hkv=2 s=5 d=4 mask=len:3/5+bool:0.5:bk out=lse dtype={dtype} "
                         "view=gaps+permuted+broadcast+offset1", 0, "--fills", "none", "--checks", "none")

    @unittest.skipUnless(PACKAGES, "no packages for Python")
    def test_what_is_returned_must_fit(self):
        text = PLAIN[:PLAIN.index("    made =")] + "    return views['out'][..., :1]\n"
        self.assertIn("mine: ValueError: run returned an array for out that has another shape",
                      self.verdict(text, "s=4 dk=4", 6))
        text = PLAIN[:PLAIN.index("    made =")] + "    return views['out'].astype('f8')\n"
        self.assertIn("that has another type", self.verdict(text, "s=4 dk=4", 6))
        text = PLAIN[:PLAIN.index("    made =")] + "    return {'lse': views['out']}\n"
        self.assertIn("'lse', which is no output", self.verdict(text, "s=4 dk=4", 6))

    def test_what_is_raised_is_one_sentence(self):
        text = EMPTY % "raises" + "def run(state):\n    raise RuntimeError('first\\nsecond')\n"
        said = self.verdict(text, "s=4 dk=4", 6)
        self.assertRegex(said, r"run failed: mine: RuntimeError: first \(line \d+ of mine.py\)\n")
        self.assertNotIn("Traceback", said)
        self.assertNotIn("second", said)

    def test_what_is_not_imported_has_advice(self):
        text = EMPTY % "lacks an import" + "def run(state):\n    return statistics.fmean\n"
        self.assertRegex(self.verdict(text, "s=4 dk=4", 6), r"NameError: name 'statistics' is not defined; the adapter "
                         r"has no 'import statistics' \(line \d+ of mine.py\)\n")
        text = EMPTY % "wants a package" + "def run(state):\n    import no_such_package\n"
        self.assertRegex(self.verdict(text, "s=4 dk=4", 6), r"no_such_package' in /.*; install it there, or name "
                         r"another Python by ATTNBENCH_PYTHON \(line \d+ of mine.py\)\n")

    def test_memory_that_is_refused_is_oom(self):
        text = EMPTY % "greedy" + "def run(state):\n    raise MemoryError('all of it')\n"
        self.assertIn("oom", self.verdict(text, "s=4 dk=4", 6))

    def test_no_run_is_said(self):
        self.assertIn("mine: AttributeError: the adapter has no function run",
                      self.verdict(EMPTY % "lacks run", "s=4 dk=4", 6))

    def test_a_refusal_is_a_skip(self):
        text = EMPTY % "refuses" + "def run(state):\n    pass\n"
        said = self.verdict(text.replace("return None", "return problem.beyond('causal')"),
                            "s=4 dk=4 softcap=2 mask=causal", 7)
        self.assertIn("it does not do softcap", said)

    def test_gradients_are_those_of_dot_products(self):
        """No case asks for others, but a harness may."""
        sys.path.insert(0, FOLDER)
        import attnbench_python as python
        key = {name: k for table in (python.OPS, python.SCORES) for k, name in table.items()}
        for score in python.SCORES.values():
            raw = (key["attention_backward"], key[score], 2, 0, *[1] * 8, *[0] * 10, 0, *[0] * 6, ())
            if score in ("scaled_dot", "dot"):
                python.Problem(raw, (1, -1, ()), python)
            else:
                with self.assertRaisesRegex(NotImplementedError, "gradients are those of dot products"):
                    python.Problem(raw, (1, -1, ()), python)

    def test_yes_and_no_are_no_reasons(self):
        for given in ("True", "False"):
            text = (EMPTY % "answers").replace("return None", f"return {given}") + "def run(state):\n    pass\n"
            self.assertIn(f"supports must return None, or a text that says why not; it returned {given}\n",
                          self.verdict(text, "s=4 dk=4", 6))

    def test_a_mistake_in_numerics_is_an_error(self):
        for given, said in (("{'e_expp': 1e-6}", "numerics has no 'e_expp'; did you mean 'e_exp'?"),
                            ("{'p_type': 'bf16'}", "p_type 'bf16' is no type; legal: float64"),
                            ("{'empty_row': 'none'}", "empty_row 'none' is none of zero, nan"),
                            ("None", "numerics must return a dictionary of fields of struct attn_numerics")):
            text = EMPTY % "mistaken" + "def run(state):\n    pass\n" \
                f"def numerics(problem):\n    return {given}\n"
            self.assertIn(said, self.verdict(text, "s=4 dk=4", 6))

    @unittest.skipUnless(PACKAGES, "no packages for Python")
    def test_numerics_beyond_their_limits_are_named(self):
        """Also where so much is declared that relations have no bound."""
        self.write(PLAIN.replace('problem.beyond("lse", "weights", "causal")', "None") +
                   "def numerics(problem):\n    return {'e_exp': 0.5}\n")
        said = self.attnbench("verify", "-b", "mine", "s=20 d=16 out=lse", "op=mha h=2 s=8 d=8",
                              "h=2 s=12 d=8 dropout=0.3")
        self.assertEqual(said.count("the plan declares e_exp = 0.5; the limit for f32 is 0.000488, so"), 3)
        self.assertIn("3 results: 3 mistrusted", said)

    def test_nothing_written_fails(self):
        self.verdict(EMPTY % "idle" + "def run(state):\n    pass\n", "s=4 dk=4", 3)

    def test_what_can_not_run_here_is_told_when_listed(self):
        for text, reason in (("def supports(:", "SyntaxError"),
                             ("REQUIRES = ('no_such_package',)", "no Python package no_such_"),
                             ("REQUIRES = ('no_such_package')", "no Python package no_such_"),
                             ("import no_such_package\n", "ModuleNotFoundError")):
            self.write(text)
            found = self.backends()
            self.assertFalse(found["mine"]["available"])
            self.assertIn(reason, found["mine"]["reason"])
            self.assertTrue(found["noop"]["available"])

    def test_a_package_that_the_build_script_brings_is_told_with_how(self):
        program = os.path.realpath(os.environ.get("ATTNBENCH_PYTHON", "/usr/bin/python3"))
        for folder, hint in ((".deps/peers", "; scripts/build.sh --with-peers brings it"),
                             ("own", "; install it there, or name another Python by ATTNBENCH_PYTHON")):
            prefix = os.path.join(self.folder, folder)  # an environment without packages
            os.makedirs(os.path.join(prefix, "bin"))
            os.symlink(program, os.path.join(prefix, "bin/python3"))
            with open(os.path.join(prefix, "pyvenv.cfg"), "w", encoding="utf-8") as file:
                file.write(f"home = {os.path.dirname(program)}\n")
            for package in ("torch", "transformers"):
                self.write(f"REQUIRES = ('{package}',)")
                reason = self.backends(ATTNBENCH_PYTHON=prefix + "/bin/python3")["mine"]["reason"]
                self.assertEqual(reason, f"no Python package {package} in {prefix}{hint}")

    def test_names_that_are_none_are_left_out(self):
        for name in ("_shared.py", "Big.py", "notes.txt", ".py", "a" * 40 + ".py"):
            self.write("import no_such_package\n", name)
        self.write(EMPTY % "not on the list", "other.py")
        self.assertFalse({"_shared", "Big", "notes", "other", "mine"} & set(self.backends()))

    def test_the_first_of_a_name_counts(self):
        self.write(EMPTY % "in place of the one that comes along", "noop.py")
        self.assertIn("in place of", self.backends()["noop"]["description"])

    def test_without_python_the_rest_is_untouched(self):
        lacking = os.path.join(self.folder, "lacking")  # a Python that cannot open libraries
        self.write("raise ImportError('none here')\n", "ctypes.py")
        with open(lacking, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nPYTHONPATH={self.folder} exec /usr/bin/python3 "$@"\n')
        os.chmod(lacking, 0o755)
        for given, name, reason in (("/nowhere/python3", "noop", "no Python at /nowhere/python3"),
                                    (lacking, "noop", "cannot be a worker: none here"),
                                    ("/bin/false", "python", "exited with status 1")):
            found = self.backends(ATTNBENCH_PYTHON=given)
            self.assertFalse(found[name]["available"])
            self.assertIn(reason, found[name]["reason"])
            self.assertTrue(found["naive"]["available"])

    def test_any_python_is_a_worker(self):
        """Debian's, which is linked statically to libpython; that of an environment; one by another name."""
        if os.path.exists("/etc/debian_version"):
            linked = subprocess.run(["ldd", "/usr/bin/python3"], capture_output=True, text=True, check=True)
            self.assertNotIn("libpython", linked.stdout)
        venv, link = os.path.join(self.folder, "venv"), os.path.join(self.folder, "own-python")
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
        os.symlink("/usr/bin/python3", link)
        self.write('"""mine: says where it runs"""\nREQUIRES = ()\nimport sys\n'
                   "def supports(problem):\n    return 'runs in ' + sys.executable\n"
                   "def prepare(problem, tensors):\n    return None\ndef run(state):\n    pass\n")
        for python in ("/usr/bin/python3", venv + "/bin/python3", link):
            self.assertIn("runs in " + python + "\n",
                          self.attnbench("verify", "-b", "mine", "s=4 dk=4", code=7,
                                         ATTNBENCH_PYTHON=python))

    def test_a_python_without_any_shared_library_says_so(self):
        """It can load neither ctypes nor NumPy. Debian has what makes one in libpython3-dev."""
        config, static = sysconfig.get_config_var, os.path.join(self.folder, "static-python")
        archive = os.path.join(config("LIBPL") or "", f"libpython{config('LDVERSION')}.a")
        main = "#include <Python.h>\nint main(int c, char **v) { return Py_BytesMain(c, v); }\n"
        if not os.path.exists(archive) or not os.path.exists(config("INCLUDEPY") + "/Python.h") or subprocess.run(
                ["cc", "-xc", "-", "-I", config("INCLUDEPY"), "-static", "-xnone", archive, "-lexpat", "-lz", "-lm",
                 "-w", "-o", static], input=main, text=True, capture_output=True, check=False).returncode:
            self.skipTest("no static libpython here; test_without_python_the_rest_is_untouched says the same")
        found = self.backends(ATTNBENCH_PYTHON=static)
        self.assertRegex(found["noop"]["reason"], r"^.*/static-python cannot be a worker: .*_ctypes.*\Z")
        self.assertTrue(found["naive"]["available"])

    def test_what_an_adapter_prints_is_in_the_log(self):
        text = EMPTY % "talks" + "def run(state):\n    print('said in Python')\n"
        run = os.path.join(self.folder, "run")
        self.verdict(text, "s=4 dk=4", 3, "-o", run)
        with open(os.path.join(run, "workers.log"), encoding="utf-8", errors="replace") as log:
            self.assertIn("said in Python", log.read())

    def test_the_empty_adapter_computes_nothing(self):
        self.attnbench("verify", "-b", "noop", "s=4 dk=4", code=7)  # it can be timed, not verified


if __name__ == "__main__":
    unittest.main()
