"""Power cuts at random moments of random work, round after round (tests/machines/cuts.py says what holds). The
data directory is on a disk with a volatile write cache (tests/machines/disk.py): what the kernel had not
written is lost, and of what it had not flushed all, or some, in any order. The same rounds run on whole
virtual machines: `make test-machines`.

ATOLL_POWER_ROUNDS is their number, ATOLL_POWER_SEED the seed of the first."""

import hashlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from daemon import children, processes, until
from test_power import Machine, do, mounts_of_our_own

MACHINES = Path(__file__).resolve().parents[1] / "machines"
sys.path.insert(0, str(MACHINES))

import cuts  # noqa: E402
from smoke import Smoke  # noqa: E402

ROUNDS = int(os.environ.get("ATOLL_POWER_ROUNDS", "2"))
SEED = int(os.environ.get("ATOLL_POWER_SEED") or random.SystemRandom().randrange(1 << 32))


class Cuttable(Machine):
    """Also while sandboxes are being made."""

    listen, seed, medium = "127.0.0.1:0", 0, None

    def plug(self):
        door = self.home / "door"
        door.mkdir(exist_ok=True)
        self.medium = subprocess.Popen(
            [sys.executable, MACHINES / "fuse_disk.py", self.shelf / self.disk, door, str(self.seed)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.medium.stdout.readline() == "ready\n"
        do("mount", "-o", "loop,commit=300", door / "disk", self.data)

    def eject(self):
        """Nothing of the disk is left but the medium."""
        subprocess.run(["umount", "-l", self.home / "door"], check=True)
        said = self.medium.communicate()[0].strip()
        self.medium = None
        return said

    def unplug(self):
        for pid in (self.process.pid, *(pid for pid, _ in children(self.process.pid))):
            self.end(pid)
        self.process.wait()

        def ended():
            for pid in self.jails().values():
                self.end(pid)
            return not self.jails()

        until(ended, "all jails are gone")
        return super().unplug()

    def jails(self):
        """By their groups: the disk with their names may be dead."""
        group = f"atoll-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:8]}/"
        found = {}
        for process in processes():
            try:
                text = (process / "cgroup").read_text()
            except OSError:
                continue  # it has ended
            if group in text:
                found[process.name] = int(process.name)
        return found

    @staticmethod
    def end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def cut(self):
        self.listen = self.url.removeprefix("http://")
        self.medium.send_signal(signal.SIGUSR1)
        self.medium.wait()
        assert self.unplug(), "somebody holds the old disk"
        return self.eject()

    def scrap(self):
        self.unplug()
        self.eject()
        super().scrap()

    def start(self, seed=0, wait=True):
        self.seed = seed
        if not os.path.ismount(self.data):
            self.plug()
        super().start(listen=self.listen)

    def write_early(self, early):
        """The kernel is that of all."""

    def pool_names(self):
        pool = self.data / "pool"
        return [str(path.relative_to(pool)) for name in ("saved", "layers", "volumes") for path in (pool / name).glob("*")]


@pytest.fixture(scope="module")
def machine():
    mounts_of_our_own()
    machine = Cuttable()
    try:
        machine.start()
        yield machine
    finally:
        machine.scrap()


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_what_was_acknowledged_is_there_after_a_cut(machine, seed, monkeypatch):
    monkeypatch.setenv("E2B_VOLUME_API_URL", machine.url)
    smoke = Smoke(machine.url, machine.key)
    row = cuts.round_of(machine, smoke, seed, cuts.pool(machine), machine.wait_ready)
    print(f"\nseed {seed}: {row}")
    assert not row["faults"], row
