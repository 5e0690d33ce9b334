"""Quotas of teams and of keys: sandboxes, cpus, memory, disk, builds. Each is checked in one place, whatever asks; many
calls at once do not pass it; it is the same after a restart."""

import threading
import time

import pytest
from daemon import running, until
from teams import add_team, admin, atoll, client

BASE_CPUS, BASE_MEMORY_MB, BASE_DISK_MB = 2, 1024, 10240


@pytest.fixture(scope="module")
def daemon():
    with running() as daemon:
        with client(daemon, daemon.key) as api:
            (base,) = [t for t in api.get("/templates").json() if "base" in t["aliases"]]
            global BASE_CPUS, BASE_MEMORY_MB, BASE_DISK_MB
            BASE_CPUS, BASE_MEMORY_MB, BASE_DISK_MB = base["cpuCount"], base["memoryMB"], base["diskSizeMB"]
        yield daemon


count = 0


@pytest.fixture
def team(daemon):
    """A team of the test's own: its name, its id, and a client with its first key."""
    global count
    count += 1

    class Team:
        name = f"quota-{count}"
        key = add_team(daemon, name)
        api = client(daemon, key)
        id = api.get("/teams").json()[0]["teamID"]

        def limit(self, **limits):
            words = [f"{name}={'none' if most is None else most}" for name, most in limits.items()]
            atoll(daemon, "team", "limit", self.name, *words)

        def usage(self):
            return self.api.get(f"/teams/{self.id}/usage").json()

        def create(self, api=None, **more):
            return (api or self.api).post("/sandboxes", json={"templateID": "base", "timeout": 300, **more})

    team = Team()
    yield team
    for row in team.api.get("/v2/sandboxes").json():
        team.api.delete(f"/sandboxes/{row['sandboxID']}")
    team.api.close()


def made(answer):
    assert answer.status_code == 201, answer.text
    return answer.json()["sandboxID"]


def refused(answer, *words):
    assert answer.status_code == 429, answer.text
    for word in words:
        assert word in answer.json()["message"], answer.text


def test_a_team_is_made_with_its_first_key(daemon, team):
    with admin(daemon) as operator:
        (row,) = [row for row in operator.get("/admin/teams").json() if row["teamID"] == team.id]
        assert row["name"] == team.name and row["limits"]["cpus"] is None and row["limits"]["sandboxes"] == 10000
        again = operator.post("/admin/teams", json={"name": team.name})
        assert again.status_code == 409, again.text
        for name in ("", "A B", "x/y", "x:y", None, 5, "x" * 300):
            assert operator.post("/admin/teams", json={"name": name}).status_code == 400, name
        for limits in ({"cats": 1}, {"cpus": -1}, {"cpus": "4"}, {"cpus": 1.5}, {"cpus": 10**12}, [], 5):
            answer = operator.post("/admin/teams", json={"name": "never", "limits": limits})
            assert answer.status_code == 400 and "limits" in answer.json()["message"], limits
        assert "never" not in operator.get("/admin/teams").text


def test_sandboxes(team):
    team.limit(sandboxes=1)
    first = made(team.create())
    refused(team.create(), "maximum number of concurrent E2B sandboxes (1)", "limit sandboxes", team.name)
    refused(team.api.post(f"/sandboxes/{first}/fork", json={}), "(1)")
    assert team.api.post(f"/sandboxes/{first}/pause").status_code == 204
    second = made(team.create())
    refused(team.api.post(f"/sandboxes/{first}/connect", json={"timeout": 60}), "(1)")
    refused(team.api.post(f"/sandboxes/{first}/resume", json={}), "(1)")
    assert team.api.delete(f"/sandboxes/{second}").status_code == 204
    made(team.api.post(f"/sandboxes/{first}/resume", json={}))


def test_a_limit_of_none_and_of_nothing(team):
    team.limit(sandboxes=0)
    refused(team.create(), "(0)")
    team.limit(sandboxes=None)
    made(team.create())


