"""kill -9 of any part of the daemon in any phase of a build: the build ends, with a reason, nothing
is left behind, and the same build runs through afterwards."""

import os
import sqlite3
import threading
import uuid

import httpx
import pytest
from builder import Builder, archive, run
from daemon import running, until


@pytest.fixture(scope="module")
def daemon():
    with running("--builds-max", "1") as daemon:
        yield daemon


WAYS = {
    "server": lambda daemon: daemon.kill_child("server"),
    "keeper": lambda daemon: daemon.kill_child("keeper"),
    "all": lambda daemon: (daemon.kill(), daemon.start()),
    "orderly": lambda daemon: (daemon.stop(), daemon.start()),
}


def big_archive():
    return archive(*[(f"d/{i}", os.urandom(1 << 20)) for i in range(60)])


# Each: the steps, the rest of the build, and the words of the log at which it is hit.
PHASES = {
    "run": ([run("echo begun; sleep 5")], {}, "[stdout]: begun"),
    "copy": ("copy", {}, "COPY"),
    "between steps": ([run(f"echo {i}") for i in range(40)], {}, "RUN echo 7"),
    "finalize": ([run("true")], {}, "Finalizing"),
    "start": ([], {"startCmd": "sleep 100", "readyCmd": "sleep 3"}, "Waiting for template"),
    "keep running state": ([], {"startCmd": "sleep 100", "readyCmd": "true"}, "Template is ready"),
}


def kept_and_wanted(daemon):
    """What lies in the pool, and what the store knows of it."""
    kept = {path.name for path in (daemon.data / "pool" / "saved").iterdir()}
    with sqlite3.connect(daemon.data / "state" / "atoll.db") as db:
        layers = [row[0] for row in db.execute("SELECT layers FROM builds")]
        layers += [row[0] for row in db.execute("SELECT saved FROM builds WHERE saved NOT NULL")]
        steps = [row[0] for row in db.execute("SELECT saved FROM steps")]
    db.close()
    wanted = {name for row in layers for name in row.split(",") if name.startswith("saved-")}
    return kept, wanted | {name for name in steps if name}


def is_clean(daemon):
    kept, wanted = kept_and_wanted(daemon)
    parts = [p for p in (daemon.data / "state" / "files").iterdir() if p.name.startswith(".part")]
    return kept == wanted and daemon.jails() == {} and not daemon.sandbox_dirs() and not parts


def begin(builder, steps, body):
    ids = builder.request("faulty")
    if steps == "copy":
        files = builder.upload(ids[0], big_archive())
        steps = [{"type": "COPY", "args": ["d", "/opt/d"], "filesHash": files}]
    word = {"type": "ENV", "args": ["WORD", uuid.uuid4().hex]}
    builder.start(ids, [word, *steps], **body)
    return ids, [word, *steps]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("phase", PHASES)
def test_a_build_that_is_hit_ends_and_leaves_nothing(daemon, phase, way):
    builder = Builder(daemon)
    steps, body, words = PHASES[phase]
    ids, steps = begin(builder, steps, body)
    until(lambda: any(words in line for line in builder.log(ids)), f"the log says {words}")

    WAYS[way](daemon)

    status = builder.wait(ids)
    if status["status"] == "error":
        assert status["reason"]["message"]
    until(lambda: is_clean(daemon), f"nothing is left: {kept_and_wanted(daemon)}")
    again = builder.request("faulty")
    builder.start(again, steps, **body)
    assert builder.wait(again)["status"] == "ready", builder.log(again)
    assert builder.create("faulty").status_code == 201
    for row in builder.call("GET", "/sandboxes").json():
        builder.call("DELETE", f"/sandboxes/{row['sandboxID']}")
    until(lambda: is_clean(daemon), f"nothing is left: {kept_and_wanted(daemon)}")


@pytest.mark.parametrize("way", ["server", "all"])
def test_a_queued_build_does_not_wait_for_ever(daemon, way):
    builder = Builder(daemon)
    first, second = builder.request("queue-a"), builder.request("queue-b")
    builder.start(first, [run("sleep 100")])
    builder.start(second, [run("sleep 100")])
    WAYS[way](daemon)
    assert [builder.wait(ids)["status"] for ids in (first, second)] == ["error", "error"]
    until(lambda: is_clean(daemon), "nothing is left")


@pytest.mark.parametrize("way", ["server", "all"])
def test_a_build_that_was_not_started_may_still_be(daemon, way):
    builder = Builder(daemon)
    ids = builder.request("later")
    WAYS[way](daemon)
    assert builder.status(ids)["status"] == "waiting"
    builder.start(ids)
    assert builder.wait(ids)["status"] == "ready"


@pytest.mark.parametrize("way", ["server", "all"])
def test_an_upload_that_is_hit_leaves_nothing(daemon, way):
    builder = Builder(daemon)
    template, _ = builder.request("upload")
    url = builder.call("GET", f"/templates/{template}/files/{'a' * 64}").json()["url"]
    begun, hit = threading.Event(), threading.Event()

    def pieces():
        yield b"x" * 500000
        begun.set()
        hit.wait(60)
        yield b"x" * 500000

    def put():
        try:
            httpx.put(url, content=pieces(), headers={"Content-Length": "1000000"}, timeout=60)
        except httpx.TransportError:
            pass

    client = threading.Thread(target=put)
    client.start()
    assert begun.wait(60)
    WAYS[way](daemon)
    hit.set()
    client.join(60)
    answer = builder.call("GET", f"/templates/{template}/files/{'a' * 64}").json()
    assert answer["present"] is False
    until(lambda: is_clean(daemon), "nothing is left")
