"""Sandboxes that start from one save share its memory until they write, and are what a plain restore
makes of it; a zygote that dies, is missing or has no room costs time and nothing else."""

import os
import random
import re
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from glob import glob
from pathlib import Path

import httpx
import pytest
from daemon import PROGRAM, children, name_of, running, until
from e2b import Sandbox
from e2b.exceptions import ServiceBusyException
from teams import add_team

HOLDS_MB = 64
CLONES = 100
KILLS = 12
ZYGOTES_MAX = 8  # of keeper/checkpoint/zygote.h

# Memory of every kind that clones could get wrong, and a server that tells of it.
HOLDER = f"""
import ctypes, hashlib, http.server, mmap, os, random, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PAGE, MB = 4096, 1 << 20
DONTNEED, WIPEONFORK, DONTFORK = 4, 18, 10
held = bytearray(random.Random(7).randbytes(MB) * {HOLDS_MB})
def pages(n, fill):
    at = libc.mmap(None, n * PAGE, 3, 0x22, -1, 0)
    ctypes.memset(at, fill, n * PAGE)
    return at
dropped = pages(1024, 0x41)     # its pages are given back after the clone
wiped = pages(4, 0x42)          # a child of the clone has zeroes there
libc.madvise(wiped, 4 * PAGE, WIPEONFORK)
kept = pages(4, 0x43)           # a child of the clone does not have it
libc.madvise(kept, 4 * PAGE, DONTFORK)
sparse = libc.mmap(None, 64 * MB, 3, 0x4022, -1, 0)
for at in range(0, 64 * MB, 3 * MB + 5 * PAGE):
    ctypes.memset(sparse + at, 0x44, 1)
readonly = pages(16, 0x45)
libc.mprotect(ctypes.c_void_p(readonly), 16 * PAGE, 1)
locked = pages(2, 0x46)
libc.mlock(ctypes.c_void_p(locked), 2 * PAGE)
shared = mmap.mmap(-1, 4 * PAGE)
shared[:4] = b"both"
child = os.fork()
if child == 0:
    own = bytearray(b"child" * 100000)
    while True: signal.pause()
def byte(at): return ctypes.string_at(at, 1)[0]
def digest(*_): return hashlib.sha256(held).hexdigest()
def sums(*_):
    where = [(dropped, 1024), (wiped, 4), (kept, 4), (readonly, 16), (locked, 2)]
    texts = [ctypes.string_at(at, n * PAGE) for at, n in where] + [bytes(held), ctypes.string_at(sparse, 64 * MB), shared[:]]
    return " ".join(hashlib.sha256(text).hexdigest()[:16] for text in texts)
def drop(*_):
    libc.madvise(dropped, 1024 * PAGE, DONTNEED)
    return str(sum(ctypes.string_at(dropped, 1024 * PAGE)))
def wipe(*_):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(sum(ctypes.string_at(wiped, 4 * PAGE))).encode())
        os._exit(0)
    os.wait()
    return os.read(read, 20).decode() + " " + str(byte(wiped))
def write(word):
    held[:len(word)] = word.encode()
    for at in range(0, len(held), PAGE): held[at + 100] = ord(word[-1])
    return digest()
def smaps(*_):
    return "".join(open(f"/proc/{{pid}}/smaps").read() for pid in (os.getpid(), child))
born = "".join(open(f"/proc/{{pid}}/maps").read() for pid in (os.getpid(), child))
def maps(*_): return born
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        verb, _, word = self.path[1:].partition("/")
        text = globals()[verb](word)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def daemon():
    with running("--log-level", "debug") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def snapshot(daemon):
    """Of a sandbox in which the holder runs."""
    sandbox = Sandbox.create(timeout=3600, **daemon.sdk)
    sandbox.files.write("/home/user/holder.py", HOLDER)
    sandbox.commands.run("python3 holder.py", background=True, timeout=0)
    until(lambda: ask(daemon, sandbox, "digest"), "the holder answers")
    snapshot = sandbox.create_snapshot()
    sandbox.kill()
    return snapshot.snapshot_id


def ask(daemon, sandbox, what):
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
    answer = httpx.get(f"{daemon.url}/{what}", headers=headers, timeout=60)
    return answer.text if answer.status_code == 200 else None


def zygotes(daemon):
    """The pids of the zygotes of this daemon's keeper."""
    keeper = daemon.child("keeper")
    return [pid for pid, _ in children(keeper) if name_of(pid) == "criu-zygote"] if keeper else []


