"""Sandboxes outlive the daemon: kill -9 any part of it, and a restart adopts them."""

import os
import signal
import subprocess
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import httpx
import pytest
from daemon import PROGRAM, SETTINGS, running, until
from e2b import CommandExitException, Sandbox, SandboxNotFoundException


@pytest.fixture
def sandbox(daemon):
    """A sandbox with a file, a counter that counts on, and metadata."""
    sandbox = Sandbox.create(timeout=600, metadata={"kept": "yes"}, **daemon.sdk)
    sandbox.files.write("/home/user/note", "kept")
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


WAYS = {
    "server": lambda daemon: daemon.kill_child("server"),
    "keeper": lambda daemon: daemon.kill_child("keeper"),
    "both": lambda daemon: daemon.kill_child("server", "keeper"),
    "all": lambda daemon: (daemon.kill(), daemon.start()),
    "orderly": lambda daemon: (daemon.stop(), daemon.start()),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_sandbox_is_adopted(daemon, sandbox, way):
    running = sandbox.commands.run("read line; echo got $line", background=True, stdin=True)
    before = Sandbox.get_info(sandbox.sandbox_id, **daemon.sdk)
    jail = daemon.jails()[sandbox.sandbox_id]

    WAYS[way](daemon)

    after = Sandbox.get_info(sandbox.sandbox_id, **daemon.sdk)
    # A daemon of the tests takes a free port, for TLS as well.
    assert replace(after, sandbox_domain=before.sandbox_domain) == before
    again = Sandbox.connect(sandbox.sandbox_id, **daemon.sdk)
    assert again.files.read("/home/user/note") == "kept"
    assert daemon.jails()[sandbox.sandbox_id] == jail

    command = again.commands.connect(running.pid)
    again.commands.send_stdin(running.pid, "word\n")
    assert command.wait().stdout == "got word\n"


@pytest.mark.parametrize("way", WAYS)
def test_life_goes_on_afterwards(daemon, way):
    WAYS[way](daemon)
    sandbox = Sandbox.create(timeout=60, **daemon.sdk)
    assert sandbox.commands.run("echo new").stdout == "new\n"
    assert sandbox.kill() is True
    until(lambda: sandbox.sandbox_id not in daemon.sandbox_dirs(), "its disk is gone")


# As WAYS, but the new daemon is found where the old one was.
RESTARTS = {
    "server": lambda daemon, listen: daemon.kill_child("server"),
    "keeper": lambda daemon, listen: daemon.kill_child("keeper"),
    "both": lambda daemon, listen: daemon.kill_child("server", "keeper"),
    "all": lambda daemon, listen: (daemon.kill(), daemon.start(listen)),
    "orderly": lambda daemon, listen: (daemon.stop(), daemon.start(listen)),
}


@pytest.mark.parametrize("way", RESTARTS)
def test_a_restart_never_says_that_a_sandbox_is_gone(daemon, sandbox, way):
    """Asks all the time while the daemon is restarted again and again. No answer is fine; a wrong
    one would make a client give up a sandbox that runs."""
    done = threading.Event()
    url, key = daemon.url, daemon.key
    routing = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983"}
    questions = {
        "api": (f"{url}/sandboxes/{sandbox.sandbox_id}", {"X-API-Key": key}),
        "edge": (f"{url}/health", routing),
    }
    answers = {name: set() for name in questions}

    def ask(name):
        address, headers = questions[name]
        while not done.is_set():
            try:
                answers[name].add(httpx.get(address, headers=headers).status_code)
            except httpx.TransportError:
                pass

    threads = [threading.Thread(target=ask, args=(name,)) for name in questions]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            RESTARTS[way](daemon, url.removeprefix("http://"))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert 200 in answers["api"] and answers["api"] <= {200, 503}
    assert 204 in answers["edge"] and answers["edge"] <= {204, 503}


def test_commands_go_on_while_the_keeper_is_away(daemon, sandbox):
    stream = sandbox.commands.run("read line; echo $line", background=True, stdin=True)
    daemon.kill_child("keeper")
    sandbox.commands.send_stdin(stream.pid, "undisturbed\n")
    assert stream.wait().stdout == "undisturbed\n"


def test_an_adopted_sandbox_can_be_killed(daemon, sandbox):
    daemon.kill()
    daemon.start()
    assert Sandbox.kill(sandbox.sandbox_id, **daemon.sdk) is True
    until(lambda: sandbox.sandbox_id not in daemon.jails(), "the jail is gone")
    until(lambda: sandbox.sandbox_id not in daemon.sandbox_dirs(), "its disk is gone")


def test_a_shutdown_of_the_host_ends_a_jail_and_its_tenant_does_not(daemon):
    """A service manager sends SIGTERM to all processes and waits 90 s for those that stay."""
    sandbox = Sandbox.create(timeout=60, **daemon.sdk)
    sandbox.commands.run("kill -TERM 1; kill -INT 1; kill -HUP 1; kill -QUIT 1", user="root")
    assert sandbox.commands.run("echo still here").stdout == "still here\n"
    os.kill(daemon.jails()[sandbox.sandbox_id], signal.SIGTERM)
    until(lambda: sandbox.sandbox_id not in daemon.jails(), "the jail has ended")


def test_a_timeout_holds_across_a_restart(daemon):
    sandbox = Sandbox.create(timeout=6, **daemon.sdk)
    daemon.kill_child("server", "keeper")
    assert Sandbox.get_info(sandbox.sandbox_id, **daemon.sdk).sandbox_id == sandbox.sandbox_id
    until(lambda: sandbox.sandbox_id not in daemon.jails(), "the timeout has ended the jail")
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_info(sandbox.sandbox_id, **daemon.sdk)


def test_a_timeout_that_passed_while_nobody_looked(daemon):
    sandbox = Sandbox.create(timeout=2, **daemon.sdk)
    end = Sandbox.get_info(sandbox.sandbox_id, **daemon.sdk).end_at
    daemon.kill()
    until(lambda: datetime.now(timezone.utc) > end + timedelta(seconds=1), "its time is over")
    assert sandbox.sandbox_id in daemon.jails()

    daemon.start()
    until(lambda: sandbox.sandbox_id not in daemon.jails(), "the jail is gone")
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_info(sandbox.sandbox_id, **daemon.sdk)


def test_what_died_meanwhile_is_on_record(daemon, sandbox):
    jail = daemon.jails()[sandbox.sandbox_id]
    daemon.kill()
    os.kill(jail, signal.SIGKILL)
    until(lambda: sandbox.sandbox_id not in daemon.jails(), "the jail has died")

    daemon.start()
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_info(sandbox.sandbox_id, **daemon.sdk)
    listed = [info.sandbox_id for info in Sandbox.list(**daemon.sdk).next_items()]
    assert sandbox.sandbox_id not in listed
    until(lambda: sandbox.sandbox_id not in daemon.sandbox_dirs(), "its disk is gone")


def test_a_jail_that_dies_under_a_running_daemon(daemon, sandbox):
    waiting = sandbox.commands.run("sleep 1000", background=True)
    os.kill(daemon.jails()[sandbox.sandbox_id], signal.SIGKILL)
    with pytest.raises(Exception) as caught:
        waiting.wait()
    assert not isinstance(caught.value, CommandExitException)
    until(lambda: sandbox.sandbox_id not in [info.sandbox_id for info in Sandbox.list(**daemon.sdk).next_items()],
          "the daemon has noticed")
    assert not sandbox.is_running()
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()


def test_the_key_outlives_the_daemon(daemon):
    key = daemon.key
    daemon.kill()
    daemon.start()
    assert daemon.key == key
    assert httpx.get(f"{daemon.url}/v2/sandboxes", headers={"X-API-Key": key}).status_code == 200


def test_a_second_daemon_is_refused(daemon):
    second = subprocess.run(
        [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data", str(daemon.data), *SETTINGS],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode != 0
    assert str(daemon.data) in second.stderr
    assert daemon.is_ready()
