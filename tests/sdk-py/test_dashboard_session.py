"""The dashboard's files and sessions over real HTTP: what a browser may do with a cookie, and what it may not."""

import os
import re
import socket
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import web
from conftest import API_KEY, API_URL

DOMAIN = os.environ.get("E2B_DOMAIN", "")
DATA = Path(os.environ["ATOLL_DATA"])
COOKIE = "atoll_session"
TOKEN = re.compile(r"[0-9a-f]{64}")
SECURITY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def browser(address="127.0.0.1", **options):
    """A client that keeps cookies, as a browser does, and comes from that address."""
    return httpx.Client(base_url=API_URL, transport=httpx.HTTPTransport(local_address=address), timeout=60, **options)


def login(page, **body):
    answer = page.post("/dashboard/session", json=body or {"apiKey": API_KEY})
    assert answer.status_code == 201, answer.text
    page.headers["X-Atoll-CSRF"] = answer.json()["csrf"]
    return answer


@pytest.fixture
def page():
    """A browser that is logged in."""
    with browser() as page:
        login(page)
        yield page


@pytest.fixture
def admin_token():
    return (DATA / "state" / "admin.token").read_text().strip()


@pytest.fixture
def new_key(api):
    made = []

    def make(**fields):
        answer = api.post("/api-keys", json={"name": "of a dashboard", **fields})
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        return answer.json()

    yield make
    for key_id in made:
        api.delete(f"/api-keys/{key_id}")


def link(**headers):
    answer = httpx.post(f"{API_URL}/dashboard/links", headers={"X-API-Key": API_KEY, **headers})
    assert answer.status_code == 201, answer.text
    return answer.json()["link"]


# ---- logging in and out ----


