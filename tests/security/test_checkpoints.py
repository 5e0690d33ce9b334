"""Saved processes: a tenant reaches no image of them, and images that were changed by hand give no process a right on
the host. Only root of the host can change one; the tests do it as root, in the pool."""
import contextlib
import os
import pathlib
import random
import subprocess
import sys
import time

import httpx
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

import criu_images as criu  # noqa: E402
import host  # noqa: E402
from daemon import children, processes, running, until  # noqa: E402
from e2b import Sandbox  # noqa: E402

FULL = [0xFFFFFFFF, 0xFFFFFFFF]
CORE_TASK, CORE_THREAD = 3, 5
THREAD_CREDS, THREAD_SECCOMP, THREAD_FILTER = 10, 11, 12
CREDS_IDS, CREDS_CAPS, CREDS_NO_NEW_PRIVS = range(1, 9), range(9, 13), 18
MOUNT_ROOT, MOUNT_POINT, MOUNT_SOURCE, MOUNT_OPTIONS, MOUNT_KEY = 6, 7, 8, 9, 18
ANSWER_S = 180
UID_LEAST = 0x10000000
MARK = "1234321"


@pytest.fixture(scope="module")
def daemon():
    with running("--parked-max", "0") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def snapshot(daemon):
    """A snapshot with processes of root and of the plain user in it: (its id, its directory of images)."""
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    sandbox.commands.run(f"exec sleep {MARK}", background=True, user="root")
    sandbox.commands.run(f"exec sleep {MARK}", background=True)
    made = sandbox.create_snapshot()
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)
    (images,) = (daemon.data / "pool" / "saved").glob("*/memory")
    return made.snapshot_id, images


@pytest.fixture
def images(snapshot):
    """The directory of images, which is put back afterwards."""
    before = {path: path.read_bytes() for path in snapshot[1].glob("*.img")}
    yield snapshot[1]
    for path, data in before.items():
        path.write_bytes(data)


@pytest.fixture
def victim(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_text("untouched\n")
    yield tmp_path
    assert (tmp_path / "file").read_text() == "untouched\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@contextlib.contextmanager
def started(daemon, snapshot):
    """A sandbox of the snapshot, or None with a sentence; nothing of it is left in either case."""
    answer = httpx.post(f"{daemon.url}/sandboxes", headers={"X-API-Key": daemon.key}, timeout=ANSWER_S,
                        json={"templateID": snapshot[0], "timeout": 120})
    if answer.status_code != 201:
        assert answer.status_code >= 400 and answer.json()["message"], answer.text
        until(lambda: not daemon.jails(), "a jail that did not start is gone")
        yield None
        return
    sandbox = answer.json()["sandboxID"]
    try:
        yield sandbox
    finally:
        httpx.delete(f"{daemon.url}/sandboxes/{sandbox}", headers={"X-API-Key": daemon.key}, timeout=60)
        until(lambda: not daemon.jails(), "the jail is gone")


def jail_processes(daemon, sandbox):
    """All processes of the sandbox, as directories of the host's /proc."""
    first = daemon.jails()[sandbox]
    space = os.readlink(f"/proc/{first}/ns/pid")
    found = []
    for process in processes():
        with contextlib.suppress(OSError):
            if os.readlink(process / "ns" / "pid") == space:
                found.append(process)
    assert found
    return found


def status_of(process):
    return dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)


def holds(daemon, sandbox):
    """What holds whatever the images said: ids, namespaces and groups of every process are the jail's."""
    for process in jail_processes(daemon, sandbox):
        status = status_of(process)
        assert all(int(uid) >= UID_LEAST for uid in status["Uid"].split()), status
        assert all(int(gid) >= UID_LEAST for gid in status["Gid"].split()), status
        for space in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup"):
            assert os.readlink(process / "ns" / space) != os.readlink(f"/proc/self/ns/{space}"), space
        assert sandbox in (process / "cgroup").read_text()
        root, host = os.stat(process / "root"), os.stat("/")
        assert (root.st_dev, root.st_ino) != (host.st_dev, host.st_ino)
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                assert not os.readlink(link).startswith("/etc/")
    keeper = daemon.child("keeper")
    assert keeper and httpx.get(f"{daemon.url}/health").status_code == 200


def core_change(images, edit):
    """edit(thread's message) for each core image that is of a task."""
    for path in images.glob("core-*.img"):
        criu.change(path, lambda core: criu.build(
            [[n, k, edit(v) if n == CORE_THREAD else v] for n, k, v in criu.parse(core)]))


