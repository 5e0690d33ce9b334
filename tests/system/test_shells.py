"""API shells: code uses an account without holding its key. A stand-in API on loopback says what it was
asked, and echoes the key in every way that it can."""

import base64
import gzip
import http.server
import json
import os
import ssl
import subprocess
import tempfile
import threading
import urllib.parse

import httpx
import pytest
from daemon import PROGRAM, running, until
from e2b import Sandbox
from world import Authority, Names

KEY = "ghp_4f/9Q+shell-key~that stays=outside"
SEALED = "sk-sealed-2b7e151628aed2a6abf7"
PLAIN, SECURE = "198.51.100.1", "198.51.100.2"
SHELL = "http://shell.atoll.internal"


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunks(self, pieces, wait=None):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
            if wait:
                wait.wait(10)
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        size = int(self.headers["Content-Length"] or 0)
        said = {"method": self.command, "path": self.path, "headers": {name.title(): value for name, value in self.headers.items()},
                "body": self.rfile.read(size).decode()}
        self.server.seen.append(said)
        path = self.path.partition("?")[0]
        if path == "/v1/spellings":
            token = KEY.encode()
            lines = [base64.b64encode(b"x" * n + token + b"y" * n) for n in range(3)]
            self.answer(b"\n".join([token, base64.urlsafe_b64encode(token), urllib.parse.quote(KEY).encode(), *lines]),
                        X_Echo=KEY, X_Kept="yes")
        elif path == "/v1/pieces":
            self.chunks([b"data: one\n\n"] + [bytes([c]) for c in f"<{KEY}>".encode()])
        elif path == "/v1/events":
            self.chunks([b"data: first\n\n", b"data: second\n\n"], self.server.go_on)
        elif path == "/v1/gzip":
            self.answer(gzip.compress(KEY.encode()), Content_Encoding="gzip")
        elif path == "/v1/moved":
            self.answer(b"", 302, Location=urllib.parse.unquote(self.path.partition("?to=")[2]))
        elif path == "/v1/big":
            self.answer(os.urandom(3 << 20).hex().encode())
        else:
            self.answer(json.dumps(said).encode(), Content_Type="application/json")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_GET

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, leaf=None):
        super().__init__(("127.0.0.1", 0), Api)
        self.seen, self.go_on = [], threading.Event()
        if leaf:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*leaf)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


class World:
    def __init__(self, path):
        authority = Authority(path)
        self.plain, self.secure = Server(), Server(authority.leaf("secure.test"))
        self.trusted = tempfile.NamedTemporaryFile("w", suffix=".pem")  # the daemon's user reads it
        self.trusted.write(open(authority.cert).read())
        self.trusted.flush()
        os.chmod(self.trusted.name, 0o644)
        self.names = Names({"plain.test": [PLAIN], "secure.test": [SECURE], "wrong.test": [SECURE],
                            "inner.test": ["127.0.0.1"], "metadata.test": ["169.254.169.254"]})

    def settings(self):
        return ["--egress-map", f"{PLAIN}:80=127.0.0.1:{self.plain.server_port},"
                f"{SECURE}:443=127.0.0.1:{self.secure.server_port}",
                "--egress-dns", f"127.0.0.1:{self.names.port}", "--egress-ca", self.trusted.name]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def daemon(world):
    with running(*world.settings()) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def api(daemon):
    with httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=60) as client:
        yield client


BEARER = {"name": "Authorization", "value": "Bearer ${e2b.secrets.account}"}


