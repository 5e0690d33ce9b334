"""Terminals as a person uses them: size, job control, full-screen programs, a big paste."""
import hashlib
import random
import threading

import pytest
from e2b import PtySize

PASTE_BYTES = 1024 * 1024
CHUNK_BYTES = 32 * 1024


class Terminal:
    """A terminal whose output is read in the background; until() waits for a text in it."""

    def __init__(self, sandbox, rows=30, cols=100):
        self.sandbox = sandbox
        self.handle = sandbox.pty.create(PtySize(rows=rows, cols=cols), timeout=120)
        self.output = b""
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for _, _, data in self.handle:
                with self.changed:
                    self.output += data or b""
                    self.changed.notify_all()
        except Exception:
            pass  # killed at the end of the test

    def type(self, text):
        self.sandbox.pty.send_stdin(self.handle.pid, text if isinstance(text, bytes) else text.encode())

    def until(self, text):
        with self.changed:
            found = self.changed.wait_for(lambda: text.encode() in self.output, timeout=60)
        assert found, f"{text!r} did not come; the end was {self.output[-300:]!r}"


@pytest.fixture
def terminal(sandbox):
    terminal = Terminal(sandbox)
    yield terminal
    sandbox.pty.kill(terminal.handle.pid)


def test_programs_see_the_size_and_its_change(terminal, sandbox):
    terminal.type("stty size\n")
    terminal.until("30 100")
    sandbox.pty.resize(terminal.handle.pid, PtySize(rows=50, cols=132))
    terminal.type("stty size\n")
    terminal.until("50 132")


def test_control_c_ends_the_job_and_not_the_shell(terminal):
    terminal.type("sh -c 'echo go-$((1 + 1)); exec sleep 1000'\n")
    terminal.until("go-2")
    terminal.type("\x03")
    terminal.type("echo still-$((40 + 2))\n")
    terminal.until("still-42")


def test_jobs_can_be_stopped_and_continued(terminal):
    terminal.type("sh -c 'echo go-$((1 + 1)); exec sleep 1000'\n")
    terminal.until("go-2")
    terminal.type("\x1a")
    terminal.until("Stopped")
    terminal.type("jobs; kill %1; echo over-$((1 + 1))\n")
    terminal.until("over-2")


def test_full_screen_programs_draw(terminal, sandbox):
    terminal.type("top -n 1; echo top-$?\n")
    terminal.until("COMMAND")
    terminal.until("top-0")
    terminal.type("vi -u NONE /tmp/written.txt\n")
    terminal.until("~")
    terminal.type("ihello from vi\x1b:wq\n")
    terminal.until("1 line, 14 bytes written")
    terminal.until("\x1b[?1049l")  # vi has left its screen
    assert sandbox.files.read("/tmp/written.txt") == "hello from vi\n"


def test_a_megabyte_is_pasted_without_loss(terminal):
    paste = bytes(random.Random(7).choices(b"abcdefghijklmnopqrstuvwxyz0123456789 ", k=PASTE_BYTES))
    terminal.type(f"stty raw -echo; echo ready; head -c {PASTE_BYTES} | sha256sum; stty sane\n")
    terminal.until("ready\n")
    for at in range(0, PASTE_BYTES, CHUNK_BYTES):
        terminal.type(paste[at:at + CHUNK_BYTES])
    terminal.until(hashlib.sha256(paste).hexdigest())
