"""gRPC through the edge, with Google's client: trailers, streams in both directions, errors; and
services in a sandbox that speak TLS themselves."""

import os
import pathlib
import threading

import grpc
import httpx
import pytest

PORT, TLS_PORT = 50051, 8443
INSIDE = pathlib.Path(__file__).parent / "inside" / "grpc.cjs"
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def service():
    from e2b import Sandbox

    sandbox = Sandbox.create(timeout=600, network={"https_ports": [TLS_PORT, TLS_PORT + 1]})
    sandbox.files.write("/tmp/grpc.cjs", INSIDE.read_text())
    sandbox.commands.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=nobody "
        "-days 2 -keyout /tmp/key.pem -out /tmp/cert.pem")
    for words in [f"{PORT}", f"{TLS_PORT} /tmp/key.pem /tmp/cert.pem"]:
        started = sandbox.commands.run(f"node /tmp/grpc.cjs {words}", background=True)
        for out, _, _ in started:
            if out and "ready" in out:
                break
    yield sandbox
    sandbox.kill()


def channel(sandbox, port=PORT):
    place = os.environ["E2B_SANDBOX_URL"].partition("//")[2]
    name = f"{port}-{sandbox.sandbox_id}.localhost"
    return grpc.insecure_channel(place, options=[("grpc.default_authority", name)])


@pytest.mark.parametrize("port", [PORT, TLS_PORT])
def test_a_call_and_its_trailers(service, port):
    with channel(service, port) as ch:
        answer, call = ch.unary_unary("/t.S/Unary").with_call(b"hello", timeout=TIMEOUT_S)
    assert answer == b"olleh"
    assert ("x-after", "the body") in [tuple(pair) for pair in call.trailing_metadata()]


@pytest.mark.parametrize("port", [PORT, TLS_PORT])
def test_an_error_without_a_body(service, port):
    with channel(service, port) as ch:
        with pytest.raises(grpc.RpcError) as caught:
            ch.unary_unary("/t.S/Fail")(b"x", timeout=TIMEOUT_S)
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "no such thing")


def test_streams_down_and_up(service):
    with channel(service) as ch:
        down = list(ch.unary_stream("/t.S/Down")(b"5000", timeout=TIMEOUT_S))
        assert down == [str(i).encode() for i in range(5000)]
        pieces = (b"x" * 100_000 for _ in range(50))
        assert ch.stream_unary("/t.S/Up")(pieces, timeout=TIMEOUT_S) == b"5000000"


def test_both_directions_at_once(service):
    heard = threading.Event()

    def say():
        yield b"1"
        heard.wait(TIMEOUT_S)  # the answer to the first must come before the second is sent
        yield b"2"

    with channel(service) as ch:
        answers = ch.stream_stream("/t.S/Both")(say(), timeout=TIMEOUT_S)
        assert next(answers) == b"<1>"
        heard.set()
        assert list(answers) == [b"<2>"]


def test_many_calls_at_once(service):
    with channel(service) as ch:
        call = ch.unary_unary("/t.S/Unary")
        waiting = [call.future(str(i).encode(), timeout=TIMEOUT_S) for i in range(200)]
        assert [w.result() for w in waiting] == [str(i).encode()[::-1] for i in range(200)]


def test_a_closed_port_is_an_error(service):
    with channel(service, 9) as ch:
        with pytest.raises(grpc.RpcError) as caught:
            ch.unary_unary("/t.S/Unary")(b"x", timeout=TIMEOUT_S)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE and "502" in caught.value.details()


def test_a_service_that_speaks_tls_itself(service):
    headers = {"E2b-Sandbox-Id": service.sandbox_id, "E2b-Sandbox-Port": str(TLS_PORT + 1)}
    answer = httpx.get(f"{os.environ['E2B_SANDBOX_URL']}/path", headers=headers)
    assert (answer.status_code, answer.text) == (200, "tls /path")
