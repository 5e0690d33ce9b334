"""Two teams on one daemon. The attacker has a good key of the other team and every id, name and token shape of ours: what
is ours does not exist for it, in any face (REST, tools, MCP, the edge), and the answer is the one for ids that nobody
has."""

import json
import pathlib
import re
import sys
import urllib.parse
import uuid

import httpx
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

from daemon import until  # noqa: E402
from e2b import Sandbox  # noqa: E402
from teams import two_teams  # noqa: E402
from world import Names, Web  # noqa: E402

API = "198.51.100.1"
VALUE = "needle-of-our-team-3c1b-9f"
CODE = "print('our code')\n"


class Ours:
    """One of everything, made with our key."""

    def __init__(self, api):
        self.api = api
        made = self.post("/sandboxes", {"templateID": "base", "timeout": 900, "secure": True}, 201)
        self.sandbox, self.token = made["sandboxID"], made["envdAccessToken"]
        self.paused = self.post("/sandboxes", {"templateID": "base", "timeout": 900, "secure": True}, 201)["sandboxID"]
        assert api.post(f"/sandboxes/{self.paused}/pause").status_code == 204
        self.snapshot = self.post(f"/sandboxes/{self.sandbox}/snapshots", {"name": "our-snapshot"}, 201)["snapshotID"]
        built = self.post("/v3/templates", {"name": "our-template"}, 202)
        self.template, self.build = built["templateID"], built["buildID"]
        start = api.post(f"/v2/templates/{self.template}/builds/{self.build}", json={"fromTemplate": "base", "steps": []})
        assert start.status_code == 202, start.text
        until(lambda: api.get(f"/templates/{self.template}/builds/{self.build}/status").json()["status"] == "ready",
              "our template is built", 300)
        volume = self.post("/volumes", {"name": "our-volume"}, 201)
        self.volume, self.volume_token = volume["volumeID"], volume["token"]
        self.webhook = self.post("/events/webhooks", {"name": "ours", "url": "https://hooks.test/x", "events": ["sandbox.lifecycle.created"],
                                                      "signatureSecret": "s" * 40, "enabled": True}, 201)["id"]
        self.secret = self.post("/secrets", {"name": "ours", "value": VALUE}, 201)["secretID"]
        shell = {"baseUrl": "http://api.test", "header": {"name": "X-Key", "value": VALUE}}
        assert api.put("/shells/ours", json=shell).status_code == 200
        self.key = self.post("/api-keys", {"name": "extra", "limits": {"sandboxes": 7}}, 201)
        self.key_id = self.key["id"]
        self.access = self.post("/access-tokens", {"name": "ours"}, 201)
        self.access_token_id = self.access["id"]
        self.tool("write_code_artifact", codePath="ours/code.py", content=CODE)
        self.pid = self.tool("start_shell_session", sandbox_id=self.sandbox)["pid"]
        hello = api.post("/mcp", json=INITIALIZE)
        self.session = hello.headers["mcp-session-id"]
        self.team = api.get("/teams").json()[0]["teamID"]

    def post(self, path, body, status):
        answer = self.api.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def tool(self, name, **fields):
        return self.post(f"/tools/{name}", fields, 200)


INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}


@pytest.fixture(scope="module")
def web():
    return Web("api")


@pytest.fixture(scope="module")
def daemon(web):
    names = Names({"api.test": [API]})
    with two_teams("--egress-map", f"{API}:80=127.0.0.1:{web.server_port}",
                   "--egress-dns", f"127.0.0.1:{names.port}") as daemon:
        yield daemon


def client(daemon, key):
    return httpx.Client(base_url=daemon.url, headers={"X-API-Key": key}, timeout=120)


@pytest.fixture(scope="module")
def ours(daemon):
    with client(daemon, daemon.key) as api:
        yield Ours(api)


@pytest.fixture(scope="module")
def theirs(daemon):
    """The attacker's client."""
    with client(daemon, daemon.other_key) as api:
        yield api


