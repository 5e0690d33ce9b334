"""A random workload while parts of the daemon are killed at random moments.

Afterwards every acknowledged sandbox is running or has a killed event, every event was delivered at
least once and in order, and nothing is left of a sandbox that has ended. ATOLL_FAULT_ROUNDS says how
often something is killed (default 12), ATOLL_FAULT_SEED makes a run's choices again."""

import os
import random
import socket
import sys
import threading
import time
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

import httpx
import pytest
from daemon import Daemon, children, until

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sdk-py"))
from receiver import Receiver  # noqa: E402

ROUNDS = int(os.environ.get("ATOLL_FAULT_ROUNDS", "12"))
SEED = int(os.environ.get("ATOLL_FAULT_SEED", random.randrange(1 << 32)))
WORKERS = 4
KEPT_MAX = 12  # sandboxes of one worker at one time
LONG_S = 7200  # a timeout that does not come
SWEPT = 10  # killed by one sweep
SETTLE_S = 120
PREFIX = "sandbox.lifecycle."


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Worker(threading.Thread):
    """Creates, extends and kills sandboxes of its own, and remembers what it was told."""

    def __init__(self, url, key, seed, stop):
        super().__init__()
        self.random = random.Random(seed)
        self.daemon_url = url
        self.key = key
        self.stop = stop
        self.made = set()  # answered 201
        self.ended = set()  # answered 204 or 404 to a kill
        self.kept = []
        self.answers = defaultdict(int)
        self.wrong = []

    def run(self):
        with httpx.Client(
            base_url=self.daemon_url, headers={"X-API-Key": self.key}, timeout=60
        ) as api:
            while not self.stop.is_set():
                try:
                    self.act(api)
                except httpx.TransportError:
                    time.sleep(0.02)  # nobody is there: somebody will be

    def act(self, api):
        choice = self.random.random()
        if not self.kept or (choice < 0.5 and len(self.kept) < KEPT_MAX):
            self.create(api)
        elif choice < 0.55:
            self.sweep(api)
        elif choice < 0.75:
            self.extend(api, self.random.choice(self.kept))
        else:
            self.kill(api, self.kept.pop(self.random.randrange(len(self.kept))))

    def expect(self, what, answer, *codes):
        self.answers[(what, answer.status_code)] += 1
        if answer.status_code not in codes:
            self.wrong.append((what, answer.status_code, answer.text))

    def create(self, api):
        timeout = self.random.choice([1, 2, 3, LONG_S, LONG_S])
        answer = api.post("/sandboxes", json={"templateID": "base", "timeout": timeout})
        self.expect("create", answer, 201, 503, 504)
        if answer.status_code == 503:
            time.sleep(0.05)  # the keeper is away
        if answer.status_code == 201:
            sandbox_id = answer.json()["sandboxID"]
            self.made.add(sandbox_id)
            self.kept.append(sandbox_id)

    def extend(self, api, sandbox_id):
        seconds = self.random.choice([1, LONG_S])
        answer = api.post(f"/sandboxes/{sandbox_id}/timeout", json={"timeout": seconds})
        self.expect("extend", answer, 204, 404)
        if answer.status_code == 404:
            self.kept.remove(sandbox_id)

    def sweep(self, api):
        """Kills the oldest, whoever made them: also those whose maker never got the answer."""
        answer = api.get("/v2/sandboxes", params={"order": "asc", "limit": SWEPT})
        self.expect("list", answer, 200)
        for row in answer.json():
            self.kill(api, row["sandboxID"])

    def kill(self, api, sandbox_id):
        answer = api.delete(f"/sandboxes/{sandbox_id}")
        self.expect("kill", answer, 204, 404)
        if answer.status_code in (204, 404):
            self.ended.add(sandbox_id)


def all_events(api):
    events = []
    while page := api.get(
        "/events/sandboxes", params={"orderAsc": "true", "limit": 100, "offset": len(events)}
    ).json():
        events += page
    return events


def by_sandbox(events):
    found = defaultdict(list)
    for event in events:
        found[event["sandboxId"]].append(event)
    return found


def cgroups_of(ids):
    """Directories below any hierarchy that bear the name of one of these sandboxes."""
    ids = set(ids)
    found = []
    for top, names, _ in os.walk("/sys/fs/cgroup"):  # which passes over groups of other daemons that go meanwhile
        if Path(top).name.startswith("atoll-"):
            found += [Path(top) / name for name in names if name in ids]
    return found


def mounts(daemon):
    """The mounts that the keeper sees, and those of the host below the data directory."""
    keeper = Path(f"/proc/{daemon.child('keeper')}/mountinfo").read_text().splitlines()
    host = [line for line in Path("/proc/mounts").read_text().splitlines() if str(daemon.data) in line]
    return len(keeper), len(host)


def sockets(daemon):
    """And whatever else lies there, except for locks: each is made when it is first taken."""
    return sorted(path.name for path in (daemon.data / "run").iterdir() if path.suffix != ".lock")


