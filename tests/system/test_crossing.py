"""Where the features meet: volumes, rules, templates that start things and the code interpreter in
sandboxes that are paused, forked, saved and restored, and what is left when all of them are gone."""

import os
import uuid

import httpx
import pytest
from builder import Builder
from daemon import Daemon, until
from e2b import CommandExitException, Sandbox, Volume
from e2b.exceptions import InvalidArgumentException

WARM_START = "cd /tmp && exec python3 -m http.server 8000"
WARM_READY = "curl -sf localhost:8000"
APPENDS = "exec 5>>/v/log; while :; do echo x >&5; sleep 0.05; done"


@pytest.fixture(scope="module")
def daemon():
    daemon = Daemon()
    try:
        daemon.start()
        os.environ["E2B_VOLUME_API_URL"] = daemon.url
        yield daemon
    finally:
        daemon.remove()


@pytest.fixture(scope="module")
def warm(daemon):
    """A template whose sandboxes begin with a service that runs already."""
    ids, status = Builder(daemon).build(name="warm", startCmd=WARM_START, readyCmd=WARM_READY)
    assert status["status"] == "ready", status
    kept = [path.name for path in (daemon.data / "pool" / "saved").glob("saved-build-w*")]
    assert len(kept) == 1, "its memory was kept"
    return "warm"


@pytest.fixture
def create(daemon):
    made = []

    def make(template="base", **options):
        made.append(Sandbox.create(template, timeout=600, **options, **daemon.sdk))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.kill()


@pytest.fixture
def volume(daemon):
    made = Volume.create(f"v-{uuid.uuid4().hex[:12]}", **api(daemon))
    yield made
    Volume.destroy(made.volume_id, **api(daemon))


def api(daemon):
    return {k: v for k, v in daemon.sdk.items() if k in ("api_key", "api_url")}


def out(sandbox, command):
    return sandbox.commands.run(command, timeout=60).stdout


def mounts(sandbox):
    return out(sandbox, "grep -c ' - btrfs ' /proc/self/mountinfo || true").strip()


def grows(sandbox):
    """Whether what APPENDS does goes on."""
    size = int(out(sandbox, "stat -c %s /v/log"))
    until(lambda: int(out(sandbox, "stat -c %s /v/log")) > size, "the log in the volume grows")


# ---- volumes ----


def test_a_file_in_a_volume_stays_open_over_pause_and_in_forks(create, volume):
    sandbox = create(volume_mounts={"/v": volume.name})
    sandbox.commands.run(APPENDS, background=True)
    sandbox.pause()
    volume.write_file("/meanwhile", "written while it was paused")
    sandbox.connect(timeout=600)
    assert sandbox.files.read("/v/meanwhile") == "written while it was paused"
    grows(sandbox)
    for copy in sandbox.fork(count=2, timeout=600):
        out(copy, "touch /v/$(hostname)")
        grows(copy)
        assert volume.exists(f"/{copy.sandbox_id}")
        copy.kill()


def test_a_sandbox_restored_from_a_template_has_its_volumes(create, warm, volume):
    sandbox = create(warm, volume_mounts={"/data/deep": volume.name, "/home/user/v": volume.name})
    assert mounts(sandbox) == "2"
    assert "Directory listing" in out(sandbox, "curl -s localhost:8000")
    out(sandbox, "echo kept > /data/deep/note; touch /home/user/v/mine")
    assert volume.read_file("/note") == "kept\n"
    assert out(sandbox, "stat -c '%U %a' /data /data/deep/mine").splitlines()[0] == "root 755"
    sandbox.pause()
    sandbox.connect(timeout=600)
    assert out(sandbox, "cat /home/user/v/note") == "kept\n"
    [copy] = sandbox.fork(timeout=600)
    assert out(copy, "cat /data/deep/note") == "kept\n"
    copy.kill()
    sandbox.pause(keep_memory=False)
    sandbox.connect(timeout=600)
    assert out(sandbox, "cat /data/deep/note") == "kept\n"