@pytest.fixture(autouse=True)
def all_of_ours_is_left(request):
    """Whatever the attacker tried, what is ours is there and as it was."""
    yield
    if "ours" not in request.fixturenames:
        return
    ours = request.getfixturevalue("ours")
    api = ours.api
    assert api.get(f"/sandboxes/{ours.sandbox}").json()["state"] == "running"
    assert api.get(f"/sandboxes/{ours.paused}").json()["state"] == "paused"
    for path in (f"/templates/{ours.template}", f"/volumes/{ours.volume}", f"/events/webhooks/{ours.webhook}",
                 f"/secrets/{ours.secret}", "/shells/ours"):
        assert api.get(path).status_code == 200, path
    assert api.get(f"/events/webhooks/{ours.webhook}").json()["enabled"] is True
    assert api.get(f"/secrets/{ours.secret}").json()["currentVersion"] == 1
    assert ours.snapshot in api.get("/snapshots").text
    (key,) = [key for key in api.get("/api-keys").json() if key["id"] == ours.key_id]
    assert key["name"] == "extra" and key["limits"]["sandboxes"] == 7
    assert api.get("/teams", headers={"X-API-Key": ours.access["token"]}).status_code == 200
    assert api.get(f"/teams/{ours.team}/usage").json()["limits"]["cpus"] is None
    assert ours.tool("read_code_artifact", codePath="ours/code.py")["content"] == CODE


RESOURCES = {
    "a running sandbox": ("sandbox", [
        ("GET", "/sandboxes/{}"), ("DELETE", "/sandboxes/{}"), ("POST", "/sandboxes/{}/timeout", {"timeout": 1}),
        ("POST", "/sandboxes/{}/refreshes", {"duration": 1}), ("PUT", "/sandboxes/{}/network", {}),
        ("POST", "/sandboxes/{}/pause"), ("POST", "/sandboxes/{}/resume", {}), ("POST", "/sandboxes/{}/fork", {}),
        ("POST", "/sandboxes/{}/snapshots", {}), ("POST", "/sandboxes/{}/connect", {"timeout": 60}),
        ("POST", "/v2/sandboxes/{}/connect", {}), ("GET", "/sandboxes/{}/metrics"), ("GET", "/sandboxes/{}/logs"),
        ("GET", "/v2/sandboxes/{}/logs")]),
    "a paused sandbox": ("paused", [
        ("GET", "/sandboxes/{}"), ("DELETE", "/sandboxes/{}"), ("POST", "/sandboxes/{}/resume", {}),
        ("POST", "/sandboxes/{}/connect", {"timeout": 60}), ("POST", "/v2/sandboxes/{}/connect", {}),
        ("POST", "/sandboxes/{}/fork", {}), ("POST", "/sandboxes/{}/snapshots", {})]),
    "a template": ("template", [
        ("GET", "/templates/{}"), ("PATCH", "/templates/{}", {"public": True}), ("PATCH", "/v2/templates/{}", {"public": True}),
        ("DELETE", "/templates/{}"), ("GET", "/templates/{}/tags"), ("POST", "/sandboxes", {"templateID": "{}"}),
        ("POST", "/templates/{}", {"dockerfile": "FROM x"}), ("GET", "/dashboard/templates/{}"),
        ("GET", "/dashboard/templates/{}/tags/groups"), ("GET", "/dashboard/templates/{}/tags/count"),
        ("GET", "/dashboard/templates/{}/tags/exists?tag=default"), ("GET", "/dashboard/templates/{}/tags/default/assignments"),
        ("POST", "/v2/sandboxes", {"templateID": "{}"}), ("GET", "/templates/{}/files/" + "0" * 64)]),
    "a snapshot": ("snapshot", [
        ("DELETE", "/templates/{}"), ("GET", "/templates/{}"), ("POST", "/sandboxes", {"templateID": "{}"}),
        ("GET", "/dashboard/templates/{}"), ("GET", "/dashboard/templates/{}/tags/groups"),
        ("POST", "/v2/sandboxes", {"templateID": "{}"})]),
    "a volume": ("volume", [("GET", "/volumes/{}"), ("DELETE", "/volumes/{}")]),
    "a webhook": ("webhook", [
        ("GET", "/events/webhooks/{}"), ("PATCH", "/events/webhooks/{}", {"enabled": False}), ("DELETE", "/events/webhooks/{}"),
        ("POST", "/events/webhooks/{}/test"), ("GET", "/events/webhooks/{}/deliveries")]),
    "a build": ("build", [("GET", "/dashboard/builds/{}")]),
    "an API key": ("key_id", [("PATCH", "/api-keys/{}", {"name": "theirs"}), ("PATCH", "/api-keys/{}", {"limits": {"sandboxes": 0}}),
                              ("DELETE", "/api-keys/{}")]),
    "an access token": ("access_token_id", [("DELETE", "/access-tokens/{}"), ("DELETE", "/api-keys/{}"),
                                            ("PATCH", "/api-keys/{}", {"name": "theirs"})]),
    "the team": ("team", [("GET", "/teams/{}/usage"), ("GET", "/teams/{}/metrics"),
                          ("GET", "/teams/{}/metrics/max?metric=concurrent_sandboxes")]),
    "a secret": ("secret", [("GET", "/secrets/{}"), ("POST", "/secrets/{}", {"value": "mine"}), ("DELETE", "/secrets/{}")]),
}


