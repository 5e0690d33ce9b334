#!/usr/bin/env python3
"""Asks a daemon of its own for everything its API has, in ways that no client would, with the keys of
two teams at once, and with the operator's key for the operator's routes. The server is the one of the sanitized build; agent and keeper are the usual ones.

    fuzz_api.py [--seed N] [--seconds N] [--requests N] [--skip PATH] [--sanitized DIR] [--build DIR]

Every request must be answered as the API promises: the server lives on, says nothing of a sanitizer,
answers no 5xx but those that are documented, says what is wrong in JSON with a `message`, and never
shows a team what is another's. Ends with 1 at the first breach, and prints the requests before it.

The seed decides what is asked; five askers run side by side, so the order between them is not fixed."""

import argparse
import collections
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ASKERS = 4  # of the teams; the operator's is one more
ANSWER_S = 120  # a sanitized server on a busy machine
STREAM_S = 2
TOOL_S = 10  # then the client leaves, which ends the call
IDS_MAX = 12
KEPT_REQUESTS = 20
SHOWN_BYTES = 500
REPORT_BYTES = 6000
STATUS_DOCUMENTED = {501, 502, 503, 504, 507}
REPORT = re.compile(r"(ERROR: (?:Address|Leak)Sanitizer|runtime error:|AddressSanitizer:DEADLYSIGNAL|Assertion .* failed)")
HARVEST = {"sandboxID": "sandbox", "sandbox_id": "sandbox", "templateID": "template", "snapshotID": "template",
           "buildID": "build", "secretID": "secret", "volumeID": "volume", "token": "volume-token", "alias": "alias"}


class Breach(Exception):
    pass


def cut(text):
    return text if len(text) <= SHOWN_BYTES else f"{text[:SHOWN_BYTES]}... ({len(text)})"


class Team:
    """A key, what was made with it, and words that only this team may read."""

    def __init__(self, name, key):
        self.key = key
        self.marker = f"private-{name}-{uuid.uuid4().hex[:12]}"
        self.secret_marker = f"value-{uuid.uuid4().hex[:12]}-"
        self.live = collections.defaultdict(list)
        self.dead = collections.defaultdict(list)
        self.private = set()  # ids that no other team may see
        self.published = set()  # names of templates that this team asked to change, and so maybe made public
        self.said = set()  # ids of the other team that this one wrote into bodies: they may be repeated to it
        self.asked_for = set()  # ids of the other team in paths of this one's requests: its own audit log has them
        self.lock = threading.Lock()

    def ids(self, kind):
        with self.lock:
            return list(self.live[kind])

    def keep(self, kind, text, private=True):
        with self.lock:
            if not isinstance(text, str) or not text or text in self.live[kind]:
                return
            self.live[kind].append(text)
            if private and len(text) >= 16:
                self.private.add(text)
            if len(self.live[kind]) > IDS_MAX:
                self.dead[kind] = [*self.dead[kind], self.live[kind].pop(0)][-IDS_MAX:]

    def show(self, text):
        """Whatever this is, others may see it from now on."""
        with self.lock:
            self.private.discard(text)

    def publish(self, name):
        with self.lock:
            self.published.add(name)

    def has_published(self, row):
        """Whether this row of an answer is a template that this team made public itself."""
        names = [row.get("templateID")]
        for field in ("aliases", "names"):
            names += row[field] if isinstance(row.get(field), list) else []
        with self.lock:
            return row.get("public") is True and any(
                isinstance(name, str) and {name, name.rpartition("/")[2]} & self.published for name in names)

    def lose(self, kind, text):
        with self.lock:
            if text in self.live[kind]:
                self.live[kind].remove(text)
                self.dead[kind] = [*self.dead[kind], text][-IDS_MAX:]


