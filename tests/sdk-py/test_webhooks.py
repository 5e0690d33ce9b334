"""/events/webhooks: an endpoint is told of events, at least once and in order, whatever it does.

The endpoint is on loopback, so the daemon must run with --webhook-allow-local true."""

import socket
import uuid

import pytest
from receiver import Receiver, signature

PREFIX = "sandbox.lifecycle."
ALL = [PREFIX + name for name in ("created", "updated", "killed")]
SECRET = "a secret for the tests"


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def new_webhook(api):
    """A factory; deletes what it made."""
    made = []

    def make(url, **fields):
        body = {"name": "test", "url": url, "events": ALL, "signatureSecret": SECRET, **fields}
        answer = api.post("/events/webhooks", json=body)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        return answer.json()

    yield make
    for webhook_id in made:
        api.delete(f"/events/webhooks/{webhook_id}")


def history(api, webhook, **params):
    answer = api.get(f"/events/webhooks/{webhook['id']}/deliveries", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_register_list_get_change_delete(api, new_webhook):
    webhook = new_webhook("https://example.invalid/hook", name="mine")
    uuid.UUID(webhook["id"])
    assert set(webhook) == {"id", "teamId", "name", "createdAt", "enabled", "url", "events"}
    assert webhook["enabled"] is True and webhook["events"] == ALL
    path = f"/events/webhooks/{webhook['id']}"

    assert webhook in api.get("/events/webhooks").json()
    assert api.get(path).json() == webhook

    changed = api.patch(path, json={"enabled": False, "events": [PREFIX + "killed"]})
    assert changed.status_code == 200
    expected = {**webhook, "enabled": False, "events": [PREFIX + "killed"]}
    assert changed.json() == expected
    assert api.get(path).json() == expected

    assert api.delete(path).status_code == 200
    assert api.get(path).status_code == 404
    assert api.delete(path).status_code == 404
    assert webhook["id"] not in [row["id"] for row in api.get("/events/webhooks").json()]


def test_events_are_delivered_and_signed(api, receiver, new_webhook, new_sandbox):
    webhook = new_webhook(receiver.url)
    sandbox = new_sandbox(metadata={"for": "webhook"})
    sandbox.set_timeout(100)
    sandbox.kill()
    receiver.until(lambda: len(receiver.of(sandbox.sandbox_id)) >= 3, "all three have come")
    assert receiver.types(sandbox.sandbox_id) == ["created", "updated", "killed"]

    ids = set()
    for event, headers, body in receiver.got:
        lower = {name.lower(): value for name, value in headers.items()}
        assert lower["e2b-webhook-id"] == webhook["id"]
        assert lower["e2b-signature-version"] == "v1"
        assert lower["e2b-signature"] == signature(SECRET, body)
        assert lower["content-type"] == "application/json"
        ids.add(lower["e2b-delivery-id"])
    assert len(ids) == len(receiver.got)

    listed = api.get(f"/events/sandboxes/{sandbox.sandbox_id}", params={"orderAsc": "true"}).json()
    assert receiver.of(sandbox.sandbox_id) == listed
    receiver.until(
        lambda: all(row["status"] == "delivered" for row in history(api, webhook, limit=100)),
        "the history says so",
    )
    row = history(api, webhook)[0]
    assert row["responseStatus"] == 204 and row["attempts"] == 1 and row["error"] is None
    assert row["lastAttemptAt"].endswith("Z") and row["id"] in ids
    assert row["eventType"].startswith(PREFIX)


def test_only_the_wanted_types(receiver, new_webhook, new_sandbox):
    new_webhook(receiver.url, events=[PREFIX + "killed"])
    sandbox = new_sandbox()
    sandbox.set_timeout(100)
    sandbox.kill()
    receiver.until(lambda: receiver.of(sandbox.sandbox_id), "the end has come")
    assert receiver.types(sandbox.sandbox_id) == ["killed"]


def test_a_disabled_one_gets_nothing(api, receiver, new_webhook, new_sandbox):
    webhook = new_webhook(receiver.url, enabled=False)
    marker = new_webhook(receiver.url)
    sandbox = new_sandbox()
    receiver.until(lambda: receiver.of(sandbox.sandbox_id), "the other one was told")
    assert [headers["e2b-webhook-id"] for _, headers, _ in receiver.got] == [marker["id"]]
    assert history(api, webhook) == []


def test_a_failure_is_tried_again_in_order(api, receiver, new_webhook, new_sandbox):
    failures = []

    def takes(event):
        if len(failures) < 2:
            failures.append(event)
            return False
        return True

    def answer(handler, event):
        taken = event["id"] in {got["id"] for got, _, _ in receiver.got}
        handler.send_response(200 if taken else 500)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    receiver.takes, receiver.answer = takes, answer
    webhook = new_webhook(receiver.url)
    sandbox = new_sandbox()
    sandbox.kill()
    receiver.until(lambda: len(receiver.of(sandbox.sandbox_id)) >= 2, "both have come")
    assert receiver.types(sandbox.sandbox_id) == ["created", "killed"]
    assert [event["type"] for event in failures] == [PREFIX + "created"] * 2
    rows = history(api, webhook, orderAsc="true")
    assert rows[0]["attempts"] == 3
    assert len({headers["e2b-delivery-id"] for _, headers, _ in receiver.got}) == 2


def test_a_dead_endpoint_does_not_hold_up_another(api, receiver, new_webhook, new_sandbox):
    with socket.socket() as listening:  # accepts, and never answers
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        silent = new_webhook(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        refused = new_webhook("http://127.0.0.1:1/")
        new_webhook(receiver.url)
        sandboxes = [new_sandbox() for _ in range(10)]
        for sandbox in sandboxes:
            receiver.until(lambda: receiver.of(sandbox.sandbox_id), "the live one is told")
        receiver.until(
            lambda: any(row["error"] for row in history(api, refused)), "a failure is on record"
        )
        rows = history(api, silent, limit=100)
        assert len(rows) >= len(sandboxes) and {row["status"] for row in rows} == {"pending"}


def test_redirects_are_not_followed(api, receiver, new_webhook, new_sandbox):
    other = Receiver()

    def answer(handler, event):
        handler.send_response(302)
        handler.send_header("Location", other.url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    receiver.answer = answer
    webhook = new_webhook(receiver.url)
    sandbox = new_sandbox()
    receiver.until(
        lambda: any(row["error"] for row in history(api, webhook)), "the failure is on record"
    )
    row = history(api, webhook)[0]
    assert row["responseStatus"] == 302 and "redirects are not followed" in row["error"]
    assert other.got == []
    other.close()


def test_a_long_answer_is_cut(api, receiver, new_webhook, new_sandbox):
    def answer(handler, event):
        handler.send_response(200)
        handler.send_header("Content-Length", str(5 << 20))
        handler.end_headers()
        try:
            handler.wfile.write(b"x" * (5 << 20))
        except ConnectionError:
            handler.close_connection = True

    receiver.answer = answer
    webhook = new_webhook(receiver.url)
    new_sandbox()
    receiver.until(
        lambda: any(row["status"] == "delivered" for row in history(api, webhook)), "it is taken"
    )


def test_test_delivery(api, receiver, new_webhook):
    webhook = new_webhook(receiver.url)
    answer = api.post(f"/events/webhooks/{webhook['id']}/test")
    assert answer.status_code == 200
    assert answer.json()["delivered"] is True and answer.json()["responseStatus"] == 204
    ((event, headers, body),) = receiver.got
    assert event["type"] == "webhook.test"
    assert headers["e2b-delivery-id"] == answer.json()["deliveryId"]
    assert headers["e2b-signature"] == signature(SECRET, body)

    api.patch(f"/events/webhooks/{webhook['id']}", json={"url": "http://127.0.0.1:1/"})
    failed = api.post(f"/events/webhooks/{webhook['id']}/test").json()
    assert failed["delivered"] is False and failed["responseStatus"] is None
    assert failed["error"]


def test_a_changed_secret_and_url_hold_at_once(api, receiver, new_webhook, new_sandbox):
    webhook = new_webhook("http://127.0.0.1:1/")
    sandbox = new_sandbox()
    receiver.until(
        lambda: any(row["attempts"] for row in history(api, webhook)), "it was tried in vain"
    )
    api.patch(
        f"/events/webhooks/{webhook['id']}",
        json={"url": receiver.url, "signatureSecret": "another"},
    )
    receiver.until(lambda: receiver.of(sandbox.sandbox_id), "it has come to the new place")
    _, headers, body = receiver.got[0]
    assert headers["e2b-signature"] == signature("another", body)


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ftp://example.com/"},
        {"url": "not a url"},
        {"url": "http://"},
        {"url": "file:///etc/passwd"},
        {"url": "http://example.com/" + "x" * 3000},
        {"url": None},
        {"url": 5},
        {"events": []},
        {"events": ["sandbox.lifecycle.exploded"]},
        {"events": [7]},
        {"events": None},
        {"events": "sandbox.lifecycle.created"},
        {"name": ""},
        {"name": None},
        {"name": "x" * 300},
        {"signatureSecret": ""},
        {"signatureSecret": None},
        {"enabled": "yes"},
    ],
)
def test_bad_webhooks(api, fields):
    body = {"name": "bad", "url": "http://127.0.0.1:1/", "events": ALL, "signatureSecret": SECRET}
    answer = api.post("/events/webhooks", json={**body, **fields})
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("validation error: ")
    assert "bad" not in [row["name"] for row in api.get("/events/webhooks").json()]


def test_there_is_a_limit(api, new_webhook):
    room = 20 - len(api.get("/events/webhooks").json())
    for _ in range(room):
        new_webhook("http://127.0.0.1:1/", enabled=False)
    body = {"name": "x", "url": "http://127.0.0.1:1/", "events": ALL, "signatureSecret": SECRET}
    answer = api.post("/events/webhooks", json=body)
    assert answer.status_code == 403
    assert "20 webhooks" in answer.json()["message"]


def test_unknown_webhook(api):
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"enabled": False}),  # it returned before its buffer was set, and freed it
        ("DELETE", "", None),
        ("POST", "/test", None),
        ("GET", "/deliveries", None),
    ):
        for webhook_id in (uuid.uuid4(), uuid.UUID(int=0)):
            answer = api.request(method, f"/events/webhooks/{webhook_id}{path}", json=body)
            assert answer.status_code == 404, (method, path)