def creds_change(thread, edit):
    return criu.build([[n, k, edit(v) if n == THREAD_CREDS else v] for n, k, v in criu.parse(thread)])


# ---- who reaches them ----


def test_a_tenant_reaches_no_image(daemon, snapshot):
    """Images of saved processes, looked for from inside a sandbox, by users of the host and by the server's own user,
    can be neither listed, read nor written."""
    images = snapshot[1]
    for user in ("65534", "atoll"):
        for command in (f"ls {images}", f"cat {images}/core-1.img", f"touch {images}/x", f"ls {daemon.data}/pool"):
            done = subprocess.run(["setpriv", f"--reuid={user}", "--regid=65534", "--clear-groups", "--", "sh", "-c", command],
                                  capture_output=True, text=True)
            assert done.returncode != 0 and "ermission denied" in done.stderr, done
    with started(daemon, snapshot) as sandbox:
        box = Sandbox.connect(sandbox, **daemon.sdk)
        seen = box.commands.run(f"ls {images} {daemon.data} 2>&1; find / -xdev -name '*.img' 2>/dev/null; grep -l CRIU /proc/*/cmdline; true",
                                user="root").stdout
        assert "core-" not in seen and "No such file" in seen, seen


# ---- what an edit gains ----


def test_the_search_sees_what_was_saved(daemon, snapshot):
    """An image that nobody changed is restored with the capabilities and filters that its processes had."""
    with started(daemon, snapshot) as sandbox:
        holds(daemon, sandbox)
        found = [status_of(p) for p in jail_processes(daemon, sandbox) if MARK.encode() in (p / "cmdline").read_bytes()]
        assert len(found) == 2 and all(status["Seccomp"] == "2" for status in found)


@pytest.mark.parametrize("edit", ["all capabilities", "ids of the host's root", "no_new_privs off"])
def test_credentials_in_an_image_are_those_of_the_jail(daemon, snapshot, images, edit):
    """Saved credentials that are changed to all capabilities or to uid 0 are restored inside the jail's user namespace:
    on the host they are an unprivileged uid, and capabilities hold over nothing of the host."""
    def creds(message):
        if edit == "all capabilities":
            for number in CREDS_CAPS:
                message = criu.set_field(message, number, criu.VARINT, *FULL)
        elif edit == "no_new_privs off":
            message = criu.set_field(message, CREDS_NO_NEW_PRIVS, criu.VARINT, 0)
        else:
            for number in CREDS_IDS:
                message = criu.set_field(message, number, criu.VARINT, 0)
        return message

    core_change(images, lambda thread: creds_change(thread, creds))
    with started(daemon, snapshot) as sandbox:
        if sandbox:
            holds(daemon, sandbox)
            for process in jail_processes(daemon, sandbox):
                # The kernel asks the user namespace that owns a thing: the host's things are owned by its own.
                done = subprocess.run(["nsenter", "--target", process.name, "--user", "--mount", "--root", "--preserve-credentials", "sh", "-c",
                                       "exec 2>&1; cat /etc/shadow | head -c 0; cat /proc/sys/kernel/core_pattern > /dev/null;"
                                       " echo x > /proc/sys/kernel/core_pattern; true"], capture_output=True, text=True)
                assert "core_pattern" in done.stdout or done.returncode != 0, done
                break
    assert pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip() != "x"


def test_the_id_maps_of_an_image_are_not_believed(daemon, snapshot, images):
    """Saved id maps that make the jail's root the host's root are replaced by those of the new sandbox."""
    for path in images.glob("userns-*.img"):
        criu.change(path, lambda ids: criu.build(
            [[n, k, criu.set_field(v, 2, criu.VARINT, 0)] for n, k, v in criu.parse(ids)]))
    with started(daemon, snapshot) as sandbox:
        assert sandbox
        holds(daemon, sandbox)


def test_filters_that_an_image_lacks(daemon, snapshot, images):
    """Images whose seccomp filters were taken out start no process outside its namespaces, ids and control groups: what
    is lost is the filter alone."""
    def off(thread):
        fields = [f for f in criu.parse(thread) if f[0] not in (THREAD_SECCOMP, THREAD_FILTER)]
        return criu.build(fields + [[THREAD_SECCOMP, criu.VARINT, 0]])

    core_change(images, off)
    with started(daemon, snapshot) as sandbox:
        if sandbox:
            holds(daemon, sandbox)