def test_a_login_sets_a_cookie_that_scripts_cannot_read(api):
    with browser() as page:
        answer = login(page)
        (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
        assert cookie.key == COOKIE and TOKEN.fullmatch(cookie.value)
        assert cookie["httponly"] and cookie["samesite"] == "Strict" and cookie["path"] == "/"
        assert not cookie["domain"] and not cookie["secure"]
        assert cookie.value not in answer.text and API_KEY not in answer.text
        assert answer.headers["cache-control"] == "no-store"
        shown = page.get("/dashboard/session").json()
        (team,) = api.get("/teams").json()
        assert shown["team"] == {"id": team["teamID"], "name": team["name"]}
        assert shown["readOnly"] is False and shown["operator"] is False and TOKEN.fullmatch(shown["csrf"])
        assert shown["key"]["name"] and shown["version"] and shown["expiresAt"]


def test_over_tls_the_cookie_is_bound_to_the_host():
    if not DOMAIN:
        pytest.fail("the daemon has no domain")
    with httpx.Client(base_url=f"https://{DOMAIN}", verify=False, timeout=60) as page:  # noqa: S501
        answer = page.post("/dashboard/session", json={"apiKey": API_KEY})
        assert answer.status_code == 201, answer.text
        (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
        assert cookie.key == f"__Host-{COOKIE}" and cookie["secure"] and cookie["path"] == "/" and not cookie["domain"]
        csrf = {"X-Atoll-CSRF": answer.json()["csrf"]}
        assert page.get("/sandboxes", headers=csrf).status_code == 200
        page.cookies.clear()
        # A sandbox's page can set a cookie of the plain name for the whole domain: over TLS it counts for nothing.
        plain = {"Cookie": f"{COOKIE}={cookie.value}"}
        assert page.get("/sandboxes", headers={**csrf, **plain}).status_code == 401


def test_without_a_session_the_page_is_told_to_log_in():
    answer = httpx.get(f"{API_URL}/dashboard/session")
    assert answer.status_code == 401 and "log in" in answer.json()["message"]


def test_a_wrong_key_is_answered_as_the_api_does():
    for key in ("e2b_" + "0" * 40, "e2b_" + "0" * 39, "sk_e2b_" + "0" * 40):
        with browser("127.0.0.20") as page:
            answer = page.post("/dashboard/session", json={"apiKey": key})
            plain = page.get("/sandboxes", headers={"X-API-Key": key})
            assert (answer.status_code, answer.json()) == (plain.status_code, plain.json())
            assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("body", [
    {}, {"apiKey": 5}, {"apiKey": None}, {"link": []}, {"apiKey": API_KEY, "link": "x"}, {"adminKey": {}}, [],
])
def test_a_login_of_another_form_is_refused(body):
    answer = httpx.post(f"{API_URL}/dashboard/session", json=body)
    assert answer.status_code == 400 and answer.json()["message"]


def test_many_failed_logins_of_one_address_have_to_wait():
    with browser("127.0.0.21") as page:
        for _ in range(10):
            assert page.post("/dashboard/session", json={"apiKey": "e2b_" + "1" * 40}).status_code == 401
        answer = page.post("/dashboard/session", json={"apiKey": API_KEY})
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) <= 60
        assert "try again" in answer.json()["message"]
    with browser("127.0.0.22") as other:
        login(other)


def test_a_logout_ends_the_session(page):
    stolen = page.cookies[COOKIE]
    answer = page.delete("/dashboard/session")
    assert answer.status_code == 204 and "Max-Age=0" in answer.headers["set-cookie"]
    with browser(cookies={COOKIE: stolen}, headers={"X-Atoll-CSRF": page.headers["X-Atoll-CSRF"]}) as thief:
        assert thief.get("/sandboxes").status_code == 401
        assert thief.get("/dashboard/session").status_code == 401


def test_a_logout_needs_the_token(page):
    del page.headers["X-Atoll-CSRF"]
    assert page.delete("/dashboard/session").status_code == 403
    assert page.get("/dashboard/session").status_code == 200


def test_a_revoked_key_ends_its_sessions_at_once(api, new_key):
    key = new_key()
    with browser() as page:
        login(page, apiKey=key["key"])
        assert page.get("/sandboxes").status_code == 200
        assert api.delete(f"/api-keys/{key['id']}").status_code == 204
        assert page.get("/sandboxes").status_code == 401
        assert page.get("/dashboard/session").status_code == 401


def test_a_key_has_a_limit_of_sessions(new_key):
    key = new_key()
    first, more = browser(), []
    with first:
        login(first, apiKey=key["key"])
        for _ in range(50):
            with browser() as page:
                login(page, apiKey=key["key"])
                more.append(page.cookies[COOKIE])
        assert first.get("/sandboxes").status_code == 401
        assert len(set(more)) == 50


# ---- pages of others ----


@pytest.mark.parametrize("token", [None, "", "0" * 64, "x" * 64, "short"])
@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/sandboxes"), ("POST", "/sandboxes"), ("GET", "/metrics"), ("GET", "/v2/templates"),
    ("DELETE", "/api-keys/x"), ("GET", "/admin/teams"), ("POST", "/dashboard/links"),
])
def test_the_cookie_alone_opens_nothing(page, method, path, token):
    del page.headers["X-Atoll-CSRF"]
    headers = {} if token is None else {"X-Atoll-CSRF": token}
    answer = page.request(method, path, headers=headers, json={} if method == "POST" else None)
    assert answer.status_code == 403 and "X-Atoll-CSRF" in answer.json()["message"], answer.text


@pytest.mark.parametrize("path", ["/tools", "/tools/list_sandboxes", "/mcp"])
def test_the_cookie_alone_runs_no_tool(page, path):
    del page.headers["X-Atoll-CSRF"]
    answer = page.post(path, json={}) if path != "/tools" else page.get(path)
    assert answer.status_code in (401, 403), answer.text


def test_the_token_of_another_session_does_not_fit(page):
    with browser() as other:
        login(other)
        answer = page.get("/sandboxes", headers={"X-Atoll-CSRF": other.headers["X-Atoll-CSRF"]})
        assert answer.status_code == 403