def unknown(text):
    """An id of the same shape that nobody has."""
    if re.fullmatch(r"[0-9a-f-]{36}", text.removeprefix("sec_")):
        return ("sec_" if text.startswith("sec_") else "") + str(uuid.uuid4())
    return re.sub(r"[a-z0-9]", lambda m: "z" if m[0].isalpha() else "7", text[:-8]) + text[-8:][::-1].translate(
        str.maketrans("0123456789abcdefghijklmnopqrstuvwxyz", "q7w3e8r2t9y1u4i5o6p0asdfghjklzxcvbnm"))


def ask(api, id_, method, path, body=None):
    body = json.loads(json.dumps(body).replace("{}", id_)) if body and "{}" in json.dumps(body) else body
    answer = api.request(method, path.replace("{}", urllib.parse.quote(id_, safe="")), json=body)
    return answer.status_code, answer.text.replace(id_, "ID")


@pytest.mark.parametrize("what", RESOURCES)
def test_no_call_of_the_api_reaches_it(ours, theirs, what):
    """The other team uses our ids in every call of the API that takes one: each answers as it does for an id that nobody has, or, for a template, that there is no access."""
    field, calls = RESOURCES[what]
    id_ = getattr(ours, field)
    for call in calls:
        status, said = ask(theirs, id_, *call)
        # Names of templates are shared, and clients ask whether one is taken: 403 says so, and nothing else.
        no_access = status == 403 and field in ("template", "snapshot") and "you don't have access" in said
        assert no_access or (status, said) == ask(theirs, unknown(id_), *call), (call, said)
        assert status in (400, 403, 404), (call, status, said)


@pytest.mark.parametrize("name", ["our-template", "our-snapshot", "our-template:default", "our-snapshot:default"])
def test_names_of_templates_and_snapshots_lead_nowhere(ours, theirs, name):
    """The other team creates sandboxes from our templates and snapshots by name, asks for the alias and puts tags on it: they do not exist."""
    assert theirs.post("/sandboxes", json={"templateID": name}).status_code in (400, 403, 404)
    assert theirs.get(f"/templates/aliases/{name.partition(':')[0]}").status_code in (403, 404)
    assert theirs.post("/templates/tags", json={"target": name, "tags": ["stolen"]}).status_code in (400, 403, 404)
    assert theirs.request("DELETE", "/templates/tags", json={"name": name.partition(":")[0], "tags": ["default"]}).status_code in (400, 403, 404)


def test_builds_are_the_team_s_own(ours, theirs):
    """The other team reads, starts and cancels our build: it does not exist."""
    for method, path, body in (("GET", "status", None), ("GET", "logs", None)):
        answer = theirs.get(f"/templates/{ours.template}/builds/{ours.build}/{path}")
        assert answer.status_code in (403, 404), answer.text
    assert theirs.post(f"/v2/templates/{ours.template}/builds/{ours.build}", json={"fromTemplate": "base", "steps": []}).status_code in (403, 404)
    assert theirs.delete(f"/templates/{ours.template}/builds/{ours.build}").status_code in (403, 404)
    answer = theirs.post("/v3/templates", json={"name": "from-ours"})
    made = answer.json()
    answer = theirs.post(f"/v2/templates/{made['templateID']}/builds/{made['buildID']}",
                         json={"fromTemplate": ours.template, "steps": []})
    if answer.status_code == 202:
        until(lambda: theirs.get(f"/templates/{made['templateID']}/builds/{made['buildID']}/status").json()["status"] == "error",
              "a build from our template fails", 120)
    else:
        assert answer.status_code in (400, 403, 404), answer.text


