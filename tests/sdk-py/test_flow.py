"""Output and files arrive to the byte: JSON and binary messages, HTTP/1.1 and 2, slow readers, readers that leave."""

import base64
import hashlib
import json
import struct
import time

import httpx
import pytest
import web
from conftest import SANDBOX_URL

LINES = 1_500_000
SIZE = 40 * 1000 * 1000 + 7
FIELD_BYTES = 2  # the kind of a protobuf field that has a length


def headers_of(sandbox, kind=None):
    content = {"Content-Type": kind} if kind else {}
    return {**web.routing(sandbox.sandbox_id, web.AGENT_PORT), "X-Access-Token": web.token(sandbox), **content}


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def client(request):
    two = request.param == "HTTP/2"
    with httpx.Client(http1=not two, http2=two, timeout=120) as client:
        yield client


# ---- messages ----


def field(number, value):
    assert len(value) < 128
    return bytes([number << 3 | FIELD_BYTES, len(value)]) + value


def fields(data):
    """The fields of a message of which each has a length: number and value."""
    while data:
        number, at, length, shift = data[0] >> 3, 1, 0, 0
        assert data[0] & 7 == FIELD_BYTES
        while True:
            length |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if not data[at - 1] & 128:
                break
        yield number, data[at : at + length]
        data = data[at + length :]


def request_of(command, binary):
    words = ["/bin/sh", "-c", command]
    if binary:
        config = b"".join(field(1 if i == 0 else 2, word.encode()) for i, word in enumerate(words))
        body = field(1, config)
    else:
        body = json.dumps({"process": {"cmd": words[0], "args": words[1:]}}).encode()
    return struct.pack(">BI", 0, len(body)) + body


def output_of(message, binary):
    if not binary:
        data = json.loads(message)["event"].get("data", {})
        return base64.b64decode(data.get("stdout", ""))
    ((_, event),) = fields(message)
    if event[:1] != bytes([2 << 3 | FIELD_BYTES]):  # it is no data
        return b""
    ((_, data),) = fields(event)
    ((_, piece),) = fields(data)
    return piece


def pieces(parts, binary):
    """The output in a stream of Connect's envelopes; the last of them must be a good end."""
    buffer = bytearray()
    for part in parts:
        buffer += part
        while len(buffer) >= 5:
            flags, length = struct.unpack(">BI", buffer[:5])
            if len(buffer) < 5 + length:
                break
            message = bytes(buffer[5 : 5 + length])
            del buffer[: 5 + length]
            if flags == 2:
                assert json.loads(message) == {}
                return
            yield output_of(message, binary)
    raise AssertionError("the stream has no end")


def slowly(parts):
    for i, part in enumerate(parts):
        if i < 40:
            time.sleep(0.02)
        yield part


# ---- tests ----


@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
@pytest.mark.parametrize("pace", [iter, slowly], ids=["fast", "slow"])
def test_output_arrives_whole(client, sandbox, binary, pace):
    kind = f"application/connect+{'proto' if binary else 'json'}"
    body = request_of(f"seq {LINES}", binary)
    url = f"{SANDBOX_URL}/process.Process/Start"
    digest, size = hashlib.sha256(), 0
    with client.stream("POST", url, headers=headers_of(sandbox, kind), content=body) as answer:
        assert answer.status_code == 200
        for piece in pieces(pace(answer.iter_raw()), binary):
            digest.update(piece)
            size += len(piece)
    expected = "".join(f"{i}\n" for i in range(1, LINES + 1)).encode()
    assert size == len(expected)
    assert digest.hexdigest() == hashlib.sha256(expected).hexdigest()


@pytest.mark.parametrize("pace", [iter, slowly], ids=["fast", "slow"])
def test_a_large_file_arrives_whole(client, sandbox, pace):
    path = "/tmp/flow"
    made = f"head -c {SIZE} /dev/urandom > {path}; sha256sum {path}"
    expected = sandbox.commands.run(made).stdout.split()[0]
    digest, size = hashlib.sha256(), 0
    url = f"{SANDBOX_URL}/files?path={path}"
    with client.stream("GET", url, headers={**headers_of(sandbox), "Accept-Encoding": "identity"}) as answer:
        assert (answer.status_code, int(answer.headers["content-length"])) == (200, SIZE)
        for part in pace(answer.iter_raw()):
            digest.update(part)
            size += len(part)
    assert (size, digest.hexdigest()) == (SIZE, expected)


@pytest.mark.parametrize("two", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_readers_that_leave_harm_nobody(sandbox, two):
    """Each leaves with its connection: httpx never tells a peer that it has left a single stream of HTTP/2."""
    sandbox.commands.run(f"head -c {SIZE} /dev/zero > /tmp/left")
    start = (f"{SANDBOX_URL}/process.Process/Start", "application/connect+proto", request_of(f"head -c {SIZE} /dev/zero", True))
    for i in range(20):
        url, kind, body = start if i % 2 else (f"{SANDBOX_URL}/files?path=/tmp/left", None, None)
        with httpx.Client(http1=not two, http2=two, timeout=60) as client:
            with client.stream("POST" if body else "GET", url, headers=headers_of(sandbox, kind), content=body) as answer:
                assert answer.status_code == 200
                next(answer.iter_raw())
    assert sandbox.commands.run("echo there").stdout == "there\n"