@pytest.mark.parametrize("headers", [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": f"{API_URL}0"}, {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
])
def test_a_foreign_page_neither_logs_in_nor_reads_the_session(page, headers):
    assert page.get("/dashboard/session", headers=headers).status_code == 403
    answer = page.post("/dashboard/session", json={"apiKey": API_KEY}, headers=headers)
    assert answer.status_code == 403 and "set-cookie" not in answer.headers


def test_no_page_of_another_origin_may_read_the_session(page):
    for origin in (None, API_URL):
        answer = page.get("/dashboard/session", headers={"Origin": origin} if origin else {})
        assert answer.status_code == 200 and "access-control-allow-origin" not in answer.headers
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET",
             "Access-Control-Request-Headers": "x-atoll-csrf"}
    preflight = httpx.options(f"{API_URL}/sandboxes", headers=asked)
    assert "x-atoll-csrf" not in preflight.headers.get("access-control-allow-headers", "").lower()
    assert "access-control-allow-credentials" not in preflight.headers


def test_a_key_beside_the_cookie_is_what_counts(page):
    del page.headers["X-Atoll-CSRF"]
    assert page.get("/sandboxes", headers={"X-API-Key": API_KEY}).status_code == 200
    assert page.get("/sandboxes", headers={"X-API-Key": "e2b_" + "0" * 40}).status_code == 401


def test_of_two_sessions_in_one_request_none_is_guessed(page):
    mine = page.cookies[COOKIE]
    with browser() as other:
        login(other)
        both = {"Cookie": f"{COOKIE}={other.cookies[COOKIE]}; {COOKIE}={mine}"}
        assert httpx.get(f"{API_URL}/dashboard/session", headers=both).status_code == 401
        token = {"X-Atoll-CSRF": page.headers["X-Atoll-CSRF"]}
        assert httpx.get(f"{API_URL}/sandboxes", headers={**both, **token}).status_code == 200


@pytest.mark.parametrize("cookie", [
    "", "=", ";", "atoll_session", "atoll_session=", "atoll_session=;", f"{COOKIE}={'g' * 64}", f"{COOKIE}={'0' * 63}",
    f"{COOKIE}={'0' * 65}", f'{COOKIE}="{"0" * 64}"', f"x{COOKIE}={'0' * 64}", ";" * 3000, f"{COOKIE}=" * 500,
    f"__Host-{COOKIE}={'0' * 64}", f"{COOKIE}\t=\t{'0' * 64}",
])
def test_hostile_cookies_are_no_session(cookie):
    answer = httpx.get(f"{API_URL}/sandboxes", headers={"Cookie": cookie, "X-Atoll-CSRF": "0" * 64})
    assert answer.status_code in (401, 403) and answer.json()["message"]
    assert httpx.get(f"{API_URL}/dashboard/session", headers={"Cookie": cookie}).status_code == 401


# ---- what a session may ----


def test_a_session_may_what_its_key_may(page, api):
    made = page.post("/sandboxes", json={"templateID": "base", "timeout": 60, "secure": True})
    assert made.status_code == 201, made.text
    sandbox_id = made.json()["sandboxID"]
    try:
        assert page.get(f"/sandboxes/{sandbox_id}").json()["envdAccessToken"]
        assert sandbox_id in [row["sandboxID"] for row in api.get("/sandboxes").json()]
    finally:
        assert page.delete(f"/sandboxes/{sandbox_id}").status_code == 204
    assert page.get("/metrics").status_code == 200
    assert page.get("/teams").json()[0]["apiKey"] == ""


def test_a_session_may_call_tools(page):
    assert page.get("/tools").json()["tools"]
    made = page.post("/tools/create_sandbox", json={"timeout_seconds": 60})
    assert made.status_code == 200, made.text
    sandbox_id = re.search(r"\bi[a-z0-9]{20}\b", made.text)[0]
    assert sandbox_id in page.post("/tools/list_sandboxes", json={}).text
    assert page.post("/tools/kill_sandbox", json={"sandbox_id": sandbox_id}).status_code == 200
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    accept = {"Accept": "application/json, text/event-stream"}
    assert page.post("/mcp", json=hello, headers=accept).status_code == 200


