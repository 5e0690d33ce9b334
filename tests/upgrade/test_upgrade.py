"""A running daemon is replaced by a newer one, and nothing that it had is lost: sandboxes that run go on with
their processes, and what was saved, built or stored by the version before is as good as new."""

import dataclasses
import os
import sqlite3
import subprocess
import time
import uuid

import httpx
import pytest
from daemon import PROGRAM, WAIT_S, Daemon, until
from e2b import CommandExitException, Sandbox, Secret, Template, Volume

OLD = os.environ["ATOLL_OLD"]
COUNTER = "i=0; while :; do i=$((i + 1)); echo $i >/home/user/count; sleep 0.05; done"
LIVE_S = 3000
BETWEEN_S = 3
LARGE = "6G"  # more than half of a disk


class Life:
    """All that a client can have made with the version before."""

    def __init__(self, daemon):
        self.daemon = daemon
        word = uuid.uuid4().hex[:8]
        self.secret = Secret.create(f"s-{word}", "the value", metadata={"team": "a"}, api_url=daemon.url, api_key=daemon.key)
        self.volume = Volume.create(f"v-{word}", api_url=daemon.url, api_key=daemon.key)
        self.key = self.call("POST", "/api-keys", json={"name": "kept"}).json()
        self.template = f"t-{word}"
        Template.build(
            Template().from_template("base").run_cmd("echo built >/home/user/made").set_envs({"MADE": "yes"}),
            self.template, api_url=daemon.url, api_key=daemon.key,
        )
        self.running = self.inhabited({"/data": self.volume.name})
        self.running.files.write("/data/note", "on the volume")
        self.line = self.running.commands.run("read line; echo got $line", background=True, stdin=True, timeout=0)
        self.paused = self.inhabited()
        assert self.paused.pause()
        self.packed = self.inhabited()
        assert self.packed.pause()
        self.asleep = self.made()  # without its memory
        self.asleep.commands.run(f"fallocate -l {LARGE} /home/user/large")
        assert self.call("POST", f"/sandboxes/{self.asleep.sandbox_id}/pause", json={"memory": False}).status_code == 204
        self.snapshot = self.running.create_snapshot().snapshot_id
        self.before = {s.sandbox_id: self.info(s) for s in self.all()}
        self.jail = daemon.jails()[self.running.sandbox_id]

    def all(self):
        return self.running, self.paused, self.packed, self.asleep

    def info(self, sandbox):
        """What the API says of it, but for the domain: with another daemon its port is another."""
        return dataclasses.replace(Sandbox.get_info(sandbox.sandbox_id, **self.daemon.sdk), sandbox_domain=None)

    def call(self, method, path, key=None, **options):
        return httpx.request(
            method, self.daemon.url + path, headers={"X-API-Key": key or self.daemon.key}, timeout=120, **options
        )

    def made(self, **options):
        sandbox = Sandbox.create(timeout=LIVE_S, metadata={"kept": "yes"}, envs={"GIVEN": "early"}, **options, **self.daemon.sdk)
        sandbox.files.write("/home/user/note", "kept")
        return sandbox

    def inhabited(self, volumes=None):
        """A sandbox with a file, a process that counts, and a service on its loopback."""
        sandbox = self.made(**({"volume_mounts": volumes} if volumes else {}))
        sandbox.commands.run(COUNTER, background=True, timeout=0)
        sandbox.commands.run("python3 -m http.server 8000 --bind 127.0.0.1", background=True, timeout=0)
        until(lambda: self.port(sandbox) == 200, "the service answers")
        return sandbox

    def port(self, sandbox):
        headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
        return httpx.get(f"{self.daemon.url}/note", headers=headers, timeout=60).status_code

    def connect(self, sandbox):
        return Sandbox.connect(sandbox.sandbox_id, timeout=LIVE_S, **self.daemon.sdk)

    def check_lives(self, sandbox):
        """Its file, its process and its service are there, and new commands run."""
        assert sandbox.files.read("/home/user/note") == "kept"
        assert sandbox.commands.run("echo $GIVEN").stdout == "early\n"
        first = int(sandbox.files.read("/home/user/count"))
        until(lambda: int(sandbox.files.read("/home/user/count") or 0) > first, "the counter counts on")
        assert self.port(sandbox) == 200


