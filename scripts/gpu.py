#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu.py - what gpu.sh left in OUT, as Markdown: device, verdicts, rates, shares, what was wanted.

    gpu.py OUT FILE         writes FILE
    gpu.py --name OUT       prints the device's name as part of a path

Rates are medians; a share is of the dense peak that cases/gpu/gpus.json has for the device, for
decoding of the bandwidth of a copy, measured in the same process.
"""
import collections
import glob
import json
import os
import re
import sys

from bars import DASH, ROOT, Bar, geometric_mean, named

OURS, CUDNN = "cuda_flash", "cuda_cudnn"
READINGS = (("clock_mhz", "clock", "MHz"), ("memory_clock_mhz", "memory clock", "MHz"),
            ("temperature_c", "temperature", "°C"), ("power_w", "power", "W"))


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def device_name(machine):
    devices = [b for b in machine["backends"] if b["device"] and b["available"]]
    return max(devices, key=lambda b: b["name"] == OURS)["version"].split(",")[0]


def dense_peak(gpus, name):
    """GFLOP/s of f16 and bf16; None where the device is not listed."""
    known = [key for key in gpus["dense_tflops"] if re.match(rf"(NVIDIA )?{key}\b", name)]
    return 1000 * gpus["dense_tflops"][max(known, key=len)] if known else None


# ---- lines ----

def span(values, unit):
    low, high = min(values), max(values)
    return f"{low:.0f} {unit}" if low == high else f"{low:.0f} to {high:.0f} {unit}"


def state_lines(records):
    """What the device said of itself before and after each timing."""
    seen = [r["device"][when] for r in records if r["type"] == "round" and "device" in r
            for when in ("before", "after")]
    facts = [r["device"] for r in records if r["type"] == "bench" and "device" in r]
    for key, what, unit in READINGS:
        values = [reading[key] for reading in seen if reading[key]]
        if values:
            yield f"- {what}: {span(values, unit)}"
    held = collections.Counter(reading["throttled"] for reading in seen)
    yield "- clocks held down by: " + ", ".join(f"{what} ({n} of {len(seen)} readings)"
                                                for what, n in held.most_common())
    for key, what, unit, scale in (("launch_ns", "an empty launch, one of many", "us", 1e-3),
                                   ("copy_gbs", "a copy within memory, read and written", "GB/s", 1),
                                   ("cache_bytes", "largest cache", "MiB", 2.0**-20)):
        values = [fact[key] * scale for fact in facts if fact[key]]
        if values:
            yield f"- {what}: {min(values):.1f} to {max(values):.1f} {unit}"


def verdict_lines(out):
    for folder in ("small", "matrix", "peers", "suite"):
        path = os.path.join(out, folder, "results.ndjson")
        if not os.path.exists(path):
            continue
        records = [r for r in read(path) if r["type"] == "verify" and r["backend"] != "reference"]
        for backend in sorted({named(r) for r in records}):
            mine = [r for r in records if named(r) == backend]
            counts = collections.Counter(r["status"] for r in mine)
            reruns = sum(r["checks"].get("rerun") == "pass" for r in mine)
            yield (f"- {folder}, {backend}: " + ", ".join(f"{n} {s}" for s, n in sorted(counts.items())) +
                   (f"; the same bits in all reruns of {reruns} cases" if reruns else ""))
    for log in sorted(glob.glob(os.path.join(out, "*check.log"))):
        with open(log, encoding="utf-8") as file:
            found = re.findall(r"SUMMARY: (.*)", file.read())
        bad = [line for line in found if not line.startswith("0 ")]
        many = "" if len(found) == 1 else "es"
        yield f"- {os.path.basename(log)[:-4]}: {len(found)} process{many}, " + ("; ".join(bad) or "nothing found")
    with open(os.path.join(out, "left-out.txt"), encoding="utf-8") as file:
        yield from ("- left out: " + line.rstrip() for line in file)


# ---- tables ----

def kind_of(record):
    if record["sizes"]["op"] == "attention_backward":
        return "backward"
    return "decode" if record["sizes"]["sq"] == 1 else "forward"


def by_case(records, kind):
    """{case: {backend: record}} in order; of decoding the cold figures where there are some."""
    table = {}
    for r in records:
        if r["type"] == "bench" and kind_of(r) == kind:
            row = table.setdefault(r["case"], {})
            if named(r) not in row or r["cache"] == ("cold" if kind == "decode" else "hot"):
                row[named(r)] = r
    return table


def ratio(row):
    """Time of cuDNN over ours; None without either."""
    return (row[CUDNN]["time_ns"]["median"] / row[OURS]["time_ns"]["median"]
            if OURS in row and CUDNN in row else None)


def table_lines(table, decode, whole):
    """`whole`: what the share of a record is of, as a function; in G a second."""
    key, unit, scale = ("gbs", "GB/s", 1) if decode else ("gflops", "TFLOP/s", 1e-3)
    backends = list(dict.fromkeys(b for row in table.values() for b in row))
    yield f"| {unit} (share) | {' | '.join(backends)} | {OURS} over {CUDNN} |"
    yield "|---|" + "---:|" * (len(backends) + 1)
    for case, row in table.items():
        cells = []
        for backend in backends:
            record = row.get(backend)
            share = whole(record) if record else None
            cells.append(DASH if not record else f"{record[key] * scale:.0f}" +
                         (f" ({100 * record[key] / share:.0f} %)" if share else ""))
        over = ratio(row)
        yield f"| {case} | {' | '.join(cells)} | {f'{over:.2f}' if over else DASH} |"


def results(forward, decode, wanted):
    limits = wanted["over_cudnn"]
    found = {case: over for case, row in forward.items() for r in list(row.values())[:1]
             if (over := ratio(row)) and r["sizes"]["dk"] in limits["d"] and r["sizes"]["sq"] >= limits["from_s"]}
    least = min(found, key=found.get) if found else None
    yield Bar(f"{OURS} over {CUDNN}, least case", found.get(least), limits["least"],
              note=f" ({least})" if least else "")
    yield Bar(f"{OURS} over {CUDNN}, geometric mean", geometric_mean(found.values()) if found else None,
              limits["least"])
    shares = [row[OURS]["gbs"] / copy for row in decode.values()
              if OURS in row and (copy := row[OURS].get("device", {}).get("copy_gbs"))]
    yield Bar("decoding, best share of a copy's bandwidth", max(shares, default=None), wanted["decode"]["least"])


def text_of(out):
    with open(os.path.join(ROOT, "cases", "gpu", "gpus.json"), encoding="utf-8") as file:
        gpus = json.load(file)
    with open(os.path.join(out, "bench", "machine.json"), encoding="utf-8") as file:
        machine = json.load(file)
    records = read(os.path.join(out, "bench", "results.ndjson"))
    name = device_name(machine)
    peak = dense_peak(gpus, name)
    forward, backward, decode = (by_case(records, kind) for kind in ("forward", "backward", "decode"))
    versions = [f"- {b['name']}: {b['version']}" for b in machine["backends"] if b["device"]]
    known = f"{peak / 1000:.0f} TFLOP/s, {gpus['source']}" if peak else "not listed, so no shares"
    tables = []
    for title, table in (("Forward", forward), ("Backward", backward)):
        if table:
            tables += ["", f"## {title}, hot", "",
                       *table_lines(table, False, lambda r: peak if r["sizes"]["dtype"] in ("f16", "bf16") else None)]
    if decode:
        tables += ["", "## Decoding, cold where measured", "",
                   *table_lines(decode, True, lambda r: r.get("device", {}).get("copy_gbs"))]
    return "\n".join([
        f"# {name}", "",
        f"attnbench {machine['attnbench']['commit']}, {machine['date'][:10]}, "
        f"{machine['protocol']['rounds']} rounds; dense peak of f16 and bf16: {known}.", "",
        *versions, *state_lines(records), "", "## Verified", "",
        "Peers under all fills but `poison`, which libraries let through.", "",
        *verdict_lines(out), *tables, "",
        "## Wanted", "", "| what | measured | wanted | met |", "|---|---:|---:|---|",
        *(bar.row() for bar in results(forward, decode, gpus["wanted"])), ""])


def main():
    if sys.argv[1] == "--name":
        with open(os.path.join(sys.argv[2], "bench", "machine.json"), encoding="utf-8") as file:
            name = device_name(json.load(file))
        print(re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("nvidia ")).strip("-"))
        return
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text_of(sys.argv[1]))


if __name__ == "__main__":
    main()
