"""Nothing that a sandbox, running or paused, or a snapshot needs goes while they are there, whatever
dies or is removed meanwhile; and nothing is left once they are gone."""

import os
import subprocess
import uuid

import httpx
import pytest
from builder import Builder, run
from daemon import Daemon, until
from e2b import Sandbox, Volume
from test_faults import cgroups_of

SETTLE_S = 60
START = {"startCmd": "cd /tmp && exec python3 -m http.server 8000", "readyCmd": "curl -sf localhost:8000"}


@pytest.fixture(scope="module")
def daemon():
    daemon = Daemon()
    try:
        daemon.start()
        os.environ["E2B_VOLUME_API_URL"] = daemon.url
        yield daemon
    finally:
        daemon.remove()


@pytest.fixture
def builder(daemon):
    return Builder(daemon)


def api(daemon):
    return {k: v for k, v in daemon.sdk.items() if k in ("api_key", "api_url")}


def out(sandbox, command):
    return sandbox.commands.run(command, timeout=60).stdout


def subvolumes(daemon):
    listed = subprocess.run(
        ["btrfs", "subvolume", "list", daemon.data / "pool"], capture_output=True, text=True, check=True
    )
    return {line.split(" path ")[1] for line in listed.stdout.splitlines()}


def lists(daemon):
    """All that the pool has, by path."""
    pool = daemon.data / "pool"
    places = ("sandboxes", "saved", "volumes", "restoring")
    names = {f"{place}/{path.name}" for place in places if (pool / place).exists() for path in (pool / place).iterdir()}
    return names | subvolumes(daemon)


def prune(builder):
    answer = builder.call("POST", "/templates/prune", json={"unusedSeconds": 0})
    assert answer.status_code == 200, answer.text


def built(builder, word, name):
    ids, status = builder.build([run(f"echo {word} > /srv/word", "root")], name=name, **START)
    assert status["status"] == "ready", status
    return ids


class Mixture:
    """One sandbox of each kind, on a template with a running service and on a volume."""

    def __init__(self, daemon, builder):
        self.daemon, self.builder = daemon, builder
        self.before = lists(daemon)
        self.word = uuid.uuid4().hex
        self.template = built(builder, self.word, f"mix-{self.word[:8]}")[0]
        self.volume = Volume.create(f"v-{self.word[:12]}", **api(daemon))
        mount = {"volume_mounts": {"/v": self.volume.name}}
        source = Sandbox.create(self.template, timeout=600, envs={"A": "own"}, **mount, **daemon.sdk)
        out(source, "echo in the volume > /v/note; echo on the disk > /tmp/note")
        self.snapshot = source.create_snapshot().snapshot_id
        [fork] = source.fork(timeout=600)
        paused, cold = source.fork(count=2, timeout=600)
        paused.pause()
        cold.pause(keep_memory=False)
        copy = Sandbox.create(self.snapshot, timeout=600, **mount, **daemon.sdk)
        self.ids = {"source": source.sandbox_id, "fork": fork.sandbox_id, "paused": paused.sandbox_id,
                    "cold": cold.sandbox_id, "copy": copy.sandbox_id}
        self.paused = {"paused", "cold"}

    def rows(self):
        answer = self.builder.call("GET", "/v2/sandboxes", params={"state": "running,paused"}).json()
        return {row["sandboxID"]: row["state"] for row in answer}

    def check_rows(self):
        rows = self.rows()
        for what, sandbox_id in self.ids.items():
            assert rows.get(sandbox_id) == ("paused" if what in self.paused else "running"), what

    def check(self):
        """Every one has its disk, its volume, its service and its variables; paused ones wake for it."""
        os.environ["E2B_VOLUME_API_URL"] = self.daemon.url
        self.check_rows()
        self.paused = set()
        for what, sandbox_id in self.ids.items():
            sandbox = Sandbox.connect(sandbox_id, timeout=600, **self.daemon.sdk)
            said = out(sandbox, "cat /srv/word /v/note /tmp/note; echo $A; hostname; curl -s localhost:8000 | grep -c note")
            assert said.splitlines() == [self.word, "in the volume", "on the disk", "own", sandbox_id, "1"], what
        fresh = Sandbox.create(self.snapshot, timeout=60, volume_mounts={"/v": self.volume.name}, **self.daemon.sdk)
        assert out(fresh, "cat /srv/word /v/note") == f"{self.word}\nin the volume\n"
        fresh.kill()

    def pause_again(self):
        for what, memory in (("paused", True), ("cold", False)):
            Sandbox.connect(self.ids[what], **self.daemon.sdk).pause(keep_memory=memory)
        self.paused = {"paused", "cold"}

    def end(self):
        for sandbox_id in self.ids.values():
            Sandbox.kill(sandbox_id, **self.daemon.sdk)
        self.builder.call("DELETE", f"/templates/{self.snapshot}")
        self.builder.call("DELETE", f"/templates/{self.template}")
        Volume.destroy(self.volume.volume_id, **api(self.daemon))
        prune(self.builder)


