"""The access log: a line of JSON for each request, without secrets, that may be rotated, and never stops a request."""

import json
import os
import re
import socket

import httpx
import pytest
from daemon import open_way, running, until
from e2b import Sandbox
from teams import client

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory that the server's user may write to."""
    path = tmp_path_factory.mktemp("access")
    open_way(path)
    path.chmod(0o777)
    return path


@pytest.fixture(scope="module")
def daemon(place):
    with running("--access-log", str(place / "access.log")) as daemon:
        yield daemon


@pytest.fixture
def api(daemon):
    with client(daemon, daemon.key) as api:
        yield api


def lines(place):
    return [json.loads(line) for line in (place / "access.log").read_bytes().decode().splitlines()]


def found(place, **want):
    """The last line that has these values."""
    return until(lambda: [line for line in lines(place) if all(line.get(k) == v for k, v in want.items())], f"a line with {want}", 10)[-1]


def test_a_call_of_the_api_has_its_line(daemon, api, place):
    answer = api.post("/sandboxes", json={"templateID": "base", "timeout": 300},
                      headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "user-agent": "a/1 \"quoted\" \\"})
    sandbox = answer.json()["sandboxID"]
    line = found(place, route="/sandboxes", method="POST", status=201)
    assert line["path"] == "/sandboxes" and line["source"] == "127.0.0.1" and line["traceId"] == TRACE
    assert line["userAgent"] == "a/1 \"quoted\" \\" and line["sandbox"] == sandbox
    assert line["bytesIn"] == int(answer.request.headers["content-length"]) and line["bytesOut"] == len(answer.content)
    assert line["durationMs"] > 0 and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert line["team"] == api.get("/teams").json()[0]["teamID"] and line["key"] in {key["id"] for key in api.get("/api-keys").json()}
    assert api.get(f"/sandboxes/{sandbox}").status_code == 200
    assert found(place, route="/sandboxes/{}", method="GET")["sandbox"] == sandbox
    api.delete(f"/sandboxes/{sandbox}")


def test_traffic_into_a_sandbox_has_its_line(daemon, place):
    sandbox = Sandbox.create(**daemon.sdk)
    sandbox.commands.run("true")
    line = found(place, sandbox=sandbox.sandbox_id, path="/process.Process/Start")
    assert line["port"] == 49983 and line["status"] == 200 and line["team"]
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8123"}
    httpx.get(f"{daemon.url}/nothing?token=secret-in-query", headers=headers)
    assert found(place, sandbox=sandbox.sandbox_id, port=8123)["path"] == "/nothing"
    sandbox.kill()


def test_no_secret_is_in_it(daemon, api, place):
    api.get("/sandboxes?token=secret-in-query")
    api.get(f"/sandboxes/{daemon.key}")
    api.get("/templates/" + "t" * 60)
    found(place, path="/sandboxes/*")
    found(place, path="/templates/*")
    text = (place / "access.log").read_text()
    assert "secret-in-query" not in text and daemon.key not in text and daemon.key[4:] not in text


def test_hostile_bytes_are_escaped(daemon, place):
    host, port = daemon.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(b"GET /hostile%0a%22%1b[2J/\xff\xfe HTTP/1.1\r\nHost: x\r\nUser-Agent: \x1b\xff\xfe\t" + b"u" * 3000 + b"\r\nConnection: close\r\n\r\n")
        while raw.recv(4096):
            pass
    httpx.get(f"{daemon.url}/hostile%0a%22", headers={"user-agent": "last"})
    found(place, userAgent="last")
    data = (place / "access.log").read_bytes()
    for line in data.splitlines():
        json.loads(line)
        assert len(line) < 4096 and not set(line) & set(range(0x20))


def test_it_is_opened_again_when_it_was_moved_or_cut(daemon, api, place):
    api.get("/sandboxes", headers={"user-agent": "before"})
    found(place, userAgent="before")
    os.rename(place / "access.log", place / "access.log.1")

    def reopened():
        api.get("/sandboxes", headers={"user-agent": "moved"})
        return (place / "access.log").exists() and "moved" in (place / "access.log").read_text()

    until(reopened, "the new file is written to", 20)
    os.truncate(place / "access.log", 0)  # as copytruncate does
    api.get("/sandboxes", headers={"user-agent": "cut"})
    found(place, userAgent="cut")
    assert b"\0" not in (place / "access.log").read_bytes()




def test_a_full_disk_drops_lines_and_stops_nothing():
    with running("--access-log", "/dev/full") as daemon, client(daemon, daemon.key) as api:
        for _ in range(20):
            assert api.get("/sandboxes").status_code == 200
        until(lambda: daemon.figures()["atoll_access_log_dropped_total"] >= 20, "lines are dropped and counted", 20)
        assert "access log" in daemon.said()


def test_a_file_that_cannot_be_made_is_told():
    with pytest.raises(AssertionError, match="access log"):
        with running("--access-log", "/proc/none/such"):
            pass