def test_a_sandbox_from_a_snapshot_has_the_volumes_it_asks_for(create, volume, daemon):
    source = create(volume_mounts={"/v": volume.name})
    out(source, "echo of the volume > /v/note")
    snapshot = source.create_snapshot().snapshot_id
    same = create(snapshot, volume_mounts={"/v": volume.name})
    assert out(same, "cat /v/note") == "of the volume\n"
    none = create(snapshot)
    assert mounts(none) == "0" and out(none, "ls -A /v") == ""
    elsewhere = create(snapshot, volume_mounts={"/w": volume.name})
    assert mounts(elsewhere) == "1" and out(elsewhere, "ls -A /v; cat /w/note") == "of the volume\n"
    for sandbox in (none, elsewhere):  # and can be saved itself
        sandbox.pause()
        sandbox.connect(timeout=600)
    assert mounts(none) == "0" and mounts(elsewhere) == "1"
    other = Volume.create(f"v-{uuid.uuid4().hex[:12]}", **api(daemon))
    instead = create(snapshot, volume_mounts={"/v": other.name})
    assert mounts(instead) == "1" and out(instead, "ls -A /v") == ""
    instead.kill()
    assert Volume.destroy(other.volume_id, **api(daemon))


def test_a_snapshot_whose_processes_use_a_volume_says_that_it_needs_one(create, volume, daemon):
    source = create(volume_mounts={"/v": volume.name})
    source.commands.run(APPENDS, background=True)
    until(lambda: volume.exists("/log"), "the file is open")
    snapshot = source.create_snapshot().snapshot_id
    with pytest.raises(Exception, match="400.*saved with a volume at /v"):
        create(snapshot)
    grows(create(snapshot, volume_mounts={"/v": volume.name}))


def test_a_place_where_no_volume_can_be_is_refused_by_restores_too(create, warm, volume, daemon):
    for path in ("/etc/passwd", "/etc/passwd/x", "/bin/x"):
        with pytest.raises(Exception, match="400.*volume cannot be mounted"):
            create(warm, volume_mounts={path: volume.name})
    until(lambda: daemon.jails() == {}, "nothing is left of what was refused")


def test_a_deleted_volume_stays_with_a_paused_sandbox(create, volume, daemon):
    sandbox = create(volume_mounts={"/v": volume.name})
    out(sandbox, "echo kept > /v/note")
    for memory in (True, False):
        sandbox.pause(keep_memory=memory)
        Volume.destroy(volume.volume_id, **api(daemon))
        daemon.kill_child("server", "keeper")  # the next one tries again to remove it
        os.environ["E2B_VOLUME_API_URL"] = daemon.url
        sandbox = Sandbox.connect(sandbox.sandbox_id, timeout=600, **daemon.sdk)
        assert out(sandbox, "cat /v/note") == "kept\n"
    sandbox.kill()
    until(lambda: not (daemon.data / "pool" / "volumes" / volume.volume_id).exists(), "it is gone")


# ---- templates that start things ----


def test_who_starts_anew_runs_what_the_template_starts(create, warm):
    sandbox = create(warm)
    ports = [sandbox, create(sandbox.create_snapshot().snapshot_id), *sandbox.fork(timeout=600)]
    for one in ports:
        one.pause(keep_memory=False)
        one.connect(timeout=600)
        assert "Directory listing" in out(one, "curl -s localhost:8000")
        assert out(one, "pgrep -fc 'http.serve[r]'") == "1\n"
    ports[-1].kill()


def test_a_start_command_that_fails_keeps_nobody_from_his_files(create, daemon):
    start = "test ! -e /tmp/spoiled && exec sleep 600"
    _, status = Builder(daemon).build(name="spoilt", startCmd=start, readyCmd="pgrep sleep")
    assert status["status"] == "ready", status
    sandbox = create("spoilt")
    out(sandbox, "echo mine > /tmp/spoiled")
    sandbox.pause(keep_memory=False)
    sandbox.connect(timeout=600)
    assert out(sandbox, "cat /tmp/spoiled") == "mine\n"


def test_a_copy_that_cannot_be_restored_is_not_begun_as_its_template(create, warm, daemon):
    source = create(warm)
    out(source, "echo mine > /tmp/mine")
    known = set((daemon.data / "pool" / "saved").iterdir())
    snapshot = source.create_snapshot().snapshot_id
    [kept] = set((daemon.data / "pool" / "saved").iterdir()) - known
    (kept / "memory" / "pstree.img").unlink()
    with pytest.raises(Exception, match="500.*cannot be restored"):
        create(snapshot)
