"""The audit log: who did what to which object, what came of it, who may read it, and what a crash leaves."""

import json
import threading
import time

import httpx
import pytest
from daemon import running, until
from teams import add_team, admin, atoll, client

SECRET = "a-value-that-nobody-may-find"


@pytest.fixture(scope="module")
def daemon():
    with running() as daemon:
        daemon.other_key = add_team(daemon, "another")
        yield daemon


@pytest.fixture
def ours(daemon):
    with client(daemon, daemon.key) as api:
        yield api


@pytest.fixture
def theirs(daemon):
    with client(daemon, daemon.other_key) as api:
        yield api


@pytest.fixture
def operator(daemon):
    with admin(daemon) as api:
        yield api


def rows(api, path="/audit", **query):
    """All that are finished, newest first."""
    answer = api.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def newest(api, path="/audit", **query):
    """Of a call that was answered a moment ago: its outcome is on record soon."""
    found = until(lambda: [row for row in rows(api, path, limit=1, **query) if row["status"] is not None], f"a row of {query}", 10)
    return found[0]


def create(api):
    answer = api.post("/sandboxes", json={"templateID": "base", "timeout": 300, "envVars": {"X": SECRET}, "metadata": {"m": SECRET}})
    assert answer.status_code == 201, answer.text
    return answer.json()["sandboxID"]


def test_who_did_what_to_which_sandbox_is_there(daemon, ours):
    sandbox = create(ours)
    row = newest(ours, action="sandbox.create")
    keys = {key["id"]: key["name"] for key in ours.get("/api-keys").json()}
    assert row["object"] == sandbox and row["status"] == 201 and row["error"] is None
    assert row["actor"] == {"type": "key", "id": row["actor"]["id"], "name": keys[row["actor"]["id"]]}
    assert row["source"] == "127.0.0.1" and row["via"] == "api" and row["durationMs"] >= 0
    assert ours.post(f"/sandboxes/{sandbox}/timeout", json={"timeout": 100}).status_code == 204
    forked = ours.post(f"/sandboxes/{sandbox}/fork", json={"count": 2}).json()
    made = [each["sandbox"]["sandboxID"] for each in forked]
    row = newest(ours, action="sandbox.fork")
    assert row["object"] == sandbox and sorted(row["made"]) == sorted(made)
    assert ours.delete(f"/sandboxes/{sandbox}").status_code == 204
    newest(ours, action="sandbox.kill")
    assert [row["action"] for row in rows(ours, object=sandbox)] == ["sandbox.kill", "sandbox.fork", "sandbox.timeout", "sandbox.create"]
    for each in made:
        assert ours.delete(f"/sandboxes/{each}").status_code == 204


def test_a_refused_call_is_there_with_its_sentence(ours):
    assert ours.delete("/sandboxes/inotthere0000000000000").status_code == 404
    row = newest(ours, action="sandbox.kill", object="inotthere0000000000000")
    assert row["status"] == 404 and "exist" in row["error"]


def test_no_value_of_a_body_is_there(daemon, ours):
    sandbox = create(ours)
    assert ours.post("/secrets", json={"name": "hidden", "value": SECRET}).status_code == 201
    ours.post("/sandboxes", json={"templateID": SECRET})  # the error's sentence names it
    ours.post("/api-keys", json={"name": "k", "limits": {SECRET: 1}})
    key = ours.post("/api-keys", json={"name": "k"}).json()
    assert newest(ours, action="key.create")["object"] == key["id"]
    ours.delete(f"/sandboxes/{sandbox}")
    text = json.dumps(rows(ours, limit=1000))
    assert SECRET not in text and key["key"] not in text and key["key"][4:] not in text


def test_a_team_sees_no_row_of_another(ours, theirs, operator):
    name = "volume-of-ours"
    answer = ours.post("/volumes", json={"name": name})
    assert answer.status_code in (200, 201), answer.text
    volume = newest(ours, action="volume.create")["object"]
    team = ours.get("/teams").json()[0]["teamID"]
    for query in ({}, {"object": volume}, {"team": team}, {"cursor": 10**12}, {"action": "*"}, {"from": 0}):
        assert all(row["team"] != team and row["object"] != volume for row in rows(theirs, **query)), query
    lines = theirs.get("/audit", headers={"Accept": "application/x-ndjson"}, params={"team": team}).text
    assert volume not in lines and team not in lines
    assert rows(operator, "/admin/audit", team=team, object=volume)
    ours.delete(f"/volumes/{volume}")


