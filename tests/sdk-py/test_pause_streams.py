"""Streams over a pause: a client that holds its stream notices nothing of a short pause; one that was told goes on with
`connect` where it was."""

import asyncio
import threading
import time

import pytest
from e2b import AsyncSandbox, CommandExitException, PtySize, Sandbox, SandboxException

NUMBERS = 120
COUNT = f"i=0; while [ $i -lt {NUMBERS} ]; do echo $i; i=$((i+1)); sleep 0.05; done; exit 7"
COUNT_ON = "i=0; while true; do echo $i; i=$((i+1)); sleep 0.05; done"


def numbers(text):
    return [int(line) for line in text.split("\n") if line.strip()]


def over_a_pause(api, sandbox, rest_s=0.0):
    """By another client than the one that has the stream."""
    path = f"/sandboxes/{sandbox.sandbox_id}"
    assert api.post(f"{path}/pause").status_code == 204
    time.sleep(rest_s)
    assert api.post(f"{path}/connect", json={"timeout": 300}).status_code == 201


class Reader:
    """Reads a command or a terminal in the background."""

    def __init__(self, handle):
        self.handle, self.said, self.end = handle, "", None
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for out, _, pty in self.handle:
                with self.changed:
                    self.said += out or (pty or b"").decode()
                    self.changed.notify_all()
            self.handle.wait()
        except Exception as end:
            self.end = end

    def until(self, check, what):
        with self.changed:
            assert self.changed.wait_for(lambda: check(self.said), timeout=60), f"{what}: {self.said[-200:]!r}"

    def wait(self):
        self.thread.join(timeout=120)
        assert not self.thread.is_alive()
        return self.end


def counted(n):
    return lambda said: said.count("\n") > n


# ---- the stream that was open ----


def test_every_number_comes_once(own_sandbox, api):
    reader = Reader(own_sandbox.commands.run(COUNT, background=True, timeout=0))
    for n, rest_s in ((2, 0), (20, 2)):
        reader.until(counted(n), "it counts")
        over_a_pause(api, own_sandbox, rest_s)
    end = reader.wait()
    assert isinstance(end, CommandExitException) and end.exit_code == 7, end
    assert numbers(reader.said) == list(range(NUMBERS))


def test_a_call_that_waits_for_its_command_gets_the_result(own_sandbox, api):
    results, begun = [], threading.Event()
    run = threading.Thread(
        target=lambda: results.append(
            own_sandbox.commands.run("echo begun; sleep 2; echo done; echo bad >&2", on_stdout=lambda _: begun.set())
        )
    )
    run.start()
    begun.wait()
    over_a_pause(api, own_sandbox)
    run.join()
    assert (results[0].stdout, results[0].stderr, results[0].exit_code) == ("begun\ndone\n", "bad\n", 0)


def test_its_time_pauses_it_and_a_connect_brings_it_back(new_sandbox, api):
    sandbox = new_sandbox(lifecycle={"on_timeout": "pause"})
    reader = Reader(sandbox.commands.run(COUNT, background=True, timeout=0))
    reader.until(counted(2), "it counts")
    sandbox.set_timeout(0)
    while sandbox.get_info().state != "paused":
        time.sleep(0.05)
    Sandbox.connect(sandbox.sandbox_id, timeout=300)
    assert reader.wait().exit_code == 7
    assert numbers(reader.said) == list(range(NUMBERS))


async def test_the_asynchronous_client_notices_nothing(api):
    sandbox = await AsyncSandbox.create(timeout=300)
    said = []
    try:
        handle = await sandbox.commands.run(COUNT, background=True, timeout=0, on_stdout=said.append)
        while "".join(said).count("\n") < 3:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(over_a_pause, api, sandbox, 1)
        with pytest.raises(CommandExitException) as end:
            await handle.wait()
        assert end.value.exit_code == 7
        assert numbers("".join(said)) == list(range(NUMBERS))
    finally:
        await sandbox.kill()


def test_a_terminal_goes_on(own_sandbox, api):
    terminal = own_sandbox.pty.create(PtySize(rows=30, cols=100), timeout=0)
    reader = Reader(terminal)
    own_sandbox.pty.send_stdin(terminal.pid, b"stty -echo; PS1=; echo re''ady\n")
    reader.until(lambda said: "ready" in said, "the shell")
    own_sandbox.pty.send_stdin(terminal.pid, f"({COUNT.replace('exit 7', 'echo end')})\n".encode())
    reader.until(lambda said: "\n5\r" in said, "it counts")
    over_a_pause(api, own_sandbox)
    reader.until(lambda said: "\nend\r" in said, "it counted")
    own_sandbox.pty.send_stdin(terminal.pid, b"echo still-$((40 + 2)); exit\n")
    reader.wait()
    lines = [line.strip() for line in reader.said.split("\n")]
    assert [int(line) for line in lines if line.isdigit()] == list(range(NUMBERS))
    assert "still-42" in lines


def test_input_goes_on(own_sandbox, api):
    reader = Reader(own_sandbox.commands.run("cat", background=True, stdin=True, timeout=0))
    own_sandbox.commands.send_stdin(reader.handle.pid, "before\n")
    reader.until(counted(0), "the echo")
    over_a_pause(api, own_sandbox)
    own_sandbox.commands.send_stdin(reader.handle.pid, "after\n")
    reader.until(counted(1), "the echo")
    own_sandbox.commands.close_stdin(reader.handle.pid)
    assert reader.wait() is None
    assert reader.said == "before\nafter\n"


