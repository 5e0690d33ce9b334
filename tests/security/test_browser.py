"""A web page against a daemon on its visitor's own machine, in a real browser: it may neither find out about sandboxes nor
run anything in them, though it knows a sandbox's id. The page of a client that holds the sandbox's token may do both."""
import json
import os
import textwrap
import urllib.parse

import httpx
import pytest
from e2b import Sandbox

import browser as browsers

URL = os.environ["E2B_API_URL"]
PORT = urllib.parse.urlsplit(URL).port
KEY = {"X-API-Key": os.environ["E2B_API_KEY"]}
OURS = {"agent": 49983, "interpreter": 49999, "gateway": 50005}

# Notes every request that reaches it, answers with CORS for everybody, as the code interpreter does, and opens WebSockets.
SERVICE = textwrap.dedent("""
    import base64, hashlib, http.server, json, sys, threading
    class Service(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def serve(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            with open("/tmp/seen", "a") as seen:
                seen.write(json.dumps([self.server.server_port, self.command, self.path, body, self.headers.get("Origin"),
                                       self.headers.get("Host")]) + "\\n")
            key = self.headers.get("Sec-WebSocket-Key")
            self.send_response(101 if key else 200)
            if key:
                digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
                self.send_header("Upgrade", "websocket")
                self.send_header("Connection", "Upgrade")
                self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
                self.end_headers()
                return
            for name in ("Origin", "Methods", "Headers"):
                self.send_header("Access-Control-Allow-" + name, "*")
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"ran")
        do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = serve
    for port in map(int, sys.argv[1:]):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Service)
        threading.Thread(target=server.serve_forever).start()
""")


@pytest.fixture(scope="module")
def browser():
    browser = browsers.Browser(URL)
    yield browser
    browser.close()


def serve(sandbox):
    sandbox.files.write("/tmp/service.py", SERVICE)
    sandbox.commands.run("python3 /tmp/service.py 49999 50005 8000", background=True, timeout=0)
    sandbox.commands.run("for i in $(seq 100); do curl -s localhost:8000/up && break; sleep 0.1; done")


@pytest.fixture(scope="module", params=["secure", "not secure"])
def served(request):
    sandbox = Sandbox.create(timeout=600, secure=request.param == "secure")
    serve(sandbox)
    yield sandbox
    sandbox.kill()


@pytest.fixture(scope="module")
def secure():
    sandbox = Sandbox.create(timeout=600)
    serve(sandbox)
    yield sandbox
    sandbox.kill()


def seen(sandbox):
    """What reached the service since the last look."""
    text = sandbox.commands.run("touch /tmp/seen; cat /tmp/seen; rm /tmp/seen").stdout
    return [json.loads(line) for line in text.splitlines()]


def ids():
    return {row["sandboxID"] for row in httpx.get(f"{URL}/v2/sandboxes", headers=KEY).json()}


# ---- what there is to find out ----

LOOK = """
    for (const path of ["/metrics", "/health", "/v2/sandboxes", "/sandboxes", "/teams", "/api-keys", "/templates",
                        "/events/sandboxes", "/tools", "/tools/openapi.json", "/mcp", "/files?path=/etc/passwd", "/"])
        for (const base of D.bases) {
            await attempt(base + path, async () => text(await fetch(base + path)));
            await attempt("with cookies " + base + path, async () => text(await fetch(base + path, {credentials: "include"})));
        }
"""


def test_a_page_finds_out_about_no_sandbox(browser, secure):
    """A web page of another site reads /metrics, lists and every other address of the daemon, and learns of no sandbox."""
    bases = [f"http://{host}:{PORT}" for host in ("127.0.0.1", "localhost", "sandbox.localhost")]
    results = browser.visit(browsers.EVIL, LOOK, bases=bases)
    assert len(results) == 2 * 3 * 13
    for name, result in results.items():
        assert secure.sandbox_id not in result and "atoll_" not in result, name
        # A page may read that a key is missing: what the SDKs read in browsers.
        assert result.startswith("refused: ") or '"code":401' in result or '"code":404' in result, (name, result)
    for path in ("/metrics", "/health", "/tools", "/tools/openapi.json", "/mcp"):
        assert results[bases[0] + path] == "refused: TypeError", path


def test_a_rebound_name_is_not_served(browser, secure):
    """A web page rebinds its name to the daemon (DNS rebinding), and every request for that name is answered 421.

    The page's own origin is the daemon then: no preflight, and every answer can be read."""
    attempts = LOOK + """
    const headers = {"E2b-Sandbox-Id": D.id, "E2b-Sandbox-Port": "49999", "Content-Type": "application/json"};
    await attempt("execute", async () => text(await fetch("/execute", {method: "POST", headers, body: "{}"})));
    await attempt("label", async () => text(await fetch(D.label + "/execute", {method: "POST", headers, body: "{}"})));
    await attempt("socket", () => socket("ws://" + location.host + "/mcp"));
    """
    label = f"http://49999-{secure.sandbox_id}.{browsers.REBOUND}:{PORT}"
    seen(secure)
    results = browser.visit(browsers.REBOUND, attempts, bases=[""], id=secure.sandbox_id, label=label)
    refused = [results.pop("label"), results.pop("socket")]
    assert all(result.startswith("refused: ") for result in refused), refused
    assert len(results) == 2 * 13 + 1
    for name, result in results.items():
        assert result.startswith("basic 421 ") and "is not a name of this daemon" in result, (name, result)
    assert seen(secure) == []


