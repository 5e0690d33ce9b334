"""Sandboxes hold equal pages once if that is wanted, over a pause as well; else none of them takes part."""

import os
import re
from pathlib import Path

import httpx
from daemon import processes, running, until
from e2b import Sandbox

KSM = Path("/sys/kernel/mm/ksm")
KNOBS = "run", "pages_to_scan", "sleep_millisecs", "advisor_mode"
HELD_MB = 24
# Full of numbers, so that no page is empty or like another one of the same process.
HOLD = f"import array, time; held = array.array('Q', range(1, {HELD_MB} << 17)); time.sleep(3600)"
# What a process is told that asks to take part, for itself and for a page.
ASK = """
import ctypes, mmap
ask = ctypes.CDLL(None).prctl(67, 1, 0, 0, 0)
try:
    mmap.mmap(-1, 4096, mmap.MAP_PRIVATE).madvise(mmap.MADV_MERGEABLE)
except OSError as error:
    print(ask, error.errno)
"""

KERNEL = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
CAN_MERGE = (KSM / "run").exists() and KERNEL >= (6, 9)


def knobs():
    return [(KSM / name).read_text() for name in KNOBS if (KSM / name).exists()]


def holders(sandbox):
    """The process in that sandbox that holds memory, as the host sees it."""
    found = []
    for process in processes():
        try:
            if sandbox.sandbox_id in (process / "cgroup").read_text():
                found += [process] * (b"array.array" in (process / "cmdline").read_bytes())
        except OSError:
            continue  # it has ended
    return found


def takes_part(sandbox):
    """Whether memory of any of its processes may be merged."""
    return any(re.search(r"^VmFlags:.* mg\b", (each / "smaps").read_text(), re.M) for each in holders(sandbox))


def shared_kb(sandbox):
    """What its process holds of merged pages."""
    texts = [(each / "smaps_rollup").read_text() for each in holders(sandbox)]
    return max((int(found[1]) for text in texts if (found := re.search(r"^KSM:\s+(\d+)", text, re.M))), default=0)


def held(daemon):
    sandbox = Sandbox.create(timeout=3600, **daemon.sdk)
    sandbox.commands.run(f'exec python3 -c "{HOLD}"', background=True, timeout=0)
    until(lambda: holders(sandbox), "it runs")
    return sandbox


def saved_bytes(daemon):
    page = httpx.get(f"{daemon.url}/metrics", headers={"X-API-Key": daemon.key}).text
    found = re.search(r"^atoll_merged_saved_bytes (\S+)", page, re.M)
    return found and float(found[1])


def test_equal_pages_are_held_once_when_that_is_wanted():
    """Or the operator is told why not, and sandboxes run all the same."""
    if not CAN_MERGE:
        with running("--merge-pages", "true") as daemon:
            assert "merge_pages: equal pages are not merged: " in daemon.said()
            assert not takes_part(held(daemon))
        return
    before = knobs()
    with running("--merge-pages", "true") as daemon:
        one, other = held(daemon), held(daemon)
        for each in (one, other):
            until(lambda: shared_kb(each) > HELD_MB * 900, "its memory is merged")
        assert saved_bytes(daemon) > HELD_MB << 19
        one.pause()
        one.connect(timeout=3600, **daemon.sdk)
        until(lambda: shared_kb(one) > HELD_MB * 900, "it is merged anew")
        daemon.kill_child("keeper")  # the next one knows that the settings are its own to put back
        other.pause()
        daemon.stop()
        assert knobs() == before

        daemon.settings += ["--merge-pages", "false"]
        daemon.start()
        other.connect(timeout=3600, **daemon.sdk)
        assert holders(other) and not takes_part(other)
        assert takes_part(one)  # it has run all the while
        assert saved_bytes(daemon) is None
        plain = held(daemon)
        assert not takes_part(plain)
        assert plain.commands.run(f'python3 -c "{ASK}"').stdout == "-1 22\n"
        assert knobs() == before
