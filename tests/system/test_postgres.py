"""The daemon with its state in PostgreSQL, which is restarted under it and taken away from it."""

import os
import subprocess
import threading

import httpx
import pytest
from daemon import Daemon, running, until
from e2b import Sandbox
from postgres import postgres_running


@pytest.fixture(scope="module")
def postgres():
    with postgres_running() as postgres:
        yield postgres


@pytest.fixture(scope="module")
def daemon(postgres):
    with running(environment={"ATOLL_DATABASE": postgres.url}) as daemon:
        yield daemon


def api(daemon, method, path, **more):
    return httpx.request(method, daemon.url + path, headers={"X-API-Key": daemon.key}, timeout=60, **more)


def events(daemon, sandbox_id):
    answer = api(daemon, "GET", f"/events/sandboxes/{sandbox_id}", params={"orderAsc": "true"})
    assert answer.status_code == 200, answer.text
    return [event["type"].rpartition(".")[2] for event in answer.json()]


def test_a_life_is_in_the_database(daemon, postgres):
    sandbox = Sandbox.create(timeout=600, metadata={"kept": "yes"}, **daemon.sdk)
    sandbox.files.write("/home/user/note", "kept")
    assert Sandbox.pause(sandbox.sandbox_id, **daemon.sdk)
    assert postgres.ask(f"SELECT state FROM sandboxes WHERE id = '{sandbox.sandbox_id}'") == "paused"
    listed = api(daemon, "GET", "/v2/sandboxes", params={"state": "paused"}).json()
    assert [row["sandboxID"] for row in listed] == [sandbox.sandbox_id]

    again = Sandbox.connect(sandbox.sandbox_id, timeout=600, **daemon.sdk)
    assert again.files.read("/home/user/note") == "kept"
    assert again.kill()
    until(
        lambda: postgres.ask(f"SELECT state FROM sandboxes WHERE id = '{sandbox.sandbox_id}'") == "killed",
        "its row says killed",
    )
    assert events(daemon, sandbox.sandbox_id) == ["created", "paused", "resumed", "killed"]
    assert not (daemon.data / "state" / "atoll.db").exists()
    assert postgres.url not in (daemon.data / "log").read_text()


def test_sandboxes_are_adopted_from_the_database(daemon):
    runs = Sandbox.create(timeout=600, **daemon.sdk)
    rests = Sandbox.create(timeout=600, **daemon.sdk)
    rests.files.write("/home/user/note", "rested")
    assert Sandbox.pause(rests.sandbox_id, **daemon.sdk)
    daemon.kill()
    daemon.start()
    assert Sandbox.connect(runs.sandbox_id, **daemon.sdk).commands.run("echo on").stdout == "on\n"
    assert Sandbox.connect(rests.sandbox_id, **daemon.sdk).files.read("/home/user/note") == "rested"
    for sandbox in (runs, rests):
        assert Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def test_a_database_that_is_away_is_told_and_comes_back(daemon, postgres):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    postgres.crash()
    try:
        refused = api(daemon, "POST", "/sandboxes", json={"templateID": "base"})
        assert refused.status_code == 503, refused.text
        assert "database is away" in refused.json()["message"]
        assert str(postgres.dir) not in refused.text
        assert api(daemon, "GET", f"/events/sandboxes/{sandbox.sandbox_id}").status_code == 503
        degraded = api(daemon, "GET", "/health").json()["degraded"]
        assert "database" in [one["what"] for one in degraded]
        assert sandbox.commands.run("echo on").stdout == "on\n"  # a running sandbox goes on
    finally:
        postgres.start()
    until(lambda: api(daemon, "POST", "/sandboxes", json={"templateID": "base"}).status_code == 201, "creates work")
    assert events(daemon, sandbox.sandbox_id) == ["created"]
    assert daemon.process.poll() is None
    daemon.remove_sandboxes(daemon.key)


def test_restarts_of_the_database_under_load(daemon, postgres):
    """What was answered is stored, and each sandbox was created and killed once."""
    created, over = [], threading.Event()

    def work():
        while not over.is_set():
            answer = api(daemon, "POST", "/sandboxes", json={"templateID": "base", "timeout": 300})
            assert answer.status_code in (201, 503), answer.text
            if answer.status_code == 201:
                sandbox_id = answer.json()["sandboxID"]
                created.append(sandbox_id)
                until(
                    lambda: api(daemon, "DELETE", f"/sandboxes/{sandbox_id}").status_code in (204, 404),
                    "it is killed",
                )

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for rounds in range(1, 4):
        until(lambda: len(created) >= rounds * 4, "sandboxes are created")
        postgres.crash()
        postgres.start()
    over.set()
    for thread in threads:
        thread.join()
    for sandbox_id in created:
        until(
            lambda: postgres.ask(f"SELECT state FROM sandboxes WHERE id = '{sandbox_id}'") == "killed",
            f"{sandbox_id} is recorded as killed",
        )
        assert events(daemon, sandbox_id) == ["created", "killed"]
    assert postgres.ask("SELECT count(*) FROM sandboxes WHERE state <> 'killed'") == "0"


def copy(daemon, postgres):
    """`atoll store copy`, with the URL where nobody sees it."""
    return subprocess.run(
        [daemon.program, "store", "copy", "--data", str(daemon.data)],
        env=os.environ | {"ATOLL_DATABASE": postgres.url},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_state_of_a_machine_moves_into_the_database():
    """It is refused while a daemon runs, and when the database is not empty; what was there is there afterwards."""
    daemon = Daemon()
    with postgres_running() as postgres:
        try:
            daemon.start()
            runs = Sandbox.create(timeout=600, metadata={"note": "tab\tline\n\\ é"}, **daemon.sdk)
            rests = Sandbox.create(timeout=600, **daemon.sdk)
            rests.files.write("/home/user/note", "rested")
            assert Sandbox.pause(rests.sandbox_id, **daemon.sdk)
            before = events(daemon, rests.sandbox_id)
            info = Sandbox.get_info(runs.sandbox_id, **daemon.sdk)
            refused = copy(daemon, postgres)
            assert refused.returncode == 1 and "stop it first" in refused.stderr
            assert postgres.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"

            daemon.stop()
            done = copy(daemon, postgres)
            assert done.returncode == 0, done.stderr
            assert "Copied" in done.stdout
            refused = copy(daemon, postgres)
            assert refused.returncode == 1 and "not empty" in refused.stderr

            daemon.environment["ATOLL_DATABASE"] = postgres.url
            (daemon.data / "state" / "atoll.db").rename(daemon.data / "state" / "copied.db")
            daemon.start()
            assert Sandbox.get_info(runs.sandbox_id, **daemon.sdk).metadata == info.metadata
            assert events(daemon, rests.sandbox_id) == before
            again = Sandbox.connect(rests.sandbox_id, timeout=600, **daemon.sdk)
            assert again.files.read("/home/user/note") == "rested"
            assert events(daemon, rests.sandbox_id) == [*before, "resumed"]
        finally:
            daemon.remove()