class Units(Daemon):
    """Keeper and server as two services, each of which can be replaced alone."""

    services = ("keeper", "serve")

    def start(self, listen="127.0.0.1:0"):
        self.processes = getattr(self, "processes", {})
        self.run("prepare")
        for name in self.services:
            self.replace(name, listen)
        self.wait_ready()

    def command(self, *words):
        return [self.program, *words, "--data", str(self.data), *self.settings]

    def run(self, *words):
        subprocess.run(self.command(*words), check=True, stdout=self.log, stderr=self.log)

    def replace(self, name, listen="127.0.0.1:0"):
        """Stops a service as a service manager does, and starts that of self.program."""
        if old := self.processes.get(name):
            old.terminate()
            old.wait(timeout=WAIT_S)
        words = self.command(name, "--listen", listen)
        if name == "serve":
            words = ["setpriv", "--reuid", "atoll", "--regid", "atoll", "--clear-groups", *words]
        self.processes[name] = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.process = self.processes["serve"] if "serve" in self.processes else self.processes[name]

    def stop(self):
        for name in reversed(self.services):
            self.processes[name].terminate()
            self.processes[name].wait(timeout=WAIT_S)


def orderly(daemon):
    daemon.stop()
    daemon.program = PROGRAM
    daemon.start()


def killed(daemon):
    daemon.kill()
    daemon.program = PROGRAM
    daemon.start()


def one_by_one(daemon, names):
    """Between the two steps, a server talks to a keeper of another version, or cannot."""
    daemon.program = PROGRAM
    daemon.run("prepare")
    for name in names:
        daemon.replace(name)
        time.sleep(BETWEEN_S)
    daemon.wait_ready()


def keeper_first(daemon):
    one_by_one(daemon, ("keeper", "serve"))


def server_first(daemon):
    one_by_one(daemon, ("serve", "keeper"))


WAYS = {orderly: Daemon, killed: Daemon, keeper_first: Units, server_first: Units}


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.__name__)
def life(request):
    daemon = WAYS[request.param]("--parked-max", "3", "--pack-after-s", "2")
    daemon.program = OLD
    daemon.copies_pool = False  # the version before makes it
    try:
        daemon.start()
        life = Life(daemon)
        until(lambda: is_packed(daemon, life.packed), "the memory of a paused sandbox is packed")
        request.param(daemon)
        until(lambda: keeper_is_there(daemon), f"the server has its keeper\n{daemon.said()}")
        yield life
    finally:
        daemon.program = PROGRAM
        daemon.remove()


def keeper_is_there(daemon):
    return httpx.get(f"{daemon.url}/health").json()["keeperConnected"]


def is_packed(daemon, sandbox):
    return any((daemon.data / "pool" / "saved").glob(f"saved-{sandbox.sandbox_id}-*/memory/packed"))


def test_a_running_sandbox_goes_on(life):
    assert life.daemon.jails()[life.running.sandbox_id] == life.jail
    assert life.info(life.running) == life.before[life.running.sandbox_id]
    sandbox = life.connect(life.running)
    life.check_lives(sandbox)
    command = sandbox.commands.connect(life.line.pid)
    sandbox.commands.send_stdin(life.line.pid, "word\n")
    assert command.wait().stdout == "got word\n"
    assert sandbox.files.read("/data/note") == "on the volume"


def test_a_running_sandbox_can_be_paused_snapshotted_and_forked(life):
    sandbox = life.connect(life.running)
    snapshot = sandbox.create_snapshot().snapshot_id
    copy = Sandbox.create(snapshot, timeout=LIVE_S, **life.daemon.sdk)
    life.check_lives(copy)
    copy.kill()
    [fork] = sandbox.fork(count=1, timeout=LIVE_S)
    life.check_lives(fork)
    fork.kill()
    assert sandbox.pause()
    life.check_lives(life.connect(sandbox))


