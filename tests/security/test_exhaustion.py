"""One sandbox takes all it can of something that the host has once; root on the host and another
sandbox must get theirs all the same. docs/THREAT-MODEL.md has a row for each.

Everything that is taken is held by one process inside and goes with it, after seconds at most."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import time

import pytest
from e2b import NotFoundException, Sandbox

from conftest import PRELUDE

PAGE = os.sysconf("SC_PAGE_SIZE")

# Ids of the jail that the attack runs as, one after the other: a limit for each user of the jail would
# be no limit for the jail.
SOURCE = textwrap.dedent("""
    import resource, signal, time
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

    def take_until_refused(take, most):
        taken, why = [], None
        while len(taken) < most:
            try:
                taken.append(take())
            except OSError as e:
                why = errno.errorcode[e.errno]
                break
        return taken, why

    def as_users(uids, work):
        '''Runs work() in a process of each user, which stays until the end of this one.'''
        results = []
        for uid in uids:
            get, put = os.pipe()
            if os.fork() == 0:
                libc.prctl(1, 9, 0, 0, 0)
                os.close(get)
                os.setresuid(uid, uid, uid)
                result = work()
                os.write(put, json.dumps(result).encode())
                os.close(put)
                time.sleep(60)
                os._exit(0)
            os.close(put)
            results.append(json.loads(os.read(get, 4096)))
        return results
