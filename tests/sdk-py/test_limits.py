"""A sandbox that takes more than its share hurts itself alone, and the API says what happened."""

import os
from pathlib import Path

import pytest
from e2b import CommandExitException, NotEnoughSpaceException, SandboxException

ROOM_MB = 64  # what is asked for beyond a limit


@pytest.fixture
def neighbour(new_sandbox):
    """A sandbox beside the one that misbehaves; it must not notice."""
    sandbox = new_sandbox()
    yield sandbox
    assert sandbox.commands.run("echo untouched").stdout == "untouched\n"


def test_a_memory_hog_is_killed_alone(own_sandbox, neighbour):
    megabytes = own_sandbox.get_info().memory_mb + ROOM_MB
    hog = f"b = bytearray(); [b.extend(b'x' * 1048576) for _ in range({megabytes})]"
    with pytest.raises(CommandExitException) as caught:
        own_sandbox.commands.run(f'exec python3 -c "{hog}"', timeout=0)
    assert caught.value.exit_code == -1
    assert "killed" in caught.value.error
    assert own_sandbox.commands.run("echo alive").stdout == "alive\n"
    log = (Path(os.environ["ATOLL_DATA"]) / "log").read_text()
    assert f"sandbox {own_sandbox.sandbox_id}: out of memory" in log


def test_memory_taken_in_shared_memory_counts_too(own_sandbox, neighbour):
    megabytes = own_sandbox.get_info().memory_mb + ROOM_MB
    command = f"dd if=/dev/zero of=/dev/shm/fill bs=1M count={megabytes} 2>&1"
    with pytest.raises((CommandExitException, SandboxException)):
        own_sandbox.commands.run(command, timeout=0)


def test_a_fork_bomb_is_contained(own_sandbox, neighbour):
    bomb = own_sandbox.commands.run("bomb() { bomb | bomb & }; bomb; wait", background=True)
    assert neighbour.commands.run("echo first").stdout == "first\n"
    pids = neighbour.commands.run("ps ax | wc -l").stdout
    assert int(pids) < 100
    assert bomb.pid > 0
    assert own_sandbox.kill() is True
    assert not own_sandbox.is_running()


def test_processes_are_limited(own_sandbox, neighbour):
    script = (
        "import os, time\n"
        "children = 0\n"
        "try:\n"
        "    while children < 100000:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(1000)\n"
        "        children += 1\n"
        "except OSError as error:\n"
        "    print(error.strerror, flush=True)\n"
        "os.killpg(0, 9)\n"
    )
    own_sandbox.files.write("/tmp/forks.py", script)
    with pytest.raises(CommandExitException) as caught:
        own_sandbox.commands.run("setsid python3 /tmp/forks.py; exit 1")
    assert caught.value.stdout == "Resource temporarily unavailable\n"
    assert own_sandbox.commands.run("echo alive").stdout == "alive\n"


def test_files_are_served_at_the_process_limit(own_sandbox, neighbour):
    """The first file call of a sandbox, when no process or thread can be made any more."""
    script = (
        "import threading, time\n"
        "threading.stack_size(65536)\n"
        "try:\n"
        "    for _ in range(100000):\n"
        "        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
        "except RuntimeError:\n"
        "    print('full', flush=True)\n"
        "time.sleep(1000)\n"
    )
    hog = own_sandbox.commands.run(f'exec python3 -c "{script}"', background=True, timeout=0)
    assert next(out for out, _, _ in hog if out) == "full\n"
    with pytest.raises(SandboxException):
        own_sandbox.commands.run("true")

    assert "etc" in [entry.name for entry in own_sandbox.files.list("/")]
    own_sandbox.files.write("/home/user/note", "written")
    assert own_sandbox.files.read("/home/user/note") == "written"
    assert own_sandbox.is_running()
    assert hog.kill() is True


def test_a_disk_filler_fills_its_own_disk(own_sandbox, neighbour, api):
    disk_mb = api.get(f"/sandboxes/{own_sandbox.sandbox_id}").json()["diskSizeMB"]
    with pytest.raises(CommandExitException) as caught:
        own_sandbox.commands.run(f"fallocate -l {disk_mb + ROOM_MB}M /home/user/fill", timeout=0)
    assert "quota" in caught.value.stderr.lower()  # its own, and not all there is in the pool

    own_sandbox.commands.run(f"fallocate -l {disk_mb - 1}M /home/user/fill || true", timeout=0)
    own_sandbox.commands.run(
        "dd if=/dev/urandom of=/home/user/rest bs=1M count=512 || true", timeout=0
    )
    with pytest.raises(NotEnoughSpaceException):
        own_sandbox.files.write("/home/user/more", b"x" * (8 << 20))

    own_sandbox.commands.run("rm -f /home/user/fill /home/user/rest")
    own_sandbox.files.write("/home/user/more", "there is room again")
    neighbour.files.write("/home/user/mine", b"x" * (8 << 20))


def test_a_busy_loop_leaves_time_for_others(own_sandbox, neighbour):
    for _ in range(8):
        own_sandbox.commands.run("while :; do :; done", background=True, timeout=0)
    assert neighbour.commands.run("echo here").stdout == "here\n"
    assert own_sandbox.commands.run("echo here too").stdout == "here too\n"


def test_open_files_are_limited(own_sandbox, neighbour):
    script = "f = []\ntry:\n    while True: f.append(open('/dev/null'))\nexcept OSError as e: print(e.strerror)"
    own_sandbox.files.write("/tmp/open.py", script)
    assert own_sandbox.commands.run("python3 /tmp/open.py").stdout == "Too many open files\n"


def test_pid_1_cannot_be_killed_from_inside(own_sandbox):
    own_sandbox.commands.run("kill -KILL 1; kill -TERM 1; true", user="root")
    assert own_sandbox.is_running()
    assert own_sandbox.commands.run("echo alive").stdout == "alive\n"
