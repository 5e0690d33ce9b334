"""One team, one sandbox, or somebody without a key asks for all there is: the others go on.

The daemon has few connections, so that a small flood is a flood: 64, of which 48 lead into sandboxes."""

import contextlib
import json
import pathlib
import socket
import sys
import threading
import time

import h2.config
import h2.connection
import h2.events
import httpx
import pytest
from e2b import Sandbox

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import flood  # noqa: E402
from flood import GREETER, SILENT, Flood, sdk_of_other, until  # noqa: E402

import daemon as system  # noqa: E402
from builder import Builder, run  # noqa: E402

CONNECTIONS = 64
FLOOD = 3 * CONNECTIONS
PORT, OTHER_PORT = 8000, 8001


@pytest.fixture(scope="module")
def daemon():
    with flood.two_teams("--connections-max", str(CONNECTIONS), "--builds-max", "1") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def victim(daemon):
    """A sandbox of the first team whose service takes connections and never answers."""
    box = Sandbox.create(timeout=600, **daemon.sdk)
    flood.serve(box, SILENT, PORT)
    yield box
    box.kill()


@pytest.fixture(scope="module")
def sibling(daemon):
    """Another sandbox of the first team, whose service answers."""
    box = Sandbox.create(timeout=600, **daemon.sdk)
    flood.serve(box, GREETER, OTHER_PORT)
    yield box
    box.kill()


@pytest.fixture(scope="module")
def stranger(daemon):
    """A sandbox of the other team, whose service answers."""
    box = Sandbox.create(timeout=600, **sdk_of_other(daemon))
    flood.serve(box, GREETER, OTHER_PORT)
    yield box
    box.kill()


def answers(daemon, sandbox):
    """Whether its service answers a request on a new connection."""
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(OTHER_PORT)}
    answer = httpx.get(daemon.url, headers=headers, timeout=60)
    return answer.status_code == 200 and answer.text == "hello"


def lists(daemon, key):
    """The status of a call of the API on a new connection."""
    return httpx.get(f"{daemon.url}/v2/sandboxes", headers={"X-API-Key": key}, timeout=60).status_code


def places(daemon, what="used"):
    return daemon.figures()[f'atoll_places_{what}{{to="sandboxes"}}']


@pytest.fixture(autouse=True)
def quiet(daemon):
    """Each test begins without the connections of the one before."""
    yield
    until(lambda: places(daemon) == 0, "all requests into sandboxes have ended")


# ---- connections ----

