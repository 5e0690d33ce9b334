"""/dashboard: the questions of E2B's own dashboard, in the shapes of its public specification."""

import time
import uuid

import pytest

BUILD = {"id", "template", "templateId", "status", "statusMessage", "createdAt", "finishedAt", "cpuCount", "memoryMB",
         "diskSizeMB", "envdVersion"}
TEMPLATE = {"templateID", "buildID", "cpuCount", "memoryMB", "diskSizeMB", "public", "aliases", "names", "createdAt",
            "updatedAt", "createdBy", "lastSpawnedAt", "spawnCount", "buildCount", "envdVersion", "isDefault"}
DETAIL = TEMPLATE - {"createdBy", "isDefault"}
DEFAULT = {"id", "aliases", "buildId", "ramMb", "vcpu", "totalDiskSizeMb", "createdAt", "public", "buildCount", "spawnCount"}
ASSIGNMENT = {"assignmentId", "buildId", "assignedAt", "buildCreatedAt", "buildFinishedAt"}


def build(api, name, steps=(), tags=()):
    asked = api.post("/v3/templates", json={"name": name, "tags": list(tags)}).json()
    path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}"
    body = {"fromTemplate": "base", "steps": [{"type": "RUN", "args": [step], "force": True} for step in steps]}
    assert api.post(f"/v2{path}", json=body).status_code == 202
    deadline = time.monotonic() + 240
    while (status := api.get(f"{path}/status").json()["status"]) not in ("ready", "error"):
        assert time.monotonic() < deadline, "the build does not end"
        time.sleep(0.1)
    return asked["templateID"], asked["buildID"], status


@pytest.fixture(scope="module")
def name():
    return f"dash-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def built(api, name):
    """A template with two builds, and a third that failed: its id, and the ids of the builds."""
    template, first, state = build(api, name, ["echo 1"], ["default", "v1"])
    assert state == "ready"
    _, second, state = build(api, name, ["echo 2"], ["default"])
    assert state == "ready"
    _, failed, state = build(api, name, ["exit 3"], ["never"])
    assert state == "error"
    yield template, first, second, failed
    assert api.delete(f"/templates/{template}").status_code == 204


def get(api, path, status=200):
    answer = api.get(f"/dashboard{path}")
    assert answer.status_code == status, (path, answer.text)
    return answer.json()


def pages(api, path, name="data", cursor="cursor"):
    """All rows, page by page."""
    rows, next_page = [], ""
    while True:
        page = get(api, path + (f"&{cursor}={next_page}" if next_page else ""))
        assert page.keys() == {name, "nextCursor"}
        rows += page[name]
        if page["nextCursor"] is None:
            return rows
        next_page = page["nextCursor"]


def test_health_is_open(anonymous):
    answer = anonymous.get("/dashboard/health")
    assert answer.status_code == 200 and answer.json() == {"message": "Health check successful"}
    assert anonymous.get("/dashboard/builds").status_code == 401


def test_builds(api, built, name):
    template, first, second, failed = built
    rows = get(api, f"/builds?build_id_or_template={template}")["data"]
    assert [row["id"] for row in rows] == [failed, second, first]
    assert all(row.keys() == BUILD and row["template"] == name and row["templateId"] == template for row in rows)
    assert [row["status"] for row in rows] == ["failed", "success", "success"]
    assert rows[0]["statusMessage"] and rows[1]["statusMessage"] is None and rows[1]["finishedAt"]
    assert [row["id"] for row in get(api, f"/builds?build_id_or_template={name}&statuses=success")["data"]] == [second, first]
    assert [row["id"] for row in get(api, f"/builds?build_id_or_template={first}")["data"]] == [first]
    assert get(api, "/builds?build_id_or_template=no-such-thing")["data"] == []
    assert get(api, f"/builds?build_id_or_template={template}&statuses=building,failed")["data"][0]["id"] == failed
    one_by_one = pages(api, f"/builds?build_id_or_template={template}&limit=1")
    assert [row["id"] for row in one_by_one] == [failed, second, first]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "cursor=x", "cursor=a|b|c", "statuses=cats", "statuses=success,,"])
def test_a_bad_question_about_builds(api, query):
    assert get(api, f"/builds?{query}", 400)["message"]


def test_statuses(api, built):
    _, first, second, failed = built
    rows = get(api, f"/builds/statuses?build_ids={first},{failed},{uuid.uuid4()}")["buildStatuses"]
    assert {row["id"]: row["status"] for row in rows} == {first: "success", failed: "failed"}
    assert all(row.keys() == {"id", "status", "finishedAt", "statusMessage"} for row in rows)
    for query in ("", "?build_ids=", "?build_ids=x", f"?build_ids={first},", "?build_ids=" + ",".join(str(uuid.uuid4()) for _ in range(101))):
        get(api, f"/builds/statuses{query}", 400)


def test_one_build(api, built, name):
    _, first, _, failed = built
    info = get(api, f"/builds/{first}")
    assert info.keys() == {"names", "createdAt", "finishedAt", "status", "statusMessage"}
    assert info["names"][0].endswith(name) and info["status"] == "success"
    assert "3" in get(api, f"/builds/{failed}")["statusMessage"]
    get(api, f"/builds/{uuid.uuid4()}", 404)
    get(api, "/builds/nothing", 400)