def listed(api):
    """Every running sandbox: its id, and when it ends."""
    rows, params = [], {"limit": 100}
    while True:
        answer = api.get("/v2/sandboxes", params=params)
        rows += answer.json()
        params["nextToken"] = answer.headers.get("X-Next-Token")
        if not params["nextToken"]:
            return {row["sandboxID"]: datetime.fromisoformat(row["endAt"]) for row in rows}


def is_settled(daemon, api):
    """What runs will run on for a while, and is what the kernel says."""
    running = listed(api)
    soon = datetime.now(timezone.utc) + timedelta(seconds=SETTLE_S)
    return all(end > soon for end in running.values()) and set(daemon.jails()) == set(running)


def strike(daemon, chance):
    """Kills the server, the keeper, both, or everything with the supervisor."""
    way = chance.choice(["server", "keeper", "both", "server", "keeper", "both", "all"])
    if way == "all":
        daemon.kill()
        daemon.start(daemon.listen)
        return
    names = ["server", "keeper"] if way == "both" else [way]
    victims = {name: daemon.child(name) for name in names}
    if None in victims.values():
        daemon.wait_ready()
        return
    daemon.kill_child(*names)


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def daemon():
    daemon = Daemon("--webhook-allow-local", "true", "--parked-max", "16")
    daemon.listen = f"127.0.0.1:{free_port()}"
    try:
        daemon.start(daemon.listen)
        yield daemon
    finally:
        daemon.remove()


def work_and_strike(daemon, chance):
    stop = threading.Event()
    workers = [
        Worker(daemon.url, daemon.key, chance.random(), stop) for _ in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in range(ROUNDS):
            time.sleep(chance.uniform(0, 0.5))
            strike(daemon, chance)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    return workers


def check_stories(stories, running):
    """Every sandbox begins with created, and ends with killed exactly when it does not run."""
    for sandbox_id, events in stories.items():
        kinds = [event["type"].removeprefix(PREFIX) for event in events]
        assert kinds[0] == "created" and kinds.count("created") == 1, (sandbox_id, kinds)
        ended = sandbox_id not in running
        assert kinds.count("killed") == ended, (sandbox_id, kinds, ended)
        assert not ended or kinds[-1] == "killed", (sandbox_id, kinds)


def check_deliveries(receiver, stories):
    """Each event came, and those of a sandbox never one behind a later one."""
    for sandbox_id, events in stories.items():
        order = {event["id"]: i for i, event in enumerate(events)}
        came = [order[event["id"]] for event in receiver.of(sandbox_id)]
        assert came == sorted(came), (sandbox_id, came)
        assert set(came) == set(order.values()), (sandbox_id, came)


def test_nothing_acknowledged_is_lost(daemon, receiver):
    print(f"seed {SEED}, {ROUNDS} rounds")
    chance = random.Random(SEED)
    api = httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=60)
    webhook = {
        "name": "faults",
        "url": receiver.url,
        "events": [PREFIX + name for name in ("created", "updated", "killed")],
        "signatureSecret": "secret",
    }
    assert api.post("/events/webhooks", json=webhook).status_code == 201
    before = mounts(daemon), sockets(daemon)

    workers = work_and_strike(daemon, chance)
    daemon.stop()  # and with it what lies parked
    daemon.settings += ["--parked-max", "0"]
    daemon.start(daemon.listen)
    assert not [wrong for worker in workers for wrong in worker.wrong]
    made = set().union(*(worker.made for worker in workers))
    ended = set().union(*(worker.ended for worker in workers))
    assert len(made) > ROUNDS / 4, "the workload worked"

    until(lambda: is_settled(daemon, api), "jails and lists agree", SETTLE_S)
    running = set(listed(api))
    stories = by_sandbox(all_events(api))
    assert made <= set(stories)
    assert not ended & running
    check_stories(stories, running)

    def owed():
        return {event["id"] for events in stories.values() for event in events} - {
            event["id"] for event, _, _ in receiver.got
        }

    receiver.until(lambda: not owed(), "every event was delivered")
    check_deliveries(receiver, stories)

    for sandbox_id in running:
        assert api.delete(f"/sandboxes/{sandbox_id}").status_code == 204
    check_nothing_left(daemon, set(stories), before)
    total = sum(len(events) for events in stories.values())
    print(f"{len(stories)} sandboxes, {total} events, {len(receiver.got)} deliveries")
    api.close()


def check_nothing_left(daemon, ids, before):
    until(lambda: not daemon.jails(), "all jails are gone", SETTLE_S)
    until(lambda: not daemon.sandbox_dirs(), "all subvolumes are gone", SETTLE_S)
    until(lambda: not cgroups_of(ids), "all cgroups are gone", SETTLE_S)
    until(lambda: (mounts(daemon), sockets(daemon)) == before, "mounts and sockets as before", 30)
    assert len(children(daemon.process.pid)) == 2
