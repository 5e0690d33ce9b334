"""Volumes outlive daemons and sandboxes, are limited in size, and leave nothing when they go."""

import os
import uuid

import httpx
import pytest
from daemon import running, until
from e2b import CommandExitException, Sandbox, Volume

SIZE_MB = 64


@pytest.fixture(scope="module")
def daemon():
    with running("--volume-size", f"{SIZE_MB}M") as daemon:
        yield daemon


@pytest.fixture
def volume(daemon):
    os.environ["E2B_VOLUME_API_URL"] = daemon.url
    made = Volume.create(f"v-{uuid.uuid4().hex[:12]}", **api(daemon))
    yield made
    Volume.destroy(made.volume_id, **api(daemon))


def api(daemon):
    return {k: v for k, v in daemon.sdk.items() if k in ("api_key", "api_url")}


def pool(daemon):
    return sorted(path.name for path in (daemon.data / "pool" / "volumes").iterdir())


@pytest.mark.parametrize("way", ["server", "keeper", "all"])
def test_a_volume_outlives_the_daemon(daemon, volume, way):
    sandbox = Sandbox.create(volume_mounts={"/v": volume.name}, **daemon.sdk)
    sandbox.files.write("/v/note", "kept")
    if way == "all":
        daemon.kill()
        daemon.start()
    else:
        daemon.kill_child(way)
    os.environ["E2B_VOLUME_API_URL"] = daemon.url
    again = Volume.connect(volume.volume_id, **api(daemon))
    assert again.read_file("/note") == "kept"
    again.write_file("/other", "from outside")
    back = Sandbox.connect(sandbox.sandbox_id, **daemon.sdk)
    assert back.files.read("/v/other") == "from outside"
    back.kill()


def test_a_volume_takes_no_more_than_its_size(daemon, volume):
    with Sandbox.create(volume_mounts={"/v": volume.name}, **daemon.sdk) as sandbox:
        with pytest.raises(CommandExitException) as caught:
            sandbox.commands.run(f"dd if=/dev/urandom of=/v/big bs=1M count={SIZE_MB * 2}")
        assert "quota" in caught.value.stderr or "space" in caught.value.stderr
        sandbox.commands.run("rm /v/big; sync; dd if=/dev/zero of=/tmp/own bs=1M count=100")
    content = b"x" * (SIZE_MB << 20)
    with pytest.raises(Exception, match="space|quota|507"):
        volume.write_file("/too-big", content + content)
    assert volume.list("/") == []
    volume.write_file("/fits", content[: SIZE_MB << 19])


def test_a_deleted_volume_leaves_nothing_once_nobody_has_it(daemon, volume):
    with Sandbox.create(volume_mounts={"/v": volume.name}, **daemon.sdk) as sandbox:
        assert Volume.destroy(volume.volume_id, **api(daemon))
        assert volume.volume_id in pool(daemon)
        assert sandbox.commands.run("touch /v/x && ls /v").stdout == "x\n"
    until(lambda: volume.volume_id not in pool(daemon), "the volume is gone from the pool")


def test_service_jails_end_when_nobody_asks(daemon, volume):
    volume.write_file("/f", "x")
    assert daemon.jails()
    until(lambda: not daemon.jails(), "the service jail has ended")
    assert volume.read_file("/f") == "x"


def test_content_needs_the_token(daemon, volume):
    url = f"{daemon.url}/volumecontent/{volume.volume_id}/dir"
    for headers in [{}, {"Authorization": "Bearer x"}, {"X-API-Key": daemon.sdk["api_key"]}]:
        answer = httpx.get(url, params={"path": "/"}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "401")
    good = {"Authorization": f"Bearer {volume.token}"}
    assert httpx.get(url, params={"path": "/"}, headers=good).json() == []
    for query, words in [({}, "path"), ({"path": "/", "depth": "x"}, "depth"),
                         ({"path": "/", "depth": 99}, "depth"), ({"path": "\0"}, "NUL")]:
        answer = httpx.get(url, params=query, headers=good)
        assert answer.status_code == 400 and words in answer.json()["message"]
    other = httpx.get(url.replace(volume.volume_id, str(uuid.uuid4())), params={"path": "/"},
                      headers=good)
    assert other.status_code == 401