def groups(*below):
    """Paths in the groups of all daemons, in every hierarchy. Some may go while one looks."""
    return [Path(path) for tree in ("*/atoll-*", "atoll-*") for path in glob(os.path.join("/sys/fs/cgroup", tree, *below))]


def said(daemon, text):
    return (daemon.data / "log").read_text(errors="replace").count(text)


def start(daemon, snapshot):
    return Sandbox.create(snapshot, timeout=3600, **daemon.sdk)


def zygote_of(daemon, snapshot):
    """Starts sandboxes from the snapshot until it has a zygote that is filled."""
    before = said(daemon, " huge pages")
    for _ in range(2):
        start(daemon, snapshot).kill()
    until(lambda: zygotes(daemon) and said(daemon, " huge pages") > before, f"it is filled\n{daemon.said()}")
    return zygotes(daemon)


def is_clone_of(daemon, sandbox, zygote):
    """Whether the sandbox's first process, which is in its group, is a child of the zygote."""
    below = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    return any(pid in below for file in groups(sandbox.sandbox_id, "cgroup.procs") for pid in file.read_text().split())


def charged(sandbox):
    """Bytes of memory that count against the limit of the sandbox."""
    files = [file for name in ("memory.current", "memory.usage_in_bytes") for file in groups(sandbox.sandbox_id, name)]
    return int(files[0].read_text())


def ranges(line):
    return [int(part, 16) for part in line.split()[0].split("-")]


def areas(smaps, maps):
    """Addresses, rights, names and flags of the mappings that there were before the save. Neighbours that are
    alike count as one: whether the kernel joins them depends on who touched which first, and so does the
    flag "accountable" (ac)."""
    saved = [ranges(line) for line in maps.splitlines()]
    found = []
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            start, end = ranges(line)
            _, rights, offset, _, _, *name = line.split()
            found.append([start, end, [rights, start - int(offset, 16) if name else 0, *name]])
        elif line.startswith("VmFlags:"):
            found[-1][2].append(sorted(set(line.split()[1:]) - {"ac"}))
    found = [area for area in found if any(start < area[1] and area[0] < end for start, end in saved)]
    joined = []
    for start, end, kind in found:
        if joined and joined[-1][1] == start and joined[-1][2] == kind:
            joined[-1][1] = end
        elif not any(str(part).startswith("[v") for part in kind):  # the kernel places its own where it likes
            joined.append([start, end, kind])
    return [(f"{start:x}-{end:x}", kind) for start, end, kind in joined]


@pytest.fixture(scope="module")
def plain(daemon, snapshot):
    """A sandbox of a plain restore: the first of a snapshot has no zygote."""
    sandbox = start(daemon, snapshot)
    assert not zygotes(daemon)
    return sandbox


def test_a_clone_has_the_memory_of_a_plain_restore(daemon, snapshot, plain):
    sums, smaps, maps = (ask(daemon, plain, what) for what in ("sums", "smaps", "maps"))
    [zygote] = zygote_of(daemon, snapshot)
    clone = start(daemon, snapshot)
    assert is_clone_of(daemon, clone, zygote), daemon.said()
    assert not is_clone_of(daemon, plain, zygote)
    assert ask(daemon, clone, "sums") == sums
    assert areas(ask(daemon, clone, "smaps"), maps) == areas(smaps, maps)
    clone.kill()


def test_pages_that_a_clone_gives_back_are_zeroes(daemon, snapshot, plain):
    [zygote] = zygotes(daemon) or zygote_of(daemon, snapshot)
    clone = start(daemon, snapshot)
    assert is_clone_of(daemon, clone, zygote)
    assert ask(daemon, clone, "drop") == "0"
    assert ask(daemon, clone, "wipe") == f"0 {0x42}", "a child has zeroes, the clone its bytes"
    again = start(daemon, snapshot)
    assert ask(daemon, again, "sums") == ask(daemon, plain, "sums"), "another clone has all of it"
    clone.kill()
    again.kill()


