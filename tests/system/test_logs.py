"""The log of a sandbox outlives the daemon: no line that its agent held is lost."""

import httpx
import pytest
from daemon import running, until
from e2b import Sandbox


def messages(daemon, sandbox, search):
    answer = httpx.get(
        f"{daemon.url}/v2/sandboxes/{sandbox.sandbox_id}/logs",
        params={"search": search},
        headers={"X-API-Key": daemon.key},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["logs"]


def commands(daemon, sandbox):
    return [entry["fields"]["command"].rsplit(" ", 1)[-1] for entry in messages(daemon, sandbox, "started")]


WAYS = {
    "server": lambda daemon: daemon.kill_child("server"),
    "all": lambda daemon: (daemon.kill(), daemon.start()),
    "orderly": lambda daemon: (daemon.stop(), daemon.start()),
}


@pytest.mark.parametrize("way", WAYS)
def test_lines_go_on_after_a_restart(daemon, way):
    """What happened before, while nobody listened, and after: each is told once, in order."""
    sandbox = Sandbox.create(timeout=300, **daemon.sdk)
    sandbox.commands.run("echo before-1")
    running = sandbox.commands.run("sleep 0.3; echo between-2", background=True)
    WAYS[way](daemon)
    again = Sandbox.connect(sandbox.sandbox_id, **daemon.sdk)
    again.commands.run("echo after-3")
    ended = f"Process {running.pid} ended"
    until(lambda: messages(daemon, sandbox, ended), "the end is on record")
    until(lambda: commands(daemon, sandbox)[-1:] == ["after-3"], "the new line is on record")
    assert commands(daemon, sandbox) == ["before-1", "between-2", "after-3"]
    assert len(messages(daemon, sandbox, ended)) == 1
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)
