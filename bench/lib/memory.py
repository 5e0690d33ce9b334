"""What the host, the daemon and the sandboxes hold of memory."""

import os
import pathlib
import re

from lib import client


def kb(path, name):
    """A line "Name: N kB" of a file in /proc."""
    found = re.search(rf"^{name}:\s*([0-9]+) kB", pathlib.Path(path).read_text(), re.M)
    return int(found[1]) if found else 0


def available_kb():
    return kb("/proc/meminfo", "MemAvailable")


# What of the kernel's own account a sandbox shows up in.
FIELDS = ("AnonPages", "Slab", "KernelStack", "PageTables", "Percpu", "Shmem")


def account():
    """The host's memory in kB by what it is used for, and what is available."""
    return {name: kb("/proc/meminfo", name) for name in ("MemAvailable", *FIELDS)}


def spent(before, n):
    """What has been used since, for each of n: in all, and by what it is used for."""
    now = account()
    return (before["MemAvailable"] - now["MemAvailable"]) / n, {name: (now[name] - before[name]) / n for name in FIELDS}


def daemon_kb():
    """Of the server, the keeper and their supervisor, each resident."""
    top = int(os.environ["ATOLL_DAEMON_PID"])
    children = pathlib.Path(f"/proc/{top}/task/{top}/children").read_text().split()
    found = {}
    for pid in [str(top), *children]:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        name = words[1] if pid != str(top) else "supervisor"
        found[name] = kb(f"/proc/{pid}/status", "VmRSS")
    return found


def serve_kb():
    return client.figures()["process_resident_memory_bytes"] / 1024


def groups_kb(sandbox_id):
    """What the kernel charges to the cgroups of that sandbox and of all beside it: of each."""
    for knob, root in (("memory.usage_in_bytes", "/sys/fs/cgroup/memory"), ("memory.current", "/sys/fs/cgroup")):
        own = next(pathlib.Path(root).glob(f"atoll*/{sandbox_id}/{knob}"), None)
        if own:
            return [int(path.read_text()) / 1024 for path in own.parent.parent.glob(f"*/{knob}")]
    return []
