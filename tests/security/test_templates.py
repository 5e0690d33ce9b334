"""Root filesystems made to catch the one who mounts them. A layer on top of base carries the trap; the
keeper must refuse it, or set the jail up so that the trap holds nothing of the host."""
import os
import pathlib
import shutil
import socket
import threading

import pytest

import host
import keeper

TARGET_TEXT = "untouched\n"


@pytest.fixture
def victim(tmp_path):
    """What the traps point at: a directory and a file of the host's."""
    (tmp_path / "file").write_text(TARGET_TEXT)
    (tmp_path / "dir").mkdir()
    return tmp_path


@pytest.fixture
def layer(data_dir, request):
    path = data_dir / "pool" / "layers" / ("evil-" + str(abs(hash(request.node.name)) % 10**9))
    path.mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


def links(path, entries):
    for name, target in entries.items():
        where = path / name
        where.parent.mkdir(parents=True, exist_ok=True)
        where.symlink_to(target)


TRAPS = {
    # CVE-2026-41579, CVE-2025-31133: device nodes and masks are bound over what a link points at.
    "dev": {"dev": "{v}/dir"},
    "dev relative": {"dev": "../../../../../../..{v}/dir"},
    "dev null": {"dev/null": "{v}/file"},
    "dev to proc": {"dev": "/proc/1/root"},
    # CVE-2025-52565: /dev/pts and /dev/console.
    "pts": {"dev/pts": "{v}/dir", "dev/ptmx": "{v}/file", "dev/console": "{v}/file"},
    # CVE-2025-52881: procfs and sysfs redirected, so that later writes land elsewhere.
    "proc": {"proc": "{v}/dir"},
    "sys": {"sys": "{v}/dir"},
    "run": {"run": "{v}/dir"},
    "run inside": {"run/atoll": "{v}/dir"},
    "shm": {"dev/shm": "{v}/dir", "dev/mqueue": "{v}/dir"},
    "etc": {"etc": "{v}/dir"},
    "hosts": {"etc/hosts": "{v}/file", "etc/hostname": "{v}/file", "etc/resolv.conf": "{v}/file"},
}


@pytest.mark.attack("CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881", "CVE-2026-41579")
@pytest.mark.parametrize("trap", TRAPS)
def test_links_in_a_template_catch_nothing(keeper_door, layer, base_layer, victim, trap):
    """A template whose /dev, /proc, /sys, /run or /etc is a link to the host is refused or mounted over, and
    nothing of the host changes."""
    links(layer, {k: t.format(v=victim) for k, t in TRAPS[trap].items()})
    name = b"isecurity" + os.urandom(5).hex().encode()
    before = host.mounts()
    answer, fds = keeper_door.create(name, [layer.name, base_layer.name])
    try:
        if answer.status < 0:
            assert answer.err.msg, "refused without a sentence"
        assert (victim / "file").read_text() == TARGET_TEXT
        assert list((victim / "dir").iterdir()) == []
        assert host.mounts() == before
    finally:
        for fd in fds:
            os.close(fd)
        keeper_door.destroy(name, answer.jail)
    assert (victim / "file").read_text() == TARGET_TEXT


@pytest.mark.parametrize("kind", ["file", "fifo", "device"])
def test_mount_points_that_are_no_directories_are_refused(keeper_door, layer, base_layer, kind):
    """A template whose /proc is a file, a FIFO or a device is refused with a sentence."""
    if kind == "file":
        (layer / "proc").write_text("")
    elif kind == "fifo":
        os.mkfifo(layer / "proc")
    else:
        os.mknod(layer / "proc", 0o020666, os.makedev(1, 3))
    name = b"isecurity" + os.urandom(5).hex().encode()
    answer, fds = keeper_door.create(name, [layer.name, base_layer.name])
    for fd in fds:
        os.close(fd)
    keeper_door.destroy(name, answer.jail)
    assert answer.status < 0 and b"proc" in answer.err.msg


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "sparse", "socket"])
def test_what_a_template_has_in_place_of_files_holds_up_nobody(keeper_door, layer, base_layer, kind):
    """The jail's first process looks at /etc/hosts and /etc/resolv.conf."""
    (layer / "etc").mkdir()
    for name in ["etc/hosts", "etc/resolv.conf"]:
        if kind == "fifo":
            os.mkfifo(layer / name)
        elif kind == "device":
            os.mknod(layer / name, 0o020666, os.makedev(5, 0))
        elif kind == "directory":
            (layer / name).mkdir()
        elif kind == "sparse":
            with open(layer / name, "wb") as file:
                file.truncate(1 << 40)
        else:
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(os.path.relpath(layer / name))
    name = b"isecurity" + os.urandom(5).hex().encode()
    answer, fds = keeper_door.create(name, [layer.name, base_layer.name])
    for fd in fds:
        os.close(fd)
    keeper_door.destroy(name, answer.jail)
    assert answer.status == 0 or b"resolv.conf" in answer.err.msg, answer.err.msg