def test_no_list_shows_it(ours, theirs, daemon):
    """The other team lists everything there is to list, filtered and not: nothing of ours is among it."""
    ids = [ours.sandbox, ours.paused, ours.snapshot, ours.template, ours.volume, ours.webhook, ours.secret, ours.key["id"],
           ours.access_token_id, ours.build, ours.team, "our-template", "our-volume", VALUE]
    for path in ("/sandboxes", "/v2/sandboxes", "/v2/sandboxes?state=running,paused", "/sandboxes?metadata=", "/snapshots",
                 f"/snapshots?sandboxID={ours.sandbox}", "/templates", "/v2/templates", f"/templates?teamID={ours.team}",
                 "/volumes", "/events/webhooks", "/secrets", "/shells", "/api-keys", "/teams", "/events/sandboxes?limit=100",
                 f"/events/sandboxes/{ours.sandbox}", f"/sandboxes/metrics?sandbox_ids={ours.sandbox}", "/tools/openapi.json",
                 "/dashboard/builds", "/dashboard/builds?statuses=success,failed,building", "/dashboard/builds?build_id_or_template=our-template",
                 f"/dashboard/builds?build_id_or_template={ours.build}", f"/dashboard/builds/statuses?build_ids={ours.build}",
                 "/dashboard/templates", "/dashboard/templates?search=our", "/dashboard/templates/defaults"):
        answer = theirs.get(path)
        assert answer.status_code in (200, 400, 403, 404), (path, answer.text)
        text = re.sub(r'"statusMessage":"[^"]*"', "", answer.text)  # which repeats what their own build had asked for
        found = [id_ for id_ in ids if id_ in text and not (id_ in path and answer.status_code == 404)]
        assert found == [], (path, found)
    for path in (f"/teams/{ours.team}/metrics", f"/teams/{ours.team}/metrics/max?metric=concurrent_sandboxes"):
        assert theirs.get(path).status_code in (403, 404), path


OPERATOR = [("GET", "/nodes"), ("GET", "/admin/keys"), ("POST", "/admin/keys", {"name": "x"}), ("GET", "/admin/teams"),
            ("POST", "/admin/teams", {"name": "x"}), ("GET", "/admin/sandboxes/running-counts"), ("GET", "/admin/teams/{}"),
            ("PATCH", "/admin/teams/{}", {"limits": {"cpus": 0}}), ("GET", "/admin/teams/{}/usage"),
            ("POST", "/admin/teams/{}/sandboxes/kill"), ("POST", "/admin/teams/{}/builds/cancel"),
            ("GET", "/admin/teams/{}/api-keys"), ("POST", "/admin/teams/{}/api-keys", {"name": "x"})]


def test_the_operator_s_routes_are_closed_to_teams(ours, theirs):
    """The other team asks every route of the operator about our team, with its key in each header that takes one: 401."""
    key = theirs.headers["X-API-Key"]
    for headers in ({}, {"X-Admin-Token": key}, {"X-Team-ID": ours.team}, {"X-Admin-Token": key, "X-Team-ID": ours.team}):
        for method, path, *body in OPERATOR:
            answer = theirs.request(method, path.replace("{}", ours.team), json=body[0] if body else None, headers=headers)
            assert answer.status_code == 401, (method, path, answer.text)
        assert ours.sandbox not in theirs.get("/v2/sandboxes", headers=headers).text


def test_a_token_cut_from_an_api_key_opens_nothing(ours, daemon):
    """An API key of ours spelled as an access token, and an access token that is ours but for its last digit: 401."""
    for token in ("sk_" + ours.key["key"], ours.access["token"][:-1] + ("0" if ours.access["token"][-1] != "0" else "1")):
        for headers in ({"X-API-Key": token}, {"Authorization": f"Bearer {token}"}):
            assert httpx.get(f"{daemon.url}/v2/sandboxes", headers=headers).status_code == 401


