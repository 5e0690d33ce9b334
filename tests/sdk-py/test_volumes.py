"""Volumes: made, mounted, shared, filled and read from outside, removed."""
import os
import time
import uuid

import pytest
from e2b import Sandbox, Volume
from e2b.exceptions import AuthenticationException, NotFoundException, SandboxException, VolumeException

os.environ.setdefault("E2B_VOLUME_API_URL", os.environ["E2B_API_URL"])


@pytest.fixture
def volume():
    made = Volume.create(f"v-{uuid.uuid4().hex[:12]}")
    yield made
    Volume.destroy(made.volume_id)


def test_a_volume_is_created_listed_found_and_destroyed():
    name = f"v-{uuid.uuid4().hex[:12]}"
    made = Volume.create(name)
    assert made.name == name and made.token
    assert (made.volume_id, name) in [(v.volume_id, v.name) for v in Volume.list()]
    assert Volume.get_info(made.volume_id).name == name
    with pytest.raises(Exception, match="already exists"):
        Volume.create(name)
    assert Volume.destroy(made.volume_id) is True
    assert Volume.destroy(made.volume_id) is False
    with pytest.raises(NotFoundException):
        Volume.get_info(made.volume_id)
    again = Volume.create(name)
    assert Volume.destroy(again.volume_id) is True


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 200, "ü", "a/b"])
def test_a_name_that_cannot_be_is_refused(name):
    with pytest.raises(Exception, match="nvalid volume name|400"):
        Volume.create(name)


def test_what_a_sandbox_writes_outlives_it_and_others_see_it(volume):
    mounts = {"/home/user/vol": volume.name}
    with Sandbox.create(volume_mounts=mounts) as first:
        first.files.write("/home/user/vol/hello.txt", "hello from a volume")
        first.commands.run("mkdir /home/user/vol/sub && echo 2 > /home/user/vol/sub/two")
        with Sandbox.create(volume_mounts={"/data/deep/er": volume.name}) as second:
            assert second.files.read("/data/deep/er/hello.txt") == "hello from a volume"
            second.commands.run("echo both >> /data/deep/er/hello.txt")
        assert first.files.read("/home/user/vol/hello.txt").endswith("both\n")
        mounted = first.commands.run("mount").stdout
        assert "/home/user/vol" in mounted and "nosuid" in mounted
        assert first.get_info().volume_mounts[0]["path"] == "/home/user/vol"
    with Sandbox.create(volume_mounts=mounts) as third:
        assert third.commands.run("cat /home/user/vol/sub/two").stdout == "2\n"
    assert volume.read_file("/hello.txt") == "hello from a volumeboth\n"


def test_several_volumes_are_mounted_at_once(volume):
    other = Volume.create(f"v-{uuid.uuid4().hex[:12]}")
    try:
        with Sandbox.create(volume_mounts={"/a": volume.name, "/b": other.name}) as sbx:
            sbx.commands.run("echo a > /a/f; echo b > /b/f")
        assert volume.read_file("f") == "a\n" and other.read_file("f") == "b\n"
    finally:
        Volume.destroy(other.volume_id)


@pytest.mark.parametrize("path,words", [
    ("relative", "absolute"), ("", "empty"), ("/a/../b", "'.' or '..'"), ("/", "system's own"),
    ("/proc/x", "system's own"), ("/bin", "link"), ("/etc/passwd", "directory"),
])
def test_a_place_where_no_volume_can_be_is_refused(volume, path, words):
    with pytest.raises(SandboxException, match=words):
        Sandbox.create(volume_mounts={path: volume.name})


def test_an_unknown_volume_is_refused():
    with pytest.raises(SandboxException, match="not found"):
        Sandbox.create(volume_mounts={"/mnt/x": "no-such-volume"})


def test_content_is_written_read_changed_and_removed_from_outside(volume):
    entry = volume.write_file("/one.bin", bytes(range(256)) * 1000)
    assert (entry.size, entry.type.value, entry.path) == (256000, "file", "/one.bin")
    assert volume.read_file("/one.bin", format="bytes") == bytes(range(256)) * 1000
    with pytest.raises(VolumeException):
        volume.write_file("/one.bin", b"again")
    volume.write_file("/one.bin", b"again", force=True, mode=0o640, uid=1000, gid=1000)
    found = volume.get_info("/one.bin")
    assert (found.size, found.mode, found.uid, found.gid) == (5, 0o640, 1000, 1000)
    changed = volume.update_metadata("/one.bin", mode=0o600, uid=7)
    assert (changed.mode, changed.uid, changed.gid) == (0o600, 7, 1000)
    with pytest.raises(NotFoundException):
        volume.make_dir("/x/y/z")
    assert volume.make_dir("/x/y/z", force=True).type.value == "directory"
    with pytest.raises(VolumeException):
        volume.make_dir("/x/y/z")
    volume.write_file("/x/y/file", "text", force=True)
    assert [e.path for e in volume.list("/")] == ["/one.bin", "/x"]
    assert [e.path for e in volume.list("/", depth=3)] == \
        ["/one.bin", "/x", "/x/y", "/x/y/file", "/x/y/z"]
    volume.remove("/x")
    assert not volume.exists("/x/y/file")
    with pytest.raises(NotFoundException):
        volume.remove("/x")
    with pytest.raises(NotFoundException):
        volume.read_file("/nothing")


def test_links_of_a_sandbox_lead_nowhere_outside_the_volume(volume):
    with Sandbox.create(volume_mounts={"/v": volume.name}) as sbx:
        sbx.commands.run("ln -s /etc/passwd /v/abs; ln -s ../../../etc/passwd /v/rel; "
                         "ln -s /run/atoll /v/dir; ln -s here /v/good; echo in > /v/here")
    for path in ["/abs", "/rel", "/dir/agent", "/dir/agent.sock"]:
        with pytest.raises(NotFoundException):
            volume.read_file(path)
    assert volume.read_file("/good") == "in\n"
    assert volume.get_info("/abs").type.value == "symlink"
    assert volume.get_info("/abs").target == "/etc/passwd"
    volume.remove("/abs")
    assert volume.exists("/here")


def test_a_token_opens_its_own_volume_only(volume):
    other = Volume.create(f"v-{uuid.uuid4().hex[:12]}")
    try:
        for token in [other.token, volume.token[:-2] + "xx", "nonsense", ""]:
            thief = Volume(volume.volume_id, volume.name, token=token)
            with pytest.raises(AuthenticationException):
                thief.list("/")
    finally:
        Volume.destroy(other.volume_id)


def test_a_volume_that_is_deleted_stays_with_those_who_have_it(volume):
    with Sandbox.create(volume_mounts={"/v": volume.name}) as sbx:
        sbx.commands.run("echo kept > /v/f")
        assert Volume.destroy(volume.volume_id) is True
        with pytest.raises(SandboxException, match="not found"):
            Sandbox.create(volume_mounts={"/v": volume.name})
        assert sbx.commands.run("cat /v/f").stdout == "kept\n"
