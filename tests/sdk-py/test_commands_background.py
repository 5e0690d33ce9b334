"""Commands that outlive the call that started them: handles, connect, stdin, kill, list."""

import pytest
from e2b import CommandExitException, NotFoundException, SandboxException


@pytest.fixture
def background(sandbox):
    """`background(cmd, **options)` starts a command; it is killed when the test ends."""
    started = []

    def start(cmd, **options):
        handle = sandbox.commands.run(cmd, background=True, **options)
        started.append(handle.pid)
        return handle

    yield start
    for pid in started:
        sandbox.commands.kill(pid)


def test_wait(background):
    result = background("echo working; exit 0").wait()
    assert (result.stdout, result.exit_code) == ("working\n", 0)


def test_wait_raises_on_failure(background):
    with pytest.raises(CommandExitException) as caught:
        background("exit 3").wait()
    assert caught.value.exit_code == 3


def test_iterating_over_output(background):
    seen = [(out, err) for out, err, _ in background("echo a; echo b >&2; echo c")]
    assert "".join(out for out, _ in seen if out) == "a\nc\n"
    assert "".join(err for _, err in seen if err) == "b\n"


def test_list_shows_it_and_kill_ends_it(sandbox, background):
    handle = background("sleep 1000", envs={"A": "1"}, cwd="/tmp")
    (listed,) = [p for p in sandbox.commands.list() if p.pid == handle.pid]
    assert listed.cmd == "/bin/bash"
    assert listed.args == ["-l", "-c", "sleep 1000"]
    assert (listed.envs, listed.cwd) == ({"A": "1"}, "/tmp")

    assert handle.kill() is True
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert (caught.value.exit_code, caught.value.error) == (-1, "signal: killed")
    assert handle.pid not in [p.pid for p in sandbox.commands.list()]


def test_a_killed_process_is_reaped(sandbox, background):
    handle = background("exec sleep 1000")
    assert sandbox.commands.kill(handle.pid)
    with pytest.raises(CommandExitException):
        handle.wait()
    assert sandbox.commands.run(f"kill -0 {handle.pid} 2>/dev/null || echo gone").stdout == "gone\n"


def test_killing_what_is_not_there(sandbox):
    assert sandbox.commands.kill(999999) is False


def test_connect_to_a_running_command(sandbox, background):
    first = background("while read line; do echo got $line; done", stdin=True)
    first.disconnect()
    second = sandbox.commands.connect(first.pid)
    sandbox.commands.send_stdin(first.pid, "one\ntwo\n")
    sandbox.commands.close_stdin(first.pid)
    assert second.wait().stdout == "got one\ngot two\n"


def test_two_clients_see_the_same_output(sandbox, background):
    first = background("read line; echo $line", stdin=True)
    second = sandbox.commands.connect(first.pid)
    sandbox.commands.send_stdin(first.pid, "for both\n")
    assert first.wait().stdout == second.wait().stdout == "for both\n"


def test_connecting_to_what_is_not_there(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(999999)


def test_disconnecting_does_not_kill(sandbox, background):
    handle = background("sleep 1000")
    handle.disconnect()
    assert handle.pid in [p.pid for p in sandbox.commands.list()]


def test_stdin_until_its_end(sandbox, background):
    handle = background("wc -c", stdin=True)
    for _ in range(8):
        sandbox.commands.send_stdin(handle.pid, "x" * 65536)
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == f"{8 * 65536}\n"


def test_stdin_keeps_bytes(sandbox, background):
    handle = background("od -An -tx1", stdin=True)
    sandbox.commands.send_stdin(handle.pid, bytes([0, 255, 10, 128]))
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout.split() == ["00", "ff", "0a", "80"]


def test_stdin_of_a_command_that_has_none(sandbox, background):
    handle = background("sleep 1000", stdin=False)
    with pytest.raises(SandboxException, match="stdin"):
        sandbox.commands.send_stdin(handle.pid, "x")


def test_stdin_of_what_is_not_there(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.commands.send_stdin(999999, "x")


def test_a_daemon_left_behind_does_not_hold_the_command(sandbox):
    result = sandbox.commands.run("setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo started")
    assert result.stdout == "started\n"
    sandbox.commands.run("pkill -f '^sleep 100[0]'")
