"""Starts from one snapshot: restored by an unchanged CRIU, and cloned from a process that has read the memory. Both of
one snapshot, in one daemon: the first start of a snapshot is always a plain restore. Processor time and memory are those
of the sandbox's control groups when the create has answered."""

import os
import pathlib

from lib import client
from lib.part import timed
from parts.memory import Holder

LIMIT_S = {"tiny": 60, "short": 60, "full": 120}
FILLED = " huge pages, after "
PLAIN, CLONE = "plain restore", "clone"


def group_value(box, names):
    """The first number of such a file in a control group of the sandbox."""
    for tree in ("*/atoll-*", "atoll-*"):
        for name in names:
            for file in pathlib.Path("/sys/fs/cgroup").glob(f"{tree}/{box.id}/{name}"):
                return int(file.read_text().split()[1 if name == "cpu.stat" else 0])
    return None


def filled():
    """How many zygotes have been filled."""
    return pathlib.Path(os.environ["ATOLL_DATA"], "log").read_text(errors="replace").count(FILLED)


class Samples:
    def __init__(self):
        self.ms, self.cpu_ms, self.mb = [], [], []

    def start(self, snapshot):
        box, ms = timed(client.Box, snapshot)
        self.ms.append(ms)
        self.cpu_ms.append(group_value(box, ["cpu.stat"]) / 1000)
        self.mb.append(group_value(box, ["memory.current", "memory.usage_in_bytes"]) / 1e6)
        box.kill()


def starts(size, rounds, clones):
    """Plain restores and clones, in turn; a snapshot has one of the first kind."""
    plain, cloned = Samples(), Samples()
    box = Holder(size)
    try:
        for _ in range(rounds):
            snapshot = client.api("POST", f"/sandboxes/{box.id}/snapshots", {})["snapshotID"]
            before = filled()
            plain.start(snapshot)
            client.Box(snapshot).kill()  # it is worth a zygote now
            client.until(lambda: filled() > before, "the zygote is filled")
            for _ in range(clones):
                cloned.start(snapshot)
            client.api("DELETE", f"/templates/{client.quote(snapshot)}")
    finally:
        box.kill()
    return plain, cloned


def measure(part):
    for size, rounds in part.count({1: 1}, {1: 4, 100: 4}, {1: 8, 100: 8, 800: 3}).items():
        plain, cloned = starts(size, rounds, part.count(1, 3, 5))
        part.heading(f"Starts from one snapshot: {size} MB touched")
        for what, unit, of in (("create", "ms", lambda s: s.ms), ("processor time", "ms", lambda s: s.cpu_ms),
                               ("memory charged", "MB", lambda s: s.mb)):
            part.samples(f"{PLAIN}: {what}", of(plain), unit=unit, key=f"clones.{size}.plain.{what}")
            part.samples(f"{CLONE}: {what}", of(cloned), unit=unit, of=f"{PLAIN}: {what}", key=f"clones.{size}.clone.{what}")
