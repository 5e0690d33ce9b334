"""HTTP/2 with prior knowledge on the same port, for the API and through the edge."""

import asyncio
import hashlib
import os

import httpx
import pytest
import web
from conftest import API_KEY, API_URL, SANDBOX_URL

PORT = 8080


@pytest.fixture
def h2():
    with httpx.Client(http1=False, http2=True, timeout=60) as client:
        yield client


def test_the_api(h2):
    answer = h2.get(f"{API_URL}/v2/sandboxes", headers={"X-API-Key": API_KEY})
    assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)


def test_an_error(h2):
    answer = h2.get(f"{API_URL}/v2/sandboxes")
    assert (answer.http_version, answer.status_code) == ("HTTP/2", 401)
    assert answer.json()["code"] == 401


async def test_many_streams_on_one_connection():
    """One thread: httpx's blocking client lets two threads take the same stream."""
    one = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(http1=False, http2=True, timeout=60, limits=one) as client:
        asked = (
            client.get(f"{API_URL}/v2/sandboxes", headers={"X-API-Key": API_KEY})
            for _ in range(500)
        )
        answers = await asyncio.gather(*asked)
    assert {(answer.http_version, answer.status_code) for answer in answers} == {("HTTP/2", 200)}


def test_through_the_edge(h2, sandbox):
    headers = web.routing(sandbox.sandbox_id, PORT)
    with web.serving(sandbox, "web_server.py", PORT):
        answer = h2.get(f"{SANDBOX_URL}/hello", headers=headers)
        assert (answer.http_version, answer.text) == ("HTTP/2", "hello from inside")

        body = os.urandom(1 << 20) * 10
        answer = h2.post(f"{SANDBOX_URL}/digest", headers=headers, content=body)
        assert answer.json()["sha256"] == hashlib.sha256(body).hexdigest()

        answer = h2.get(f"{SANDBOX_URL}/bytes?20000000", headers=headers)
        assert len(answer.content) == 20_000_000


def test_a_file_both_ways(h2, sandbox):
    headers = {
        **web.routing(sandbox.sandbox_id, web.AGENT_PORT),
        "X-Access-Token": web.token(sandbox),
    }
    body = os.urandom(3_000_000)
    url = f"{SANDBOX_URL}/files?path=/tmp/over-h2"
    octets = {**headers, "Content-Type": "application/octet-stream"}
    assert h2.post(url, headers=octets, content=body).status_code == 200
    assert h2.get(url, headers=headers).content == body


def test_kill_resets_a_stream(h2, own_sandbox):
    with web.serving(own_sandbox, "web_server.py", PORT):
        headers = web.routing(own_sandbox.sandbox_id, PORT)
        with h2.stream("GET", f"{SANDBOX_URL}/events", headers=headers) as stream:
            lines = (line for line in stream.iter_lines() if line)
            assert next(lines) == "data: 0"
            own_sandbox.kill()
            with pytest.raises(httpx.RemoteProtocolError):
                next(lines)
    # The connection itself lives on: only the stream was the sandbox's.
    assert h2.get(f"{API_URL}/health").status_code == 200
