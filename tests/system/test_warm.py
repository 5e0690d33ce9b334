"""Built-in templates with a start command: run once, kept, and running when a sandbox begins."""

import json
import shutil

import pytest
from daemon import ROOT, Daemon, until
from e2b import Sandbox

# Each run of it has another name, and counts its requests in memory.
SERVICE = """
import http.server, uuid
name, asked = uuid.uuid4().hex, 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{name} {asked}".encode())
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""
READY = "curl -sf 127.0.0.1:8000"
KEPT = "the template base is kept with its start command running"
NOT_KEPT = "the template base could not be kept with its start command running"
# A process that is being traced cannot be saved.
TRACED = "import ctypes, os, signal; os.fork() or (ctypes.CDLL(None).ptrace(0, 0, 0, 0), signal.pause())"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    templates = tmp_path_factory.mktemp("templates")
    shutil.copytree(ROOT / "templates" / "base", templates / "base")
    shutil.copy(ROOT / "templates" / "recipe.sh", templates)
    daemon = Daemon("--templates", str(templates))
    daemon.settings_of_base = templates / "base" / "settings.json"
    try:
        start_with(daemon, f"exec python3 -c '{SERVICE}'")
        yield daemon
    finally:
        daemon.remove()


def start_with(daemon, command):
    settings = {"cpuCount": 1, "memoryMB": 512, "diskSizeMB": 1024, "startCmd": command, "readyCmd": READY}
    daemon.settings_of_base.write_text(json.dumps(settings))
    daemon.start()


def log(daemon):
    return (daemon.data / "log").read_text(errors="replace")


def kept(daemon, more=0):
    """Waits until it has been kept more often than that; how often it has been."""
    return until(lambda: log(daemon).count(KEPT) > more and log(daemon).count(KEPT), "it is kept")


def saved(daemon):
    return {path.name for path in (daemon.data / "pool" / "saved").glob("saved-*")}


def ask(sandbox):
    name, asked = sandbox.commands.run("curl -s 127.0.0.1:8000").stdout.split()
    return name, int(asked)


@pytest.fixture
def new(daemon):
    made = []

    def create(**options):
        made.append(Sandbox.create(timeout=120, **options, **daemon.sdk))
        return made[-1]

    yield create
    for sandbox in made:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)  # which may have been started anew, elsewhere


def test_sandboxes_begin_with_what_was_run_once(daemon, new):
    kept(daemon)
    first, second = new(), new(envs={"WORD": "mine"})
    assert ask(first) == ask(second)  # one run of it, as both found it
    assert ask(first)[1] == ask(second)[1] == 3  # and from there each has its own: ready was the first
    assert second.commands.run("echo $WORD").stdout == "mine\n"
    names = [box.commands.run("hostname").stdout.strip() for box in (first, second)]
    assert names == [first.sandbox_id, second.sandbox_id]
    assert Sandbox.list(**daemon.sdk).next_items()[0].sandbox_id == second.sandbox_id
    assert len(daemon.jails()) == 2  # the one that it was run in is gone


def test_one_that_began_so_is_paused_and_forked(daemon, new):
    kept(daemon)
    sandbox = new()
    name, asked = ask(sandbox)
    sandbox.pause()
    sandbox = Sandbox.connect(sandbox.sandbox_id, **daemon.sdk)
    assert ask(sandbox) == (name, asked + 1)
    snapshot = sandbox.create_snapshot()
    copy = new(template=snapshot.snapshot_id)
    assert ask(copy) == ask(sandbox) == (name, asked + 2)
    Sandbox.delete_snapshot(snapshot.snapshot_id, **daemon.sdk)
    [fork] = sandbox.fork(timeout=60)
    try:
        assert ask(fork) == ask(sandbox) == (name, asked + 3)
    finally:
        Sandbox.kill(fork.sandbox_id, **daemon.sdk)


def test_it_survives_a_restart(daemon, new):
    times = kept(daemon)
    before = saved(daemon)
    name, _ = ask(new())
    daemon.kill()
    daemon.start()
    assert saved(daemon) == before
    assert ask(new())[0] == name
    assert log(daemon).count(KEPT) == times


def test_what_cannot_be_used_is_run_anew_and_kept_again(daemon, new):
    times = kept(daemon)
    [before] = saved(daemon)
    name, _ = ask(new())
    for image in (daemon.data / "pool" / "saved" / before / "memory").glob("core-*.img"):
        image.write_bytes(b"")
    assert ask(new())[0] != name
    assert kept(daemon, times) == times + 1
    until(lambda: before not in saved(daemon), "what cannot be used is forgotten")
    assert len(saved(daemon)) == 1
    assert ask(new())[0] == ask(new())[0]


def test_another_command_is_another_build(daemon, new):
    times = kept(daemon)
    [before] = saved(daemon)
    name, _ = ask(new())
    daemon.stop()
    start_with(daemon, f"sleep 0.1; exec python3 -c '{SERVICE}'")
    assert kept(daemon, times) == times + 1
    until(lambda: before not in saved(daemon), "what was kept of the old one is forgotten")
    assert ask(new())[0] != name


def test_what_cannot_be_kept_is_told_and_run_each_time(daemon, new):
    daemon.stop()
    start_with(daemon, f"exec python3 -c '{TRACED}{SERVICE}'")
    until(lambda: NOT_KEPT in log(daemon), "the operator is told")
    [told, *_] = [line for line in log(daemon).splitlines() if NOT_KEPT in line]
    assert "traced" in told and told.endswith("; it will be tried again")
    assert ask(new())[0] != ask(new())[0]
    until(lambda: saved(daemon) == set(), "nothing is left of it")


def test_a_daemon_that_stops_in_the_middle_leaves_no_jail(tmp_path):
    templates = tmp_path / "templates"
    templates.mkdir()
    shutil.copytree(ROOT / "templates" / "base", templates / "base")
    shutil.copy(ROOT / "templates" / "recipe.sh", templates)
    daemon = Daemon("--templates", str(templates))
    daemon.settings_of_base = templates / "base" / "settings.json"
    try:
        start_with(daemon, "exec sleep 1000")  # which never answers: it is not kept
        until(daemon.jails, "a jail is made to keep it")
        daemon.stop()
        until(lambda: not daemon.jails(), "it is gone")
    finally:
        shutil.copy(ROOT / "templates" / "base" / "settings.json", daemon.settings_of_base)
        daemon.remove()
