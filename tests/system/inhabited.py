"""A sandbox with a life in it: processes that hold memory, files, sockets, timers, a terminal and a
watch, each with a state that can be asked for."""

import hashlib
import json

import httpx
from daemon import until
from e2b import PtySize

HOLDS_MB = 200
PORT = 8000

# Holds memory whose content follows from a seed, and tells its checksum for every line it reads.
HOLDER = f"""
import hashlib, random, sys
held = bytearray(random.Random(7).randbytes(1 << 20) * {HOLDS_MB})
for line in sys.stdin:
    held[:8] = line.strip().encode().ljust(8)
    print(line.strip(), hashlib.sha256(held).hexdigest(), flush=True)
"""

# Counts requests, ticks of a timer and changes of a directory.
SERVER = f"""
const http = require('http'), fs = require('fs')
let requests = 0, ticks = 0, changes = 0
setInterval(() => ticks++, 10)
fs.mkdirSync('/home/user/watched', {{ recursive: true }})
fs.watch('/home/user/watched', () => changes++)
http.createServer((request, answer) => {{
  requests++
  answer.end(JSON.stringify({{ requests, ticks, changes }}))
}}).listen({PORT}, '127.0.0.1')
"""

# Writes a line after the other into one file that it holds open.
WRITER = """
import itertools, time
with open('/home/user/written', 'w') as file:
    for number in itertools.count():
        print(number, file=file, flush=True)
        time.sleep(0.005)
"""


def checksum(word):
    import random

    held = bytearray(random.Random(7).randbytes(1 << 20) * HOLDS_MB)
    held[:8] = word.encode().ljust(8)
    return hashlib.sha256(held).hexdigest()


class Inhabited:
    """Moves into a sandbox, or knows its way around one that is a copy (`like`)."""

    def __init__(self, sandbox, url, like=None):
        self.sandbox, self.url = sandbox, url
        if like:
            self.holder, self.shell, self.word = like.holder, like.shell, like.word
            self.seen, self.lines = dict(like.seen), like.lines
            return
        for name, text in {"holder.py": HOLDER, "server.js": SERVER, "writer.py": WRITER}.items():
            sandbox.files.write(f"/home/user/{name}", text)
        self.holder = self.start("python3 -u holder.py", stdin=True)
        self.start("node server.js")
        self.start("python3 writer.py")
        self.shell = sandbox.pty.create(PtySize(rows=24, cols=80), timeout=0).pid
        self.word, self.seen, self.lines = "first", {}, 0
        self.type("WORD=first; cd /tmp; tries=0\n")
        self.tell("first")
        until(self.answers, "the server answers")
        self.check()

    def start(self, command, **options):
        return self.sandbox.commands.run(command, background=True, timeout=0, **options).pid

    def type(self, text):
        self.sandbox.pty.send_stdin(self.shell, text.encode())

    def ask_shell(self, command):
        """What a command prints in the terminal's shell, through a file: the screen has echoes."""
        self.sandbox.files.remove("/tmp/said")
        self.type(f"{command} > /tmp/.said; mv /tmp/.said /tmp/said\n")
        until(lambda: self.sandbox.files.exists("/tmp/said"), "the shell answers")
        return self.sandbox.files.read("/tmp/said").strip()

    def tell(self, word):
        """Changes what is held, and hears its checksum."""
        self.word = word
        command = self.sandbox.commands.connect(self.holder)
        self.sandbox.commands.send_stdin(self.holder, f"{word}\n")
        said = ""
        for out, _, _ in command:
            said += out or ""
            if f"{word} " in said and said.endswith("\n"):
                break
        command.disconnect()
        assert f"{word} {checksum(word)}\n" in said

    def get(self):
        headers = {"E2b-Sandbox-Id": self.sandbox.sandbox_id, "E2b-Sandbox-Port": str(PORT)}
        return httpx.get(self.url, headers=headers, timeout=30)

    def answers(self):
        return self.get().status_code == 200

    def check(self):
        """All of it is alive, and where it was."""
        before, now = self.seen, json.loads(self.get().text)
        assert now["requests"] == before.get("requests", now["requests"] - 1) + 1
        until(lambda: json.loads(self.get().text)["ticks"] > now["ticks"], "the timer ticks")
        self.sandbox.files.write("/home/user/watched/file", "changed")
        until(lambda: json.loads(self.get().text)["changes"] > now["changes"], "the watch sees")
        self.tell(self.word)
        assert self.ask_shell("echo $WORD $PWD $((++tries))").startswith("first /tmp ")
        self.check_written()
        self.seen = json.loads(self.get().text)

    def check_written(self):
        lines = self.sandbox.files.read("/home/user/written").split("\n")
        whole = [int(line) for line in lines[:-1]]
        assert whole == list(range(len(whole))), "a line is missing, or is there twice"
        assert len(whole) >= self.lines
        self.lines = len(whole)
        until(
            lambda: self.sandbox.files.read("/home/user/written").count("\n") > self.lines,
            "the writer writes on",
        )
