"""A sandbox with much memory runs before its memory is there, and has the memory of a plain restore in
the end, whatever it does meanwhile; nothing is saved or forgotten before that, and a pager that is
killed ends its sandbox and nothing else."""

import os
import random
import signal
import time
from glob import glob
from pathlib import Path

import httpx
import pytest
from daemon import running, until
from e2b import Sandbox

HOLDS_MB = 384
KILLS = 6

# Memory in several large areas, and a server that works on it while it is being filled.
HOLDER = f"""
import ctypes, hashlib, http.server, mmap, os, random, threading
libc = ctypes.CDLL(None, use_errno=True)
for name in ("mmap", "mremap"): getattr(libc, name).restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PAGE, MB = 4096, 1 << 20
DONTNEED, DONTFORK, WIPEONFORK = 4, 10, 18
SIZE = 16 * MB
def area(fill):
    at = libc.mmap(None, SIZE + PAGE, 3, 0x22, -1, 0)
    libc.munmap(at + SIZE, PAGE)  # areas are apart from each other
    ctypes.memmove(at, random.Random(fill).randbytes(MB) * 16, SIZE)
    return at
held = bytearray(random.Random(7).randbytes(MB) * {HOLDS_MB})
areas = dict((name, area(i)) for i, name in enumerate(("dropped", "moved", "gone", "wiped", "late", "kept", "split")))
libc.madvise(areas["wiped"], SIZE, WIPEONFORK)
def text(at, n=SIZE): return ctypes.string_at(at, n)
def sha(data): return hashlib.sha256(data).hexdigest()[:16]
def digest(*_): return sha(held)
def sums(*_): return " ".join([sha(text(at)) for _, at in sorted(areas.items())] + [digest()])
def child(work):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, work().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe: said = pipe.read()
    os.waitpid(pid, 0)
    return said
def grandchild(): return child(lambda: sha(text(areas["kept"])) + " " + sha(held))
# Each takes effect on pages that are there and on pages that are not. The answer is the same in any restore.
def work(*_):
    said = [child(lambda: sha(text(areas["wiped"])) + " " + sha(text(areas["kept"]) + bytes(held)))]
    libc.madvise(areas["dropped"] + 5 * MB, 6 * MB, DONTNEED)
    areas["moved"] = libc.mremap(areas["moved"], SIZE, SIZE, 3, 0x600000000000)
    libc.munmap(areas["gone"] + 4 * MB, 8 * MB)
    libc.mprotect(areas["split"] + 7 * MB, PAGE, 1)
    libc.mprotect(areas["split"] + 9 * MB + PAGE, 3 * PAGE, 0)
    libc.mprotect(areas["split"] + 9 * MB + PAGE, 3 * PAGE, 3)
    libc.madvise(areas["late"], SIZE, WIPEONFORK)
    said.append(child(lambda: sha(text(areas["late"])) + " " + grandchild()))
    libc.madvise(areas["late"], SIZE, 19)
    said += [sha(text(areas[name])) for name in ("dropped", "moved", "split", "late", "kept", "wiped")]
    said += [sha(text(areas["gone"], 4 * MB)), sha(text(areas["gone"] + 12 * MB, 4 * MB)), digest()]
    return " ".join(said)
def fork(*_): return child(lambda: sums())
def touch(*_): return str(sum(held[at] for at in range(len(held) - 1, 0, -(MB * 3 + PAGE))))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        verb, _, word = self.path[1:].partition("/")
        answer = globals()[verb](word)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def daemon():
    with running("--log-level", "debug") as daemon:
        yield daemon


def ask(daemon, sandbox, what):
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
    answer = httpx.get(f"{daemon.url}/{what}", headers=headers, timeout=120)
    return answer.text if answer.status_code == 200 else None


def holder(daemon):
    sandbox = Sandbox.create(timeout=3600, **daemon.sdk)
    sandbox.files.write("/home/user/holder.py", HOLDER)
    sandbox.commands.run("python3 holder.py", background=True, timeout=0)
    until(lambda: ask(daemon, sandbox, "touch"), "the holder answers")
    return sandbox


def pagers(sandbox):
    """The processes that fill the sandbox, which have one table of descriptors."""
    found = []
    for tree in ("*/atoll-*", "atoll-*"):
        for path in glob(f"/sys/fs/cgroup/{tree}/.fill-{sandbox.sandbox_id}/cgroup.procs"):
            found += Path(path).read_text().split()
    return [int(pid) for pid in found]


def filling(daemon):
    return [path.name for path in daemon.data.glob("**/filling/*")]


def resume(daemon, sandbox):
    return Sandbox.connect(sandbox.sandbox_id, timeout=3600, **daemon.sdk)


@pytest.fixture(scope="module")
def sums():
    """What a restore that waits for all its memory answers."""
    with running("--lazy-resume-mb", "0") as daemon:
        sandbox = holder(daemon)
        before = ask(daemon, sandbox, "sums")
        sandbox.pause()
        sandbox = resume(daemon, sandbox)
        assert not pagers(sandbox)
        assert ask(daemon, sandbox, "sums") == before
        yield {"sums": before, "work": ask(daemon, sandbox, "work")}


@pytest.fixture
def paused(daemon):
    sandbox = holder(daemon)
    sandbox.pause()
    yield sandbox
    sandbox.kill()


def test_a_command_runs_before_the_memory_is_there(daemon, paused, sums):
    sandbox = resume(daemon, paused)
    assert sandbox.commands.run("echo on").stdout == "on\n"
    assert pagers(sandbox), daemon.said()
    assert ask(daemon, sandbox, "sums") == sums["sums"]
    until(lambda: not pagers(sandbox), "all is there")
    assert ask(daemon, sandbox, "sums") == sums["sums"]
    assert not filling(daemon)


def test_memory_that_changes_during_the_fill_is_as_in_a_plain_restore(daemon, paused, sums):
    sandbox = resume(daemon, paused)
    assert pagers(sandbox)
    assert ask(daemon, sandbox, "work") == sums["work"]
