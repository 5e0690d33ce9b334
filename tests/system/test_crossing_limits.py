"""How many sandboxes a team may run: paused ones do not count, and none comes back past the limit."""

import httpx
import pytest
from daemon import running
from e2b import Sandbox

MOST = 2


@pytest.fixture(scope="module")
def daemon():
    with running("--team-sandboxes-max", str(MOST)) as daemon:
        yield daemon


def call(daemon, method, path, **options):
    return httpx.request(method, daemon.url + path, headers={"X-API-Key": daemon.key}, timeout=60, **options)


def test_paused_ones_leave_room_and_come_back_only_into_it(daemon):
    first, second = (Sandbox.create(timeout=600, **daemon.sdk) for _ in range(MOST))
    create = {"templateID": "base"}
    assert call(daemon, "POST", "/v2/sandboxes", json=create).status_code == 429
    assert call(daemon, "POST", f"/sandboxes/{first.sandbox_id}/fork", json={"count": 1}).status_code == 429
    assert call(daemon, "POST", f"/sandboxes/{first.sandbox_id}/snapshots", json={}).status_code == 201
    first.pause()
    third = Sandbox.create(timeout=600, **daemon.sdk)
    resume = call(daemon, "POST", f"/sandboxes/{first.sandbox_id}/connect", json={"timeout": 600})
    assert resume.status_code == 429
    assert Sandbox.get_info(first.sandbox_id, **daemon.sdk).state == "paused"
    second.kill()
    first.connect(timeout=600)
    assert first.commands.run("echo back").stdout == "back\n"
    for sandbox in (first, third):
        sandbox.kill()


def test_traffic_wakes_nobody_past_the_limit(daemon):
    lifecycle = {"on_timeout": "pause", "auto_resume": True}
    sleeper = Sandbox.create(timeout=600, lifecycle=lifecycle, **daemon.sdk)
    sleeper.pause()
    others = [Sandbox.create(timeout=600, **daemon.sdk) for _ in range(MOST)]
    reach = {"E2b-Sandbox-Id": sleeper.sandbox_id, "E2b-Sandbox-Port": "49983"}
    reach |= sleeper.connection_config.sandbox_headers
    answer = httpx.get(f"{daemon.url}/health", headers=reach, timeout=60)
    assert answer.status_code >= 400, "it was woken"
    assert Sandbox.get_info(sleeper.sandbox_id, **daemon.sdk).state == "paused"
    others.pop().kill()
    assert httpx.get(f"{daemon.url}/health", headers=reach, timeout=60).is_success
    for sandbox in (sleeper, *others):
        sandbox.kill()