def test_other_names_are_refused_on_every_protocol(secure):
    """Requests for foreign names, in every spelling and over HTTP/1.1 and HTTP/2, are answered 421."""
    with httpx.Client(http1=False, http2=True) as two, httpx.Client() as one:
        for client in (one, two):
            for host in ("evil.test", f"evil.test:{PORT}", "localhost.evil.test", "127.0.0.1.evil.test", "sandbox.evil.test",
                         f"49999-{secure.sandbox_id}.evil.test", "xlocalhost", "machine"):
                for path in ("/health", "/metrics", "/v2/sandboxes", "/mcp", "/execute"):
                    answer = client.get(URL + path, headers={"Host": host, **KEY})
                    assert answer.status_code == 421 and answer.json()["code"] == 421, (host, path, answer.text)
                    assert "access-control-allow-origin" not in answer.headers
            for host in ("localhost", "LOCALHOST.", "127.0.0.1:1", "[::1]:80", "10.1.2.3", "x.localhost"):
                assert client.get(URL + "/health", headers={"Host": host}).status_code == 200, host


# ---- what there is to run ----

RUN = """
    const body = JSON.stringify({code: "owned"});
    const plain = {"Content-Type": "text/plain"}, typed = {"Content-Type": "application/json"};
    const all = [];
    for (const [name, base] of Object.entries(D.bases))
        for (const path of ["/execute", "/contexts", "/contexts/x/restart", "/mcp", "/process.Process/Start", "/files/compose"]) {
            const at = name + " " + path, url = base + path;
            all.push(
                attempt(at + " simple", async () => text(await fetch(url, {method: "POST", headers: plain, body}))),
                attempt(at + " opaque", async () => text(await fetch(url, {method: "POST", mode: "no-cors", body}))),
                attempt(at + " get", async () => text(await fetch(url))),
                attempt(at + " form", () => form(url, '{"code": "owned", "x": "', '"}')),
                attempt(at + " beacon", async () => navigator.sendBeacon(url, body)),
                attempt(at + " image", () => new Promise((_, no) => { const i = new Image(); i.onerror = no; i.src = url; })));
            if (path == "/execute" || path == "/mcp")
                all.push(attempt(at + " socket", () => socket(url.replace("http", "ws"))));
        }
    await Promise.all(all);
"""
RUNS = 3 * (6 * 6 + 2)


def bases(sandbox, **ports):
    return {name: f"http://{port}-{sandbox.sandbox_id}.localhost:{PORT}" for name, port in ports.items()}


def test_a_page_runs_nothing_without_being_asked(browser, served):
    """A web page that knows a sandbox's id sends forms, beacons, images, plain fetches and WebSockets to the
    ports of agent, interpreter and gateway: none arrives.

    These are all the requests that a page can send to any server without a preflight."""
    processes = len(served.commands.list())
    seen(served)
    results = browser.visit(browsers.EVIL, RUN, bases=bases(served, **OURS))
    assert len(results) == RUNS
    assert "open" not in results.values()
    readable = {name: result for name, result in results.items() if str(result).startswith(("cors 2", "basic"))}
    assert readable == {}
    assert seen(served) == []
    assert len(served.commands.list()) == processes


def test_a_neighbours_page_runs_nothing(browser, secure):
    """A web page that code in one sandbox serves sends the same to another sandbox: none arrives.

    Its site is the same as that of all sandboxes."""
    neighbour = Sandbox.create(timeout=300)
    try:
        page = browsers.page(RUN, {"bases": bases(secure, **OURS)}, browser.report("/neighbour"))
        neighbour.files.write("/tmp/site/index.html", page)
        neighbour.commands.run("cd /tmp/site && python3 -m http.server 8000", background=True, timeout=0)
        neighbour.commands.run("for i in $(seq 100); do curl -s localhost:8000 >/tmp/up && break; sleep 0.1; done")
        seen(secure)
        results = browser.open(f"http://8000-{neighbour.sandbox_id}.localhost:{PORT}/", "/neighbour")
        assert len(results) == RUNS and "open" not in results.values()
        assert seen(secure) == []
    finally:
        neighbour.kill()


