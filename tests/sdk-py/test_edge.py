"""Servers on 127.0.0.1 inside a sandbox, reached through the edge with plain HTTP."""

import hashlib
import json
import os

import httpx
import pytest
import web
from conftest import SANDBOX_URL

PORT = 8080


@pytest.fixture(scope="module")
def server(sandbox):
    with web.serving(sandbox, "web_server.py", PORT):
        yield sandbox


@pytest.fixture
def client(server):
    with web.client(server.sandbox_id, PORT) as client:
        yield client


def test_routing_by_headers(client):
    answer = client.get("/hello")
    assert (answer.status_code, answer.text) == (200, "hello from inside")


@pytest.mark.parametrize("domain", ["localhost", "x.localhost", "LOCALHOST.:3000"])
@pytest.mark.parametrize("client", ["", "-a1b2c3d4"], ids=["id", "id-and-client"])
def test_routing_by_host(server, domain, client):
    host = f"{PORT}-{server.sandbox_id}{client}.{domain}"
    answer = httpx.get(f"{SANDBOX_URL}/hello", headers={"Host": host})
    assert (answer.status_code, answer.text) == (200, "hello from inside")


def test_path_query_and_headers_arrive_as_sent(client):
    answer = client.get(
        "/request?a=1&b=%2F..%2f&c=\u00e9", headers={"X-Custom": "value", "Cookie": "a=b"}
    ).json()
    assert answer["path"] == "/request?a=1&b=%2F..%2f&c=%C3%A9"
    headers = {name.lower(): value for name, value in answer["headers"].items()}
    assert (headers["x-custom"], headers["cookie"]) == ("value", "a=b")


def test_errors_of_the_server_are_its_own(client):
    assert client.get("/nothing-here").status_code == 404
    assert client.get("/nothing-here").headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("size", [0, 1, 65536, 30_000_000])
