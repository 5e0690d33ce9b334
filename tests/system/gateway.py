"""mcp-gateway on this machine, outside of any sandbox. BUILD names the build directory."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = Path(os.environ.get("BUILD", ROOT / "build")) / "src/inside/gateway/mcp-gateway"
SERVER = HERE / "mcp_server.py"
TOKEN = "a-token-of-the-tests"
ANSWER_S = 120  # for what hangs; nothing here is measured


def server(name, *how, **more):
    """The configuration of one of our own test servers."""
    return {"command": sys.executable, "args": [str(SERVER), name, *how], **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    """Started as the SDK does it: the command returns when all is up."""

    def __init__(self, directory, config, *options, env=None):
        self.directory = Path(directory)
        self.port = free_port()
        self.token_file = self.directory / "etc/token"
        self.log = self.directory / "log/gateway.log"
        text = config if isinstance(config, str) else json.dumps(config)
        self.done = subprocess.run(
            [PROGRAM, "--config", text, "--listen", f"127.0.0.1:{self.port}",
             "--catalogue", ROOT / "templates/mcp-gateway/catalogue.json", "--root", self.directory / "root",
             "--token-file", self.token_file, "--log", self.log, "--user", "nobody-of-this-name", *options],
            env={**os.environ, "GATEWAY_ACCESS_TOKEN": TOKEN, **(env or {})},
            capture_output=True, text=True, timeout=ANSWER_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def pid(self):
        """Of the process in the background: the one that listens."""
        shown = subprocess.run(["ss", "-Hltnp", f"sport = :{self.port}"], capture_output=True, text=True)
        return int(shown.stdout.split("pid=")[1].split(",")[0])

    def stop(self):
        """Ends it; a leak is told in its log under a sanitizer."""
        if self.done.returncode == 0:
            fd = os.pidfd_open(self.pid)
            signal.pidfd_send_signal(fd, signal.SIGTERM)
            assert select.select([fd], [], [], ANSWER_S)[0], "it does not end"
            os.close(fd)
            assert "Sanitizer" not in self.log.read_text()

    def request(self, method="POST", message=None, token=TOKEN, session=None, path="/mcp",
                timeout=ANSWER_S, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        fields = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        fields |= {"Authorization": f"Bearer {token}"} if token else {}
        fields |= {"Mcp-Session-Id": session} if session else {}
        body = message if isinstance(message, (str, bytes, type(None))) else json.dumps(message)
        connection.request(method, path, body, {**fields, **headers})
        return connection.getresponse()

    def session(self):
        return Session(self)


def events(response):
    """The messages of a stream, as they come."""
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[len(b"data: ") :])


class Session:
    """A client without an SDK, to send what no SDK would."""

    def __init__(self, gateway, version="2025-06-18"):
        self.gateway = gateway
        self.last = 0
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = gateway.request(message={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert answer.status == 200, answer.read()
        self.id = answer.headers["Mcp-Session-Id"]
        self.about = json.loads(answer.read())["result"]
        self.notify("notifications/initialized")

    def notify(self, method, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        answer = self.gateway.request(message=message, session=self.id)
        assert (answer.status, answer.read()) == (202, b"")

    def begin(self, method, params=None):
        """The answer of a question as it comes, and the question's id."""
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params or {}}
        return self.gateway.request(message=message, session=self.id), self.last

    def ask(self, method, **params):
        answer, number = self.begin(method, params)
        assert answer.status == 200, answer.read()
        message = json.loads(answer.read())
        assert message["id"] == number
        return message["result"] if "result" in message else message["error"]

    def call(self, name, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)

    def names(self, kind="tools"):
        return [item["name"] for item in self.ask(f"{kind}/list")[kind]]

    def listen(self):
        answer = self.gateway.request("GET", session=self.id)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
        return events(answer)
