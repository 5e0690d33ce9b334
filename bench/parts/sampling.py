"""What it costs to sample sandboxes: processor time of the server and the keeper for each sample, and as a share of one
core for a thousand sandboxes. A while without sandboxes comes first and is taken off."""

import os
import pathlib
import time

from lib import client

LIMIT_S = {"tiny": 90, "short": 60, "full": 90}
ROUND_S = 5


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def used_s(pid):
    """Of all threads, to the nanosecond."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def watch(pids, span_s):
    """Processor time of each process, and the samples taken, over the time watched."""
    before, taken = [used_s(pid) for pid in pids], client.figures()["atoll_metrics_samples_total"]
    time.sleep(span_s)
    after = client.figures()["atoll_metrics_samples_total"]
    return [used_s(pid) - was for pid, was in zip(pids, before)], after - taken


def measure(part):
    plain, n, span_s = part.client(), part.count(5, 200, 500), part.count(6, 10, 15)
    pids = children(os.environ["ATOLL_DAEMON_PID"])
    idle, _ = watch(pids, span_s)
    plain.flows("create", n=n, lanes=8)
    time.sleep(ROUND_S)
    busy, taken = watch(pids, span_s)
    cost_s = sum(max(b - i, 0) for b, i in zip(busy, idle)) / max(taken, 1)
    part.heading(f"Sampling of {n} sandboxes")
    part.value("processor time of one sample", cost_s * 1e6, "us")
    part.value("for 1,000 sandboxes, of one core", cost_s * 1000 / ROUND_S * 100, "%")
    plain.kill_held()