""")


def script(*parts):
    return PRELUDE + SOURCE + "".join(textwrap.dedent(part) + "\n" for part in parts)


TELL = "print(json.dumps(report))"


@contextlib.contextmanager
def holding(box, *parts):
    """Runs Python inside as root and yields its report, while what it took is still held."""
    end = """
        with open("/tmp/held.new", "w") as f:
            json.dump(report, f)
        os.rename("/tmp/held.new", "/tmp/held")
        time.sleep(60)
    """
    box.files.write("/tmp/hold.py", script(*parts, end), user="root")
    box.commands.run("rm -f /tmp/held", user="root")
    handle = box.commands.run("exec python3 /tmp/hold.py", user="root", background=True, timeout=90)
    try:
        yield json.loads(when_there(box, "/tmp/held"))
    finally:
        handle.kill()


def when_there(box, path, limit_s=60):
    deadline = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(NotFoundException):
            return box.files.read(path, user="root")
        assert time.monotonic() < deadline, f"{path} did not come within {limit_s} s"
        time.sleep(0.05)


def on_host(*parts):
    """Runs Python in a process of the host's, as root, and returns its report."""
    done = subprocess.run([sys.executable, "-c", script(*parts, TELL)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def beside(neighbour, *parts):
    """The same in another sandbox."""
    neighbour.files.write("/tmp/beside.py", script(*parts, TELL), user="root")
    return json.loads(neighbour.commands.run("python3 /tmp/beside.py", user="root", timeout=60).stdout)


@pytest.fixture(scope="module")
def neighbour():
    box = Sandbox.create(timeout=300)
    yield box
    box.kill()


@pytest.fixture(scope="module", params=["new", "resumed"])
def box(request):
    """One that was made anew, and one whose namespaces CRIU made."""
    box = Sandbox.create(timeout=300)
    if request.param == "resumed":
        box.pause()
        box = Sandbox.connect(box.sandbox_id, timeout=300)
    yield box
    box.kill()


# ---- counted for the owner of the jail's user namespace ----

QUEUE = """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    def queue():
        if libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None) < 0:
            raise OSError(ctypes.get_errno(), "sigqueue")
"""


def test_pending_signals_of_one_sandbox_are_its_own(box, neighbour):
    with holding(box, QUEUE, """
        def work():
            taken, why = take_until_refused(queue, 200000)
            return len(taken), why
        report["users"] = as_users([0, 1000, 1001], work)
    """) as report:
        last_taken, why = report["users"][-1]
        assert why == "EAGAIN" and last_taken == 0, report
        few = [QUEUE, 'report["queued"] = len(take_until_refused(queue, 500)[0])']
        assert on_host(*few)["queued"] == 500
        assert beside(neighbour, *few)["queued"] == 500


def test_timers_of_one_sandbox_are_its_own(box, neighbour):
    timer = """
        def timer():
            name = ctypes.c_void_p()
            if libc.timer_create(1, None, ctypes.byref(name)) < 0:
                raise OSError(ctypes.get_errno(), "timer_create")
    """
    with holding(box, timer, """
        def work():
            taken, why = take_until_refused(timer, 200000)
            return len(taken), why
        report["users"] = as_users([1000, 1001], work)
    """) as report:
        assert report["users"][-1] == [0, "EAGAIN"], report
        few = [timer, 'report["made"] = len(take_until_refused(timer, 200)[0])']
        assert on_host(*few)["made"] == 200
        assert beside(neighbour, *few)["made"] == 200


INOTIFY = """
    def instance():
        fd = libc.inotify_init1(0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        return fd
"""


def test_inotify_instances_of_one_sandbox_are_its_own(box, neighbour):
    with holding(box, INOTIFY, """
        def work():
            taken, why = take_until_refused(instance, 15000)
            return len(taken), why
        report["users"] = as_users([0, 1000, 1001], work)
    """) as report:
        assert report["users"][-1] == [0, "EMFILE"], report
        few = [INOTIFY, 'report["made"] = len(take_until_refused(instance, 16)[0])']
        assert on_host(*few)["made"] == 16
        assert beside(neighbour, *few)["made"] == 16


def test_message_queues_of_one_sandbox_are_its_own(box, neighbour):
    queues = """
        def queue():
            queue.n += 1
            name = f"/q{os.getpid()}-{queue.n}".encode()
            fd = libc.mq_open(name, os.O_RDWR | os.O_CREAT, 0o600, None)
            if fd < 0:
                raise OSError(ctypes.get_errno(), "mq_open")
            libc.mq_unlink(name)
        queue.n = 0
    """
    with holding(box, queues, """
        def work():
            taken, why = take_until_refused(queue, 1000)
            return len(taken), why
        report["users"] = as_users([1000, 1001], work)
    """) as report:
        assert report["users"][-1] == [0, "EMFILE"], report
        few = [queues, 'report["made"] = len(take_until_refused(queue, 4)[0])']
        assert on_host(*few)["made"] == 4
        assert beside(neighbour, *few)["made"] == 4


def test_locked_memory_of_one_sandbox_is_its_own(box, neighbour):
    """SHM_LOCK counts for the user, and not for the process as mlock() does."""
    lock = """
        def lock():
            name = libc.shmget(0, 1 << 16, 0o600)
            if name < 0:
                raise OSError(ctypes.get_errno(), "shmget")
            refused = libc.shmctl(name, 11, None) < 0
            why = ctypes.get_errno()
            if refused or lock.few:
                libc.shmctl(name, 0, None)
            if refused:
                raise OSError(why, "shmctl")
            return name
        lock.few = False
    """
    with holding(box, lock, """
        def work():
            taken, why = take_until_refused(lock, 1000)
            return len(taken), why
        report["users"] = as_users([1000, 1001], work)
    """) as report:
        assert len(report["users"]) == 2, report
        assert all(0 < taken < 1000 and why == "ENOMEM" for taken, why in report["users"]), report
        few = [lock, 'lock.few = True; report["locked"] = len(take_until_refused(lock, 4)[0])']
        assert beside(neighbour, *few)["locked"] == 4
    box.commands.run("ipcrm --all=shm", user="root")


# ---- counted for a user: no user of a jail is one of the host's or another jail's ----


def test_pipes_of_one_sandbox_do_not_shrink_those_of_others(box, neighbour):
    with holding(box, """
        pipes, why = take_until_refused(os.pipe, 4000)
        import fcntl
        report["last"] = fcntl.fcntl(pipes[-1][0], 1032)  # F_GETPIPE_SZ
    """) as report:
        assert report["last"] < 65536  # so it is at its limit
        one = """
        import fcntl
        report["size"] = fcntl.fcntl(os.pipe()[0], 1032)
        """
        assert on_host(one)["size"] == 65536
        assert beside(neighbour, one)["size"] == 65536


def test_descriptors_under_way_of_one_sandbox_are_its_own(box, neighbour):
    passing = """
        import array
        pairs, held = [], open("/dev/null")
        def many():
            pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
            ends = array.array("i", [held.fileno()] * 200)
            pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
    """
    with holding(box, passing, """
        taken, report["why"] = take_until_refused(many, 6000)
        report["taken"] = len(taken)
    """) as report:
        assert report["why"] == "ETOOMANYREFS", report
        few = [passing, 'report["sent"] = len(take_until_refused(many, 4)[0])']
        assert on_host(*few)["sent"] == 4
        assert beside(neighbour, *few)["sent"] == 4


# ---- bounded for each jail, since the kernel has one count ----


def test_terminals_of_one_sandbox_are_bounded(box, neighbour):
    with holding(box, """
        taken, report["why"] = take_until_refused(lambda: os.open("/dev/ptmx", os.O_RDWR), 5000)
        report["taken"] = len(taken)
    """) as report:
        assert report["why"] in ("ENOSPC", "EIO") and report["taken"] <= 256, report
        few = ['report["made"] = len(take_until_refused(os.openpty, 8)[0])']
        assert on_host(*few)["made"] == 8
        assert beside(neighbour, *few)["made"] == 8


def sockets_bytes(protocol):
    """What the sockets of the whole machine hold, whatever namespace they are in."""
    for line in pathlib.Path("/proc/net/sockstat").read_text().splitlines():
        words = line.split()
        if words[0] == protocol + ":":
            return int(words[words.index("mem") + 1]) * PAGE
    raise AssertionError(f"no {protocol} in sockstat")


def test_tcp_buffers_of_one_sandbox_are_within_its_memory(box):
    """The limit of a sandbox is 512 MB; 200 connections could hold twice as much."""
    before = sockets_bytes("TCP")
    with holding(box, """
        listener = socket.create_server(("127.0.0.1", 0), backlog=300)
        ends = []
        for _ in range(200):
            one = socket.create_connection(listener.getsockname())
            ends += [one, listener.accept()[0]]
            one.settimeout(0.05)
            try:
                while True:
                    one.send(bytes(1 << 20))
            except OSError:
                pass
        report["connections"] = len(ends) // 2
    """) as report:
        held = sockets_bytes("TCP") - before
        assert report["connections"] == 200 and held < 400 << 20, held


def test_udp_buffers_of_one_sandbox_are_within_its_memory(box):
    before = sockets_bytes("UDP")
    with holding(box, """
        ends = []
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(4000):
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.bind(("127.0.0.1", 0))
            ends.append(one)
            for _ in range(20):
                out.sendto(bytes(32768), one.getsockname())
        report["sockets"] = len(ends)
    """) as report:
        held = sockets_bytes("UDP") - before
        assert report["sockets"] == 4000 and held < 400 << 20, held


def test_tracked_connections_of_one_sandbox_are_not_the_hosts(box):
    count = pathlib.Path("/proc/sys/net/netfilter/nf_conntrack_count")
    before = int(count.read_text()) if count.exists() else 0
    with holding(box, """
        tried = []
        for i in range(3000):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((f"198.51.{i // 250}.{i % 250 + 1}", 9))
            tried.append(s)
        report["tried"] = len(tried)
    """) as report:
        assert report["tried"] == 3000
        assert (int(count.read_text()) if count.exists() else 0) - before < 1000


def neighbours_known():
    """Entries of the kernel's tables of network neighbours, which all namespaces share."""
    entries = 0
    for table in ["arp_cache", "ndisc_cache"]:
        with contextlib.suppress(FileNotFoundError):
            lines = pathlib.Path("/proc/net/stat", table).read_text().splitlines()
            entries += int(lines[1].split()[0], 16)
    return entries


def test_addresses_that_a_sandbox_tries_do_not_fill_the_table_of_neighbours(box):
    before = neighbours_known()
    with holding(box, """
        tried = 0
        for family, address in [(socket.AF_INET, "198.51.{}.{}"), (socket.AF_INET6, "2001:db8:{:x}::{:x}")]:
            for i in range(1500):
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    with socket.socket(family, kind) as s:
                        s.setblocking(False)
                        try:
                            s.connect((address.format(i // 250, i % 250 + 1), 9))
                            s.send(b"x")
                        except OSError:
                            pass
                tried += 1
        report["tried"] = tried
    """) as report:
        assert report["tried"] == 3000
        assert neighbours_known() - before < 64


# ---- refused, since the kernel has one count and nobody can be charged ----


def test_contexts_of_asynchronous_io_cannot_be_taken(box):
    before = int(pathlib.Path("/proc/sys/fs/aio-nr").read_text())
    with holding(box, """
        name = ctypes.c_ulong()
        attempt("io_setup", lambda: syscall(206, 60000, ctypes.byref(name)))
    """) as report:
        assert report["io_setup"] == "ENOSYS"
        assert int(pathlib.Path("/proc/sys/fs/aio-nr").read_text()) <= before


def test_programs_for_the_kernel_cannot_be_loaded(box):
    """Seccomp and socket filters are translated into memory of which the host has one amount."""
    with holding(box, """
        code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        attempt("seccomp", lambda: syscall(317, 1, 0, program))
        attempt("prctl", lambda: syscall(157, 22, 2, program, 0, 0))
        for family in (socket.AF_UNIX, socket.AF_INET):
            with socket.socket(family, socket.SOCK_STREAM) as s:
                attempt(f"filter {family}", lambda: s.setsockopt(socket.SOL_SOCKET, 26, program.raw[:16]) or 0)
                attempt(f"reuseport {family}", lambda: s.setsockopt(socket.SOL_SOCKET, 51, program.raw[:16]) or 0)
                attempt(f"ebpf {family}", lambda: s.setsockopt(socket.SOL_SOCKET, 50, struct.pack("i", 0)) or 0)
    """) as report:
        assert report.pop("seccomp") == "ENOSYS" and report.pop("prctl") == "EINVAL"
        assert len(report) == 6 and set(report.values()) == {"ENOPROTOOPT"}, report


def test_huge_pages_and_flow_labels_of_the_host_cannot_be_taken(box):
    with holding(box, """
        attempt("mmap", lambda: syscall(9, 0, 2 << 20, 3, 0x40022, -1, 0))
        attempt("memfd", lambda: syscall(319, b"x", 4))
        attempt("shmget", lambda: syscall(29, 0, 2 << 20, 0o5600))
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
            request = bytes(15) + b"\\x01" + struct.pack("!I", 1) + bytes([0, 1, 1, 0]) + bytes(12)
            attempt("flow label", lambda: s.setsockopt(41, 32, request) or 0)
        attempt("plain", lambda: syscall(9, 0, 1 << 16, 3, 0x62, -1, 0) > 0)
    """) as report:
        assert report == {"mmap": "EINVAL", "memfd": "EINVAL", "shmget": "EPERM", "flow label": "ENOPROTOOPT",
                          "plain": True}
