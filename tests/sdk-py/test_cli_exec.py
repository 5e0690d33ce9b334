"""atoll exec, connect and run: a command in a sandbox behaves as one of this machine does, at pipes and at a terminal."""

import contextlib
import fcntl
import hashlib
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest
from conftest import API_URL

PROGRAM = os.path.join(os.environ.get("ATOLL_BUILD", ""), "atoll")
WAIT_S = 60


def run(*words, **options):
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    return subprocess.run([PROGRAM, *words], capture_output=True, timeout=WAIT_S, check=False, **options)


class Terminal:
    """A child at a pseudo-terminal of its own, as a person has it."""

    def __init__(self, *words, cols=100, rows=30):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(PROGRAM, [PROGRAM, *words])
        self.seen = b""
        self.status = None
        self.resize(cols, rows)

    def resize(self, cols, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.fd, text)

    def until(self, text):
        """What was written up to and with the text; it is taken."""
        deadline = time.monotonic() + WAIT_S
        while text not in self.seen:
            assert time.monotonic() < deadline, (text, self.seen)
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    piece = os.read(self.fd, 65536)
                except OSError:
                    piece = b""
                assert piece or text in self.seen, (text, self.seen)
                self.seen += piece
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def end(self):
        """The exit code, once it has ended by itself."""
        deadline = time.monotonic() + WAIT_S
        while self.status is None:
            assert time.monotonic() < deadline, self.seen
            with contextlib.suppress(OSError):
                if select.select([self.fd], [], [], 0.1)[0]:
                    self.seen += os.read(self.fd, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def modes(self):
        return termios.tcgetattr(self.fd)[3] & (termios.ECHO | termios.ICANON | termios.ISIG)

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal():
    made = []

    def make(*words, **options):
        made.append(Terminal(*words, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


# ---- pipes ----


def test_outputs_stay_apart_and_the_code_is_the_commands(sandbox):
    ended = run("exec", sandbox.sandbox_id, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (ended.stdout, ended.stderr, ended.returncode) == (b"out\n", b"err\n", 7)


@pytest.mark.parametrize(("script", "code"), [("kill -9 $$", 137), ("kill -15 $$", 143), ("kill -SEGV $$", 139), ("exit 0", 0)])
def test_signals_are_codes(sandbox, script, code):
    assert run("exec", sandbox.sandbox_id, "sh", "-c", script).returncode == code


def test_programs_that_cannot_be_started(sandbox):
    missing = run("exec", sandbox.sandbox_id, "no-such-program")
    assert missing.returncode == 127 and b"no-such-program" in missing.stderr
    assert run("exec", sandbox.sandbox_id, "/etc").returncode == 126


def test_user_directory_and_variables(sandbox):
    ended = run("exec", "-u", "root", "-w", "/tmp", "-e", "A=b c", "-e", "FROM_HERE", sandbox.sandbox_id, "sh", "-c",
                'id -un; pwd; echo "$A $FROM_HERE"', env=os.environ | {"FROM_HERE": "here"})
    assert ended.stdout == b"root\n/tmp\nb c here\n"
    assert run("exec", "-e", "NOT_SET_ANYWHERE", sandbox.sandbox_id, "true").returncode != 0


def test_words_are_the_commands_own(sandbox):
    ended = run("exec", sandbox.sandbox_id, "printf", "%s|", "-t", "--json", "a b", "", "--", "*")
    assert ended.stdout == b"-t|--json|a b||--|*|"


def test_bytes_pass_unchanged_both_ways(sandbox):
    data = os.urandom(100_000_000)
    ended = run("exec", sandbox.sandbox_id, "sha256sum", input=data)
    assert ended.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    ended = run("exec", sandbox.sandbox_id, "cat", input=data)
    assert hashlib.sha256(ended.stdout).digest() == hashlib.sha256(data).digest()
    every = bytes(range(256)) * 3
    assert run("exec", sandbox.sandbox_id, "cat", input=every).stdout == every


def test_output_comes_as_it_is_written(sandbox):
    child = subprocess.Popen([PROGRAM, "exec", sandbox.sandbox_id, "sh", "-c", "printf first; read x; echo $x"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert os.read(child.stdout.fileno(), 100) == b"first"  # no line has ended, and the command waits
    child.stdin.write(b"second\n")
    child.stdin.close()
    assert child.stdout.read() == b"second\n" and child.wait(WAIT_S) == 0


def test_input_that_nobody_reads_does_not_hang(sandbox):
    assert run("exec", sandbox.sandbox_id, "true", input=b"x" * 5_000_000).returncode == 0


def test_a_reader_that_leaves_ends_the_command(sandbox):
    child = subprocess.Popen([PROGRAM, "exec", sandbox.sandbox_id, "yes", "left-behind"], stdout=subprocess.PIPE,
                             stdin=subprocess.DEVNULL)
    assert child.stdout.read(4) == b"left"
    child.stdout.close()
    assert child.wait(WAIT_S) == 141
    assert "left-behind" not in sandbox.commands.run("ps -eo args").stdout


def test_interrupt_ends_the_command(sandbox):
    child = subprocess.Popen([PROGRAM, "exec", sandbox.sandbox_id, "sh", "-c", "echo on; exec sleep 4711"],
                             stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert child.stdout.readline() == b"on\n"
    child.send_signal(signal.SIGINT)
    assert child.wait(WAIT_S) == 130
    assert "sleep 4711" not in sandbox.commands.run("ps -eo args").stdout


def test_detached(sandbox):
    pid = run("exec", "-d", sandbox.sandbox_id, "sleep", "4712").stdout.decode().strip()
    assert "sleep 4712" in sandbox.commands.run(f"ps -o args= -p {pid}").stdout
    sandbox.commands.kill(int(pid))


def test_a_prefix_names_the_sandbox_and_an_unknown_one_does_not(sandbox):
    assert run("exec", sandbox.sandbox_id[:12], "echo", "hi").stdout == b"hi\n"
    gone = run("exec", "i" + "0" * 20, "true")
    assert gone.returncode == 3 and gone.stderr.startswith(b"atoll: ")


def test_a_killed_sandbox_is_a_sentence(own_sandbox):
    child = subprocess.Popen([PROGRAM, "exec", own_sandbox.sandbox_id, "sh", "-c", "echo on; exec sleep 1000"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert child.stdout.readline() == b"on\n"
    own_sandbox.kill()
    assert child.wait(WAIT_S) == 1
    assert b"has ended" in child.stderr.read()


def test_a_pause_is_a_sentence_and_the_command_goes_on(own_sandbox):
    child = subprocess.Popen([PROGRAM, "exec", own_sandbox.sandbox_id, "sh", "-c", "echo on; sleep 2; echo >/tmp/went-on; sleep 1000"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert child.stdout.readline() == b"on\n"
    own_sandbox.pause()
    assert child.wait(WAIT_S) == 1
    assert b"was paused" in child.stderr.read()
    assert run("exec", own_sandbox.sandbox_id, "sh", "-c", "while [ ! -e /tmp/went-on ]; do sleep 0.1; done").returncode == 0


class Relay:
    """A TCP relay to the daemon that can cut every connection at once."""

    def __init__(self):
        host, port = API_URL.removeprefix("http://").rsplit(":", 1)
        self.target = (host, int(port))
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
                self.pairs.append((near, far))
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    @staticmethod
    def pump(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
        self.cut()


def test_a_lost_connection_is_found_again(sandbox):
    relay = Relay()
    try:
        child = subprocess.Popen(
            [PROGRAM, "exec", sandbox.sandbox_id, "sh", "-c", "echo one; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo two; exit 5"],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=os.environ | {"E2B_API_URL": relay.url})
        assert child.stdout.readline() == b"one\n"
        relay.cut()
        sandbox.files.write("/tmp/go", "")
        assert child.stdout.read() == b"two\n"
        assert child.wait(WAIT_S) == 5
    finally:
        relay.close()


# ---- a terminal ----


def test_a_terminal_inside(sandbox, terminal):
    t = terminal("exec", "-it", sandbox.sandbox_id, "sh", "-c", "echo $TERM; stty size; read x; echo got-$x; exit 4")
    before = t.modes()
    assert b"30 100" in t.until(b"30 100")
    t.type(b"typed\r")
    assert b"typed" in t.until(b"got-typed")
    assert t.end() == 4
    assert t.modes() == before


def test_the_size_follows(sandbox, terminal):
    t = terminal("exec", "-it", sandbox.sandbox_id, "bash", "-c",
                 "trap 'stty size' WINCH; echo ready; for i in $(seq 600); do sleep 0.1; done")
    t.until(b"ready")
    t.resize(77, 21)
    os.kill(t.pid, signal.SIGWINCH)
    assert b"21 77" in t.until(b"21 77")
    t.type(b"\x03")
    assert t.end() == 130


def test_ctrl_c_goes_inside(sandbox, terminal):
    t = terminal("exec", "-it", sandbox.sandbox_id, "bash", "--norc")
    t.type(b"sh -c 'echo slee''ping; exec sleep 1000'\r")
    t.until(b"sleeping")
    t.type(b"\x03")
    t.until(b"^C")
    t.type(b"echo co''de-$?\r")
    t.until(b"code-130")
    t.type(b"exit 9\r")
    assert t.end() == 9


def test_the_terminal_is_put_back_when_the_sandbox_is_killed(own_sandbox, terminal):
    t = terminal("exec", "-it", own_sandbox.sandbox_id, "sh", "-c", "echo on; sleep 1000")
    before = t.modes()
    t.until(b"on\r\n")
    assert t.modes() != before
    own_sandbox.kill()
    assert t.end() == 1 and t.modes() == before


def test_the_terminal_is_put_back_after_sigterm(sandbox, terminal):
    t = terminal("exec", "-it", sandbox.sandbox_id, "sh", "-c", "echo on; exec sleep 4713")
    before = t.modes()
    t.until(b"on\r\n")
    os.kill(t.pid, signal.SIGTERM)
    assert t.end() == 143 and t.modes() == before
    assert "sleep 4713" not in sandbox.commands.run("ps -eo args").stdout


def test_connect_resumes_and_says_how_to_leave(own_sandbox, terminal):
    own_sandbox.pause()
    t = terminal("connect", own_sandbox.sandbox_id)
    t.until(b"Resumed")
    t.until(b"exit")
    t.type(b"shopt -q login_shell && echo lo''gin; tty; exit 3\r")
    assert b"/dev/pts" in t.until(b"/dev/pts")
    assert t.end() == 3
    assert own_sandbox.is_running()


def test_connect_reads_a_pipe(sandbox):
    assert run("connect", sandbox.sandbox_id, input=b"echo from a pipe\nexit 6\n").stdout == b"from a pipe\n"


def test_tty_needs_a_terminal(sandbox):
    refused = run("exec", "-t", sandbox.sandbox_id, "true")
    assert refused.returncode != 0 and b"not a terminal" in refused.stderr


# ---- run ----


def ids(api):
    return {row["sandboxID"] for row in api.get("/v2/sandboxes").json()}


def test_run_leaves_nothing(api):
    before = ids(api)
    ended = run("run", "sh", "-c", "echo $A; exit 5", stdin=subprocess.DEVNULL)
    assert ended.returncode == 5
    assert run("run", "-e", "A=b", "sh", "-c", "echo $A").stdout == b"b\n"
    assert run("run", "no-such-program").returncode == 127
    assert run("run", "--template", "no-such-template", "true").returncode == 3
    assert ids(api) == before


def test_run_keeps_on_demand(api):
    ended = run("run", "--keep", "-q", "--timeout", "5m", "sh", "-c", "echo x >/tmp/x")
    kept = ended.stdout.decode().strip()
    try:
        assert run("exec", kept, "cat", "/tmp/x").stdout == b"x\n"
    finally:
        assert api.delete(f"/sandboxes/{kept}").status_code == 204


def test_json_is_the_last_line_of_stderr(api, sandbox):
    """stdout and the rest of stderr are the command's."""
    ended = run("exec", "--json", sandbox.sandbox_id, "sh", "-c", "echo out; echo aside >&2; exit 5")
    assert (ended.returncode, ended.stdout) == (5, b"out\n")
    aside, line = ended.stderr.decode().splitlines()
    assert aside == "aside" and json.loads(line) == {"sandboxID": sandbox.sandbox_id, "exitCode": 5}
    before = ids(api)
    ended = run("run", "--json", "--keep", "--timeout", "5m", "sh", "-c", "echo out; exit 6")
    (kept,) = ids(api) - before
    assert api.delete(f"/sandboxes/{kept}").status_code == 204
    assert (ended.returncode, ended.stdout) == (6, b"out\n")
    assert json.loads(ended.stderr) == {"sandboxID": kept, "exitCode": 6}
    ended = run("run", "--json", "no-such-program")
    assert ended.returncode == 127 and json.loads(ended.stderr.splitlines()[-1])["exitCode"] == 127
    assert run("run", "--json", "--template", "no-such-template", "true").stderr.count(b"\n") == 1
    assert ids(api) == before


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_run_kills_on_a_signal(api, sig):
    before = ids(api)
    child = subprocess.Popen([PROGRAM, "run", "sh", "-c", "echo on; exec sleep 1000"], stdout=subprocess.PIPE,
                             stdin=subprocess.DEVNULL)
    assert child.stdout.readline() == b"on\n"
    assert len(ids(api) - before) == 1
    child.send_signal(sig)
    assert child.wait(WAIT_S) == 128 + sig
    assert ids(api) == before


def test_run_takes_scripts(tmp_path):
    script = tmp_path / "job with space.py"
    script.write_text("import sys; print(sys.argv[1:], sys.stdin.read())")
    assert run("run", "--file", str(script), "a", "--b", input=b"in").stdout == b"['a', '--b'] in\n"
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\necho mine $1\n")
    own.chmod(0o755)
    assert run("run", "--file", str(own), "x").stdout == b"mine x\n"
    assert run("run", input=b"echo from stdin; exit 8").returncode == 8


def test_run_mounts_volumes(api):
    name = f"cli-{os.getpid()}"
    assert run("volume", "create", name).returncode == 0
    try:
        assert run("run", "-v", f"{name}:/data", "sh", "-c", "echo kept >/data/f").returncode == 0
        assert run("cp", f"vol:{name}/f", "-").stdout == b"kept\n"
    finally:
        assert run("volume", "rm", name).returncode == 0
