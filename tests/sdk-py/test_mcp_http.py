"""MCP without an SDK in between: sessions, streams, cancellation, and what clients do wrong."""

import itertools
import json
import os
import socket
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from conftest import API_KEY, API_URL, until
from e2b import Sandbox

NOW = "2026-07-28"
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"
ids = itertools.count(1)


@pytest.fixture(scope="module")
def http():
    headers = {"X-API-Key": API_KEY, "Accept": BOTH}
    with httpx.Client(base_url=API_URL, headers=headers, timeout=60) as client:
        yield client


def message(method, params=None, **members):
    return {"jsonrpc": "2.0", "method": method, "params": params or {}} | members


def events(response):
    """(id, message) of each event that has data; a priming event has None."""
    event_id = None
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            event_id = value
        elif name == "data":
            yield event_id, json.loads(value) if value else None


class Session:
    """A session as clients of the revisions up to 2025-11-25 have it."""

    def __init__(self, http, version="2025-11-25", query="", key=API_KEY):
        self.http, self.path = http, f"/mcp{query}"
        self.headers = {"X-API-Key": key}
        answer = self.post(
            message(
                "initialize",
                {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
                id=0,
            )
        )
        assert answer.status_code == 200, answer.text
        self.result = answer.json()["result"]
        self.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        self.headers["MCP-Protocol-Version"] = self.result["protocolVersion"]
        assert self.post(message("notifications/initialized")).status_code == 202

    def post(self, body, **headers):
        return self.http.post(self.path, json=body, headers=self.headers | headers)

    def ask(self, method, params=None, **headers):
        answer = self.post(message(method, params, id=next(ids)), **headers)
        if answer.headers["content-type"] == "text/event-stream":
            return [told for _, told in events(answer) if told and "id" in told][-1]
        return answer.json()

    def call(self, tool, _meta=None, **arguments):
        params = {"name": tool, "arguments": arguments} | ({"_meta": _meta} if _meta else {})
        return self.ask("tools/call", params)["result"]

    def stream(self, body):
        return self.http.stream("POST", self.path, json=body, headers=self.headers)

    def end(self):
        return self.http.delete(self.path, headers=self.headers)


@pytest.fixture
def session(http):
    session = Session(http)
    yield session
    session.end()


def sandboxes():
    return {info.sandbox_id for info in Sandbox.list().next_items()}


def slow(seconds, **more):
    """A call that runs a command for so long, as a request."""
    arguments = {"action": "shell_command", "input": f"sleep {seconds}"}
    return message("tools/call", {"name": "send_sandbox_input", "arguments": arguments} | more, id=next(ids))


def modern(http, method, params=None, meta=None, **headers):
    """A request of the newest revision."""
    about = {META + "protocolVersion": NOW, META + "clientCapabilities": {}} | (meta or {})
    body = message(method, (params or {}) | {"_meta": about}, id=next(ids))
    known = {"MCP-Protocol-Version": NOW, "Mcp-Method": method}
    if params and "name" in params:
        known["Mcp-Name"] = params["name"]
    return http.post("/mcp", json=body, headers=known | headers)


# ---- revisions ----


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_client_gets_the_revision_that_it_asks_for(http, version):
    session = Session(http, version)
    assert session.result["protocolVersion"] == version
    assert "tools" in session.result["capabilities"] and session.result["instructions"]
    assert session.ask("ping")["result"] == {}
    assert session.ask("tools/list")["result"]["tools"]
    assert session.end().status_code == 204


def test_a_client_from_the_future_gets_the_newest_revision_with_sessions(http):
    session = Session(http, "2031-01-01")
    assert session.result["protocolVersion"] == "2025-11-25"
    session.end()


def test_a_batch_is_answered_where_the_revision_has_batches(http):
    session = Session(http, "2025-03-26")
    batch = [
        message("ping", id="a"),
        message("notifications/roots/list_changed"),
        message("nonsense", id="b"),
        message("tools/call", {"name": "list_templates"}, id="c"),
    ]
    told = {one["id"]: one for one in session.post(batch, Accept="application/json").json()}
    assert set(told) == {"a", "b", "c"}
    assert told["b"]["error"]["code"] == -32601
    assert told["c"]["result"]["structuredContent"]["templates"]
    assert session.post([]).status_code == 400
    assert session.post([message("ping", id=n) for n in range(17)]).status_code == 400
    session.end()


def test_a_batch_is_refused_where_it_has_none(session, http):
    assert session.post([message("ping", id=1)]).status_code == 400
    answer = http.post("/mcp", json=[message("ping", id=1)], headers={"MCP-Protocol-Version": NOW})
    assert answer.status_code == 400 and "batch" in answer.json()["error"]["message"]


def test_the_newest_revision_needs_no_session(http):
    found = modern(http, "server/discover").json()["result"]
    assert NOW in found["supportedVersions"] and found["resultType"] == "complete"
    answer = modern(http, "tools/call", {"name": "list_templates", "arguments": {}})
    assert "mcp-session-id" not in answer.headers
    assert answer.json()["result"]["structuredContent"]["templates"]
    listed = modern(http, "tools/list").json()["result"]
    (tool,) = [tool for tool in listed["tools"] if tool["name"] == "kill_sandbox"]
    assert tool["inputSchema"]["required"] == ["sandbox_id"]


@pytest.mark.parametrize(
    "headers, code",
    [
        ({"Mcp-Method": "tools/call"}, -32020),
        ({"MCP-Protocol-Version": "2025-11-25"}, -32020),
        ({"MCP-Protocol-Version": "1999-01-01"}, -32022),
    ],
)
def test_headers_that_say_something_else_are_refused(http, headers, code):
    answer = modern(http, "tools/list", **headers)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == code


def test_a_request_must_say_its_revision_and_what_the_client_can(http):
    answer = modern(http, "tools/list", meta={META + "clientCapabilities": 5})
    assert answer.status_code == 400 and answer.json()["error"]["code"] == -32602
    answer = http.post(
        "/mcp", json=message("tools/list", id=1), headers={"MCP-Protocol-Version": NOW, "Mcp-Method": "tools/list"}
    )
    assert answer.json()["error"]["code"] == -32602
    answer = modern(http, "tools/call", {"name": "list_templates"}, **{"Mcp-Name": "=?base64?a2lsbA==?="})
    assert answer.json()["error"]["code"] == -32020
    answer = modern(http, "tools/call", {"name": "list_templates"}, **{"Mcp-Name": "=?base64?bGlzdF90ZW1wbGF0ZXM=?="})
    assert answer.status_code == 200


def subscription(http):
    about = {META + "protocolVersion": NOW, META + "clientCapabilities": {}}
    body = message("subscriptions/listen", {"_meta": about, "notifications": {"toolsListChanged": True}}, id=77)
    headers = {"MCP-Protocol-Version": NOW, "Mcp-Method": "subscriptions/listen"}
    return http.stream("POST", "/mcp", json=body, headers=headers)


def test_a_subscription_is_acknowledged_and_stays_open(http):
    with subscription(http) as response:
        _, first = next(events(response))
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"] == {"_meta": {META + "subscriptionId": 77}, "notifications": {}}


def test_a_team_has_64_subscriptions_and_room_again_when_one_ends(http):
    with ExitStack() as open_ones:
        for _ in range(64):
            assert open_ones.enter_context(subscription(http)).status_code == 200
        with subscription(http) as refused:
            assert refused.status_code == 429 and "too many open streams" in refused.read().decode()

    def opens():
        with subscription(http) as response:
            return response.status_code == 200

    until(opens, "there is room again")


# ---- what is wrong ----


@pytest.mark.parametrize(
    "headers, status, said",
    [
        ({"X-API-Key": ""}, 401, "authorization header is missing"),
        ({"X-API-Key": "nonsense"}, 401, "authorization header is malformed"),
        ({"Origin": "http://evil.example"}, 403, "origin"),
        ({"Accept": "text/html"}, 406, "text/event-stream"),
        ({"Content-Type": "text/plain"}, 415, "application/json"),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400, "revision"),
        ({"Mcp-Session-Id": "nonsense"}, 404, "no such session"),
        ({}, 400, "Mcp-Session-Id is missing"),
    ],
)
def test_a_wrong_head_is_refused(http, headers, status, said):
    answer = http.post("/mcp", json=message("ping", id=1), headers=headers)
    assert answer.status_code == status and said in answer.json()["error"]["message"]


