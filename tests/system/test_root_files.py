"""The root of a jail prepares the names that root of the host opens when the jail is saved and restored:
FIFOs, links to the host's paths, sparse files, names that change all the time. Each save, restore and
fork ends, well or with a sentence; no process of root's is left waiting, nothing is left in the pool, and
the daemon can be started again."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
from daemon import until
from e2b import Sandbox

ANSWER_S = 120  # for any one call: far more than it takes, far less than a worker's own limit
RACE_S = 20
RACE_SAVES = 8
RACE_AGENT_MB = 9  # within what an agent may be

# In front of every trap: what it may call.
PRELUDE = """
import ctypes, fcntl, os, socket, stat, sys, time
libc = ctypes.CDLL(None, use_errno=True)
HOME = "/run/atoll"

def away():
    os.rename(HOME, "/run/hidden")

def instead():
    away()
    os.mkdir(HOME)

def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)

def exchange(a, b):
    return libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
"""

# What the jail's root does before it is saved. Names that it cannot change stay as they are.
TRAPS = {
    "a FIFO as boot id": """
        os.rename(HOME + "/boot_id", HOME + "/b2")
        os.mkfifo(HOME + "/boot_id")
    """,
    "a FIFO at every name": """
        for name in os.listdir(HOME):
            try:
                os.rename(f"{HOME}/{name}", f"{HOME}/x-{name}")
                os.mkfifo(f"{HOME}/{name}")
            except OSError:
                pass  # something is mounted there
    """,
    "device nodes": """
        for name in os.listdir(HOME):
            try:
                os.rename(f"{HOME}/{name}", f"{HOME}/x-{name}")
                os.mknod(f"{HOME}/{name}", stat.S_IFCHR | 0o600, os.makedev(5, 0))
            except OSError:
                pass
    """,
    "a FIFO as the directory": "away(); os.mkfifo(HOME)",
    "a file as the directory": "away(); open(HOME, 'w').close()",
    "a link to the host's root": "away(); os.symlink('/', HOME)",
    "a link to a secret of the host's": "instead(); os.symlink('/etc/shadow', HOME + '/agent')",
    "a link back to itself": "away(); os.symlink(HOME, HOME)",
    "FIFOs in a directory of its own": "instead(); os.mkfifo(HOME + '/agent'); os.mkfifo(HOME + '/boot_id')",
    "a sparse agent": "instead(); sparse(HOME + '/agent', 4 << 30)",
    "an agent of its own": "instead(); open(HOME + '/agent', 'wb').write(os.urandom(9 << 20))",
    "a sparse boot id": "os.unlink(HOME + '/boot_id'); sparse(HOME + '/boot_id', 4 << 30)",
    "a link as boot id": "os.unlink(HOME + '/boot_id'); os.symlink('/proc/1/root/etc/hostname', HOME + '/boot_id')",
    "a directory as boot id": "os.unlink(HOME + '/boot_id'); os.mkdir(HOME + '/boot_id')",
    "a socket as boot id": """
        os.unlink(HOME + "/boot_id")
        socket.socket(socket.AF_UNIX).bind(HOME + "/boot_id")
    """,
    "hard links": """
        for i in range(1000):
            os.link(HOME + "/boot_id", f"{HOME}/l{i}")
    """,
    "no boot id": "os.unlink(HOME + '/boot_id')",
    "a link on the way to a boot id that is gone": """
        os.mkdir(HOME + "/d")
        os.rename(HOME + "/boot_id", HOME + "/d/boot_id")
        os.unlink(HOME + "/d/boot_id")
        os.rmdir(HOME + "/d")
        os.symlink("/var/tmp", HOME + "/d")
    """,
    "no directory behind /dev/shm": "os.rmdir(HOME + '/shm'); os.symlink('/var/tmp', HOME + '/shm')",
    "a huge directory": """
        for i in range(20000):
            open(f"{HOME}/{i:0200}", "w").close()
    """,
    "odd names": """
        for name in ["a\\n(00.1) Error (x.c:1): odd", " ", "\\\\", "-rf", "\\x1b[2J", "x" * 255]:
            os.mkfifo(f"{HOME}/{name}")
            os.mkdir(f"{HOME}/{name}."[:260]) if len(name) < 200 else None
    """,
    "deep directories": """
        os.chdir(HOME)
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
    """,
    "directories without end": """
        os.chdir(HOME)
        for _ in range(20000):
            os.mkdir("d")
            os.chdir("d")
    """,
}

# Goes on while it is saved.
LIVELY = {
    "a lease on the boot id": """
        fd = os.open(HOME + "/boot_id", os.O_RDONLY)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        time.sleep(3600)
    """,
    "a directory that changes places": f"""
        os.mkdir("/run/evil")
        open("/run/evil/agent", "wb").write(os.urandom(1 << 20) * {RACE_AGENT_MB})
        os.mkfifo("/run/evil/boot_id")
        end = time.monotonic() + {RACE_S}
        while time.monotonic() < end:
            exchange(HOME, "/run/evil")
    """,
    "a link that changes places": f"""
        os.symlink("/run/atoll", "/run/evil")
        end = time.monotonic() + {RACE_S}
        while time.monotonic() < end:
            exchange(HOME, "/run/evil")
    """,
}


@pytest.fixture
def sandbox(daemon):
    sandbox = Sandbox.create(timeout=1200, **daemon.sdk)
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def source(trap):
    lines = trap.splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return PRELUDE + "\n".join(line[indent:] for line in lines) + "\n"


def spring(sandbox, trap, background=False):
    sandbox.files.write("/tmp/trap.py", source(trap), user="root")
    return sandbox.commands.run("python3 /tmp/trap.py", user="root", background=background, timeout=0)


class Calls:
    """Plain HTTP, and every answer is a success or a sentence. What was made is removed again."""

    def __init__(self, daemon):
        self.daemon, self.sandboxes, self.snapshots = daemon, [], []

    def ask(self, method, path, body=None):
        answer = httpx.request(
            method, self.daemon.url + path, headers={"X-API-Key": self.daemon.key}, json=body, timeout=ANSWER_S
        )
        if answer.status_code >= 400:
            message = answer.json()["message"]
            print(f"{method} {path}: {answer.status_code} {message}")
            assert message.strip(), "refused without a sentence"
        return answer

    def snapshot(self, sandbox_id):
        answer = self.ask("POST", f"/sandboxes/{sandbox_id}/snapshots", {})
        if answer.status_code >= 400:
            return None
        self.snapshots.append(answer.json()["snapshotID"])
        return self.snapshots[-1]

    def create(self, snapshot):
        answer = self.ask("POST", "/sandboxes", {"templateID": snapshot, "timeout": 600})
        if answer.status_code < 400:
            self.sandboxes.append(answer.json()["sandboxID"])
        return answer.status_code < 400

    def clean(self):
        for row in self.ask("GET", "/v2/sandboxes").json():
            self.ask("DELETE", f"/sandboxes/{row['sandboxID']}")
        for snapshot in self.snapshots:
            self.ask("DELETE", f"/templates/{snapshot}")


@pytest.fixture
def calls(daemon):
    calls = Calls(daemon)
    yield calls
    calls.clean()


def groups_of(daemon):
    """The directory of its v2 control groups."""
    command = Path(f"/proc/{daemon.child('keeper')}/cmdline").read_bytes().split(b"\0")
    name = "atoll-" + command[5].decode()
    places = [Path("/sys/fs/cgroup") / name, Path("/sys/fs/cgroup/unified") / name]
    return next(place for place in places if place.is_dir())


def is_outside(pid):
    """Those of a jail are in a pid namespace of their own."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    inner = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid")), [])
    return len(inner) == 1 and "State:\tZ" not in status


