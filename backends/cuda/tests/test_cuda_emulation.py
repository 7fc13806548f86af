#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cuda_emulation.py - the CUDA kernels on the host: all that they compute is right, and each
planted bug is found, by the check that is meant to find it.

    test_cuda_emulation.py BUILD_DIR            in short
    test_cuda_emulation.py BUILD_DIR hopper     the kernels of compute capability 9.0 at more sizes
"""
import math
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "scripts"))
import make_poison  # noqa: E402
import make_textbook  # noqa: E402

TILES = "h=1 sq=20 sk=150 d=64 dtype=f16 mask=causal_br"
NARROW = "h=1 sq=20 sk=40 dk/dv=33/20 dtype=bf16"
PAIRS = "h=1 sq=5 sk=70 d=8 dh=37 score=additive"
GRADIENTS = "op=attention_backward hq=2 hkv=1 sq=20 sk=70 d=8 mask=causal_br"
GRADIENT_TILES = "op=attention_backward h=1 sq=40 sk=150 d=64 dtype=f16 mask=causal_br"
SQUARE = "h=1 s=16 d=16 mask=causal"
# for kernels of compute capability 9.0: more tiles than shared memory holds; two blocks of a head, some
# rows of which see a whole tile; batch entries without keys, and views
HOPPER = "h=1 sq=66 sk=540 d=128 dtype=f16 out=lse"
HOPPER_ROWS = "hq=2 hkv=1 sq=200 sk=330 dk/dv=64/40 dtype=bf16 mask=causal_br"
HOPPER_LEN = "b=3 h=1 s=130 d=72 dtype=bf16 mask=causal+len:130/0/33 layout=bshd view=permuted sink=1 out=lse"
HOPPER_MHA = "op=mha h=2 s=70 d=16 e=24 dtype=f16 mask=window:20:7"
# each bug, where it shows, what is said of it, and in which backend
PLANTS = [
    ("lane", TILES, "elements wrong", "cuda_emu"),
    ("rescale", TILES, "elements wrong", "cuda_emu"),
    ("diagonal", TILES, "mask shifted by one", "cuda_emu"),
    ("barrier", TILES, "a race", "cuda_emu"),
    ("copy_wait", TILES, "before cp.async has filled it", "cuda_emu"),
    ("past_keys", TILES, "outside every allocation", "cuda_emu"),
    ("past_width", NARROW, "outside every allocation", "cuda_emu"),
    ("repair", "poison", "NaN", "cuda_emu"),
    ("edge", SQUARE, "elements wrong", "cuda_unfused_emu"),
    ("transposed", SQUARE, "elements wrong", "cuda_unfused_emu"),
    ("unfilled", PAIRS, "that nobody has written", "cuda_emu"),
    ("past_depth", PAIRS, "outside every allocation", "cuda_emu"),
    ("old_driver", SQUARE,
     "loading kernels into a driver for CUDA 13.0: the CUDA driver says: the provided PTX", "cuda_emu"),
    ("delta", GRADIENTS, "elements wrong", "cuda_emu"),
    ("heads", GRADIENTS, "elements wrong", "cuda_emu"),
    ("forbidden", GRADIENTS, "NaN", "cuda_emu"),
    ("diagonal", GRADIENTS, "elements wrong", "cuda_emu"),
    ("delta", GRADIENT_TILES, "elements wrong", "cuda_emu"),
    ("barrier", GRADIENT_TILES, "a race", "cuda_emu"),
    ("copy_wait", GRADIENT_TILES, "before cp.async has filled it", "cuda_emu"),
    ("past_keys", GRADIENT_TILES, "outside every allocation", "cuda_emu"),
    ("repair", "sight", "NaN", "cuda_emu"),
    ("meeting", "sight", "global memory that another thread has written", "cuda_emu"),
    ("meeting", "poison", "global memory that another thread has written", "cuda_emu"),
    ("hopper_full", HOPPER_ROWS, "before its phase has ended", "cuda_emu"),
    ("hopper_free", HOPPER, "that a product may still read", "cuda_emu"),
    ("hopper_wait", HOPPER, "that a product may still read", "cuda_emu"),
    ("hopper_settle", HOPPER, "elements wrong", "cuda_emu"),
    ("hopper_part", HOPPER, "elements wrong", "cuda_emu"),
    ("hopper_part", HOPPER_LEN, "elements wrong", "cuda_emu"),
    ("hopper_parity", HOPPER, "waits for what never comes", "cuda_emu"),
    ("hopper_repair", "forward", "NaN", "cuda_emu"),
]


def planted():
    """The names of the bugs, in the order of the emulated GPUs that have them."""
    with open(os.path.join(HERE, "emulation.h"), encoding="utf-8") as file:
        return re.findall(r"X\((\w+)\)", file.read().split("EMULATED_PLANTS(X)")[1].split("#")[0])


def verify(build, backend, cases):
    """(exit code, what was said)"""
    done = subprocess.run(
        [os.path.join(build, "bin", "attnbench"), "verify", "--plugin",
         os.path.join(build, "tests", "plugins", "cuda_emu.so"), "-b", backend, *cases],
        capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def passes(build, backend, cases):
    """Is every case right, and none refused."""
    code, text = verify(build, backend, cases)
    if code == 0 and "skip " not in text:
        return True
    print(text)
    return False


def attend(q, k, v):
    """out and lse of a causal row, from the keys and values that it sees."""
    s = [sum(x * y for x, y in zip(q, row)) / math.sqrt(len(q)) for row in k]
    if any(math.isnan(x) for x in s):
        return [math.nan] * len(v[0]), math.nan
    lse = math.log(sum(math.exp(x) for x in s))
    p = [math.exp(x - lse) for x in s]
    return [sum(x * row[c] for x, row in zip(p, v)) for c in range(len(v[0]))], lse


def sight_packs(forward, backward, generator):
    """What is not finite in keys and queries that neighbours do not see."""
    rows, width = 80, 16
    q, k, v, dout = (make_poison.normal_rows(generator, rows, width) for _ in range(4))
    k[70][5] = v[75][2] = q[3][1] = math.nan
    dout[9][4] = v[77][1] = math.inf
    out, lse = map(list, zip(*(attend(q[i], k[:i + 1], v[:i + 1]) for i in range(rows))))
    tensors = {"q": q, "k": k, "v": v, "dout": dout, "out": out}
    make_textbook.write_pack(
        forward, {"case": "mask=causal", "source": "NaN in sight of some rows"},
        {name: ("F16", [[tensors[name]]]) for name in "qkv"})
    make_textbook.write_pack(
        backward, {"case": "op=attention_backward mask=causal", "source": "NaN in sight of some rows"},
        {"lse": ("F32", [[lse]]), **{name: ("F16", [[x]]) for name, x in tensors.items()}})


def make_packs(folder):
    """NaN and infinities that must not be seen, some in sight of other rows of the same tile."""
    def write(path, metadata, tensors):
        metadata["case"] = metadata["case"].replace("+weights", "")
        half = {name: ("F16", tensors[name][1]) for name in "qkv"}
        make_textbook.write_pack(path, metadata, {**tensors, **half})

    make_textbook.FORMAT["F16"] = "e"
    make_poison.write_pack = write
    generator = random.Random(1)
    rows, tiles, forward, sight = (os.path.join(folder, name + ".safetensors")
                                   for name in ("rows", "tiles", "forward", "sight"))
    make_poison.pack(rows, 20, True, generator)
    make_poison.tiles_pack(tiles, generator)
    sight_packs(forward, sight, generator)
    return rows, tiles, forward, sight


def main():
    build, failures = sys.argv[1], 0
    devices = {plant: device for device, plant in enumerate(planted())}
    hopper = "cuda_emu:device=%d" % devices["hopper"]
    if sys.argv[2:] == ["hopper"]:
        sys.exit(not passes(build, hopper, [os.path.join(HERE, "hopper.cases")]))
    with tempfile.TemporaryDirectory() as folder:
        rows, tiles, forward, sight = make_packs(folder)
        emulation, unfused, gradients = (os.path.join(HERE, name + ".cases")
                                         for name in ("emulation", "unfused", "gradients"))
        failures += not passes(build, "cuda_emu", [emulation, rows, tiles, TILES, NARROW, PAIRS])
        failures += not passes(build, "cuda_emu", [gradients, GRADIENTS, GRADIENT_TILES, sight])
        failures += not passes(build, "cuda_unfused_emu", [unfused, rows, tiles, SQUARE])
        failures += not passes(build, hopper, [HOPPER, HOPPER_ROWS, HOPPER_LEN, HOPPER_MHA, forward])
        # the standard suite's small cases as they are: nothing is refused but what the skips name
        small = [os.path.join(HERE, "..", "..", "..", "cases", name + ".cases")
                 for name in ("backward", "edges", "masking", "mha", "scoring", "smoke")]
        code, text = verify(build, "cuda_emu", ["-b", "cuda_unfused_emu", "--fills", "none",
                                                "--checks", "none", *small])
        if code != 0:
            failures += 1
            print(text)
        packs = {"poison": rows, "forward": forward, "sight": sight}
        assert {"none", "hopper", *(plant for plant, *_ in PLANTS)} == set(devices)
        for plant, case, expected, backend in PLANTS:
            code, text = verify(build, "%s:device=%d" % (backend, devices[plant]),
                                [packs.get(case, case)])
            found = code in ((7,) if plant == "old_driver" else (3, 6)) and expected in text
            failures += not found
            print("%-10s %s" % (plant, "found" if found else "NOT FOUND:\n" + text))
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