def put(api, name, base="http://plain.test/v1", **fields):
    if "query" not in fields:
        fields.setdefault("header", BEARER)
    answer = api.put(f"/shells/{name}", json={"baseUrl": base, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module", autouse=True)
def shells(api):
    assert api.post("/secrets", json={"name": "account", "value": KEY}).status_code == 201
    put(api, "plain", methods=["GET", "POST", "HEAD"], paths=["/**"])
    put(api, "secure", "https://secure.test/v1")
    put(api, "narrow", methods=["GET"], paths=["/users/*"])
    put(api, "sealed", header={"name": "X-Key", "value": SEALED})
    put(api, "field", query={"name": "key", "value": SEALED})
    put(api, "ungranted")


GRANTED = ["plain", "secure", "narrow", "sealed", "field"]


def create(api, daemon, shells=GRANTED, **fields):
    answer = api.post("/sandboxes", json={"templateID": "base", "timeout": 600, "shells": shells, **fields})
    assert answer.status_code == 201, answer.text
    return Sandbox.connect(answer.json()["sandboxID"], **daemon.sdk)


@pytest.fixture(scope="module")
def box(api, daemon):
    sandbox = create(api, daemon, allow_internet_access=False)
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def curl(sandbox, path, *options):
    """(status, body) of a call to the shells."""
    out = sandbox.commands.run(f"curl -sS -m 30 --path-as-is -w '\\n%{{http_code}}' {' '.join(options)} '{SHELL}{path}'",
                               timeout=60).stdout
    body, _, status = out.rpartition("\n")
    return int(status), body


def refused(sandbox, path, *options):
    status, body = curl(sandbox, path, *options)
    return status, json.loads(body)["message"]


# ---- what passes ----


@pytest.mark.attack
def test_code_uses_the_account_and_never_sees_the_key(box, world):
    """Code that uses an API shell does not see its key."""
    status, body = curl(box, "/plain/users/7?q=1", "-H 'Authorization: mine'", "-H 'X-Other: kept'")
    seen = world.plain.seen[-1]
    assert status == 200
    assert seen["path"] == "/v1/users/7?q=1"
    assert seen["headers"]["Authorization"] == f"Bearer {KEY}"
    assert seen["headers"]["Host"] == "plain.test" and seen["headers"]["X-Other"] == "kept"
    assert seen["headers"]["Accept-Encoding"] == "identity"
    assert json.loads(body)["headers"]["Authorization"] == "[REDACTED]"
    assert KEY not in body


def test_a_body_is_passed_on(box, world):
    assert curl(box, "/plain/items", "-d 'a=1&b=2'")[0] == 200
    assert world.plain.seen[-1]["method"] == "POST" and world.plain.seen[-1]["body"] == "a=1&b=2"


def test_https_is_verified(box, api, world):
    assert curl(box, "/secure/x")[0] == 200
    assert world.secure.seen[-1]["headers"]["Authorization"] == f"Bearer {KEY}"
    put(api, "secure", "https://wrong.test/v1")
    count = len(world.secure.seen)
    status, said = refused(box, "/secure/x")
    assert status == 502 and "wrong.test cannot be reached" in said
    assert len(world.secure.seen) == count
    put(api, "secure", "https://secure.test/v1")


def test_sealed_keys_and_keys_in_the_query(box, world):
    assert curl(box, "/sealed/x")[0] == 200
    assert world.plain.seen[-1]["headers"]["X-Key"] == SEALED
    status, body = curl(box, "/field/x?a=1&key=mine")
    assert status == 200
    assert world.plain.seen[-1]["path"] == f"/v1/x?a=1&key={SEALED}"
    assert SEALED not in body


@pytest.mark.attack
def test_an_echo_is_guarded_in_every_spelling(box):
    """An API that echoes the key, plain, in base64 or percent-encoded, does not show it to the sandbox."""
    status, body = curl(box, "/plain/spellings", "-i")
    assert status == 200 and "x-kept: yes" in body
    lines = body.replace("\r", "").partition("\n\n")[2].splitlines()
    assert len(lines) == 6
    assert all("[REDACTED]" in line and len(line) < 20 for line in lines), lines
    assert "x-echo: [REDACTED]" in body


@pytest.mark.attack
def test_an_echo_is_guarded_across_pieces(box):
    """An API that echoes the key in pieces does not show it to the sandbox.

    A stream that waited for more at each character of a key's beginning would stand still: three pass."""
    assert curl(box, "/plain/pieces") == (200, "data: one\n\n<ghp[REDACTED]>")


def test_a_stream_is_not_held_up_by_the_guard(box, world):
    world.plain.go_on.clear()
    lines = []
    handle = box.commands.run(f"curl -sSN -m 30 {SHELL}/plain/events", background=True)
    reader = threading.Thread(target=lambda: lines.extend(out for out, _, _ in handle if out))
    reader.start()
    until(lambda: "".join(lines) == "data: first\n\n", f"the first event has come: {lines}")
    world.plain.go_on.set()
    reader.join(30)
    assert "".join(lines) == "data: first\n\ndata: second\n\n"


def test_large_answers_pass_whole(box):
    assert curl(box, "/plain/big", "-o /tmp/big")[0] == 200
    assert box.commands.run("stat -c %s /tmp/big").stdout.strip() == str(6 << 20)


def test_head_and_parts(box, world):
    status, _ = curl(box, "/plain/x", "-I")
    assert status == 200 and world.plain.seen[-1]["method"] == "HEAD"
    status, _ = curl(box, "/plain/x", "-r 0-5")
    assert status == 200 and "Range" not in world.plain.seen[-1]["headers"]


@pytest.mark.attack
def test_what_is_compressed_is_not_given(box):
    """A compressed answer, which cannot be searched for the key, is not given to the sandbox."""
    status, said = refused(box, "/plain/gzip")
    assert status == 502 and "compressed (gzip)" in said


def test_many_requests_of_one_connection_reach_different_shells(box, world):
    urls = " ".join(f"{SHELL}/{name}/n" for name in ("plain", "sealed", "secure", "plain"))
    out = box.commands.run(f"curl -sS -m 30 -o /dev/null -w '%{{http_code}} %{{num_connects}}\\n' {urls}").stdout.split()
    # Only the first file is written by -o; the rest goes to stdout, so look at the codes.
    assert out[0] == "200"
    assert world.secure.seen[-1]["path"] == "/v1/n"


# ---- redirects ----


@pytest.mark.attack
def test_redirects_stay_in_the_shell(box, world):
    """Redirects of an API that lead elsewhere are refused, and are not followed with the key."""
    status, body = curl(box, "/plain/moved?to=/v1/users/9", "-L")
    assert status == 200 and json.loads(body)["path"] == "/v1/users/9"
    for to in ("http://evil.test/x", "//evil.test/v1/x", "/outside"):
        status, said = refused(box, f"/plain/moved?to={urllib.parse.quote(to, safe='')}")
        assert status == 502 and f"redirects to {to}" in said and "does not cover" in said


# ---- what is refused ----

TRICKS = ["/users/../admin", "/users/%2e%2e/admin", "/users/..%2fadmin", "/users/a%2fb", "//users/1", "/users//1",
          "/users/%252e%252e", "/users/a%5c..", "/users/..;/admin", "/users/.", "/users/%00"]


@pytest.mark.attack
def test_paths_that_servers_read_differently_are_refused(box, world):
    """Paths that two servers read differently are refused."""
    count = len(world.plain.seen)
    for path in TRICKS:
        status, said = refused(box, f"/narrow{path}")
        assert status == 400 and "path" in said, path
    assert len(world.plain.seen) == count


@pytest.mark.attack
def test_other_methods_and_paths_are_refused(box, world):
    """Methods and paths that a shell does not allow are refused."""
    count = len(world.plain.seen)
    assert refused(box, "/narrow/users/1", "-X DELETE") == (403, 'shell "narrow" does not allow the method DELETE')
    assert refused(box, "/narrow/admin") == (403, 'shell "narrow" does not allow the path /admin')
    assert refused(box, "/narrow/users/1/2") == (403, 'shell "narrow" does not allow the path /users/1/2')
    assert refused(box, "/") == (400, f"say which shell: {SHELL}/NAME/PATH")
    assert len(world.plain.seen) == count


@pytest.mark.attack
def test_requests_for_other_hosts_are_refused(box):
    """Requests through a shell for other hosts are refused."""
    assert refused(box, "/plain/x", "-H 'Host: plain.test'")[0] == 421
    assert refused(box, "/plain/x", "--request-target http://plain.test/x", "-H 'Host: plain.test'")[0] in (400, 421)
    status, said = refused(box, "/plain/x", "-H 'Connection: Upgrade'", "-H 'Upgrade: websocket'")
    assert status == 400 and "WebSocket" in said


def test_only_port_80_is_served(box):
    for place in ("https://shell.atoll.internal/plain/x", "http://shell.atoll.internal:8080/plain/x"):
        assert box.commands.run(f"curl -sk -m 10 {place} >/dev/null || echo failed").stdout == "failed\n"


@pytest.mark.attack
def test_shells_that_were_not_granted_are_refused(box, api, daemon):
    """Shells that a sandbox was not granted are refused."""
    assert refused(box, "/ungranted/x") == (403, 'shell "ungranted" is not granted to this sandbox')
    assert refused(box, "/nowhere/x") == (403, 'shell "nowhere" is not granted to this sandbox')
    other = create(api, daemon, [])
    try:
        assert refused(other, "/plain/x") == (403, 'shell "plain" is not granted to this sandbox')
    finally:
        other.kill()


@pytest.mark.attack
def test_addresses_of_the_host_stay_shut(box, api):
    """A shell whose API is the host itself reaches nothing."""
    for name in ("inner.test", "metadata.test", "127.0.0.1"):
        put(api, "narrow", f"http://{name}/")
        status, said = refused(box, "/narrow/users/1")
        assert status == 502 and "may be reached" in said, said
    put(api, "narrow", methods=["GET"], paths=["/users/*"])


# ---- changes ----


def test_changes_apply_at_once(box, api, world):
    put(api, "narrow", paths=["/other/*"])
    assert refused(box, "/narrow/users/1")[0] == 403
    assert curl(box, "/narrow/other/1")[0] == 200
    assert api.delete("/shells/narrow").status_code == 204
    assert refused(box, "/narrow/other/1") == (404, 'there is no shell "narrow" any more')
    put(api, "narrow", methods=["GET"], paths=["/users/*"])
    assert curl(box, "/narrow/users/1")[0] == 200
    assert api.delete("/secrets/account").status_code == 204
    status, said = refused(box, "/narrow/users/1")
    assert status == 404 and "no secret" in said
    assert api.post("/secrets", json={"name": "account", "value": KEY}).status_code == 201
    assert curl(box, "/narrow/users/1")[0] == 200


def test_the_rest_of_the_world_stays_shut(box):
    """The sandbox has no internet: a shell is a grant of its own."""
    result = box.commands.run("curl -sS -m 5 http://plain.test/ 2>&1 || true").stdout
    assert "resolve" in result or "reset" in result


# ---- the resource ----


def test_a_shell_is_shown_without_its_key(api, daemon):
    listed = {shell["name"]: shell for shell in api.get("/shells").json()}
    assert set(GRANTED) <= set(listed)
    assert listed["sealed"]["header"] == {"name": "X-Key", "sealed": True}
    assert listed["plain"]["header"] == BEARER
    whole = api.get("/shells").text + api.get("/shells/sealed").text + api.get("/shells/field").text
    assert SEALED not in whole and KEY not in whole
    assert api.get("/shells/sealed").headers["cache-control"] == "no-store"
    assert SEALED.encode() not in (daemon.data / "state" / "atoll.db").read_bytes()


def test_what_was_shown_can_be_put_back(api, box, world):
    shown = api.get("/shells/sealed").json()
    answer = api.put("/shells/sealed", json=shown | {"paths": ["/only"]})
    assert answer.status_code == 200 and answer.json()["header"] == {"name": "X-Key", "sealed": True}
    assert curl(box, "/sealed/only")[0] == 200 and world.plain.seen[-1]["headers"]["X-Key"] == SEALED
    answer = api.put("/shells/sealed", json=shown | {"baseUrl": "http://evil.test"})
    assert answer.status_code == 400 and "stays with its base URL" in answer.text
    put(api, "sealed", header={"name": "X-Key", "value": SEALED})


def test_bad_definitions_are_refused_with_the_field(api):
    for body, said in [({}, "baseUrl"), ({"baseUrl": "http://a.test"}, "header and query"),
                       ({"baseUrl": "http://a.test", "header": {"name": "Host", "value": "x"}}, "header.name"),
                       ({"baseUrl": "http://a.test", "header": {"name": "X", "value": "a\nb"}}, "control"),
                       ({"baseUrl": "http://a.test", "header": {"name": "X"}}, "missing"),
                       ({"baseUrl": "http://a.test", "header": BEARER, "methods": ["TRACE"]}, "methods")]:
        answer = api.put("/shells/bad", json=body)
        assert answer.status_code == 400 and said in answer.json()["message"], answer.text
    assert api.put("/shells/Bad.Name", json={"baseUrl": "http://a.test", "header": BEARER}).status_code == 400
    assert api.get("/shells/bad").status_code == 404
    assert api.delete("/shells/bad").status_code == 404
    assert httpx.get(f"{api.base_url}/shells").status_code == 401


def test_a_create_with_unknown_shells_is_refused(api):
    for shells, said in [(["nowhere"], 'shells[0]: there is no shell "nowhere"'), ([1], "shells[0] must be a string"),
                         ("plain", "shells must be")]:
        answer = api.post("/sandboxes", json={"templateID": "base", "shells": shells})
        assert answer.status_code == 400 and said in answer.json()["message"], answer.text


def test_the_command_line_keeps_the_key_off_the_list_of_processes(daemon, api):
    def atoll(*words, **options):
        return subprocess.run([PROGRAM, "shell", *words, "--data", str(daemon.data)], capture_output=True, text=True, **options)

    made = atoll("put", "cli", "https://api.test/v2", "--header", "X-Key", "--method", "GET", "--method", "PUT",
                 "--path", "/a/*", input=f"{SEALED}\n")
    assert made.returncode == 0 and "cli\thttps://api.test/v2\tGET,PUT\t/a/*\theader X-Key: (sealed)" in made.stdout
    assert "cli\t" in atoll("list").stdout
    assert atoll("put", "cli", "https://api.test/v2").returncode == 1
    assert atoll("rm", "cli").returncode == 0 and atoll("rm", "cli").returncode == 3
    assert atoll("open").returncode == 2


# ---- what is told ----


def test_each_call_is_an_event_with_status_and_time(box, api):
    curl(box, "/plain/told?secret=1")
    refused(box, "/narrow/told")

    def told():
        events = api.get(f"/events/sandboxes/{box.sandbox_id}", params={"types": "sandbox.shell.called"}).json()
        return [event["eventData"] for event in events if "told" in event["eventData"]["path"]]

    calls = until(lambda: len(told()) == 2 and told(), "both calls are on record")
    by_shell = {call["shell"]: call for call in calls}
    assert by_shell["plain"]["status"] == 200 and by_shell["plain"]["method"] == "GET"
    assert by_shell["plain"]["path"] == "/plain/told" and by_shell["plain"]["durationMs"] >= 0
    assert by_shell["narrow"]["status"] == 403 and "does not allow the path" in by_shell["narrow"]["reason"]


def test_the_tool_grants_them_too(api, daemon):
    made = api.post("/tools/create_sandbox", json={"shells": ["plain"]})
    assert made.status_code == 200, made.text
    box = Sandbox.connect(made.json()["sandbox_id"], **daemon.sdk)
    try:
        assert curl(box, "/plain/x")[0] == 200
    finally:
        box.kill()
    answer = api.post("/tools/create_sandbox", json={"shells": ["nowhere"]})
    assert answer.status_code == 400 and "nowhere" in answer.json()["message"]


# ---- what it survives ----


def test_grants_survive_pauses_restarts_and_forks(api, daemon, world):
    box = create(api, daemon, ["plain"])
    copies = []
    try:
        box.pause()
        box = Sandbox.connect(box.sandbox_id, **daemon.sdk)
        assert curl(box, "/plain/resumed")[0] == 200
        copies = api.post(f"/sandboxes/{box.sandbox_id}/fork", json={}).json()
        copy = Sandbox.connect(copies[0]["sandbox"]["sandboxID"], **daemon.sdk)
        assert curl(copy, "/plain/forked")[0] == 200
        assert refused(copy, "/sealed/forked")[0] == 403
        daemon.kill_child("serve")
        assert api.get("/shells/plain").json()["header"] == BEARER
        assert curl(box, "/plain/restarted")[0] == 200
        assert world.plain.seen[-1]["headers"]["Authorization"] == f"Bearer {KEY}"
        assert api.get(f"/sandboxes/{box.sandbox_id}").json()["shells"] == ["plain"]
    finally:
        for sandbox in [box.sandbox_id, *(copy["sandbox"]["sandboxID"] for copy in copies)]:
            Sandbox.kill(sandbox, **daemon.sdk)
