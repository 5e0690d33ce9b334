"""Readers of the audit log that do not read, too many of them, and one whose key was deleted."""

import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import API_KEY, API_URL
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import PingAckReceived, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes, Settings

LINES = {"Accept": "application/x-ndjson"}
KEEP_ALIVE_S = 15  # an idle stream gets an empty line that often


class SlowReader:
    """An HTTP/2 client whose window is shut: what it is answered waits in the daemon."""

    def __init__(self, path):
        where = urlsplit(API_URL)
        self.peer = socket.create_connection((where.hostname, where.port), timeout=1)
        self.h2 = H2Connection(H2Configuration(client_side=True))
        self.h2.local_settings = Settings(client=True, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: 0})
        self.h2.initiate_connection()
        fields = {":method": "GET", ":path": path, ":scheme": "http", ":authority": where.netloc, "x-api-key": API_KEY}
        self.h2.send_headers(1, list(fields.items()) + [("accept", "application/x-ndjson")], end_stream=True)
        self.flush()

    def flush(self):
        self.peer.sendall(self.h2.data_to_send())

    def events(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                data = self.peer.recv(65536)
            except TimeoutError:
                continue
            assert data, "the daemon has closed the connection"
            yield from self.h2.receive_data(data)
            self.flush()

    def wait_for(self, kind, seconds=20):
        return next(event for event in self.events(seconds) if isinstance(event, kind))


def test_a_reader_that_reads_nothing_is_let_go_and_harms_nobody(api):
    api.delete("/sandboxes/inobody00000000000000")  # there is a row
    reader = SlowReader("/audit")
    reader.wait_for(ResponseReceived)
    assert not [event for event in reader.events(KEEP_ALIVE_S + 3) if isinstance(event, StreamEnded)]
    reader.h2.ping(b"8 bytes.")
    reader.flush()
    reader.wait_for(PingAckReceived)
    reader.wait_for(StreamReset, 90)


@pytest.fixture
def key(api):
    made = api.post("/api-keys", json={"name": "of a reader"}).json()
    yield made
    api.delete(f"/api-keys/{made['id']}")


def test_a_stream_ends_when_its_key_is_deleted(api, key):
    with httpx.Client(base_url=API_URL, timeout=30, headers={"X-API-Key": key["key"], **LINES}) as client:
        with client.stream("GET", "/audit", params={"follow": "true"}) as answer:
            assert answer.status_code == 200
            assert api.delete(f"/api-keys/{key['id']}").status_code == 204
            with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
                for _ in answer.iter_lines():
                    pass


def test_a_team_has_a_limit_of_streams(api):
    with ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(httpx.Client(base_url=API_URL, timeout=30, headers={"X-API-Key": API_KEY, **LINES}))
            assert stack.enter_context(client.stream("GET", "/audit", params={"follow": "true"})).status_code == 200
        answer = api.get("/audit", params={"follow": "true"}, headers=LINES)
        assert answer.status_code == 429 and "8 streams" in answer.json()["message"]
