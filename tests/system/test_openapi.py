"""The document of /openapi.json: real answers of a daemon have the form that it says, and no field besides."""

import re

import httpx
import jsonschema
import pytest
from daemon import running, until
from teams import admin, client


@pytest.fixture(scope="module")
def daemon():
    with running("--webhook-allow-local", "true") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def document(daemon):
    answer = httpx.get(f"{daemon.url}/openapi.json", timeout=30)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("application/json")
    assert answer.headers["access-control-allow-origin"] == "*"
    return answer.json()


def closed(value):
    """The same schema, which takes no field that it does not name."""
    if isinstance(value, list):
        return [closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {name: closed(inner) for name, inner in value.items()}
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        out.setdefault("additionalProperties", False)
    return out


class Caller:
    """Calls by the names of operations; each request and each answer is held against the document."""

    def __init__(self, document, api):
        self.document, self.api = document, api
        self.components = closed(document["components"])
        self.operations = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }

    def validate(self, schema, value):
        jsonschema.Draft202012Validator({"components": self.components, "allOf": [closed(schema)]}).validate(value)

    def schema(self, operation, status):
        response = operation["responses"].get(str(status))
        assert response is not None, f"{operation['operationId']}: {status} is not in the document"
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        return response.get("content", {}).get("application/json", {}).get("schema")

    def __call__(self, name, *values, want=None, json=None, **more):
        method, path, operation = self.operations[name]
        given = iter(values)
        path = re.sub(r"\{\w+\}", lambda _: next(given), path)
        if json is not None and (want or 200) < 400:
            self.validate(operation["requestBody"]["content"]["application/json"]["schema"], json)
        answer = self.api.request(method, path, json=json, **more)
        first = int(next(iter(operation["responses"])))
        assert answer.status_code == (want or first), (name, answer.status_code, answer.text)
        schema = self.schema(operation, answer.status_code)
        if schema is None:
            return answer
        try:
            self.validate(schema, answer.json())
        except jsonschema.ValidationError as error:
            raise AssertionError(f"{name}: {error.json_path}: {error.message}") from None
        return answer.json()


@pytest.fixture
def call(document, daemon):
    with client(daemon, daemon.key) as api:
        yield Caller(document, api)


@pytest.fixture
def operator(document, daemon):
    with admin(daemon) as api:
        yield Caller(document, api)


@pytest.fixture
def sandbox(call):
    made = call("createSandboxV2", json={"templateID": "base", "timeout": 300, "metadata": {"a": "b"}, "autoPause": True})
    yield made["sandboxID"]
    call.api.delete(f"/sandboxes/{made['sandboxID']}")


def test_the_document_is_of_openapi_3_1(document):
    assert document["openapi"].startswith("3.1.") and document["info"]["version"] not in ("", "@VERSION@")
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_sandboxes(call, sandbox):
    call("listSandboxes")
    assert [row["sandboxID"] for row in call("listSandboxesV2", params={"state": "running", "limit": 10})] == [sandbox]
    assert call("getSandbox", sandbox)["metadata"] == {"a": "b"}
    call("setTimeout", sandbox, json={"timeout": 200})
    call("refreshSandbox", sandbox, json={"duration": 60})
    call("updateNetwork", sandbox, json={"allowOut": ["192.0.2.0/24"], "denyOut": ["0.0.0.0/0"]})
    call("getSandbox", sandbox)
    call("getMetrics", sandbox)
    call("getMetricsOfSandboxes", params={"sandbox_ids": sandbox})
    call("getLogs", sandbox)
    call("getLogsV2", sandbox)
    call("connectSandboxV2", sandbox, json={"timeout": 100}, want=200)
    call("resumeSandbox", sandbox, json={}, want=409)
    call("createSandbox", json={}, want=400)
    call("getSandbox", "i" + "0" * 20, want=404)


