"""Floods of connections, small enough for a shared machine: the daemons of these tests have low limits."""

import contextlib
import pathlib
import selectors
import socket
import sys
import time

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

from daemon import Daemon, until  # noqa: E402, F401
from teams import add_team  # noqa: E402

PATIENCE_S = 60


@contextlib.contextmanager
def two_teams(*settings):
    """A daemon with a key of a second team in other_key; of all of it nothing is left afterwards."""
    daemon = Daemon(*settings)
    try:
        daemon.start()
        daemon.other_key = add_team(daemon, "another")
        yield daemon
    finally:
        remove_sandboxes(daemon, getattr(daemon, "other_key", None))
        daemon.remove()


def remove_sandboxes(daemon, key):
    """Those of one team; what else is there goes with the daemon."""
    if not key or daemon.process.poll() is not None:
        return
    with httpx.Client(base_url=daemon.url, headers={"X-API-Key": key}, timeout=PATIENCE_S) as api:
        while rows := api.get("/v2/sandboxes").json():
            for row in rows:
                api.delete(f"/sandboxes/{row['sandboxID']}")


def sdk_of_other(daemon):
    return daemon.sdk | {"api_key": daemon.other_key}


def address(daemon):
    host, port = daemon.url.removeprefix("http://").rsplit(":", 1)
    return host, int(port)


class Flood:
    """Connections that are all open at the same time, in the order of their making."""

    def __init__(self, daemon):
        self.to = address(daemon)
        self.sockets = []
        self.said = {}
        self.order = []  # of first answers, by number

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            one.close()

    def open(self, count, first=b""):
        """Opens so many more, and says the same on each; returns their numbers."""
        begin = len(self.sockets)
        for _ in range(count):
            one = socket.socket()
            one.settimeout(PATIENCE_S)
            try:
                one.connect(self.to)
                one.sendall(first)
            except ConnectionError:
                pass  # it was turned away already
            one.setblocking(False)
            self.said[len(self.sockets)] = b""
            self.sockets.append(one)
        return range(begin, len(self.sockets))

    def _take(self, number):
        """Reads what has come; whether the connection is still open."""
        try:
            data = self.sockets[number].recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if data and not self.said[number]:
            self.order.append(number)
        self.said[number] += data
        return bool(data)

    def listen(self, enough, limit_s=PATIENCE_S):
        """Reads from all until enough(self) is true, or the time is up; returns whether it is."""
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            for number, one in enumerate(self.sockets):
                if one.fileno() >= 0:
                    selector.register(one, selectors.EVENT_READ, number)
            while not enough(self) and time.monotonic() < deadline:
                for key, _ in selector.select(timeout=0.1):
                    if not self._take(key.data):
                        selector.unregister(key.fileobj)
        return enough(self)

    def statuses(self, numbers=None):
        """The status of each answer that has come."""
        numbers = self.said if numbers is None else numbers
        return [int(self.said[n].split(b" ", 2)[1]) for n in numbers if self.said[n].startswith(b"HTTP/1.1 ")]


def request(sandbox_id, port, path="/"):
    return (f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nE2b-Sandbox-Id: {sandbox_id}\r\n"
            f"E2b-Sandbox-Port: {port}\r\n\r\n").encode()


def serve(sandbox, source, port):
    """Runs a program inside that listens on the port, and waits until it does."""
    sandbox.files.write(f"/tmp/serve-{port}.py", source)
    sandbox.commands.run(f"python3 /tmp/serve-{port}.py {port}", background=True, timeout=0)
    sandbox.commands.run(
        f"for i in $(seq 300); do ss -ltn 2>/dev/null | grep -q :{port} && exit 0; "
        f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 1)' 2>/dev/null && exit 0; "
        "sleep 0.1; done; exit 1", timeout=PATIENCE_S)


SILENT = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)
kept = []
while True:
    kept.append(server.accept()[0])
"""

GREETER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