def test_all_readers_of_a_command_come_back_together(own_sandbox, api):
    """A command that writes without a rest: nobody misses what another was given first."""
    loop = "while [ ! -e /tmp/go ]; do sleep 0.05; done; seq 0 99999"
    first = own_sandbox.commands.run(f"echo ready; {loop}", background=True, timeout=0)
    readers = [Reader(first)]
    readers[0].until(counted(0), "it runs")
    readers += [Reader(own_sandbox.commands.connect(first.pid)) for _ in range(3)]
    time.sleep(1)  # they are connected
    own_sandbox.commands.run("(sleep 0.3; touch /tmp/go) >/dev/null 2>&1 &")
    over_a_pause(api, own_sandbox)
    for reader in readers:
        assert reader.wait() is None
        assert numbers(reader.said.replace("ready\n", "")) == list(range(100000))


def test_a_command_that_ends_with_the_pause_tells_its_end(own_sandbox, api):
    for _ in range(3):
        reader = Reader(own_sandbox.commands.run("sleep 0.3; echo last; exit 3", background=True, timeout=0))
        over_a_pause(api, own_sandbox)
        assert reader.wait().exit_code == 3
        assert reader.said == "last\n"


def test_a_fork_does_not_disturb_its_source(own_sandbox, api):
    reader = Reader(own_sandbox.commands.run(COUNT, background=True, timeout=0))
    reader.until(counted(2), "it counts")
    forks = [own_sandbox.fork(timeout=300)[0]]
    try:
        over_a_pause(api, own_sandbox)
        forks.append(own_sandbox.fork(timeout=300)[0])
        assert reader.wait().exit_code == 7
        assert numbers(reader.said) == list(range(NUMBERS))
    finally:
        for fork in forks:
            fork.kill()


# ---- and where it ends ----


def test_a_kill_while_it_is_paused_ends_the_stream(own_sandbox, api):
    reader = Reader(own_sandbox.commands.run(COUNT_ON, background=True, timeout=0))
    reader.until(counted(2), "it counts")
    own_sandbox.pause()
    own_sandbox.kill()
    end = reader.wait()
    assert isinstance(end, SandboxException) and "the sandbox is being paused" in str(end), end


def test_a_sandbox_without_its_memory_has_no_such_command(own_sandbox, api):
    reader = Reader(own_sandbox.commands.run(COUNT_ON, background=True, timeout=0))
    reader.until(counted(2), "it counts")
    own_sandbox.pause(keep_memory=False)
    own_sandbox.connect()
    assert "the sandbox is being paused" in str(reader.wait())


def test_after_the_limit_a_connect_goes_on_with_the_next_byte(own_sandbox, api):
    terminal = own_sandbox.pty.create(PtySize(rows=30, cols=100), timeout=0)
    own_sandbox.pty.send_stdin(terminal.pid, f"stty -echo; PS1=; echo; {COUNT_ON}\n".encode())
    readers = [Reader(own_sandbox.commands.run(COUNT_ON, background=True, timeout=0)), Reader(terminal)]
    readers[0].until(counted(2), "it counts")
    readers[1].until(lambda said: "\n3\r" in said, "it counts")
    own_sandbox.pause()
    for reader in readers:
        assert "the sandbox is being paused" in str(reader.wait())
    own_sandbox.connect()
    again = [
        Reader(own_sandbox.commands.connect(readers[0].handle.pid)),
        Reader(own_sandbox.pty.connect(readers[1].handle.pid)),
    ]
    for before, after in zip(readers, again):
        before_n = before.said.count("\n")
        after.until(counted(20), "it counts on")
        said = (before.said + after.said).replace("\r", "")
        found = [int(line) for line in said.split("\n")[:-1] if line.isdigit()]
        assert found == list(range(len(found))) and len(found) > before_n


async def test_the_asynchronous_client_connects_again():
    sandbox = await AsyncSandbox.create(timeout=300)
    said = []
    try:
        handle = await sandbox.commands.run(COUNT_ON, background=True, timeout=0, on_stdout=said.append)
        while "".join(said).count("\n") < 3:
            await asyncio.sleep(0.05)
        await sandbox.pause()
        with pytest.raises(SandboxException, match="the sandbox is being paused"):
            await handle.wait()
        await sandbox.connect()
        before = "".join(said).count("\n")
        await sandbox.commands.connect(handle.pid, timeout=0, on_stdout=said.append)
        while "".join(said).count("\n") < before + 20:
            await asyncio.sleep(0.05)
        found = numbers("".join(said).rpartition("\n")[0])
        assert found == list(range(len(found)))
    finally:
        await sandbox.kill()


def test_a_client_that_connects_itself_gets_all_since_the_pause(own_sandbox):
    """Its first stream is still open and goes on too."""
    reader = Reader(own_sandbox.commands.run(COUNT, background=True, timeout=0))
    reader.until(counted(2), "it counts")
    own_sandbox.pause()
    time.sleep(0.5)  # what was on its way is here
    before = numbers(reader.said)
    own_sandbox.connect()
    time.sleep(0.5)
    again = Reader(own_sandbox.commands.connect(reader.handle.pid))
    assert (reader.wait().exit_code, again.wait().exit_code) == (7, 7)
    assert numbers(reader.said) == list(range(NUMBERS))
    assert numbers(again.said) == list(range(len(before), NUMBERS))