def test_pause_and_resume(call, sandbox):
    call("pauseSandbox", sandbox, json={"memory": False})
    assert call("getSandbox", sandbox)["pauseMode"] == "filesystem"
    call("pauseSandbox", sandbox, json={}, want=409)
    call("resumeSandbox", sandbox, json={"timeout": 100})
    call("pauseSandbox", sandbox, json={})
    call("listSandboxesV2", params={"state": "paused"})
    call("connectSandbox", sandbox, json={"timeout": 100}, want=201)


def test_snapshots_and_forks(call, sandbox):
    made = call("createSnapshot", sandbox, json={"name": "described"})
    assert [row["snapshotID"] for row in call("listSnapshots", params={"sandboxID": sandbox})] == [made["snapshotID"]]
    (copy,) = call("forkSandbox", sandbox, json={"count": 1, "timeout": 30})
    call("killSandbox", copy["sandbox"]["sandboxID"])
    call("listTags", "described")
    call("deleteTemplate", "described")


def test_templates(call):
    rows = call("listTemplates")
    call("listTemplatesV2", params={"limit": 1})
    call("listDefaultTemplates")
    call("getTemplate", rows[0]["templateID"])
    assert call("getTemplateByAlias", "base")["templateID"]
    call("getTemplate", "nothing-there", want=404)
    made = call("requestBuild", json={"name": "described-build", "tags": ["one"], "cpuCount": 1, "memoryMB": 512})
    template, build = made["templateID"], made["buildID"]
    call("getBuildFiles", template, "0" * 64)
    call("getBuildStatus", template, build)
    call("startBuild", template, build, json={"fromTemplate": "base", "steps": [{"type": "RUN", "args": ["true"]}]})
    until(lambda: call("getBuildStatus", template, build)["status"] == "ready", "the build is ready", 120)
    call("getBuildLogs", template, build)
    call("cancelBuild", template, build, want=409)
    call("assignTags", json={"target": "described-build:one", "tags": ["two"]})
    assert {row["tag"] for row in call("listTags", template)} >= {"one", "two"}
    for suffix in ("", "OfDashboard"):
        call(f"getTagGroups{suffix}", template)
        call(f"countTags{suffix}", template)
        call(f"tagExists{suffix}", template, params={"tag": "one"})
        call(f"getTagAssignments{suffix}", template, "two")
    call("removeTags", json={"name": "described-build", "tags": ["two"]})
    call("updateTemplateV2", template, json={"public": True})
    call("getTemplate", template)
    for name in ("listDashboardBuilds", "listDashboardTemplates", "listDashboardDefaults", "getDashboardHealth"):
        call(name)
    call("getDashboardBuild", build)
    call("getDashboardBuildStatuses", params={"build_ids": build})
    call("getDashboardTemplate", template)
    call("requestPushedBuild", json={"dockerfile": "FROM base"}, want=501)
    call("deleteTemplate", template)
    call("pruneTemplates", json={"unusedSeconds": 1 << 30})


def test_volumes(call, document, daemon):
    made = call("createVolume", json={"name": "described"})
    volume = made["volumeID"]
    call("listVolumes")
    assert call("getVolume", volume)["name"] == "described"
    with httpx.Client(base_url=daemon.url, headers={"Authorization": f"Bearer {made['token']}"}, timeout=60) as api:
        content = Caller(document, api)
        content("makeVolumeDir", volume, params={"path": "/d"})
        content("writeVolumeFile", volume, params={"path": "/d/f"}, content=b"42")
        content("listVolumeDir", volume, params={"path": "/d"})
        content("statVolumePath", volume, params={"path": "/d/f"})
        content("changeVolumePath", volume, params={"path": "/d/f"}, json={"mode": 0o600})
        assert content("readVolumeFile", volume, params={"path": "/d/f"}).content == b"42"
        content("statVolumePath", volume, params={"path": "/nothing"}, want=404)
        content("removeVolumePath", volume, params={"path": "/d"})
    call("statVolumePath", volume, params={"path": "/"}, want=401)
    call("deleteVolume", volume)
    call("getVolume", volume, want=404)