def test_a_handle_of_a_session_is_no_key_from_outside(page):
    for text in ("atoll_session_" + "0" * 40, page.cookies[COOKIE]):
        assert httpx.get(f"{API_URL}/sandboxes", headers={"X-API-Key": text}).status_code == 401


# ---- links ----


def test_a_link_logs_in_once():
    token = link()
    assert TOKEN.fullmatch(token)
    with browser("127.0.0.23") as page:
        login(page, link=token)
        assert page.get("/sandboxes").status_code == 200
        again = page.post("/dashboard/session", json={"link": token})
        assert again.status_code == 401 and "atoll open" in again.json()["message"]


def test_a_link_is_made_with_a_key(page):
    answer = page.post("/dashboard/links")
    assert answer.status_code == 403 and "API key" in answer.json()["message"]
    assert httpx.post(f"{API_URL}/dashboard/links").status_code == 401


def test_a_link_of_a_revoked_key_does_not_work(api, new_key):
    key = new_key()
    token = link(**{"X-API-Key": key["key"]})
    api.delete(f"/api-keys/{key['id']}")
    with browser("127.0.0.24") as page:
        assert page.post("/dashboard/session", json={"link": token}).status_code == 401


# ---- the operator ----


def test_an_admin_key_gives_a_session_the_rights_of_the_operator(page, admin_token):
    refused = page.get("/admin/teams")
    assert refused.status_code == 403 and "operator" in refused.json()["message"]
    answer = page.post("/dashboard/session", json={"adminKey": admin_token})
    assert answer.status_code == 201 and answer.json()["operator"] is True
    assert page.get("/admin/teams").status_code == 200 and page.get("/nodes").status_code == 200
    assert page.get("/dashboard/session").json()["operator"] is True
    del page.headers["X-Atoll-CSRF"]
    assert page.get("/admin/teams").status_code == 403
    assert page.post("/dashboard/session", json={"adminKey": admin_token}).status_code == 403


def test_a_wrong_admin_key_gives_nothing():
    with browser("127.0.0.25") as page:
        login(page)
        answer = page.post("/dashboard/session", json={"adminKey": "atoll_admin_" + "0" * 40})
        assert answer.status_code == 401 and page.get("/admin/teams").status_code == 403
    without = httpx.post(f"{API_URL}/dashboard/session", json={"adminKey": "atoll_admin_" + "0" * 40})
    assert without.status_code == 401


def test_the_operators_rights_end_with_the_admin_key(admin_token):
    with httpx.Client(base_url=API_URL, headers={"X-Admin-Token": admin_token}) as operator, browser() as page:
        made = operator.post("/admin/keys", json={"name": "for a session"}).json()
        login(page, apiKey=API_KEY, adminKey=made["key"])
        assert page.get("/admin/teams").status_code == 200
        assert operator.delete(f"/admin/keys/{made['id']}").status_code == 204
        assert page.get("/admin/teams").status_code == 403
        assert page.get("/sandboxes").status_code == 200


def test_a_link_may_carry_the_rights_of_the_operator(admin_token):
    with browser() as page:
        login(page, link=link(**{"X-Admin-Token": admin_token}))
        assert page.get("/admin/teams").status_code == 200
    wrong = httpx.post(f"{API_URL}/dashboard/links", headers={"X-API-Key": API_KEY, "X-Admin-Token": "atoll_admin_x"})
    assert wrong.status_code == 401


# ---- read-only keys ----


def operations():
    document = httpx.get(f"{API_URL}/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), re.sub(r"\{[^}]*\}", "x", path), operation


def is_for_keys(operation):
    return operation["x-atoll-access"] in ("key", "full-key")


def test_a_read_only_key_changes_nothing(new_key):
    key = new_key(readOnly=True)
    assert key["readOnly"] is True
    refused = 0
    with httpx.Client(base_url=API_URL, headers={"X-API-Key": key["key"]}) as reader:
        for method, path, operation in operations():
            reads = operation.get("x-atoll-read-only", method == "GET")
            if not is_for_keys(operation) or reads:
                continue
            answer = reader.request(method, path, json={} if "requestBody" in operation else None)
            assert answer.status_code == 403 and "read-only" in answer.json()["message"], f"{method} {path}: {answer.text}"
            refused += 1
    assert refused > 40


