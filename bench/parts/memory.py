"""Pause, resume, snapshot and fork beside plain `criu dump` and `criu restore`.

The peer is a small tree in namespaces of its own on the same root filesystem, with as many tmpfs mounts as a sandbox has
and the same memory; CRIU is the keeper's. Its dump is neither synced nor has it a disk to go with it: it is the limit."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from lib import client, memory
from lib.part import timed

LIMIT_S = {"tiny": 90, "short": 100, "full": 180}
READY = "atoll: resume, until its first command has answered"
TEN = 10
SETTLE_S = 1  # the kernel frees what was used on the way a moment later
HOLD = "import os, time; held = os.urandom(1 << 20) * {}; open('/run/held', 'w'); time.sleep(10**6)"
CRIU = ("--tcp-established", "--manage-cgroups=ignore", "--network-lock", "skip", "--file-locks",
        "--link-remap", "--empty-ns", "net")

# ---- the sandbox ----


class Holder(client.Box):
    """A sandbox that holds memory."""

    def __init__(self, size):
        super().__init__()
        if size:
            self.run(f'setsid python3 -c "{HOLD.format(size)}" >/dev/null 2>&1 </dev/null &')
            client.until(lambda: "held" in self.run("ls /run"), "the memory is touched")

    def pause(self):
        client.api("POST", f"/sandboxes/{self.id}/pause", {})

    def resume(self):
        client.api("POST", f"/sandboxes/{self.id}/connect", {"timeout": 3600})

    def snapshot(self):
        made = client.api("POST", f"/sandboxes/{self.id}/snapshots", {})["snapshotID"]
        client.api("DELETE", f"/templates/{client.quote(made)}")

    def still_ms(self):
        """For how long the last snapshot made it stand still."""
        log = pathlib.Path(os.environ["ATOLL_DATA"], "log").read_text(errors="replace")
        found = re.findall(rf"sandbox {self.id}: saved .* stood still for ([0-9.]+) ms", log)
        return float(found[-1]) if found else None

    def fork(self, count):
        made = client.api("POST", f"/sandboxes/{self.id}/fork", {"count": count, "timeout": 600})
        failed = [one for one in made if "sandbox" not in one]
        if failed:
            raise RuntimeError(f"a fork failed: {failed[0]}")
        return [one["sandbox"]["sandboxID"] for one in made]


# ---- the peer ----

TREE = """set -e
root=$1; shift
mount -t tmpfs none $root/dev
mkdir $root/dev/shm
mknod -m 666 $root/dev/null c 1 3
for place in dev/shm run tmp; do mount -t tmpfs none $root/$place; done
mount -t proc none $root/proc
cd $root
mkdir run/old
pivot_root . run/old
umount -l /run/old
rmdir /run/old
exec setsid "$@" </dev/null >/dev/null 2>&1"""


def criu_words():
    """The program as the keeper finds it; None: there is none."""
    at = pathlib.Path(os.environ.get("ATOLL_CACHE", "/var/cache/atoll"), "criu")
    libraries = next(iter((at / "usr/lib").glob("*-linux-gnu")), None)
    if libraries is None:
        return ["criu"] if shutil.which("criu") else None
    loader = next(libraries.glob("ld-linux-*.so.*"))
    return [str(loader), "--library-path", str(libraries), str(at / "usr/sbin/criu")]


class Tree:
    """The same without a daemon."""

    def __init__(self, size, scratch, criu):
        self.criu, self.root, self.images = criu, f"{scratch}/root", f"{scratch}/images"
        idle = ["/bin/sh", "-c", "sleep 1000000 & wait"]
        command = ["/usr/bin/python3", "-c", HOLD.format(size)] if size else idle
        unshare = ["unshare", "-f", "--pid", "--mount", "--net", "--uts", "--ipc", "--propagation", "private"]
        self.starter = subprocess.Popen([*unshare, "sh", "-c", TREE, "sh", self.root, *command],
                                        stderr=subprocess.DEVNULL)
        client.until(self.find, "the peer's tree is there")
        held = pathlib.Path(f"/proc/{self.pid}/root/run/held")
        client.until(held.exists if size else lambda: True, "the peer's memory is touched")
        time.sleep(0.5)

    def find(self):
        children = pathlib.Path(f"/proc/{self.starter.pid}/task/{self.starter.pid}/children").read_text().split()
        self.pid = int(children[0]) if children else 0
        command = pathlib.Path(f"/proc/{self.pid}/cmdline").read_text() if self.pid else ""
        return command.startswith("/")  # the shell that prepares it is called by its name alone

    def work(self, verb, *words):
        done = subprocess.run([*self.criu, verb, "-D", self.images, "-o", "log", *CRIU, *words],
                              capture_output=True, text=True)
        if done.returncode:
            log = pathlib.Path(self.images, "log").read_text(errors="replace").splitlines()
            raise RuntimeError("criu failed: " + " ".join(line for line in log if "Error" in line)[:400])

    def dump(self):
        shutil.rmtree(self.images, ignore_errors=True)
        os.mkdir(self.images)
        self.work("dump", "-t", str(self.pid))

    def restore(self):
        self.work("restore", "-d", "--root", self.root, "--pidfile", f"{self.images}/pid")
        self.pid = int(pathlib.Path(self.images, "pid").read_text())

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


# ---- the measurement ----


def forks_wanted(part, size):
    """As many as fit into half of what is free."""
    return max(1, min(part.count(2, 10 if size else 100, 100), memory.available_kb() // 2048 // (size + 10)))


def saves(part, size, rounds, criu):
    """Each in turn; the ms of each by its name, and what each of so many forks takes of the host's memory."""
    taken, fork_kb = {}, {}
    box = Holder(size)
    tree = Tree(size, part.scratch, criu) if criu else None

    def add(name, work, *words):
        result, ms = timed(work, *words)
        taken.setdefault(name, []).append(ms)
        return result

    try:
        for _ in range(rounds):
            if tree:
                add("criu dump", tree.dump)
            add("atoll: pause, durable", box.pause)
            if tree:
                add("criu restore", tree.restore)
            began = time.monotonic()
            add("atoll: resume", box.resume)
            box.run("true")
            taken.setdefault(READY, []).append((time.monotonic() - began) * 1000)
            add("atoll: snapshot, durable", box.snapshot)
            still = box.still_ms()
            if still is not None:
                taken.setdefault("atoll: of it the source stands still", []).append(still)
            for one in add("atoll: fork", box.fork, 1):
                client.api("DELETE", f"/sandboxes/{one}")
        for count in sorted({forks_wanted(part, size), *([TEN] if size == 100 else [])}):
            before = memory.account()
            made = add(f"atoll: {count} forks at once", box.fork, count)
            time.sleep(SETTLE_S)
            fork_kb[count] = memory.spent(before, count)[0]
            for one in made:
                client.api("DELETE", f"/sandboxes/{one}")
            time.sleep(SETTLE_S)
    finally:
        if tree:
            tree.kill()
        box.kill()
    return taken, fork_kb