def test_a_root_that_changes_while_it_is_mounted(keeper_door, layer, base_layer, victim):
    """CVE-2021-30465: a directory of a root that becomes a link between the check and the mount leads nowhere on
    the host."""
    stop = threading.Event()
    (layer / "dev").mkdir()
    (layer / "elsewhere").symlink_to(victim / "dir")

    def swap():
        while not stop.is_set():
            os.rename(layer / "dev", layer / "kept")
            os.rename(layer / "elsewhere", layer / "dev")
            os.rename(layer / "dev", layer / "elsewhere")
            os.rename(layer / "kept", layer / "dev")

    racer = threading.Thread(target=swap)
    racer.start()
    try:
        for round in range(40):
            name = b"irace" + str(round).encode()
            answer, fds = keeper_door.create(name, [layer.name, base_layer.name])
            for fd in fds:
                os.close(fd)
            keeper_door.destroy(name, answer.jail)
            assert list((victim / "dir").iterdir()) == []
    finally:
        stop.set()
        racer.join()
    assert str(victim) not in pathlib.Path("/proc/self/mountinfo").read_text()


def test_device_nodes_of_a_template_do_not_work(keeper_door, layer, base_layer, data_dir):
    """Device nodes in a template lie on a mount without devices."""
    os.mknod(layer / "disk", 0o060666, os.makedev(7, 0))
    options = [line.split()[3] for line in open("/proc/mounts") if line.split()[1] == str(data_dir / "pool")]
    assert "nodev" in options[0].split(",")


@pytest.mark.parametrize("bad", [b"../etc", b"a/b", b"", b".", b"..", b"A", b"x\0y", b"\xff"])
def test_the_keeper_takes_no_paths(keeper_door, base_layer, bad):
    """Names with paths, dots, NUL and foreign bytes, given to the keeper as sandboxes or layers, are refused."""
    answer, fds = keeper_door.create(b"i" + b"z" * 20, [bad.decode("latin-1"), base_layer.name])
    assert answer.status < 0 and fds == []
    answer, fds = keeper_door.create(bad, [base_layer.name])
    if bad not in (b"x\0y",):
        assert answer.status < 0 and fds == []
    else:
        keeper_door.destroy(b"x", answer.jail)


def test_the_keeper_survives_messages_of_every_size(data_dir):
    """Messages of wrong sizes on the keeper's socket leave it serving."""
    for size in [0, 1, 4, 64, 4096, 60000]:
        with keeper.Keeper(data_dir / "run" / "keeper.sock") as door:
            try:
                door.ask_raw(b"\xff" * size) if size else door.socket.close()
            except (OSError, ValueError):
                pass
    with keeper.Keeper(data_dir / "run" / "keeper.sock") as door:
        answer, _ = door.ask(keeper.HELLO)
        assert answer.status == 0


def test_the_keeper_is_shut_to_other_users(data_dir):
    """A user of the host that is neither root nor the server is refused by the keeper."""
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            with keeper.Keeper(data_dir / "run" / "keeper.sock") as door:
                door.ask(keeper.HELLO)
        except (PermissionError, ConnectionError):
            os._exit(0)
        except BaseException:
            os._exit(2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
