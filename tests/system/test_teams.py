"""Teams see only their own."""

import httpx
import pytest
from e2b import Sandbox, SandboxNotFoundException
from teams import two_teams


@pytest.fixture(scope="module")
def teams():
    """What the SDK's calls take for the default team and for another."""
    with two_teams() as daemon:
        yield daemon.sdk, {**daemon.sdk, "api_key": daemon.other_key}


@pytest.mark.attack
def test_a_team_sees_only_its_own(teams):
    """Sandboxes, templates and events of another team are neither listed nor reachable."""
    ours, theirs = teams
    mine = Sandbox.create(timeout=60, **ours)
    other = Sandbox.create(timeout=60, **theirs)
    try:
        for who, own in ((ours, mine), (theirs, other)):
            listed = [info.sandbox_id for info in Sandbox.list(**who).next_items()]
            assert listed == [own.sandbox_id]

        with pytest.raises(SandboxNotFoundException):
            Sandbox.get_info(mine.sandbox_id, **theirs)
        with pytest.raises(SandboxNotFoundException):
            Sandbox.connect(mine.sandbox_id, **theirs)
        assert Sandbox.kill(mine.sandbox_id, **theirs) is False
        assert mine.is_running()
    finally:
        mine.kill()
        other.kill()


@pytest.mark.attack
def test_a_team_lists_only_its_own_keys(teams):
    """API keys of another team are neither listed nor deleted."""
    ours, theirs = teams

    def key_ids(who):
        answer = httpx.get(f"{who['api_url']}/api-keys", headers={"X-API-Key": who["api_key"]})
        return {row["id"] for row in answer.json()}

    assert key_ids(ours) and key_ids(theirs)
    assert not key_ids(ours) & key_ids(theirs)

    (stolen,) = key_ids(ours)
    answer = httpx.delete(
        f"{ours['api_url']}/api-keys/{stolen}", headers={"X-API-Key": theirs["api_key"]}
    )
    assert answer.status_code == 404
    assert stolen in key_ids(ours)


@pytest.mark.attack
def test_a_session_of_mcp_is_its_teams_alone(teams):
    """A session of MCP of another team cannot be used with one's own key."""
    ours, theirs = teams
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    url = f"{ours['api_url']}/mcp"
    opened = httpx.post(url, json=hello, headers={"X-API-Key": ours["api_key"]})
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    for who, status in ((theirs, 404), (ours, 200)):
        answer = httpx.post(url, json=ping, headers=session | {"X-API-Key": who["api_key"]})
        assert answer.status_code == status
    for who, status in ((theirs, 404), (ours, 204)):
        answer = httpx.delete(url, headers=session | {"X-API-Key": who["api_key"]})
        assert answer.status_code == status
