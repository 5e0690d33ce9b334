"""The lines of the guides that people bring, as they are written there, through the official SDK."""

import httpx
import pytest
from conftest import API_KEY, API_URL
from e2b import NotFoundException, Sandbox, SandboxQuery, SandboxState
from test_metrics import until


def test_a_sandbox_lives_five_minutes_unless_it_is_told_otherwise():
    with Sandbox.create() as sandbox:
        info = sandbox.get_info()
        assert 295 <= (info.end_at - info.started_at).total_seconds() <= 301
        sandbox.set_timeout(30)
        assert sandbox.get_info().end_at < info.end_at
    with pytest.raises(NotFoundException):
        Sandbox.connect(sandbox.sandbox_id)  # the context manager has ended it


def test_info_has_what_the_guide_names(new_sandbox):
    sandbox = new_sandbox(metadata={"userId": "123", "env": "dev"}, envs={"API_KEY": "secret_value"}, timeout=60)
    info = sandbox.get_info()
    assert (info.sandbox_id, info.metadata) == (sandbox.sandbox_id, {"userId": "123", "env": "dev"})
    assert info.template_id and info.name and info.started_at < info.end_at
    assert sandbox.commands.run("echo $API_KEY").stdout == "secret_value\n"


def test_sandboxes_are_found_by_state_and_metadata_page_by_page(new_sandbox):
    mine = {"guide": "pages"}
    made = {new_sandbox(metadata=mine).sandbox_id for _ in range(3)}
    paused = new_sandbox(metadata=mine)
    paused.beta_pause()
    paginator = Sandbox.list(query=SandboxQuery(metadata=mine), limit=2)
    found = []
    while paginator.has_next:
        found += paginator.next_items()
    assert {one.sandbox_id for one in found} == made | {paused.sandbox_id}
    only = Sandbox.list(query=SandboxQuery(metadata=mine, state=[SandboxState.PAUSED])).next_items()
    assert [one.sandbox_id for one in only] == [paused.sandbox_id]
    assert Sandbox.connect(only[0].sandbox_id).commands.run("echo resumed").stdout == "resumed\n"
    assert paused.connect().sandbox_id == paused.sandbox_id


def test_metrics_are_had_by_id(own_sandbox):
    [first, *_] = until(lambda: Sandbox.get_metrics(own_sandbox.sandbox_id), "there are metrics")
    for figure in (first.cpu_count, first.mem_used, first.mem_total, first.disk_used, first.disk_total):
        assert figure > 0
    assert 0 <= first.cpu_used_pct <= 100 and first.timestamp


def test_events_are_asked_for_over_http(new_sandbox):
    sandbox = new_sandbox()
    sandbox.set_timeout(200)
    sandbox.beta_pause()
    sandbox.connect()
    sandbox.kill()
    key = {"X-API-Key": API_KEY}
    of_one = httpx.get(f"{API_URL}/events/sandboxes/{sandbox.sandbox_id}", headers=key).json()
    names = {event["type"].removeprefix("sandbox.lifecycle.") for event in of_one}
    assert {"created", "updated", "paused", "resumed", "killed"} <= names
    assert len(httpx.get(f"{API_URL}/events/sandboxes?limit=10", headers=key).json()) <= 10


def test_commands_stream_and_run_in_the_background(own_sandbox):
    lines, errors = [], []
    own_sandbox.commands.run("for i in {1..3}; do echo Line $i; done; echo bad >&2", on_stdout=lines.append, on_stderr=errors.append)
    assert "".join(lines) == "Line 1\nLine 2\nLine 3\n" and "".join(errors) == "bad\n"
    command = own_sandbox.commands.run("echo hello; sleep 1000; echo world", background=True)
    assert command.kill()
    assert own_sandbox.commands.run("echo $MY_VAR", envs={"MY_VAR": "123"}).stdout == "123\n"


def test_files_go_up_and_come_down(own_sandbox):
    info = own_sandbox.files.write("/home/user/data.csv", "a,b\n1,2\n")
    assert info.path == "/home/user/data.csv" and own_sandbox.files.read(info.path) == "a,b\n1,2\n"
    assert "home" in {entry.name for entry in own_sandbox.files.list("/")}


def test_a_sandbox_is_killed_by_its_id(new_sandbox):
    sandbox = new_sandbox()
    assert Sandbox.kill(sandbox.sandbox_id) is True
    with pytest.raises(NotFoundException):
        Sandbox.connect(sandbox.sandbox_id)