def test_keyless_requests_into_a_silent_service_leave_the_rest_room(daemon, victim, sibling, stranger):
    """Three times as many keyless requests as the daemon has connections hang in a service that never answers; the API, the team's other sandboxes and other teams' go on."""
    with Flood(daemon) as many:
        many.open(FLOOD, flood.request(victim.sandbox_id, PORT))
        assert many.listen(lambda f: len(f.statuses()) > FLOOD // 2), many.said
        assert set(many.statuses()) <= {429, 503}
        refused = next(text for text in many.said.values() if text.startswith(b"HTTP/1.1 429"))
        assert b"retry-after: 1" in refused.lower() and b"share" in refused
        assert 0 < places(daemon) < CONNECTIONS // 2
        for _ in range(3):
            assert answers(daemon, stranger)
            assert answers(daemon, sibling)
            assert lists(daemon, daemon.key) == 200
            assert lists(daemon, daemon.other_key) == 200
        assert places(daemon, "refused_total") > 0
    until(lambda: places(daemon) == 0, "the flood has left")
    assert victim.commands.run("echo here").stdout == "here\n"


def test_floods_into_sandboxes_of_one_team_leave_other_teams_room(daemon, victim, sibling, stranger):
    """Keyless requests hang in two sandboxes of one team at once; the other team's sandbox and its calls go on."""
    flood.serve(sibling, SILENT, PORT)
    with Flood(daemon) as many:
        for box in (victim, sibling, victim, sibling):
            many.open(CONNECTIONS, flood.request(box.sandbox_id, PORT))
        assert many.listen(lambda f: len(f.statuses()) > CONNECTIONS)
        assert places(daemon) <= CONNECTIONS * 3 // 4 * 2 // 3 + 1
        for _ in range(3):
            assert answers(daemon, stranger)
            assert lists(daemon, daemon.other_key) == 200


def streams_of(daemon, sandbox, count):
    """A connection with so many streams into the silent service, and the events of it until now."""
    link = flood.Flood(daemon)
    number = link.open(1)[0]
    peer = h2.connection.H2Connection(h2.config.H2Configuration())
    peer.initiate_connection()
    for i in range(count):
        peer.send_headers(2 * i + 1, [
            (":method", "GET"), (":scheme", "http"), (":authority", "127.0.0.1"), (":path", "/"),
            ("e2b-sandbox-id", sandbox.sandbox_id), ("e2b-sandbox-port", str(PORT))], end_stream=True)
    link.sockets[number].setblocking(True)
    link.sockets[number].sendall(peer.data_to_send())
    link.sockets[number].setblocking(False)
    return link, number, peer


def test_streams_of_one_connection_count_as_connections_do(daemon, victim, sibling, stranger):
    """One HTTP/2 connection opens a hundred streams into a silent service; they are charged like connections, and the others go on."""
    link, number, peer = streams_of(daemon, victim, 100)
    with link:
        statuses = []

        def enough(_):
            events = peer.receive_data(link.said[number])
            link.said[number] = b""
            statuses.extend(dict(e.headers)[b":status"] for e in events
                            if isinstance(e, h2.events.ResponseReceived))
            return len(statuses) >= 100 - CONNECTIONS // 2

        assert link.listen(enough), statuses
        assert set(statuses) == {b"429"}
        assert places(daemon) < CONNECTIONS // 2
        assert answers(daemon, stranger) and answers(daemon, sibling)
        assert lists(daemon, daemon.key) == 200


def test_streams_that_are_reset_at_once_hold_nothing(daemon, victim, sibling, stranger):
    """CVE-2023-44487: HTTP/2 connections open thousands of streams into a silent service and reset each at once; no place stays taken, and the others go on."""
    server = daemon.child("server")
    for _ in range(5):
        with flood.Flood(daemon) as link:
            number = link.open(1)[0]
            peer = h2.connection.H2Connection(h2.config.H2Configuration())
            peer.initiate_connection()
            link.sockets[number].settimeout(flood.PATIENCE_S)
            with contextlib.suppress(ConnectionError):  # the server may end a connection that does so
                for i in range(2000):
                    peer.send_headers(2 * i + 1, [
                        (":method", "GET"), (":scheme", "http"), (":authority", "127.0.0.1"), (":path", "/"),
                        ("e2b-sandbox-id", victim.sandbox_id), ("e2b-sandbox-port", str(PORT))], end_stream=True)
                    peer.reset_stream(2 * i + 1)
                    if i % 100 == 99:
                        link.sockets[number].sendall(peer.data_to_send())
            assert answers(daemon, stranger) and lists(daemon, daemon.key) == 200
    until(lambda: places(daemon) == 0, "no place is taken")
    assert answers(daemon, sibling)
    assert daemon.child("server") == server
    assert victim.commands.run("echo here").stdout == "here\n"


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "], ids=["nothing", "half a head"])
def test_connections_that_ask_for_nothing_make_room(daemon, stranger, first):
    """Three times as many connections as the daemon takes send nothing, or half a head; whoever asks for something gets in."""
    with Flood(daemon) as many:
        many.open(FLOOD, first)
        time.sleep(2)  # a connection may be silent for a second
        for _ in range(5):
            assert lists(daemon, daemon.key) == 200
            assert answers(daemon, stranger)
        figures = daemon.figures()
        assert figures['atoll_http_connections_evicted_total{kind="silent"}'] > 0
        assert figures["atoll_http_connections"] <= 2 * CONNECTIONS


def test_idle_connections_make_room(daemon, stranger):
    """The connection table is filled with connections that lie idle after a request; each new client is served, and nobody is refused."""
    before = daemon.figures()["atoll_http_connections_refused_total"]
    with Flood(daemon) as many:
        for _ in range(FLOOD):
            number = many.open(1, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")[0]
            assert many.listen(lambda f, n=number: f.said[n])
        assert set(many.statuses()) == {200}
        assert answers(daemon, stranger)
        figures = daemon.figures()
        assert figures['atoll_http_connections_evicted_total{kind="idle"}'] >= FLOOD - CONNECTIONS
        assert figures["atoll_http_connections_refused_total"] == before


def slow_call(key, length=b"Content-Length: 100"):
    return (b"POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" +
            (b"X-API-Key: " + key.encode() + b"\r\n" if key else b"") + length + b"\r\n\r\n")


def test_calls_that_one_team_does_not_finish_leave_other_teams_room(daemon):
    """A team begins more calls of the API than there is room for and never sends their bodies; it is told 429, and other teams' calls go on."""
    with Flood(daemon) as many:
        many.open(CONNECTIONS // 2, slow_call(daemon.key))
        assert many.listen(lambda f: len(f.statuses()) > CONNECTIONS // 8)
        assert set(many.statuses()) == {429}
        assert all(b"retry-after" in text.lower() for text in many.said.values() if text)
        for _ in range(3):
            assert lists(daemon, daemon.other_key) == 200
        assert httpx.get(f"{daemon.url}/health").status_code == 200


@pytest.mark.parametrize("length", [b"Content-Length: 100", b"Transfer-Encoding: chunked"],
                         ids=["announced", "chunked"])
def test_calls_without_a_key_are_answered_without_their_body(daemon, length):
    """Calls without a key announce a body and never send it; all are answered at once, as refused, and hold nothing."""
    with Flood(daemon) as many:
        numbers = many.open(CONNECTIONS // 2, slow_call(None, length))
        assert many.listen(lambda f: len(f.statuses()) == len(numbers)), many.said
        assert 401 in many.statuses() and set(many.statuses()) <= {401, 503}
        assert lists(daemon, daemon.key) == 200


def volume_of(daemon, key):
    made = httpx.post(f"{daemon.url}/volumes", json={"name": "share"}, headers={"X-API-Key": key}, timeout=60)
    assert made.status_code == 201, made.text
    return made.json()


def test_uploads_by_token_are_charged_to_the_volume_s_team(daemon):
    """Uploads into a team's volume, by its token and without a key, begin and never go on; the team is told 429, and other teams' volumes and calls without a key go on."""
    ours, theirs = volume_of(daemon, daemon.key), volume_of(daemon, daemon.other_key)
    slow = (f"PUT /volumecontent/{ours['volumeID']}/file?path=/slow HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {ours['token']}\r\nContent-Length: 100\r\n\r\n").encode()
    try:
        with Flood(daemon) as many:
            many.open(CONNECTIONS // 2, slow)
            assert many.listen(lambda f: len(f.statuses()) > CONNECTIONS // 8)
            assert 429 in many.statuses() and set(many.statuses()) <= {429, 503}
            put = httpx.put(f"{daemon.url}/volumecontent/{theirs['volumeID']}/file", params={"path": "/kept"},
                            content=b"x", headers={"Authorization": f"Bearer {theirs['token']}"}, timeout=60)
            assert put.status_code == 201, put.text
            assert httpx.get(f"{daemon.url}/health").status_code == 200
    finally:
        for volume, key in ((ours, daemon.key), (theirs, daemon.other_key)):
            until(lambda v=volume, k=key: httpx.delete(f"{daemon.url}/volumes/{v['volumeID']}",
                                                       headers={"X-API-Key": k}).status_code in (204, 404),
                  "the volume is removed")


# ---- the way out ----

FILES = 800  # descriptors of the daemon: a hundred connections out


@pytest.fixture
def holder():
    """A server that says a word to each who connects, and keeps the connection."""
    kept = []
    server = socket.create_server(("127.0.0.1", 0), backlog=1024)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                kept.append(server.accept()[0])
                kept[-1].sendall(b"hello")

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    for one in (server, *kept):
        one.close()


REACH = """
import socket, sys, time
kept = []
for _ in range(int(sys.argv[1])):
    try:
        one = socket.create_connection(("192.0.2.7", 7), 10)
        if one.recv(5) == b"hello":
            kept.append(one)
    except OSError:
        pass
print(len(kept), flush=True)
time.sleep(int(sys.argv[2]))
"""


def test_connections_out_of_one_team_leave_other_teams_room(tmp_path, monkeypatch, holder):
    """Sandboxes of one team open as many connections to the outside as they can; a sandbox of another team still gets out."""
    few = tmp_path / "atoll"
    few.write_text(f'#!/bin/sh\nexec prlimit --nofile={FILES}:{FILES} {system.PROGRAM} "$@"\n')
    few.chmod(0o755)
    monkeypatch.setattr(system, "PROGRAM", str(few))
    with flood.two_teams("--egress-map", f"192.0.2.7:7=127.0.0.1:{holder}") as daemon:
        greedy = [Sandbox.create(timeout=300, **daemon.sdk) for _ in range(2)]
        other = Sandbox.create(timeout=300, **sdk_of_other(daemon))
        for box in (*greedy, other):
            box.files.write("/tmp/reach.py", REACH)
        for box in greedy:
            box.commands.run(f"python3 /tmp/reach.py {FILES // 4} 200 > /tmp/reached 2>&1", background=True, timeout=0)
        taken = [int(until(lambda b=box: b.commands.run("cat /tmp/reached || true").stdout, "it has tried")) for box in greedy]
        assert 0 < sum(taken) < FILES // 8, taken
        assert other.commands.run("python3 /tmp/reach.py 5 0").stdout == "5\n"
        for box in (*greedy, other):
            box.kill()


# ---- what the keeper and builds do ----

CREATES = 200


@pytest.fixture(scope="module")
def roomy():
    with flood.two_teams() as daemon:
        yield daemon


def create(key):
    body = json.dumps({"templateID": "base", "timeout": 300}).encode()
    return (b"POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: " + key.encode() +
            b"\r\nContent-Type: application/json\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)


def test_a_flood_of_creates_does_not_come_before_another_team(roomy):
    """One team asks for two hundred sandboxes at once; another team that asks for one afterwards has it while most of those still wait."""
    try:
        with Flood(roomy) as many:
            of_flood = many.open(CREATES, create(roomy.key))
            late = many.open(1, create(roomy.other_key))[0]
            assert many.listen(lambda f: len(f.order) == CREATES + 1, 240), len(many.order)
            assert many.statuses([late]) == [201]
            assert set(many.statuses(of_flood)) == {201}
            assert many.order.index(late) < CREATES // 2, many.order.index(late)
    finally:
        roomy.remove_sandboxes(roomy.key)
        roomy.remove_sandboxes(roomy.other_key)


def test_builds_of_one_team_do_not_keep_another_team_waiting(daemon):
    """One team has a build running that takes long and others queued behind it; another team's build runs all the same, and its next one waits for no more than its own."""
    ours, theirs = Builder(daemon), Builder(daemon, daemon.other_key)
    queued = []
    for i in range(3):
        queued.append(ours.request(f"long-{i}"))
        ours.start(queued[-1], [run("sleep 300")])
    try:
        ids, status = theirs.build([run("true")], name="short")
        assert status["status"] == "ready", theirs.log(ids)
        states = [ours.status(one) for one in queued]
        assert [state["status"] for state in states] == ["building"] * 3
        assert states[-1].get("queuePosition"), "ours still wait in a queue that theirs did not stand in"
    finally:
        for one in reversed(queued):
            ours.call("DELETE", f"/templates/{one[0]}/builds/{one[1]}")
        for one in queued:
            ours.wait(one)
