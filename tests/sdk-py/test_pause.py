"""Pause, resume, snapshot and fork as the SDK and plain HTTP see them."""

import threading
import time
from uuid import uuid4

import httpx
import pytest
from conftest import SANDBOX_URL, until
from e2b import Sandbox, SandboxException, SandboxNotFoundException

EVENTS = ["created", "paused", "resumed", "snapshotted", "paused", "killed"]


def state(sandbox):
    return sandbox.get_info().state


def port(sandbox, number=8000):
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(number)}
    return httpx.get(SANDBOX_URL, headers=headers, timeout=60)


def serve(sandbox):
    """A web server on port 8000."""
    sandbox.commands.run("python3 -m http.server 8000", background=True, timeout=0)
    until(lambda: port(sandbox).status_code == 200, "the server answers")


# ---- states and answers ----


def test_what_a_paused_sandbox_answers(own_sandbox, api):
    sandbox_id = own_sandbox.sandbox_id
    before = own_sandbox.get_info()
    assert own_sandbox.pause() is True
    info = own_sandbox.get_info()
    assert info.state == "paused"
    assert info.started_at == before.started_at
    assert info.end_at < before.end_at  # the moment of the pause
    assert own_sandbox.is_running() is False
    assert own_sandbox.pause() is False
    answer = api.post(f"/sandboxes/{sandbox_id}/pause")
    assert (answer.status_code, answer.json()["code"]) == (409, 409)
    assert "is already paused" in answer.json()["message"]
    assert api.post(f"/sandboxes/{sandbox_id}/timeout", json={"timeout": 60}).status_code == 404
    assert api.post(f"/sandboxes/{sandbox_id}/refreshes", json={}).status_code == 404
    assert api.put(f"/sandboxes/{sandbox_id}/network", json={}).status_code == 409
    assert api.post(f"/sandboxes/{sandbox_id}/fork").status_code == 409
    assert api.post(f"/sandboxes/{sandbox_id}/snapshots", json={}).status_code == 409
    assert api.get(f"/sandboxes/{sandbox_id}/logs").status_code == 200
    assert api.get(f"/sandboxes/{sandbox_id}/metrics").status_code == 200
    answer = port(own_sandbox)
    assert answer.status_code == 502
    assert answer.json() == {
        "sandboxId": sandbox_id,
        "message": "The sandbox was not found: it is paused",
        "code": 502,
    }


def test_connect_and_resume_tell_what_they_did(own_sandbox, api):
    path = f"/sandboxes/{own_sandbox.sandbox_id}"
    token = own_sandbox.connection_config.sandbox_headers["X-Access-Token"]
    assert api.post(f"{path}/connect", json={"timeout": 60}).status_code == 200
    assert api.post(f"{path}/resume", json={"timeout": 60}).status_code == 409
    own_sandbox.pause()
    before = time.time()
    answer = api.post(f"{path}/resume", json={"timeout": 100})
    assert answer.status_code == 201
    assert answer.json()["envdAccessToken"] == token
    info = own_sandbox.get_info()
    assert info.started_at.timestamp() > before - 1
    assert (info.end_at - info.started_at).total_seconds() == 100
    own_sandbox.pause()
    assert api.post(f"/v2{path}/connect", json={}).status_code == 201
    info = own_sandbox.get_info()
    assert (info.end_at - info.started_at).total_seconds() == 300


