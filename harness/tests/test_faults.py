#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_faults.py - faults of every kind in every place of a plugin: each is called what it is, the
next backend is still judged, and the exit code says so.

test_faults.py PROGRAM PLUGIN [SHARE | KIND:PLACE...]   SHARE: of the cells, one in so many (default: all)
"""
import concurrent.futures
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import zlib

PROGRAM, PLUGIN = sys.argv[1:3]
CHOSEN = {cell for cell in sys.argv[3:] if ":" in cell}
SHARE = int(sys.argv[3]) if len(sys.argv) > 3 and not CHOSEN else 1

# Before the plugin is one of the roster, and after.
LOADING = ["constructor", "init", "probe", "version"]
CALLED = ["supports", "create", "numerics", "describe", "workspace", "bind", "run", "fetch", "release",
          "destroy"]

CRASH, TIMEOUT, OOM, ERROR, FAIL, PASS = "crash", "timeout", "oom", "error", "fail", "pass"
KINDS = {
    CRASH: "segv fetch_bad bus ill fpe abort stack kill term alarm trap usr1 int quit hup sys pipe xcpu "
           "stolen thread exit0 exit3 exit_now quick_exit thread_exit exec cut shut close_all replaced "
           "smash free_twice free_bad kill_group",
    TIMEOUT: "stop sleep spin deaf lock blocked_read flood_ever stop_group",
    OOM: "hog shared_hog child_hog heap_hog",
    ERROR: "garbage large type stale moves bomb forge_pass forge_fail forge_sync",
    FAIL: "mxcsr x87 rounding write_past write_before write_input read_past",
    PASS: "nap flood controls folder mask close_std umask environment affinity nice leak reserve fork "
          "setsid vfork sibling orphan fork_exit kill_init",
}
# Where there are operands.
OVERRUNS = "write_past write_before write_input read_past".split()
BOUND = ["run", "fetch", "release"]
# Numbers of the requests in which a place is reached: each is followed by another message.
REQUESTS = {"constructor": 1, "init": 1, "probe": 3, "version": 3, "supports": 3}
VERIFY = 7
# The plugin tries, has not done it, and goes on.
PREVENTED = ("kill_parent kill_all tgkill sigqueue pidfd priority memfd shm shm_file trace read "
             "descriptors write unlink create sysctl connect network namespace").split()
STATUS = {kind: status for status, kinds in KINDS.items() for kind in kinds.split()}
STATUS.update((kind, PASS) for kind in PREVENTED)
EXIT = {PASS: 0, FAIL: 3, CRASH: 6, TIMEOUT: 6, OOM: 6, ERROR: 6}
# Loading is no verdict: what is lost is incomplete, what is refused is bad input.
LOADING_EXIT = {**EXIT, ERROR: 2, FAIL: 2}
WORDS = {CRASH: ("crashed in", "exited with", "killed by", "closed its connection"),
         TIMEOUT: ("no answer within",), OOM: ("resident",), ERROR: ("worker", "processes"),
         FAIL: ("leaves", "past the end", "before the start", "input q"), PASS: ("",)}


def confined():
    """What strict is here, in words."""
    said = subprocess.run((PROGRAM, "doctor", "--json"), capture_output=True, text=True, check=False)
    return next(f["text"] for f in json.loads(said.stdout)["machine"] if f["what"] == "confinement")


def left_behind(name):
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/comm", encoding="utf-8") as file:
                if file.read().strip() == name:
                    return True
        except OSError:
            pass
    return False


def wrong(kind, place, scratch, address):
    """What is wrong with a cell, or None."""
    status = STATUS[kind]
    out = os.path.join(scratch, f"{kind}-{place}")
    name = f"x{zlib.crc32(out.encode()):08x}"
    results = os.path.join(out, "results.ndjson")
    argument = {"setsid": name, "sibling": name, "orphan": name, "connect": address,
                "write": results, "unlink": results, "create": results}.get(kind, "$$")
    if kind.startswith("forge"):
        argument = REQUESTS.get(place, VERIFY)
    # The shell becomes the program, so that its number is the host's.
    command = (f'ATTN_TEST_FAULT="{kind}:{place}:{argument}" exec "{PROGRAM}" verify --confine strict '
               f'--plugin "{PLUGIN}" -b faulty -b naive --fills none --checks none -o "{out}" '
               f'--memory 384M --timeout {2 if status == TIMEOUT else 60}s "h=1 s=8 d=8"')
    done = subprocess.run(("sh", "-c", command), capture_output=True, text=True, errors="replace",
                          timeout=240, check=False)
    loading = place in LOADING
    want = (LOADING_EXIT if loading else EXIT)[status]
    said = done.stdout + done.stderr
    if done.returncode != want:
        return f"exit {done.returncode}, not {want}: {said[-300:]}"
    if not any(word in said for word in WORDS[status]):
        return f"does not say what: {said[-300:]}"
    if not loading or status == PASS:
        with open(results, encoding="utf-8") as lines:
            records = [record for record in map(json.loads, lines) if record["type"] == "verify"]
        found = {record["backend"]: record for record in records}
        if found.get("naive", {}).get("status") != PASS:
            return "the next backend was not judged"
        if found["faulty"]["status"] != status:
            return f"{found['faulty']['status']}, not {status}: {found['faulty']['reason']}"
        with open(os.path.join(out, "workers.log"), encoding="utf-8", errors="replace") as log:
            said = log.read()
        # The roster's workers have no log.
        if not loading and f"reached {kind}" not in said:
            return "the place was never reached"
        if f"done {kind}" in said:
            return "was not prevented"
    # Killed, and gone in a moment.
    for _ in range(500):
        if not left_behind(name):
            return None
        time.sleep(0.01)
    return "outlived the run"


def main():
    level = confined()
    kinds = dict(STATUS)
    if "refused" in level:
        print(f"faults: {level}: what this kernel does not prevent is left out")
        for kind in PREVENTED + ["setsid", "sibling", "orphan", "kill_init", "bomb", "child_hog"]:
            del kinds[kind]
    # Before Linux 6.14 no namespace has a limit of its own: a bomb would hold up other programs.
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
        kinds.pop("bomb", None)
    cells = [(kind, place) for kind in kinds
             for place in (BOUND if kind in OVERRUNS else LOADING + CALLED)]
    cells = [cell for cell in cells if zlib.crc32(":".join(cell).encode()) % SHARE == 0
             and (not CHOSEN or ":".join(cell) in CHOSEN)]
    bad = 0
    with tempfile.TemporaryDirectory() as scratch, socket.socket(socket.AF_UNIX) as server:
        address = os.path.join(scratch, "server")
        server.bind(address)
        server.listen()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            work = {pool.submit(wrong, *cell, scratch, address): cell for cell in cells}
            for ended in concurrent.futures.as_completed(work):
                if ended.result():
                    bad += 1
                    print(*work[ended], ended.result(), sep=": ", flush=True)
    print(f"faults: {len(kinds)} kinds, {len(cells)} cells, {len(cells) - bad} right, {bad} wrong")
    return 1 if bad or not cells else 0


if __name__ == "__main__":
    sys.exit(main())
