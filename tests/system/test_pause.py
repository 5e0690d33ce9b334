"""A paused sandbox is all there again when it is resumed, also by another daemon; forks are copies of
it. ATOLL_PAUSE_CYCLES says how often it is paused in a row (default 5)."""

import os
import re
import signal
import subprocess
import threading

import httpx
import pytest
from daemon import PROGRAM, until
from e2b import Sandbox, SandboxException
from inhabited import Inhabited

CYCLES = int(os.environ.get("ATOLL_PAUSE_CYCLES", "5"))
FORKS = 10
LINES = 20000


@pytest.fixture(scope="module")
def api(daemon):
    """Plain HTTP; the port may be another after a restart."""

    def call(method, path, **options):
        return httpx.request(
            method, daemon.url + path, headers={"X-API-Key": daemon.key}, timeout=120, **options
        )

    return call


@pytest.fixture
def inhabited(daemon):
    sandbox = Sandbox.create(timeout=1200, **daemon.sdk)
    yield Inhabited(sandbox, daemon.url)
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def again(daemon, inhabited):
    """The same sandbox, after a resume."""
    sandbox = Sandbox.connect(inhabited.sandbox.sandbox_id, timeout=1200, **daemon.sdk)
    return Inhabited(sandbox, daemon.url, like=inhabited)


def saved(daemon):
    return sorted(path.name for path in (daemon.data / "pool" / "saved").glob("saved-*"))


def test_all_of_it_is_there_after_a_restart(daemon, inhabited):
    assert inhabited.sandbox.pause()
    daemon.kill()
    daemon.start()
    info = Sandbox.get_info(inhabited.sandbox.sandbox_id, **daemon.sdk)
    assert info.state == "paused"
    resumed = again(daemon, inhabited)
    resumed.check()
    resumed.tell("second")
    for _ in range(CYCLES):
        assert resumed.sandbox.pause()
        resumed = again(daemon, resumed)
        resumed.check()
    until(lambda: not saved(daemon), "nothing of the pauses is left")


def test_forks_go_ways_of_their_own(daemon, inhabited):
    forks = inhabited.sandbox.fork(count=FORKS, timeout=600)
    assert all(isinstance(fork, Sandbox) for fork in forks), forks
    try:
        ids = {fork.sandbox_id for fork in forks} | {inhabited.sandbox.sandbox_id}
        assert len(ids) == FORKS + 1
        for number, fork in enumerate(forks):
            copy = Inhabited(fork, daemon.url, like=inhabited)
            copy.check()
            copy.tell(f"fork{number}")
            fork.files.write("/home/user/mine", str(number))
        assert [fork.files.read("/home/user/mine") for fork in forks] == [str(n) for n in range(FORKS)]
        assert not inhabited.sandbox.files.exists("/home/user/mine")
        inhabited.check()
        until(lambda: not saved(daemon), "what the forks started from is gone")
    finally:
        for fork in forks:
            fork.kill()


def test_who_a_fork_is(daemon):
    parent = Sandbox.create(timeout=600, envs={"OWN": "parent's"}, **daemon.sdk)
    fork = parent.fork(timeout=600)[0]
    try:
        say = "hostname; echo $E2B_SANDBOX_ID $OWN; cat /proc/sys/kernel/random/uuid"
        one, other = parent.commands.run(say).stdout.split(), fork.commands.run(say).stdout.split()
        assert one[:3] == [parent.sandbox_id, parent.sandbox_id, "parent's"]
        assert other[:3] == [fork.sandbox_id, fork.sandbox_id, "parent's"]
        assert one[3] != other[3]
        headers = {"E2b-Sandbox-Id": fork.sandbox_id, "E2b-Sandbox-Port": "49983"}
        token = parent.connection_config.sandbox_headers["X-Access-Token"]
        stranger = httpx.get(f"{daemon.url}/envs", headers={**headers, "X-Access-Token": token})
        assert stranger.status_code == 401, "the parent's token opens the fork"
    finally:
        fork.kill()
        parent.kill()


def numbers(text):
    return [int(line) for line in text.split("\n") if line]


