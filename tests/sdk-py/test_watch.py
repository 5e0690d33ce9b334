"""Watches: what happens in a directory is told, in its order, once. And files made from parts."""

import asyncio

import pytest
import web
from e2b import (
    AsyncSandbox,
    FileNotFoundException,
    InvalidArgumentException,
    SandboxException,
)


@pytest.fixture
def folder(sandbox, request):
    """An empty directory of the test's own."""
    path = f"/home/user/{request.node.name.split('[')[0]}"
    sandbox.files.make_dir(path)
    yield path
    sandbox.files.remove(path)


def lines(events):
    return [f"{event.type.value} {event.name}" for event in events]


def test_a_write_is_three_events(sandbox, folder):
    watch = sandbox.files.watch_dir(folder)
    sandbox.files.write(f"{folder}/a", "text")
    assert lines(watch.get_new_events()) == ["create a", "chmod a", "write a"]
    sandbox.files.write(f"{folder}/a", "other")
    assert lines(watch.get_new_events()) == ["chmod a", "write a"]
    assert watch.get_new_events() == []
    watch.stop()


def test_events_are_there_when_asked_for(sandbox, folder):
    """No event is left for the next call, however soon the call comes."""
    watch = sandbox.files.watch_dir(folder)
    for i in range(50):
        sandbox.files.make_dir(f"{folder}/{i}")
        assert lines(watch.get_new_events())[0] == f"create {i}"
    watch.stop()


def test_new_directories_are_followed(sandbox, folder):
    watch = sandbox.files.watch_dir(folder, recursive=True)
    sandbox.files.write(f"{folder}/a/b/c", "text")
    told = lines(watch.get_new_events())
    assert [told.count(line) for line in ("create a", "create a/b", "create a/b/c")] == [1, 1, 1]
    assert "write a/b/c" in told
    sandbox.files.rename(f"{folder}/a", f"{folder}/z")
    sandbox.files.write(f"{folder}/z/b/d", "text")
    told = lines(watch.get_new_events())
    assert told[:2] == ["rename a", "create z"]
    assert told.count("create z/b/d") == 1
    assert "create z/b/c" not in told  # it was told of under its first name
    watch.stop()


def test_a_stopped_watch_is_gone(sandbox, folder):
    watch = sandbox.files.watch_dir(folder)
    watch.stop()
    with pytest.raises(SandboxException):
        watch.get_new_events()


def test_a_directory_that_goes(sandbox):
    sandbox.files.make_dir("going")
    watch = sandbox.files.watch_dir("going")
    sandbox.files.remove("going")
    assert lines(watch.get_new_events()) == ["remove ."]
    with pytest.raises(SandboxException, match="not there any more"):
        watch.get_new_events()
    watch.stop()


def test_what_cannot_be_watched(sandbox, folder):
    with pytest.raises(FileNotFoundException):
        sandbox.files.watch_dir(f"{folder}/missing")
    sandbox.files.write(f"{folder}/file", "")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.watch_dir(f"{folder}/file")


def test_a_thousand_watches(sandbox, folder):
    sandbox.commands.run(f"cd {folder} && mkdir $(seq 1000)")
    watches = [sandbox.files.watch_dir(f"{folder}/{i}") for i in range(1, 1001)]
    sandbox.commands.run(f"cd {folder} && for i in $(seq 1000); do mkdir $i/d; done")
    assert all(lines(watch.get_new_events()) == ["create d"] for watch in watches)
    for watch in watches:
        watch.stop()


def test_an_upload_is_one_file_from_its_first_event(sandbox, folder):
    """The temporary file of an upload is never told of, nor seen in a listing."""
    watch = sandbox.files.watch_dir(folder)
    sandbox.files.write(f"{folder}/big", b"x" * (8 << 20))
    assert {event.name for event in watch.get_new_events()} == {"big"}
    watch.stop()


async def test_streams():
    sandbox = await AsyncSandbox.create(timeout=120)
    try:
        await sandbox.files.make_dir("watched")
        told, ended = asyncio.Queue(), asyncio.Queue()
        watch = await sandbox.files.watch_dir(
            "watched", on_event=told.put, on_exit=ended.put, recursive=True, include_entry=True
        )
        await sandbox.files.write("watched/a/b", "text")
        seen = []
        while "write a/b" not in seen:
            event = await told.get()
            seen.append(f"{event.type.value} {event.name}")
        assert seen.count("create a/b") == 1
        assert event.entry.path == "/home/user/watched/a/b"
        await watch.stop()
        assert await ended.get() is None
    finally:
        await sandbox.kill()


def test_parts_become_one_file(sandbox, folder):
    for i, text in enumerate(["one ", "two ", "three"]):
        sandbox.files.write(f"{folder}/{i}", text)
    body = {
        "source_paths": [f"{folder}/{i}" for i in range(3)],
        "destination": f"{folder}/new/all",
        "username": "user",
    }
    with web.agent(sandbox) as agent:
        reply = agent.post("/files/compose", json=body)
        again = agent.post("/files/compose", json=body)
    assert (reply.status_code, reply.json()) == (
        200,
        {"name": "all", "path": f"{folder}/new/all", "type": "file"},
    )
    assert sandbox.files.read(f"{folder}/new/all") == "one two three"
    assert sandbox.files.get_info(f"{folder}/new/all").owner == "user"
    assert [entry.name for entry in sandbox.files.list(folder)] == ["new"]
    assert again.status_code == 404
    assert again.json()["message"] == f"source file not found: {folder}/0"
