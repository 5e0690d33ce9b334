"""Calls of the API that SDKs after 2.51 know, asked with the models of the newest one."""

import uuid

import pytest
import web
from e2b import Template
from e2b.api.client.models import (
    Template as TemplateRow,
    TemplateTagAssignmentsResponse,
    TemplateTagExistsResponse,
    TemplateTagGroupsResponse,
    TemplateTagsCountResponse,
    TemplateWithBuilds,
)

TAGS = ["default", "v1", "v2", "stable"]


@pytest.fixture(scope="module")
def tagged():
    """The id of a template with all of TAGS, and its build's."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    info = Template.build(Template().from_base_image().run_cmd("true"), name, cpu_count=1, memory_mb=512)
    for tag in TAGS[1:]:
        Template.assign_tags(name, tag)
    return info


def get(api, tagged, path, status=200, **query):
    answer = api.get(f"/templates/{tagged.template_id}/tags/{path}", params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_tags_are_counted(api, tagged):
    assert TemplateTagsCountResponse.from_dict(get(api, tagged, "count")).total == len(TAGS)


@pytest.mark.parametrize("tag, exists, normal", [("v1", True, "v1"), ("V1", True, "v1"), ("none", False, "none")])
def test_a_tag_exists_or_not(api, tagged, tag, exists, normal):
    answer = TemplateTagExistsResponse.from_dict(get(api, tagged, "exists", tag=tag))
    assert (answer.exists, answer.normalized_tag) == (exists, normal)


@pytest.mark.parametrize("sort, names", [
    ("name_asc", ["default", "stable", "v1", "v2"]),
    ("name_desc", ["v2", "v1", "stable", "default"]),
    ("latest_asc", TAGS),
    ("latest_desc", TAGS[::-1]),
])
def test_tags_in_groups_come_in_pages(api, tagged, sort, names):
    whole = TemplateTagGroupsResponse.from_dict(get(api, tagged, "groups", sort=sort))
    assert [group.tag for group in whole.tags] == names and whole.next_cursor is None
    seen, cursor = [], {}
    while True:
        page = TemplateTagGroupsResponse.from_dict(get(api, tagged, "groups", sort=sort, tagsLimit=3, **cursor))
        seen += [group.tag for group in page.tags]
        if page.next_cursor is None:
            break
        cursor = {"tagsCursor": page.next_cursor}
    assert seen == names


def test_a_group_has_the_build_that_its_tag_names(api, tagged):
    groups = TemplateTagGroupsResponse.from_dict(get(api, tagged, "groups", search="v")).tags
    assert {group.tag for group in groups} == {"v1", "v2"}
    for group in groups:
        (assignment,) = group.assignments
        assert str(assignment.build_id) == tagged.build_id and group.has_more is False
        assert assignment.build_created_at <= assignment.build_finished_at <= assignment.assigned_at
    assert len({group.assignments[0].assignment_id for group in groups}) == 2
    found = TemplateTagAssignmentsResponse.from_dict(get(api, tagged, "v1/assignments"))
    assert found.data == [next(group for group in groups if group.tag == "v1").assignments[0]]
    assert TemplateTagAssignmentsResponse.from_dict(get(api, tagged, "none/assignments")).data == []


@pytest.mark.parametrize("path, query", [
    ("exists", {}), ("exists", {"tag": "no spaces"}), ("groups", {"sort": "best"}), ("groups", {"tagsLimit": 0}),
    ("groups", {"tagsLimit": 101}), ("groups", {"tagsCursor": "gone"}), ("v1/assignments", {"limit": 0}),
    ("no%20spaces/assignments", {}),
])
def test_bad_questions_about_tags(api, tagged, path, query):
    assert get(api, tagged, path, 400, **query)["message"]


@pytest.mark.parametrize("path", ["count", "exists?tag=x", "groups", "x/assignments"])
@pytest.mark.parametrize("template,status", [("base", 403), ("no-such-template", 404)])
def test_tags_of_what_is_not_ours_are_not_shown(api, template, status, path):
    assert api.get(f"/templates/{template}/tags/{path}").status_code == status


def test_the_default_templates(api, tagged):
    rows = api.get("/default-templates").json()
    assert [row["templateID"] for row in rows] == sorted(row["templateID"] for row in rows)
    parsed = [TemplateRow.from_dict(dict(row)) for row in rows]
    assert "base" in [alias for row in parsed for alias in row.aliases]
    assert all(row.is_default and row.spawn_count == 0 and row.created_by is None for row in parsed)
    assert tagged.template_id not in [row.template_id for row in parsed]


def test_a_template_with_its_builds_has_all_fields_of_one(api, tagged):
    answer = TemplateWithBuilds.from_dict(api.get(f"/templates/{tagged.template_id}").json())
    assert (answer.build_id, answer.cpu_count, answer.memory_mb) == (tagged.build_id, 1, 512)
    assert answer.build_status == "ready" and len(answer.builds) == 1


def test_free_disk_is_asked_for_with_a_build(api):
    name = f"t-{uuid.uuid4().hex[:12]}"
    template = Template().from_base_image().run_cmd("true")
    info = Template.build(template, name, min_free_disk_mb=20 * 1024)
    assert api.get(f"/templates/{info.template_id}").json()["diskSizeMB"] == 20 * 1024
    above = Template.build(Template().from_template(name).run_cmd("true"), f"{name}-2", min_free_disk_mb=0)
    assert api.get(f"/templates/{above.template_id}").json()["diskSizeMB"] == 20 * 1024  # it never shrinks
    body = {"name": name, "minFreeDiskMb": -1}
    assert api.post("/v3/templates", json=body).status_code == 400


def test_public_traffic_may_be_null(api):
    made = api.post("/sandboxes", json={"templateID": "base", "network": {"allowPublicTraffic": None}})
    assert made.status_code == 201 and "trafficAccessToken" not in made.json()
    api.delete(f"/sandboxes/{made.json()['sandboxID']}")


def test_each_502_says_whether_the_sandbox_runs(own_sandbox):
    for paused, sentence in ((False, "port is not open"), (True, "was not found")):
        if paused:
            own_sandbox.pause()
        with web.client(own_sandbox.sandbox_id, 9) as client:
            answer = client.get("/")
        assert answer.status_code == 502 and sentence in answer.json()["message"], answer.text
    assert own_sandbox.is_running() is False


def test_name_servers_are_changed_with_the_network(own_sandbox, api):
    path = f"/sandboxes/{own_sandbox.sandbox_id}"
    for body, shown in (({"dnsServers": ["9.9.9.9"]}, ["9.9.9.9"]), ({}, None)):
        assert api.put(f"{path}/network", json=body).status_code == 204
        assert api.get(path).json()["network"].get("dnsServers") == shown
