# SPDX-License-Identifier: Apache-2.0
"""Adapters on a device: a stand-in for the CUDA driver, whose memory the host cannot touch, and
mistakes of adapters and of the way to the device, each of which the program must find.

    test_python_device.py ATTNBENCH FOLDER DRIVER_FOLDER [unittest options]

FOLDER is `python` beside the plugin, DRIVER_FOLDER has the stand-in (libcuda.so.1).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ATTNBENCH, FOLDER, DRIVER = map(os.path.abspath, sys.argv[1:4])
del sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN, CUPY = (os.path.join(HERE, name) for name in ("standin", "standin_cupy"))
PACKAGE = os.path.join(HERE, "..", "..", "..", "harness", "python")
if not os.path.exists(os.path.join(FOLDER, "venv", "bin", "python3")):
    print("no packages for Python")
    sys.exit(77)
RIGHT = '''"""mine: the plain operator on a device"""
REQUIRES = ("numpy",)
DEVICE = "cuda"
OPTION_HOW = "in_place|returned|transposed"  # where results are
OPS = ("attention", "attention_backward")
import attnbench_plain as plain
import standin

def supports(problem):
    return None if problem.options["how"] == "in_place" else problem.beyond()

def prepare(problem, tensors):
    return problem, {r: standin.from_dlpack(t) for r, t in tensors.items()}

def made(problem, views):
    return plain.operator(problem, views)

def run(state):
    problem, views = state
    if problem.options["how"] == "in_place":
        standin.launch(lambda: plain.store(problem, views, made(problem, views)))
        return None
    b, h, s, d = views["out"].shape
    apart = (h * s * d, d, h * d, 1) if problem.options["how"] == "transposed" else None
    own = standin.Array((b, h, s, d), problem.dtype, apart)
    def work():
        own.view[...] = made(problem, views)["out"]
    standin.launch(work)
    mine[:] = [own]
    return own

mine = []

def allocated():
    return 1000

def numerics(problem):
    return {"p_normalised": 1, "e_exp": 10 * 2.0**-24, "e_log": 16 * 2.0**-24}
'''
RUN = RIGHT[RIGHT.index("def run"):RIGHT.index("def allocated")]
CASE = "h=2 s=24 d=8 out=lse"
LARGE = "h=2 s=128 d=32"  # half a millisecond of work
PLAIN = ("--fills", "none", "--checks", "none")
QUICK = ["--rounds", "2", "--samples", "2", "--min-time", "1ms"]


# What an adapter does wrong, and what the program says of it.
KEPT = RIGHT.replace("    return problem, {r: standin.from_dlpack(t) for r, t in tensors.items()}\n", '''
    views = {r: standin.from_dlpack(t) for r, t in tensors.items()}
    first = kept.setdefault(str([(r, t.shape) for r, t in tensors.items()]),
                            {r: views[r].copy() for r in "qkv"})
    return problem, {**views, **first}

kept = {}
''')
LATE = RIGHT.replace(RUN, '''import threading, time
def run(state):
    problem, views = state
    def work():
        time.sleep(0.02)
        plain.store(problem, views, made(problem, views))
    threading.Thread(target=work).start()

''')
READS = RIGHT.replace("def run(state):\n", "import ctypes\ndef run(state):\n"
                      "    ctypes.string_at(where[0], 4)\n").replace(
    "    return problem, {", "    where.append(tensors['q'].pointer)\n    return problem, {") + "where = []\n"
RETURNED = RIGHT.replace('"in_place|returned|transposed"', '"returned"')
HIDDEN = RIGHT.replace('DEVICE = "cuda"', 'DEVICE = str("cuda")')
FAILING = RIGHT.replace("    return plain.operator(problem, views)\n", "    raise RuntimeError('in the kernel')\n")
FORGETS = RETURNED.replace("    return own\n", "    return None\n")
HOST = RETURNED.replace("    return own\n", "    import numpy\n    return numpy.zeros((1, 2, 24, 8), 'f4')\n")
MISTAKES = {"kept": (KEPT, "fail", ""), "late": (LATE, "fail", ""), "forgets": (FORGETS, "fail", ""),
            "reads": (READS, "crash", "q"),
            "host": (HOST, "error", "run returned an array for out that is not on the device"),
            "failing": (FAILING, "error", "the CUDA driver says: unspecified launch failure (719)"),
            "hidden": (HIDDEN, "error", 'DEVICE = "cuda" must be a line of its own')}


def on_the_way(mistake):
    """The adapter is right; what lies between it and the host is not."""
    return RIGHT + f"import os\nos.environ['ATTN_STANDIN'] = '{mistake}'\n"


for lost in ("no_copy_in", "stale", "no_copy_out", "no_wait"):
    MISTAKES[lost] = on_the_way(lost), "fail", ""
# A clock of the adapter's: FACTOR says how wrong it is.
CLOCK = RIGHT + '''
import time
class Clock:
    def start(self):
        standin.launch(lambda: setattr(self, "first", time.perf_counter_ns()))
    def stop(self):
        standin.launch(lambda: setattr(self, "last", time.perf_counter_ns()))
    def ns(self):
        return (self.last - self.first) / FACTOR
def clock(problem):
    return Clock()
'''
# Functions of the package over CuPy, on the device and beside it.
OVER_CUPY = '''
import attnbench, cupy, numpy

def rows(q, k, v, p, factor=1):
    k, v = (cupy.repeat(x.astype("f4"), p.hq // p.hkv, axis=1) for x in (k, v))
    s = numpy.float32(p.scale * factor) * (q.astype("f4") @ k.swapaxes(-1, -2))
    if p.mask is not None:
        s = cupy.where(p.mask, s, -numpy.inf)
    e = cupy.exp(s - s.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True) @ v).astype(q.dtype)

does = attnbench.kernel(dtypes=("f32", "f16", "bf16"), features=("gqa", "mask"), device="cuda",
                        numerics={"p_normalised": 1, "e_exp": 10 * 2.0**-24})

@does
def mine(q, k, v, p):
    assert cupy.used
    return rows(q, k, v, p)

@does
def wrong(q, k, v, p):
    return rows(q, k, v, p, 1.02)

@does
def host(q, k, v, p):
    return numpy.zeros((p.b, p.hq, p.sq, p.dv), "f4")

@attnbench.kernel(features=("gqa", "mask"), numerics={"p_normalised": 1, "e_exp": 10 * 2.0**-24})
def copied(q, k, v, p):
    return rows(q, k, v, p)
'''
APART = RIGHT.replace("made(problem, views)))", "made(problem, views)), apart=True)")


class Devices(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attnbench-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def attnbench(self, texts, code, *arguments, mistake="", driver=DRIVER):
        for name, text in texts.items():
            with open(os.path.join(self.folder, name + ".py"), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([ATTNBENCH, *arguments], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=200, env=dict(
                                  os.environ, ATTNBENCH_PYTHON_ADAPTERS=self.folder,
                                  ATTNBENCH_PYTHON_BACKENDS=",".join(texts), PYTHONPATH=STANDIN,
                                  LD_LIBRARY_PATH=driver, ATTN_STANDIN=mistake))
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def verify(self, code, *arguments, text=RIGHT, backends=("mine",), **more):
        return self.attnbench({"mine": text}, code, "verify", *(f"-b{b}" for b in backends), *arguments,
                              **more)

    def listed(self, **more):
        found = json.loads(self.attnbench({"mine": RIGHT, "hip": RIGHT.replace('"cuda"', '"hip"')}, 0,
                                          "list", "backends", "--json", **more))
        return {b["name"]: b for b in found}

    def test_right_answers_pass(self):
        self.verify(0, CASE)
        said = self.verify(0, *PLAIN, "hq/hkv=4/2 b=2 sq=5 sk=9 d=4 mask=len:3/5 dtype=f16",
                           "h=2 s=9 d=8 dtype=bf16 view=gaps+permuted+broadcast+offset1",
                           "op=attention_backward h=2 s=9 d=4")
        self.assertIn("3 pass", said)

    def test_returned_arrays_are_fetched(self):
        said = self.verify(0, *PLAIN, "b=2 h=2 s=24 d=8", "h=2 s=9 d=8 view=gaps+permuted",
                           backends=("mine:how=returned", "mine:how=transposed"))
        self.assertIn("4 pass", said)

    def test_memory_of_the_device_that_is_refused_is_oom(self):
        self.assertIn("bind was refused memory: allocating", self.verify(6, "s=4 d=4 view=huge"))

    def test_what_is_listed(self):
        found = self.listed()
        self.assertTrue(found["mine"]["available"])
        self.assertIn("stand-in, driver for CUDA 13.0", found["mine"]["version"])
        self.assertEqual([(o["key"], o["choices"]) for o in found["mine"]["options"]],
                         [("how", "in_place|returned|transposed"), ("device", "")])
        self.assertEqual(found["hip"]["reason"], "DEVICE is 'hip', and only 'cuda' is known")

    def test_without_a_device_it_is_one_sentence(self):
        reason = "there is no GPU 0: the CUDA driver knows 0"
        self.assertEqual(self.listed(mistake="no_device")["mine"]["reason"], reason)
        self.assertIn(reason, self.verify(7, CASE, mistake="no_device"))
        if not os.path.exists("/dev/nvidiactl"):
            self.assertEqual(self.listed(driver="")["mine"]["reason"],
                             "no CUDA driver is installed (libcuda.so.1 cannot be opened)")

    def test_mistakes_are_found(self):
        said = self.attnbench({name: text for name, (text, *_) in MISTAKES.items()}, 3, "verify",
                              *(f"-b{name}" for name in MISTAKES), "h=2 s=24 d=8")
        for name, (_, status, words) in MISTAKES.items():
            self.assertRegex(said, rf"(?m)^{status} .* {name} ")
            self.assertIn(words, said)

    def test_functions_over_cupy(self):
        """On a device they get arrays there, and what they return is fetched; else it is copied in the run."""
        case, masked = "hq/hkv=4/2 sq=5 sk=9 d=8", "b=2 h=2 s=7 d=4 mask=bool:0.9:bqk view=gaps+permuted"
        file = os.path.join(self.folder, "over_cupy.py")
        with open(file, "w", encoding="ascii") as text:
            text.write(OVER_CUPY)
        for name, cases, code, words in (
                ("mine", [case, masked, case + " dtype=f16"], 0, "3 pass"),
                ("mine", [case + " dtype=bf16"], 7, "bf16 of CuPy is not supported"),
                ("wrong", [case], 3, "times 1.02"), ("copied", [case, masked], 0, "2 pass"),
                ("host", [case], 6, "run returned an array for out that is not on the device")):
            done = subprocess.run(
                [FOLDER + "/venv/bin/python3", "-m", "attnbench", "verify", f"{file}::{name}", *PLAIN, *cases],
                capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=200, env=dict(
                    os.environ, ATTNBENCH_PROGRAM=ATTNBENCH, LD_LIBRARY_PATH=DRIVER, ATTN_STANDIN="",
                    PYTHONPATH=":".join((CUPY, STANDIN, PACKAGE))))
            self.assertEqual(done.returncode, code, f"{name}\n{done.stdout}\n{done.stderr}")
            self.assertIn(words, done.stdout)

    def test_timings_are_those_of_the_device(self):
        """One run, because each measures the machine first."""
        texts = {"mine": RIGHT, "clock": CLOCK.replace("FACTOR", "1"), "slow": CLOCK.replace("FACTOR", "10"),
                 "fast": on_the_way("fast_clock"), "apart": APART}
        run = os.path.join(self.folder, "run")
        said = self.attnbench(texts, 3, "bench", *(f"-b{b}" for b in texts), "--rounds", "1", "--samples", "1",
                              "--min-time", "1ms", "-o", run, LARGE)
        with open(os.path.join(run, "results.ndjson"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        for name in ("mine", "clock"):
            found = [r for r in records if r.get("backend") == name and r["type"] == "bench"]
            self.assertEqual({r["cache"] for r in found}, {"hot", "cold"}, said)
            for record in found:  # memory: what `allocated` says, and how blocks were rounded
                self.assertTrue(1000 <= record["peak_bytes"] < 4000, record["peak_bytes"])
        for name, words in (("slow", "suspect: slow .* the device's clock says less than half"),
                            ("fast", "suspect: fast .* the device's clock says less than half"),
                            ("apart", "error: apart .* of work come after the last event: it is on a stream")):
            self.assertRegex(said.replace("\n", " "), words)


if __name__ == "__main__":
    unittest.main()