def test_what_one_team_uses_is_not_charged_to_another(ours, theirs):
    """Our sandboxes, snapshots and volumes are in our usage alone; the other team's is what it has itself."""
    own = theirs.get("/teams").json()[0]["teamID"]
    used = theirs.get(f"/teams/{own}/usage").json()["now"]
    ours_used = ours.api.get(f"/teams/{ours.team}/usage").json()["now"]
    assert ours_used["sandboxes"] >= 1 and ours_used["pausedSandboxes"] >= 1
    assert used["sandboxes"] == len(theirs.get("/v2/sandboxes?state=running").json()) and used["pausedSandboxes"] == 0


def test_shells_are_the_team_s_own(ours, theirs, daemon, web):
    """The other team reads, grants and deletes our shell, and names our secret in a shell of its own: our key is not sent."""
    assert theirs.get("/shells/ours").status_code == 404 and theirs.delete("/shells/ours").status_code == 404
    answer = theirs.post("/sandboxes", json={"templateID": "base", "shells": ["ours"]})
    assert answer.status_code == 400 and "no shell" in answer.text
    shell = {"baseUrl": "http://api.test", "header": {"name": "Authorization", "value": "${e2b.secrets.ours}"}}
    assert theirs.put("/shells/mine", json=shell).status_code == 200
    made = theirs.post("/sandboxes", json={"templateID": "base", "timeout": 300, "shells": ["mine"]})
    assert made.status_code == 201, made.text
    box = Sandbox.connect(made.json()["sandboxID"], **{**daemon.sdk, "api_key": daemon.other_key})
    try:
        web.seen.clear()
        done = box.commands.run("curl -sS -i http://shell.atoll.internal/mine/; curl -sS -i http://shell.atoll.internal/ours/")
        assert "404" in done.stdout and "no secret" in done.stdout and "not granted" in done.stdout
        assert VALUE not in done.stdout and not any(VALUE in (seen or "") for seen in web.seen)
    finally:
        Sandbox.kill(box.sandbox_id, **{**daemon.sdk, "api_key": daemon.other_key})


def test_the_same_names_are_other_things(ours, theirs):
    """The other team makes a secret, a shell, a volume and an artifact of the same names: ours are not changed by it."""
    assert theirs.post("/secrets", json={"name": "ours", "value": "other"}).status_code == 201
    assert theirs.put("/shells/ours", json={"baseUrl": "http://evil.test", "header": {"name": "X", "value": "other"}}).status_code == 200
    assert theirs.post("/volumes", json={"name": "our-volume"}).status_code == 201
    assert theirs.post("/tools/write_code_artifact", json={"codePath": "ours/code.py", "content": "other", "confirm": True}).status_code == 200
    assert theirs.post("/tools/delete_code_artifact", json={"codePath": "ours/code.py"}).status_code == 200
    assert theirs.delete("/secrets/ours").status_code == 204 and theirs.delete("/shells/ours").status_code == 204
    assert ours.api.get("/shells/ours").json()["baseUrl"] == "http://api.test"