def test_a_read_only_key_sees_everything(new_key, sandbox):
    key = new_key(readOnly=True)
    with httpx.Client(base_url=API_URL, headers={"X-API-Key": key["key"]}) as reader:
        for path in ("/sandboxes", "/v2/sandboxes", "/templates", "/volumes", "/secrets", "/api-keys", "/snapshots",
                     "/metrics", "/events/sandboxes", f"/sandboxes/{sandbox.sandbox_id}",
                     f"/v2/sandboxes/{sandbox.sandbox_id}/logs", "/tools"):
            assert reader.get(path).status_code == 200, path


def test_a_read_only_key_gets_no_token_with_which_it_could_write(api, new_key, sandbox):
    key = new_key(readOnly=True)
    volume = api.post("/volumes", json={"name": "of-a-reader"}).json()
    try:
        with httpx.Client(base_url=API_URL, headers={"X-API-Key": key["key"]}) as reader:
            assert "envdAccessToken" in api.get(f"/sandboxes/{sandbox.sandbox_id}").json()
            shown = reader.get(f"/sandboxes/{sandbox.sandbox_id}").json()
            assert "envdAccessToken" not in shown and "trafficAccessToken" not in shown
            assert "token" in api.get(f"/volumes/{volume['volumeID']}").json()
            assert "token" not in reader.get(f"/volumes/{volume['volumeID']}").json()
    finally:
        api.delete(f"/volumes/{volume['volumeID']}")


def test_a_read_only_key_calls_no_tool(new_key):
    key = new_key(readOnly=True)
    with httpx.Client(base_url=API_URL, headers={"X-API-Key": key["key"]}) as reader:
        for path in ("/tools/create_sandbox", "/tools/list_sandboxes", "/api/code/execute", "/mcp"):
            answer = reader.post(path, json={})
            assert answer.status_code == 403 and "read-only" in answer.json()["message"], answer.text


def test_a_session_of_a_read_only_key_is_read_only(new_key, admin_token):
    key = new_key(readOnly=True)
    with browser("127.0.0.26") as page:
        answer = login(page, apiKey=key["key"])
        assert answer.json()["readOnly"] is True
        assert page.get("/sandboxes").status_code == 200
        assert page.post("/sandboxes", json={"templateID": "base"}).status_code == 403
        assert page.post("/dashboard/session", json={"adminKey": admin_token}).status_code == 403
        assert page.get("/admin/teams").status_code == 403
    reader = {"X-API-Key": key["key"]}
    assert httpx.post(f"{API_URL}/dashboard/links", headers=reader).status_code == 201
    refused = httpx.post(f"{API_URL}/dashboard/links", headers={**reader, "X-Admin-Token": admin_token})
    assert refused.status_code == 403


def test_a_key_stays_read_only(api, new_key):
    key = new_key(readOnly=True)
    assert api.patch(f"/api-keys/{key['id']}", json={"name": "renamed", "readOnly": False}).status_code == 202
    (row,) = [row for row in api.get("/api-keys").json() if row["id"] == key["id"]]
    assert row["readOnly"] is True and row["name"] == "renamed"


# ---- files ----


def assets():
    """The page, and all that it and its files name below /assets."""
    found, open_ = {}, ["/"]
    while open_:
        path = open_.pop()
        answer = httpx.get(f"{API_URL}{path}")
        assert answer.status_code == 200, path
        found[path] = answer
        if path == "/" or path.endswith((".js", ".css")):
            names = {name if name.startswith("/") else f"/{name}"
                     for name in re.findall(r"/?assets/[A-Za-z0-9_.-]+\.[a-z0-9]+", answer.text)}
            names |= {f"/assets/{name}" for name in re.findall(r"""["'`]\./([A-Za-z0-9_.-]+\.js)["'`]""", answer.text)}
            open_ += sorted(names - found.keys() - set(open_))
    return found


