#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_hardening.py - programs and plugins as built have the protections that scripts/targets.cmake
asks for.  test_hardening.py BUILD FLAG...  (FLAG: what the compiler knows of these)"""
import glob
import json
import os
import re
import subprocess
import sys
import unittest

BUILD, FLAGS = sys.argv[1], sys.argv[2:]
PROGRAMS = glob.glob(os.path.join(BUILD, "bin/attnbench")) + glob.glob(
    os.path.join(BUILD, "lib*/attnbench/attnbench-worker"))
PLUGINS = glob.glob(os.path.join(BUILD, "lib*/attnbench/*.so"))
# Without canaries (scripts/README.md).
KERNEL = re.compile("/backends/(simd/flash|(naive|blas)/kernel)_")
# What -fcf-protection puts where jumps may land, and the probe of a page that -fstack-clash-protection
# makes (orq $0, (%rsp)).
ENDBR64 = b"\xf3\x0f\x1e\xfa"
PROBE = b"\x48\x83\x0c\x24\x00"


def readelf(option, file):
    done = subprocess.run(("readelf", "-W", option, file), check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"})
    return done.stdout


def code(file):
    """The bytes of the section .text."""
    found = re.search(r" \.text +PROGBITS +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", readelf("-S", file))
    with open(file, "rb") as data:
        data.seek(int(found[1], 16))
        return data.read(int(found[2], 16))


def names(file):
    return set(re.findall(r" UND (\w+)", readelf("--dyn-syms", file)))


class Hardening(unittest.TestCase):
    def each(self, files, check):
        self.assertTrue(files)
        for file in files:
            with self.subTest(file=file):
                check(file)

    def test_addresses_are_random(self):
        self.assertEqual(len(PROGRAMS), 2)
        self.each(PROGRAMS + PLUGINS, lambda file: self.assertRegex(readelf("-h", file), "Type: +DYN"))
        self.each(PROGRAMS, lambda file: self.assertRegex(readelf("-d", file), r"FLAGS_1.*\bPIE\b"))

    def test_tables_of_addresses_are_read_only(self):
        def check(file):
            self.assertIn("GNU_RELRO", readelf("-l", file))
            self.assertRegex(readelf("-d", file), r"\(FLAGS_1\).*\bNOW\b")
            self.assertNotIn("TEXTREL", readelf("-d", file))
        self.each(PROGRAMS + PLUGINS, check)

    def test_stacks_and_data_are_not_run(self):
        def check(file):
            segments = readelf("-l", file)
            self.assertRegex(segments, r"GNU_STACK .* RW +0x")
            self.assertNotIn(" RWE ", segments)
        self.each(PROGRAMS + PLUGINS, check)

    def test_the_code_has_canaries_and_checked_calls(self):
        def check(file):
            self.assertIn("__stack_chk_fail", names(file))
            self.assertTrue({"__snprintf_chk", "__vsnprintf_chk"} & names(file), names(file))
        self.each(PROGRAMS, check)

    @unittest.skipIf(os.uname().machine != "x86_64", "instructions of x86-64")
    def test_the_code_has_landing_pads_and_probes(self):
        def check(file):
            self.assertIn(ENDBR64, code(file))
        if "-fcf-protection=full" in FLAGS:
            self.each(PROGRAMS + PLUGINS, check)
        if "-fstack-clash-protection" in FLAGS:
            self.each(PROGRAMS, lambda file: self.assertIn(PROBE, code(file)))

    def test_no_file_is_compiled_without(self):
        with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as text:
            commands = [c for c in json.load(text)
                        if re.search("/(harness|reference|backends)/", c["file"])
                        and not re.search("/tests?/|/consumer/", c["file"] + " " + c["command"])]
        self.assertGreater(len(commands), 300)
        for c in commands:
            for flag in FLAGS:
                self.assertIn(f" {flag} ", c["command"], c["file"])
            self.assertNotRegex(c["command"], "-fno-(stack-clash|pie|PIE)|-z *norelro")
            if not KERNEL.search(c["file"]):
                self.assertNotIn("-fno-stack-protector", c["command"], c["file"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
