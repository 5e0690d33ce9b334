"""Secrets by the SDK, and by hand where the SDK would not send such a thing."""
import os
import uuid

import httpx
import pytest
from e2b import AsyncSecret, Secret
from e2b.exceptions import SecretNotFoundException

KEY = {"X-API-Key": os.environ["E2B_API_KEY"]}
URL = os.environ["E2B_API_URL"]


@pytest.fixture
def name():
    name = f"s-{uuid.uuid4().hex[:12]}"
    yield name
    httpx.delete(f"{URL}/secrets/{name}", headers=KEY)


def test_a_secret_is_made_found_changed_and_destroyed(name):
    made = Secret.create(name.upper(), "the value", metadata={"team": "a"})
    assert made.name == name and made.secret_id.startswith("sec_")
    assert made.version == 1 and made.metadata == {"team": "a"}
    assert Secret.get_info(name).secret_id == Secret.get_info(made.secret_id).secret_id == made.secret_id
    changed = Secret.update(name, "another")
    assert changed.version == 2 and changed.metadata == {"team": "a"}
    assert changed.updated_at >= changed.created_at == made.created_at
    assert Secret.update(made.secret_id, "third", metadata={}).metadata == {}
    assert Secret.exists(name)
    assert Secret.destroy(name) is True
    assert Secret.destroy(name) is False
    assert not Secret.exists(name)
    with pytest.raises(SecretNotFoundException):
        Secret.get_info(name)


def test_lists_come_page_by_page(name):
    names = [f"{name}-{i}" for i in range(5)]
    for one in names:
        Secret.create(one, "v")
    try:
        found, pages = [], 0
        paginator = Secret.list(limit=2)
        while paginator.has_next:
            page = paginator.next_items()
            assert len(page) <= 2
            found += [secret.name for secret in page]
            pages += 1
        assert [one for one in found if one in names] == names
        assert len(found) == len(set(found)) and pages >= 3
    finally:
        for one in names:
            Secret.destroy(one)


def test_a_name_is_taken_once(name):
    Secret.create(name, "v")
    again = httpx.post(f"{URL}/secrets", json={"name": name.upper(), "value": "w"}, headers=KEY)
    assert again.status_code == 409 and again.json()["code"] == 409


async def test_the_async_class(name):
    made = await AsyncSecret.create(name, "v")
    assert (await AsyncSecret.get_info(made.secret_id)).name == name
    assert await AsyncSecret.destroy(name) is True


BAD = {
    "no name": {"value": "v"},
    "an empty name": {"name": "", "value": "v"},
    "a name with a space": {"name": "a b", "value": "v"},
    "a name with a brace": {"name": "a}", "value": "v"},
    "a name like an id": {"name": "SEC_x", "value": "v"},
    "a long name": {"name": "a" * 129, "value": "v"},
    "no value": {"name": "a"},
    "an empty value": {"name": "a", "value": ""},
    "a value that is a number": {"name": "a", "value": 5},
    "a value with line ends": {"name": "a", "value": "x\r\ny: z"},
    "a long value": {"name": "a", "value": "v" * (16 * 1024 + 1)},
    "metadata that is a list": {"name": "a", "value": "v", "metadata": []},
    "metadata with a number": {"name": "a", "value": "v", "metadata": {"n": 1}},
    "too much metadata": {"name": "a", "value": "v", "metadata": {str(i): "x" for i in range(33)}},
    "a long text in metadata": {"name": "a", "value": "v", "metadata": {"n": "x" * 1025}},
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_a_secret_is_refused_with_a_sentence(what):
    answer = httpx.post(f"{URL}/secrets", json=BAD[what], headers=KEY)
    assert answer.status_code == 400 and answer.json()["message"]
    assert answer.headers["cache-control"] == "no-store"
    assert "x\r\ny" not in answer.text


@pytest.mark.parametrize("token", ["x", "12", "12.", "-1.sec_x", "9" * 30 + ".sec_x", "1." + "s" * 100])
def test_a_token_that_is_none_of_ours(token):
    answer = httpx.get(f"{URL}/secrets", params={"nextToken": token}, headers=KEY)
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert "nextToken" in answer.json()["message"]


def test_who_has_no_key_learns_nothing(name):
    Secret.create(name, "v")
    for method, path in (("GET", "/secrets"), ("GET", f"/secrets/{name}"), ("DELETE", f"/secrets/{name}")):
        assert httpx.request(method, URL + path).status_code == 401
    assert Secret.exists(name)


def test_the_keys_of_tokens_are_open_to_all():
    configuration = httpx.get(f"{URL}/.well-known/openid-configuration").json()
    assert configuration["issuer"] == URL
    [key] = httpx.get(configuration["jwks_uri"]).json()["keys"]
    assert key["kty"] == "EC" and "d" not in key
