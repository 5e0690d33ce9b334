"""Power cuts at random moments of random work, round after round (tests/machines/cuts.py says what holds). The
disk is copied in one instant, as in test_power.py: what the kernel had not written by then is lost. The
same rounds run on whole virtual machines, with a disk that also loses what was not flushed:
`make test-machines`.

ATOLL_POWER_ROUNDS is their number, ATOLL_POWER_SEED the seed of the first."""

import os
import random
import signal
import sys
from pathlib import Path

import pytest
from daemon import children, until
from test_power import Machine, do

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "machines"))

import cuts  # noqa: E402
from smoke import Smoke  # noqa: E402

ROUNDS = int(os.environ.get("ATOLL_POWER_ROUNDS", "2"))
SEED = int(os.environ.get("ATOLL_POWER_SEED") or random.SystemRandom().randrange(1 << 32))


class Cuttable(Machine):
    """Also while sandboxes are being made."""

    listen = "127.0.0.1:0"

    def unplug(self):
        ends = [self.process.pid, *(pid for pid, _ in children(self.process.pid))]
        for pid in ends:
            self.end(pid)
        self.process.wait()

        def ended():
            for pid in self.jails().values():
                self.end(pid)
            return not self.jails()

        until(ended, "all jails are gone")
        return super().unplug()

    @staticmethod
    def end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def cut(self):
        do("cp", "--reflink=always", self.shelf / self.disk, self.shelf / "after")
        self.listen = self.url.removeprefix("http://")
        if not self.unplug():
            pytest.skip("the mount namespace of another program holds the old disk")
        os.rename(self.shelf / "after", self.shelf / self.disk)
        return "what the kernel had not written was lost"

    def start(self, seed=0, wait=True):
        if not os.path.ismount(self.data):
            self.plug()
        super().start(listen=self.listen)

    def pool_names(self):
        pool = self.data / "pool"
        return [str(path.relative_to(pool)) for name in ("saved", "layers", "volumes") for path in (pool / name).glob("*")]


@pytest.fixture(scope="module")
def machine():
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