def test_volumes_are_mounted_and_read_by_their_team_alone(ours, theirs):
    """The other team mounts our volume by id and reads it with a token of its own volume: both are refused."""
    for name in (ours.volume, "no-such-volume"):
        answer = theirs.post("/sandboxes", json={"templateID": "base", "volumeMounts": [{"name": name, "path": "/v"}]})
        assert answer.status_code in (400, 403, 404), answer.text
    made = theirs.post("/volumes", json={"name": "theirs"}).json()
    for token in (made["token"], "x.y.z", theirs.headers["X-API-Key"]):
        for method, path in (("GET", "dir?path=/"), ("PUT", "file?path=/x"), ("GET", "file?path=/x"), ("DELETE", "path?path=/x")):
            answer = theirs.request(method, f"/volumecontent/{ours.volume}/{path}", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code in (401, 403, 404), (method, path, answer.text)


def test_the_edge_wants_the_sandbox_s_own_token(ours, theirs, daemon):
    """The other team calls our sandbox's agent through the edge with its key and with the token of a sandbox of its own: it is refused."""
    made = theirs.post("/sandboxes", json={"templateID": "base", "timeout": 300, "secure": True}).json()
    try:
        for token in (None, made["envdAccessToken"], daemon.other_key, ""):
            headers = {"E2b-Sandbox-Id": ours.sandbox, "E2b-Sandbox-Port": "49983"}
            headers |= {"X-Access-Token": token} if token is not None else {}
            for method, path in (("GET", "/files?path=/etc/passwd&username=root"), ("GET", "/envs"), ("POST", "/init"),
                                 ("POST", "/process.Process/List")):
                answer = theirs.request(method, path, headers=headers, json={} if method == "POST" else None)
                assert answer.status_code in (401, 403, 404), (token, path, answer.status_code, answer.text)
    finally:
        theirs.delete(f"/sandboxes/{made['sandboxID']}")


# ---- tools ----

SAMPLES = {"string": "x", "integer": 1, "boolean": False, "array": [], "object": {}}
MORE = {"send_sandbox_input": {"action": "shell_command", "input": "id"}, "setup_sandbox_heartbeat": {"command": "id"},
        "install_packages": {"commands": ["id"]}}


def with_sandbox(theirs):
    """Every tool that takes a sandbox, with fields that pass its schema."""
    for tool in theirs.get("/tools").json()["tools"]:
        schema = tool["input_schema"]
        if "sandbox_id" in schema["properties"] and tool["name"] != "create_sandbox":
            fields = {name: schema["properties"][name].get("enum", [SAMPLES[schema["properties"][name].get("type", "string")]])[0]
                      for name in schema.get("required", [])}
            yield tool["name"], fields | MORE.get(tool["name"], {}) | ({"text": "x"} if tool["name"] == "guard_output" else {})


def test_no_tool_reaches_a_sandbox(ours, theirs):
    """The other team calls every tool that takes a sandbox with the id of ours, running and paused, over REST and over MCP: each says what it says of an id that nobody has."""
    count = 0
    for name, fields in with_sandbox(theirs):
        for id_ in (ours.sandbox, ours.paused):
            said = {}
            for given in (id_, unknown(id_)):
                given_fields = fields | {"sandbox_id": given} | ({"pid": ours.pid} if "pid" in fields else {})
                answer = theirs.post(f"/tools/{name}", json=given_fields)
                assert answer.status_code in (400, 404), (name, answer.text)
                call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                    "name": name, "arguments": given_fields, "_meta": META}}
                mcp = theirs.post("/mcp", json=call, headers={"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
                                                              "Mcp-Name": name})
                result = mcp.json().get("result", mcp.json())
                assert result.get("isError", "error" in result), (name, mcp.text)
                said[given] = (answer.text.replace(given, "ID"), json.dumps(result).replace(given, "ID"))
            assert said[id_] == said[unknown(id_)], name
        count += 1
    assert count >= 10


META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "attacker", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}


def test_lists_of_tools_show_nothing_of_ours(ours, theirs):
    """The other team lists sandboxes, templates and artifacts with the tools, by id and by metadata: nothing of ours is among them."""
    for name, fields in (("list_sandboxes", {}), ("list_sandboxes", {"ids": [ours.sandbox, ours.paused]}), ("list_templates", {}),
                         ("list_code_artifacts", {}), ("list_code_artifacts", {"prefix": "ours/"})):
        answer = theirs.post(f"/tools/{name}", json=fields)
        assert answer.status_code == 200, answer.text
        for id_ in (ours.sandbox, ours.paused, ours.template, "our-template", "ours/code.py"):
            assert id_ not in answer.text, (name, answer.text)


