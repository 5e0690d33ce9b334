"""What a sandbox is said to use: in its first sample, and while nothing runs in it."""

import httpx
import pytest
from daemon import until
from e2b import Sandbox

CPUS = 2
BURN = "import time\nwhile time.process_time() < 8: pass"  # seconds of a cpu, however many others want it


@pytest.fixture
def box(daemon):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)  # its address is another after a restart


def samples(daemon, box):
    return httpx.get(f"{daemon.url}/sandboxes/{box.sandbox_id}/metrics", headers={"X-API-Key": daemon.key}).json()


def first(daemon, box):
    return until(lambda: samples(daemon, box), "there is a sample")[0]


def test_the_first_share_is_not_of_what_was_before(daemon, box):
    """The series begin anew with the daemon. What the jail did before is no part of the first share."""
    box.commands.run(f"for i in $(seq {CPUS}); do python3 -c '{BURN}' & done; wait", timeout=300)
    daemon.stop()
    daemon.start()
    assert first(daemon, box)["cpuUsedPct"] < 10


def test_an_idle_sandbox_has_a_disk_and_memory(daemon, box):
    api, sdk = first(daemon, box), box.get_metrics()[0]
    assert api["diskUsed"] > 0 and api["memUsed"] > 0
    assert sdk.disk_used > 0 and sdk.mem_used > 0 and sdk.cpu_used_pct < 100
    assert (sdk.disk_total, sdk.mem_total) == (api["diskTotal"], api["memTotal"])
    assert api["diskUsed"] < api["diskTotal"] and api["memUsed"] < api["memTotal"]