def at_work(groups):
    """Processes of root's in the groups of jails and of work on them: workers, CRIU and its children. A zygote is not at
    work: it waits for the next start from its save."""
    pids = []
    for group in os.listdir(groups) if groups.is_dir() else []:
        if group.startswith(".zygote-"):
            continue
        try:
            pids += (groups / group / "cgroup.procs").read_text().split()
        except OSError:
            continue  # a file, or a group that is gone
    return [int(pid) for pid in pids if is_outside(pid)]


def check_nothing_is_left(daemon):
    groups = groups_of(daemon)
    until(lambda: not at_work(groups), "no process of root's is left at work")
    assert not list(Path("/var/tmp").glob("boot_id*")), "a jail's file is on the host"
    agents = daemon.data / "pool" / "agents"
    assert not agents.exists() or not list(agents.iterdir()), "a jail's file is among the pool's agents"


def use(calls, sandbox_id):
    """All that opens names of the jail."""
    snapshot = calls.snapshot(sandbox_id)
    if snapshot:
        calls.create(snapshot)
        calls.create(snapshot)
    calls.ask("POST", f"/sandboxes/{sandbox_id}/fork", {"timeout": 600, "count": 2})
    if calls.ask("POST", f"/sandboxes/{sandbox_id}/pause", {}).status_code < 400:
        calls.ask("POST", f"/sandboxes/{sandbox_id}/resume", {"timeout": 600})


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_holds_nobody(daemon, sandbox, calls, trap):
    spring(sandbox, TRAPS[trap])
    use(calls, sandbox.sandbox_id)
    check_nothing_is_left(daemon)


