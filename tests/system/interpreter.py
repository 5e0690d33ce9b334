"""atoll-interpreter on this machine, outside of any sandbox, with the kernels that are installed here.

BUILD names the build directory (default build). NODE_PATH must lead to npm's `sucrase` for the kernels
of JavaScript (tests/system/run)."""

import http.client
import json
import os
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("BUILD", ROOT / "build")) / "src/inside/interpreter/atoll-interpreter"
TEMPLATE = ROOT / "templates/code-interpreter-v1"
ANSWER_S = 120  # for what hangs; nothing here is measured


class Answer:
    """The lines of an answer to /execute, gathered by what they are."""

    def __init__(self, lines):
        self.lines = lines
        self.stdout = "".join(line["text"] for line in lines if line["type"] == "stdout")
        self.stderr = "".join(line["text"] for line in lines if line["type"] == "stderr")
        self.results = [line for line in lines if line["type"] == "result"]
        errors = [line for line in lines if line["type"] == "error"]
        self.error = errors[0] if errors else None
        counts = [line["execution_count"] for line in lines if line["type"] == "number_of_executions"]
        self.count = counts[0] if counts else None

    @property
    def text(self):
        return self.results[0].get("text") if self.results else None


class Stream:
    """An answer that is read line by line, or left."""

    def __init__(self, connection, response):
        self.connection = connection
        self.response = response

    def line(self):
        line = self.response.readline()
        assert line, "the answer ended"
        return json.loads(line)

    def until(self, kind):
        while (line := self.line())["type"] != kind:
            pass
        return line

    def leave(self):
        self.response.close()
        self.connection.close()


class Interpreter:
    def __init__(self, directory, warm="python", agent_port=1, cwd=None, words=(), **popen):
        self.headers = {}
        self.boot_id = Path(directory) / "boot_id"
        self.boot_id.write_text("first\n")
        self.process = subprocess.Popen(
            [PROGRAM, "--listen", "127.0.0.1:0", "--kernels", TEMPLATE / "kernels",
             "--run", Path(directory) / "run", "--cwd", cwd or directory, "--agent-port", str(agent_port),
             "--boot-id", self.boot_id, "--warm", warm, *words],
            env={**os.environ, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(TEMPLATE / "python"), **popen.pop("env", {})},
            stdout=subprocess.PIPE,
            text=True,
            **popen,
        )  # fmt: skip
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        """Ends it; a leak is a bad end under a sanitizer."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(ANSWER_S) == 0

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        text = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
        connection.request(method, path, text, self.headers)
        return connection, connection.getresponse()

    def ask(self, method, path, body=None):
        connection, response = self.request(method, path, body)
        try:
            return response.status, response.read().decode()
        finally:
            connection.close()

    def json(self, method, path, body=None):
        status, text = self.ask(method, path, body)
        assert status == 200, text
        return json.loads(text)

    def start(self, code, **fields):
        connection, response = self.request("POST", "/execute", {"code": code, **fields})
        assert response.status == 200, response.read()
        return Stream(connection, response)

    def run(self, code, **fields):
        stream = self.start(code, **fields)
        lines = [json.loads(line) for line in stream.response]
        stream.connection.close()
        assert lines[-1] == {"type": "end_of_execution"}, lines
        return Answer(lines)