def test_a_key_with_limits_may_not_read_it_and_its_refusals_are_there(daemon, ours):
    made = ours.post("/api-keys", json={"name": "limited", "limits": {"sandboxes": 1}}).json()
    with client(daemon, made["key"]) as limited:
        assert limited.get("/audit").status_code == 403
        assert limited.post("/api-keys", json={"name": "more"}).status_code == 403
    row = newest(ours, action="key.create", actor=made["id"])
    assert row["status"] == 403 and row["actor"]["name"] == "limited" and "limits" in row["error"]


def test_a_teams_key_at_a_route_of_the_operator_is_told_of(ours, operator):
    assert ours.post("/admin/teams", json={"name": "mine"}).status_code == 401
    row = newest(ours, action="team.create")
    assert row["status"] == 401 and row["actor"]["type"] == "key"
    assert ours.get("/admin/audit").status_code == 401


def test_refusals_are_bounded(ours, daemon):
    before = daemon.figures()["atoll_audit_rows_total"]
    for _ in range(300):
        ours.post("/admin/keys", json={"name": "x"})
    figures = daemon.figures()
    assert figures["atoll_audit_dropped_total"] > 0
    assert figures["atoll_audit_rows_total"] - before < 300


def test_refusals_of_one_team_hide_none_of_another(daemon, ours, theirs):
    stop = threading.Event()

    def flood():
        with client(daemon, daemon.key) as api:
            while not stop.is_set():
                api.post("/admin/keys", json={"name": "x"})

    before = daemon.figures()["atoll_audit_dropped_total"]
    thread = threading.Thread(target=flood)
    thread.start()
    try:
        until(lambda: daemon.figures()["atoll_audit_dropped_total"] > before, "too many refusals", 30)
        for name in ("one", "two", "three"):
            assert theirs.post("/admin/teams", json={"name": name}).status_code == 401
            time.sleep(0.3)  # a second's share is spent soon after it begins
    finally:
        stop.set()
        thread.join()
    until(lambda: len(rows(theirs, action="team.create")) == 3, "all three are on record", 10)


def test_the_operator_is_named_to_the_operator_alone(ours, operator):
    team = ours.get("/teams").json()[0]["teamID"]
    assert operator.patch(f"/admin/teams/{team}", json={"limits": {"builds": 5}}).status_code in (200, 204)
    row = newest(ours, action="team.change")
    assert row["actor"] == {"type": "admin"} and row["source"] is None and row["object"] == team
    row = newest(operator, "/admin/audit", action="team.change")
    assert row["actor"]["type"] == "admin" and row["actor"]["id"] and row["actor"]["name"] and row["source"] == "127.0.0.1"
    assert operator.patch(f"/admin/teams/{team}", json={"limits": {"builds": None}}).status_code in (200, 204)


def test_pages_and_an_export_have_the_same_rows(ours):
    for i in range(7):
        ours.delete(f"/sandboxes/inone{i:016d}")
    newest(ours, object="inone0000000000000006")
    everything = rows(ours, limit=1000)
    pages, query = [], {"limit": 3}
    while True:
        answer = ours.get("/audit", params=query)
        pages += answer.json()
        if "x-next-token" not in answer.headers:
            break
        query["cursor"] = answer.headers["x-next-token"]
    assert [row["seq"] for row in pages] == [row["seq"] for row in everything]
    export = ours.get("/audit", headers={"Accept": "application/x-ndjson"})
    assert export.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in export.text.splitlines()] == everything[::-1]


