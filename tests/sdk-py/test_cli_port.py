"""atoll port: raw TCP and HTTP of a sandbox at a port of this machine, many connections at once."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest
from conftest import API_URL

PROGRAM = os.path.join(os.environ.get("ATOLL_BUILD", ""), "atoll")
WAIT_S = 60
MANY = 50

ECHO = """
import socket, threading
def serve(c):
    while data := c.recv(65536):
        c.sendall(data)
    c.shutdown(socket.SHUT_WR)
s = socket.create_server(("127.0.0.1", 7007), backlog=200)
print("up", flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


@contextlib.contextmanager
def forwarding(*words):
    """The local ports, in the order of the arguments."""
    child = subprocess.Popen([PROGRAM, "port", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wanted = [word for word in words[1:] if re.fullmatch(r"[\d:]+", word)]
        yield [int(re.search(r":(\d+) ->", child.stdout.readline())[1]) for _ in wanted]
    finally:
        child.send_signal(signal.SIGINT)
        assert child.wait(WAIT_S) == 0


@pytest.fixture(scope="module")
def echo(sandbox):
    sandbox.files.write("/tmp/echo.py", ECHO)
    handle = sandbox.commands.run("exec python3 /tmp/echo.py", background=True, timeout=0)
    web = sandbox.commands.run("cd /tmp && exec python3 -m http.server 7008 --bind 127.0.0.1", background=True, timeout=0)
    sandbox.commands.run("for i in $(seq 300); do ss -ltn | grep -q :7007 && ss -ltn | grep -q :7008 && exit 0; sleep 0.1; done; exit 1")
    yield sandbox
    handle.kill()
    web.kill()


def talk(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as s:
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        got = bytearray()
        while piece := s.recv(65536):
            got += piece
        sender.join()
        return bytes(got)


def test_raw_bytes_and_ends_pass(echo):
    with forwarding(echo.sandbox_id, "0:7007") as (port,):
        assert talk(port, bytes(range(256))) == bytes(range(256))
        data = os.urandom(20_000_000)
        assert talk(port, data) == data


def test_http_and_several_ports(echo):
    echo.files.write("/tmp/page", "a page")
    with forwarding(echo.sandbox_id, "0:7007", "0:7008") as (raw, web):
        assert talk(raw, b"x") == b"x"
        with httpx.Client(base_url=f"http://127.0.0.1:{web}") as client:
            assert [client.get("/page").text for _ in range(3)] == ["a page"] * 3
            assert client.get("/none").status_code == 404


def test_many_connections_at_once(echo):
    with forwarding(echo.sandbox_id, "0:7007") as (port,):
        open_ones = [socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) for _ in range(MANY)]
        for i, one in enumerate(open_ones):
            one.sendall(b"%03d" % i)
        for i, one in enumerate(reversed(open_ones)):
            got = b""
            while len(got) < 3:
                got += one.recv(3)
            assert got == b"%03d" % (MANY - 1 - i)
        for one in open_ones:
            one.close()
        assert talk(port, b"still") == b"still"


def test_listens_on_this_machine_alone(echo):
    with forwarding(echo.sandbox_id, "0:7007") as (port,):
        listeners = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
        assert [line.split()[3] for line in listeners.splitlines()] == [f"127.0.0.1:{port}"]
    with forwarding("--address", "127.0.0.7", echo.sandbox_id, "0:7007") as (port,):
        socket.create_connection(("127.0.0.7", port), timeout=WAIT_S).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)


def test_a_closed_port_is_a_sentence_and_not_the_end(echo):
    child = subprocess.Popen([PROGRAM, "port", echo.sandbox_id, "0:7999"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+) ->", child.stdout.readline())[1])
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as s, contextlib.suppress(ConnectionResetError):
            assert s.recv(1) == b""
    child.send_signal(signal.SIGINT)
    assert child.wait(WAIT_S) == 0
    assert child.stderr.read().count("nothing listens on port 7999") == 2


def test_wrong_words(echo):
    for words in (["x"], ["1:2:3"], ["0"], ["70000"], ["8000:0"]):
        assert subprocess.run([PROGRAM, "port", echo.sandbox_id, *words], capture_output=True, timeout=WAIT_S).returncode == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = subprocess.run([PROGRAM, "port", echo.sandbox_id, f"{taken.getsockname()[1]}:7007"], capture_output=True, timeout=WAIT_S)
        assert ended.returncode == 1 and b"in use" in ended.stderr


def test_json(echo):
    child = subprocess.Popen([PROGRAM, "port", "--json", echo.sandbox_id, "0:7007"], stdout=subprocess.PIPE, text=True)
    row = json.loads(child.stdout.readline())
    assert row["address"] == "127.0.0.1" and row["remote"] == 7007 and talk(row["local"], b"y") == b"y"
    child.send_signal(signal.SIGTERM)
    assert child.wait(WAIT_S) == 0


def test_quiet_is_the_port_alone(echo):
    child = subprocess.Popen([PROGRAM, "port", "-q", echo.sandbox_id, "0:7007"], stdout=subprocess.PIPE, text=True)
    assert talk(int(child.stdout.readline()), b"z") == b"z"
    child.send_signal(signal.SIGTERM)
    assert child.wait(WAIT_S) == 0


def test_a_killed_sandbox_cuts_its_connections(new_sandbox):
    sandbox = new_sandbox()
    sandbox.files.write("/tmp/echo.py", ECHO)
    handle = sandbox.commands.run("exec python3 /tmp/echo.py", background=True, timeout=0)
    next(iter(handle))
    child = subprocess.Popen([PROGRAM, "port", sandbox.sandbox_id, "0:7007"], stdout=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+) ->", child.stdout.readline())[1])
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as s:
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        sandbox.kill()
        with pytest.raises(ConnectionResetError):
            s.recv(1)
            s.recv(1)
    child.send_signal(signal.SIGINT)
    child.wait(WAIT_S)


# ---- the agent's route, from outside ----


def upgrade(sandbox, port, token=True, **more):
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983", "Connection": "upgrade", "Upgrade": "tcp"} | more
    if token:
        headers["X-Access-Token"] = sandbox._envd_access_token
    host, number = API_URL.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(number)), timeout=WAIT_S) as s:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        s.sendall(f"GET /tcp/{port} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode())
        return int(s.recv(65536).split()[1])


def test_the_route_needs_the_token(echo):
    assert upgrade(echo, 7007) == 101
    assert upgrade(echo, 7007, token=False) == 401
    assert upgrade(echo, 7007, token=False, **{"X-Access-Token": "wrong"}) == 401
    assert upgrade(echo, 49983) == 400
    assert upgrade(echo, 7999) == 502
    assert upgrade(echo, 7007, Origin="http://evil.example", **{"Sec-Fetch-Site": "cross-site"}) != 101


def test_forwarding_outlives_a_pause(new_sandbox):
    sandbox = new_sandbox(timeout=120)
    sandbox.files.write("/tmp/echo.py", ECHO)
    next(iter(sandbox.commands.run("exec python3 /tmp/echo.py", background=True, timeout=0)))
    with forwarding(sandbox.sandbox_id, "0:7007") as (port,):
        assert talk(port, b"before") == b"before"
        sandbox.pause()
        sandbox.connect()
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                assert talk(port, b"after") == b"after"
                break
            except (ConnectionError, AssertionError):
                assert time.monotonic() < deadline