def test_a_body_with_a_length(client, size):
    body = os.urandom(1024) * (size // 1024) + b"x" * (size % 1024)
    answer = client.post("/digest", content=body).json()
    assert answer == {"length": size, "sha256": hashlib.sha256(body).hexdigest()}


def test_a_chunked_body(client):
    parts = [os.urandom(5000) for _ in range(200)]
    answer = client.post("/digest", content=iter(parts)).json()
    body = b"".join(parts)
    assert answer == {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def test_a_large_answer(client):
    with client.stream("GET", "/bytes?50000000") as answer:
        assert sum(len(part) for part in answer.iter_bytes()) == 50_000_000


def test_one_connection_serves_many_requests(client):
    assert {client.get("/hello").text for _ in range(50)} == {"hello from inside"}


def test_a_stream_is_not_held_back(client):
    """Each event is sent only after the one before it was read."""
    with client.stream("GET", "/events") as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        lines = (line for line in stream.iter_lines() if line)
        for number in range(3):
            assert next(lines) == f"data: {number}"
            client.get("/next" if number < 2 else "/end")
        assert list(lines) == []


def test_head(client):
    answer = client.request("HEAD", "/hello")
    assert answer.status_code == 501  # what Python's server answers to a method it lacks


def test_two_ports_of_one_sandbox(server, client):
    with web.serving(server, "web_server.py", 8081):
        with web.client(server.sandbox_id, 8081) as other:
            assert other.get("/hello").text == client.get("/hello").text == "hello from inside"


def test_a_server_on_all_addresses(server):
    command = "exec python3 -m http.server 8082 --bind 0.0.0.0 --directory /usr/share/doc"
    process = server.commands.run(command, background=True, timeout=0)
    try:
        web.wait_until_open(server, 8082)
        with web.client(server.sandbox_id, 8082) as client:
            assert "Directory listing" in client.get("/").text
    finally:
        server.commands.kill(process.pid)


def test_a_closed_port(server):
    with web.client(server.sandbox_id, 9) as client:
        answer = client.get("/")
    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert json.loads(answer.text) == {
        "sandboxId": server.sandbox_id,
        "message": "The sandbox is running but port is not open",
        "port": 9,
        "code": 502,
    }


@pytest.mark.parametrize("sandbox_id", ["i" + "0" * 20, "iabcdefghij0123456789"])
def test_an_unknown_sandbox(sandbox_id):
    with web.client(sandbox_id, PORT) as client:
        answer = client.get("/")
    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert json.loads(answer.text) == {
        "sandboxId": sandbox_id,
        "message": "The sandbox was not found",
        "code": 502,
    }


BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0", "Accept": "text/html"}


def page(sandbox_id, port, title, status, **headers):
    """What a browser gets: one page from <html to </html>, with its title and the sandbox's id."""
    with web.client(sandbox_id, port, headers={**BROWSER, **headers}) as client:
        answer = client.get("/")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text.startswith("<html") and answer.text.endswith("</html>")
    assert f"<title>{title}</title>" in answer.text and sandbox_id in answer.text
    return answer.text


def test_a_browser_gets_a_page(server):
    shown = page(server.sandbox_id, 9, "Closed Port Error", 502)
    assert "no service running on port" in shown
    page("iabcdefghij0123456789", PORT, "Sandbox Not Found", 502)


def test_a_browser_without_the_traffic_token_gets_a_page(new_sandbox):
    sandbox = new_sandbox(network={"allow_public_traffic": False})
    shown = page(sandbox.sandbox_id, 8000, "Missing Traffic Access Token", 403)
    assert "e2b-traffic-access-token" in shown
    wrong = {"e2b-traffic-access-token": "wrong"}
    page(sandbox.sandbox_id, 8000, "Invalid Traffic Access Token", 403, **wrong)


@pytest.mark.parametrize("headers", [
    {**BROWSER, "Accept": "application/json"},
    {**BROWSER, "Sec-Fetch-Mode": "cors"},
    {"User-Agent": "python-httpx/0.28", "Accept": "*/*"},
])
def test_a_program_gets_json(headers):
    with web.client("iabcdefghij0123456789", PORT, headers=headers) as client:
        answer = client.get("/")
    assert answer.status_code == 502 and answer.json()["message"] == "The sandbox was not found"


@pytest.mark.parametrize("port", ["", "0", "-1", "65536", "http", "80 81", "1e3", "00000000000080"])
def test_a_port_that_is_none(server, port):
    headers = {"E2b-Sandbox-Id": server.sandbox_id, "E2b-Sandbox-Port": port}
    answer = httpx.get(f"{SANDBOX_URL}/hello", headers=headers)
    assert answer.status_code == 400
    assert answer.text


@pytest.mark.parametrize("sandbox_id", ["../../etc", "i" * 5000, "i%00", "\u00e9".encode()])
def test_an_id_that_is_none(sandbox_id):
    headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "80"}
    answer = httpx.get(f"{SANDBOX_URL}/hello", headers=headers)
    assert answer.status_code in (400, 502)
    assert answer.text


# ---- API calls with the headers of sandbox traffic, as Python SDK 2.10 to 2.26 send them ----


def test_an_api_call_with_routing_headers_is_one(own_sandbox, api):
    headers = web.routing(own_sandbox.sandbox_id, web.AGENT_PORT)
    path = f"/sandboxes/{own_sandbox.sandbox_id}"
    assert api.get(path, headers=headers).json()["sandboxID"] == own_sandbox.sandbox_id
    assert api.post(f"{path}/connect", json={"timeout": 60}, headers=headers).status_code == 200
    assert api.post(f"{path}/pause", headers=headers).status_code == 204
    assert api.post(f"{path}/connect", json={"timeout": 60}, headers=headers).status_code == 201


def test_a_wrong_key_with_routing_headers_is_told_so(server):
    headers = {**web.routing(server.sandbox_id, web.AGENT_PORT), "X-API-Key": "e2b_" + "0" * 40}
    answer = httpx.get(f"{SANDBOX_URL}/sandboxes/{server.sandbox_id}", headers=headers)
    assert answer.status_code == 401
    assert "Cannot get the team" in answer.json()["message"]


@pytest.mark.parametrize("path", ["/sandboxes", "/templates/x", "/v2/sandboxes"])
def test_a_service_keeps_paths_that_the_api_has_too(client, api, path):
    answer = client.get(path, headers=api.headers)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


def test_a_host_that_names_the_agent_is_never_the_api(server, api):
    host = f"{web.AGENT_PORT}-{server.sandbox_id}.localhost"
    answer = api.get(f"/sandboxes/{server.sandbox_id}", headers={"Host": host})
    assert answer.status_code == 401 and "sandboxID" not in answer.text


def test_the_agent_keeps_its_own_paths_whatever_key_comes_along(server, api):
    headers = web.routing(server.sandbox_id, web.AGENT_PORT)
    assert api.get("/health", headers=headers).status_code == 204
    assert "mem_total" in api.get("/metrics", headers={**headers, "X-Access-Token": web.token(server)}).text


# ---- an access token and no routing headers, as Python SDK 2.7 to 2.26 sends them after connect ----


def test_an_access_token_alone_names_the_sandbox(server):
    with httpx.Client(base_url=SANDBOX_URL, headers={"X-Access-Token": web.token(server)}) as client:
        assert client.post("/process.Process/List", json={}).json()["processes"]
        assert client.post("/filesystem.Filesystem/Stat", json={"path": "/etc"}).json()["entry"]["name"] == "etc"
        assert "user:" in client.get("/files?path=/etc/passwd").text
        assert client.get("/health").status_code == 204


@pytest.mark.parametrize("path", ["/process.Process/List", "/health"])
def test_an_access_token_of_no_sandbox_is_told_so(path):
    answer = httpx.request("GET" if path == "/health" else "POST", SANDBOX_URL + path,
                           headers={"X-Access-Token": "none"})
    assert (answer.status_code, answer.json()["message"]) == (502, "The sandbox was not found")


def test_an_access_token_opens_no_other_path(server):
    answer = httpx.get(f"{SANDBOX_URL}/sandboxes", headers={"X-Access-Token": web.token(server)})
    assert answer.status_code == 401 and "authorization" in answer.json()["message"]
