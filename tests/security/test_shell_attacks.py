"""API shells against code that wants the key or more than it was granted, with a hostile API on loopback that
repeats the key in whatever it says. What is looked at: the answer inside, the sandbox's log, its events, the daemon's
own log."""

import base64
import pathlib
import re
import socketserver
import sys
import threading
import urllib.parse

import httpx
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

from daemon import running, until  # noqa: E402
from e2b import Sandbox  # noqa: E402
from world import Names  # noqa: E402

KEY = "sk_live/9Q+shell-key~that=stays-4417"
API = "198.51.100.1"
SHELL = "http://shell.atoll.internal"
PIECE = 8  # so many characters of a key in a row are a leak


def spelled():
    """The key in every spelling that the guard promises to know."""
    plain, hexed = KEY.encode(), "".join(f"%{byte:02x}" for byte in KEY.encode())
    aligned = {f"base64 behind {n} bytes": base64.b64encode(b"x" * n + plain + b"yyy").decode() for n in range(3)}
    return {"plain": KEY, "percent-encoded": urllib.parse.quote(KEY, safe=""), "percent-encoded whole": hexed,
            "percent-encoded in capitals": hexed.upper(), **aligned,
            "base64 for URLs": base64.urlsafe_b64encode(plain).decode().rstrip("=")}


SPELLINGS = spelled()


def leaks(text):
    """Which spellings have a piece in the text. Base64 of other alignments shares no piece with the key's own."""
    found = []
    for name, key in SPELLINGS.items():
        start, step = (4, 4) if "behind" in name else (0, 0)
        body = key[start : len(key) - step]
        size = PIECE * 3 if name.startswith("percent-encoded ") else PIECE + 4 if "base64" in name else PIECE
        if any(body[i : i + size] in text for i in range(len(body) - size + 1)):
            found.append(name)
    return found


class Hostile(socketserver.ThreadingTCPServer):
    """Answers a request with the bytes in `answers` that the last part of its path names, or else with `answer`;
    keeps what came in `seen`."""

    daemon_threads = True
    allow_reuse_address = True

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = self.rfile.readline()
                    if not line:
                        return
                    head += line
                size = re.search(rb"(?i)content-length: (\d+)", head)
                body = self.rfile.read(int(size[1])) if size else b""
                self.server.seen.append((head + body).decode("latin-1"))
                path = head.split()[1].partition(b"?")[0].decode()
                self.wfile.write(self.server.answers.get(path.rpartition("/")[2], self.server.answer))
                if self.server.cut:
                    return

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.seen, self.answer, self.answers, self.cut = [], b"", {}, False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


@pytest.fixture(scope="module")
def hostile():
    return Hostile()


@pytest.fixture(scope="module")
def names():
    return Names({"api.test": [API], "moving.test": [API]})


@pytest.fixture(scope="module")
def daemon(hostile, names):
    with running("--egress-map", f"{API}:80=127.0.0.1:{hostile.server_address[1]}",
                 "--egress-dns", f"127.0.0.1:{names.port}") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def api(daemon):
    with httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=60) as client:
        assert client.post("/secrets", json={"name": "account", "value": KEY}).status_code == 201
        yield client


BEARER = {"name": "Authorization", "value": "Bearer ${e2b.secrets.account}"}
PLACES = {"header": {"header": BEARER}, "query": {"query": {"name": "key", "value": "${e2b.secrets.account}"}},
          "sealed": {"header": {"name": "X-Key", "value": KEY}}}


def put(api, name, base="http://api.test/v1", **fields):
    answer = api.put(f"/shells/{name}", json={"baseUrl": base, **fields})
    assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def box(api, daemon):
    for place, field in PLACES.items():
        put(api, place, **field)
    put(api, "reads", methods=["GET", "POST"], paths=["/users/*"], header=BEARER)
    put(api, "moving", "http://moving.test/v1", header=BEARER)
    made = api.post("/sandboxes", json={"templateID": "base", "timeout": 600, "allow_internet_access": False,
                                        "shells": [*PLACES, "reads", "moving"]})
    assert made.status_code == 201, made.text
    sandbox = Sandbox.connect(made.json()["sandboxID"], **daemon.sdk)
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def call(box, path, *options):
    """(status, all that curl printed, head included)."""
    done = box.commands.run(f"curl -sSi -m 20 --path-as-is {' '.join(options)} '{SHELL}{path}' 2>&1; true", timeout=60)
    status = re.match(r"HTTP/1.1 (\d+)", done.stdout)
    return int(status[1]) if status else 0, done.stdout