def test_the_page_has_a_strict_policy_and_a_new_nonce_each_time():
    nonces = set()
    for _ in range(3):
        answer = httpx.get(f"{API_URL}/", headers={"Accept": "text/html"})
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'" and policy["script-src"] == "'self'"
        assert policy["connect-src"] == "'self'" and policy["frame-ancestors"] == "'none'"
        nonce = re.fullmatch(r"'self' 'nonce-([A-Za-z0-9+/]{22}==)'", policy["style-src"])[1]
        assert "__CSP_NONCE__" not in answer.text and answer.headers["cache-control"] == "no-store"
        assert 'name="csp-nonce"' not in answer.text or nonce in answer.text
        nonces.add(nonce)
        assert "unsafe" not in answer.headers["content-security-policy"]
    assert len(nonces) == 3


def test_every_file_has_its_headers():
    found = assets()
    for path, answer in found.items():
        for name, value in SECURITY.items():
            assert answer.headers[name] == value, f"{path}: {name}"
        assert "default-src 'none'" in answer.headers["content-security-policy"], path
        assert "access-control-allow-origin" not in answer.headers and "set-cookie" not in answer.headers, path
        head = httpx.head(f"{API_URL}{path}")
        assert head.status_code == 200 and head.content == b"" and head.headers["content-type"] == answer.headers["content-type"]
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            refused = httpx.request(method, f"{API_URL}{path}")
            assert refused.status_code == 405 and refused.headers["allow"] == "GET, HEAD", f"{method} {path}"


def test_assets_are_kept_by_browsers_and_packed():
    for path, answer in assets().items():
        if not path.startswith("/assets/"):
            continue
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable", path
        assert answer.headers["content-encoding"] == "gzip" and answer.headers["vary"] == "Accept-Encoding"
        again = httpx.get(f"{API_URL}{path}", headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304 and again.content == b""
        for coding in ("identity", "gzip;q=0", "br;q=0"):
            plain = httpx.get(f"{API_URL}{path}", headers={"Accept-Encoding": coding})
            assert "content-encoding" not in plain.headers and plain.content == answer.content, path


def packed_bytes(path, coding):
    with httpx.stream("GET", f"{API_URL}{path}", headers={"Accept-Encoding": coding}) as answer:
        assert answer.headers.get("content-encoding") == coding or not path.endswith((".js", ".css")), path
        return sum(len(piece) for piece in answer.iter_raw())


@pytest.mark.parametrize(("coding", "most"), [("br", 400_000), ("gzip", 430_000)])
def test_all_files_together_are_small(coding, most):
    found = [path for path in assets() if path.startswith("/assets/")]
    assert len([path for path in found if path.endswith(".js")]) >= 5 and any(path.endswith(".css") for path in found)
    total = sum(packed_bytes(path, coding) for path in ["/", *found])
    assert 200_000 < total < most


def raw_get(path):
    where = urlsplit(API_URL)
    with socket.create_connection((where.hostname, where.port), timeout=30) as peer:
        peer.sendall(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while part := peer.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1]), answer


@pytest.mark.parametrize("path", [
    "/assets/", "/assets/..", "/assets/../", "/assets/../../etc/passwd", "/assets/%2e%2e/%2e%2e/etc/passwd",
    "/assets/..%2f..%2fetc%2fpasswd", "/assets//etc/passwd", "/assets/%00", "/assets/x.js", "/index.html", "//", "/./",
    "/assets/./", "/web_files.c",
])
def test_there_is_nothing_else_to_fetch(path):
    status, answer = raw_get(path)
    assert status in (400, 404), answer[:200]
    assert b"root:" not in answer


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "same-origin"])
def test_an_address_that_another_page_named_says_so(site):
    """The page then uses no link to log in that came with it."""
    foreign = site in ("cross-site", "same-site")
    for query in ("", "?", "?from=here", "?from=elsewhere&x", "?from=elsewhere"):
        answer = httpx.get(f"{API_URL}/{query}", headers={"Sec-Fetch-Site": site, "Accept": "text/html"})
        if foreign and query != "?from=elsewhere":
            assert answer.status_code == 303 and answer.headers["location"] == "/?from=elsewhere"
        else:
            assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")


