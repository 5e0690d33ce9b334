"""Processor time: of the machine, of a process, and of each thread of the daemon."""

import os
import pathlib

TICKS = os.sysconf("SC_CLK_TCK")
OURS = ("atoll", "atoll-keeper", "atoll-tools")


def machine_s():
    """That all processors have worked, for whomever: without waiting, and without what a hypervisor took."""
    user, nice, system, _, _, irq, softirq = map(int, pathlib.Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS


def process_s(pid):
    """Of all threads that it has."""
    return sum(threads_s(pid).values())


def threads_s(pid):
    """Of each thread, by its id, to the nanosecond."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().split()[0]) / 1e9
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return found


def program(pid):
    try:
        return pathlib.Path(os.readlink(f"/proc/{pid}/exe")).name
    except OSError:
        return ""


def daemon_pids():
    """The supervisor and all below it that are programs of the host: no process of a jail."""
    found, left = [], [os.environ["ATOLL_DAEMON_PID"]]
    while left:
        pid = left.pop()
        if program(pid) not in OURS:
            continue
        found.append(int(pid))
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                left += path.read_text().split()
            except OSError:
                continue
    return found


def daemon_threads_s():
    """Of each thread of the daemon, by its process and its id."""
    return {(pid, thread): used_s for pid in daemon_pids() for thread, used_s in threads_s(pid).items()}


def thread_name(pid, thread):
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    name = pathlib.Path(f"/proc/{pid}/task/{thread}/comm").read_text().strip()
    return f"{' '.join([os.path.basename(words[0]), *words[1:2]]).strip()}, thread {name}"
