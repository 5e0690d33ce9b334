"""GET /events/sandboxes?follow=true: events as lines, as they are committed."""

import contextlib
import json
import queue
import socket
import threading
import uuid

import httpx
import pytest
from conftest import API_KEY, API_URL

PREFIX = "sandbox.lifecycle."
WAIT_S = 60
STREAMS_MAX = 16


class Stream:
    """Reads lines on a thread of its own until it is closed or the server ends it."""

    def __init__(self, key=API_KEY, sandbox_id=None, **params):
        self.lines = queue.Queue()
        self.status = queue.Queue()
        self.client = httpx.Client(timeout=WAIT_S)
        path = f"/events/sandboxes/{sandbox_id}" if sandbox_id else "/events/sandboxes"
        self.request = self.client.build_request(
            "GET", API_URL + path, params={"follow": "true", **params}, headers={"X-API-Key": key})
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        self.answer = self.status.get(timeout=WAIT_S)

    def read(self):
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
            answer = self.client.send(self.request, stream=True)
            self.status.put(answer)
            for line in answer.iter_lines():
                self.lines.put(line)
        self.lines.put(None)

    def next(self):
        while (line := self.lines.get(timeout=WAIT_S)) == "":
            pass
        return line and json.loads(line)

    def types(self, n):
        return [self.next()["type"].removeprefix(PREFIX) for _ in range(n)]

    def close(self):
        with contextlib.suppress(OSError, AttributeError):
            self.answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self.client.close()
        self.thread.join(WAIT_S)


@pytest.fixture
def follow():
    made = []

    def start(*args, **params):
        made.append(Stream(*args, **params))
        return made[-1]

    yield start
    for stream in made:
        stream.close()


def test_events_come_as_they_happen(api, follow, new_sandbox):
    stream = follow()
    assert stream.answer.status_code == 200
    assert stream.answer.headers["content-type"] == "application/x-ndjson"
    sandbox = new_sandbox()
    assert stream.next()["type"] == PREFIX + "created"
    sandbox.set_timeout(100)
    updated = stream.next()
    sandbox.kill()
    assert stream.types(1) == ["killed"]
    listed = api.get(f"/events/sandboxes/{sandbox.sandbox_id}", params={"orderAsc": "true"}).json()
    assert listed[1] == updated, "a line is the event as lists show it"


def test_a_stream_goes_on_behind_an_event(api, follow, new_sandbox):
    sandbox = new_sandbox()
    sandbox.set_timeout(100)
    sandbox.kill()
    listed = api.get(f"/events/sandboxes/{sandbox.sandbox_id}", params={"orderAsc": "true"}).json()
    assert follow(after=listed[0]["id"]).types(2) == ["updated", "killed"]
    assert follow(sandbox_id=sandbox.sandbox_id, after=listed[1]["id"]).types(1) == ["killed"]


def test_more_than_a_page_comes_whole(api, follow, new_sandbox):
    sandbox = new_sandbox()
    first = api.get(f"/events/sandboxes/{sandbox.sandbox_id}").json()[0]["id"]
    for seconds in range(300):
        assert api.post(f"/sandboxes/{sandbox.sandbox_id}/timeout", json={"timeout": 100 + seconds}).status_code == 204
    stream = follow(after=first, sandbox_id=sandbox.sandbox_id)
    ends = [stream.next()["eventData"]["set_timeout"] for _ in range(300)]
    assert ends == sorted(ends) and len(set(ends)) == 300


def test_one_sandbox_and_its_types(follow, new_sandbox):
    one, other = new_sandbox(), new_sandbox()
    of_one = follow(sandbox_id=one.sandbox_id)
    killed = follow(types=PREFIX + "killed")
    other.set_timeout(100)
    one.set_timeout(100)
    other.kill()
    one.kill()
    assert of_one.types(2) == ["updated", "killed"]
    assert [killed.next()["sandboxId"] for _ in range(2)] == [other.sandbox_id, one.sandbox_id]


@pytest.mark.parametrize(
    ("query", "status"),
    [("follow=perhaps", 400), ("follow=true&after=" + "a" * 40, 400), ("follow=true&types=nothing", 400),
     (f"follow=true&after={uuid.uuid4()}", 404), ("follow=true&after=%00", 400)],
)
def test_wrong_queries(api, query, status):
    for path in ("/events/sandboxes", "/events/sandboxes/inothing0000000000000"):
        answer = api.get(f"{path}?{query}")
        assert answer.status_code == status and answer.json()["message"], answer.text


def test_another_team_s_events_stay_its_own(other_team, follow, new_sandbox):
    theirs = follow(key=other_team["key"])
    sandbox = new_sandbox()
    of_ours = follow(key=other_team["key"], sandbox_id=sandbox.sandbox_id)
    after = httpx.get(f"{API_URL}/events/sandboxes", headers={"X-API-Key": API_KEY}).json()[0]["id"]
    refused = httpx.get(f"{API_URL}/events/sandboxes", params={"follow": "true", "after": after},
                        headers={"X-API-Key": other_team["key"]})
    assert refused.status_code == 404
    sandbox.kill()
    follow_own = follow()
    other = new_sandbox()
    assert follow_own.next()["sandboxId"] == other.sandbox_id
    assert theirs.lines.empty() and of_ours.lines.empty()


def test_a_team_has_a_number_of_streams(other_team, follow):
    for _ in range(STREAMS_MAX):
        assert follow(key=other_team["key"]).answer.status_code == 200
    refused = httpx.get(f"{API_URL}/events/sandboxes?follow=true", headers={"X-API-Key": other_team["key"]})
    assert refused.status_code == 429 and "16 streams" in refused.json()["message"]


def test_a_stream_ends_with_its_key(api, follow, new_sandbox):
    key = api.post("/api-keys", json={"name": "for a stream"}).json()
    stream = follow(key=key["key"])
    assert api.delete(f"/api-keys/{key['id']}").status_code == 204
    new_sandbox()
    last = stream.next()
    assert last["code"] == 401 and "deleted" in last["message"]
    assert stream.next() is None
