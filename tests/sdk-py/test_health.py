"""What anyone may ask, and what a browser is told."""

import pytest


def test_health_needs_no_key(anonymous):
    answer = anonymous.get("/health")
    assert answer.status_code == 200
    health = answer.json()
    assert health["version"]
    assert isinstance(health["degraded"], list)
    assert "access-control-allow-origin" not in answer.headers


def test_health_shows_figures_to_those_who_have_a_key(anonymous, api):
    figures = {"sandboxes", "templates", "uptimeSeconds"}
    assert figures <= api.get("/health").json().keys()
    assert not figures & anonymous.get("/health").json().keys()
    assert not figures & anonymous.get("/health", headers={"X-API-Key": "e2b_" + "0" * 40}).json().keys()


@pytest.mark.parametrize("headers", [{"publisher": "e2b"}, {"User-Agent": "e2b-js-sdk/2.6.0"}])
def test_health_of_e2b_for_its_clients(anonymous, headers):
    answer = anonymous.get("/health", headers=headers)
    assert answer.status_code == 200 and answer.text == "Health check successful"
    assert answer.headers["content-type"].startswith("text/plain")


def test_teams(api):
    (team,) = api.get("/teams").json()
    assert team["teamID"] and team["name"] and team["isDefault"] is True


def test_preflight(anonymous):
    answer = anonymous.request(
        "OPTIONS",
        "/v2/sandboxes",
        headers={
            "Origin": "https://app.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-api-key,content-type",
        },
    )
    assert answer.status_code in (200, 204)
    assert answer.headers["access-control-allow-origin"] in ("*", "https://app.example")
    assert "POST" in answer.headers["access-control-allow-methods"]
    allowed = answer.headers["access-control-allow-headers"].lower()
    assert allowed == "*" or ("x-api-key" in allowed and "content-type" in allowed)


def test_pages_are_exposed_to_browsers(api):
    answer = api.get("/v2/sandboxes", headers={"Origin": "https://app.example"})
    assert "x-next-token" in answer.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize("path", ["/nowhere", "/sandboxes/x/y/z", "/nowhere//", "/v9/sandboxes"])
def test_an_unknown_path(api, path):
    answer = api.get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == 404 and answer.json()["message"]


def test_a_method_that_does_not_fit(api):
    answer = api.put("/v2/sandboxes", json={})
    assert answer.status_code in (404, 405)
    assert answer.json()["code"] == answer.status_code
