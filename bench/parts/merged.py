"""A hundred code interpreters that hold equal pages of memory once (merge_pages): what each takes then, how long it
is until then and what that costs, and what it costs those who write to such a page."""

import pathlib
import time

from lib import client, memory
from parts import code, density

DAEMON_ARGS = f"{code.DAEMON_ARGS} --merge-pages true"
WHEN = ("full",)
LIMIT_S = {"tiny": 120, "short": 120, "full": 420}
MERGED_S = 240  # that it may take
STILL_RATIO = 0.01  # of what is merged: what a round may add when all is done
IDLE_S = 10
CELLS = 20
TICKS = 100  # of a second, in /proc

prepare = code.prepare


def scanner_s():
    """What the kernel's thread has taken of a processor."""
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        if comm.read_text() == "ksmd\n":
            fields = (comm.parent / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / TICKS
    return 0


def state():
    """How often all was looked through, and the bytes that are saved."""
    figures = client.figures()
    return figures["atoll_merge_scans_total"], figures["atoll_merged_saved_bytes"]


def wait_merged():
    """Until a whole round has added little."""
    deadline = time.monotonic() + MERGED_S
    scans, saved = state()
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now, bytes_now = state()
        if now >= scans + 2:  # one of them was whole
            if saved and bytes_now - saved <= STILL_RATIO * bytes_now:
                return
            scans, saved = now, bytes_now
    raise TimeoutError(f"pages were still being merged after {MERGED_S} s")


def idle_share():
    """Of one processor, once there is nothing left to merge."""
    began = scanner_s()
    time.sleep(IDLE_S)
    return 100 * (scanner_s() - began) / IDLE_S


def cells(part, n):
    ids = [one["sandboxID"] for one in client.api("GET", f"/v2/sandboxes?limit={n}")]
    boxes = [code.Notebook(one) for one in ids]
    first = "first cell, of merged memory"
    part.samples(first, [box.cell("1+1")[1] for box in boxes], key="merged.first")
    part.samples("second cell", [box.cell("1+1")[1] for box in boxes], of=first)


def measure(part):
    wanted = part.count(2, 10, 100)
    plain = part.client()
    part.heading(f"Density: {wanted} idle sandboxes of {code.TEMPLATE}, equal pages held once")
    before, scanned_s = memory.account(), scanner_s()
    n = density.filled(part, plain, code.TEMPLATE, wanted, "merged")
    began = time.monotonic()
    wait_merged()
    part.value("until all is merged, from the last create", time.monotonic() - began, "s", key="merged.time")
    part.value("ksmd until then, on a processor", scanner_s() - scanned_s, "s", key="merged.cpu")
    part.value("ksmd afterwards, of one processor", idle_share(), "%", key="merged.idle")
    density.cost(part, before, n, "merged")
    part.value("saved for each", state()[1] / 1024 / n, "kB", key="merged.saved")
    cells(part, min(n, CELLS))
    part.samples("kill of each", plain.kill_held(lanes=density.LANES))
