"""Clients that do not keep to the protocol: floods, half a request, silence, smuggling."""

import json
import socket

import pytest
import raw

pytestmark = pytest.mark.usefixtures("none_left_behind")

CREATE = json.dumps({"templateID": "base", "timeout": 60})


def alive():
    return raw.status(raw.exchange(f"GET /health HTTP/1.1\r\n{raw.HEAD}\r\n")) == 200


def test_too_many_headers():
    flood = "".join(f"X-{i}: y\r\n" for i in range(1000))
    assert raw.status(raw.exchange(f"GET /health HTTP/1.1\r\n{raw.HEAD}{flood}\r\n")) == 431
    assert alive()


def test_a_header_that_is_too_long():
    answer = raw.exchange(f"GET /health HTTP/1.1\r\n{raw.HEAD}X: {'y' * 100_000}\r\n\r\n")
    assert raw.status(answer) == 431
    assert alive()


def test_headers_without_end():
    with raw.dial() as conn:
        conn.sendall(f"GET /health HTTP/1.1\r\n{raw.HEAD}".encode())
        sent = 0
        with pytest.raises(ConnectionError):
            while sent < 100_000_000:
                sent += conn.send(b"X-Flood: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 100)
    assert alive()


def test_a_target_that_is_too_long():
    answer = raw.exchange(f"GET /{'a' * 60_000} HTTP/1.1\r\n{raw.HEAD}\r\n")
    assert raw.status(answer) in (414, 431)
    assert alive()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"GET http//a HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nhi\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    ],
    ids=[
        "binary", "tls-hello", "version", "http09", "no-host", "two-hosts", "space-colon", "folded",
        "nul", "target", "negative", "huge", "two-lengths", "both-framings", "unknown-framing",
        "bad-chunk", "huge-chunk",
    ],
)  # fmt: skip
def test_what_is_not_http(request_bytes):
    answer = raw.exchange(request_bytes)
    assert raw.status(answer) in (None, 400, 404, 405, 413, 501, 505)
    if raw.status(answer) == 404:  # a chunked body may break only after the head was answered
        assert b"chunked" in request_bytes
    assert alive()


def test_a_half_closed_client_gets_its_answer():
    body = CREATE.replace("base", "no-such-template")
    answer = raw.exchange(
        f"POST /v2/sandboxes HTTP/1.1\r\n{raw.HEAD}Content-Length: {len(body)}\r\n\r\n{body}"
    )
    assert raw.status(answer) == 404


def test_half_a_body_creates_nothing():
    answer = raw.exchange(
        f"POST /v2/sandboxes HTTP/1.1\r\n{raw.HEAD}Content-Length: 1000\r\n\r\n{CREATE}"
    )
    assert raw.status(answer) in (None, 400)


def test_half_a_chunked_body_creates_nothing():
    chunk = f"{len(CREATE):x}\r\n{CREATE}\r\n"
    answer = raw.exchange(
        f"POST /v2/sandboxes HTTP/1.1\r\n{raw.HEAD}Transfer-Encoding: chunked\r\n\r\n{chunk}"
    )
    assert raw.status(answer) in (None, 400)


def test_a_client_that_goes_silent_is_dropped():
    with raw.dial() as conn:
        conn.sendall(f"GET /health HTTP/1.1\r\n{raw.HEAD}".encode())
        assert alive()
        assert raw.status(raw.receive(conn)) in (None, 408)


def test_slow_clients_hold_up_nobody():
    slow = [raw.dial() for _ in range(200)]
    try:
        for conn in slow:
            conn.sendall(b"GET /health HT")
        assert alive()
        for conn in slow:
            conn.sendall(f"TP/1.1\r\n{raw.HEAD}Connection: close\r\n\r\n".encode())
        assert {raw.status(raw.receive(conn)) for conn in slow} == {200}
    finally:
        for conn in slow:
            conn.close()


def test_an_early_answer_says_that_the_connection_ends():
    """A client that keeps a connection for its next request must know when it cannot."""
    with raw.dial() as conn:
        conn.sendall(
            f"POST /v2/sandboxes HTTP/1.1\r\n{raw.HEAD}Content-Length: 50000000\r\n\r\n".encode()
        )
        try:
            for _ in range(50):
                conn.sendall(b" " * 1_000_000)
        except ConnectionError:
            pass
        answer = raw.receive(conn)
    assert raw.status(answer) == 413
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_pipelined_requests_are_answered_in_order():
    one = f"GET /health HTTP/1.1\r\n{raw.HEAD}\r\n"
    two = f"GET /nowhere HTTP/1.1\r\n{raw.HEAD}Connection: close\r\n\r\n"
    answers = raw.exchange(one + two + one)
    heads = answers.split(b"HTTP/1.1 ")[1:]
    assert [int(head[:3]) for head in heads] == [200, 404]


def test_expect_continue():
    body = CREATE.replace("base", "no-such-template")
    with raw.dial() as conn:
        conn.sendall(
            f"POST /v2/sandboxes HTTP/1.1\r\n{raw.HEAD}Expect: 100-continue\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        assert conn.recv(4096).startswith(b"HTTP/1.1 100 ")
        conn.sendall(body.encode())
        assert raw.status(raw.receive(conn)) == 404


def test_bytes_of_one_at_a_time():
    request = f"GET /health HTTP/1.1\r\n{raw.HEAD}Connection: close\r\n\r\n".encode()
    with raw.dial() as conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(request)):
            conn.sendall(request[i : i + 1])
        assert raw.status(raw.receive(conn)) == 200
