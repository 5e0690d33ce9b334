"""API keys: made, used, renamed, revoked; and wrong ones."""

import re

import pytest
from conftest import API_KEY
from e2b import AuthenticationException, Sandbox


@pytest.fixture
def key(api):
    """A second key of the same team."""
    made = api.post("/api-keys", json={"name": "for a test"})
    assert made.status_code == 201
    yield made.json()
    api.delete(f"/api-keys/{made.json()['id']}")


def names(api):
    return {row["id"]: row["name"] for row in api.get("/api-keys").json()}


def test_a_new_key_works(key):
    assert re.fullmatch(r"e2b_[0-9a-f]{40}", key["key"])
    assert Sandbox.list(api_key=key["key"]).next_items() is not None


def test_a_key_is_shown_once(api, key):
    assert names(api)[key["id"]] == "for a test"
    listing = api.get("/api-keys")
    assert key["key"] not in listing.text and API_KEY not in listing.text
    (row,) = [row for row in listing.json() if row["id"] == key["id"]]
    mask = row["mask"]
    assert mask["prefix"] == "e2b_" and mask["valueLength"] == 40
    assert key["key"].removeprefix("e2b_").startswith(mask["maskedValuePrefix"])
    assert key["key"].endswith(mask["maskedValueSuffix"])


def test_a_key_can_be_renamed(api, key):
    answer = api.patch(f"/api-keys/{key['id']}", json={"name": "renamed"})
    assert answer.status_code == 202
    assert names(api)[key["id"]] == "renamed"


def test_a_revoked_key_is_refused_at_once(api, key):
    assert api.delete(f"/api-keys/{key['id']}").status_code == 204
    with pytest.raises(AuthenticationException):
        Sandbox.list(api_key=key["key"]).next_items()
    assert key["id"] not in names(api)
    assert api.delete(f"/api-keys/{key['id']}").status_code == 404


@pytest.mark.parametrize(
    "body", [{}, {"name": ""}, {"name": 5}, {"name": None}, [], {"name": "x" * 10000}]
)
def test_a_key_needs_a_name(api, body):
    before = names(api)
    answer = api.post("/api-keys", json=body)
    assert answer.status_code == 400
    assert answer.json()["code"] == 400 and answer.json()["message"]
    assert names(api) == before


@pytest.mark.parametrize("key_id", ["nothing", "00000000-0000-0000-0000-000000000000", "%00"])
def test_an_unknown_key(api, key_id):
    assert api.delete(f"/api-keys/{key_id}").status_code in (400, 404)


@pytest.mark.parametrize(
    "value",
    ["", "e2b_", "e2b_" + "0" * 40, API_KEY + "0", API_KEY[:-1], API_KEY.upper(), "x" * 10000],
    ids=["empty", "prefix", "zeros", "longer", "shorter", "upper", "huge"],
)
@pytest.mark.parametrize("path", ["/v2/sandboxes", "/api-keys", "/teams", "/sandboxes/i0"])
def test_a_wrong_key_opens_nothing(anonymous, path, value):
    answer = anonymous.get(path, headers={"X-API-Key": value})
    assert answer.status_code == 401
    assert answer.json()["code"] == 401 and answer.json()["message"]


def test_no_key_at_all(anonymous):
    for method, path in [("GET", "/v2/sandboxes"), ("POST", "/v2/sandboxes"), ("GET", "/teams")]:
        answer = anonymous.request(method, path)
        assert answer.status_code == 401
        assert answer.json()["code"] == 401