def told(api, daemon, box, path):
    """Everything that was told since the call for that path: the sandbox's log, its events, the daemon's log."""

    def logs():
        text = api.get(f"/v2/sandboxes/{box.sandbox_id}/logs", params={"limit": 200, "direction": "backward"}).text
        return text if path in text else None

    def events():
        text = api.get(f"/events/sandboxes/{box.sandbox_id}",
                       params={"types": "sandbox.shell.called", "limit": 100, "orderAsc": "false"}).text
        return text if path in text else None

    log = until(logs, f"the log tells of {path}")
    event = until(events, f"an event tells of {path}")
    return log + event + (daemon.data / "log").read_text(errors="replace")


def answer(status, *fields, body=b""):
    head = "".join(f"{field}\r\n" for field in fields)
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


# What the API says, by the place in which it repeats the key; {} is the key in some spelling.
ERRORS = {
    "a redirect that keeps the query": ("302 Found", "Location: http://evil.test/?key={}"),
    "a redirect with the key in its path": ("307 Temporary Redirect", "Location: http://evil.test/{}/x"),
    "a redirect with the key as a host": ("302 Found", "Location: //{}.evil.test/"),
    "a redirect with the key as a user": ("301 Moved", "Location: http://user:{}@evil.test/"),
    "a redirect to no URL": ("302 Found", "Location: javascript:{}"),
    "a redirect whose key is cut": ("302 Found", "Location: http://evil.test/" + "a" * 70 + "{}"),
    "a redirect outside of the base": ("302 Found", "Location: /outside?key={}"),
    "a content encoding": ("200 OK", "Content-Encoding: {}"),
    "a content encoding behind a known one": ("200 OK", "Content-Encoding: gzip, {}"),
    "a content encoding that Connection names": ("200 OK", "Connection: content-encoding", "Content-Encoding: {}"),
    "a header of an answer that is refused": ("200 OK", "X-Echo: {}", "Content-Encoding: br"),
    "a reason phrase": ("500 {}", "Content-Encoding: br"),
}


def names_of(what):
    """A last part of a path for each spelling, which the API knows its answer by."""
    return {spelling: re.sub(r"[^a-z0-9]+", "-", f"{what} {spelling}") for spelling in SPELLINGS}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", ERRORS)
def test_no_refusal_repeats_the_key(box, api, daemon, hostile, error, place):
    """An API repeats the key, in any spelling, in an answer that the shell refuses: neither the refusal, nor the sandbox's log, nor its events, nor the daemon's log has a piece of it."""
    paths = names_of(error)
    hostile.answers = {path: answer(*(part.replace("{}", SPELLINGS[spelling]) for part in ERRORS[error]))
                       for spelling, path in paths.items()}
    hostile.seen.clear()
    said = box.commands.run("; ".join(f"curl -sSi -m 20 {SHELL}/{place}/{path} 2>&1" for path in paths.values()),
                            timeout=120).stdout
    assert said.count("HTTP/1.1 502") == len(SPELLINGS), said
    assert len(hostile.seen) == len(SPELLINGS) and all(KEY in urllib.parse.unquote(seen) for seen in hostile.seen)
    assert leaks(said) == [], said
    assert leaks(told(api, daemon, box, f"/{place}/{[*paths.values()][-1]}")) == []


PASSES = {
    "a header": ("200 OK", "X-Echo: a {} b"),
    "a redirect within the base": ("302 Found", "Location: /v1/next?key={}"),
    "a location of no redirect": ("201 Created", "Location: http://evil.test/{}"),
    "a reason phrase": ("200 {}", "X-Other: 1"),
    "a cookie": ("200 OK", "Set-Cookie: key={}; Path=/"),
}


@pytest.mark.parametrize("where", PASSES)
def test_no_head_that_passes_repeats_the_key(box, hostile, where):
    """An API repeats the key, in any spelling, in the head of an answer that is passed on: it is redacted there."""
    paths = names_of(where)
    hostile.answers = {path: answer(*(part.replace("{}", SPELLINGS[spelling]) for part in PASSES[where]))
                       for spelling, path in paths.items()}
    said = box.commands.run("; ".join(f"curl -sSi -m 20 {SHELL}/header/{path} 2>&1" for path in paths.values()),
                            timeout=120).stdout
    assert len(re.findall("HTTP/1.1 [23]", said)) == len(SPELLINGS), said
    assert leaks(said) == [], said


def test_a_header_named_like_the_key_is_left_out(box, api, hostile):
    """An API uses the key as the name of a header, in whatever case: the program is not given that header."""
    named = "Sk-Live-Named.Like-A-Header-77Q"
    put(api, "header", header={"name": "X-Key", "value": named})
    hostile.answer = answer("200 OK", f"{named}: 1", f"x-{named.lower()}-y: 2", f"X-{named.upper()}: 3", "X-Kept: 4")
    status, said = call(box, "/header/named")
    assert status == 200 and "x-kept: 4" in said
    assert "named.like" not in said.lower()
    put(api, "header", header=BEARER)


def test_no_body_repeats_the_key(box, hostile):
    """An API repeats the key in a body, in any spelling, at once or in chunks of one byte: the program sees a mark."""
    whole, pieces = names_of("whole"), names_of("pieces")
    for spelling, key in SPELLINGS.items():
        body = f"<{key}>".encode()
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        hostile.answers[whole[spelling]] = answer("200 OK", body=body)
        hostile.answers[pieces[spelling]] = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks +
                                             b"0\r\n\r\n")
    paths = [*whole.values(), *pieces.values()]
    said = box.commands.run("; ".join(f"curl -sSi -m 20 {SHELL}/query/{path} 2>&1" for path in paths), timeout=120).stdout
    assert said.count("HTTP/1.1 200") == said.count("[REDACTED]") == len(paths), said
    assert leaks(said) == [], said


BROKEN = {
    "no HTTP at all": KEY.encode() + b"\r\n\r\n",
    "a malformed head": f"HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n".encode(),
    "a head without an end": f"HTTP/1.1 200 OK\r\nX-Echo: {KEY}".encode(),
    "a head that is too long": b"HTTP/1.1 200 OK\r\n" + f"X-Echo: {KEY * 40}\r\n".encode() * 100 + b"\r\n",
    "a transfer coding": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: {KEY}, chunked\r\n\r\n0\r\n\r\n".encode(),
    "a length that is none": f"HTTP/1.1 200 OK\r\nContent-Length: {KEY}\r\n\r\n".encode(),
    "a body that is cut": f"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{KEY}".encode(),
    "a switch of protocols": f"HTTP/1.1 101 {KEY}\r\nConnection: upgrade\r\nUpgrade: {KEY}\r\n\r\n{KEY}".encode(),
    "trailers": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Echo: {KEY}\r\n\r\n".encode(),
}


@pytest.mark.parametrize("how", BROKEN)
def test_no_broken_answer_repeats_the_key(box, api, daemon, hostile, how):
    """An API repeats the key in an answer that is no good: the error, the logs and the events have no piece of it."""
    hostile.answer, hostile.cut = BROKEN[how], True
    try:
        path = f"/header/{how.replace(' ', '-')}"
        _, said = call(box, path)
        assert leaks(said) == [], said
        assert leaks(told(api, daemon, box, path)) == []
    finally:
        hostile.cut = False


# ---- more than was granted ----

METHODS = ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "x-http-method-override",
           "X_HTTP_Method_Override", "X-Original-Method", "X-Forwarded-Method"]


@pytest.mark.parametrize("name", METHODS)
def test_a_header_cannot_override_the_method(box, hostile, name):
    """A request that is allowed carries a header which makes many servers take it for a DELETE: it is refused, and the API hears nothing."""
    count = len(hostile.seen)
    for method in ("GET", "POST"):
        status, said = call(box, "/reads/users/1", f"-X {method}", f"-H '{name}: DELETE'")
        assert status == 400 and "another method" in said, said
    assert len(hostile.seen) == count


FIELDS = ["_method=DELETE", "a=1&_method=DELETE", "%5fmethod=DELETE", "a=1;_method=DELETE", "_METHOD=DELETE",
          "X-HTTP-Method-Override=DELETE", "_method"]


@pytest.mark.parametrize("query", FIELDS)
def test_a_field_of_the_query_cannot_override_the_method(box, hostile, query):
    """A request that is allowed carries _method in its query, in any spelling: it is refused, and the API hears nothing."""
    count = len(hostile.seen)
    status, said = call(box, f"/reads/users/1?{query}", "-X POST")
    assert status == 400 and "another method" in said, said
    assert len(hostile.seen) == count


@pytest.mark.parametrize("name", ["X-Original-URL", "X-Rewrite-URL", "X-Original-URI", "X_Original_URL", "X-Forwarded-Uri"])
def test_a_header_cannot_override_the_path(box, hostile, name):
    """A request for an allowed path carries a header which makes some servers serve another path: it is refused."""
    count = len(hostile.seen)
    status, said = call(box, "/reads/users/1", f"-H '{name}: /v1/admin'")
    assert status == 400 and "path" in said, said
    assert len(hostile.seen) == count