ASKED = """
    const body = JSON.stringify({code: "owned"}), typed = {"Content-Type": "application/json"};
    const routed = {"E2b-Sandbox-Id": D.id, "E2b-Sandbox-Port": "49999", ...typed};
    const start = JSON.stringify({process: {cmd: "/bin/touch", args: ["/tmp/owned"]}});
    await attempt("typed", async () => text(await fetch(D.bases.interpreter + "/execute", {method: "POST", headers: typed, body})));
    await attempt("routed", async () => text(await fetch(D.url + "/execute", {method: "POST", headers: routed, body})));
    await attempt("guessed", async () => text(await fetch(D.bases.interpreter + "/execute",
        {method: "POST", headers: {...typed, "X-Access-Token": "guess"}, body})));
    await attempt("agent", async () => text(await fetch(D.bases.agent + "/process.Process/Start",
        {method: "POST", headers: {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}, body: start})));
    await attempt("environment", async () => text(await fetch(D.bases.agent + "/envs", {headers: {"E2b-Sandbox-Id": D.id}})));
"""


def test_a_page_that_asks_first_needs_the_token_of_a_secure_sandbox(browser, secure):
    """A web page that asks by preflight runs nothing in a secure sandbox without its access token."""
    seen(secure)
    results = browser.visit(browsers.EVIL, ASKED, bases=bases(secure, **OURS), id=secure.sandbox_id, url=URL)
    # By headers there is only one address for all, and it answers no preflight for a sandbox: the SDKs use names in browsers.
    assert results.pop("routed") == "refused: TypeError"
    assert len(results) == 4
    for name, result in results.items():
        assert result.startswith(("cors 401 ", "cors 415 ")), (name, result)
    assert [line for line in seen(secure) if line[1] != "OPTIONS"] == []
    assert not secure.files.exists("/tmp/owned")


# ---- what must go on working ----

CLIENT = """
    const typed = {"Content-Type": "application/json", "X-Access-Token": D.token};
    const post = (url, headers) => async () => text(await fetch(url, {method: "POST", headers, body: "{}"}));
    await attempt("execute", post(D.bases.interpreter + "/execute", typed));
    await attempt("contexts", post(D.bases.interpreter + "/contexts", {"Content-Type": "application/json"}));
    await attempt("health", async () => text(await fetch(D.bases.interpreter + "/health")));
    await attempt("list", async () => text(await fetch(D.url + "/v2/sandboxes", {headers: {"X-API-Key": D.key}})));
    await attempt("download", async () => text(await fetch(D.download)));
    await attempt("app", async () => text(await fetch(D.bases.app + "/page", {method: "POST", body: "x"})));
    await attempt("app's form", () => form(D.bases.app + "/form", "a", "b"));
    await attempt("app's socket", () => socket(D.bases.app.replace("http", "ws") + "/socket"));
"""


def test_a_clients_page_works(browser, secure):
    """A web page that has the key or the token works as the SDKs do, and every port of a user's own program is for all pages."""
    secure.files.write("/tmp/for-pages", "read by a page")
    download = secure.download_url("/tmp/for-pages")
    seen(secure)
    results = browser.visit(browsers.EVIL, CLIENT, bases=bases(secure, **OURS, app=8000), id=secure.sandbox_id, url=URL,
                            token=secure._envd_access_token, key=KEY["X-API-Key"], download=download)
    assert results["execute"] == results["contexts"] == "cors 200 ran", results
    assert results["health"] == "cors 200 ran"
    assert secure.sandbox_id in results["list"]
    assert results["download"] == "cors 200 read by a page"
    assert results["app"] == "cors 200 ran" and results["app's form"] == "sent" and results["app's socket"] == "open"
    host = f"8000-{secure.sandbox_id}.localhost:{PORT}"
    origins = {(line[2], line[4], line[5]) for line in seen(secure) if line[0] == 8000}
    # A service of a user's sees who asks, and by which name: it can refuse origins itself.
    assert {(path, browser.origin(browsers.EVIL), host) for path in ("/page", "/socket", "/form")} == origins


# ---- WebSockets without a browser ----


@pytest.mark.parametrize("path", ["/", "/mcp", "/metrics", "/v2/sandboxes", "/tools", "/files?path=x"])
def test_no_endpoint_of_the_daemons_becomes_a_websocket(path):
    """A page opens a WebSocket to an endpoint of the daemon: none is taken.

    A browser asks for no permission before a handshake."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "http://evil.test"}
    refused = (200,) if path == "/" else (400, 401, 403, 404, 405)  # 200: it says what it is, as to any request
    assert httpx.get(URL + path, headers=upgrade).status_code in refused
    assert httpx.get(URL + path, headers=upgrade | KEY).status_code != 101


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://8000-iabc.localhost:3000", "https://x.localhost"])
@pytest.mark.parametrize("port", OURS.values())
def test_ports_of_ours_take_no_websocket_of_a_page(secure, port, origin):
    """A page opens a WebSocket to a port of agent, interpreter or gateway: it is refused by its Origin."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": origin,
               "Host": f"{port}-{secure.sandbox_id}.localhost:{PORT}"}
    seen(secure)
    assert httpx.get(f"{URL}/execute", headers=upgrade).status_code == 403
    assert seen(secure) == []


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://rebound.test", "https://8000-x.localhost"])
def test_mcp_is_for_pages_of_this_machine(origin):
    """A page of another site calls /mcp, and is refused by its Origin although it has a key."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    answer = httpx.post(f"{URL}/mcp", json=message, headers={**KEY, "Origin": origin})
    assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers
