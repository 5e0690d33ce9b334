"""The machine loses power right after a pause was acknowledged, and comes back: what was promised is
there. The data directory lies on a disk of its own, a file of which a copy is taken at that instant:
whatever the daemon had not made the kernel write is not in it. All processes end, all is unmounted, and
the next daemon finds the copy."""

import ctypes
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import pytest
from daemon import Daemon, children, until
from e2b import Sandbox, Secret, Volume

CLONE_NEWNS = 0x00020000

# Counts in memory and on disk.
COUNTER = """
import http.server, itertools
count = itertools.count(1)
held = bytes(range(256)) * 100_000
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        number = next(count)
        with open("/home/user/number", "w") as file:
            file.write(str(number))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{number} {sum(held)}".encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


def do(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Machine(Daemon):
    """A daemon on a disk that can be looked at as it would be after a power loss."""

    def __init__(self):
        self.home = Path(tempfile.mkdtemp(prefix="atoll-power-"))
        super().__init__("--parked-max", "0", "--pool-size", "3G")
        shutil.rmtree(self.data)
        self.data, self.shelf, self.disk = self.home / "data", self.home / "shelf", "disk"
        self.log = open(self.home / "log", "ab")
        self.home.chmod(0o755)
        self.data.mkdir()
        self.shelf.mkdir()
        self.image("shelf.img", 10, "mkfs.btrfs", "-q")
        do("mount", "-o", "loop", self.home / "shelf.img", self.shelf)
        self.image("shelf/disk", 8, "mkfs.ext4", "-q")
        self.plug()

    def image(self, name, gigabytes, *make):
        with open(self.home / name, "wb") as file:
            file.truncate(gigabytes << 30)
        do(*make, self.home / name)

    def plug(self):
        do("mount", "-o", "loop,commit=300", self.shelf / self.disk, self.data)

    def said(self):
        return (self.home / "log").read_text(errors="replace")[-4000:]

    def unplug(self):
        """Everything ends at once, as for a machine that is cut off. False: somebody has its disk."""
        ends = [self.process.pid, *self.jails().values()]
        for pid in ends + [pid for pid, _ in children(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        until(lambda: not self.jails(), "all jails are gone")
        until(lambda: self.unmount(self.data / "pool"), "the pool is off")
        deadline = time.monotonic() + 20
        while self.pinned() and time.monotonic() < deadline:
            time.sleep(0.1)
        held = self.pinned()
        until(lambda: self.unmount(self.data), "the disk is off")
        return not held

    def pinned(self):
        """Whether a loop device has the pool still. Devices come and go while one looks."""
        for device in os.listdir("/sys/block"):
            try:
                backing = Path(f"/sys/block/{device}/loop/backing_file").read_text()
            except OSError:
                continue
            if str(self.data) in backing:
                return True
        return False

    def unmount(self, place):
        """Lazily: what ends may hold it for a moment still, and so may the namespaces of others."""
        return not os.path.ismount(place) or not subprocess.call(["umount", "-l", place])

    def lose_power(self):
        # At once, and all of it as it is in one moment.
        do("cp", "--reflink=always", self.shelf / self.disk, self.shelf / "after")
        # Were the old disk held, the copy would be another file system beside it, with another name.
        assert self.unplug(), "somebody holds the old disk"
        os.rename(self.shelf / "after", self.shelf / self.disk)
        self.plug()
        self.start()

    def scrap(self):
        if self.process.poll() is None:
            self.unplug()
        until(lambda: self.unmount(self.data) and self.unmount(self.shelf), "nothing is mounted")
        self.log.close()
        shutil.rmtree(self.home)


def mounts_of_our_own():
    """Other programs that make a mount namespace would hold the disk after its end."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "unshare the mounts")
    do("mount", "--make-rprivate", "/")


@pytest.fixture(scope="module")
def machine():
    mounts_of_our_own()
    machine = Machine()
    try:
        machine.start()
        yield machine
    finally:
        machine.scrap()


def count(machine, sandbox_id):
    headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "8000"}
    answer = httpx.get(machine.url, headers=headers, timeout=60)
    return answer.text if answer.status_code == 200 else None


@pytest.fixture(scope="module")
def sandbox(machine):
    sandbox = Sandbox.create(timeout=3600, **machine.sdk)
    sandbox.files.write("/home/user/counter.py", COUNTER)
    sandbox.commands.run("python3 counter.py", background=True, timeout=0)
    assert until(lambda: count(machine, sandbox.sandbox_id), "the counter counts").startswith("1 ")
    return sandbox


def test_an_acknowledged_pause_survives_power_loss(machine, sandbox):
    sandbox.pause()
    (machine.data / "unpromised").write_text("x" * 100_000)
    machine.lose_power()
    # Proof that such a loss loses something at all.
    assert not (machine.data / "unpromised").exists() or not (machine.data / "unpromised").read_text()
    again = Sandbox.connect(sandbox.sandbox_id, timeout=3600, **machine.sdk)
    assert count(machine, again.sandbox_id) == "2 3264000000"
    assert again.files.read("/home/user/number") == "2"


def test_so_does_a_snapshot_and_a_resumed_one_is_there_or_paused(machine, sandbox):
    """It is the newest thing on that disk, whether its row was written or not."""
    sandbox = Sandbox.connect(sandbox.sandbox_id, timeout=3600, **machine.sdk)  # another address
    snapshot = sandbox.create_snapshot()
    sandbox.pause()
    again = Sandbox.connect(sandbox.sandbox_id, timeout=3600, **machine.sdk)
    machine.lose_power()
    copy = Sandbox.create(snapshot.snapshot_id, timeout=3600, **machine.sdk)
    assert count(machine, copy.sandbox_id) == "3 3264000000"
    copy.kill()
    answer = httpx.get(
        f"{machine.url}/sandboxes/{again.sandbox_id}", headers={"X-API-Key": machine.key}
    )
    if answer.status_code == 200:  # its row was not yet written: then it is where it was paused
        assert answer.json()["state"] == "paused"
        Sandbox.connect(again.sandbox_id, timeout=3600, **machine.sdk)
        assert count(machine, again.sandbox_id) == "3 3264000000"
        Sandbox.kill(again.sandbox_id, **machine.sdk)
    else:
        assert answer.status_code == 404


def test_a_volume_that_was_promised_is_there_for_everybody(machine):
    """It is made, then limited, then opened to all users: none of it may be missing."""
    volume = Volume.create("promised", api_url=machine.url, api_key=machine.key)
    machine.lose_power()
    mounts = {"/data": "promised"}
    with Sandbox.create(timeout=3600, volume_mounts=mounts, **machine.sdk) as sandbox:
        assert sandbox.commands.run("touch /data/mine && stat -c %a /data").stdout == "777\n"
    limits = subprocess.run(
        ["btrfs", "qgroup", "show", "-r", "--raw", "-F", machine.data / "pool" / "volumes" / volume.volume_id],
        capture_output=True, text=True,
    )  # fmt: skip
    assert str(10 << 30) in limits.stdout, limits.stdout + limits.stderr
    Volume.destroy(volume.volume_id, api_url=machine.url, api_key=machine.key)


def test_a_file_that_was_put_into_a_volume_is_there_and_whole(machine, monkeypatch):
    monkeypatch.setenv("E2B_VOLUME_API_URL", machine.url)
    volume = Volume.create("filled", api_url=machine.url, api_key=machine.key)
    volume.write_file("/file", "kept")
    machine.lose_power()
    with Sandbox.create(timeout=3600, volume_mounts={"/data": "filled"}, **machine.sdk) as sandbox:
        assert sandbox.commands.run("cat /data/file").stdout == "kept"
    Volume.destroy(volume.volume_id, api_url=machine.url, api_key=machine.key)


def test_a_volume_that_was_removed_does_not_come_back(machine):
    """Its row is gone for good once its files are: nobody would remove them a second time."""
    team = {"api_url": machine.url, "api_key": machine.key}
    volume = Volume.create("removed", **team)
    place = machine.data / "pool" / "volumes" / volume.volume_id
    assert place.is_dir()
    Volume.destroy(volume.volume_id, **team)
    until(lambda: not place.exists(), "its files are gone")
    until(lambda: not rows(machine, volume.volume_id), "its row is gone")
    Secret.create("later", "value", **team)  # which puts the end of that row on the disk as well
    machine.lose_power()
    until(lambda: not place.exists() or rows(machine, volume.volume_id), "nobody has forgotten it")


def rows(machine, volume_id):
    with sqlite3.connect(f"file:{machine.data}/state/atoll.db?mode=ro", uri=True) as store:
        return store.execute("SELECT id FROM volumes WHERE id = ?", (volume_id,)).fetchall()


def test_a_machine_that_lacks_something_refuses_and_says_what(machine):
    sandbox = Sandbox.create(timeout=3600, **machine.sdk)
    sandbox.pause()
    [about] = (machine.data / "pool" / "saved").glob(f"saved-{sandbox.sandbox_id}-*/memory/about")
    text = about.read_text()
    resume = {
        "url": f"{machine.url}/sandboxes/{sandbox.sandbox_id}/connect",
        "headers": {"X-API-Key": machine.key},
        "json": {"timeout": 3600},
        "timeout": 60,
    }

    about.write_text(text.replace("\ncpu ", "\ncpu quantum_leap ", 1))
    refused = httpx.post(**resume)
    assert refused.status_code >= 400
    assert "a processor that has quantum_leap, which this one lacks" in refused.json()["message"]
    about.write_text(text.replace("\nmachine ", "\nmachine not", 1))
    assert "saved on another kind of machine" in httpx.post(**resume).json()["message"]
    about.write_text(text)
    assert httpx.post(**resume).status_code in (200, 201)
    sandbox.kill()