@pytest.mark.parametrize(
    ["path", "body"],
    [
        ("pause", {"memory": "no"}),
        ("pause", {"memory": 1}),
        ("resume", {"timeout": -1}),
        ("resume", {"timeout": 10**9}),
        ("resume", {"autoPause": "yes"}),
        ("connect", {}),
        ("fork", {"count": 0}),
        ("fork", {"count": 101}),
        ("fork", {"count": 1.5}),
        ("fork", {"timeout": 0}),
        ("snapshots", {"name": ""}),
        ("snapshots", {"name": "no spaces"}),
        ("snapshots", {"name": "another-team/name"}),
        ("snapshots", {"name": 7}),
    ],
)
def test_bad_bodies_change_nothing(sandbox, api, path, body):
    answer = api.post(f"/sandboxes/{sandbox.sandbox_id}/{path}", json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["message"]
    assert state(sandbox) == "running"


def test_there_is_nothing_to_pause(api):
    for path in ("pause", "resume", "fork", "snapshots"):
        answer = api.post(f"/sandboxes/i{'0' * 20}/{path}", json={})
        assert answer.status_code == 404, path
        assert "doesn't exist" in answer.json()["message"]


def test_pauses_at_once_all_succeed(own_sandbox, api):
    answers = []

    def pause():
        answers.append(api.post(f"/sandboxes/{own_sandbox.sandbox_id}/pause").status_code)

    threads = [threading.Thread(target=pause) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {204, 409} and 204 in answers
    assert state(own_sandbox) == "paused"


def test_a_kill_ends_a_paused_one(own_sandbox):
    own_sandbox.pause()
    assert own_sandbox.kill() is True
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(own_sandbox.sandbox_id)


def test_lists_tell_them_apart(new_sandbox, api):
    mark = uuid4().hex
    paused, running = new_sandbox(metadata={"mark": mark}), new_sandbox(metadata={"mark": mark})
    paused.pause()

    def listed(**query):
        query = {"metadata": f"mark={mark}", **query}
        return [(row["sandboxID"], row["state"]) for row in api.get("/v2/sandboxes", params=query).json()]

    both = [(running.sandbox_id, "running"), (paused.sandbox_id, "paused")]
    assert listed() == both
    assert listed(state="paused") == both[1:]
    assert listed(state="running") == both[:1]
    assert [row["sandboxID"] for row in api.get("/sandboxes", params={"metadata": f"mark={mark}"}).json()] == [
        running.sandbox_id
    ]


def test_events_tell_the_story(own_sandbox, api):
    own_sandbox.pause()
    own_sandbox.connect()
    snapshot = own_sandbox.create_snapshot()
    own_sandbox.pause()
    own_sandbox.kill()
    Sandbox.delete_snapshot(snapshot.snapshot_id)
    events = api.get(
        f"/events/sandboxes/{own_sandbox.sandbox_id}", params={"orderAsc": "true", "limit": 100}
    ).json()
    kinds = [event["type"].rpartition(".")[2] for event in events]
    assert [kind for kind in kinds if kind != "updated"] == EVENTS
    executions = [event["sandboxExecutionId"] for event in events if not event["type"].endswith("updated")]
    assert executions[0] == executions[1] != executions[2]
    paused = next(event for event in events if event["type"].endswith("paused"))
    assert paused["eventData"]["execution"]["execution_time"] >= 0


# ---- what comes back ----


def test_without_memory_only_files_come_back(own_sandbox):
    own_sandbox.files.write("/home/user/kept", "yes")
    own_sandbox.commands.run("sleep 1000", background=True, timeout=0)
    own_sandbox.pause(keep_memory=False)
    own_sandbox.connect()
    assert own_sandbox.files.read("/home/user/kept") == "yes"
    assert own_sandbox.commands.list() == []


def test_a_cold_start_is_asked_for(own_sandbox, api):
    own_sandbox.files.write("/home/user/kept", "yes")
    own_sandbox.commands.run("sleep 1000", background=True, timeout=0)
    own_sandbox.pause()
    answer = api.post(
        f"/v2/sandboxes/{own_sandbox.sandbox_id}/connect", json={"timeout": 100, "memory": False}
    )
    assert answer.status_code == 201
    assert own_sandbox.files.read("/home/user/kept") == "yes"
    assert own_sandbox.commands.list() == []


def test_a_watch_ends_with_a_reason(own_sandbox):
    ended = []
    own_sandbox.files.make_dir("/home/user/watched")
    handle = own_sandbox.files.watch_dir("/home/user/watched")
    command = own_sandbox.commands.run("sleep 1000", background=True, timeout=0)

    def read():
        try:
            for _ in command:
                pass
        except SandboxException as end:
            ended.append(str(end))

    reading = threading.Thread(target=read)
    reading.start()
    own_sandbox.pause()
    reading.join(timeout=30)
    assert len(ended) == 1 and "the sandbox is being paused" in ended[0]
    own_sandbox.connect()
    own_sandbox.files.write("/home/user/watched/file", "new")
    until(lambda: any(event.name == "file" for event in handle.get_new_events()), "the watcher lives")


def test_the_log_goes_on(own_sandbox, api):
    def lines():
        return len(api.get(f"/sandboxes/{own_sandbox.sandbox_id}/logs").json()["logs"])

    for memory in (True, False):
        own_sandbox.commands.run("true")
        before = until(lines, "it has a log")
        own_sandbox.pause(keep_memory=memory)
        own_sandbox.connect()
        own_sandbox.commands.run("true")
        until(lambda: lines() > before, "new lines are logged")


# ---- time and traffic ----


def test_its_time_pauses_it_and_traffic_wakes_it(new_sandbox):
    sandbox = new_sandbox(
        timeout=600, lifecycle={"on_timeout": "pause", "auto_resume": True}
    )
    serve(sandbox)
    sandbox.set_timeout(0)
    until(lambda: state(sandbox) == "paused", "its time pauses it")
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(port(sandbox).status_code)) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 5
    info = sandbox.get_info()
    assert info.state == "running"
    assert (info.end_at - info.started_at).total_seconds() == 600


def test_only_who_may_enter_wakes_it(new_sandbox):
    sandbox = new_sandbox(
        timeout=600,
        network={"allow_public_traffic": False},
        lifecycle={"on_timeout": "pause", "auto_resume": True},
    )
    sandbox.pause()
    assert port(sandbox).status_code == 403
    assert state(sandbox) == "paused"
    assert sandbox.commands.run("echo awake").stdout == "awake\n"


def test_a_private_fork_has_a_token_of_its_own(new_sandbox):
    parent = new_sandbox(network={"allow_public_traffic": False})
    fork = parent.fork()[0]
    assert fork.traffic_access_token and fork.traffic_access_token != parent.traffic_access_token
    fork.kill()


# ---- snapshots ----


def test_a_snapshot_outlives_its_sandbox(new_sandbox):
    source = new_sandbox()
    source.files.write("/home/user/note", "kept")
    source.commands.run("sleep 1000", background=True, timeout=0)
    snapshot = source.create_snapshot()
    source.kill()
    copies = [new_sandbox(template=snapshot.snapshot_id) for _ in range(2)]
    for copy in copies:
        assert copy.files.read("/home/user/note") == "kept"
        assert [process.args[-1] for process in copy.commands.list()] == ["sleep 1000"]
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    assert copies[0].files.read("/home/user/note") == "kept"
    copies[0].pause()
    copies[0].connect()
    assert copies[0].files.read("/home/user/note") == "kept"
    with pytest.raises(Exception, match="not found"):
        Sandbox.create(snapshot.snapshot_id)


def test_a_snapshot_without_memory_is_a_disk_to_begin_on(new_sandbox, api):
    source = new_sandbox(envs={"GIVEN": "once"})
    source.commands.run("echo kept > /home/user/note")
    source.commands.run("sleep 1000", background=True)
    answer = api.post(f"/sandboxes/{source.sandbox_id}/snapshots", json={"memory": False})
    assert answer.status_code == 201, answer.text
    snapshot = answer.json()["snapshotID"]
    try:
        assert len(source.commands.list()) == 1  # it goes on
        copies = [new_sandbox(template=snapshot) for _ in range(2)]
        for copy in copies:
            assert copy.files.read("/home/user/note") == "kept\n"
            assert copy.commands.list() == []
        copies[0].files.write("/home/user/note", "its own")
        assert copies[1].files.read("/home/user/note") == "kept\n"
        assert copies[1].pause() is True
        assert Sandbox.connect(copies[1].sandbox_id).files.read("/home/user/note") == "kept\n"
    finally:
        Sandbox.delete_snapshot(snapshot)
    answer = api.post(f"/sandboxes/{source.sandbox_id}/snapshots", json={"memory": "no"})
    assert answer.status_code == 400


@pytest.mark.parametrize("memory, mode", [(True, "full"), (False, "filesystem")])
def test_what_a_pause_saved_is_told(own_sandbox, api, memory, mode):
    path = f"/sandboxes/{own_sandbox.sandbox_id}"
    assert "pauseMode" not in api.get(path).json()
    assert api.post(f"{path}/pause", json={"memory": memory}).status_code == 204
    assert api.get(path).json()["pauseMode"] == mode
    assert api.post(f"{path}/connect", json={"timeout": 60}).status_code == 201
    assert "pauseMode" not in api.get(path).json()


def test_a_snapshot_has_names(sandbox, new_sandbox, api):
    name = f"snap-{uuid4().hex[:12]}"
    sandbox.files.write("/home/user/which", "first")
    first = sandbox.create_snapshot(name=name)
    assert first.snapshot_id.endswith(f"{name}:default")
    sandbox.files.write("/home/user/which", "second")
    assert sandbox.create_snapshot(name=name).snapshot_id == first.snapshot_id
    try:
        for known_as in (name, f"{name}:default", first.snapshot_id):
            assert new_sandbox(template=known_as).files.read("/home/user/which") == "second"
        with pytest.raises(Exception, match="tag"):
            Sandbox.create(f"{name}:other")
        rows = api.get("/snapshots", params={"name": name}).json()
        assert [row["snapshotID"] for row in rows] == [first.snapshot_id]
        templates = api.get("/templates")
        assert templates.status_code == 200 and name not in templates.text, "a snapshot is not a template"
    finally:
        Sandbox.delete_snapshot(first.snapshot_id)


def test_snapshots_are_listed_by_pages(own_sandbox, api):
    made = [own_sandbox.create_snapshot().snapshot_id for _ in range(3)]
    query = {"sandboxID": own_sandbox.sandbox_id, "limit": 2}
    first = api.get("/snapshots", params=query)
    second = api.get("/snapshots", params={**query, "nextToken": first.headers["X-Next-Token"]})
    assert "X-Next-Token" not in second.headers
    listed = [row["snapshotID"] for row in first.json() + second.json()]
    assert listed == made[::-1]
    for snapshot_id in made:
        assert Sandbox.delete_snapshot(snapshot_id) is True
    assert api.get("/snapshots", params=query).json() == []
    for bad in ({"limit": 0}, {"limit": 101}, {"nextToken": "x"}, {"name": "a b"}):
        assert api.get("/snapshots", params=bad).status_code == 400


def test_the_built_in_template_cannot_be_deleted(api):
    assert api.delete("/templates/base").status_code == 403
    assert api.delete("/templates/nothing-of-that-name").status_code == 404
