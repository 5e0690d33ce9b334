"""What a process in a jail is, seen from inside and outside."""
import os
import pathlib
import re

import pytest
from e2b import CommandExitException, InvalidArgumentException, NotFoundException

ODD_USERS = ["0x0", "-1", "1000:0", "0", "+0", " root", "root ", "root:x", "../root", "user\nroot", "%72oot"]

# What the jail's root may hold: enough for sudo, apt and servers, nothing that reaches the host.
BOUNDING = {"chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
            "net_bind_service", "sys_chroot", "setfcap", "audit_write"}
CAPABILITIES = """chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable
net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace
sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control
setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore""".split()


def capability_names(mask_hex):
    mask = int(mask_hex, 16)
    return {name for bit, name in enumerate(CAPABILITIES) if mask >> bit & 1}


def jail_processes(sandbox):
    """The processes of a sandbox as directories of the host's /proc, found by their namespace."""
    found = []
    space = sandbox.commands.run("readlink /proc/self/ns/uts").stdout.strip()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "ns" / "uts") == space:
                found.append(process)
        except OSError:
            pass  # ended meanwhile
    return found


def status_of(sandbox, who, user):
    text = sandbox.commands.run(f"cat /proc/{who}/status", user=user).stdout
    return dict(re.findall(r"^(\w+):\s*(.*)$", text, re.M))


@pytest.mark.parametrize("user", ["root", "user"])
@pytest.mark.parametrize("who", ["self", "1"])
def test_capabilities_are_few_and_none_is_inherited(sandbox, user, who):
    """CVE-2022-27650: inheritable capabilities, which file capabilities make real, are empty in every process, and
    the other sets are small."""
    status = status_of(sandbox, who, user)
    assert int(status["CapInh"], 16) == 0
    assert int(status["CapAmb"], 16) == 0
    assert capability_names(status["CapBnd"]) <= BOUNDING
    assert capability_names(status["CapEff"]) <= BOUNDING
    if user == "user" and who == "self":
        assert int(status["CapEff"], 16) == 0
    assert status["Seccomp"] == "2"


@pytest.mark.parametrize("name", ODD_USERS)
def test_odd_user_names_are_nobody(sandbox, name):
    """CVE-2026-30892: user names that a number parser or a splitter takes for root are refused."""
    with pytest.raises(Exception) as caught:
        done = sandbox.commands.run("id -u", user=name)
        pytest.fail(f"ran as uid {done.stdout.strip()}")
    assert not isinstance(caught.value, CommandExitException)
    assert "invalid" in str(caught.value).lower()


def test_no_descriptor_or_directory_of_the_host_leaks(sandbox):
    """CVE-2024-21626: no process of a jail, pid 1 included, holds a descriptor or working directory of the host.

    Looked at from outside, where pid 1's descriptors show as well."""
    sandbox.commands.run("sleep 7654321", user="root", background=True)
    kinds = re.compile(r"^(/dev/(null|ptmx|pts/\d+)|(pipe|socket):\[\d+\]|anon_inode:.*)$")
    processes = jail_processes(sandbox)
    assert len(processes) >= 2
    for process in processes:
        seen = {fd.name: os.readlink(fd) for fd in (process / "fd").iterdir()}
        assert seen and {k: v for k, v in seen.items() if not kinds.match(v)} == {}
        for link in ["cwd", "root"]:
            inside = os.stat(process / link)
            host = os.stat("/")
            assert (inside.st_dev, inside.st_ino) != (host.st_dev, host.st_ino)


@pytest.mark.parametrize("fd", range(3, 12))
def test_a_working_directory_by_descriptor_stays_inside(sandbox, fd):
    """CVE-2024-21626 again: cwd given as /proc/self/fd/N must not land outside."""
    try:
        done = sandbox.commands.run("stat -c %d / .; pwd -P", user="root", cwd=f"/proc/self/fd/{fd}")
    except (InvalidArgumentException, NotFoundException):
        assert sandbox.commands.run("echo here").stdout == "here\n"
        return  # no directory is there: refused
    root, here, path = done.stdout.splitlines()
    assert root == here and path.startswith("/"), done.stdout


def test_the_agent_cannot_be_overwritten(attack, sandbox):
    """CVE-2019-5736: the agent's program, opened for writing through /proc/1/exe and by its name, cannot be
    changed."""
    agent = pathlib.Path(os.environ["ATOLL_AGENT"])
    before = agent.read_bytes()
    report = attack("""
        attempt("pid 1", lambda: os.open("/proc/1/exe", os.O_WRONLY))
        attempt("truncate", lambda: os.truncate("/proc/1/exe", 0))
        attempt("by mount point", lambda: os.open(os.readlink("/proc/1/exe"), os.O_WRONLY))
        attempt("unlink", lambda: os.unlink(os.readlink("/proc/1/exe")))
        attempt("rename", lambda: os.rename(os.readlink("/proc/1/exe"), "/tmp/agent"))
        attempt("chmod", lambda: os.chmod(os.readlink("/proc/1/exe"), 0o4777))
    """)
    assert all(isinstance(v, str) and v.startswith("E") for v in report.values()), report
    assert agent.read_bytes() == before
    assert sandbox.is_running()


def test_the_first_process_can_be_neither_traced_nor_killed(attack, sandbox):
    """The agent, traced, read or killed by the jail's root, refuses and lives on."""
    report = attack("""
        class Vector(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
        room = ctypes.create_string_buffer(16)
        here = Vector(ctypes.cast(room, ctypes.c_void_p), 16)
        there = Vector(0x400000, 16)
        attempt("peek", lambda: syscall(310, 1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
        attempt("attach", lambda: syscall(101, 16, 1, 0, 0))
        attempt("seize", lambda: syscall(101, 0x4206, 1, 0, 0))
        attempt("memory", lambda: os.open("/proc/1/mem", os.O_RDWR))
        attempt("kill", lambda: os.kill(1, 9) or 0)
    """)
    assert report["attach"] in ("EPERM", "EACCES", "ESRCH"), report
    assert report["seize"] in ("EPERM", "EACCES", "ESRCH", "EIO")
    assert report["memory"] in ("EPERM", "EACCES") and report["peek"] in ("EPERM", "ENOSYS")
    assert sandbox.commands.run("echo alive").stdout == "alive\n"


def test_root_inside_is_nobody_outside(sandbox):
    """Root of a jail is an unprivileged uid of the host, and no namespace is the host's."""
    sandbox.commands.run("sleep 1234567", user="root", background=True)
    processes = jail_processes(sandbox)
    assert len(processes) >= 2
    for process in processes:
        uid = int(re.search(r"^Uid:\s+(\d+)", (process / "status").read_text(), re.M)[1])
        assert uid >= 0x10000000
        for space in ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"]:
            assert os.readlink(process / "ns" / space) != os.readlink(f"/proc/self/ns/{space}"), space


def test_the_server_has_no_privilege():
    """A taken-over server would be user atoll without a capability, and could gain none."""
    daemon = os.environ["ATOLL_DAEMON_PID"]
    children = pathlib.Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    (pid,) = [c for c in children if pathlib.Path(f"/proc/{c}/comm").read_text() == "atoll-serve\n"]
    status = dict(re.findall(r"^(\w+):\s*(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M))
    assert all(int(uid) != 0 for uid in status["Uid"].split())
    assert all(int(gid) != 0 for gid in status["Gid"].split())
    for kind in ["CapInh", "CapPrm", "CapEff", "CapAmb"]:
        assert int(status[kind], 16) == 0
    assert status["NoNewPrivs"] == "1"
