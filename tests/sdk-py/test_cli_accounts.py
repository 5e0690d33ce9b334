"""atoll secret, volume and webhook: what a team has, and values that never show.

The endpoint of the webhook is on loopback, so the daemon must run with --webhook-allow-local true."""

import contextlib
import json
import os
import pty
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from receiver import Receiver

PROGRAM = os.path.join(os.environ.get("ATOLL_BUILD", ""), "atoll")
WAIT_S = 60


def run(*words, **options):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=WAIT_S, check=False, **options)


def done(*words, **options):
    ended = run(*words, **options)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def name():
    return f"cli-{uuid.uuid4().hex[:8]}"


def test_secrets(name):
    assert done("secret", "set", name, input="first\n") == ""
    row = json.loads(done("secret", "set", name, "--json", input="second"))
    assert row["name"] == name and row["currentVersion"] == 2 and "second" not in json.dumps(row)
    assert name in done("secret", "list", "-q").split()
    assert any(row["name"] == name for row in json.loads(done("secret", "list", "--json")))
    assert "second" not in done("secret", "list") + done("secret", "list", "--json")
    assert done("secret", "set", name, "--value", "third", "-q").strip() == name
    assert run("secret", "set", name, input="").returncode == 1
    assert done("secret", "rm", name) == f"Deleted {name}\n"
    assert run("secret", "rm", name).returncode == 3


def test_a_secret_at_a_terminal_has_no_echo_and_no_trace(name):
    value = uuid.uuid4().hex
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(PROGRAM, [PROGRAM, "secret", "set", name])
    seen = b""
    while b"Value of" not in seen:
        seen += os.read(fd, 1000)
    assert value not in Path(f"/proc/{pid}/cmdline").read_text() and value not in Path(f"/proc/{pid}/environ").read_text()
    time.sleep(0.3)  # the echo is switched off right after the question
    os.write(fd, value.encode() + b"\n")
    try:
        while piece := os.read(fd, 1000):
            seen += piece
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(fd)
    assert value.encode() not in seen
    done("secret", "rm", name)


def test_volumes(name):
    assert done("volume", "create", name).strip() == name
    assert run("volume", "create", name).returncode == 1
    assert name in done("volume", "list", "-q").split()
    row = next(row for row in json.loads(done("volume", "list", "--json")) if row["name"] == name)
    assert "token" not in row
    assert done("volume", "ls", name) == ""
    done("volume", "cp", __file__, f"vol:{name}/a/b")
    assert [row["name"] for row in json.loads(done("volume", "ls", f"{name}/a", "--json"))] == ["b"]
    assert done("volume", "cp", f"vol:{name}/a/b", "-") == Path(__file__).read_text()
    done("volume", "rm", name)
    assert run("volume", "rm", name).returncode == 3
    assert "token" not in done("volume", "create", name, "--json")
    done("volume", "rm", name)


def test_webhooks(name):
    with contextlib.closing(Receiver()) as receiver:
        hook = done("webhook", "create", receiver.url, "--name", name, "--event", "killed", "--event", "created", input="sign").strip()
        try:
            row = next(row for row in json.loads(done("webhook", "list", "--json")) if row["id"] == hook)
            assert row["events"] == ["sandbox.lifecycle.killed", "sandbox.lifecycle.created"] and "sign" not in json.dumps(row)
            assert hook in done("webhook", "list", "-q").split()
            assert "delivered" in done("webhook", "test", hook)
            assert str(uuid.UUID(done("webhook", "test", hook, "-q").strip()))
            done("run", "true")
            end = time.monotonic() + 60
            while len(rows := done("webhook", "deliveries", hook).splitlines()) < 2 and time.monotonic() < end:
                time.sleep(0.2)
            assert {row.split("\t")[2] for row in rows} == {"killed", "created"}
            assert json.loads(done("webhook", "deliveries", hook, "--json")) is not None
            first = done("webhook", "deliveries", hook, "-q").split()[0]
            again = done("webhook", "redeliver", hook, first, "-q").strip()
            assert again != first and again in done("webhook", "deliveries", hook, "-q").split()
            assert json.loads(done("webhook", "redeliver", hook, first, "--json"))["deliveryId"] != again
        finally:
            done("webhook", "rm", hook)
    assert run("webhook", "rm", hook).returncode == 3
    assert run("webhook", "creat", "x").stderr.count("did you mean 'create'") == 1


def made(kind, name):
    """What `rm` takes for a thing of that kind that is there."""
    if kind == "webhook":
        return done("webhook", "create", "http://127.0.0.1:9/", "--name", name, input="sign").strip()
    done(kind, *(["set", name] if kind == "secret" else ["create", name]), **({"input": "x"} if kind == "secret" else {}))
    return name


@pytest.mark.parametrize("kind", ["secret", "volume", "webhook"])
def test_all_that_shall_be_deleted_is_tried(kind, name):
    there = [made(kind, f"{name}-{i}") for i in range(4)]
    missing = str(uuid.uuid4())
    listed = json.loads(done(kind, "list", "--json"))
    assert set(there) <= {row["id" if kind == "webhook" else "name"] for row in listed}
    ended = run(kind, "rm", missing, there[0])
    assert (ended.returncode, ended.stdout) == (1, f"Deleted {there[0]}\n")
    assert ended.stderr.startswith(f"atoll: {missing}: ") and ended.stderr.count("\n") == 1
    ended = run(kind, "rm", "-q", there[1], missing, there[2])
    assert (ended.returncode, ended.stdout) == (1, f"{there[1]}\n{there[2]}\n") and missing in ended.stderr
    assert json.loads(done(kind, "rm", "--json", there[3])) == {"name": there[3]}
    assert not set(there) & set(done(kind, "list", "-q").split())
    ended = run(kind, "rm", missing)
    assert (ended.returncode, ended.stdout) == (3, "") and missing in ended.stderr