@pytest.mark.parametrize("which", ["paused", "packed"])
def test_a_paused_sandbox_goes_on_with_its_memory(life, which):
    sandbox = getattr(life, which)
    assert life.info(sandbox) == life.before[sandbox.sandbox_id]
    again = life.connect(sandbox)
    life.check_lives(again)
    assert again.pause()
    life.check_lives(life.connect(again))


def test_a_sandbox_paused_without_memory_has_its_files(life):
    again = life.connect(life.asleep)
    assert again.files.read("/home/user/note") == "kept"
    with pytest.raises(CommandExitException, match="quota exceeded"):  # its disk is no larger than it was
        again.commands.run(f"fallocate -l {LARGE} /home/user/more")


def test_a_snapshot_starts_sandboxes(life):
    copy = Sandbox.create(life.snapshot, timeout=LIVE_S, **life.daemon.sdk)
    life.check_lives(copy)
    copy.kill()


def test_a_template_starts_sandboxes_and_is_a_base_for_others(life):
    made = Sandbox.create(life.template, timeout=LIVE_S, **life.daemon.sdk)
    assert made.commands.run("cat made; echo $MADE").stdout == "built\nyes\n"
    made.kill()
    name = f"{life.template}-on"
    to = {"api_url": life.daemon.url, "api_key": life.daemon.key}
    Template.build(Template().from_template(life.template).run_cmd("echo more >>/home/user/made"), name, **to)
    more = Sandbox.create(name, timeout=LIVE_S, **life.daemon.sdk)
    assert more.commands.run("cat made").stdout == "built\nmore\n"
    more.kill()


def test_volumes_secrets_and_keys_are_there(life):
    to = {"api_url": life.daemon.url, "api_key": life.daemon.key}
    assert Secret.get_info(life.secret.name, **to).secret_id == life.secret.secret_id
    assert Secret.update(life.secret.name, "another", **to).version == 2
    with_volume = Sandbox.create(timeout=LIVE_S, volume_mounts={"/v": life.volume.name}, **life.daemon.sdk)
    assert with_volume.files.read("/v/note") == "on the volume"
    with_volume.kill()
    assert life.call("GET", "/v2/sandboxes", key=life.key["key"]).status_code == 200
    listed = {row["sandboxID"] for row in life.call("GET", "/v2/sandboxes?state=running,paused").json()}
    assert {s.sandbox_id for s in life.all()} <= listed


def test_new_sandboxes_have_the_new_agent(life):
    new = Sandbox.create(timeout=60, **life.daemon.sdk)
    assert new.commands.run("echo new").stdout == "new\n"
    new.kill()
    until(lambda: new.sandbox_id not in life.daemon.jails(), "its jail is gone")


def test_all_of_them_can_be_killed(life):
    for sandbox in life.all():
        assert Sandbox.kill(sandbox.sandbox_id, **life.daemon.sdk) is True
        until(lambda: sandbox.sandbox_id not in life.daemon.sandbox_dirs(), "its disk is gone")


def test_data_of_a_newer_version_is_refused_with_a_sentence_and_kept():
    daemon = Daemon()
    daemon.program = PROGRAM
    daemon.start()
    daemon.stop()
    with sqlite3.connect(daemon.data / "state" / "atoll.db") as database:
        [known] = database.execute("PRAGMA user_version").fetchone()
        database.execute("PRAGMA user_version = 1000")
    try:
        refused = subprocess.run(
            [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data", str(daemon.data), *daemon.settings],
            capture_output=True, text=True, timeout=120,
        )
        assert refused.returncode != 0
        assert f"has version 1000, this program knows up to {known}: use the newer program" in refused.stderr
    finally:
        with sqlite3.connect(daemon.data / "state" / "atoll.db") as database:
            assert database.execute("PRAGMA user_version").fetchone() == (1000,)
            database.execute(f"PRAGMA user_version = {known}")
        daemon.remove()
