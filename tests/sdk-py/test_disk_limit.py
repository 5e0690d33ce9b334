"""The limit of a sandbox's disk counts what it holds, whenever it was written, and whoever it was copied from."""

import time

import pytest
from e2b import CommandExitException, Sandbox

MIB = 1 << 20
pytestmark = pytest.mark.timeout(400)  # for each wait of said_at_last(), on a busy machine

SLACK = 0.02  # of the disk: what the file system keeps beside the content of files


@pytest.fixture
def disk_mb(api, own_sandbox):
    return api.get(f"/sandboxes/{own_sandbox.sandbox_id}").json()["diskSizeMB"]


def take(sandbox, name, megabytes):
    """As fast for a gigabyte as for a byte: the room is taken, and nothing written to it. What it says; "" when it was taken."""
    try:
        sandbox.commands.run(f"fallocate -l {int(megabytes)}M /home/user/{name} && sync", timeout=0)
        return ""
    except CommandExitException as failed:
        sandbox.commands.run(f"rm -f /home/user/{name}")
        return failed.stderr


def said_at_last(sandbox, name, megabytes, passing, limit_s=120):
    """The kernel frees what was deleted after a while: until then the pool, or the disk, may have no room."""
    deadline = time.monotonic() + limit_s
    while (said := take(sandbox, name, megabytes)) and passing in said and time.monotonic() < deadline:
        time.sleep(1)
    return said


def taken(sandbox, name, megabytes):
    assert said_at_last(sandbox, name, megabytes, "") == ""


def refused(sandbox, name, megabytes):
    assert "quota exceeded" in said_at_last(sandbox, name, megabytes, "No space left")


def paused_and_resumed(sandbox):
    sandbox.pause()
    return sandbox.connect()


def used_mb(sandbox, at_least, limit_s=60):
    """In its newest sample, once that shows so much."""
    deadline = time.monotonic() + limit_s
    while True:
        used = [metric.disk_used / MIB for metric in sandbox.get_metrics()[-1:]]
        if used and used[0] >= at_least:
            return used[0]
        assert time.monotonic() < deadline, f"{used} MB are said to be in use, not {at_least}"
        time.sleep(0.5)


@pytest.mark.attack
def test_pauses_do_not_widen_the_disk(own_sandbox, disk_mb):
    """A sandbox writes, is paused and resumed, and writes again, to have more than its disk: its limit stays what it was."""
    sandbox, part = own_sandbox, 0.3 * disk_mb
    for name in ("one", "two", "three"):
        taken(sandbox, name, part)
        sandbox = paused_and_resumed(sandbox)
    assert 3 * part <= used_mb(sandbox, 3 * part) <= (0.9 + SLACK) * disk_mb
    refused(sandbox, "four", part)
    sandbox.commands.run("rm /home/user/one")
    taken(sandbox, "four", part)
    refused(sandbox, "five", part)


@pytest.mark.attack
def test_copies_do_not_widen_the_disk(own_sandbox, disk_mb, new_sandbox):
    """A sandbox that is a fork or was created from a snapshot, and a copy of that, each want a disk of their own beside what they were born with: it counts."""
    taken(own_sandbox, "one", 0.6 * disk_mb)
    fork = own_sandbox.fork()[0]
    fork.set_timeout(300)
    try:
        assert 0.6 * disk_mb <= used_mb(fork, 0.6 * disk_mb) <= (0.6 + SLACK) * disk_mb
        refused(fork, "two", 0.6 * disk_mb)
        taken(fork, "two", 0.3 * disk_mb)
        snapshot = fork.create_snapshot()
        again = new_sandbox(template=snapshot.snapshot_id)
        refused(again, "three", 0.3 * disk_mb)
        again.commands.run("rm /home/user/one")  # two others hold it
        taken(again, "three", 0.5 * disk_mb)
        refused(again, "four", 0.5 * disk_mb)
        again.kill()
    finally:
        fork.kill()
    own_sandbox.commands.run("rm /home/user/one")  # which the snapshot holds
    taken(own_sandbox, "two", 0.5 * disk_mb)
    Sandbox.delete_snapshot(snapshot.snapshot_id)
