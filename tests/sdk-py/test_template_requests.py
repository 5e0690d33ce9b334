"""Requests about templates that go wrong, with raw calls."""

import pytest

DOCKERFILE = {"dockerfile": "FROM debian"}
NO_BUILD = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("path", ["/templates", "/templates/nothing"])
@pytest.mark.parametrize("body", [{}, {"dockerfile": 5}, {**DOCKERFILE, "alias": 5}, {**DOCKERFILE, "alias": "A B"},
                                  {**DOCKERFILE, "teamID": "another"}, {**DOCKERFILE, "cpuCount": 0}, {**DOCKERFILE, "memoryMB": 1},
                                  {**DOCKERFILE, "startCmd": []}, []])
def test_the_oldest_endpoints_say_what_is_wrong(api, path, body):
    answer = api.post(path, json=body)
    assert answer.status_code == 400 and answer.json()["message"], answer.text


def test_the_oldest_endpoints_refuse_what_is_right(api):
    answer = api.post("/templates", json={**DOCKERFILE, "alias": "mine"})
    assert answer.status_code == 501 and "Template" in answer.json()["message"]
    assert api.post("/templates/nothing", json=DOCKERFILE).status_code == 404
    assert api.post(f"/templates/nothing/builds/{NO_BUILD}").status_code == 404
    assert api.post("/templates/nothing/builds/nothing").status_code == 400
    asked = api.post("/v3/templates", json={"name": "the-oldest-way"}).json()
    try:
        assert api.post(f"/templates/{asked['templateID']}", json=DOCKERFILE).status_code == 501
        assert api.post(f"/templates/{asked['templateID']}/builds/{asked['buildID']}").status_code == 501
    finally:
        api.delete(f"/templates/{asked['templateID']}")


@pytest.mark.parametrize("build", ["nothing", "1", NO_BUILD[:-1], NO_BUILD + "0", "zzzzzzzz-0000-0000-0000-000000000000"])
@pytest.mark.parametrize("what", ["status", "logs"])
def test_a_malformed_build_id(api, build, what):
    answer = api.get(f"/templates/base/builds/{build}/{what}")
    assert answer.status_code == 400 and answer.json()["message"] == "Invalid build id"
