"""GET /events/sandboxes: what happened to sandboxes, also to those that are gone."""

import time
import uuid

import pytest
from e2b import Sandbox

PREFIX = "sandbox.lifecycle."


def events(api, sandbox_id, **params):
    params.setdefault("orderAsc", "true")
    answer = api.get(f"/events/sandboxes/{sandbox_id}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def types(api, sandbox_id, **params):
    return [event["type"].removeprefix(PREFIX) for event in events(api, sandbox_id, **params)]


@pytest.fixture
def story(new_sandbox):
    """A sandbox that was made, changed twice, and killed."""
    sandbox = new_sandbox(metadata={"who": "story"})
    sandbox.set_timeout(100)
    sandbox.set_timeout(200)
    sandbox.kill()
    return sandbox.sandbox_id


def test_the_story_in_order(api, story):
    assert types(api, story) == ["created", "updated", "updated", "killed"]
    assert types(api, story, orderAsc="false") == ["killed", "updated", "updated", "created"]


def test_the_shape(api, story):
    created, updated, _, killed = events(api, story)
    for event in (created, updated, killed):
        assert event["version"] == "v1"
        uuid.UUID(event["id"])
        uuid.UUID(event["sandboxTeamId"])
        uuid.UUID(event["sandboxBuildId"])
        uuid.UUID(event["sandboxExecutionId"])
        assert event["sandboxId"] == story
        assert event["sandboxTemplateId"]
        assert event["timestamp"].endswith("Z")
        assert event["eventData"]["sandbox_metadata"] == {"who": "story"}
        assert event["sandboxExecutionId"] == created["sandboxExecutionId"]
    assert len({created["id"], updated["id"], killed["id"]}) == 3
    assert updated["eventData"]["set_timeout"].endswith("Z")
    execution = killed["eventData"]["execution"]
    assert killed["eventData"]["kill_reason"] == "request"
    assert execution["started_at"].endswith("Z")
    assert execution["vcpu_count"] > 0 and execution["memory_mb"] > 0
    assert execution["execution_time"] >= 0


def test_a_fork_tells_of_whom(api, new_sandbox):
    parent = new_sandbox()
    fork = parent.fork()[0]
    fork.kill()
    assert events(api, fork.sandbox_id)[0]["eventData"]["fork_of"] == parent.sandbox_id
    assert "fork_of" not in events(api, parent.sandbox_id)[0]["eventData"]


def test_a_timeout_is_the_reason(api, new_sandbox):
    sandbox = new_sandbox(timeout=1)
    deadline = time.monotonic() + 60
    while not (killed := events(api, sandbox.sandbox_id, types=f"{PREFIX}killed")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert killed[0]["eventData"]["kill_reason"] == "timeout"
    # By the wall clock, while the timeout goes by the monotonic one.
    assert killed[0]["eventData"]["execution"]["execution_time"] >= 990


def test_connect_that_changes_nothing_is_no_event(api, new_sandbox):
    sandbox = new_sandbox(timeout=300)
    Sandbox.connect(sandbox.sandbox_id, timeout=10)
    assert types(api, sandbox.sandbox_id) == ["created"]
    Sandbox.connect(sandbox.sandbox_id, timeout=600)
    assert types(api, sandbox.sandbox_id) == ["created", "updated"]


def test_pages(api, story):
    assert types(api, story, limit=1) == ["created"]
    assert types(api, story, limit=2, offset=1) == ["updated", "updated"]
    assert types(api, story, offset=4) == []


def test_types_can_be_repeated(api, story):
    wanted = [f"{PREFIX}created", f"{PREFIX}killed"]
    assert types(api, story, types=wanted) == ["created", "killed"]
    assert types(api, story, types=",".join(wanted)) == ["created", "killed"]
    assert types(api, story, types=f"{PREFIX}paused") == []


def test_the_team_sees_all_of_its_own(api, story):
    answer = api.get("/events/sandboxes", params={"limit": 100})
    assert answer.status_code == 200
    ids = [event["sandboxId"] for event in answer.json()]
    assert ids.count(story) == 4


def test_default_page_is_ten_newest_first(api, new_sandbox):
    sandbox = new_sandbox()
    for seconds in range(100, 112):
        sandbox.set_timeout(seconds)
    answer = api.get(f"/events/sandboxes/{sandbox.sandbox_id}").json()
    assert len(answer) == 10
    assert {event["type"] for event in answer} == {f"{PREFIX}updated"}
    ends = [event["eventData"]["set_timeout"] for event in answer]
    assert ends == sorted(ends, reverse=True)


def test_unknown_sandbox_has_no_events(api):
    assert events(api, "inothing0000000000000") == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=x", "offset=-1", "orderAsc=maybe", "types=nothing", "types=%zz",
     "types="],
)
def test_bad_queries(api, query):
    answer = api.get(f"/events/sandboxes?{query}")
    assert answer.status_code == 400
    assert answer.json()["code"] == 400
    assert answer.json()["message"].startswith("validation error: ")


def test_a_key_is_needed(anonymous):
    assert anonymous.get("/events/sandboxes").status_code == 401
    assert anonymous.get("/events/webhooks").status_code == 401
