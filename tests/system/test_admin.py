"""The operator: admin keys, nodes, what it may end; access tokens and who made what."""

import re
import socket
import stat

import httpx
import pytest
from daemon import running, until
from e2b import Sandbox
from teams import add_team, admin, atoll, client

ADMIN_ROUTES = [
    ("GET", "/nodes"), ("GET", "/nodes/x"), ("POST", "/nodes/x", {"status": "draining"}), ("GET", "/admin/keys"),
    ("POST", "/admin/keys", {"name": "x"}), ("DELETE", "/admin/keys/x"), ("GET", "/admin/teams"),
    ("POST", "/admin/teams", {"name": "x"}), ("GET", "/admin/teams/{}"), ("PATCH", "/admin/teams/{}", {"limits": {"cpus": 1}}),
    ("GET", "/admin/teams/{}/usage"), ("POST", "/admin/teams/{}/sandboxes/kill"), ("POST", "/admin/teams/{}/builds/cancel"),
    ("GET", "/admin/teams/{}/api-keys"), ("POST", "/admin/teams/{}/api-keys", {"name": "x"}),
    ("PATCH", "/admin/teams/{}/api-keys/x", {"name": "x"}), ("DELETE", "/admin/teams/{}/api-keys/x"),
    ("GET", "/admin/sandboxes/running-counts"),
]


@pytest.fixture(scope="module")
def daemon():
    with running() as daemon:
        daemon.other_key = add_team(daemon, "another")
        yield daemon


@pytest.fixture
def operator(daemon):
    with admin(daemon) as api:
        yield api


@pytest.fixture
def ours(daemon):
    with client(daemon, daemon.key) as api:
        yield api


@pytest.fixture
def theirs(daemon):
    with client(daemon, daemon.other_key) as api:
        yield api


def team_of(api):
    return api.get("/teams").json()[0]["teamID"]