class Request:
    """One request, and what must hold of its answer."""

    def __init__(self, method, target, body=None, headers=(), route="", named=(), stream=False, tool=False):
        self.method, self.target, self.body, self.headers = method, target, body, list(headers)
        self.route = route  # as in the table
        self.named = named  # (kind, id) of what the path names
        self.stream, self.tool = stream, tool
        self.leaves = False  # the client goes before the answer

    def bytes(self, host):
        head = [f"{self.method} {self.target} HTTP/1.1", f"Host: {host}"]
        head += [f"{name}: {value}" for name, value in self.headers]
        if self.body is not None and not any(name.lower() == "content-length" for name, _ in self.headers):
            head.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + (self.body or b"")

    def __str__(self):
        body = "" if self.body is None else f" {cut(repr(self.body)[2:-1])}"
        headers = " ".join(f"{name}: {cut(value)}" for name, value in self.headers if name != "X-API-Key")
        return f"{self.method} {cut(self.target)} [{headers}]{body}{' (and leaves)' if self.leaves else ''}"


class Asker:
    """One client of one team: makes requests, reads answers, holds them to the promises."""

    def __init__(self, fuzz, number):
        import surface

        self.fuzz = fuzz
        self.random = random.Random(fuzz.seed * 100 + number)
        self.team, self.other = self.sides(number)
        self.maker = surface.Maker(self.random, self.team, self.other)
        self.socket = None
        self.statuses = collections.Counter()

    def sides(self, number):
        return self.fuzz.teams if number % 2 == 0 else reversed(self.fuzz.teams)

    def routes(self):
        return self.fuzz.surface.routes

    # ---- making ----

    def key_headers(self):
        chance = self.random.random()
        if chance < 0.9:
            return [("X-API-Key", self.team.key)], True
        if chance < 0.94:
            return [("Authorization", f"Bearer {self.team.key}")], True
        return self.random.choice([
            ([], False),
            ([("X-API-Key", self.team.key[:-1])], False),
            ([("X-API-Key", self.team.key), ("X-API-Key", "e2b_" + "0" * 40)], False),
            ([("X-API-Key", "A" * 4000)], False),
        ])

    def odd_headers(self, body):
        odd = [("Content-Type", self.random.choice(["application/json"] * 8 + ["text/plain", "", "application/json; charset=x"]))]
        if self.random.random() < 0.06:
            odd.append(self.random.choice([
                ("X-HTTP-Method-Override", "DELETE"), ("X-Original-URL", "/api-keys"), ("Idempotency-Key", self.maker.word()),
                ("Content-Encoding", "gzip"), ("Expect", "100-continue"), ("X-Forwarded-Host", "a" * 3000), ("Range", "bytes=0-0"),
                ("Origin", "http://evil.example"), ("Connection", "close"), ("Cookie", "a=" + "b" * 5000),
            ]))
        if self.random.random() < 0.02:
            odd.append(("Content-Length", str(self.random.choice([0, len(body or b"") // 2]))))
        return odd

    def path(self, route):
        """The route with its {} filled, and what it names."""
        import surface

        named, parts = [], route.split("{}")
        path = parts[0]
        for kind, rest in zip(surface.kinds_of(route), parts[1:]):
            name = self.maker.pick(kind)
            named.append((kind, name))
            path += surface.escape(name, self.random.random() < 0.9) + rest
        if self.random.random() < 0.03:
            path = self.random.choice([path + "/", "/" + path, path.replace("/", "//"), path + "/..", path + "%2f", path.upper(), path + "x" * 9000])
        return path, named

    def api_request(self):
        import surface

        method, route, body_kind, access = self.random.choice(self.routes())
        if route in surface.HEAVY and self.random.random() < 0.7:
            return self.api_request()
        path, named = self.path(route)
        example = surface.EXAMPLES.get((method, route))
        body = None
        if example or self.random.random() < 0.03:
            body = self.maker.body(example(self.maker) if example else {}, self.fuzz.surface.fields)
        if self.random.random() < 0.02:
            method = self.random.choice(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "X"])
        headers, _ = self.key_headers()
        if "volumecontent" in route:
            own = self.team.ids("volume-token") + self.other.ids("volume-token")[:1]
            headers = [("Authorization", f"Bearer {self.random.choice(own or ['x'])}")]
        return Request(method, path + self.maker.query(self.fuzz.surface.queries), body,
                       headers + self.odd_headers(body), route, named, stream="logs" in route or "/events/sandboxes" in route)

    def tool_request(self):
        path, schema = self.random.choice(sorted(self.fuzz.surface.tools.items()))
        body = self.maker.body(self.maker.from_schema(schema), ["sandbox_id", "code", "path", "language", "timeout_ms"])
        headers, _ = self.key_headers()
        return Request("POST", path, body, headers + self.odd_headers(body), path, tool=True)

    def mcp_request(self):
        method = self.random.choice(["initialize", "tools/list", "tools/call", "ping", "resources/list", "prompts/get", "logging/setLevel", "x", ""])
        name, schema = self.random.choice(sorted(self.fuzz.surface.tools.items()))
        arguments = self.maker.from_schema(schema)
        parameters = {"protocolVersion": self.random.choice(["2025-06-18", "2024-11-05", "9"]), "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
                      "name": name.rpartition("/")[2], "arguments": arguments, "_meta": {"progressToken": 1}}
        message = {"jsonrpc": "2.0", "id": self.random.choice([1, "a", None, 1.5, -1]), "method": method, "params": parameters}
        body = self.maker.body(message, ["id", "method", "params", "jsonrpc"])
        headers, _ = self.key_headers()
        headers += [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json"),
                    ("Mcp-Session-Id", self.random.choice([str(uuid.UUID(int=self.random.getrandbits(128))), *self.team.ids("mcp"), *self.other.ids("mcp")]))]
        headers += [("MCP-Protocol-Version", self.random.choice(["2025-06-18", "1", ""]))] if self.maker.flip() else []
        return Request(self.random.choice(["POST"] * 8 + ["GET", "DELETE"]), "/mcp", body, headers, "/mcp", stream=True, tool=True)

    def edge_request(self):
        """Into a sandbox: its agent and a port of it, by header and by name."""
        sandbox = self.maker.pick("sandbox")
        port = self.random.choice(["49983", "49983", "8080", "0", "99999", "-1", "x", "49999"])
        path = self.random.choice(["/health", "/metrics", "/files?path=/tmp/x", "/process.Process/List", "/filesystem.Filesystem/ListDir", "/init", "/execute",
                                   "/processes", "/ports", "/processes/1/signal", f"/processes/{self.random.choice(['0', '-1', '2', '7', '99999999999', '%31'])}/signal"])
        headers = [("E2b-Sandbox-Id", sandbox.encode("ascii", "replace").decode().replace("\r", "").replace("\n", "").replace("\0", "")),
                   ("E2b-Sandbox-Port", port), ("Content-Type", "application/json")]
        body = self.maker.body({"path": "/tmp", "depth": 1}, ["path", "process"])
        return Request(self.random.choice(["GET", "POST"]), path, body, headers, "edge")

    def request(self):
        kind = self.random.choices([self.api_request, self.tool_request, self.mcp_request, self.edge_request], [80, 8, 7, 5])[0]
        request = kind()
        request.leaves = self.random.random() < 0.04
        return request

    # ---- asking ----

    def connect(self):
        self.socket = socket.create_connection(self.fuzz.address, timeout=ANSWER_S)

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def ask(self, request):
        """(status, headers, text), or None when there was nothing to read."""
        data = request.bytes(self.fuzz.host)
        try:
            if not self.socket:
                self.connect()
            self.socket.settimeout(TOOL_S if request.tool else ANSWER_S)
            self.socket.sendall(data)
            if request.leaves:
                self.close()
                return None
            return self.read(request)
        except TimeoutError:
            self.close()
            if request.tool:
                return None  # a call may take its time: we leave, and it ends
            raise Breach(f"no answer in {ANSWER_S} s") from None
        except (ConnectionError, http.client.HTTPException) as error:
            self.close()
            if isinstance(error, ConnectionRefusedError):
                raise Breach("nobody listens") from None
            return None  # a kept connection may end, and so may one with a body that was refused

    def read(self, request):
        answer = http.client.HTTPResponse(self.socket, method=request.method)
        answer.begin()
        kind = answer.headers.get("Content-Type", "")
        if kind.startswith("text/event-stream") or ("follow" in request.target and request.stream):
            self.socket.settimeout(STREAM_S)
            try:
                text = answer.read(4096)
            except (TimeoutError, http.client.HTTPException):
                text = b""
            self.close()
        else:
            text = answer.read()
        if answer.will_close or any(name == "Content-Length" for name, _ in request.headers):
            self.close()
        return answer.status, answer.headers, text.decode("utf-8", "replace")

    # ---- judging ----

    def judge(self, request, status, headers, text):
        self.statuses[status] += 1
        if status >= 500 and status not in STATUS_DOCUMENTED:
            raise Breach(f"answered {status}: {text[:500]}")
        if status >= 400 and request.method != "HEAD" and request.route != "edge":  # which says some in plain text
            self.judge_error(request, status, headers, text)
        asked = request.bytes("")[:1 << 20].decode("utf-8", "replace")
        asked += urllib.parse.unquote(asked)  # an answer may repeat a name that was asked for in percent-encoding
        if self.other.marker in text and self.other.marker not in asked:
            raise Breach(f"shows what the other team wrote: {text[:500]}")
        for team in self.fuzz.teams:
            if team.secret_marker in text and request.route != "edge":
                raise Breach(f"repeats a secret's value: {text[:500]}")
        self.judge_ids(request, status, text, asked)

    def judge_error(self, request, status, headers, text):
        try:
            body = json.loads(text)
        except ValueError:
            raise Breach(f"answered {status} with what is no JSON: {text[:300]!r}") from None
        error = body.get("error") if isinstance(body, dict) else None
        message = body.get("message") if isinstance(body, dict) else None
        message = message or (error.get("message") if isinstance(error, dict) else None)
        if not isinstance(message, str) or not message:
            raise Breach(f"answered {status} without a message: {text[:300]!r}")

    def without_published(self, text):
        """The answer without the templates that the other team made public, whose builds all may see."""
        try:
            body = json.loads(text)
        except ValueError:
            return text
        if isinstance(body, dict):
            return "" if self.other.has_published(body) else text
        if not isinstance(body, list):
            return text
        return json.dumps([row for row in body if not (isinstance(row, dict) and self.other.has_published(row))])

    def judge_ids(self, request, status, text, asked):
        text = self.without_published(text)
        with self.other.lock:
            private = set(self.other.private)
        if request.route == "/audit":
            private -= self.team.asked_for
        for name in private:
            if name in text and name not in asked and name not in self.team.said:
                at = text.index(name)
                raise Breach(f"shows the other team's {name}: {text[max(0, at - 400):at + 200]}")
        nothing = request.method == "OPTIONS" or (request.method == "GET" and text.strip() == "[]")
        if status < 300 and request.route != "edge" and not nothing:
            for kind, name in request.named:
                token = any(name == "Authorization" for name, _ in request.headers)
                if name in private and not token:
                    raise Breach(f"took the {kind} {name} of the other team: {status} {text[:300]}")

    # ---- remembering ----

    def learn(self, request, status, headers, text):
        if not 200 <= status < 300:
            return
        if headers.get("Mcp-Session-Id"):
            self.team.keep("mcp", headers["Mcp-Session-Id"])
        if request.method == "DELETE" and request.named:
            self.team.lose(*request.named[-1])
        if request.method not in ("POST", "PUT"):
            return
        try:
            self.harvest(request, json.loads(text))
        except ValueError:
            pass

    def publish(self, request):
        """A template that may become public with this request, and its builds, may be seen by all; ids that the
        team writes itself may come back to it."""
        body = (request.body or b"")[:1 << 16].decode("utf-8", "replace")
        with self.other.lock:
            self.team.said |= {name for name in self.other.private if name in body}
            self.team.asked_for |= {name for name in self.other.private if name in urllib.parse.unquote(request.target)}
        if "volumecontent" in request.route:  # maybe with a token of the other team, whose audit log then has our id
            with self.team.lock:
                self.other.asked_for |= {name for name in self.team.private if name in urllib.parse.unquote(request.target)}
        if request.method == "PATCH" and "templates" in request.route:
            for kind in ("template", "build"):
                for name in self.team.ids(kind) + [name for _, name in request.named]:
                    self.team.show(name)
            for _, name in request.named:
                self.team.publish(name)

    def harvest(self, request, body):
        if isinstance(body, list):
            for one in body:
                self.harvest(request, one)
        if not isinstance(body, dict):
            return
        for field, kind in HARVEST.items():
            value = body.get(field)
            if isinstance(value, str) and value not in self.fuzz.common:
                self.team.keep(kind, value, private=kind != "alias")
        if request.route == "/events/webhooks":
            self.team.keep("webhook", body.get("id"))
        if request.route.endswith("/api-keys"):
            self.team.keep("key", body.get("id"))
        if request.route == "/volumes":
            self.team.keep("volume-name", body.get("name"), private=False)
        if request.route.startswith("/shells"):
            self.team.keep("shell", body.get("name"), private=False)
        if isinstance(body.get("sandbox"), dict):
            self.harvest(request, body["sandbox"])

    def run(self):
        try:
            while self.fuzz.goes_on():
                request = self.request()
                self.publish(request)
                self.fuzz.note(self.team, request)
                answer = self.ask(request)
                if answer:
                    try:
                        self.judge(request, *answer)
                    except Breach as breach:
                        raise Breach(f"{request}\n  {breach}") from None
                    self.learn(request, *answer)
        except Breach as breach:
            self.fuzz.fail(str(breach))
        except Exception as error:  # the fuzzer's own fault must not look like a pass
            self.fuzz.fail(f"the fuzzer itself: {error!r}")
            raise
        finally:
            self.close()


class Operator(Asker):
    """Whoever holds an admin key. Changes only teams that it made: those of the other askers must go on."""

    def sides(self, number):
        return self.fuzz.operator, Team("none", "")

    def routes(self):
        return [route for route in self.fuzz.surface.routes if route[3] == "ACCESS_ADMIN"]

    def request(self):
        request = self.api_request()
        request.leaves = self.random.random() < 0.04
        return request

    def key_headers(self):
        if self.random.random() < 0.95:
            return [("X-Admin-Token", self.team.key)], True
        return [("X-Admin-Token", self.random.choice(["", self.team.key[:-1], "A" * 4000, self.fuzz.teams[0].key]))], False

    def harvest(self, request, body):
        super().harvest(request, body)
        kind = {"/admin/teams": "team", "/admin/keys": "admin-key"}.get(request.route)
        if kind and isinstance(body, dict):
            self.team.keep(kind, body.get("teamID") or body.get("id"))


class Fuzz:
    def __init__(self, daemon, seed, seconds, requests):
        import httpx
        import surface

        self.daemon, self.seed, self.left = daemon, seed, requests
        self.deadline = time.monotonic() + seconds
        self.host = daemon.url.partition("//")[2]
        name, _, port = self.host.rpartition(":")
        self.address = (name, int(port))
        self.server = daemon.child("server")
        self.log_at = 0
        self.lock = threading.Lock()
        self.last = collections.deque(maxlen=KEPT_REQUESTS)
        self.breach = None
        self.asked = 0
        self.teams = [Team("a", daemon.key), Team("b", daemon.other_key)]
        self.surface = surface.Surface(httpx.get(f"{daemon.url}/tools/openapi.json").json())
        self.operator = Team("operator", (daemon.data / "state" / "admin.token").read_text().strip())
        self.common = {"base"}
        nodes = httpx.get(f"{daemon.url}/nodes", headers={"X-Admin-Token": self.operator.key}).json()
        self.operator.keep("node", nodes[0]["id"], private=False)
        for team in self.teams:
            rows = httpx.get(f"{daemon.url}/templates", headers={"X-API-Key": team.key}).json()
            self.common |= {row[name] for row in rows for name in ("templateID", "buildID")}
            (row,) = httpx.get(f"{daemon.url}/teams", headers={"X-API-Key": team.key}).json()
            team.keep("team", row["teamID"])
            team.keep("hash", "0" * 64, private=False)
            team.keep("shell", f"shell-{team.marker[8]}", private=False)
            team.keep("secret", f"secret-{team.marker[8]}", private=False)

    def goes_on(self):
        with self.lock:
            self.asked += 1
            self.left -= 1
            look = self.asked % 200 == 0
            goes = self.breach is None and self.left >= 0 and time.monotonic() < self.deadline
        if look:
            self.look_at_server()
        return goes

    def note(self, team, request):
        with self.lock:
            self.last.append(f"{team.marker[8]}: {request}")

    def fail(self, why, first=False):
        with self.lock:
            self.breach = why if first else self.breach or why

    def look_at_server(self):
        if self.daemon.child("server") != self.server:
            self.fail("the server died and was started again")
        with self.lock, open(self.daemon.data / "log", errors="replace") as log:
            log.seek(self.log_at)
            text = log.read()
            self.log_at = log.tell()
        found = REPORT.search(text)
        if found:
            report = text[max(0, found.start() - 200):found.start() + REPORT_BYTES]
            self.fail(f"the log has a report:\n{report}\n{self.breach or ''}", first=True)

    def remove_sandboxes(self):
        """Of both teams: the daemon is removed with those of its first team alone."""
        import httpx

        if self.daemon.process.poll() is not None:
            self.daemon.start()
        self.daemon.wait_ready()
        for team in self.teams:
            with httpx.Client(base_url=self.daemon.url, headers={"X-API-Key": team.key}, timeout=ANSWER_S) as api:
                for row in api.get("/v2/sandboxes").json():
                    api.delete(f"/sandboxes/{row['sandboxID']}")
        for pid in self.daemon.jails().values() if self.breach else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # of a server that died in the middle

    def run(self):
        askers = [*(Asker(self, number) for number in range(ASKERS)), Operator(self, ASKERS)]
        threads = [threading.Thread(target=asker.run) for asker in askers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.look_at_server()
        return sum((asker.statuses for asker in askers), collections.Counter())


def sanitized_build(sanitized, build):
    """A build directory whose server is sanitized, and whose other programs are not: a jail has no
    libraries for a sanitized agent, and the keeper forks more than a sanitizer likes."""
    for name in (sanitized / "atoll", sanitized / "src/tools/atoll-tools", build / "src/inside/agent/atoll-agent",
                 build / "src/keeper/atoll-keeper"):
        if not name.exists():
            sys.exit(f"fuzz_api: {name} is not there: `tools/build {name.parts[-2]}` makes it")
    whole = Path(tempfile.mkdtemp(prefix="atoll-fuzz-"))
    whole.chmod(0o755)
    (whole / "templates").symlink_to(ROOT / "templates")
    made = whole / "build"
    for source, name in [(sanitized, "atoll"), (sanitized, "src/tools/atoll-tools"), (build, "src/inside/agent/atoll-agent"),
                         (build, "src/keeper/atoll-keeper"), (build, "src/inside/interpreter/atoll-interpreter"),
                         (build, "src/inside/gateway/mcp-gateway")]:
        if (source / name).exists():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, made / name)
    return whole


def fuzz(seed, seconds, requests, skipped):
    """0, or 1 with the reason on stdout. The BUILD of the environment says which daemon."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "system")]
    from teams import two_teams

    settings = ["--parked-max", "0", "--team-sandboxes-max", "6", "--builds-max", "2", "--build-step-s", "20", "--build-ready-s", "10",
                "--webhook-allow-local", "true", "--registry-local", "true", "--volume-size", "64M", "--code-timeout-s", "5"]
    with two_teams(*settings) as daemon:
        run = Fuzz(daemon, seed, seconds, requests)
        run.surface.routes = [route for route in run.surface.routes if route[1] not in skipped]
        statuses = run.run()
        print(f"fuzz_api: {run.asked} requests, answered " + ", ".join(f"{k}: {n}" for k, n in sorted(statuses.items())))
        if run.breach:
            print("\n".join(["the last requests:", *run.last, "", f"breach: {run.breach}"]), flush=True)
        run.remove_sandboxes()
    return 1 if run.breach else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=10**9)
    parser.add_argument("--skip", action="append", default=[], help="a path of the table that is not asked for")
    parser.add_argument("--sanitized", type=Path, default=ROOT / "build-san")
    parser.add_argument("--build", type=Path, default=Path(os.environ.get("BUILD", ROOT / "build")))
    options = parser.parse_args()
    print(f"fuzz_api: seed {options.seed}", flush=True)
    whole = sanitized_build(options.sanitized.resolve(), options.build.resolve())
    os.environ["BUILD"] = str(whole / "build")
    os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    try:
        return fuzz(options.seed, options.seconds, options.requests, options.skip)
    finally:
        shutil.rmtree(whole)


if __name__ == "__main__":
    sys.exit(main())
