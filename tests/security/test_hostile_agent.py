"""The server against agents that an attacker speaks for (hostile_agent.c), one mode after the other.

Every sandbox of this daemon has the hostile agent, which behaves until a file in its sandbox names a
mode. While one sandbox attacks, another must be served: an answer of the API and a command, each
within a time that is far above what a busy machine takes and far below what a freeze lasts. When
the attacker is killed, the server is the same process, and has no more descriptors than before."""
import os
import pathlib
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from e2b import Sandbox

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
os.environ.setdefault("BUILD", os.environ.get("ATOLL_BUILD", str(HERE.parents[1] / "build")))
from daemon import running, until  # noqa: E402

AGENT = pathlib.Path(os.environ.get("HOSTILE_AGENT", pathlib.Path(os.environ["BUILD"]) / "tests/security/hostile-agent"))
ROW = re.compile(r"\b(MODE|GIVES)\((\w+)\),")
TABLE = [row for source in sorted(HERE.glob("hostile_*.c")) for row in ROW.findall(source.read_text())]
MODES = [mode for _, mode in TABLE]
GIVES = {mode for kind, mode in TABLE if kind == "GIVES"}  # a descriptor, which no agent does
CONTROL = ["gives_file", "noise", "endless_headers", "closes_the_channel", "resets_in_body"]
PORT = 49983  # the agent's own
REQUESTS = 12  # at once: a stall of a second each would add up
BODY = b"x" * (4 << 20)  # more than the buffers of a socket hold
ATTACK_S = 3  # how long a client of the attacker's waits
LOCK_S = 20  # likewise: it takes seconds until the attacker's threads have no time left
SERVED_S = 25  # the freezes last for two minutes
ROUNDS = int(os.environ.get("ATOLL_HOSTILE_ROUNDS", "1"))  # of each mode; more for a long run
SPARE = 8  # descriptors that come and go: connections that lie idle


class House:
    """A daemon with hostile agents, and a sandbox that somebody else works in."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.other = Sandbox.create(timeout=3600, **daemon.sdk)
        self.server = daemon.child("serve")
        self.api = httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=SERVED_S)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.server}/fd"))

    def lives(self, sandbox):
        return self.api.get(f"/sandboxes/{sandbox.sandbox_id}").status_code != 404

    def serves_others(self):
        assert self.api.get(f"/sandboxes/{self.other.sandbox_id}").status_code == 200
        done = self.other.commands.run("echo fine", timeout=SERVED_S, request_timeout=SERVED_S)
        assert done.stdout == "fine\n"

    def attack(self, sandbox, seconds, body=BODY):
        """A request of the attacker's own, whatever comes of it."""
        headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(PORT)}
        deadline = time.monotonic() + seconds
        try:
            with httpx.Client(timeout=seconds) as client:
                with client.stream("POST", self.daemon.url, headers=headers, content=body) as response:
                    for _ in response.iter_raw():
                        if time.monotonic() > deadline:
                            break
        except httpx.HTTPError:
            pass

    def is_whole(self, before):
        self.serves_others()
        assert self.daemon.child("serve") == self.server, self.daemon.said()
        until(lambda: self.descriptors() <= before + SPARE, f"descriptors are closed: {before} before")


@pytest.fixture(scope="module")
def house():
    assert AGENT.exists(), f"{AGENT} is not built"
    with running("--agent", str(AGENT)) as daemon:
        yield House(daemon)


def test_there_are_as_many_modes_as_were_promised():
    """An attack that is dropped from the rig would not be tried any more: there are 21 modes and the freezes."""
    assert len(MODES) >= 24 and {"lingers", "blocks_writes", "holds_the_lock"} <= set(MODES)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_that(house, mode):
    """An agent answers the daemon that gives it a connection in each of 75 bad ways (messages of wrong form, number or
    time, descriptors of every kind, HTTP that never ends, sockets that linger or block): other sandboxes are served
    meanwhile, and the server neither ends nor keeps a descriptor."""
    before = house.descriptors()
    attacker = Sandbox.create(timeout=600, **house.daemon.sdk)
    attacker.files.write("/hostile", mode, user="root")
    seconds = LOCK_S if mode == "holds_the_lock" else ATTACK_S
    with ThreadPoolExecutor(REQUESTS) as clients:
        attacks = [clients.submit(house.attack, attacker, seconds) for _ in range(REQUESTS * ROUNDS)]
        while not all(attack.done() for attack in attacks):
            house.serves_others()
    if mode in GIVES:
        until(lambda: not house.lives(attacker), "the sandbox of an agent that was taken over ends")
    else:
        assert attacker.kill(request_timeout=SERVED_S)
    house.is_whole(before)


@pytest.mark.parametrize("mode", CONTROL)
def test_a_resumed_agent_that(house, mode):
    """An agent answers badly on the connection on which a resumed sandbox is told who it is: the resume ends, other
    sandboxes are served meanwhile, and the server neither ends nor keeps a descriptor."""
    before = house.descriptors()
    attacker = Sandbox.create(timeout=600, **house.daemon.sdk)
    attacker.files.write("/hostile", mode, user="root")
    attacker.pause()
    with ThreadPoolExecutor(1) as clients:
        resume = clients.submit(
            house.api.post, f"/sandboxes/{attacker.sandbox_id}/connect", json={"timeout": 60}, timeout=120
        )
        while not resume.done():
            house.serves_others()
    assert resume.result().status_code in (200, 201, 500, 502, 503, 504), resume.result().text
    Sandbox.kill(attacker.sandbox_id, **house.daemon.sdk)
    house.is_whole(before)