def test_a_key_may_come_as_a_bearer_token(http):
    headers = {"Authorization": f"Bearer {API_KEY}", "Accept": BOTH}
    answer = httpx.post(f"{API_URL}/mcp", json=message("initialize", {"protocolVersion": "2025-06-18"}, id=1), headers=headers)
    assert answer.status_code == 200
    httpx.delete(f"{API_URL}/mcp", headers=headers | {"Mcp-Session-Id": answer.headers["mcp-session-id"]})


def test_pages_of_this_machine_may_use_it(http):
    origin = {"Origin": "http://localhost:6274"}
    answer = http.options("/mcp", headers=origin | {"Access-Control-Request-Method": "POST"})
    assert answer.status_code == 204 and "Mcp-Session-Id" in answer.headers["access-control-allow-headers"]
    answer = http.post("/mcp", json=message("initialize", {"protocolVersion": "2025-06-18"}, id=1), headers=origin)
    assert answer.status_code == 200 and answer.headers["access-control-expose-headers"] == "Mcp-Session-Id"
    http.delete("/mcp", headers={"Mcp-Session-Id": answer.headers["mcp-session-id"]})


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_other_methods_are_refused(http, method):
    assert http.request(method, "/mcp").status_code == 405


@pytest.mark.parametrize(
    "body, code",
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'"text"', -32700),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600),
        (b"[" * 100000, -32700),
    ],
)
def test_what_is_no_message_is_refused(session, body, code):
    headers = session.headers | {"Content-Type": "application/json"}
    answer = session.http.post("/mcp", content=body, headers=headers)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"]


