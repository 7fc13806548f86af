# SPDX-License-Identifier: Apache-2.0
"""The package as an author of kernels meets it: functions, right and wrong in every way, from Python,
from the command line and under pytest.

    test_python_package.py PROGRAM TORCH_PYTHON [--full] [unittest options]

TORCH_PYTHON is an interpreter that may have PyTorch. Without --full, tests of class Full are left out.
Exit status 77: no NumPy or pytest here.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as tree

PROGRAM, TORCH = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]
FULL = "--full" in sys.argv
if FULL:
    sys.argv.remove("--full")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
os.environ.update(ATTNBENCH_PROGRAM=PROGRAM, PYTHONPATH=ROOT)
for variable in ("ATTNBENCH_PYTHON", "ATTNBENCH_PYTHON_ADAPTERS", "ATTNBENCH_PYTHON_BACKENDS"):
    os.environ.pop(variable, None)
try:
    import numpy  # noqa: F401
    import pytest  # noqa: F401
except ImportError as lacking:
    print(lacking)
    sys.exit(77)
import attnbench  # noqa: E402
from attnbench import _kernel  # noqa: E402

# A kernel in plain Python over rows, which reads what the mask allows and nothing else.
KERNELS = '''
import ctypes, os, time
import attnbench
import numpy as np

def rows(q, k, v, p, late=0):
    out = np.zeros(q.shape[:3] + v.shape[3:], np.float32)
    lse = np.full(q.shape[:3], -np.inf, np.float32)
    for b, h, i in np.ndindex(out.shape[:3]):
        low, high, g = 0, p.sk, h // (p.hq // p.hkv)
        if p.causal:
            high = min(high, i + p.off + 1 + late)
        if p.window and p.window[0] >= 0:
            low = max(low, i + p.off - p.window[0])
        if p.window and p.window[1] >= 0:
            high = min(high, i + p.off + p.window[1] + 1)
        if low < high:
            s = k[b, g, low:high].astype(np.float32) @ q[b, h, i].astype(np.float32)
            s = s * np.float32(p.scale) + (p.bias[b % len(p.bias), h % p.bias.shape[1], i % p.bias.shape[2],
                                                  low:high] if p.bias is not None else 0)
            e = np.exp(s - s.max())
            out[b, h, i] = e @ v[b, g, low:high].astype(np.float32) / e.sum()
            lse[b, h, i] = s.max() + np.log(e.sum())
    out = out.astype(q.dtype)
    return (out, lse) if "lse" in p.outputs else out

@attnbench.kernel(dtypes=("f32", "bf16", "f16"), features=("causal", "bottom_right", "window", "gqa", "lse"),
                  numerics=dict(acc_type="f32", e_exp=10 * 2.0**-24, e_log=16 * 2.0**-24))
def right(q, k, v, p):
    return rows(q, k, v, p)

@attnbench.kernel(features="causal")
def late(q, k, v, p):
    return rows(q, k, v, p, late=1)

def plain(q, k, v, p):
    return rows(q, k, v, p)

def three(q, k, v):
    s = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
    e = np.exp(s - s.max(-1, keepdims=True))
    return e @ v / e.sum(-1, keepdims=True)

def more_of_its_own(q, k, v, causal=False, scale=None):
    assert not causal and scale is None
    return three(q, k, v)

@attnbench.kernel(features="causal")
def three_of_more(q, k, v):
    return three(q, k, v)

def crashes(q, k, v, p):
    ctypes.string_at(0)

def exits(q, k, v, p):
    os._exit(0)

def hangs(q, k, v, p):
    time.sleep(1000)

def raises(q, k, v, p):
    raise RuntimeError("no such luck")

def shapeless(q, k, v, p):
    return rows(q, k, v, p)[..., :1]

def wide(q, k, v, p):
    return rows(q, k, v, p).astype("f8")

def nothing(q, k, v, p):
    return None

@attnbench.kernel(numerics={"e_expp": 1})
def mistaken(q, k, v, p):
    return rows(q, k, v, p)
'''
TESTS = '''
import attnbench, kernels

@attnbench.cases("s=5 d=4 mask=causal", "sq=3,4 sk=6 d=4 mask=causal_br out=lse", "beside.cases",
                 "s=5 d=4 mask=causal")
def test_right(case):
    attnbench.verify(kernels.right, case, fills="none", checks="none")

@attnbench.cases("s=5 d=4")
def test_crashes(case):
    attnbench.verify(kernels.crashes, case)

@attnbench.cases("s=5 d=4")
def test_exits(case):
    attnbench.verify(kernels.exits, case)

@attnbench.cases("s=5 d=4")
def test_hangs(case):
    attnbench.verify(kernels.hangs, case, timeout="2s")

@attnbench.cases("s=5 d=4 mask=causal", "s=5 d=4 softcap=2")
def test_late(case):
    attnbench.verify(kernels.late, case)
'''
TORCHED = '''
import attnbench
import torch.nn.functional as F

@attnbench.kernel(dtypes=("f32", "bf16"), features=("gqa", "mask"), numerics={"p_type": "f32"})
def mine(q, k, v, p):
    q, k, v = q.float(), k.float(), v.float()
    mask = p.mask
    assert mask is None or mask.dtype.is_floating_point is False
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=p.scale,
                                          enable_gqa=p.hq != p.hkv).%s
'''
JAXED = '''
import attnbench
import jax
import jax.numpy as jnp

@attnbench.kernel(dtypes=("f32", "bf16"), features=("gqa",), numerics=dict(p_type="f32"))
def mine(q, k, v, p):
    assert isinstance(q, jax.Array)
    wide = [x.astype(jnp.float32) for x in (q, k, v)]
    k, v = (jnp.repeat(x, p.hq // p.hkv, axis=1) for x in wide[1:])
    s = jnp.einsum("bhqd,bhkd->bhqk", wide[0], k) * p.scale
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s), v).astype(q.dtype)
'''
PASSING = ("--fills", "none", "--checks", "none")
QUICK = {"fills": "none", "checks": "none"}


FOLDER = tempfile.TemporaryDirectory(prefix="attnbench-test-")
unittest.addModuleCleanup(FOLDER.cleanup)
for name, text in (("kernels.py", KERNELS), ("test_them.py", TESTS), ("beside.cases", "near: s=2 d=4\n"),
                   ("as_bf16.py", TORCHED % "bfloat16()"), ("as_f32.py", TORCHED % "float()")):
    with open(os.path.join(FOLDER.name, name), "w", encoding="ascii") as made:
        made.write(text)
sys.path.insert(0, FOLDER.name)
os.chdir(FOLDER.name)
import kernels  # noqa: E402


class Case(unittest.TestCase):
    """What is done with the kernels and tests in FOLDER."""

    def words(self, function, *cases, **options):
        with self.assertRaises(attnbench.Failure) as failed:
            attnbench.verify(function, *cases, **options)
        return str(failed.exception)

    def command(self, *words, code=0, python=sys.executable, **environment):
        done = subprocess.run([python, "-m", "attnbench", *words], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, timeout=200,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def pytest(self, *words, code=0):
        """{name of a test: (outcome, text)}"""
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "attnbench.pytest_plugin", "-p",
                               "no:cacheprovider", "--junit-xml=junit.xml", *words],
                              capture_output=True, text=True, check=False, timeout=200,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        found = {}
        for test in tree.parse("junit.xml").iter("testcase"):
            part = next(iter(test), None)
            found[test.get("name")] = ("passed" if part is None else part.tag,
                                       "" if part is None else (part.get("message") or "") + (part.text or ""))
        return found

    def collected(self, *words):
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "attnbench.pytest_plugin", "-p",
                               "no:cacheprovider", "--collect-only", "test_them.py", *words],
                              capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        return [line for line in done.stdout.splitlines() if "::test_right" in line]


class Package(Case):
    def test_a_right_function_passes_with_all_checks(self):
        run = attnbench.verify(kernels.right, "h=2 s=9 d=8 mask=causal_br+window:3:1 out=lse")
        self.assertEqual([r.status for r in run], ["pass"])
        self.assertLess(run[0].max_ratio, 1)
        self.assertEqual(run[0].checks_made, run[0].checks_apply)
        self.assertEqual(run[0]["checks"]["inputs"], "pass")
        with self.assertRaisesRegex(AttributeError, "no field 'max_ration'"):
            run[0].max_ration

    def test_a_wrong_function_is_told_with_the_command_that_repeats_it(self):
        said = self.words(kernels.late, "s=9 d=8 mask=causal")
        self.assertIn("the mask shifted by one", said)
        rerun = shlex.split(re.search("rerun: attnbench (.*)", said)[1])
        self.assertEqual(rerun[:2], ["verify", "kernels.py::late"])
        self.assertIn("the mask shifted by one", self.command(*rerun, code=3))

    def test_a_statement_of_a_function(self):
        """It has the hash of the function's file, and is repeated by either name of the function."""
        with open("stated.py", "w", encoding="ascii") as file:
            file.write("from kernels import plain\ndef own(q, k, v, p):\n    return plain(q, k, v, p)\n")
        self.command("verify", "stated.py::own", "s=3 d=4", "--statement", "own.md")
        for name in ("stated.py::own", "stated:own"):
            self.command("statement", "check", "own.md", name)
        with open("stated.py", "a", encoding="ascii") as file:
            file.write("# edited\n")
        self.command("statement", "check", "own.md", "stated.py::own", code=3)
        self.command("statement", "check", "own.md", code=2)

    def test_a_kernel_that_is_too_slow_is_skipped_with_the_way_out(self):
        with self.assertRaisesRegex(attnbench.Unsupported, 'predicted to take .*; with run_limit="1m"'):
            attnbench.verify("naive", "s=1024 d=64", run_limit="1ms")

    def test_mistakes_of_the_caller_are_errors(self):
        with self.assertRaisesRegex(ValueError, "'casual' is none of .*did you mean 'causal'"):
            attnbench.kernel(features=("casual",))(kernels.plain)
        with self.assertRaisesRegex(ValueError, "dtype 'float32' is none of"):
            attnbench.kernel(dtypes=("float32",))(kernels.plain)
        with self.assertRaisesRegex(ValueError, "needs a case"):
            attnbench.verify(kernels.plain)
        with self.assertRaisesRegex(ValueError, "did you mean 'mask'"):
            attnbench.verify(kernels.plain, "s=4 d=4 mosk=causal")
        with self.assertRaisesRegex(ValueError, "must be a function of a module"):
            attnbench.verify(lambda q, k, v, p: q, "s=4 d=4")

    def test_features_are_those_of_the_plugin(self):
        with open(os.path.join(ROOT, "../../backends/python/attnbench_python.py"),
                  encoding="utf-8") as file:
            text = file.read()
        for word in _kernel.FEATURES.values():
            self.assertIn(f'"{word}"', text)

    def test_a_device_is_read_from_the_source(self):
        """And without one a function on it is skipped, with the reason."""
        lines = ("import attnbench\nonly = attnbench.kernel(device='cuda', arrays='torch')\nnone = attnbench.kernel()\n"
                 "@attnbench.kernel(dtypes='f16', device='cuda')\ndef straight(q, k, v, p):\n    return q\n"
                 "@only\ndef through(q, k, v, p):\n    return q\n@none\ndef host(q, k, v, p):\n    return q\n")
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "on_device.py")
            with open(file, "w", encoding="ascii") as text:
                text.write(lines)
            for name, device in (("straight", "cuda"), ("through", "cuda"), ("host", None)):
                for which in (f"{file}::{name}", f"on_device:{name}"):
                    sys.path.insert(0, folder)
                    found = attnbench._kernel.named(which)
                    sys.path.remove(folder)
                    self.assertEqual(found.device, device, which)
                    self.assertEqual('DEVICE = "cuda"\n' in found.adapter(), device is not None)
            if not os.path.exists("/dev/nvidiactl"):
                with self.assertRaisesRegex(attnbench.Unsupported, "no CUDA driver is installed"):
                    attnbench.verify(f"{file}::straight", "s=4 d=4 dtype=f16")
        with self.assertRaisesRegex(ValueError, "device 'cuda:0' is none of cuda"):
            attnbench.kernel(device="cuda:0")(len)

    def test_a_run_that_was_cut_off_is_read(self):
        with open("cut.ndjson", "w", encoding="ascii") as file:
            file.write('{"type":"verify","status":"pass"}\n{"type":"ver')
        self.assertEqual([r.status for r in attnbench.load("cut.ndjson")], ["pass"])

    def test_pytest_survives_every_kernel(self):
        ids = [c["id"] for c in json.loads(self.command(
            "list", "cases", "--json", "s=5 d=4 mask=causal", "sq=3,4 sk=6 d=4 mask=causal_br out=lse",
            "beside.cases"))]
        found = self.pytest("test_them.py", "-n", "2", code=1)
        self.assertEqual(sorted(name for name in found if "right" in name),
                         sorted(f"test_right[{i}]" for i in ids))
        outcomes = {name.split("[")[0]: value for name, value in found.items()}
        self.assertEqual(outcomes["test_right"][0], "passed")
        for name, words in (("crashes", "rerun: attnbench verify"), ("exits", "exited with status 0"),
                            ("hangs", "timeout")):
            outcome, text = outcomes["test_" + name]
            self.assertEqual(outcome, "failure")
            self.assertIn(words, text)
        late = [value for name, value in found.items() if "test_late" in name]
        self.assertEqual([outcome for outcome, _ in late], ["failure", "skipped"])
        self.assertIn("the mask shifted by one", late[0][1])
        self.assertIn("it does not do softcap", late[1][1])

    def test_a_test_without_the_argument_is_an_error(self):
        with open("test_none.py", "w", encoding="ascii") as file:
            file.write("import attnbench\n@attnbench.cases('s=4 d=4')\ndef test_it():\n    pass\n"
                       "@attnbench.cases('s=4 d=nine')\ndef test_bad(case):\n    pass\n")
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "attnbench.pytest_plugin", "-p",
                               "no:cacheprovider", "test_none.py"], capture_output=True, text=True,
                              check=False)
        self.assertIn("needs an argument named case", done.stdout + done.stderr)

    def test_options_of_pytest_are_looked_at(self):
        for number in ("-3", "two", "1.5", ""):
            done = subprocess.run([sys.executable, "-m", "pytest", "-p", "attnbench.pytest_plugin",
                                   "--attnbench-fuzz=" + number], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 4)
            self.assertIn(f"'{number}' is not a whole number from 0 on", done.stderr)

    def test_the_program_of_a_tree_finds_the_package(self):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("PYTHONPATH", "ATTNBENCH_PROGRAM")}
        done = subprocess.run([PROGRAM, "verify", "kernels.py::plain", "s=4 d=4", *PASSING], text=True,
                              capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=200,
                              env={**environment, "ATTNBENCH_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "^pass .* plain ")

    def test_a_file_without_a_function_is_answered_with_how(self):
        done = subprocess.run([sys.executable, "-m", "attnbench", "verify", "kernels.py", "s=4 d=4"], text=True,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (2, "attnbench: 'kernels.py' is a file of Python: "
                                                          "name a function of it, as kernels.py::FUNCTION\n"))

    def test_a_function_of_three_arguments_is_plain_attention(self):
        self.assertRegex(self.command("verify", "kernels.py::three", "b=2 h=3 sq=5 sk=9 d=4", *PASSING), "^pass ")
        self.assertRegex(self.command("verify", "kernels.py::more_of_its_own", "s=4 d=16"), "^pass ")
        self.assertIn("f(q, k, v) has the scale 1/sqrt(dk) alone; f(q, k, v, p) has p.scale",
                      self.command("verify", "kernels.py::three", "s=4 d=4 scale=1", *PASSING, code=7))
        self.assertIn("three_of_more(q, k, v) has features, and no fourth argument p",
                      self.command("verify", "kernels.py::three_of_more", "s=4 d=4", *PASSING, code=6))


class Full(Case):
    def test_sixteen_bits_and_groups(self):
        run = attnbench.verify(kernels.right, "hq/hkv=4/2 sq=3 sk=7 d=8 dtype=f16,f32", **QUICK)
        self.assertEqual([r.status for r in run], ["pass", "pass"])
        has = subprocess.run([sys.executable, "-c", "import ml_dtypes"], capture_output=True,
                             check=False).returncode == 0
        if has:
            self.assertEqual(attnbench.verify(kernels.right, "s=5 d=8 dtype=bf16", **QUICK)[0].status,
                             "pass")
        else:
            with self.assertRaisesRegex(attnbench.Unsupported, "without the package ml_dtypes"):
                attnbench.verify(kernels.right, "s=5 d=8 dtype=bf16", **QUICK)

    def test_whatever_happens_to_the_worker_is_words(self):
        for function, words in ((kernels.crashes, "SIGSEGV|address"),
                                (kernels.raises, "raises: RuntimeError: no such luck"),
                                (kernels.shapeless, r"out has the shape .*, the case wants \(1, 1, 5, 4\)"),
                                (kernels.wide, "out is float64, the case wants float32"),
                                (kernels.nothing, "out was not returned"),
                                (kernels.mistaken, "numerics has no 'e_expp'")):
            self.assertRegex(self.words(function, "s=5 d=4", **QUICK), words)
        self.assertIn("timeout", self.words(kernels.hangs, "s=5 d=4", timeout="1s", **QUICK))

    def test_what_is_not_declared_is_a_skip(self):
        for case, reason in (("s=4 d=4 softcap=1", "softcap"), ("s=4 d=4 dtype=f64", "f64"),
                             ("sq=2 sk=4 d=4 mask=causal_br", "bottom_right"), ("op=mha h=2 s=4 d=4", "mha")):
            with self.assertRaisesRegex(unittest.SkipTest, "it does not do .*" + reason):
                attnbench.verify(kernels.late, case)
        # where both corners are the same, none is chosen
        self.assertEqual(attnbench.verify(kernels.right, "s=4 d=4 mask=causal_br", **QUICK)[0].status,
                         "pass")

    def test_a_script_that_verifies_when_imported_ends(self):
        with open("script.py", "w", encoding="ascii") as file:
            file.write("import attnbench\nfrom kernels import plain\ndef mine(q, k, v, p):\n"
                       "    return plain(q, k, v, p)\nattnbench.verify(mine, 's=4 d=4')\n")
        done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=100)
        self.assertIn("put the call below 'if __name__", done.stderr)

    def test_names_of_backends_are_taken(self):
        with open("named.py", "w", encoding="ascii") as file:
            file.write("from kernels import attnbench, plain\ndef naive(q, k, v, p):\n"
                       "    return plain(q, k, v, p)\n")
        import named
        with self.assertRaisesRegex(ValueError, "offered by both.*kernel.name="):
            attnbench.verify(named.naive, "s=4 d=4")
        attnbench.kernel(name="other")(named.naive)
        self.assertEqual(attnbench._kernel.target(named.naive).name, "other")

    def installed(self, package):
        folder = os.path.join(FOLDER.name, package)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                        "--target", folder, package], check=True, capture_output=True)
        return folder

    def test_arrays_of_numpy_before_2_1(self):
        folder = self.installed("numpy==1.26.4")
        for which in ("kernels.py::plain", "-bnumpy"):
            self.assertRegex(self.command("verify", which, "s=5 d=8", *PASSING, PYTHONPATH=f"{ROOT}:{folder}"),
                             "(?m)^pass ")

    def test_arrays_of_jax(self):
        folder = self.installed("jax==0.10.2")
        with open("jaxed.py", "w", encoding="ascii") as file:
            file.write(JAXED)
        said = self.command("verify", "jaxed.py::mine", "hq/hkv=4/2 sq=3 sk=5 d=8 dtype=f32,bf16",
                            PYTHONPATH=f"{ROOT}:{folder}")
        self.assertEqual(len(re.findall("(?m)^pass ", said)), 2)

    def test_timings_are_records(self):
        def timed(path):
            return attnbench.bench([kernels.plain, "null"], "s=8 d=4", rounds=2, samples=1,
                                   min_time="200us", cache="hot", out=path)
        base, new = timed("base"), timed("new")
        self.assertEqual(sorted(r.backend for r in base), ["null", "plain"])
        self.assertGreater(next(r for r in base if r.backend == "plain").time_ns["median"], 0)
        self.assertEqual([dict(r) for r in attnbench.load("base").of("bench")], [dict(r) for r in base])
        found = attnbench.compare(base, new, cross=True)  # the machine's load may have changed
        self.assertIn(found.exit, (0, 4))
        self.assertIn("plain", [r["backend"] for r in found.results])
        with self.assertRaisesRegex((ValueError, RuntimeError), "nowhere"):
            attnbench.compare("nowhere", new)

    def test_functions_on_the_command_line(self):
        for name in ("kernels.py::plain", "kernels:plain", os.path.abspath("kernels.py") + "::plain"):
            self.assertRegex(self.command("verify", name, "s=4 d=4", *PASSING), "^pass .* plain ")
        both = self.command("verify", "-b", "naive", "kernels:plain", "kernels:right", "s=4 d=4", *PASSING)
        self.assertEqual(re.findall("(?m)^pass +[^ ]+ +([a-z]+)", both), ["naive", "plain", "right"])
        self.assertIn("has no function nowhere",
                      self.command("verify", "kernels.py::nowhere", "s=4 d=4", code=6))
        self.assertIn("attnbench 0", self.command("--version"))
        self.command("bench", "kernels.py::plain", "s=4 d=4", "--rounds", "1", "--samples", "1",
                     "--min-time", "100us", "--cache", "hot", "-o", "timed")
        self.assertEqual(attnbench.load("timed").of("bench")[0].backend, "plain")

    def test_tensors_of_torch(self):
        if subprocess.run([TORCH, "-c", "import torch"], capture_output=True, check=False).returncode:
            self.skipTest("no PyTorch here")
        cases = ("h=2 s=6 d=8", "hq/hkv=2/1 sq=3 sk=5 d=8 mask=bool:0.9:bqk")
        said = self.command("verify", "as_f32.py::mine", *cases, *PASSING, python=TORCH)
        self.assertEqual(len(re.findall("(?m)^pass ", said)), 2)
        said = self.command("verify", "as_bf16.py::mine", *cases, *PASSING, python=TORCH, code=6)
        self.assertIn("out is bfloat16, the case wants float32", said)
        said = self.command("verify", "as_bf16.py::mine", cases[0] + " dtype=bf16", *PASSING,
                            python=TORCH)
        self.assertRegex(said, "(?m)^pass ")

    def test_more_cases(self):
        few = self.collected()
        self.assertEqual(len(few), 4)
        fuzzed = self.collected("--attnbench-fuzz", "3")
        self.assertEqual((fuzzed[:4], len(fuzzed)), (few, 7))
        self.assertNotEqual(self.collected("--attnbench-fuzz", "3", "--attnbench-seed", "2"), fuzzed)
        self.assertGreater(len(self.collected("--attnbench-full")), 100)


if not FULL:
    del Full

if __name__ == "__main__":
    unittest.main()
