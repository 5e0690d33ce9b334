"""What the operator limits: sandboxes of a team, their hours, webhooks to the machine itself; and a
disk under the store that is full."""

import os
import subprocess
import threading

import httpx
import pytest
from builder import Builder
from daemon import Daemon, running, until
from e2b import RateLimitException, Sandbox

SMALL_MB = 4
HOOK = {
    "name": "local",
    "events": ["sandbox.lifecycle.created"],
    "signatureSecret": "secret",
}


@pytest.fixture(scope="module")
def daemon():
    with running("--team-sandboxes-max", "2", "--sandbox-hours-max", "1") as daemon:
        yield daemon


@pytest.fixture
def api(daemon):
    with httpx.Client(
        base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=60
    ) as client:
        yield client


def test_sandboxes_of_a_team(daemon):
    kept = [Sandbox.create(timeout=60, **daemon.sdk) for _ in range(2)]
    with pytest.raises(RateLimitException) as caught:
        Sandbox.create(timeout=60, **daemon.sdk)
    assert "maximum number of concurrent E2B sandboxes (2)" in str(caught.value)
    refused = httpx.post(f"{daemon.url}/sandboxes", json={"templateID": "base"}, headers={"X-API-Key": daemon.key})
    # The SDK repeats a 429 three times unless it is told that this is of no use.
    assert (refused.status_code, refused.headers.get("Should-Retry")) == (429, "false")
    kept.pop().kill()
    kept.append(Sandbox.create(timeout=60, **daemon.sdk))
    for sandbox in kept:
        sandbox.kill()


@pytest.mark.attack
def test_many_creates_at_once_do_not_pass_the_limit(daemon, api):
    """Many creates at once do not pass the team's limit."""
    threads = []
    answers = []

    def create():
        body = {"templateID": "base", "timeout": 60}
        answers.append(
            httpx.post(
                f"{daemon.url}/sandboxes", json=body, headers={"X-API-Key": daemon.key}, timeout=60
            )
        )

    for _ in range(8):
        threads.append(threading.Thread(target=create))
        threads[-1].start()
    for thread in threads:
        thread.join()
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [201] * 2 + [429] * 6
    for answer in answers:
        if answer.status_code == 201:
            api.delete(f"/sandboxes/{answer.json()['sandboxID']}")


def test_hours_of_a_sandbox(daemon, api):
    answer = api.post("/sandboxes", json={"templateID": "base", "timeout": 3601})
    assert answer.status_code == 400
    assert answer.json()["message"] == "Timeout cannot be greater than 1 hours"

    sandbox = Sandbox.create(timeout=60, **daemon.sdk)
    answer = api.post(f"/sandboxes/{sandbox.sandbox_id}/timeout", json={"timeout": 3601})
    assert answer.status_code == 400
    sandbox.set_timeout(3600)
    info = sandbox.get_info()
    assert (info.end_at - info.started_at).total_seconds() == 3600
    sandbox.kill()


@pytest.mark.attack
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "169.254.169.254", "0", "[::ffff:127.0.0.1]", "0x7f.1"]
)
def test_a_webhook_on_an_address_of_this_machine_is_refused(api, host):
    """A webhook whose address is the daemon's own machine is refused."""
    answer = api.post("/events/webhooks", json={**HOOK, "url": f"http://{host}:9/"})
    assert answer.status_code == 400
    assert "address of this machine" in answer.json()["message"]


@pytest.mark.attack
def test_a_name_of_this_machine_is_refused_when_it_is_called(api):
    """A webhook whose name resolves to the daemon's own machine is refused when it is called."""
    webhook = api.post("/events/webhooks", json={**HOOK, "url": "http://localhost:9/"}).json()
    result = api.post(f"/events/webhooks/{webhook['id']}/test").json()
    assert result["delivered"] is False and result["responseStatus"] is None
    assert "address of this machine" in result["error"]
    api.delete(f"/events/webhooks/{webhook['id']}")


@pytest.fixture
def cramped():
    """A daemon whose store lies on a filesystem of a few megabytes."""
    daemon = Daemon()
    state = daemon.data / "state"
    try:
        daemon.start()
        daemon.stop()
        owner = state.stat()
        aside = daemon.data / "aside"
        subprocess.run(["cp", "-a", state, aside], check=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SMALL_MB}M,mode=0700", "tmpfs", state],
            check=True,
        )
        os.chown(state, owner.st_uid, owner.st_gid)
        subprocess.run(["cp", "-a", f"{aside}/.", state], check=True)
        daemon.start()
        yield daemon
    finally:
        (state / "ballast").unlink(missing_ok=True)
        if daemon.process.poll() is None:
            with httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}) as api:
                for row in api.get("/v2/sandboxes").json():
                    api.delete(f"/sandboxes/{row['sandboxID']}")
            until(lambda: not daemon.jails(), "all jails are gone")
            daemon.stop()
        subprocess.run(["umount", state], check=False, stderr=subprocess.DEVNULL)
        daemon.remove()


def fill(path):
    with open(path, "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            pass


@pytest.mark.attack
def test_a_full_disk_under_the_store(cramped):
    """A full disk under the store refuses changes with a sentence, and loses none that was acknowledged."""
    api = httpx.Client(base_url=cramped.url, headers={"X-API-Key": cramped.key}, timeout=60)
    kept = Sandbox.create(timeout=600, metadata={"fill": "x" * 8000}, **cramped.sdk)
    fill(cramped.data / "state" / "ballast")

    # What is in the log already can be written over: only growth meets the end of the disk.
    path = f"/sandboxes/{kept.sandbox_id}"
    for seconds in range(100, 1000):
        before = api.get(path).json()["endAt"]
        answer = api.post(f"{path}/timeout", json={"timeout": seconds})
        if answer.status_code != 204:
            break
    assert answer.status_code == 507, answer.text
    assert answer.json()["code"] == 507 and "full" in answer.json()["message"]
    assert api.get(path).json()["endAt"] == before

    answer = api.post("/sandboxes", json={"templateID": "base", "timeout": 60})
    assert answer.status_code == 507
    assert [row["sandboxID"] for row in api.get("/v2/sandboxes").json()] == [kept.sandbox_id]
    until(lambda: list(cramped.jails()) == [kept.sandbox_id], "no jail is left of it")

    assert api.delete(path).status_code == 507
    until(lambda: not cramped.jails(), "it is gone all the same")
    assert kept.is_running() is False

    (cramped.data / "state" / "ballast").unlink()

    def killed():
        events = api.get(f"/events/sandboxes/{kept.sandbox_id}").json()
        return [event for event in events if event["type"].endswith(".killed")]

    (event,) = until(killed, "its end is on record once there is room")
    assert event["eventData"]["kill_reason"] == "request"
    assert Sandbox.create(timeout=60, **cramped.sdk).kill() is True


def test_an_upload_that_finds_the_disk_full(cramped):
    builder = Builder(cramped)
    template, _ = builder.request("uploads")
    data = os.urandom(2 * SMALL_MB << 20)
    asked = builder.call("GET", f"/templates/{template}/files/{'0' * 64}").json()
    answer = httpx.put(asked["url"], content=data, timeout=60)
    assert answer.status_code == 507, answer.text
    assert answer.json()["code"] == 507 and answer.json()["message"]
    assert list((cramped.data / "state" / "files").iterdir()) == []
    assert builder.call("GET", f"/templates/{template}/files/{'0' * 64}").json()["present"] is False
    builder.upload(template, data[: 64 << 10])  # what fits is taken
