"""The API and sandboxes over plain HTTP, for what is measured in seconds rather than in microseconds."""

import base64
import http.client
import json
import os
import socket
import time
import urllib.parse

AGENT_PORT = 49983
REQUEST_S = 300
SETTLE_S = 1


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status, what, text):
        super().__init__(f"{what}: {status} {text}")
        self.status = status


def connect(url):
    parts = urllib.parse.urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=REQUEST_S)


def call(method, url, body=None, headers=()):
    parts = urllib.parse.urlsplit(url)
    connection = connect(url)
    try:
        connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), body, dict(headers))
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status >= 300:
        raise Refused(answer.status, f"{method} {parts.path}", text.decode(errors="replace"))
    return text


def api(method, path, body=None):
    headers = {"X-API-Key": os.environ["E2B_API_KEY"], "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    answer = call(method, os.environ["E2B_API_URL"] + path, data, headers)
    try:
        return json.loads(answer) if answer else None
    except ValueError:
        return answer.decode()


def quote(word):
    return urllib.parse.quote(word, safe="")


def figures():
    """GET /metrics, as a value for each name with its labels."""
    lines = api("GET", "/metrics").splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def wait_parked(n, limit_s=30):
    """Until so many jails lie parked. False when they do not, in time; a daemon that parks none has none."""
    deadline = time.monotonic() + limit_s
    while figures()["atoll_parked_jails"] < n:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    time.sleep(SETTLE_S)  # those that are made beyond what is asked for here
    return True


def kill_all():
    """Ends every sandbox that there is."""
    for _ in range(1000):
        there = api("GET", "/v2/sandboxes?limit=100")
        if not there:
            return
        for one in there:
            try:
                api("DELETE", f"/sandboxes/{one['sandboxID']}")
            except Refused as refused:
                if refused.status != 404:
                    raise


def until(condition, what, limit_s=60):
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not so after {limit_s} s: {what}")
        time.sleep(0.05)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def wait_for_template(name, limit_s):
    def there():
        try:
            return api("GET", f"/templates/aliases/{name}")
        except Refused as refused:
            if refused.status != 503:
                raise
        return False

    until(there, f"the template {name} is there", limit_s)


class Box:
    """A sandbox."""

    def __init__(self, template="base", id=None):
        """A new one, or the one of that id."""
        self.id = id or api("POST", "/sandboxes", {"templateID": template, "timeout": 3600})["sandboxID"]

    def route(self, port=AGENT_PORT):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port)}

    def upload(self, path, data):
        call("POST", f"{os.environ['E2B_SANDBOX_URL']}/files?path={path}", data,
             self.route() | {"Content-Type": "application/octet-stream"})

    def run(self, command, user="root"):
        """Runs a line for the shell to its end, and returns what it printed."""
        ask = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", command]}}).encode()
        login = base64.b64encode(f"{user}:".encode()).decode()
        answer = call("POST", f"{os.environ['E2B_SANDBOX_URL']}/process.Process/Start",
                      b"\0" + len(ask).to_bytes(4, "big") + ask,
                      self.route() | {"Authorization": f"Basic {login}", "Content-Type": "application/connect+json"})
        out, at = b"", 0
        while at < len(answer):
            size = int.from_bytes(answer[at + 1 : at + 5], "big")
            event = json.loads(answer[at + 5 : at + 5 + size]).get("event", {})
            out += base64.b64decode(event.get("data", {}).get("stdout", ""))
            at += 5 + size
        return out.decode()

    def kill(self):
        api("DELETE", f"/sandboxes/{self.id}")
