"""The access token of a secure sandbox, and what stays closed to everybody."""

import time

import httpx
import pytest
import web
from conftest import SANDBOX_URL

RPC = {"Content-Type": "application/json", "Connect-Protocol-Version": "1"}


def list_processes(client):
    return client.post("/process.Process/List", content=b"{}", headers=RPC)


def test_the_agent_wants_the_token(sandbox):
    with web.client(sandbox.sandbox_id, web.AGENT_PORT) as stranger:
        answer = list_processes(stranger)
        assert answer.status_code == 401
        assert answer.json()["code"] == 401 and answer.json()["message"]
        assert stranger.get("/files", params={"path": "/etc/hostname"}).status_code == 401
        assert stranger.post("/files", params={"path": "/tmp/x"}, content=b"x").status_code == 401
        assert stranger.get("/metrics").status_code == 401
        assert stranger.get("/envs").status_code == 401
    assert not sandbox.files.exists("/tmp/x")


def test_the_right_token_opens(sandbox):
    with web.agent(sandbox) as client:
        assert list_processes(client).status_code == 200
        assert client.get("/files", params={"path": "/etc/hostname"}).status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", "x" * 4096])
def test_a_wrong_token(sandbox, token):
    headers = {"X-Access-Token": token}
    with web.client(sandbox.sandbox_id, web.AGENT_PORT, headers=headers) as client:
        assert list_processes(client).status_code == 401
        assert client.get("/files", params={"path": "/etc/hostname"}).status_code == 401


def test_the_token_of_another_sandbox(sandbox, own_sandbox):
    assert web.token(sandbox) != web.token(own_sandbox)
    headers = {"X-Access-Token": web.token(own_sandbox)}
    with web.client(sandbox.sandbox_id, web.AGENT_PORT, headers=headers) as client:
        assert list_processes(client).status_code == 401


def test_health_needs_no_token(sandbox):
    with web.client(sandbox.sandbox_id, web.AGENT_PORT) as client:
        assert client.get("/health").status_code == 204


def test_a_sandbox_that_is_not_secure(api):
    body = {"templateID": "base", "timeout": 60, "secure": False}
    made = api.post("/sandboxes", json=body).json()
    try:
        assert made.get("envdAccessToken") is None
        with web.client(made["sandboxID"], web.AGENT_PORT) as client:
            assert list_processes(client).status_code == 200
    finally:
        assert api.delete(f"/sandboxes/{made['sandboxID']}").status_code == 204


@pytest.mark.parametrize("path", ["/init", "/freeze", "/unfreeze", "/upgrade"])
def test_control_routes_are_closed_from_outside(sandbox, path):
    with web.agent(sandbox) as client:
        answer = client.post(path, json={"accessToken": "taken over"})
        assert answer.status_code == 404
        assert "reserved for the E2B control plane" in answer.text
        assert list_processes(client).status_code == 200


def test_the_token_is_told_to_its_owner_only(sandbox, anonymous):
    answer = anonymous.get(f"/sandboxes/{sandbox.sandbox_id}")
    assert answer.status_code == 401
    assert web.token(sandbox) not in answer.text


def test_signed_urls_read_and_write(own_sandbox):
    own_sandbox.files.write("/tmp/signed", "for the holder of the address")
    got = httpx.get(own_sandbox.download_url("/tmp/signed"))
    assert (got.status_code, got.text) == (200, "for the holder of the address")

    put = httpx.post(own_sandbox.upload_url("/tmp/put"), files={"file": ("put", b"uploaded")})
    assert put.status_code == 200
    assert own_sandbox.files.read("/tmp/put") == "uploaded"


def test_a_signature_is_for_one_path(own_sandbox):
    own_sandbox.files.write("/tmp/signed", "x")
    own_sandbox.files.write("/tmp/other", "secret")
    headers = web.routing(own_sandbox.sandbox_id, web.AGENT_PORT)
    url = httpx.URL(own_sandbox.download_url("/tmp/signed"))
    assert str(url).startswith(SANDBOX_URL)
    answer = httpx.get(url.copy_set_param("path", "/tmp/other"), headers=headers)
    assert answer.status_code == 401
    assert answer.json()["message"] == "invalid signature"


def test_an_expired_signature(own_sandbox):
    own_sandbox.files.write("/tmp/signed", "x")
    headers = web.routing(own_sandbox.sandbox_id, web.AGENT_PORT)
    url = own_sandbox.download_url("/tmp/signed", use_signature_expiration=-10)
    answer = httpx.get(url, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["message"] == "signature is already expired"


# ---- a secure sandbox that is paused, and that traffic may wake ----


@pytest.fixture
def sleeper(new_sandbox):
    sandbox = new_sandbox(timeout=600, lifecycle={"on_timeout": "pause", "auto_resume": True})
    sandbox.files.write("/home/user/note", "kept")
    return sandbox


def is_asleep(sandbox):
    return sandbox.get_info().state == "paused"


def expired(url):
    """The same link, as if its time were over."""
    return httpx.URL(url).copy_set_param("signature_expiration", str(int(time.time()) - 60))


@pytest.mark.attack
@pytest.mark.parametrize("token", [None, "", "wrong", "x" * 4096])
def test_nobody_without_the_token_wakes_it(sleeper, token):
    """A stranger asks the agent of a paused secure sandbox without its token, with a wrong one, or with a file link that
    is forged or too old: every answer is a refusal, and the sandbox stays paused."""
    links = [sleeper.download_url("note"), sleeper.upload_url("note"), sleeper.download_url("note", use_signature_expiration=60)]
    sleeper.pause()
    headers = {} if token is None else {"X-Access-Token": token}
    with web.client(sleeper.sandbox_id, web.AGENT_PORT, headers=headers) as stranger:
        answer = list_processes(stranger)
        assert answer.status_code == 403 and answer.json()["code"] == 403
        assert stranger.get("/files", params={"path": "note"}).status_code == 403
        assert stranger.get("/files", params={"path": "note", "signature": "v1_forged"}).status_code == 403
        assert stranger.post("/files", params={"path": "note"}, content=b"x").status_code == 403
        assert stranger.get("/health").status_code == 403
        assert stranger.get("/nowhere").status_code == 403
        forged = [links[0].replace("note", "other"), links[1], str(expired(links[2]))]
        for link in forged:  # of another path, for another method, too old
            assert stranger.get("/files", params=httpx.URL(link).params).status_code == 403
        assert httpx.get(f"{SANDBOX_URL}/files", params=httpx.URL(str(expired(links[2]))).params).status_code == 401
    assert is_asleep(sleeper)


@pytest.mark.attack
def test_a_browsers_question_does_not_wake_it(sleeper):
    """A page of any site makes a browser ask a paused secure sandbox for permission: it is answered, and the sandbox stays
    paused."""
    sleeper.pause()
    asks = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-access-token"}
    with web.client(sleeper.sandbox_id, web.AGENT_PORT, headers=asks) as browser:
        answer = browser.options("/process.Process/List")
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-headers"] == "x-access-token"
    assert is_asleep(sleeper)


def test_the_token_wakes_it(sleeper):
    sleeper.pause()
    with web.agent(sleeper) as client:
        assert list_processes(client).status_code == 200
    assert not is_asleep(sleeper)


def test_a_signature_wakes_it(sleeper):
    link = sleeper.download_url("note", use_signature_expiration=600)
    sleeper.pause()
    with web.client(sleeper.sandbox_id, web.AGENT_PORT) as client:
        assert client.get("/files", params=httpx.URL(link).params).text == "kept"
    assert not is_asleep(sleeper)