def test_a_huge_message_is_refused_by_its_announced_length():
    host, port = API_URL.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {API_KEY}\r\nContent-Type: application/json\r\n"
        wire.sendall(f"{head}Content-Length: {1 << 30}\r\n\r\n".encode())
        told = wire.recv(65536).decode()
    assert " 413 " in told and "bytes" in told


@pytest.mark.parametrize(
    "method, params, said",
    [
        ("nonsense", {}, "nonsense"),
        ("server/discover", {}, "server/discover"),
        ("tools/call", {}, "params.name:"),
        ("tools/call", {"name": "no_such_tool"}, "no_such_tool"),
        ("tools/call", {"name": "list_templates", "arguments": []}, "params.arguments:"),
        ("tools/call", {"name": "list_templates", "_meta": {"progressToken": {}}}, "params._meta.progressToken:"),
        ("tools/list", {"cursor": "nonsense"}, "params.cursor:"),
        ("tools/list", {"cursor": 5}, "params.cursor:"),
    ],
)
def test_wrong_parameters_are_refused_with_their_path(session, method, params, said):
    error = session.ask(method, params)["error"]
    assert error["code"] in (-32601, -32602) and said in error["message"]


def test_wrong_arguments_are_told_to_the_model(session):
    result = session.call("read_sandbox_file", path=5)
    assert result["isError"] and "path" in result["content"][0]["text"]
    result = session.call("kill_sandbox", sandbox_id="nonsense")
    assert result["isError"] and result["content"][0]["text"]


def test_a_session_has_one_sandbox(http):
    answer = http.post("/mcp?template=base&sandbox_id=i", json=message("ping", id=1))
    assert answer.status_code == 400 and "both" in answer.json()["error"]["message"]


# ---- sessions and their sandboxes ----


def test_the_sandbox_of_a_session_lives_as_long_as_it_does(http):
    before = sandboxes()
    session = Session(http)
    assert sandboxes() == before  # it is made when it is needed
    assert not session.call("write_sandbox_file", path="note", content="kept")["isError"]
    told = session.call("read_sandbox_file", path="note")["structuredContent"]
    assert told["content"] == "kept" and sandboxes() - before == {told["sandbox_id"]}
    assert session.call("kill_sandbox")["structuredContent"]["sandbox_id"] == told["sandbox_id"]
    assert session.call("read_sandbox_file", path="note")["isError"]  # in a fresh one
    assert len(sandboxes() - before) == 1
    assert session.end().status_code == 204
    until(lambda: sandboxes() == before, "its sandbox is gone")
    assert session.post(message("ping", id=1)).status_code == 404
    assert session.end().status_code == 404


