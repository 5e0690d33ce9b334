"""Forks of a sandbox in which nothing runs are made from its disk, without CRIU; all others with the memory. The
figures tell which it was: both kinds must be whole copies."""

import threading
from contextlib import contextmanager

import pytest
from conftest import TIMEOUT_S, until
from e2b import Sandbox, SandboxException


def made_from(api):
    """How many forks were made from what, so far."""
    start = 'atoll_forks_total{from="'
    lines = [line for line in api.get("/metrics").text.splitlines() if line.startswith(start)]
    return {line.removeprefix(start).split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


@contextmanager
def forks(api, sandbox, source, count=1):
    """The copies, after a look at what they were made from; they are killed in the end."""
    before = made_from(api)
    copies = sandbox.fork(count=count, timeout=TIMEOUT_S)
    try:
        assert all(isinstance(copy, Sandbox) for copy in copies), copies
        after = made_from(api)
        assert {name: after[name] - before[name] for name in after} == {"disk": 0, "memory": 0} | {source: count}
        yield copies
    finally:
        for copy in copies:
            if isinstance(copy, Sandbox):
                copy.kill()


def run(sandbox, command, **options):
    return sandbox.commands.run(command, **options).stdout.strip()


@pytest.mark.parametrize("files", ["few", "removed", "many"])
def test_an_idle_sandbox_is_copied_from_its_disk(api, new_sandbox, files):
    """A few files are copied one by one, into a parked jail if there is one; of other disks a snapshot is taken."""
    sandbox = new_sandbox(envs={"OWN": "value"}, metadata={"of": "me"})
    sandbox.files.write("/home/user/file", "disk\n")
    run(sandbox, "mkdir -p /run/own/deep && chown -R user:user /run/own && chmod 2750 /run/own/deep", user="root")
    run(sandbox, "echo memory > /run/own/deep/file && echo shared > /dev/shm/file && chmod 604 /dev/shm/file"
        " && ln -s file /dev/shm/link && ln /run/own/deep/file /run/own/again && mkfifo /run/own/fifo")
    run(sandbox, "touch -d @1000000000.123456789 /run/own/deep/file")
    if files == "removed":
        run(sandbox, "rm /etc/issue && mkdir /opt/new && mv /opt/new /opt/moved", user="root")
    if files == "many":
        run(sandbox, "mkdir many && touch many/{1..1000}")
    run(sandbox, "ln -sf /etc/hostname /etc/debian_version && chmod 751 /home && echo own >> /etc/profile &&"
        " echo '10.0.0.1 other' >> /etc/hosts && chown games:games /etc/profile", user="root")
    run(sandbox, "mkdir -m 2711 tree && echo one > tree/one && ln tree/one tree/two && ln -s one tree/link && chmod 4755 tree/one"
        " && touch -d @1000000000.5 tree/one && truncate -s 1G tree/hole && printf 'odd' > $'tree/a\\nb'")
    sandbox.files.write("tree/with-metadata", "text")
    run(sandbox, "rm -r /etc/skel && mkdir /etc/skel && echo own > /etc/skel/own", user="root")
    look = ("stat -c '%n %A %U %G %h %Y %y' /run/own /run/own/* /run/own/deep/* /dev/shm/*; ls /etc/issue /opt 2>&1;"
            " stat -c '%A' /run /run/lock /dev/shm; ls /dev; id; pwd; umask; ulimit -a; nice;"
            " find /home /opt /etc/skel -printf '%p %M %U %G %n %T@ %l\\n' | sort; find /home /opt /etc/skel -type f -printf '%p %s\\n' | sort; ls -ld --time-style=+%s.%N /home | cut -d' ' -f1,3-;"
            " stat -c '%n %A %U %G %s %y' /etc/profile /etc/debian_version;"
            " cat tree/one /etc/profile; grep other /etc/hosts; tail -c 2000 /etc/ssl/certs/ca-certificates.crt | sha256sum")
    whole = run(sandbox, look)
    with forks(api, sandbox, "disk", 2) as copies:
        for copy in copies:
            assert run(copy, look) == whole
            assert run(copy, "cat /home/user/file /run/own/deep/file /dev/shm/file") == "disk\nmemory\nshared"
            assert run(copy, "readlink /dev/shm/link; echo $OWN $E2B_SANDBOX_ID") == f"file\nvalue {copy.sandbox_id}"
            assert run(copy, "hostname; grep -c $(hostname) /etc/hosts") == f"{copy.sandbox_id}\n1"
            assert run(copy, "cat /etc/hostname") == copy.sandbox_id
            assert copy.get_info().metadata == {"of": "me"}
        first, second = copies
        run(first, "echo first > /home/user/file; echo first > /run/own/deep/file")
        run(sandbox, "rm /dev/shm/file")
        assert run(second, "cat /home/user/file /run/own/deep/file /dev/shm/file") == "disk\nmemory\nshared"
        assert run(sandbox, "cat /home/user/file /run/own/deep/file") == "disk\nmemory"
        boot_ids = {run(box, "cat /proc/sys/kernel/random/boot_id") for box in (sandbox, *copies)}
        assert len(boot_ids) == 3


def test_a_copy_is_a_sandbox_like_any_other(api, own_sandbox):
    own_sandbox.files.write("/run/user-file", "memory", user="root")
    with forks(api, own_sandbox, "disk") as [copy]:
        copy.pause()
        copy = Sandbox.connect(copy.sandbox_id, timeout=TIMEOUT_S)
        assert copy.files.read("/run/user-file", user="root") == "memory"
        with forks(api, copy, "disk") as [again]:
            assert again.files.read("/run/user-file", user="root") == "memory"
            again.commands.run("sleep 1000", background=True)
            with forks(api, again, "memory") as [third]:
                assert len(third.commands.list()) == 1
                assert third.files.read("/run/user-file", user="root") == "memory"


def test_a_hundred_copies(api, own_sandbox):
    own_sandbox.files.write("/home/user/file", "disk")
    before = made_from(api)
    made = api.post(f"/sandboxes/{own_sandbox.sandbox_id}/fork", json={"count": 100, "timeout": TIMEOUT_S}).json()
    ids = [each["sandbox"]["sandboxID"] for each in made if "sandbox" in each]
    try:
        assert len(set(ids)) == 100, [each for each in made if "sandbox" not in each][:3]
        assert made_from(api) == before | {"disk": before["disk"] + 100}
        for each in ids:
            assert Sandbox.connect(each, timeout=TIMEOUT_S).files.read("/home/user/file") == "disk"
    finally:
        for each in ids:
            api.delete(f"/sandboxes/{each}")


# ---- what needs the memory ----


def keep(sandbox, code, **options):
    """Runs Python, which leaves something behind."""
    run(sandbox, f"python3 - <<'END'\n{code}\nEND", **options)


def a_process(sandbox):
    sandbox.commands.run("echo begun; sleep 1000", background=True)
    return "pgrep -c sleep", "1"


def a_terminal(sandbox):
    from e2b import PtySize

    sandbox.pty.create(size=PtySize(rows=24, cols=80), timeout=0)
    return "ls /dev/pts | grep -c '^[0-9]'", "1"


def an_orphan(sandbox):
    run(sandbox, "setsid sh -c 'sleep 1000 & ' >/dev/null 2>&1")
    return "pgrep -c sleep", "1"


def a_shared_segment(sandbox):
    keep(sandbox, "import ctypes\nassert ctypes.CDLL(None).shmget(0x41, 4096, 0o1600) >= 0")
    return "cut -c1-10 /proc/sysvipc/shm | grep -cw 65", "1"


def a_semaphore(sandbox):
    keep(sandbox, "import ctypes\nassert ctypes.CDLL(None).semget(0x42, 1, 0o1600) >= 0")
    return "cut -c1-10 /proc/sysvipc/sem | grep -cw 66", "1"


def much_in_memory(sandbox):
    run(sandbox, "head -c 20000000 /dev/zero > /dev/shm/much")
    return "stat -c %s /dev/shm/much", "20000000"


def a_device_file(sandbox):
    run(sandbox, "ln -s /dev/null /dev/own", user="root")
    return "readlink /dev/own", "/dev/null"


def a_lower_limit(sandbox):
    keep(sandbox, "import resource\nresource.prlimit(1, resource.RLIMIT_NPROC, (777, 777))", user="root")
    return "ulimit -u", "777"


def a_lower_priority(sandbox):
    keep(sandbox, "import os\nos.setpriority(os.PRIO_PROCESS, 1, 7)", user="root")
    return "nice", "7"


NEEDS_MEMORY = [a_process, a_terminal, an_orphan, a_shared_segment, a_semaphore, much_in_memory, a_device_file,
                a_lower_limit, a_lower_priority]


@pytest.mark.parametrize("make", NEEDS_MEMORY, ids=lambda make: make.__name__)
def test_what_is_not_on_the_disk_is_copied_with_the_memory(api, own_sandbox, make):
    command, answer = make(own_sandbox)
    own_sandbox.files.write("/home/user/file", "disk")
    assert run(own_sandbox, command) == answer
    with forks(api, own_sandbox, "memory") as [copy]:
        assert run(copy, command) == answer
        assert copy.files.read("/home/user/file") == "disk"
    assert run(own_sandbox, command) == answer


def test_a_message_queue_refuses_a_fork(api, own_sandbox):
    """CRIU does not save it, and a copy without it would not be whole."""
    keep(own_sandbox, "import ctypes\nassert ctypes.CDLL(None).mq_open(b'/own', 0o102, 0o600, None) >= 0")
    before = made_from(api)
    with pytest.raises(SandboxException, match="mqueue"):
        own_sandbox.fork(timeout=TIMEOUT_S)
    assert made_from(api) == before
    assert run(own_sandbox, "ls /dev/mqueue; rm /dev/mqueue/own") == "own"
    with forks(api, own_sandbox, "disk") as [copy]:
        assert run(copy, "ls /dev/mqueue") == ""


def test_a_watch_needs_the_memory(api, own_sandbox):
    watch = own_sandbox.files.watch_dir("/home/user")
    with forks(api, own_sandbox, "memory"):
        own_sandbox.files.write("/home/user/file", "text")
        until(lambda: any(event.name == "file" for event in watch.get_new_events()), "the watch of the source goes on")
    watch.stop()
    with forks(api, own_sandbox, "disk"):
        pass


def test_the_end_of_a_process_that_nobody_was_told_of_needs_the_memory(api, own_sandbox):
    handle = own_sandbox.commands.run("sleep 1; exit 7", background=True)
    handle.disconnect()
    until(lambda: not [process for process in own_sandbox.commands.list() if process.pid == handle.pid], "it has ended")
    with forks(api, own_sandbox, "memory") as [copy]:
        with pytest.raises(Exception) as error:
            copy.commands.connect(handle.pid).wait()
        assert getattr(error.value, "exit_code", None) == 7


def test_commands_meanwhile_are_in_a_copy_or_are_not(own_sandbox):
    """Each command replaces a file as a whole, so a copy in the middle of one would show."""
    own_sandbox.files.write("/home/user/number", "0")
    ended = threading.Event()

    def count():
        number = 0
        while not ended.is_set():
            number += 1
            run(own_sandbox, f"echo {number} > new && mv new number")

    counting = threading.Thread(target=count)
    counting.start()
    try:
        seen = []
        for _ in range(10):
            for copy in own_sandbox.fork(count=2, timeout=TIMEOUT_S):
                assert isinstance(copy, Sandbox), copy
                with copy:
                    seen.append(int(copy.files.read("/home/user/number")))
                    assert run(copy, "echo here") == "here"
    finally:
        ended.set()
        counting.join()
    assert seen == sorted(seen)