def redeliver(api, webhook, delivery_id):
    return api.post(f"/events/webhooks/{webhook['id']}/deliveries/{delivery_id}/redeliver")


def test_a_delivery_is_sent_once_more(api, receiver, new_webhook, new_sandbox):
    webhook = new_webhook(receiver.url, events=[PREFIX + "created"])
    sandbox = new_sandbox()
    receiver.until(lambda: any(row["status"] == "delivered" for row in history(api, webhook)), "it is delivered")
    (first,) = history(api, webhook)
    answer = redeliver(api, webhook, first["id"])
    assert answer.status_code == 202, answer.text
    again = answer.json()["deliveryId"]
    assert again != first["id"]
    receiver.until(lambda: len(receiver.of(sandbox.sandbox_id)) == 2, "it has come twice")
    events = receiver.of(sandbox.sandbox_id)
    assert events[0] == events[1], "the same event, under another delivery"
    receiver.until(lambda: all(row["status"] == "delivered" for row in history(api, webhook)), "both are on record")
    assert [row["id"] for row in history(api, webhook)] == [again, first["id"]]


def test_the_history_shows_events_when_asked(api, receiver, new_webhook, new_sandbox):
    webhook = new_webhook(receiver.url, events=[PREFIX + "created"])
    sandbox = new_sandbox(metadata={"for": "history"})
    receiver.until(lambda: history(api, webhook), "it is on record")
    assert "event" not in history(api, webhook)[0]
    (row,) = history(api, webhook, events="true")
    assert row["event"]["sandboxId"] == sandbox.sandbox_id and row["event"]["id"] == row["eventId"]
    assert row["event"]["eventData"]["sandbox_metadata"] == {"for": "history"}
    assert api.get(f"/events/webhooks/{webhook['id']}/deliveries?events=maybe").status_code == 400