def test_no_clone_sees_what_another_writes(daemon, snapshot, plain):
    [zygote] = zygotes(daemon) or zygote_of(daemon, snapshot)
    sums = ask(daemon, plain, "sums")
    clones = [start(daemon, snapshot) for _ in range(4)]
    assert all(is_clone_of(daemon, clone, zygote) for clone in clones)
    digests = {ask(daemon, clone, f"write/clone{number}") for number, clone in enumerate(clones[:3])}
    assert len(digests) == 3
    assert ask(daemon, clones[3], "sums") == sums
    assert {ask(daemon, clone, "digest") for clone in clones[:3]} == digests
    later = start(daemon, snapshot)
    assert ask(daemon, later, "sums") == sums, "the zygote has it as it was saved"
    for clone in [*clones, later]:
        clone.kill()


def test_a_clone_is_charged_for_what_it_writes_and_its_limit_holds(daemon, snapshot, plain):
    [zygote] = zygotes(daemon) or zygote_of(daemon, snapshot)

    clone = start(daemon, snapshot)
    assert is_clone_of(daemon, clone, zygote)
    idle = charged(clone)
    assert idle < charged(plain) / 2, "its pages are the zygote's"
    ask(daemon, clone, "write/all")
    assert charged(clone) > idle + (HOLDS_MB << 20) * 0.9, "a page that it wrote is its own"
    other = start(daemon, snapshot)
    code = "x = bytearray(64 << 30); x[:] = b'1' * len(x)"
    with pytest.raises(Exception):
        clone.commands.run(f"python3 -c \"{code}\"", timeout=120)
    assert ask(daemon, other, "digest"), "only the one that took too much has lost a process"
    assert zygotes(daemon) == [zygote]
    clone.kill()
    other.kill()


def test_a_hundred_clones_answer(daemon, snapshot, plain):
    [zygote] = zygotes(daemon) or zygote_of(daemon, snapshot)
    digest = ask(daemon, plain, "digest")
    with ThreadPoolExecutor(16) as pool:
        clones = list(pool.map(lambda _: start(daemon, snapshot), range(CLONES)))
        try:
            assert sum(is_clone_of(daemon, clone, zygote) for clone in clones) == CLONES
            assert set(pool.map(lambda clone: ask(daemon, clone, "digest"), clones)) == {digest}
        finally:
            list(pool.map(lambda clone: clone.kill(), clones))


def test_a_clone_is_paused_and_cloned_again(daemon, snapshot, plain):
    [zygote] = zygotes(daemon) or zygote_of(daemon, snapshot)
    clone = start(daemon, snapshot)
    assert is_clone_of(daemon, clone, zygote)
    digest = ask(daemon, clone, "write/before")
    clone.pause()
    clone = Sandbox.connect(clone.sandbox_id, timeout=3600, **daemon.sdk)
    assert ask(daemon, clone, "digest") == digest
    filled = said(daemon, " huge pages")
    forks = clone.fork(count=4, timeout=600)
    assert said(daemon, " huge pages") > filled, "forks into several have a zygote of their own"
    assert {ask(daemon, fork, "digest") for fork in forks} == {digest}
    assert all(charged(fork) < charged(plain) / 2 for fork in forks), "the first one too shares their memory"
    assert ask(daemon, clone, "digest") == digest
    for each in [clone, *forks]:
        each.kill()


def test_a_zygote_that_does_not_answer_is_ended(daemon, snapshot, plain):
    [zygote] = zygotes(daemon) or zygote_of(daemon, snapshot)
    os.kill(zygote, signal.SIGSTOP)
    clone = start(daemon, snapshot)
    assert ask(daemon, clone, "digest") == ask(daemon, plain, "digest")
    until(lambda: zygote not in zygotes(daemon), "the zygote is gone")
    assert said(daemon, "it did not answer")
    clone.kill()


def test_a_snapshot_is_cloned_for_its_own_team_alone(daemon, snapshot, plain):
    zygote_of(daemon, snapshot)
    key = add_team(daemon, "another")
    before = said(daemon, "restore")
    for name in (snapshot, snapshot.partition(":")[0]):
        answer = httpx.post(f"{daemon.url}/sandboxes", headers={"X-API-Key": key}, json={"templateID": name, "timeout": 60})
        assert answer.status_code in (403, 404), answer.text
    assert said(daemon, "restore") == before, "nothing was restored for them"


def test_a_killed_zygote_costs_only_time(daemon, snapshot, plain):
    sums, dice, over = ask(daemon, plain, "sums"), random.Random(11), threading.Event()
    killed = []

    def kill():
        while not over.wait(dice.uniform(0, 0.4)):
            for pid in zygotes(daemon):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(KILLS):
                clones = list(pool.map(lambda _: start(daemon, snapshot), range(4)))
                assert {ask(daemon, clone, "sums") for clone in clones} == {sums}
                list(pool.map(lambda clone: clone.kill(), clones))
    finally:
        over.set()
        thread.join()
    assert killed