def test_a_program_that_wants_json_gets_it():
    answer = httpx.get(f"{API_URL}/", headers={"Accept": "application/json"})
    assert answer.status_code == 200 and answer.json()["name"] == "atoll"


# ---- sandboxes ----


def test_a_sandboxs_host_does_not_serve_the_dashboard(own_sandbox, page):
    host = f"8000-{own_sandbox.sandbox_id}.localhost"
    port = urlsplit(API_URL).port
    for path in ("/", "/dashboard/session"):
        answer = httpx.get(f"{API_URL}{path}", headers={"Host": f"{host}:{port}", "Accept": "application/json"})
        assert answer.status_code == 502, answer.text
    cookie = {"Cookie": f"{COOKIE}={page.cookies[COOKIE]}", "X-Atoll-CSRF": page.headers["X-Atoll-CSRF"]}
    answer = httpx.get(f"{API_URL}/sandboxes", headers={"Host": f"{host}:{port}", **cookie})
    assert answer.status_code == 502


ECHO = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(dict(self.headers)).encode()
        self.send_response(200)
        for name, value in (("Set-Cookie", "atoll_session=" + "0" * 64 + "; Path=/"), ("Set-Cookie", "own=1"),
                            ("Clear-Site-Data", '"cookies"'), ("X-Content-Type-Options", "none"), ("Set-Login", "logged-in"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


@pytest.fixture
def echo(own_sandbox):
    own_sandbox.files.write("/tmp/echo.py", ECHO)
    own_sandbox.commands.run("exec python3 /tmp/echo.py", background=True, timeout=0)
    web.wait_until_open(own_sandbox, 8000)
    return own_sandbox


def test_no_sandbox_sees_or_sets_the_dashboards_cookie(echo, page):
    routing = web.routing(echo.sandbox_id, 8000)
    cookies = f"a=1; {COOKIE}={page.cookies[COOKIE]}; b=2; __Host-{COOKIE}={'0' * 64}"
    for headers in ({"Cookie": cookies}, {"Cookie": cookies, "X-Atoll-CSRF": page.headers["X-Atoll-CSRF"]}):
        answer = httpx.get(f"{API_URL}/", headers={**routing, **headers})
        seen = {name.lower(): value for name, value in answer.json().items()}
        assert seen["cookie"] == "a=1; b=2" and "x-atoll-csrf" not in seen
        assert "set-cookie" not in answer.headers and "clear-site-data" not in answer.headers
    plain = httpx.get(f"{API_URL}/", headers={**routing, "Cookie": "a=1; c=3"})
    assert plain.headers.get_list("set-cookie") == ["own=1"]
    assert {name.lower(): value for name, value in plain.json().items()}["cookie"] == "a=1; c=3"


def test_a_link_to_a_file_shows_no_document_of_the_dashboards_origin(own_sandbox):
    """Whoever has a key can make such a link and send it to the operator."""
    for name, document in (("page.html", True), ("drawing.svg", True), ("page.xhtml", True), ("paper.pdf", False)):
        own_sandbox.files.write(f"/tmp/{name}", "<script>alert(document.domain)</script>")
        link = own_sandbox.download_url(f"/tmp/{name}")
        assert link.startswith(API_URL)
        answer = httpx.get(link)
        assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers.get("content-security-policy") == ("sandbox" if document else None)
    by_name = urlsplit(link)._replace(scheme="http", netloc=urlsplit(API_URL).netloc, path="/files").geturl()
    host = {"Host": f"49983-{own_sandbox.sandbox_id}.localhost:{urlsplit(API_URL).port}"}
    answer = httpx.get(by_name.replace("paper.pdf", "page.html"), headers=host)
    assert "content-security-policy" not in answer.headers  # another origin, which is the sandbox's own


def test_an_answer_to_a_page_is_never_its_document(echo, page):
    headers = {**web.routing(echo.sandbox_id, 8000), "X-Atoll-CSRF": "agent"}
    answer = httpx.get(f"{API_URL}/", headers=headers)
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert "set-login" not in answer.headers


# ---- WebSockets ----

SOCKET = """
import base64, hashlib, socket
server = socket.create_server(("127.0.0.1", 8001))
while True:
    peer, _ = server.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head and (part := peer.recv(65536)):
        head += part
    if not head:
        continue
    lines = head.decode().split("\\r\\n")
    fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if ": " in line)}
    if lines[0].split()[1] == "/page":
        peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\nContent-Length: 25\\r\\n\\r\\n<script>alert(1)</script>")
    else:
        accept = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        peer.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSet-Cookie: own=1\\r\\nSec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
        peer.sendall(lines[0].encode() + b"|" + fields.get("cookie", "-").encode() + b"|")
        while part := peer.recv(65536):
            peer.sendall(part)
    peer.close()
"""


@pytest.fixture
def screen(own_sandbox):
    own_sandbox.files.write("/tmp/screen.py", SOCKET)
    own_sandbox.commands.run("exec python3 /tmp/screen.py", background=True, timeout=0)
    web.wait_until_open(own_sandbox, 8001)
    return own_sandbox


def open_stream(path, page=None, send=b"", **headers):
    """The status and what came first, of a handshake for a WebSocket."""
    where = urlsplit(API_URL)
    fields = {"Host": where.netloc, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": API_URL}
    if page:
        fields["Cookie"] = f"{COOKIE}={page.cookies[COOKIE]}"
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    with socket.create_connection((where.hostname, where.port), timeout=30) as peer:
        peer.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += peer.recv(65536)
        status = int(answer.split(b" ", 2)[1])
        if status == 101:
            peer.sendall(send)
            while not answer.endswith(send) or send not in answer:
                answer += peer.recv(65536)
    return status, answer


def test_a_page_reaches_the_screen_of_a_sandbox(screen, page):
    path = f"/dashboard/sandboxes/{screen.sandbox_id}/stream/8001"
    status, answer = open_stream(path, page, b"\x81\x05hello")
    assert status == 101, answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"set-cookie" not in head.lower()
    assert body == b"GET /websockify HTTP/1.1|-|\x81\x05hello"
    status, answer = open_stream(f"{path}?path=/other", page, b"x")
    assert status == 101 and b"GET /other " in answer


def test_nothing_but_a_websocket_comes_from_inside(screen, page):
    path = f"/dashboard/sandboxes/{screen.sandbox_id}/stream/8001"
    status, answer = open_stream(f"{path}?path=/page", page)
    assert status == 502 and b"alert" not in answer
    for more in ({"Connection": None}, {"Upgrade": "h2c"}):
        status, answer = open_stream(path, page, **more)
        assert status == 400, answer
    for where in ("0", "65536", "x", "-1", "8001x"):
        assert open_stream(f"/dashboard/sandboxes/{screen.sandbox_id}/stream/{where}", page)[0] == 400


def test_only_our_page_with_its_session_opens_a_screen(screen, page, new_key):
    path = f"/dashboard/sandboxes/{screen.sandbox_id}/stream/8001"
    assert open_stream(path)[0] == 401
    for origin in (None, "https://evil.example", "null", f"http://8001-{screen.sandbox_id}.localhost"):
        assert open_stream(path, page, Origin=origin)[0] == 403
    assert open_stream(f"/dashboard/sandboxes/i{'0' * 20}/stream/8001", page)[0] == 502
    assert open_stream(f"/dashboard/sandboxes/{screen.sandbox_id}/stream/{web.AGENT_PORT}", page)[0] in (401, 403)
    with browser() as reader:
        login(reader, apiKey=new_key(readOnly=True)["key"])
        assert open_stream(path, reader)[0] == 403