def test_a_pending_delivery_is_tried_at_once(api, receiver, new_webhook, new_sandbox):
    def refuse(handler, event):
        handler.send_response(503)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    receiver.answer = refuse
    webhook = new_webhook(receiver.url, events=[PREFIX + "created"])
    new_sandbox()
    receiver.until(lambda: any(row["attempts"] >= 4 for row in history(api, webhook)), "it has failed a few times")
    (row,) = history(api, webhook)
    assert row["status"] == "pending" and row["responseStatus"] == 503 and row["nextAttemptAt"]
    receiver.answer = None
    answer = redeliver(api, webhook, row["id"])
    assert answer.status_code == 202 and answer.json()["deliveryId"] == row["id"]
    receiver.until(lambda: history(api, webhook)[0]["status"] == "delivered", "it is delivered")
    assert len(history(api, webhook)) == 1


def test_only_a_team_s_own_deliveries_are_sent_again(api, others_api, receiver, new_webhook, new_sandbox):
    webhook, other = new_webhook(receiver.url), new_webhook(receiver.url, events=[PREFIX + "killed"])
    new_sandbox()
    receiver.until(lambda: history(api, webhook), "it is on record")
    delivery_id = history(api, webhook)[0]["id"]
    assert redeliver(others_api, webhook, delivery_id).status_code == 404
    assert redeliver(api, other, delivery_id).status_code == 404
    assert redeliver(api, webhook, uuid.uuid4()).status_code == 404
    assert redeliver(api, webhook, "x" * 400).status_code == 404
    assert redeliver(api, {"id": uuid.uuid4()}, delivery_id).status_code == 404
    api.patch(f"/events/webhooks/{webhook['id']}", json={"enabled": False})
    assert redeliver(api, webhook, delivery_id).status_code == 409