def test_a_zygote_ends_with_its_snapshot_and_with_the_keeper():
    with running() as daemon:
        sandbox = Sandbox.create(timeout=3600, **daemon.sdk)
        sandbox.commands.run("sleep 3600", background=True, timeout=0)
        one, other = sandbox.create_snapshot().snapshot_id, sandbox.create_snapshot().snapshot_id
        zygote_of(daemon, one)
        Sandbox.delete_snapshot(one, **daemon.sdk)
        until(lambda: not zygotes(daemon), "the zygote is gone")
        [zygote] = zygote_of(daemon, other)
        clone = start(daemon, other)
        assert is_clone_of(daemon, clone, zygote)
        daemon.kill_child("keeper")
        until(lambda: not Path(f"/proc/{zygote}").exists(), "the zygote has ended with the keeper")
        assert clone.commands.run("echo on").stdout == "on\n", "its clones have not"
        zygote_of(daemon, other)
        beside = {path.parent for path in groups(clone.sandbox_id)}
        left = {path.name for path in groups(".zygote-*") if path.parent in beside}
        assert len(left) == 1, "the groups of the first ones were removed"


def test_the_zygote_used_longest_ago_makes_room():
    with running() as daemon:
        sandbox = Sandbox.create(timeout=3600, **daemon.sdk)
        sandbox.commands.run("sleep 3600", background=True, timeout=0)
        snapshots = [sandbox.create_snapshot().snapshot_id for _ in range(ZYGOTES_MAX + 1)]
        first = zygote_of(daemon, snapshots[0])
        for each in snapshots[1:]:
            zygote_of(daemon, each)
        assert said(daemon, "another one needs its place") == 1
        until(lambda: not Path(f"/proc/{first[0]}").exists(), "the oldest has ended")
        assert len(zygotes(daemon)) == ZYGOTES_MAX
        assert start(daemon, snapshots[0]).commands.run("echo on").stdout == "on\n"


def holding(daemon):
    """A snapshot of a sandbox that holds some memory."""
    sandbox = Sandbox.create(timeout=3600, **daemon.sdk)
    hold = f"import os, time; held = os.urandom(1 << 20) * {HOLDS_MB}; open('held', 'w'); time.sleep(3600)"
    sandbox.commands.run(f'python3 -c "{hold}"', background=True, timeout=0)
    until(lambda: sandbox.files.exists("held"), "the memory is touched")
    snapshot = sandbox.create_snapshot().snapshot_id
    sandbox.kill()
    return snapshot


def test_a_zygote_that_nobody_uses_is_ended():
    with running("--share-memory-idle-s", "1") as daemon:
        snapshot = holding(daemon)
        for _ in range(2):
            start(daemon, snapshot).kill()
        until(lambda: said(daemon, "it was not used for long"), f"it is ended\n{daemon.said()}")
        until(lambda: not zygotes(daemon), "it is gone")
        assert start(daemon, snapshot).commands.run("echo on").stdout == "on\n"