def test_a_new_sandbox_has_a_boot_id_of_its_own(daemon, sandbox, calls):
    """What the traps are set for still works where there is none."""
    ours = sandbox.files.read("/proc/sys/kernel/random/boot_id")
    assert calls.create(calls.snapshot(sandbox.sandbox_id))
    copy = Sandbox.connect(calls.sandboxes[0], **daemon.sdk)
    theirs = copy.files.read("/proc/sys/kernel/random/boot_id")
    assert len(theirs) == len(ours) and theirs != ours


def test_without_its_boot_id_a_jail_can_be_copied(daemon, sandbox, calls):
    spring(sandbox, TRAPS["a FIFO as boot id"])
    assert calls.create(calls.snapshot(sandbox.sandbox_id))
    copy = Sandbox.connect(calls.sandboxes[0], **daemon.sdk)
    assert copy.commands.run("echo here").stdout == "here\n"


@pytest.mark.parametrize("trap", ["no boot id", "a link as boot id", "no directory behind /dev/shm"])
def test_what_could_not_be_restored_is_not_saved(daemon, sandbox, calls, trap):
    """It runs on, and a pause loses nothing."""
    spring(sandbox, TRAPS[trap])
    answer = calls.ask("POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {})
    assert answer.status_code == 422
    assert "was removed" in answer.json()["message"]
    assert sandbox.commands.run("echo on").stdout == "on\n"


def test_deep_directories_are_there_again(daemon, sandbox, calls):
    spring(sandbox, TRAPS["deep directories"])
    assert calls.create(calls.snapshot(sandbox.sandbox_id))
    copy = Sandbox.connect(calls.sandboxes[0], **daemon.sdk)
    assert copy.commands.run("find /run/atoll -name d | wc -l", user="root").stdout == "3000\n"


@pytest.mark.parametrize("trap", ["a sparse agent", "an agent of its own", "a link to a secret of the host's"])
def test_an_agent_that_is_not_the_keepers_is_named(daemon, sandbox, calls, trap):
    spring(sandbox, TRAPS[trap])
    answer = calls.ask("POST", f"/sandboxes/{sandbox.sandbox_id}/snapshots", {})
    assert answer.status_code == 422
    assert "/run/atoll/agent of the jail" in answer.json()["message"]


@pytest.mark.parametrize("trap", LIVELY)
def test_a_trap_that_moves_holds_nobody(daemon, sandbox, calls, trap):
    spring(sandbox, LIVELY[trap], background=True)
    for _ in range(RACE_SAVES if "changes" in trap else 1):
        snapshot = calls.snapshot(sandbox.sandbox_id)
        if snapshot:
            calls.create(snapshot)
    check_nothing_is_left(daemon)


def test_leftovers_among_the_agents_are_removed(daemon):
    agents = daemon.data / "pool" / "agents"
    agents.mkdir(exist_ok=True)
    (agents / ("." + "0" * 64 + ".1")).write_bytes(b"half")
    (agents / ("0" * 64)).write_bytes(b"not what its name says")
    with open(agents / ("1" * 64), "wb") as file:
        file.truncate(1 << 32)
    daemon.kill_child("keeper")
    until(lambda: not list(agents.iterdir()), "the pool's agents are whole")


# ---- workers and their keeper ----


def slow_snapshot(sandbox, calls):
    """One whose restore takes a while."""
    sandbox.commands.run("head -c 200M /dev/urandom > /dev/shm/big", user="root")
    return calls.snapshot(sandbox.sandbox_id)


def restore_begun(daemon, calls, snapshot):
    """A create from a snapshot, in a thread of its own, and the processes that are at work on it."""
    groups, found = groups_of(daemon), []

    def create():
        try:
            calls.create(snapshot)
        except httpx.TransportError:
            pass  # the daemon was ended

    acting = threading.Thread(target=create)
    acting.start()
    while acting.is_alive() and not found:
        found = at_work(groups)
    assert found, "the create was over at once"
    # A process that has just been forked closes the keeper's lock first.
    lock = str(daemon.data / "run" / "keeper.lock")
    until(lambda: not any(lock in held_by(pid) for pid in found), "no worker holds the keeper's lock")
    return acting, found


def signalled(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def held_by(pid):
    try:
        return {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()  # it is over


def test_workers_hold_no_lock_and_end_with_their_keeper(daemon, sandbox, calls):
    """Nothing but the keeper's death is told to them."""
    snapshot = slow_snapshot(sandbox, calls)
    groups = groups_of(daemon)
    acting, pids = restore_begun(daemon, calls, snapshot)
    os.kill(daemon.process.pid, signal.SIGSTOP)  # nobody starts another keeper meanwhile
    try:
        os.kill(daemon.child("keeper"), signal.SIGKILL)
        until(lambda: not at_work(groups), "the workers ended with the keeper")
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    acting.join()
    daemon.wait_ready()


def test_the_daemon_starts_again_while_a_worker_hangs(daemon, sandbox, calls):
    """A process that is stopped hears no signal but the last."""
    snapshot = slow_snapshot(sandbox, calls)
    groups = groups_of(daemon)
    acting, pids = restore_begun(daemon, calls, snapshot)
    signalled(pids, signal.SIGSTOP)
    daemon.kill()
    acting.join()
    daemon.start()
    assert not at_work(groups), "what hung is still there"
    assert calls.create(snapshot)
    assert Sandbox.connect(sandbox.sandbox_id, **daemon.sdk).commands.run("echo on").stdout == "on\n"


def test_a_sandbox_outlives_a_keeper_that_dies_while_it_is_saved(daemon, sandbox, calls):
    groups = groups_of(daemon)
    sandbox.files.write("/home/user/note", "kept")
    for _ in range(5):

        def save():
            try:
                calls.snapshot(sandbox.sandbox_id)
            except httpx.TransportError:
                pass

        acting = threading.Thread(target=save)
        acting.start()
        while acting.is_alive() and not at_work(groups):
            time.sleep(0.001)
        daemon.kill_child("keeper")
        acting.join()
        again = Sandbox.connect(sandbox.sandbox_id, **daemon.sdk)
        assert again.files.read("/home/user/note") == "kept"
    check_nothing_is_left(daemon)


# ---- what is saved ----


def images_of(daemon):
    return next((daemon.data / "pool" / "saved").glob("saved-*")) / "memory"


def test_what_is_saved_is_roots_alone(daemon, sandbox, calls):
    """So that nobody but root can edit what CRIU reads."""
    calls.snapshot(sandbox.sandbox_id)
    images = images_of(daemon)
    pool = (daemon.data / "pool").stat()
    assert (pool.st_uid, pool.st_mode & 0o777) == (0, 0o700)
    for path in [images.parent, images, *images.iterdir()]:
        found = path.lstat()
        assert found.st_uid == 0 and not found.st_mode & 0o022, path
    for user in ["atoll", "nobody"]:
        assert subprocess.run(["setpriv", f"--reuid={user}", "--clear-groups", "ls", images]).returncode != 0


def edit_cut(path):
    os.truncate(path, path.stat().st_size // 2)


def edit_length(path):
    """The first entry is said to be four gigabytes long."""
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(b"\xff\xff\xff\xff")


def edit_noise(path):
    with open(path, "r+b") as file:
        file.seek(12)
        file.write(os.urandom(64))


EDITS = {"cut": edit_cut, "length": edit_length, "noise": edit_noise}
EDITED = ["files.img", "pstree.img", "mountpoints-*.img", "core-1.img", "userns-*.img", "about", "volumes", "agent"]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", EDITED)
def test_images_that_were_edited_come_to_a_sentence(daemon, sandbox, calls, name, edit):
    snapshot = calls.snapshot(sandbox.sandbox_id)
    for path in images_of(daemon).glob(name):
        EDITS[edit](path)
    calls.create(snapshot)
    check_nothing_is_left(daemon)
    assert sandbox.commands.run("echo on").stdout == "on\n"