def test_fields_that_only_look_alike_pass(box, hostile):
    """A field named method and a header that overrides nothing are the program's own affair, and pass."""
    hostile.answer = answer("200 OK")
    assert call(box, "/reads/users/1?method=search&my_method=x", "-H 'X-Method: x'")[0] == 200
    assert "method=search&my_method=x" in hostile.seen[-1] and "x-method: x" in hostile.seen[-1].lower()


def test_the_program_cannot_replace_or_remove_the_key(box, hostile):
    """A program sends the key's header itself, in other spellings, or names it in Connection: the API gets the shell's key, once, and nothing of the program's."""
    hostile.answer = answer("200 OK")
    for options in (["-H 'Authorization: mine'"], ["-H 'authorization: mine'", "-H 'AUTHORIZATION: mine'"],
                    ["-H 'Connection: authorization'"], ["-H 'Connection: close, Authorization'"]):
        assert call(box, "/header/own", *options)[0] == 200
        head = hostile.seen[-1].lower()
        assert head.count("authorization:") == 1 and f"authorization: bearer {KEY}".lower() in head and "mine" not in head
    assert call(box, "/sealed/own", "-H 'X_Key: mine'", "-H 'x-key: mine'")[0] == 200
    assert "mine" not in hostile.seen[-1] and hostile.seen[-1].count(KEY) == 1
    assert call(box, "/query/own?key=mine&KEY=mine&%6bey=mine")[0] == 200
    assert "mine" not in hostile.seen[-1]


SMUGGLED = {
    "two lengths": "POST /reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\n",
    "a length and chunks": "POST /reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\nContent-Length: 4\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another transfer coding": "POST /reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\n"
                               "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a folded header": "GET /reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\nX-A: b\r\n X-HTTP-Method: DELETE\r\n\r\n",
    "a space before the colon": "GET /reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\nX-HTTP-Method : DELETE\r\n\r\n",
    "a bare line feed": "GET /reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\nX-HTTP-Method: DELETE\r\n\r\n",
    "two hosts": "GET /reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\nHost: api.test\r\n\r\n",
    "CONNECT": "CONNECT api.test:80 HTTP/1.1\r\nHost: shell.atoll.internal\r\n\r\n",
    "an absolute target": "GET http://api.test/v1/admin HTTP/1.1\r\nHost: shell.atoll.internal\r\n\r\n",
    "a target with a user": "GET http://shell.atoll.internal@api.test/reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\n\r\n",
    "a method of its own": "DELETE\t/reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\n\r\n",
    "TRACE": "TRACE /reads/users/1 HTTP/1.1\r\nHost: shell.atoll.internal\r\n\r\n",
}


@pytest.mark.parametrize("trick", SMUGGLED)
def test_a_second_request_cannot_be_smuggled(box, hostile, trick):
    """A program sends a request that two servers may read differently: it is refused or means one allowed request, and the API never sees a DELETE, an admin path or a header that was hidden."""
    hostile.answer = answer("200 OK")
    count = len(hostile.seen)
    hidden = "DELETE /v1/admin HTTP/1.1\r\nHost: api.test\r\n\r\n"
    box.files.write("/tmp/request", SMUGGLED[trick] + hidden)
    box.files.write("/tmp/send.py", "import socket\n"
                    "s = socket.create_connection(('shell.atoll.internal', 80))\n"
                    "s.sendall(open('/tmp/request', 'rb').read())\n"
                    "s.settimeout(3)\n"
                    "said = b''\n"
                    "try:\n"
                    "    while piece := s.recv(4096): said += piece\n"
                    "except OSError: pass\n"
                    "print(said.decode())\n")
    said = box.commands.run("python3 /tmp/send.py", timeout=60).stdout
    assert said.startswith("HTTP/1.1 "), "it was answered, so it was read"
    for seen in hostile.seen[count:]:
        line, _, rest = seen.partition("\r\n")
        assert line in ("GET /v1/users/1 HTTP/1.1", "POST /v1/users/1 HTTP/1.1"), seen
        assert "x-http-method" not in rest.lower() or trick == "a folded header", seen


def test_a_name_that_moves_to_the_host_is_not_followed(box, names, hostile):
    """DNS rebinding: the shell's API first has a public address, then one of the host's own; the key does not go there."""
    hostile.answer = answer("200 OK", "Connection: close")
    assert call(box, "/moving/first")[0] == 200
    count = len(hostile.seen)
    for place in ("127.0.0.1", "169.254.169.254", "10.0.0.1"):
        names.table["moving.test"] = [place]
        status, said = call(box, "/moving/second")
        assert status == 502 and "may be reached" in said, said
    assert len(hostile.seen) == count
    names.table["moving.test"] = [API]