OF = {"atoll: pause, durable": "criu dump", "atoll: snapshot, durable": "criu dump",
      "atoll: of it the source stands still": "criu dump", "atoll: resume": "criu restore", "atoll: fork": "criu restore"}
OF[READY] = "criu restore"
OF[f"atoll: {TEN} forks at once"] = "criu restore"
KEYS = {  # by the MB that are touched
    0: {"atoll: pause, durable": "memory.pause", "atoll: resume": "memory.resume", "atoll: 100 forks at once": "memory.forks"},
    100: {f"atoll: {TEN} forks at once": "memory.100.forks"},
    1000: {READY: "memory.1000.ready", "atoll: fork": "memory.1000.fork"},
}


def compare(part, criu):
    for size, rounds in part.count({0: 1}, {0: 5, 100: 3, 1000: 1}, {0: 10, 100: 5, 1000: 3}).items():
        part.heading(f"Memory: {size} MB touched" if size else "Memory: an empty sandbox")
        if not criu:
            part.row("criu: not installed", {})
        taken, fork_kb = saves(part, size, rounds, criu)
        for name, samples in taken.items():
            part.samples(name, samples, of=OF.get(name), key=KEYS[size].get(name))
        for count, kb in fork_kb.items():
            part.value(f"atoll: host memory of each of {count} forks", kb, "kB",
                       key="memory.1000.fork.memory" if size == 1000 else None)


def measure(part):
    part.alone()
    # CRIU keeps what it learns of the kernel in /run: the measurement has one of its own.
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    os.mkdir(f"{part.scratch}/root")
    subprocess.run(["mount", "--bind", part.layer(), f"{part.scratch}/root"], check=True)
    try:
        compare(part, criu_words())
    finally:
        subprocess.run(["umount", f"{part.scratch}/root"], check=False)