def create(api, **more):
    answer = api.post("/sandboxes", json={"templateID": "base", "timeout": 300, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["sandboxID"]


# ---- admin keys ----


@pytest.mark.attack
def test_every_route_of_the_operator_wants_an_admin_key(daemon, ours):
    """Every route below /admin and /nodes, asked without a key, with an API key in any header and with made-up admin keys: 401 each time, nothing changed, and no page may read the answer."""
    team = team_of(ours)
    before = ours.get(f"/teams/{team}/usage").json()["limits"]
    for headers in ({}, {"X-API-Key": daemon.key}, {"X-Admin-Token": daemon.key}, {"Authorization": f"Bearer {daemon.key}"},
                    {"X-Admin-Token": ""}, {"X-Admin-Token": "atoll_admin_" + "0" * 40}, {"X-API-Key": daemon.key, "X-Team-ID": team}):
        with httpx.Client(base_url=daemon.url, headers=headers, timeout=30) as api:
            for method, path, *body in ADMIN_ROUTES:
                answer = api.request(method, path.replace("{}", team), json=body[0] if body else None, headers={"Origin": "https://a.test"})
                assert answer.status_code == 401, (headers, method, path, answer.text)
                assert "access-control-allow-origin" not in answer.headers, (method, path)
    assert ours.get(f"/teams/{team}/usage").json()["limits"] == before


def test_an_admin_key_is_shown_once_and_kept_as_a_hash(daemon, operator):
    made = atoll(daemon, "admin-key", "create", "on-call")
    key = made.stdout.strip()
    assert re.fullmatch(r"atoll_admin_[0-9a-f]{40}", key)
    (row,) = operator.get("/admin/keys").json()
    assert row["name"] == "on-call" and row["id"] in made.stderr and key not in str(row)
    assert row["masked"].startswith(key[:14]) and row["masked"].endswith(key[-4:])
    until(lambda: True, "on record")
    state = daemon.data / "state"
    for path in state.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path
    with httpx.Client(base_url=daemon.url, headers={"X-Admin-Token": key}) as api:
        assert api.get("/admin/teams").status_code == 200
        daemon.stop()
        daemon.start()
    with httpx.Client(base_url=daemon.url, headers={"X-Admin-Token": key}) as api:
        assert api.get("/admin/teams").status_code == 200
        assert "on-call" in atoll(daemon, "admin-key", "list").stdout
        atoll(daemon, "admin-key", "revoke", row["id"])
        assert api.get("/admin/teams").status_code == 401
    assert atoll(daemon, "admin-key", "list").stdout == ""
    assert atoll(daemon, "admin-key", "revoke", row["id"], check=False).returncode == 3


def test_the_token_of_the_data_directory_ends_with_its_daemon(daemon):
    path = daemon.data / "state" / "admin.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    old = path.read_text().strip()
    daemon.stop()
    daemon.start()
    assert path.read_text().strip() != old
    assert httpx.get(f"{daemon.url}/admin/teams", headers={"X-Admin-Token": old}).status_code == 401


# ---- acting for a team ----


def test_the_operator_acts_for_a_team_that_it_names(operator, ours, theirs):
    sandbox = create(theirs)
    headers = {"X-Team-ID": team_of(theirs)}
    assert [row["sandboxID"] for row in operator.get("/v2/sandboxes", headers=headers).json()] == [sandbox]
    assert operator.get("/v2/sandboxes", headers={"X-Team-ID": team_of(ours)}).json() == []
    for wrong in ({}, {"X-Team-ID": ""}, {"X-Team-ID": "00000000-0000-0000-0000-000000000000"}, {"X-Team-ID": "x" * 500}):
        assert operator.get("/v2/sandboxes", headers=wrong).status_code == 401, wrong
    assert operator.delete(f"/sandboxes/{sandbox}", headers=headers).status_code == 204


@pytest.mark.attack
def test_a_team_s_header_gives_a_key_no_other_team(ours, theirs):
    """A key of one team names another team in X-Team-ID: it stays what it is."""
    sandbox = create(ours)
    headers = {"X-Team-ID": team_of(ours)}
    assert theirs.get("/v2/sandboxes", headers=headers).json() == []
    assert theirs.get(f"/sandboxes/{sandbox}", headers=headers).status_code == 404
    assert theirs.delete(f"/sandboxes/{sandbox}", headers=headers).status_code == 404
    assert ours.delete(f"/sandboxes/{sandbox}").status_code == 204


def test_kill_count_and_cancel(operator, ours, theirs):
    mine, other, paused = create(ours), create(theirs), create(theirs)
    assert theirs.post(f"/sandboxes/{paused}/pause").status_code == 204
    team = team_of(theirs)
    assert operator.get("/admin/sandboxes/running-counts").json() == {team: 1, team_of(ours): 1}
    assert operator.post(f"/admin/teams/{team}/sandboxes/kill").json() == {"killedCount": 1, "failedCount": 0}
    assert theirs.get(f"/sandboxes/{other}").status_code == 404
    assert theirs.get(f"/sandboxes/{paused}").json()["state"] == "paused"
    assert ours.get(f"/sandboxes/{mine}").status_code == 200
    asked = theirs.post("/v3/templates", json={"name": "endless"}).json()
    start = {"fromTemplate": "base", "steps": [{"type": "RUN", "args": ["sleep 600"], "force": True}]}
    path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}"
    assert theirs.post(f"/v2{path}", json=start).status_code == 202
    assert operator.post(f"/admin/teams/{team}/builds/cancel").json() == {"cancelledCount": 1, "failedCount": 0}
    until(lambda: theirs.get(f"{path}/status").json()["status"] == "error", "the build has ended")
    assert "by the admin" in theirs.get(f"{path}/status").text
    for route in ("sandboxes/kill", "builds/cancel"):
        assert operator.post(f"/admin/teams/00000000-0000-0000-0000-000000000000/{route}").status_code == 404
    theirs.delete(f"/sandboxes/{paused}")
    ours.delete(f"/sandboxes/{mine}")


def test_keys_of_a_team(operator, ours, theirs, daemon):
    path = f"/admin/teams/{team_of(theirs)}/api-keys"
    made = operator.post(path, json={"name": "by the operator", "limits": {"sandboxes": 1}})
    assert made.status_code == 201 and made.json()["createdBy"] is None
    with client(daemon, made.json()["key"]) as api:
        assert team_of(api) == team_of(theirs)
    assert made.json()["id"] in {row["id"] for row in operator.get(path).json()}
    assert operator.patch(f"{path}/{made.json()['id']}", json={"name": "renamed"}).status_code == 202
    other = f"/admin/teams/{team_of(ours)}/api-keys/{made.json()['id']}"
    assert operator.delete(other).status_code == 404
    assert operator.delete(f"{path}/{made.json()['id']}").status_code == 204
    assert operator.post(path, json={}).status_code == 400


# ---- nodes ----

NODE = {"id", "serviceInstanceID", "clusterID", "status", "statusChangedAt", "sandboxCount", "metrics", "createSuccesses",
        "createFails", "sandboxStartingCount", "version", "commit", "machineInfo"}
METRICS = {"allocatedCPU", "allocatedMemoryBytes", "cpuPercent", "memoryUsedBytes", "cpuCount", "memoryTotalBytes", "disks",
           "hugePagesTotal", "hugePagesUsed", "hugePagesReserved", "hugePageSizeBytes"}


def test_the_node(operator, ours):
    sandbox = create(ours)
    (node,) = operator.get("/nodes").json()
    assert node.keys() == NODE and node["metrics"].keys() == METRICS
    assert node["machineInfo"].keys() == {"cpuFamily", "cpuModel", "cpuModelName", "cpuArchitecture"}
    assert node["id"] == socket.gethostname() and node["status"] == "ready" and node["sandboxCount"] == 1
    assert node["metrics"]["allocatedCPU"] >= 1 and node["metrics"]["memoryTotalBytes"] > 0
    assert {"mountPoint", "usedBytes", "totalBytes", "device", "filesystemType"} == node["metrics"]["disks"][0].keys()
    one = operator.get(f"/nodes/{node['id']}").json()
    assert one["id"] == node["id"] and one["createSuccesses"] == node["createSuccesses"]
    assert operator.get("/nodes/elsewhere").status_code == 404
    assert operator.get("/nodes?clusterID=11111111-1111-1111-1111-111111111111").json() == []
    ours.delete(f"/sandboxes/{sandbox}")


def test_a_node_that_drains_takes_no_new_sandboxes(operator, ours):
    (node,) = operator.get("/nodes").json()
    path = f"/nodes/{node['id']}"
    sandbox = create(ours)
    assert operator.post(path, json={"status": "draining"}).status_code == 204
    try:
        assert operator.get(path).json()["status"] == "draining"
        answer = ours.post("/sandboxes", json={"templateID": "base"})
        assert answer.status_code == 503 and "draining" in answer.json()["message"]
        assert ours.post(f"/sandboxes/{sandbox}/fork", json={}).status_code == 503
        assert ours.get(f"/sandboxes/{sandbox}").json()["state"] == "running"
    finally:
        assert operator.post(path, json={"status": "ready"}).status_code == 204
    ours.delete(f"/sandboxes/{create(ours)}")
    ours.delete(f"/sandboxes/{sandbox}")
    for body in ({}, {"status": "asleep"}, {"status": 5}):
        assert operator.post(path, json=body).status_code == 400, body
    assert operator.post("/nodes/elsewhere", json={"status": "ready"}).status_code == 404


# ---- access tokens ----


def test_an_access_token_is_a_key_of_its_team(daemon, ours):
    made = ours.post("/access-tokens", json={"name": "laptop"})
    assert made.status_code == 201, made.text
    token = made.json()
    assert re.fullmatch(r"sk_e2b_[0-9a-f]{40}", token["token"]) and token["name"] == "laptop" and "key" not in token
    assert token["mask"]["prefix"] == "sk_e2b_"
    assert token["id"] not in ours.get("/api-keys").text
    bearer = {"Authorization": f"Bearer {token['token']}"}
    (team,) = httpx.get(f"{daemon.url}/teams", headers=bearer).json()
    assert team["teamID"] == team_of(ours)
    box = Sandbox.create(timeout=60, **{**daemon.sdk, "api_key": team["apiKey"]})  # as E2B's CLI goes on with it
    box.kill()
    assert httpx.get(f"{daemon.url}/templates", headers=bearer).status_code == 200
    assert httpx.get(f"{daemon.url}/tools", headers=bearer).status_code == 200
    daemon.stop()
    daemon.start()
    with client(daemon, daemon.key) as api:
        assert httpx.get(f"{daemon.url}/teams", headers=bearer).status_code == 200
        assert api.delete("/access-tokens/nothing").status_code == 400
        assert api.delete(f"/api-keys/{token['id']}").status_code == 404
        with client(daemon, daemon.other_key) as others:
            assert others.delete(f"/access-tokens/{token['id']}").status_code == 404
        assert api.delete(f"/access-tokens/{token['id']}").status_code == 204
        assert api.delete(f"/access-tokens/{token['id']}").status_code == 404
        for key in (token["token"], token["token"].removeprefix("sk_")):
            assert httpx.get(f"{daemon.url}/teams", headers={"X-API-Key": key}).status_code == 401


@pytest.mark.attack
def test_an_api_key_is_no_access_token(daemon):
    """An API key spelled as an access token (sk_ before it) is refused."""
    for headers in ({"Authorization": f"Bearer sk_{daemon.key}"}, {"X-API-Key": f"sk_{daemon.key}"}):
        assert httpx.get(f"{daemon.url}/teams", headers=headers).status_code == 401


# ---- who made what ----


def test_created_by_names_the_key(daemon, ours):
    maker = ours.post("/api-keys", json={"name": "maker"}).json()
    (own,) = [row for row in ours.get("/api-keys").json() if row["name"] == "default"]
    assert maker["createdBy"] == {"id": own["id"], "email": None} and own["createdBy"] is None
    with client(daemon, maker["key"]) as api:
        asked = api.post("/v3/templates", json={"name": "made-by-maker"}).json()
        (row,) = [row for row in api.get("/templates").json() if row["templateID"] == asked["templateID"]]
        assert row["createdBy"] == {"id": maker["id"], "email": None}
    daemon.stop()
    daemon.start()
    with client(daemon, daemon.key) as api:
        (row,) = [row for row in api.get("/templates").json() if row["templateID"] == asked["templateID"]]
        assert row["createdBy"] == {"id": maker["id"], "email": None}
        assert api.delete(f"/templates/{asked['templateID']}").status_code == 204
        assert api.delete(f"/api-keys/{maker['id']}").status_code == 204
