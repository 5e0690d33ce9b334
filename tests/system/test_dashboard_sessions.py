"""Sessions of the dashboard over the life of a daemon: restarts, their end, the operator's commands."""

import sqlite3
import subprocess

import httpx
import pytest
from daemon import PROGRAM, running
from teams import admin, atoll, client

COOKIE = "atoll_session"


@pytest.fixture
def daemon():
    with running() as daemon:
        yield daemon


def login(daemon, **body):
    page = httpx.Client(base_url=daemon.url, timeout=60)
    answer = page.post("/dashboard/session", json=body or {"apiKey": daemon.key})
    assert answer.status_code == 201, answer.text
    page.headers["X-Atoll-CSRF"] = answer.json()["csrf"]
    return page


def moved(daemon, page):
    """The same browser, where the daemon serves now."""
    return httpx.Client(base_url=daemon.url, headers={"X-Atoll-CSRF": page.headers["X-Atoll-CSRF"]},
                        cookies={COOKIE: page.cookies[COOKIE]}, timeout=60)


def database(daemon, change):
    with sqlite3.connect(daemon.data / "state" / "atoll.db") as db:
        return db.execute(change).fetchall()


def test_a_session_survives_a_restart_and_a_kill(daemon):
    page = login(daemon)
    daemon.stop()
    daemon.start()
    page = moved(daemon, page)
    assert page.get("/sandboxes").status_code == 200
    daemon.kill_child("serve")
    page = moved(daemon, page)
    stolen = moved(daemon, page)
    assert page.get("/dashboard/session").status_code == 200
    assert page.delete("/dashboard/session").status_code == 204
    daemon.kill_child("serve")
    assert moved(daemon, stolen).get("/sandboxes").status_code == 401


def test_the_store_has_neither_cookie_nor_token(daemon):
    page = login(daemon)
    daemon.stop()
    for path in (daemon.data / "state").glob("atoll.db*"):
        content = path.read_bytes()
        assert page.cookies[COOKIE].encode() not in content
        assert page.headers["X-Atoll-CSRF"].encode() not in content


@pytest.mark.parametrize("column", ["used_ms", "created_ms"])
def test_a_session_whose_time_is_over_has_ended(daemon, column):
    page, other = login(daemon), login(daemon)
    daemon.stop()
    age_ms = {"used_ms": 12 * 3600 * 1000, "created_ms": 30 * 24 * 3600 * 1000}[column]
    (first,) = database(daemon, f"SELECT hash FROM sessions ORDER BY {column} LIMIT 1")
    database(daemon, f"UPDATE sessions SET {column} = {column} - {age_ms} WHERE hash = '{first[0]}'")
    daemon.start()
    answers = {moved(daemon, each).get("/sandboxes").status_code for each in (page, other)}
    assert answers == {200, 401}
    assert database(daemon, "SELECT count(*) FROM sessions") == [(1,)]


def test_a_key_that_was_deleted_takes_its_sessions_along(daemon):
    with client(daemon, daemon.key) as api:
        key = api.post("/api-keys", json={"name": "x"}).json()
        login(daemon, apiKey=key["key"])
        assert database(daemon, "SELECT count(*) FROM sessions") == [(1,)]
        assert api.delete(f"/api-keys/{key['id']}").status_code == 204
    assert database(daemon, "SELECT count(*) FROM sessions") == [(0,)]


def test_the_operators_token_of_a_start_ends_with_it(daemon):
    token = (daemon.data / "state" / "admin.token").read_text().strip()
    page = login(daemon, apiKey=daemon.key, adminKey=token)
    assert page.get("/admin/teams").status_code == 200
    daemon.stop()
    daemon.start()
    page = moved(daemon, page)
    assert page.get("/admin/teams").status_code == 403 and page.get("/sandboxes").status_code == 200
    with admin(daemon) as operator:
        key = operator.post("/admin/keys", json={"name": "stays"}).json()["key"]
    assert page.post("/dashboard/session", json={"adminKey": key}).json()["operator"] is True
    daemon.stop()
    daemon.start()
    assert moved(daemon, page).get("/admin/teams").status_code == 200


def test_open_prints_a_link_with_the_operators_rights(daemon):
    url, _, link = atoll(daemon, "open", "--no-browser").stdout.strip().partition("/#login=")
    assert url == daemon.url
    page = login(daemon, link=link)
    assert page.get("/dashboard/session").json()["operator"] is True
    link = atoll(daemon, "open", "--no-operator", "-q").stdout.strip().partition("/#login=")[2]
    assert login(daemon, link=link).get("/dashboard/session").json()["operator"] is False


def test_open_of_a_read_only_key_is_read_only(daemon):
    key = atoll(daemon, "key", "create", "reader", "--read-only", "-q").stdout.strip()
    done = subprocess.run([PROGRAM, "open", "--url", daemon.url, "--key", key], check=True, capture_output=True, text=True)
    shown = login(daemon, link=done.stdout.strip().partition("/#login=")[2]).get("/dashboard/session").json()
    assert shown["readOnly"] is True and shown["operator"] is False
    assert "read" in atoll(daemon, "key", "list").stdout


def test_open_sends_the_operators_token_to_its_own_daemon_alone(daemon):
    """A daemon that another user names gets the key, and never the admin token."""
    with running() as other:
        key = atoll(other, "key", "create", "elsewhere", "-q").stdout.strip()
        done = subprocess.run([PROGRAM, "open", "--url", other.url, "--key", key, "--data", str(daemon.data)],
                              check=True, capture_output=True, text=True)
        link = done.stdout.strip().partition("/#login=")[2]
        assert login(other, link=link).get("/dashboard/session").json()["operator"] is False