def test_templates(api, built, name):
    template = built[0]
    (row,) = get(api, f"/templates?search={name.upper()}")["data"]
    assert TEMPLATE <= row.keys() and row["templateID"] == template and row["isDefault"] is False and row["buildCount"] == 3
    assert get(api, f"/templates?search={template}&public=false")["data"][0]["templateID"] == template
    assert get(api, f"/templates?search={template}&public=true")["data"] == []
    every = pages(api, "/templates?limit=1")
    assert [row["createdAt"] for row in every] == sorted((row["createdAt"] for row in every), reverse=True)
    assert template in {row["templateID"] for row in every} and any(row["isDefault"] for row in every)
    for sort, field, reverse in (("created_at_asc", "createdAt", False), ("updated_at_desc", "updatedAt", True), ("updated_at_asc", "updatedAt", False)):
        rows = pages(api, f"/templates?limit=2&sort={sort}")
        assert [row[field] for row in rows] == sorted((row[field] for row in rows), reverse=reverse)
        assert len(rows) == len(every)
    cursor = get(api, "/templates?limit=1")["nextCursor"]
    assert cursor.startswith("created_at_desc|")
    assert "different sort" in get(api, f"/templates?limit=1&sort=created_at_asc&cursor={cursor}", 400)["message"]
    for query in ("sort=x", "public=maybe", "limit=0", "cursor=x"):
        get(api, f"/templates?{query}", 400)


def test_the_built_in_templates(api):
    rows = get(api, "/templates/defaults")["templates"]
    assert all(DEFAULT <= row.keys() for row in rows)
    (base,) = [row for row in rows if {"alias": "base", "namespace": None} in row["aliases"]]
    uuid.UUID(base["buildId"])


def test_one_template(api, built, name):
    template, _, second, _ = built
    row = get(api, f"/templates/{template}")
    assert DETAIL <= row.keys() and row["buildID"] == second and row["cpuCount"] >= 1
    get(api, "/templates/nothing", 404)
    asked = api.post("/v3/templates", json={"name": f"{name}-empty"}).json()
    try:
        row = get(api, f"/templates/{asked['templateID']}")
        assert row["buildID"] == "00000000-0000-0000-0000-000000000000" and row["cpuCount"] is None
    finally:
        api.delete(f"/templates/{asked['templateID']}")


def test_tags_and_what_they_have_named(api, built):
    template, first, second, _ = built
    path = f"/templates/{template}/tags"
    assert get(api, f"{path}/count") == {"total": 2}
    assert get(api, f"{path}/exists?tag=V1") == {"exists": True, "normalizedTag": "v1"}
    assert get(api, f"{path}/exists?tag=never") == {"exists": False, "normalizedTag": "never"}
    groups = get(api, f"{path}/groups")
    assert groups["nextCursor"] is None and [group["tag"] for group in groups["tags"]] == ["default", "v1"]
    default, v1 = groups["tags"]
    assert [row["buildId"] for row in default["assignments"]] == [second, first] and not default["hasMore"]
    assert all(row.keys() == ASSIGNMENT for row in default["assignments"]) and v1["assignments"][0]["buildId"] == first
    assert [group["tag"] for group in get(api, f"{path}/groups?sort=name_desc")["tags"]] == ["v1", "default"]
    assert [group["tag"] for group in get(api, f"{path}/groups?search=v")["tags"]] == ["v1"]
    cut = get(api, f"{path}/groups?assignmentLimit=1")["tags"][0]
    assert len(cut["assignments"]) == 1 and cut["hasMore"]
    assert [group["tag"] for group in pages(api, f"{path}/groups?tagsLimit=1", "tags", "tagsCursor")] == ["default", "v1"]
    rows = pages(api, f"{path}/default/assignments?limit=1")
    assert [row["buildId"] for row in rows] == [second, first]
    assert len({row["assignmentId"] for row in rows}) == 2
    assert get(api, f"{path}/nothing/assignments") == {"data": [], "nextCursor": None}


def test_a_tag_that_moves_and_goes(api, built, name):
    template, first, second, _ = built
    path = f"/templates/{template}/tags"
    for target in (f"{name}:v1", f"{name}:default"):
        assert api.post("/templates/tags", json={"target": target, "tags": ["moves"]}).status_code == 201
    assert [row["buildId"] for row in get(api, f"{path}/moves/assignments")["data"]] == [second, first]
    assert api.request("DELETE", "/templates/tags", json={"name": name, "tags": ["moves"]}).status_code == 204
    assert get(api, f"{path}/moves/assignments")["data"] == []
    assert get(api, f"{path}/exists?tag=moves")["exists"] is False


@pytest.mark.parametrize("rest", ["groups?sort=x", "groups?search=A%20B", "groups?tagsLimit=0", "groups?assignmentLimit=26",
                                  "groups?tagsCursor=x", "exists", "exists?tag=", "exists?tag=a%20b", "a%20b/assignments",
                                  "default/assignments?limit=0", "default/assignments?cursor=x"])
def test_a_bad_question_about_tags(api, built, rest):
    get(api, f"/templates/{built[0]}/tags/{rest}", 400)


def test_tags_of_a_template_that_is_not_there(api):
    for rest in ("groups", "count", "exists?tag=x", "x/assignments"):
        get(api, f"/templates/nothing/tags/{rest}", 404)
