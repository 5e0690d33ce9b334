"""Pauses, resumes, snapshots and forks while the keeper, CRIU, the server or all of it is killed at a
random moment: afterwards the sandbox runs or is paused, and is whole. ATOLL_PAUSE_FAULT_ROUNDS says
how often (default 15), ATOLL_FAULT_SEED makes a run's choices again."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest
from daemon import running, until
from e2b import Sandbox

ROUNDS = int(os.environ.get("ATOLL_PAUSE_FAULT_ROUNDS", "15"))
SEED = int(os.environ.get("ATOLL_FAULT_SEED", random.randrange(1 << 32)))
LATEST_S = 0.4  # after a call begins; most take less
CRIU_S = 0.06  # after CRIU begins; it is there for about as long

# Holds a number in memory, on disk and in its answers: all three must agree for ever.
COUNTER = """
import http.server, itertools
count = itertools.count(1)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        number = next(count)
        with open("/home/user/number", "w") as file:
            file.write(str(number))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(number).encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


@pytest.fixture
def daemon():
    with running("--parked-max", "0") as daemon:
        yield daemon


def descendants(pid):
    """Quickly: a look at all processes would take longer than CRIU does."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        try:
            yield int(child), Path(f"/proc/{child}/cmdline").read_text()
        except OSError:
            continue
        yield from descendants(child)


def is_criu(pid, command):
    """What it restores bears its name for a while, but is in a pid namespace of its own already: that
    is the jail."""
    try:
        with open(f"/proc/{pid}/status") as status:
            inner = next(line for line in status if line.startswith("NSpid")).split()[1:]
    except (OSError, StopIteration):
        return False
    return "criu" in command and len(inner) == 1


def criu_of(keeper):
    return [pid for pid, command in descendants(keeper) if is_criu(pid, command)]


def kill(daemon, keeper, victim):
    """True when there was something of that name to kill."""
    if victim == "all":
        daemon.kill()
        daemon.start()
        return True
    if victim in ("keeper", "server"):
        daemon.kill_child(victim)
        return True
    found = criu_of(keeper)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return bool(found)


class Home:
    """One sandbox, and what is known of it."""

    def __init__(self, daemon, chance):
        self.daemon, self.random = daemon, chance
        self.sandbox = Sandbox.create(timeout=3600, **daemon.sdk)
        self.id, self.number, self.made = self.sandbox.sandbox_id, 0, []
        self.sandbox.files.write("/home/user/counter.py", COUNTER)
        self.sandbox.commands.run("python3 counter.py", background=True, timeout=0)
        until(self.counts, "the counter counts")

    def call(self, method, path, **options):
        headers = {"X-API-Key": self.daemon.key}
        return httpx.request(
            method, self.daemon.url + path, headers=headers, timeout=120, **options
        )

    def ask(self, sandbox_id):
        headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "8000"}
        answer = httpx.get(self.daemon.url, headers=headers, timeout=60)
        return int(answer.text) if answer.status_code == 200 else None

    def counts(self):
        number = self.ask(self.id)
        self.number = number or self.number
        return number

    def act(self, action):
        """Any answer is fine, and none: what counts is what is true afterwards."""
        try:
            if action == "resume":
                self.call("POST", f"/sandboxes/{self.id}/resume", json={"timeout": 3600})
            elif action == "fork":
                body = {"timeout": 3600, "count": 2}
                self.call("POST", f"/sandboxes/{self.id}/fork", json=body)
            else:
                self.call("POST", f"/sandboxes/{self.id}/{action}", json={})
        except httpx.TransportError:
            pass

    def state(self):
        answer = self.call("GET", f"/sandboxes/{self.id}")
        assert answer.status_code == 200, f"the sandbox is lost: {answer.text}\n{self.daemon.said()}"
        return answer.json()["state"]

    def settle(self):
        """Running again, whatever it was."""

        def runs():
            answer = self.call("POST", f"/sandboxes/{self.id}/connect", json={"timeout": 3600})
            assert answer.status_code != 404, f"the sandbox is lost:\n{self.daemon.said()}"
            return answer.status_code in (200, 201)

        until(runs, f"it can be connected to:\n{self.daemon.said()}")

    def check(self):
        """It is whole: one more than the last number that was seen, on disk as in memory. A pause that
        the keeper was at when its daemon died may come true after that daemon's successor is there."""
        before = self.number
        until(
            lambda: (self.settle(), self.counts())[1],
            f"the counter counts:\n{self.daemon.said()}",
        )
        assert self.number == before + 1, "its memory is not where it was"
        sandbox = Sandbox.connect(self.id, timeout=3600, **self.daemon.sdk)
        assert sandbox.files.read("/home/user/number") == str(self.number)

    def sweep(self):
        """The copies, those included whose caller never heard of them: alive, then killed."""
        for row in self.call("GET", "/v2/sandboxes").json():
            if row["sandboxID"] != self.id:
                assert self.ask(row["sandboxID"]) == self.number + 1, "a copy is not whole"
                self.call("DELETE", f"/sandboxes/{row['sandboxID']}")
        for row in self.call("GET", "/snapshots").json():
            self.call("DELETE", f"/templates/{row['snapshotID']}")


def one_round(home, chance):
    action = chance.choice(["pause", "resume", "snapshots", "fork"])
    victim = chance.choice(["keeper", "criu", "server", "all"])
    delay = chance.random() * LATEST_S
    if action == "resume":
        home.act("pause")
    keeper = home.daemon.child("keeper")
    acting = threading.Thread(target=home.act, args=[action])
    acting.start()
    if victim == "criu":
        delay = chance.random() * CRIU_S
        while acting.is_alive() and not criu_of(keeper):
            time.sleep(0.0005)
    time.sleep(delay)
    hit = kill(home.daemon, keeper, victim)
    acting.join()
    print(f"{action} {victim} {delay:.3f}{'' if hit else ' (nothing to kill)'}: {home.state()}")
    home.settle()
    home.sweep()
    home.check()


def test_it_is_never_lost_and_never_half(daemon):
    print("seed", SEED)
    chance = random.Random(SEED)
    home = Home(daemon, chance)
    for _ in range(ROUNDS):
        one_round(home, chance)
    assert home.call("DELETE", f"/sandboxes/{home.id}").status_code == 204
    saved = daemon.data / "pool" / "saved"

    def nothing():
        return not daemon.sandbox_dirs() and not list(saved.glob("saved-*"))

    if not nothing():  # what a killed keeper left is the next daemon's to sweep
        daemon.kill()
        daemon.start()
    until(nothing, "nothing is left")