def test_no_byte_of_a_stream_is_lost(daemon):
    """A command's output is read across pauses: each stream ends with a reason, the next goes on."""
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    loop = f"i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i+1)); done; sleep 1; echo $i"
    command = sandbox.commands.run(loop, background=True, timeout=0)
    pid, said, ends = command.pid, [], 0
    try:
        while True:
            threading.Timer(0.2, lambda: sandbox.pause() if ends < 3 else None).start()
            try:
                for out, _, _ in command:
                    said.append(out or "")
                break
            except SandboxException as end:
                assert "the sandbox is being paused" in str(end)
                ends += 1
            until(lambda: sandbox.get_info().state == "paused", "it is paused")
            sandbox = Sandbox.connect(sandbox.sandbox_id, timeout=600, **daemon.sdk)
            command = sandbox.commands.connect(pid)
        assert ends == 3
        assert numbers("".join(said)) == list(range(LINES + 1))
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def test_streams_stay_open_while_it_is_copied(daemon):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    loop = "i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); sleep 0.01; done"
    command = sandbox.commands.run(loop, background=True, timeout=0)
    said, copies = [], []

    def copy():
        copies.append(sandbox.create_snapshot())
        copies.append(sandbox.fork(count=2)[0])

    copying = threading.Thread(target=copy)
    copying.start()
    try:
        for out, _, _ in command:
            said.append(out or "")
        copying.join()
        assert len(copies) == 2
        assert numbers("".join(said)) == list(range(300))
    finally:
        Sandbox.delete_snapshot(copies[0].snapshot_id, **daemon.sdk)
        sandbox.kill()


# Answers one request and never ends the answer; talks to itself; tells how either connection ended.
SERVER = """
import socket
outer, inner = socket.create_server(("0.0.0.0", 7000)), socket.create_server(("127.0.0.1", 7001))
one = socket.create_connection(("127.0.0.1", 7001))
other, _ = inner.accept()
print("listens", flush=True)
asked, _ = outer.accept()
while not asked.recv(4096).endswith(bytes([13, 10, 13, 10])):
    pass
asked.sendall(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n1\\r\\nx\\r\\n")
try:
    said = asked.recv(1)
except OSError as error:
    said = type(error).__name__
one.sendall(b"alive")
open("/home/user/ended", "w").write(f"{said} {other.recv(5)}")
"""


def test_connections_from_outside_end_in_a_copy_alone(daemon):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    try:
        sandbox.files.write("/home/user/server.py", SERVER)
        command = sandbox.commands.run("python3 server.py", background=True, timeout=0)
        assert next(out for out, _, _ in command if out) == "listens\n"
        command.disconnect()
        headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "7000"}
        with httpx.stream("GET", daemon.url, headers=headers, timeout=60) as answer:
            answered = answer.iter_bytes()  # held: the stream ends with it
            assert next(answered) == b"x"
            fork = sandbox.fork(timeout=600)[0]
            until(lambda: fork.files.exists("/home/user/ended"), "the fork's end has ended")
            assert fork.files.read("/home/user/ended") == "ConnectionResetError b'alive'"
            assert not sandbox.files.exists("/home/user/ended")
            fork.kill()
    finally:
        sandbox.kill()


# Holds a POSIX message queue, which lives on a mount of the kernel's own.
QUEUE = """
import ctypes, os, time
assert ctypes.CDLL(None).mq_open(b"/queue", os.O_CREAT | os.O_RDWR, 0o600, None) >= 0
print("held", flush=True)
while True:
    time.sleep(0.1)
    print("still", flush=True)
"""