@pytest.mark.parametrize("limit, of_one", [("cpus", "BASE_CPUS"), ("memoryMB", "BASE_MEMORY_MB"), ("diskMB", "BASE_DISK_MB")])
def test_what_sandboxes_take(team, limit, of_one):
    each = globals()[of_one]
    team.limit(**{limit: 2 * each - 1})
    made(team.create())
    refused(team.create(), f"limit {limit} ", f"is {2 * each - 1}", f"{each} are in use", f"needs {each} more")
    team.limit(**{limit: 2 * each})
    made(team.create())
    now = team.usage()["now"]
    assert now[limit] == 2 * each and now["sandboxes"] == 2


def test_traffic_wakes_nobody_beyond_the_limit(team, daemon):
    sandbox = made(team.create(autoPause=True, autoResume={"enabled": True}))
    assert team.api.post(f"/sandboxes/{sandbox}/pause").status_code == 204
    team.limit(cpus=BASE_CPUS - 1)
    headers = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": "49983"}
    assert team.api.get("/health", headers=headers).status_code != 204
    assert team.api.get(f"/sandboxes/{sandbox}").json()["state"] == "paused"
    team.limit(cpus=BASE_CPUS)
    assert team.api.get("/health", headers=headers).status_code == 204


@pytest.mark.attack
def test_many_creates_and_forks_at_once_do_not_pass_the_limits(team, daemon):
    """Creates and forks of one team, all at once and from several keys, never come to more cpus than its limit."""
    source = made(team.create())
    team.limit(cpus=4 * BASE_CPUS)
    answers = []

    def create():
        with client(daemon, team.key) as api:
            answers.append(team.create(api))

    def fork():
        with client(daemon, team.key) as api:
            answers.append(api.post(f"/sandboxes/{source}/fork", json={"count": 3, "timeout": 300}))

    threads = [threading.Thread(target=target) for target in [create, fork] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {201, 429}, [answer.text for answer in answers]
    running_ones = team.api.get("/v2/sandboxes?state=running").json()
    assert len(running_ones) == 4
    assert team.usage()["now"]["cpus"] == 4 * BASE_CPUS


@pytest.mark.attack
def test_forks_at_once_do_not_pass_the_limits_together(team, daemon):
    """Several forks, each of which alone would fit, are asked for at once: together they make as many copies as fit, and the others are refused one by one."""
    source = made(team.create())
    team.limit(cpus=4 * BASE_CPUS)
    answers = []

    def fork():
        with client(daemon, team.key) as api:
            answers.append(api.post(f"/sandboxes/{source}/fork", json={"count": 3, "timeout": 300}))

    threads = [threading.Thread(target=fork) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    copies = [copy for answer in answers if answer.status_code == 201 for copy in answer.json()]
    assert len([copy for copy in copies if "sandbox" in copy]) == 3
    # A fork that finds no room for any of its copies is refused as a whole.
    refusals = [copy["error"] for copy in copies if "error" in copy]
    refusals += [answer.json() for answer in answers if answer.status_code != 201 for _ in range(3)]
    assert len(refusals) == 4 * 3 - 3
    assert all(error["code"] == 429 and "limit cpus" in error["message"] for error in refusals), refusals
    assert team.usage()["now"]["sandboxes"] == 4


def test_paused_sandboxes_and_snapshots_take_disk(team):
    sandbox = made(team.create())
    before = team.usage()["now"]["diskMB"]
    assert before == BASE_DISK_MB
    snapshot = team.api.post(f"/sandboxes/{sandbox}/snapshots", json={"name": "kept"})
    assert snapshot.status_code == 201, snapshot.text
    with_snapshot = team.usage()["now"]["diskMB"]
    assert before < with_snapshot < 2 * before
    assert team.api.post(f"/sandboxes/{sandbox}/pause").status_code == 204
    paused = team.usage()["now"]
    assert with_snapshot - before < paused["diskMB"] < with_snapshot and paused["pausedSandboxes"] == 1
    team.limit(diskMB=paused["diskMB"])
    refused(team.create(), "limit diskMB ")
    refused(team.api.post("/volumes", json={"name": "v"}), "limit diskMB ")
    team.limit(diskMB=paused["diskMB"] + BASE_DISK_MB)
    other = made(team.create())
    refused(team.api.post(f"/sandboxes/{other}/snapshots", json={}), "limit diskMB ")
    assert team.api.delete(f"/templates/{snapshot.json()['snapshotID'].split(':')[0].split('/')[-1]}").status_code == 204
    assert team.usage()["now"]["diskMB"] < paused["diskMB"] + BASE_DISK_MB


def test_builds(team):
    def ask(name):
        answer = team.api.post("/v3/templates", json={"name": name})
        assert answer.status_code == 202, answer.text
        return answer.json()

    def start(asked, seconds):
        body = {"fromTemplate": "base", "steps": [{"type": "RUN", "args": [f"sleep {seconds}"], "force": True}]}
        return team.api.post(f"/v2/templates/{asked['templateID']}/builds/{asked['buildID']}", json=body)

    team.limit(builds=1)
    first, second = ask("first"), ask("second")
    assert start(first, 60).status_code == 202
    refused(start(second, 0), "limit builds ", "is 1", "1 are in use")
    usage = team.usage()
    assert usage["now"]["builds"] == 1 and usage["now"]["cpus"] >= 1 and usage["total"]["builds"] == 1
    answer = team.api.delete(f"/templates/{first['templateID']}/builds/{first['buildID']}")
    assert answer.status_code == 204, answer.text
    until(lambda: team.usage()["now"]["builds"] == 0, "the build has ended")
    assert start(second, 0).status_code == 202


def test_a_key_has_limits_of_its_own(team, daemon):
    small = atoll(daemon, "team", "key", team.name, "small", "sandboxes=1").stdout.strip()
    with client(daemon, small) as api:
        first = made(team.create(api))
        refused(team.create(api), "(1)", "limit sandboxes", "key 'small'")
        refused(api.post(f"/sandboxes/{first}/fork", json={}), "key 'small'")
        other = made(team.create())  # the team has no such limit
        refused(api.post(f"/sandboxes/{other}/fork", json={}), "key 'small'")  # nor may it use others' for that
        made(team.create())
        api.delete(f"/sandboxes/{first}")
        made(team.create(api))


@pytest.mark.attack
def test_a_key_with_limits_cannot_shed_them(team, daemon):
    """A key with limits makes, changes and deletes keys and access tokens, to have one without limits: it is refused."""
    made_key = team.api.post("/api-keys", json={"name": "small", "limits": {"sandboxes": 0, "builds": 2}})
    assert made_key.status_code == 201 and made_key.json()["limits"] == {
        "sandboxes": 0, "cpus": None, "memoryMB": None, "diskMB": None, "builds": 2}
    key = made_key.json()
    with client(daemon, key["key"]) as api:
        refused(team.create(api), "(0)")
        for answer in (api.post("/api-keys", json={"name": "large"}), api.post("/access-tokens", json={"name": "large"}),
                       api.patch(f"/api-keys/{key['id']}", json={"limits": {"sandboxes": None}}),
                       api.delete(f"/api-keys/{key['id']}")):
            assert answer.status_code == 403 and "has limits" in answer.json()["message"], answer.text
        assert api.post("/admin/teams", json={"name": "mine"}).status_code == 401
    assert team.api.patch(f"/api-keys/{key['id']}", json={"limits": {"sandboxes": 1}}).status_code == 202
    with client(daemon, key["key"]) as api:
        made(team.create(api))
    (row,) = [row for row in team.api.get("/api-keys").json() if row["id"] == key["id"]]
    assert row["name"] == "small" and row["limits"]["sandboxes"] == 1 and row["limits"]["builds"] == 2


def test_limits_and_what_is_in_use_survive_a_restart(team, daemon):
    small = atoll(daemon, "team", "key", team.name, "small", "cpus=" + str(BASE_CPUS)).stdout.strip()
    team.limit(sandboxes=2, diskMB=10**6)
    with client(daemon, small) as api:
        made(team.create(api))
    paused = made(team.create())
    assert team.api.post(f"/sandboxes/{paused}/pause").status_code == 204
    before = team.usage()
    daemon.stop()
    daemon.start()
    team.api.close()
    team.api = client(daemon, team.key)
    after = team.usage()
    assert after["now"] == before["now"] and after["limits"] == before["limits"]
    assert after["total"]["sandboxSeconds"] >= before["total"]["sandboxSeconds"] > 0
    with client(daemon, small) as api:
        refused(team.create(api), "limit cpus ", "key 'small'")
    made(team.create())
    refused(team.create(), "(2)", f"team '{team.name}'")


def test_usage_over_time(team):
    assert team.usage()["total"] == {name: 0 for name in (
        "sandboxSeconds", "cpuSeconds", "memoryMBSeconds", "diskMBSeconds", "buildSeconds", "builds")}
    began = time.monotonic()
    sandbox = made(team.create())
    time.sleep(2)
    team.api.delete(f"/sandboxes/{sandbox}")
    lived = time.monotonic() - began
    usage = team.usage()
    total = usage["total"]
    assert 2 <= total["sandboxSeconds"] <= lived + 0.1
    assert total["cpuSeconds"] == pytest.approx(BASE_CPUS * total["sandboxSeconds"], rel=0.01)
    assert total["memoryMBSeconds"] == pytest.approx(BASE_MEMORY_MB * total["sandboxSeconds"], rel=0.01)
    assert usage["hours"] and sum(hour["sandboxSeconds"] for hour in usage["hours"]) == pytest.approx(total["sandboxSeconds"])
    assert usage["now"]["sandboxes"] == 0
    time.sleep(1.1)
    assert team.usage()["total"]["sandboxSeconds"] == total["sandboxSeconds"]
    now = int(time.time())
    assert team.api.get(f"/teams/{team.id}/usage?start=0&end=3600").json()["hours"] == []
    for query in (f"start={now}&end={now - 10}", "start=x", f"start=0&end={now}", "end=99999999999999"):
        assert team.api.get(f"/teams/{team.id}/usage?{query}").status_code == 400, query


def test_the_command_line(team, daemon):
    said = atoll(daemon, "team", "list").stdout
    assert team.name in said and team.id in said and "default" in said
    atoll(daemon, "team", "limit", team.name, "cpus=8", "builds=none")
    assert "cpus 0/8" in atoll(daemon, "team", "usage", team.id).stdout
    assert "sandbox hours" in atoll(daemon, "team", "usage", team.name).stdout
    atoll(daemon, "team", "key", team.name, "ci", "sandboxes=3")
    rows = atoll(daemon, "team", "keys", team.name).stdout.splitlines()
    (row,) = [row for row in rows if "ci" in row.split("\t")]
    assert "sandboxes=3" in row
    key_id = row.split()[0]
    atoll(daemon, "team", "key-limit", team.name, key_id, "sandboxes=none")
    assert "sandboxes=" not in atoll(daemon, "team", "keys", team.name).stdout
    atoll(daemon, "team", "revoke", team.name, key_id)
    assert key_id not in atoll(daemon, "team", "keys", team.name).stdout
    for words in (["team"], ["team", "cats"], ["team", "limit", team.name], ["team", "create"], ["admin-key"]):
        assert atoll(daemon, *words, check=False).returncode == 2, words
    for words, says, code in ((["team", "usage", "nobody"], "no team 'nobody'", 3), (["team", "limit", team.name, "cats=1"], "cats", 1),
                              (["team", "limit", team.name, "cpus=many"], "whole number", 1),
                              (["team", "create", team.name], "already", 1)):
        failed = atoll(daemon, *words, check=False)
        assert failed.returncode == code and says in failed.stderr, failed.stderr