def test_a_follower_gets_new_rows(daemon, ours):
    got = []

    def follow():
        with client(daemon, daemon.key) as api:
            with api.stream("GET", "/audit", params={"follow": "true", "object": "ifollowed0000000000000"}, headers={"Accept": "application/x-ndjson"}) as answer:
                for line in answer.iter_lines():
                    if line:
                        got.append(json.loads(line))
                        return

    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(1.5)  # it has found nothing so far
    ours.delete("/sandboxes/ifollowed0000000000000")
    thread.join(30)
    assert [row["action"] for row in got] == ["sandbox.kill"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "from=x", "action=A", "action=[a]", "follow=maybe", "follow=true", "cursor=-1"])
def test_a_bad_question_is_refused(ours, query):
    assert ours.get(f"/audit?{query}").status_code == 400


def test_a_tool_is_there_by_name(daemon, ours):
    answer = ours.post("/tools/create_sandbox", json={})
    assert answer.status_code in (200, 201), answer.text
    row = newest(ours, action="tool.*")
    assert row["action"] == "tool.create_sandbox" and row["via"] == "tools" and row["status"] == 200
    assert newest(ours, action="sandbox.create")["via"] == "tools"
    for sandbox in ours.get("/sandboxes").json():
        ours.delete(f"/sandboxes/{sandbox['sandboxID']}")


def test_a_session_of_the_dashboard_is_named(daemon, ours):
    origin = {"Origin": daemon.url}
    with httpx.Client(base_url=daemon.url, timeout=60) as page:
        begun = page.post("/dashboard/session", json={"apiKey": daemon.key}, headers=origin)
        assert begun.status_code == 201, begun.text
        csrf = {"X-Atoll-CSRF": begun.json()["csrf"], **origin}
        row = newest(ours, action="session.begin")
        assert row["status"] == 201 and row["actor"]["type"] == "key" and row["actor"]["id"]
        assert page.delete("/sandboxes/iofthedashboard0000000", headers=csrf).status_code == 404
        row = newest(ours, object="iofthedashboard0000000")
        assert row["via"] == "dashboard" and len(row["session"]) == 12
        assert page.post("/dashboard/session", json={"adminKey": "atoll_admin_" + "0" * 40}, headers=csrf).status_code == 401
        assert newest(ours, action="session.elevate")["status"] == 401
        values = [each.value for each in page.cookies.jar]
        assert values and all(value not in json.dumps(rows(ours, limit=1000)) for value in values)
        assert page.delete("/dashboard/session", headers=csrf).status_code == 204
        assert newest(ours, action="session.end")["session"] == row["session"]


def test_the_command_prints_it(daemon, ours):
    sandbox = create(ours)
    ours.delete(f"/sandboxes/{sandbox}")
    newest(ours, action="sandbox.kill", object=sandbox)
    shown = atoll(daemon, "audit", "--object", sandbox).stdout
    assert "sandbox.kill" in shown and "sandbox.create" in shown and sandbox in shown
    lines = [json.loads(line) for line in atoll(daemon, "audit", "--since", "1h", "--object", sandbox, "--json").stdout.splitlines()]
    assert [row["action"] for row in lines] == ["sandbox.create", "sandbox.kill"]
    assert atoll(daemon, "audit", "--since", "soon", check=False).returncode == 2


def test_kill_nine_loses_no_change_without_its_record():
    """While keys are made, the server is killed: every key that is there has a row of its making."""
    with running() as daemon:
        made = []

        def make():
            with client(daemon, daemon.key) as api:
                for i in range(400):
                    try:
                        made.append(api.post("/api-keys", json={"name": f"k{i}"}).json()["id"])
                    except (httpx.TransportError, KeyError, ValueError):
                        return

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(made) > 20, "some keys are made")
        daemon.kill_child("serve")
        for thread in threads:
            thread.join()
        with client(daemon, daemon.key) as api:
            there = {key["id"] for key in api.get("/api-keys").json()}
            log = until(lambda: [row for row in rows(api, limit=1000, action="key.create")], "the log is there")
            assert all(row["status"] is not None for row in log)
            assert set(made) <= there
            # A row for each; of those that the crash cut short, the outcome and the object are unknown.
            assert len(log) >= len(there) - 1  # the default key was made by nobody
            assert {row["object"] for row in log if row["status"] == 201} <= there
            assert all(row["error"] for row in log if row["status"] != 201)
