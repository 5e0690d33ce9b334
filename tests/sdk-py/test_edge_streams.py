"""Connections that stay open: WebSockets, and what a kill does to them."""

import os
import socket
import threading
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
import web
from conftest import SANDBOX_URL
from e2b import TimeoutException
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

PORT = 8080


def open_websocket(sandbox):
    address = SANDBOX_URL.replace("http", "ws", 1) + "/socket"
    headers = web.routing(sandbox.sandbox_id, PORT)
    return connect(address, additional_headers=headers, max_size=None, compression=None)


def open_events(sandbox):
    """A raw connection with a stream under way: the head and the first event have arrived."""
    target = urlsplit(SANDBOX_URL)
    conn = socket.create_connection((target.hostname, target.port), timeout=60)
    head = "".join(f"{k}: {v}\r\n" for k, v in web.routing(sandbox.sandbox_id, PORT).items())
    conn.sendall(f"GET /events HTTP/1.1\r\nHost: {target.netloc}\r\n{head}\r\n".encode())
    seen = b""
    while b"data: 0" not in seen:
        part = conn.recv(4096)
        assert part, f"the stream ended early: {seen!r}"
        seen += part
    return conn


def drain(conn):
    """Reads until the end. True when that was a reset and not a close."""
    try:
        while conn.recv(4096):
            pass
    except ConnectionResetError:
        return True
    return False


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65536, 5_000_000])
def test_websocket_messages_come_back(sandbox, size):
    with web.serving(sandbox, "websocket_server.py", PORT), open_websocket(sandbox) as ws:
        message = os.urandom(size)
        ws.send(message)
        assert ws.recv() == message


def test_many_websockets(sandbox):
    with web.serving(sandbox, "websocket_server.py", PORT), ExitStack() as stack:
        sockets = [stack.enter_context(open_websocket(sandbox)) for _ in range(30)]
        for number, ws in enumerate(sockets):
            ws.send(f"to {number}")
        assert [ws.recv() for ws in sockets] == [f"to {n}" for n in range(30)]


def test_a_websocket_closes_cleanly(sandbox):
    with web.serving(sandbox, "websocket_server.py", PORT), open_websocket(sandbox) as ws:
        ws.close(1000, "done")
        assert (ws.close_code, ws.close_reason) == (1000, "done")


def test_a_websocket_to_a_server_that_has_none(sandbox):
    with web.serving(sandbox, "web_server.py", PORT):
        with pytest.raises(InvalidStatus, match="404"):
            with open_websocket(sandbox):
                pass


def test_kill_resets_a_websocket(own_sandbox):
    with web.serving(own_sandbox, "websocket_server.py", PORT), open_websocket(own_sandbox) as ws:
        ws.send("alive")
        assert ws.recv() == "alive"
        own_sandbox.kill()
        with pytest.raises(ConnectionClosed) as caught:
            ws.recv(timeout=60)
        assert caught.value.rcvd is None  # no close frame: it did not end well


def test_kill_resets_an_open_answer(own_sandbox):
    with web.serving(own_sandbox, "web_server.py", PORT):
        with open_events(own_sandbox) as conn:
            own_sandbox.kill()
            assert drain(conn), "the answer ended as if it were whole"
    with web.client(own_sandbox.sandbox_id, PORT) as client:
        assert client.get("/hello").json()["message"] == "The sandbox was not found"


def test_a_timeout_resets_an_open_answer(own_sandbox):
    with web.serving(own_sandbox, "web_server.py", PORT):
        with open_events(own_sandbox) as conn:
            own_sandbox.set_timeout(1)
            assert drain(conn), "the answer ended as if it were whole"


def test_kill_tells_a_waiting_command(own_sandbox):
    handle = own_sandbox.commands.run("sleep 1000", background=True)
    killer = threading.Timer(0.5, own_sandbox.kill)
    killer.start()
    try:
        with pytest.raises(TimeoutException, match="killed or reached its end of life"):
            handle.wait()
    finally:
        killer.join()


def test_a_server_that_dies_in_mid_answer(sandbox):
    with web.serving(sandbox, "web_server.py", PORT):
        with open_events(sandbox) as conn:
            sandbox.commands.run(f"pkill -KILL -f 'web_server.py {PORT}'")
            rest = b""
            try:
                while part := conn.recv(4096):
                    rest += part
            except ConnectionResetError:
                pass
            assert b"0\r\n\r\n" not in rest, "the answer ended as if it were whole"
    assert sandbox.is_running()