def test_artifacts_are_the_team_s_own(ours, theirs):
    """The other team reads, runs, overwrites and deletes our artifact over REST and over MCP: for it there is none."""
    for name in ("read_code_artifact", "run_code_artifact", "delete_code_artifact"):
        answer = theirs.post(f"/tools/{name}", json={"codePath": "ours/code.py"})
        assert answer.status_code == 404 and "our code" not in answer.text, answer.text
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": name, "arguments": {"codePath": "ours/code.py"}, "_meta": META}}
        answer = theirs.post("/mcp", json=call, headers={"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name})
        assert answer.json()["result"]["isError"] and "our code" not in answer.text


def test_the_guard_is_no_oracle_for_our_secrets(ours, theirs):
    """The other team guesses our secret and an API key of ours with guard_output and write_code_artifact: neither says that they are ours."""
    out = theirs.post("/tools/guard_output", json={"text": f"is it {VALUE}", "mode": "redact"}).json()
    assert not out["found"] and out["text"] == f"is it {VALUE}"
    out = theirs.post("/tools/guard_output", json={"text": ours.key["key"]}).json()
    made_up = theirs.post("/tools/guard_output", json={"text": "e2b_" + "0f1e2d3c4b5a69788796a5b4c3d2e1f00918273a"}).json()
    assert out == made_up and out["kinds"] == ["an E2B API key"]
    answer = theirs.post("/tools/write_code_artifact", json={"codePath": "guess.py", "content": f"x = '{VALUE}'"})
    assert answer.status_code == 200


# ---- MCP ----


def test_a_session_of_mcp_does_not_exist_for_others(ours, theirs):
    """The other team uses the id of our MCP session to call tools, to listen, to take up an answer and to end it: 404 each time, as for an id that nobody has."""
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "send_sandbox_input", "arguments": {
        "action": "shell_command", "input": "id"}}}
    for session in (ours.session, ours.session[:-1] + ("0" if ours.session[-1] != "0" else "1"), "", "*", "../x"):
        headers = {"Mcp-Session-Id": session}
        for body in (call, {"jsonrpc": "2.0", "id": 8, "method": "ping"}, {"jsonrpc": "2.0", "id": 9, "method": "tools/list"},
                     {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}):
            assert theirs.post("/mcp", json=body, headers=headers).status_code in (400, 404), session
        for more in ({}, {"Last-Event-ID": "1-1"}):
            assert theirs.get("/mcp", headers=headers | {"Accept": "text/event-stream"} | more).status_code in (400, 404, 405)
        assert theirs.delete("/mcp", headers=headers).status_code in (400, 404)
    assert ours.api.post("/mcp", json={"jsonrpc": "2.0", "id": 8, "method": "ping"},
                         headers={"Mcp-Session-Id": ours.session}).status_code == 200


def test_an_address_of_mcp_cannot_name_our_sandbox(ours, theirs):
    """The other team opens an MCP session for our sandbox (?sandbox_id=) and calls a tool in it: the sandbox does not exist."""
    for id_ in (ours.sandbox, ours.paused):
        opened = theirs.post("/mcp", params={"sandbox_id": id_}, json=INITIALIZE)
        if opened.status_code != 200:
            assert opened.status_code in (400, 403, 404)
            continue
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "send_sandbox_input", "arguments": {
            "action": "shell_command", "input": "cat /etc/hostname"}}}
        said = theirs.post("/mcp", params={"sandbox_id": id_}, json=call,
                           headers={"Mcp-Session-Id": opened.headers["mcp-session-id"]})
        assert said.json()["result"]["isError"] and "doesn't exist" in said.text, said.text


# ---- no key ----


@pytest.mark.parametrize("key", [None, "", "e2b_", "e2b_" + "0" * 40, "Bearer x", "sk_e2b_" + "0" * 40, "' OR 1=1 --"])
def test_without_a_good_key_there_is_nothing(ours, daemon, key):
    """Without a key, or with one that nobody has, every call that names something of ours is answered with 401."""
    headers = {} if key is None else {"X-API-Key": key}
    with httpx.Client(base_url=daemon.url, headers=headers, timeout=30) as nobody:
        for field, calls in RESOURCES.values():
            for method, path, *body in calls:
                id_ = urllib.parse.quote(getattr(ours, field), safe="")
                answer = nobody.request(method, path.replace("{}", id_), json=body[0] if body else None)
                assert answer.status_code == 401, (method, path, answer.text)
        for method, path in (("POST", "/tools/list_code_artifacts"), ("POST", "/tools/read_code_artifact"), ("POST", "/mcp"),
                             ("DELETE", "/mcp"), ("POST", "/api/code/execute"), ("GET", "/api-keys"), ("GET", "/shells/ours")):
            answer = nobody.request(method, path, json={"codePath": "ours/code.py"} if method == "POST" else None,
                                    headers={"Mcp-Session-Id": ours.session})
            assert answer.status_code == 401, (method, path, answer.text)
