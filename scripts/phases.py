# SPDX-License-Identifier: Apache-2.0
"""What verifying took, and what timing: verification must never be the wait.

    phases.py RUN    seconds by case of a run folder of `bench` or `run`, the worst first
"""
import json
import os
import sys


def seconds_by_case(run):
    """{case: [name, verifying and judging, timing]}, of cases that were timed."""
    cases = {}
    with open(os.path.join(run, "results.ndjson"), encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            if "id" not in record:  # an entry of the journal itself
                continue
            row = cases.setdefault(record["id"], [record["name"] or record["case"], 0.0, 0.0])
            if record["type"] == "verify":
                row[1] += record["verifying_s"]
            elif record["type"] == "bench":
                row[1] += record["judging_s"]
                row[2] += record["timing_s"]
    return [row for row in cases.values() if row[2] > 0]


def print_table(rows):
    rows = sorted(rows, key=lambda row: row[2] / row[1])
    for name, verifying, timing in rows:
        print(f"{timing / verifying:6.2f} {verifying:8.3f} s {timing:8.3f} s  {name}")
    verifying, timing = (sum(row[i] for row in rows) for i in (1, 2))
    slower = sum(row[1] > row[2] for row in rows)
    print(f"verifying {verifying:.1f} s, timing {timing:.1f} s, {len(rows)} cases, "
          f"{slower} of which verified for longer than they were timed")


print_table(seconds_by_case(sys.argv[1]))