def test_what_cannot_be_saved_is_named_and_runs_on(daemon, api):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    try:
        sandbox.files.write("/home/user/queue.py", QUEUE)
        command = sandbox.commands.run("python3 queue.py", background=True, timeout=0)
        said = (out for out, _, _ in command if out)
        assert next(said) == "held\n"

        answer = api("POST", f"/sandboxes/{sandbox.sandbox_id}/pause")
        assert answer.status_code == 422
        for word in ("python3", "/queue", "memory: false"):
            assert word in answer.json()["message"]
        assert sandbox.get_info().state == "running"
        assert [next(said).count("still") > 0 for _ in range(5)] == [True] * 5  # no end of the stream
        command.disconnect()
        failed = api("POST", f"/sandboxes/{sandbox.sandbox_id}/fork")
        assert failed.status_code == 422 and "/queue" in failed.json()["message"]

        answer = api("POST", f"/sandboxes/{sandbox.sandbox_id}/pause", json={"memory": False})
        assert answer.status_code == 204
        assert sandbox.connect().files.read("/home/user/queue.py") == QUEUE
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def test_the_story_tells_what_an_automatic_pause_did_not_keep(daemon):
    sandbox = Sandbox.create(timeout=600, lifecycle={"on_timeout": "pause"}, **daemon.sdk)
    try:
        sandbox.files.write("/home/user/queue.py", QUEUE)
        command = sandbox.commands.run("python3 queue.py", background=True, timeout=0)
        assert next(out for out, _, _ in command if out) == "held\n"
        command.disconnect()
        sandbox.set_timeout(0)

        def story():
            words = [PROGRAM, "doctor", sandbox.sandbox_id, "--data", str(daemon.data)]
            told = subprocess.run(words, capture_output=True, text=True).stdout.splitlines()
            return [line for line in told if "was paused" in line]

        [line] = until(story, "its time is up")
        assert "the sandbox was paused without its memory: " in line and "/queue" in line
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def test_a_paused_one_takes_nothing_but_disk(daemon, api):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    sandbox.pause()
    until(lambda: sandbox.sandbox_id not in daemon.sandbox_dirs(), "its own disk is gone")
    assert sandbox.sandbox_id not in daemon.jails()
    assert [name for name in saved(daemon) if sandbox.sandbox_id in name]
    figures = daemon.figures()
    assert figures['atoll_sandboxes{state="paused"}'] == 1
    said = [figures[f'atoll_saved_{what}_bytes{{of="paused"}}'] for what in ("memory", "disk")]
    assert all(bytes > 0 for bytes in said)
    row = api("GET", f"/sandboxes/{sandbox.sandbox_id}").json()
    assert row["diskUsedBytes"] == sum(said)
    words = [PROGRAM, "disk", "--data", str(daemon.data)]
    table = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert re.search(rf"\d+\.\d MB  paused sandbox  {sandbox.sandbox_id}", table), table
    assert api("DELETE", f"/sandboxes/{sandbox.sandbox_id}").status_code == 204
    until(lambda: not saved(daemon), "what was saved is gone")


# ---- an agent that does not answer ----


@pytest.fixture
def silent(daemon):
    """A sandbox whose agent stands still, and nothing else in it."""
    sandbox = Sandbox.create(timeout=1200, **daemon.sdk)
    sandbox.commands.run("echo kept > /home/user/note; sync")
    agent = daemon.jails()[sandbox.sandbox_id]
    os.kill(agent, signal.SIGSTOP)
    yield sandbox.sandbox_id
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


@pytest.mark.parametrize("body", [{"requireHealthyGuest": True}, {"memory": False}])
def test_a_pause_that_needs_an_answer_of_the_agent_is_refused(daemon, api, silent, body):
    answer = api("POST", f"/sandboxes/{silent}/pause", json=body)
    assert answer.status_code == 503 and "does not answer" in answer.json()["message"], answer.text
    assert answer.headers.get("Should-Retry") == "false" and "Retry-After" not in answer.headers
    info = api("GET", f"/sandboxes/{silent}").json()
    assert info["state"] == "running" and "pauseMode" not in info
    os.kill(daemon.jails()[silent], signal.SIGCONT)
    until(lambda: api("POST", f"/sandboxes/{silent}/pause", json=body).status_code == 204, "it is paused")
    info = api("GET", f"/sandboxes/{silent}").json()
    assert "envdUnresponsiveAtPause" not in info
    assert info["pauseMode"] == ("full" if body.get("memory", True) else "filesystem")


def test_a_pause_without_an_answer_of_the_agent_is_resumed_without_memory_alone(daemon, api, silent):
    assert api("POST", f"/sandboxes/{silent}/pause").status_code == 204
    info = api("GET", f"/sandboxes/{silent}").json()
    assert (info["state"], info["envdUnresponsiveAtPause"]) == ("paused", True)
    rows = api("GET", "/v2/sandboxes", params={"state": "paused"}).json()
    assert [row["envdUnresponsiveAtPause"] for row in rows if row["sandboxID"] == silent] == [True]
    for path in (f"/sandboxes/{silent}/connect", f"/v2/sandboxes/{silent}/connect", f"/sandboxes/{silent}/resume"):
        refused = api("POST", path, json={"timeout": 60})
        assert refused.status_code == 409, refused.text
        assert refused.json()["error_code"] == "sandbox_snapshot_guest_agent_unresponsive"
    back = api("POST", f"/v2/sandboxes/{silent}/connect", json={"timeout": 60, "memory": False})
    assert back.status_code == 201, back.text
    assert "envdUnresponsiveAtPause" not in api("GET", f"/sandboxes/{silent}").json()
    assert Sandbox.connect(silent, **daemon.sdk).files.read("/home/user/note") == "kept\n"
    assert api("POST", f"/sandboxes/{silent}/pause").status_code == 204
    assert "envdUnresponsiveAtPause" not in api("GET", f"/sandboxes/{silent}").json()