def test_secrets_and_shells(call):
    secret = call("createSecret", json={"name": "described", "value": "v", "metadata": {"a": "b"}})
    call("listSecrets", params={"limit": 1})
    call("getSecret", "described")
    assert call("updateSecret", secret["secretID"], json={"value": "w"})["currentVersion"] == 2
    call("putShell", "described", json={"baseUrl": "https://api.example.com", "header": {"name": "X-Key", "value": "v"}})
    call("listShells")
    call("getShell", "described")
    call("deleteShell", "described")
    call("deleteSecret", "described")
    call("getSecret", "described", want=404)
    call("getOpenidConfiguration")
    call("getIdentityKeys")


def test_keys_and_teams(call):
    key = call("createKey", json={"name": "described", "limits": {"sandboxes": 1}})
    call("listKeys")
    call("updateKey", key["id"], json={"name": "renamed"})
    call("deleteKey", key["id"])
    call("deleteKey", key["id"], want=404)
    call("deleteAccessToken", call("createAccessToken", json={"name": "described"})["id"])
    (team,) = call("listTeams")
    call("getTeamUsage", team["teamID"])
    call("getTeamMetrics", team["teamID"])
    call("getTeamMetricsMax", team["teamID"], params={"metric": "concurrent_sandboxes"})
    call("getTeamUsage", "0", want=403)


def test_events_and_webhooks(call, sandbox):
    made = call("createWebhook", json={"name": "described", "url": "http://127.0.0.1:9/", "signatureSecret": "s",
                                       "events": ["sandbox.lifecycle.killed"]})
    call("listWebhooks")
    call("getWebhook", made["id"])
    call("updateWebhook", made["id"], json={"name": "renamed", "url": "http://127.0.0.1:9/", "signatureSecret": "s", "events": ["sandbox.lifecycle.created"]})
    call("testWebhook", made["id"])
    call("listDeliveries", made["id"])
    assert call("listEventsOfSandbox", sandbox)[0]["type"] == "sandbox.lifecycle.created"
    call("listEvents", params={"limit": 100})
    call("deleteWebhook", made["id"])
    call("getWebhook", made["id"], want=404)


def test_the_operator(operator):
    key = operator("createAdminKey", json={"name": "described"})
    operator("listAdminKeys")
    operator("deleteAdminKey", key["id"])
    team = operator("createTeam", json={"name": "described", "limits": {"cpus": 4}})["teamID"]
    operator("listAllTeams")
    operator("getTeam", team)
    operator("updateTeam", team, json={"limits": {"cpus": None}})
    operator("getUsageOfTeam", team)
    made = operator("createTeamKey", team, json={"name": "x"})
    operator("listTeamKeys", team)
    operator("updateTeamKey", team, made["id"], json={"limits": {"builds": 1}})
    operator("deleteTeamKey", team, made["id"])
    operator("killTeamSandboxes", team)
    operator("cancelTeamBuilds", team)
    operator("countRunning")
    (node,) = operator("listNodes")
    operator("getNode", node["id"])
    operator("updateNode", node["id"], json={"status": "ready"})
    operator("getTeam", "nobody", want=404)


def test_the_server_itself(call, document, daemon):
    call("getAbout", headers={"Accept": "application/json"})  # a browser gets the dashboard
    call("getHealth")
    call("getServerMetrics")
    assert call("getOpenapi") == document
    with httpx.Client(base_url=daemon.url, timeout=30) as api:
        nobody = Caller(document, api)
        nobody("getHealth")
        nobody("listSandboxesV2", want=401)


def test_a_body_beyond_the_limit_of_the_document_is_refused(call):
    """Each route that takes JSON refuses one byte more than x-atoll-body-bytes-max, before it looks at anything else."""
    for name, (_, path, operation) in call.operations.items():
        most = operation.get("x-atoll-body-bytes-max")
        if operation["x-atoll-access"] != "key" or not most:
            continue
        method = call.operations[name][0]
        answer = call.api.request(method, re.sub(r"\{\w+\}", "x", path), content=b" " * (most + 1))
        assert answer.status_code == 413 and str(most) in answer.json()["message"], (name, answer.text)