class Memory:
    """The host's memory as keepers see it that start while it is covered: some of it can be taken away."""

    def __init__(self, file):
        self.file, self.text = file, Path("/proc/meminfo").read_text()
        self.total_kb = int(re.search(r"MemTotal: +(\d+)", self.text)[1])
        self.file.touch()
        self.leave(1 / 2)

    def leave(self, part):
        text = re.sub(r"(MemAvailable: +)\d+", rf"\g<1>{int(self.total_kb * part)}", self.text)
        with open(self.file, "r+") as file:  # in one piece: somebody may be reading
            file.write(text)
            file.truncate()

    @contextmanager
    def covered(self):
        """In the mount namespace of this process of the tests. Nothing can be restored meanwhile: the kernel mounts
        no other /proc beside one that is covered."""
        subprocess.run(["mount", "--bind", self.file, "/proc/meminfo"], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", "/proc/meminfo"], check=True)  # the keeper has it open


REFUSED = "for sandboxes that share memory and may write it"


def starts(daemon, snapshot):
    try:
        return start(daemon, snapshot).commands.run("echo on").stdout == "on\n"
    except ServiceBusyException as error:
        assert REFUSED in str(error)
        return False


def test_zygotes_end_and_starts_are_refused_when_the_host_has_little_memory(tmp_path):
    memory = Memory(tmp_path / "meminfo")
    with ExitStack() as stack:
        with memory.covered():
            daemon = stack.enter_context(running())
        snapshot = holding(daemon)
        [zygote] = zygote_of(daemon, snapshot)
        clone = start(daemon, snapshot)
        assert is_clone_of(daemon, clone, zygote)
        memory.leave(1 / 20)  # less than a sixteenth
        until(lambda: not zygotes(daemon), "it is gone")
        assert said(daemon, "the host has little memory left") == 1
        assert clone.commands.run("echo on").stdout == "on\n"
        assert starts(daemon, snapshot)
        assert not zygotes(daemon), "none is made while there is so little"
        memory.leave(1 / 40)  # nothing beyond what the clone may write
        assert not starts(daemon, snapshot)
        assert Sandbox.create(timeout=60, **daemon.sdk).commands.run("echo on").stdout == "on\n"
        with memory.covered():
            keeper = daemon.child("keeper")
            daemon.kill_child("keeper")
            until(lambda: daemon.child("keeper") not in (None, keeper) and daemon.is_ready(), "the next keeper is there")
        until(lambda: said(daemon, "keeper: ready") >= 2 or not starts(daemon, snapshot), "it serves")
        assert not starts(daemon, snapshot), "the next keeper knows of the clone"
        clone.kill()
        until(lambda: starts(daemon, snapshot), "there are no clones left to keep it for")


def test_workers_of_the_keeper_leave_zygotes_alone():
    with running("--keeper-workers", "2") as daemon:
        snapshot = holding(daemon)
        [zygote] = zygote_of(daemon, snapshot)
        clones = [start(daemon, snapshot) for _ in range(3)]
        assert all(is_clone_of(daemon, clone, zygote) for clone in clones)

        def workers():
            return {pid for pid, _ in children(daemon.child("keeper")) if name_of(pid) == "keeper-worker"}

        first = workers()
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(workers() - first) == len(first), "other workers were forked, beside the zygote")
        boxes = [Sandbox.create(timeout=60, **daemon.sdk) for _ in range(4)]
        assert all(box.commands.run("echo on").stdout == "on\n" for box in boxes)
        assert zygotes(daemon) == [zygote]
        assert is_clone_of(daemon, start(daemon, snapshot), zygote)


@pytest.fixture
def no_patched_criu(tmp_path):
    """Hides it, in the mount namespace of this process of the tests."""
    place = Path(os.environ.get("ATOLL_CACHE", "/var/cache/atoll")) / "criu-zygote"
    assert (place / "usr/sbin/criu").exists(), "`tools/deps criu-zygote` builds it"
    subprocess.run(["mount", "--bind", tmp_path, place], check=True)
    hidden = [place]

    def show():
        while hidden:
            subprocess.run(["umount", hidden.pop()], check=True)

    yield show
    show()


def doctor(*words):
    return subprocess.run([PROGRAM, "doctor", *words], stdout=subprocess.PIPE, text=True).stdout


def test_doctor_says_that_clones_share_pages():
    assert "with our patch clones sandboxes that start from one save" in doctor()
    assert "unless the daemon was started with share_memory" in doctor("--share-memory", "false")


def test_a_patched_criu_that_comes_later_is_used(no_patched_criu):
    with running() as daemon:
        snapshot = holding(daemon)
        clones = [start(daemon, snapshot) for _ in range(3)]
        assert all(clone.commands.run("echo on").stdout == "on\n" for clone in clones)
        assert all(charged(clone) > HOLDS_MB << 20 for clone in clones)
        assert not zygotes(daemon)
        assert said(daemon, "has a copy of its own until there is a CRIU with our patch") == 1
        assert "until `tools/deps criu-zygote` has built one with our patch" in doctor()
        no_patched_criu()

        def is_used():
            start(daemon, snapshot).kill()
            return zygotes(daemon)

        until(is_used, "the keeper has found it")


def test_without_shared_memory_each_has_a_copy_of_its_own():
    with running("--share-memory", "false") as daemon:
        snapshot = holding(daemon)
        clones = [start(daemon, snapshot) for _ in range(3)]
        assert all(charged(clone) > HOLDS_MB << 20 for clone in clones)
        assert not zygotes(daemon)
        assert said(daemon, "has a copy of its own (share_memory)") == 1
