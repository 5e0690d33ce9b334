"""The command line at a terminal: a pseudo-terminal of a given size, and everything that was written to it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

WAIT_S = 60


class Terminal:
    def __init__(self, words, env, columns=120, rows=30, cwd=None):
        self.side, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(words, stdin=other, stdout=other, stderr=other, env=env, cwd=cwd,
                                        start_new_session=True)
        os.close(other)
        self.text = ""

    def read(self, limit_s):
        """One piece of output; False at the end."""
        if not select.select([self.side], [], [], limit_s)[0]:
            return True
        try:
            piece = os.read(self.side, 65536)
        except OSError:  # the other side is closed
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)

    def until(self, text):
        end = time.monotonic() + WAIT_S
        while text not in self.text:
            assert self.read(1) and time.monotonic() < end, f"{text!r} did not come: {self.text!r}"
        return self.text

    def type(self, text):
        os.write(self.side, text.encode())

    def end(self):
        """Waits for the end, and returns the exit code."""
        end = time.monotonic() + WAIT_S
        while self.read(0.2) and self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end: {self.text!r}"
        while self.read(0) and select.select([self.side], [], [], 0)[0]:
            pass
        return self.process.wait(timeout=WAIT_S)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.side)


def shown(words, env, **options):
    """Everything that a command writes to a terminal, and its exit code."""
    terminal = Terminal(words, env, **options)
    try:
        code = terminal.end()
        return terminal.text.replace("\r\n", "\n"), code
    finally:
        terminal.close()