@pytest.mark.parametrize("field", [MOUNT_ROOT, MOUNT_POINT, MOUNT_SOURCE, MOUNT_OPTIONS, MOUNT_KEY])
def test_mounts_of_an_image_bring_nothing_of_the_host(daemon, snapshot, images, victim, field):
    """Saved mounts that are changed to name directories, disks and options of the host bring nothing of it into the
    jail, and mount nothing on the host."""
    before = host.mounts()
    value = {MOUNT_OPTIONS: f"lowerdir=/,upperdir={victim}".encode()}.get(field, str(victim).encode())
    for path in images.glob("mountpoints-*.img"):
        criu.change(path, lambda mount: criu.build(
            [[n, k, value if n == field and v not in (b"/", b"") else v] for n, k, v in criu.parse(mount)]))
    with started(daemon, snapshot) as sandbox:
        if sandbox:
            holds(daemon, sandbox)
            for process in jail_processes(daemon, sandbox):
                assert not (process / "root" / str(victim)[1:] / "file").exists()
    assert host.mounts() == before


@pytest.mark.parametrize("name", ["/../../../../../../etc/shadow", "/proc/1/root/etc/shadow", "/dev/../etc/passwd"])
def test_files_of_an_image_are_opened_in_the_jail(daemon, snapshot, images, name):
    """Open files, working directories and programs that an image is changed to name outside are looked up below the
    jail's root."""
    def file(message):
        inner = [[n, k, name.encode() if n == 6 and v != b"/" else v] for n, k, v in criu.parse(message)]
        return criu.build(inner)

    criu.change(images / "files.img", lambda entry: criu.build(
        [[n, k, file(v) if n == 3 else v] for n, k, v in criu.parse(entry)]))
    with started(daemon, snapshot) as sandbox:
        if sandbox:
            holds(daemon, sandbox)


def test_control_groups_of_an_image_are_not_believed(daemon, snapshot, images):
    """Saved control groups that are changed to the host's own leave every process in the groups of its sandbox."""
    data = (images / "cgroup.img").read_bytes()
    (name,) = {bit for bit in data.split(b"/") if bit.startswith(b"atoll-")}
    (images / "cgroup.img").write_bytes(data.replace(b"/" + name, b"/" + b"." * len(name)))
    with started(daemon, snapshot) as sandbox:
        if sandbox:
            holds(daemon, sandbox)


# ---- damage ----


def broken(path, how, chance):
    data = bytearray(path.read_bytes())
    if how == "cut off":
        return bytes(data[: len(data) // 2])
    if how == "empty":
        return b""
    if how == "long":
        return bytes(data[:8]) + b"\xff\xff\xff\x7f" + bytes(data[8:])
    for _ in range(8):
        data[chance.randrange(8, len(data))] = chance.randrange(256)
    return bytes(data)


# Not here: a filter of random instructions, which can hold a restored process without ending it. Such a restore ends
# with the keeper's deadline alone, after minutes.
DAMAGE = [(image, how) for image in ("core-1", "pstree", "files", "mm-1", "pagemap-1", "mountpoints-*", "userns-*", "seccomp",
                                     "inventory", "tmpfs-dev-*.tar.gz", "fdinfo-2", "ids-1")
          for how in ("cut off", "empty", "long", "random bytes") if (image, how) != ("seccomp", "random bytes")]


@pytest.mark.parametrize("image, how", DAMAGE)
def test_a_damaged_image_ends_with_a_sentence(daemon, snapshot, images, image, how):
    """Images that are cut off, empty, of impossible lengths or full of random bytes end in a sentence or a jail that
    holds; no worker, no CRIU and no jail is left, and the keeper and an unharmed snapshot go on."""
    chance = random.Random(f"{image} {how}")
    for path in images.glob(f"{image}.img"):
        path.write_bytes(broken(path, how, chance))
    begun = time.monotonic()
    keeper = daemon.child("keeper")
    with started(daemon, snapshot) as sandbox:
        if sandbox:
            holds(daemon, sandbox)
    assert time.monotonic() - begun < ANSWER_S
    assert daemon.child("keeper") == keeper, "the keeper died"
    until(lambda: len(children(keeper)) == 0, "no worker of the keeper's is left")


def test_the_snapshot_still_starts(daemon, snapshot):
    """After all of these the snapshot, put back, starts as before: no edit left a trace in the keeper or the pool."""
    with started(daemon, snapshot) as sandbox:
        assert sandbox
        holds(daemon, sandbox)
