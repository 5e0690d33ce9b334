"""Pages of a list of 10,000 sandboxes beside one of 10, from the API alone: no keeper is behind it."""

import json
import os
import subprocess

LIMIT_S = {"tiny": 90, "short": 30, "full": 30}


def measure(part):
    program = f"{os.environ['BENCH_BUILD']}/bench/bench-list"
    done = subprocess.run([program, str(part.count(5, 100, 300))], check=True, capture_output=True, text=True)
    part.heading("Lists, over HTTP")
    rows = json.loads(done.stdout)
    first = next(iter(rows))
    for name, samples in rows.items():
        part.samples(name, samples, of=first)