@pytest.fixture
def mixture(daemon, builder):
    mixture = Mixture(daemon, builder)
    yield mixture
    mixture.end()
    until(lambda: lists(daemon) <= mixture.before, f"the pool is as it was: {lists(daemon) - mixture.before}", SETTLE_S)
    assert not cgroups_of(mixture.ids.values())


def test_neither_prune_nor_a_newer_build_takes_what_is_in_use(mixture, builder):
    built(builder, "newer", f"mix-{mixture.word[:8]}")
    prune(builder)
    mixture.check()
    mixture.pause_again()
    prune(builder)
    mixture.check()


def test_a_template_is_not_removed_while_sandboxes_have_it(mixture, builder, daemon):
    path = f"/templates/{mixture.template}"
    assert "there are running sandboxes" in builder.call("DELETE", path).json()["message"]
    for what in ("source", "fork", "copy"):
        Sandbox.connect(mixture.ids[what], **daemon.sdk).pause()
    mixture.paused = set(mixture.ids)
    answer = builder.call("DELETE", path)
    assert answer.status_code == 400 and "there are paused sandboxes" in answer.json()["message"]
    daemon.kill()
    daemon.start()
    prune(builder)
    mixture.check()


def test_a_snapshot_outlives_its_template(mixture, builder, daemon):
    copy = mixture.ids.pop("copy")
    for sandbox_id in mixture.ids.values():
        Sandbox.kill(sandbox_id, **daemon.sdk)
    mixture.ids, mixture.paused = {"copy": copy}, set()
    assert builder.call("DELETE", f"/templates/{mixture.template}").status_code == 204
    prune(builder)
    mixture.check()
    daemon.kill()
    daemon.start()
    prune(builder)
    mixture.check()


WAYS = {
    "server": lambda daemon: daemon.kill_child("server"),
    "keeper": lambda daemon: daemon.kill_child("keeper"),
    "both": lambda daemon: daemon.kill_child("server", "keeper"),
    "all": lambda daemon: (daemon.kill(), daemon.start()),
}


def test_all_is_as_it_was_after_any_death(mixture, daemon):
    for way in WAYS.values():
        way(daemon)
        mixture.check()
        mixture.pause_again()
    running = {id for what, id in mixture.ids.items() if what not in mixture.paused}
    until(lambda: set(daemon.sandbox_dirs()) == running, "the jails of those paused are gone")
    kept = lists(daemon)
    WAYS["all"](daemon)
    mixture.check_rows()
    assert lists(daemon) == kept


def test_what_is_said_of_paused_and_copied_ones(mixture, builder):
    for what, sandbox_id in mixture.ids.items():
        until(lambda: builder.call("GET", f"/sandboxes/{sandbox_id}/metrics").json() or what in mixture.paused, "metrics")
        logs = builder.call("GET", f"/v2/sandboxes/{sandbox_id}/logs")
        assert logs.status_code == 200
        commands = [log["fields"].get("command", "") for log in logs.json()["logs"]]
        assert any("in the volume" in command for command in commands) == (what == "source"), what
        events = [e["type"].rpartition(".")[2] for e in builder.call("GET", f"/events/sandboxes/{sandbox_id}").json()]
        assert events[-1] == "created" and ("paused" in events) == (what in mixture.paused)
        assert events.count("created") == 1
