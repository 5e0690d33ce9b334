"""Forks of idle sandboxes, which are made without CRIU, while the keeper, the server or all of it is killed at a random
moment: the source goes on, every copy that there is is whole, and nothing is left over. ATOLL_FORK_FAULT_ROUNDS says how
often (default 6), ATOLL_FAULT_SEED makes a run's choices again."""

import os
import random
import threading
import time

import httpx
import pytest
from daemon import running, until
from e2b import Sandbox

ROUNDS = int(os.environ.get("ATOLL_FORK_FAULT_ROUNDS", "6"))
SEED = int(os.environ.get("ATOLL_FAULT_SEED", random.randrange(1 << 32)))
LATEST_S = 0.15  # after the call begins
COPIES = 8


@pytest.fixture(params=["0", "16"], ids=["made", "parked"])
def daemon(request):
    """Copies are made in new jails, or in parked ones."""
    with running("--parked-max", request.param, "--parked-min", request.param) as daemon:
        yield daemon


def call(daemon, method, path, **options):
    return httpx.request(method, daemon.url + path, headers={"X-API-Key": daemon.key}, timeout=120, **options)


def fork(daemon, sandbox_id):
    """Any answer is fine, and none: what counts is what is true afterwards."""
    try:
        call(daemon, "POST", f"/sandboxes/{sandbox_id}/fork", json={"timeout": 3600, "count": COPIES})
    except httpx.TransportError:
        pass


def is_whole(daemon, sandbox_id, number):
    """Also when the daemon was just started, and the sandbox is being adopted."""
    sandbox = Sandbox.connect(sandbox_id, timeout=3600, **daemon.sdk)
    disk, memory = sandbox.files.read("/home/user/number"), sandbox.files.read("/run/number", user="root")
    assert (disk, memory) == (number, number)
    assert sandbox.commands.run("hostname").stdout.strip() == sandbox_id
    return True


def saves(daemon):
    return [path.name for path in (daemon.data / "pool" / "saved").iterdir()]


def test_nothing_is_lost_and_nothing_is_left(daemon):
    chance = random.Random(SEED)
    source = Sandbox.create(timeout=3600, **daemon.sdk)
    large = "x" * 6_000_000  # then it is not an image of its files: a snapshot is taken
    for number in range(ROUNDS):
        victim, delay = chance.choice(["keeper", "server", "all"]), chance.random() * LATEST_S
        what = f"round {number} of seed {SEED}: {victim} killed after {delay * 1000:.0f} ms"
        source = Sandbox.connect(source.sandbox_id, timeout=3600, **daemon.sdk)
        source.files.write("/home/user/number", str(number))
        source.files.write("/run/number", str(number), user="root")
        if number == ROUNDS // 2:
            source.files.write("/home/user/large", large)
        forking = threading.Thread(target=fork, args=[daemon, source.sandbox_id])
        forking.start()
        time.sleep(delay)
        if victim == "all":
            daemon.kill()
            daemon.start()
        else:
            daemon.kill_child(victim)
        forking.join()
        assert is_whole(daemon, source.sandbox_id, str(number)), what
        rows = call(daemon, "GET", "/v2/sandboxes").json()
        for row in rows:
            assert is_whole(daemon, row["sandboxID"], str(number)), what
            if row["sandboxID"] != source.sandbox_id:
                call(daemon, "DELETE", f"/sandboxes/{row['sandboxID']}")
        until(lambda: not saves(daemon), f"{what}: no save is left: {saves(daemon)}\n{daemon.said()}")
    source = Sandbox.connect(source.sandbox_id, timeout=3600, **daemon.sdk)
    copies = source.fork(count=2, timeout=600)
    assert all(isinstance(copy, Sandbox) and is_whole(daemon, copy.sandbox_id, str(ROUNDS - 1)) for copy in copies)
    until(lambda: not saves(daemon), "no save is left")