def test_calls_that_come_together_get_one_sandbox(http):
    before = sandboxes()
    session = Session(http)
    found = []

    def work(n):
        told = session.call("write_sandbox_file", path=f"file{n}", content="x")
        found.append(told["structuredContent"]["sandbox_id"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1 and len(sandboxes() - before) == 1
    session.end()


def test_a_session_can_be_bound_to_a_sandbox_that_exists(http, own_sandbox):
    session = Session(http, query=f"?sandbox_id={own_sandbox.sandbox_id}")
    session.call("write_sandbox_file", path="note", content="bound")
    assert own_sandbox.files.read("note") == "bound"
    session.end()
    assert own_sandbox.is_running()
    listed = http.post(
        f"/mcp?sandbox_id={own_sandbox.sandbox_id}",
        json=message("tools/list", {"_meta": {META + "protocolVersion": NOW, META + "clientCapabilities": {}}}, id=1),
        headers={"MCP-Protocol-Version": NOW, "Mcp-Method": "tools/list"},
    ).json()["result"]["tools"]
    assert "read_sandbox_file" in [tool["name"] for tool in listed]
    assert all("sandbox_id" not in tool["inputSchema"].get("required", []) for tool in listed)


def test_a_template_that_does_not_exist_is_told_by_the_first_tool_that_needs_it(http):
    session = Session(http, query="?template=no-such-template")
    result = session.call("read_sandbox_file", path="note")
    assert result["isError"] and "no-such-template" in result["content"][0]["text"]
    session.end()


def test_two_clients_can_share_a_session(session, http):
    other = Session.__new__(Session)
    other.http, other.path, other.headers = http, session.path, session.headers
    with http.stream("GET", "/mcp", headers=session.headers | {"Accept": "text/event-stream"}) as one:
        with http.stream("GET", "/mcp", headers=session.headers | {"Accept": "text/event-stream"}) as two:
            assert one.status_code == two.status_code == 200
            session.call("write_sandbox_file", path="note", content="from one")
            assert other.call("read_sandbox_file", path="note")["structuredContent"]["content"] == "from one"


def test_a_session_ends_its_streams(http):
    session = Session(http)
    with http.stream("GET", "/mcp", headers=session.headers | {"Accept": "text/event-stream"}) as stream:
        assert session.end().status_code == 204
        assert list(events(stream)) == []


def test_a_team_that_opens_many_sessions_loses_the_idle_ones(http):
    first = Session(http)
    others = [Session(http) for _ in range(64)]
    assert first.post(message("ping", id=1)).status_code == 404
    assert others[-1].ask("ping")["result"] == {}
    for session in others:
        session.end()


# ---- long calls ----


def test_a_quick_call_is_answered_with_json_and_a_slow_one_with_events(session):
    assert session.post(slow(0)).headers["content-type"] == "application/json"
    answer = session.post(slow(4))
    assert answer.headers["content-type"] == "text/event-stream"
    (first_id, first), (last_id, last) = events(answer)
    assert first is None and first_id and last_id != first_id  # 2025-11-25 primes its streams
    assert last["result"]["structuredContent"]["exit_code"] == 0
    assert session.post(slow(4), Accept="application/json").headers["content-type"] == "application/json"


def test_a_client_that_accepts_events_alone_gets_events(session):
    answer = session.post(slow(0), Accept="text/event-stream")
    assert answer.headers["content-type"] == "text/event-stream"
    assert [told for _, told in events(answer) if told][0]["result"]["isError"] is False


def test_progress_comes_before_the_answer_and_only_grows(session):
    params = {
        "name": "install_packages",
        "arguments": {"commands": ["true", "echo two", "true"]},
        "_meta": {"progressToken": "p"},
    }
    told = [one for _, one in events(session.post(message("tools/call", params, id=next(ids)))) if one]
    *progress, last = told
    assert progress and not last["result"]["isError"]
    assert all(one["method"] == "notifications/progress" for one in progress)
    assert all(one["params"]["progressToken"] == "p" for one in progress)
    values = [one["params"]["progress"] for one in progress]
    assert values == sorted(set(values))


def commands_running(sandbox_id, what):
    box = Sandbox.connect(sandbox_id)
    return sum(what in " ".join([p.cmd, *p.args]) for p in box.commands.list())


def start_slow(session, **more):
    """Begins a long call in a thread of its own; (its id, its sandbox, the thread, what it got)."""
    sandbox_id = session.call("write_sandbox_file", path="note", content="x")["structuredContent"]["sandbox_id"]
    body, got = slow(300, **more), []
    thread = threading.Thread(target=lambda: got.append(session.post(body)))
    thread.start()
    until(lambda: commands_running(sandbox_id, "sleep 300"), "the command runs")
    return body["id"], sandbox_id, thread, got


def test_a_cancelled_call_stops_and_is_not_answered(session):
    request_id, sandbox_id, thread, got = start_slow(session)
    cancelled = message("notifications/cancelled", {"requestId": request_id, "reason": "a test"})
    assert session.post(cancelled).status_code == 202
    thread.join(30)
    assert [told for _, told in events(got[0]) if told] == []
    until(lambda: not commands_running(sandbox_id, "sleep 300"), "the command is gone")
    assert session.post(cancelled).status_code == 202  # too late is no error


def test_an_id_is_in_use_until_its_call_has_ended(session):
    request_id, _, thread, _ = start_slow(session)
    again = message("tools/call", {"name": "list_templates"}, id=request_id)
    assert "id" in session.post(again).json()["error"]["message"]
    session.post(message("notifications/cancelled", {"requestId": request_id}))
    thread.join(30)


def test_a_client_that_leaves_may_come_again_for_its_answer(session):
    session.call("write_sandbox_file", path="note", content="x")
    with session.stream(slow(6)) as response:
        event_id, first = next(events(response))
        assert first is None
    headers = session.headers | {"Accept": "text/event-stream", "Last-Event-ID": event_id}
    with session.http.stream("GET", "/mcp", headers=headers) as response:
        ((last_id, last),) = events(response)
    assert last["result"]["structuredContent"]["exit_code"] == 0
    answer = session.http.get("/mcp", headers=headers | {"Last-Event-ID": last_id})
    assert answer.status_code == 405  # there is nothing left


def test_in_the_newest_revision_leaving_is_cancelling(http, own_sandbox):
    about = {META + "protocolVersion": NOW, META + "clientCapabilities": {}}
    arguments = {"sandbox_id": own_sandbox.sandbox_id, "action": "shell_command", "input": "sleep 300"}
    body = message("tools/call", {"name": "send_sandbox_input", "arguments": arguments, "_meta": about}, id=1)
    headers = {"MCP-Protocol-Version": NOW, "Mcp-Method": "tools/call", "Mcp-Name": "send_sandbox_input"}
    with http.stream("POST", "/mcp", json=body, headers=headers) as response:
        assert response.headers["content-type"] == "text/event-stream"
        until(lambda: commands_running(own_sandbox.sandbox_id, "sleep 300"), "the command runs")
    until(lambda: not commands_running(own_sandbox.sandbox_id, "sleep 300"), "the command is gone")


def test_a_session_has_a_limit_of_calls(http):
    session, told = Session(http), []
    _, _, thread, _ = start_slow(session)
    threads = [thread]
    for _ in range(16):
        threads.append(threading.Thread(target=lambda: told.append(session.post(slow(300)).text)))
        threads[-1].start()
    until(lambda: len(told) == 1 and "16 calls" in told[0], "one call more is refused")
    session.end()
    for thread in threads:
        thread.join(30)


# ---- over stdio ----

PROGRAM = str(Path(os.environ["ATOLL_BUILD"]) / "atoll")


def bridge(lines, *flags, **environment):
    """`atoll mcp` with these lines as its input: what it printed, and its standard error."""
    done = subprocess.run(
        [PROGRAM, "mcp", *flags],
        input="".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_lines_are_answered_with_lines(http):
    hello = message("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, id=1)
    told, _ = bridge(["nonsense\n", "\n", hello, message("ping", id=2), message("nonsense", id=3)])
    by_id = {one["id"]: one for one in told}
    assert by_id[None]["error"]["code"] == -32700
    assert by_id[1]["result"]["protocolVersion"] == "2025-06-18"
    assert by_id[2]["result"] == {} and by_id[3]["error"]["code"] == -32601


def test_the_end_of_input_ends_the_sandbox(http):
    before = sandboxes()
    hello = message("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, id=1)
    write = message("tools/call", {"name": "write_sandbox_file", "arguments": {"path": "note", "content": "x"}}, id=2)
    told, _ = bridge([hello, write])
    assert told[1]["result"]["structuredContent"]["sandbox_id"]
    until(lambda: sandboxes() == before, "its sandbox is gone")


def test_a_wrong_key_is_told_as_an_answer(http):
    hello = message("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, id=1)
    told, _ = bridge([hello], E2B_API_KEY="e2b_" + "0" * 40)
    assert told[0]["id"] == 1 and "key" in told[0]["error"]["message"]


def test_the_bridge_is_bound_to_a_sandbox_that_exists(http, own_sandbox):
    hello = message("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, id=1)
    write = message("tools/call", {"name": "write_sandbox_file", "arguments": {"path": "note", "content": "x"}}, id=2)
    bridge([hello, write], "--sandbox", own_sandbox.sandbox_id)
    assert own_sandbox.files.read("note") == "x" and own_sandbox.is_running()
