"""What agents log: found, filtered, followed, and kept when the sandbox is gone."""

import json
import os
import subprocess
import threading
from datetime import datetime

import httpx
import pytest
from conftest import API_KEY, API_URL, until

PROGRAM = os.path.join(os.environ.get("ATOLL_BUILD", ""), "atoll")


def entries(api, sandbox_id, **query):
    answer = api.get(f"/v2/sandboxes/{sandbox_id}/logs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["logs"]


def events(api, sandbox_id, kind, **query):
    return [e for e in entries(api, sandbox_id, **query) if e["fields"].get("event_type") == kind]


@pytest.fixture(scope="module")
def told(sandbox, api):
    """A sandbox with a known story."""
    sandbox.commands.run("echo out; echo wrong >&2")
    sandbox.files.write("/tmp/one", "12345")
    sandbox.files.read("/tmp/one")
    sandbox.files.make_dir("/tmp/dir")
    sandbox.files.rename("/tmp/one", "/tmp/two")
    sandbox.files.remove("/tmp/two")
    sandbox.files.list("/tmp")
    with pytest.raises(Exception):
        sandbox.commands.run("true", cwd="/no/such/place")
    until(lambda: events(api, sandbox.sandbox_id, "rpc_error"), "the last of it is on record")
    return sandbox.sandbox_id


def test_processes(api, told):
    start = events(api, told, "process_start")[0]
    end = events(api, told, "process_end")[0]
    assert start["level"] == "info" and "echo out" in start["fields"]["command"]
    assert start["fields"]["pid"] == end["fields"]["pid"]
    assert (end["fields"]["stdout_bytes"], end["fields"]["stderr_bytes"]) == ("4", "6")
    assert end["fields"]["exit_code"] == "0" and int(end["fields"]["duration_ms"]) >= 0


def test_files(api, told):
    write, read = events(api, told, "file_write")[0], events(api, told, "file_read")[0]
    assert write["fields"]["path"] == "/tmp/one" and write["fields"]["bytes"] == "5"
    assert read["fields"]["bytes"] == "5"
    assert events(api, told, "make_dir")[0]["fields"]["path"] == "/tmp/dir"
    assert events(api, told, "move")[0]["fields"]["destination"] == "/tmp/two"
    assert events(api, told, "remove")[0]["level"] == "info"
    assert events(api, told, "list_dir")[0]["level"] == "debug"


def test_errors_are_warnings(api, told):
    (error,) = events(api, told, "rpc_error")
    assert error["level"] == "warn" and error["fields"]["code"] == "invalid_argument"
    assert "/no/such/place" in error["message"]


def test_the_first_version(api, told):
    answer = api.get(f"/sandboxes/{told}/logs").json()
    assert set(answer) == {"logs", "logEntries"}
    assert len(answer["logs"]) == len(answer["logEntries"]) > 0
    for log, entry in zip(answer["logs"], answer["logEntries"]):
        line = json.loads(log["line"])  # what the command line of the original does
        assert line["level"].upper() in ("DEBUG", "INFO", "WARN", "ERROR") and line["logger"]
        assert log["timestamp"] == entry["timestamp"] and line["message"] == entry["message"]
        assert all(isinstance(value, str) for value in entry["fields"].values())


def test_the_first_version_goes_on(api, told):
    """As a client does that polls: behind the last it has seen there is nothing."""
    logs = api.get(f"/sandboxes/{told}/logs").json()["logs"]
    last = datetime.fromisoformat(logs[-1]["timestamp"].replace("Z", "+00:00"))
    last_ms = round(1000 * last.timestamp())
    assert api.get(f"/sandboxes/{told}/logs", params={"start": last_ms + 1}).json()["logs"] == []
    assert api.get(f"/sandboxes/{told}/logs", params={"start": last_ms}).json()["logs"] != []
    assert len(api.get(f"/sandboxes/{told}/logs", params={"limit": 2}).json()["logs"]) == 2


def test_order_and_limit(api, told):
    forward = entries(api, told)
    assert [e["timestamp"] for e in forward] == sorted(e["timestamp"] for e in forward)
    assert entries(api, told, direction="backward") == forward[::-1]
    assert entries(api, told, limit=3) == forward[:3]
    assert entries(api, told, limit=3, direction="backward") == forward[:-4:-1]
    assert entries(api, told, limit=0) == []


def test_filters(api, told):
    assert {e["level"] for e in entries(api, told, level="warn")} == {"warn"}
    assert "debug" not in {e["level"] for e in entries(api, told, level="info")}
    assert entries(api, told, level="error") == []
    found = entries(api, told, search="make_dir")
    assert len(found) == 1 and found[0]["message"] == "make_dir /tmp/dir"
    assert entries(api, told, search="MAKE_DIR") == []
    assert entries(api, told, cursor=1, direction="backward") == []
    assert entries(api, told, cursor=253402300799999) == []


BAD = [
    "cursor=x", "cursor=-1", "cursor=bm90IG91cnM", "limit=1001", "limit=-1", "limit=two", "direction=up", "level=loud",
    "search=%ff", "search=%zz", "search=a%00b", "search=" + "a" * 257, "follow=perhaps",
    "follow=true&direction=backward",
]


@pytest.mark.parametrize("query", BAD)
def test_bad_questions(api, told, query):
    answer = api.get(f"/v2/sandboxes/{told}/logs?{query}")
    assert answer.status_code == 400 and answer.json()["code"] == 400
    assert answer.json()["message"].startswith("validation error: ")


@pytest.mark.parametrize("version", ["/sandboxes", "/v2/sandboxes"])
def test_no_such_sandbox(api, version):
    for name in ("inothing0000000000000", "i" * 200):
        answer = api.get(f"{version}/{name}/logs")
        assert answer.status_code == 404 and answer.json()["code"] == 404
    assert api.get(f"{version}/..%2Fatoll/logs").status_code == 400
    assert api.get("/v2/sandboxes/inothing0000000000000/logs?follow=true").status_code == 404


def test_a_quiet_sandbox_has_an_empty_log(api, own_sandbox):
    assert entries(api, own_sandbox.sandbox_id) == []
    assert api.get(f"/sandboxes/{own_sandbox.sandbox_id}/logs").json() == {"logs": [], "logEntries": []}


def test_a_killed_sandbox_keeps_its_log(api, own_sandbox):
    """Up to its last moment: the line of the last command is not lost with the jail."""
    own_sandbox.commands.run("echo last words")
    own_sandbox.kill()
    assert api.get(f"/sandboxes/{own_sandbox.sandbox_id}").status_code == 404
    (start,) = events(api, own_sandbox.sandbox_id, "process_start")
    assert "last words" in start["fields"]["command"]
    assert events(api, own_sandbox.sandbox_id, "process_end")


def test_signals_are_warnings(api, own_sandbox):
    with pytest.raises(Exception):
        own_sandbox.commands.run("kill -9 $$")
    end = until(lambda: events(api, own_sandbox.sandbox_id, "process_end"), "the end is on record")[0]
    assert end["level"] == "warn" and end["fields"]["exit_code"] == "-1"


def test_many_lines(api, own_sandbox):
    """More than are under way at once, and none is lost."""
    for i in range(150):
        own_sandbox.files.write(f"/tmp/file-{i}", "x")
    until(lambda: len(events(api, own_sandbox.sandbox_id, "file_write")) == 150, "all lines are on record")
    paths = [e["fields"]["path"] for e in events(api, own_sandbox.sandbox_id, "file_write")]
    assert paths == [f"/tmp/file-{i}" for i in range(150)]


def test_text_that_would_break_a_line(api, own_sandbox):
    own_sandbox.commands.run("printf 'a\\nb' # \"quotes\" \\ é\n: second line")
    (start,) = events(api, own_sandbox.sandbox_id, "process_start")
    assert '"quotes" \\ é\n: second line' in start["fields"]["command"]


def test_follow(new_sandbox):
    sandbox = new_sandbox()
    sandbox.commands.run("echo before")
    lines, started = [], threading.Event()

    def follow():
        url = f"{API_URL}/v2/sandboxes/{sandbox.sandbox_id}/logs?follow=true"
        with httpx.stream("GET", url, headers={"X-API-Key": API_KEY}, timeout=60) as answer:
            assert answer.headers["content-type"] == "application/x-ndjson"
            for line in answer.iter_lines():
                lines.append(json.loads(line))
                started.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert started.wait(30)
    sandbox.commands.run("echo while")
    until(lambda: any("echo while" in e["fields"].get("command", "") for e in lines), "the new line comes")
    sandbox.kill()
    reader.join(30)
    assert not reader.is_alive(), "the stream ends with the sandbox"
    commands = [e["fields"]["command"].split(" ", 3)[-1] for e in lines if e["fields"]["event_type"] == "process_start"]
    assert commands == ["echo before", "echo while"]


def test_the_command_line(own_sandbox):
    def atoll(*words):
        words = [PROGRAM, *words, "--data", os.environ["ATOLL_DATA"]]
        return subprocess.run(words, capture_output=True, text=True, timeout=60)

    own_sandbox.commands.run("echo hello")
    own_sandbox.kill()
    logs = atoll("logs", own_sandbox.sandbox_id)
    assert logs.returncode == 0 and "echo hello" in logs.stdout
    assert atoll("logs", own_sandbox.sandbox_id, "--follow").stdout == logs.stdout
    told = atoll("doctor", own_sandbox.sandbox_id).stdout.splitlines()
    assert "was created" in told[0] and "was killed: request" in told[-2]
    assert told[-1] == f"Sandbox {own_sandbox.sandbox_id} ended: request"
    unknown = atoll("doctor", "inothing")
    assert unknown.returncode == 3 and "there is no record" in unknown.stderr
