"""Published ways out of container runtimes, builders and shared kernels, 2019 to 2026, each by its number: the
mechanism itself is tried from inside a jail, or through the API, and must lead nowhere."""
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from urllib.parse import quote

import httpx
import pytest
from e2b import Sandbox, SandboxException

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

import host  # noqa: E402
from builder import Builder, archive, run  # noqa: E402

DENIED = {"EPERM", "ENOSYS", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}
FORBIDDEN = sum(1 << bit for bit in (12, 13, 16, 17, 19, 21, 27, 39))  # NET_ADMIN to BPF: what escapes need
SHARED_FILE = "usr/lib/os-release"  # of the base template: every sandbox has the same pages of it


class Running:
    """The daemon of the run, as Builder wants it."""

    url, key = os.environ.get("E2B_API_URL", ""), os.environ.get("E2B_API_KEY", "")


@pytest.fixture
def builder():
    return Builder(Running())


@pytest.fixture
def victim(tmp_path):
    """A file and a directory of the host that attacks aim at."""
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_text("untouched\n")
    (tmp_path / "dir").mkdir()
    yield tmp_path
    assert (tmp_path / "file").read_text() == "untouched\n"
    assert list((tmp_path / "dir").iterdir()) == []


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A shared library that leaves a file wherever it is loaded: (its bytes, the file's name)."""
    mark = f"/tmp/loaded-{uuid.uuid4().hex}"
    path = tmp_path_factory.mktemp("library")
    (path / "evil.c").write_text(textwrap.dedent(f"""
        #include <fcntl.h>
        #include <unistd.h>
        __attribute__((constructor)) static void loaded(void)
        {{
            close(open("{mark}", O_CREAT | O_WRONLY, 0666));
        }}
    """))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path / "evil.so", path / "evil.c"], check=True)
    yield (path / "evil.so").read_bytes(), mark
    assert not os.path.exists(mark), "a library of a sandbox was loaded outside of it"


@pytest.fixture
def box():
    """A sandbox that a test may break."""
    box = Sandbox.create(timeout=300)
    yield box
    Sandbox.kill(box.sandbox_id)


def server_peak_kb():
    daemon = os.environ["ATOLL_DAEMON_PID"]
    for child in pathlib.Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split():
        if pathlib.Path(f"/proc/{child}/comm").read_text() == "atoll-serve\n":
            status = pathlib.Path(f"/proc/{child}/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0])
    raise AssertionError("the server does not run")


# ---- the runtime's own program and libraries ----


def test_cve_2019_5736_the_agent_runs_itself(box, data_dir):
    """CVE-2019-5736: a shell replaced by `#!/proc/self/exe` makes the runtime execute itself, and its program is
    then opened for writing through /proc; the agent's program stays as it was."""
    agent = pathlib.Path(os.environ["ATOLL_AGENT"])
    before = agent.read_bytes()
    box.files.write("/tmp/hunt.py", textwrap.dedent("""
        import os, time
        here = os.stat("/bin").st_dev
        held, wrote, end = {}, [], time.monotonic() + 10
        print("hunting", flush=True)
        while time.monotonic() < end:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    fd = os.open(f"/proc/{pid}/exe", os.O_PATH)
                except OSError:
                    continue
                if pid in held or os.fstat(fd).st_dev == here:
                    os.close(fd)  # a program of the jail's own
                else:
                    held[pid] = fd
            for fd in held.values():
                try:
                    os.write(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY), b"#!/bin/sh\\n")
                    wrote.append(fd)
                except OSError:
                    pass
        print(len(held), len(wrote))
    """), user="root")
    hunt = box.commands.run("exec python3 /tmp/hunt.py", user="root", background=True)
    box.commands.run("cp /bin/bash /bin/kept && printf '#!/proc/self/exe\\n' > /tmp/again && chmod 755 /tmp/again &&"
                     " mv /tmp/again /bin/bash", user="root")
    for _ in range(100):
        with contextlib.suppress(Exception):  # whatever the agent makes of being run as a shell
            box.commands.run("true", user="root", timeout=5)
    held, wrote = map(int, hunt.wait().stdout.split()[1:])
    assert held >= 1 and wrote == 0
    assert agent.read_bytes() == before


def test_cve_2019_14271_libraries_of_the_jail_stay_in_it(box, library):
    """CVE-2019-14271: file transfers load libnss and whatever ld.so.preload names from the container with the
    runtime's rights; the agent loads nothing of the jail, and nothing outside does."""
    code, mark = library
    box.files.write("/evil.so", code, user="root")
    box.commands.run("chmod 755 /evil.so; for l in /lib/x86_64-linux-gnu/libnss_files.so.2; do cp /evil.so $l; done;"
                     " echo /evil.so > /etc/ld.so.preload", user="root")
    box.commands.run(f"rm -f {mark}", user="root")
    assert box.commands.run(f"ls {mark}; true").stdout == f"{mark}\n"  # the library works, inside
    for user in ("root", "user"):
        box.files.write("/tmp/sent", "x", user=user)
        assert box.files.read("/tmp/sent", user=user) == "x"
        box.files.list("/tmp", user=user)
    box.pause()
    box.connect()
    assert box.files.read("/tmp/sent") == "x"
    assert not os.path.exists(mark)


def test_cve_2025_23266_the_template_s_environment_reaches_no_hook(builder, library):
    """CVE-2025-23266: LD_PRELOAD in an image's environment is honoured by the runtime's hooks; here it acts in the
    jail alone, in builds, in sandboxes and when they are saved."""
    code, mark = library
    ids = builder.request(f"preload-{uuid.uuid4().hex[:8]}")
    files = builder.upload(ids[0], archive(("evil.so", code)))
    builder.start(ids, [{"type": "COPY", "args": ["evil.so", "/evil.so", "", "755"], "filesHash": files},
                        {"type": "ENV", "args": ["LD_PRELOAD", "/evil.so"]}, run("true"),
                        run(f"ls {mark}")])
    status = builder.wait(ids)
    assert status["status"] == "ready", status
    with Sandbox.create(ids[0], timeout=120) as sandbox:
        assert sandbox.commands.run("echo $LD_PRELOAD").stdout == "/evil.so\n"
        sandbox.files.write("/tmp/x", "x")
        sandbox.pause()
        sandbox.connect()
    builder.call("DELETE", f"/templates/{ids[0]}")
    assert not os.path.exists(mark)


def test_cve_2026_41567_programs_of_the_jail_unpack_nothing_outside(builder, victim):
    """CVE-2026-41567: an upload is unpacked by a decompressor that is looked up in the container; tools that an
    earlier step put in front of the path are not run by the daemon, with any right."""
    fake = "#!/bin/sh\necho \"$0 $(id -u)\" >> {0}/file; touch {0}/dir/$$; touch /unpacked-by-$(basename $0); exit 1\n".format(victim)
    names = "gzip gunzip zcat unpigz pigz xz unxz zstd unzstd bzip2 tar bsdtar cpio"
    script = f"for n in {names}; do printf '%s' '{fake}' > /usr/local/sbin/$n; chmod 755 /usr/local/sbin/$n; done"
    ids = builder.request(f"tools-{uuid.uuid4().hex[:8]}")
    packed = [builder.upload(ids[0], archive(("a", b"x"), compress=kind)) for kind in ("gz", "xz", "bz2", "")]
    copies = [{"type": "COPY", "args": ["a", f"/copied/{i}/", "", ""], "filesHash": name} for i, name in enumerate(packed)]
    builder.start(ids, [run(script, "root"), *copies, run("cat /copied/*/a; ls / | grep unpacked-by && exit 1; true")])
    status = builder.wait(ids)
    assert status["status"] == "ready" or "damaged or not a tar" in status["reason"]["message"], status
    builder.call("DELETE", f"/templates/{ids[0]}")


# ---- mounts, volumes, links ----


def test_cve_2019_16884_a_volume_over_proc(builder):
    """CVE-2019-16884, CVE-2019-19921 and CVE-2023-27561: a volume mounted over /proc, or where a link of the
    template leads there, hides the real one from the runtime; the mount is refused, and /proc stays procfs."""
    ids, status = builder.build([run("ln -s /proc /link && ln -s /proc/sys /link2 && ln -s / /link3", "root")],
                                name=f"links-{uuid.uuid4().hex[:8]}")
    assert status["status"] == "ready", status
    volume = builder.call("POST", "/volumes", json={"name": f"v-{uuid.uuid4().hex[:8]}"}).json()
    try:
        for path in ("/proc", "/proc/sys", "/link", "/link/sys", "/link2", "/link3/proc", "/dev", "/run/atoll"):
            body = {"templateID": ids[0], "timeout": 60, "volumeMounts": [{"name": volume["name"], "path": path}]}
            answer = builder.call("POST", "/sandboxes", json=body)
            assert answer.status_code in (400, 422, 201), (path, answer.text)
            if answer.status_code == 201:
                with Sandbox.connect(answer.json()["sandboxID"]) as sandbox:
                    kinds = sandbox.commands.run("grep ' /proc' /proc/self/mounts | cut -d' ' -f2,3").stdout
                    assert kinds.startswith("/proc proc") and "btrfs" not in kinds, (path, kinds)
    finally:
        builder.call("DELETE", f"/volumes/{volume['volumeID']}")
        builder.call("DELETE", f"/templates/{ids[0]}")


def test_cve_2021_30465_mounts_in_a_shared_volume(builder):
    """CVE-2021-30465 and CVE-2024-45310: a mount point inside a volume that another container swaps for a link at
    the right moment; a mount inside another mount is refused, so no such point exists."""
    names = [builder.call("POST", "/volumes", json={"name": f"v{i}-{uuid.uuid4().hex[:8]}"}).json() for i in range(2)]
    try:
        for first, second in (("/a", "/a/b"), ("/a/b", "/a"), ("/a", "/a")):
            body = {"templateID": "base", "timeout": 60, "volumeMounts": [
                {"name": names[0]["name"], "path": first}, {"name": names[1]["name"], "path": second}]}
            answer = builder.call("POST", "/sandboxes", json=body)
            assert answer.status_code == 400 and "mount" in answer.text, answer.text
    finally:
        for volume in names:
            builder.call("DELETE", f"/volumes/{volume['volumeID']}")


def test_cve_2026_42306_files_written_while_their_directory_becomes_a_link(builder, victim):
    """CVE-2026-42306 and CVE-2018-15664: files copied into a running container while its volume's directory becomes
    a link to the host; every write stays in the jail."""
    volume = builder.call("POST", "/volumes", json={"name": f"v-{uuid.uuid4().hex[:8]}"}).json()
    body = {"templateID": "base", "timeout": 120, "volumeMounts": [{"name": volume["name"], "path": "/v"}]}
    answer = builder.call("POST", "/sandboxes", json=body)
    assert answer.status_code == 201, answer.text
    with Sandbox.connect(answer.json()["sandboxID"]) as sandbox:
        swap = f"mkdir -p /v/x; ln -s {victim}/dir /v/y; while :; do mv -T /v/x /v/z; mv -T /v/y /v/x; mv -T /v/x /v/y; mv -T /v/z /v/x; done"
        racing = sandbox.commands.run(swap, user="root", background=True)
        written = 0
        for i in range(60):
            with contextlib.suppress(SandboxException):  # the path was away at that moment
                sandbox.files.write(f"/v/x/{i}", "x", user="root")
                written += 1
        racing.kill()
        assert written > 0, "no write met a directory, so nothing was tried"
    builder.call("DELETE", f"/volumes/{volume['volumeID']}")


DEVICES = ["/dev/null", "/dev/console", "/dev/ptmx", "/dev/tty", "/dev/zero", "/dev/fd", "/dev/shm", "/dev/mqueue"]


def test_cve_2025_31133_devices_become_links_while_it_runs(box, victim):
    """CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881: /dev/null, /dev/console, /dev/pts and files below /proc
    become links to the host's; a save and a start from it bind, mask and write nothing there."""
    knobs = {name: pathlib.Path(name).read_text() for name in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")}
    before = host.mounts()
    for i, name in enumerate(DEVICES):
        target = ["/proc/sys/kernel/core_pattern", f"{victim}/file", f"{victim}/dir", "/proc/sysrq-trigger"][i % 4]
        box.commands.run(f"rm -rf {name} 2>/dev/null; ln -sfn {target} {name}; true", user="root")
    box.commands.run(f"ln -sfn {victim}/file /etc/hostname; ln -sfn {victim}/file /etc/hosts;"
                     f" ln -sfn {victim}/file /etc/resolv.conf; true", user="root")
    try:
        snapshot = box.create_snapshot()
        with Sandbox.create(snapshot.snapshot_id, timeout=60) as again:
            assert again.commands.run("wc -c < /proc/kcore", user="root").stdout.strip() in ("0", "")
        Sandbox.delete_snapshot(snapshot.snapshot_id)
    except Exception as error:  # a sentence is as good: what counts is what it left
        assert "500" not in str(error), error
    assert {name: pathlib.Path(name).read_text() for name in knobs} == knobs
    assert host.mounts() == before


def test_cve_2021_41091_the_pool_is_shut_to_users_of_the_host(box, data_dir):
    """CVE-2021-41091: users of the host walk into the data directory and run set-uid files of containers; the pool
    can be entered by root alone."""
    box.commands.run("cp /bin/sh /usr/local/bin/rootsh && chmod 6755 /usr/local/bin/rootsh", user="root")
    (found,) = (data_dir / "pool" / "sandboxes" / box.sandbox_id).rglob("rootsh")
    for command in (f"stat {found}", f"{found} -c 'id -u'", f"ls {data_dir}/pool/sandboxes"):
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "sh", "-c", command],
                              capture_output=True, text=True)
        assert done.returncode != 0 and "ermission denied" in done.stderr, done


# ---- capabilities, overlays, file attributes ----


def test_cve_2023_2640_file_capabilities_mean_nothing_outside(box, data_dir):
    """CVE-2023-2640, CVE-2023-32629 (GameOver(lay)), CVE-2021-3493 and CVE-2023-0386: capabilities and set-uid bits
    given to a file in a jail travel to the host with the overlay; run there by a plain user, they give nothing."""
    full = "struct.pack('<IIIIII', 0x03000001, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0)"
    box.files.write("/tmp/caps.py", "import os, struct, shutil\n"
                    "shutil.copy('/bin/cat', '/usr/local/bin/evilcat')\n"
                    "os.chmod('/usr/local/bin/evilcat', 0o6755)\n"
                    f"for data in ({full}, {full}[:20].replace(b'\\x03', b'\\x02', 1)):\n"
                    "    try:\n"
                    "        os.setxattr('/usr/local/bin/evilcat', 'security.capability', data); print('set')\n"
                    "    except OSError as e:\n"
                    "        print(e.errno)\n"
                    "for name in ('trusted.overlay.redirect', 'trusted.overlay.opaque', 'trusted.x'):\n"
                    "    try:\n"
                    "        os.setxattr('/usr/local/bin', name, b'y'); print('SET ' + name)\n"
                    "    except OSError:\n"
                    "        pass\n", user="root")
    said = box.commands.run("python3 /tmp/caps.py", user="root").stdout
    assert "SET" not in said, said
    (found,) = (data_dir / "pool" / "sandboxes" / box.sandbox_id).rglob("evilcat")
    fd = os.open(found, os.O_RDONLY)
    try:
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", f"/proc/self/fd/{fd}",
                               "/proc/self/status"], capture_output=True, text=True, pass_fds=[fd])
    finally:
        os.close(fd)
    assert "Uid:\t65534\t65534\t65534" in done.stdout, done
    assert "CapEff:\t0000000000000000" in done.stdout and "CapPrm:\t0000000000000000" in done.stdout, done.stdout


def test_cve_2023_0386_no_overlay_or_fuse_of_ones_own(attack):
    """CVE-2023-0386 and CVE-2022-0185: an overlay over a FUSE mount, and a file system opened by fsopen() with
    parameters that overflow, are refused before the kernel parses anything."""
    report = attack("""
        for d in ("l", "u", "w", "m"):
            os.makedirs("/tmp/ov/" + d, exist_ok=True)
        options = b"lowerdir=/tmp/ov/l,upperdir=/tmp/ov/u,workdir=/tmp/ov/w"
        attempt("fuse device", lambda: os.open("/dev/fuse", os.O_RDWR))
        attempt("fuse node", lambda: os.mknod("/tmp/fuse", 0o020666, os.makedev(10, 229)) or 0)
        attempt("fuse", lambda: syscall(165, b"x", b"/tmp/ov/m", b"fuse", 0, b"fd=3,rootmode=40000,user_id=0,group_id=0"))
        attempt("overlay", lambda: syscall(165, b"overlay", b"/tmp/ov/m", b"overlay", 0, options))
        attempt("userns", lambda: syscall(272, 0x10000000 | 0x20000))
        attempt("fsopen", lambda: syscall(430, b"ext4", 0))
        attempt("fsconfig", lambda: syscall(431, 3, 1, b"\\0" + b"A" * 8000, 0, 0))
    """)
    assert report and all(v in DENIED | {"ENOENT", "EBADF"} for v in report.values()), report


def test_cve_2022_0492_no_release_agent(attack):
    """CVE-2022-0492 and CVE-2023-25809: a control group hierarchy that is mounted or lies writable in the jail lets
    its release_agent run as root of the host; none can be mounted, and none is there."""
    report = attack("""
        os.makedirs("/tmp/cg", exist_ok=True)
        attempt("userns", lambda: syscall(272, 0x10000000 | 0x2000000 | 0x20000))
        for kind in (b"cgroup", b"cgroup2"):
            attempt(kind.decode(), lambda: syscall(165, b"none", b"/tmp/cg", kind, 0, b"rdma" if kind == b"cgroup" else 0))
        found = [os.path.join(d, f) for top in ("/sys", "/tmp/cg", "/dev") for d, _, fs in os.walk(top)
                 for f in fs if f in ("release_agent", "notify_on_release", "cgroup.procs")]
        report["found"] = found
        report["mounts"] = [l for l in open("/proc/self/mountinfo") if " - cgroup" in l]
    """)
    assert report.pop("found") == [] and report.pop("mounts") == []
    assert all(v in DENIED for v in report.values()), report


# ---- pages that sandboxes share ----


def untouched(base_layer):
    """What the host and a new sandbox read of the shared file: from the very pages."""
    with Sandbox.create(timeout=60) as other:
        return (base_layer / SHARED_FILE).read_bytes(), other.files.read(f"/{SHARED_FILE}", format="bytes")


def test_cve_2022_0847_dirty_pipe(attack, base_layer):
    """CVE-2022-0847 (Dirty Pipe): a page of a shared lower layer, spliced into a pipe whose buffers may be merged,
    is written to; the file stays as it was, for the host and for other sandboxes."""
    before = (base_layer / SHARED_FILE).read_bytes()
    report = attack(f"""
        r, w = os.pipe()
        os.set_blocking(w, False)
        filled = 0
        try:
            while True:
                filled += os.write(w, b"\\0" * 4096)
        except BlockingIOError:
            pass
        while filled > 0:
            filled -= len(os.read(r, min(filled, 65536)))
        fd = os.open("/{SHARED_FILE}", os.O_RDONLY)
        attempt("splice", lambda: os.splice(fd, w, 1, offset_src=1))
        attempt("write", lambda: os.write(w, b"dirty pipe"))
        report["seen"] = open("/{SHARED_FILE}", "rb").read(32).hex()
    """)
    assert report["splice"] == 1 and report["write"] == 10  # it was really tried
    assert bytes.fromhex(report["seen"]) == before[:32]
    host, neighbour = untouched(base_layer)
    assert host == before and bytes(neighbour) == before


def test_cve_2026_31431_copy_fail(attack, base_layer):
    """CVE-2026-31431 (Copy Fail): the kernel's crypto sockets write into pages that were spliced to them; no such
    socket can be had, by any table of system calls, and the shared file stays as it was."""
    before = (base_layer / SHARED_FILE).read_bytes()
    report = attack("""
        import mmap, signal
        for kind in (1, 2, 3, 5):
            attempt(f"AF_ALG {kind}", lambda: syscall(41, 38, kind, 0))
        attempt("pair", lambda: syscall(53, 38, 5, 0, ctypes.create_string_buffer(8)))
        attempt("x32", lambda: syscall(0x40000000 | 41, 38, 5, 0))
        # int 0x80: the 32-bit table, whose socket() is 359 and whose socketcall() is 102
        def by_interrupt(number, first, second):
            pid = os.fork()
            if pid == 0:
                code = b"\\x53\\xb8" + struct.pack("<I", number) + b"\\xbb" + struct.pack("<I", first) + \\
                       b"\\xb9" + struct.pack("<I", second) + b"\\xba\\0\\0\\0\\0\\xcd\\x80\\x5b\\xc3"
                room = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
                room.write(code)
                call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(room)))
                os._exit(0 if call() >= 0 else 1)
            status = os.waitpid(pid, 0)[1]
            return "made" if status == 0 else "refused"
        attempt("32-bit socket", lambda: by_interrupt(359, 38, 5))
        attempt("32-bit getpid", lambda: by_interrupt(20, 0, 0))
    """)
    assert report.pop("32-bit socket") == report.pop("32-bit getpid") == "refused"
    assert report.pop("pair") in DENIED | {"ENOTSUP", "EOPNOTSUPP"}
    assert len(report) == 5 and {k: v for k, v in report.items() if v not in DENIED} == {}
    assert untouched(base_layer)[0] == before


def test_cve_2026_43284_dirty_frag(attack, base_layer):
    """CVE-2026-43284, CVE-2026-43500 (Dirty Frag) and CVE-2026-46300 (Fragnesia): pages of a shared file, spliced into
    UDP and TCP sockets, are decrypted in place by ESP or RxRPC; neither can be set up, and the file stays."""
    before = (base_layer / SHARED_FILE).read_bytes()
    report = attack(f"""
        attempt("xfrm", lambda: syscall(41, 16, 3, 6))
        attempt("pfkey", lambda: syscall(41, 15, 3, 2))
        attempt("rxrpc", lambda: syscall(41, 33, 2, 2))
        attempt("key", lambda: syscall(248, b"rxrpc", b"x", b"y", 1, -3))
        tcp = socket.socket()
        attempt("espintcp", lambda: tcp.setsockopt(6, 31, b"espintcp"))
        udp, peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        peer.bind(("127.0.0.1", 0))
        udp.connect(peer.getsockname())
        try:
            peer.setsockopt(17, 100, 2)  # UDP_ENCAP_ESPINUDP: without a state of xfrm it decrypts nothing
        except OSError:
            pass
        r, w = os.pipe()
        fd = os.open("/{SHARED_FILE}", os.O_RDONLY)
        attempt("ok splice in", lambda: os.splice(fd, w, 64, offset_src=0) > 0)
        attempt("ok splice out", lambda: os.splice(r, udp.fileno(), 64) > 0)
        report["seen"] = open("/{SHARED_FILE}", "rb").read(64).hex()
    """)
    assert bytes.fromhex(report.pop("seen")) == before[:64]
    assert report.pop("ok splice in") is True and report.pop("ok splice out") is True
    assert all(v in DENIED | {"ENOENT", "ENOTCONN", "ENOPROTOOPT"} for v in report.values()), report
    host, neighbour = untouched(base_layer)
    assert host == before and bytes(neighbour) == before


# ---- kernel subsystems that need a right the jail lacks ----

NETFILTER = """
    attempt("userns", lambda: syscall(272, 0x10000000 | 0x40000000))
    attempt("netlink", lambda: syscall(41, 16, 3, 12))
    s = socket.socket()
    attempt("ipt replace", lambda: s.setsockopt(0, 64, b"\\0" * 96) or 0)
    attempt("ipt info", lambda: len(s.getsockopt(0, 64, 84)))
    six = socket.socket(socket.AF_INET6)
    attempt("ip6t replace", lambda: six.setsockopt(41, 64, b"\\0" * 96) or 0)
    attempt("arpt", lambda: s.setsockopt(0, 96, b"\\0" * 96) or 0)
"""

TRAFFIC = """
    def ask(kind, body):
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        s.settimeout(5)
        s.send(struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
        answer = s.recv(4096)
        return struct.unpack_from("i", answer, 16)[0] if struct.unpack_from("H", answer, 4)[0] == 2 else "answered"
    tc = struct.pack("BxHiIII", 0, 0, 1, 0x10000, 0xffffffff, 0)
    for name, kind in {"qdisc": 36, "class": 40, "filter": 44, "chain": 100, "action": 48}.items():
        attempt(name, lambda: ask(kind, tc + struct.pack("HH8s", 12, 1, b"hfsc\\0")))
    attempt("link", lambda: ask(16, struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH8s", 12, 3, b"dummy0\\0")))
"""

RINGS = """
    empty = ctypes.create_string_buffer(256)
    attempt("setup", lambda: syscall(425, 8, empty))
    attempt("enter", lambda: syscall(426, 0, 1, 1, 0, 0, 0))
    attempt("register", lambda: syscall(427, 0, 0, empty, 1))
"""

BPF = """
    empty = ctypes.create_string_buffer(256)
    for command in (0, 5, 18):
        attempt(f"bpf {command}", lambda: syscall(321, command, empty, 120))
    attempt("perf", lambda: syscall(298, empty, 0, -1, -1, 0))
"""

FAMILIES = """
    KINDS = {"tipc": (30, 1, 0), "vsock": (40, 1, 0), "packet": (17, 3, 0x300), "can": (29, 3, 1), "bluetooth": (31, 3, 1),
             "nfc": (39, 5, 0), "rds": (21, 5, 0), "x25": (9, 5, 0), "ax25": (3, 5, 0), "llc": (26, 2, 0), "caif": (37, 1, 0),
             "smc": (43, 1, 0), "xdp": (44, 3, 0), "qrtr": (42, 2, 0), "phonet": (35, 2, 0), "rose": (11, 5, 0)}
    for name, (family, kind, protocol) in KINDS.items():
        attempt(name, lambda: syscall(41, family, kind, protocol))
"""

QUEUES = """
    fds = ctypes.create_string_buffer(8)
    attempt("watch key", lambda: syscall(250, 32, -3, 3, 0))
    attempt("keyring", lambda: syscall(250, 1, 0, 0, 0))
    attempt("userfaultfd", lambda: syscall(323, 1))
    attempt("fanotify", lambda: syscall(300, 0, 0))
"""

KERNEL = {
    "netfilter": (NETFILTER, {"ENOPROTOOPT", "EINVAL"}),
    "traffic control": (TRAFFIC, {"ENOTSUP", "EOPNOTSUPP"}),
    "io_uring": (RINGS, set()),
    "bpf": (BPF, set()),
    "rare sockets": (FAMILIES, set()),
    "watch queues and userfaultfd": (QUEUES, set()),
}


@pytest.mark.attack("CVE-2020-14386", "CVE-2021-3490", "CVE-2021-22555", "CVE-2021-41073", "CVE-2021-43267", "CVE-2022-0995",
                    "CVE-2022-2588", "CVE-2022-23222", "CVE-2022-25636", "CVE-2022-32250", "CVE-2023-1829", "CVE-2023-2163",
                    "CVE-2023-32233", "CVE-2024-0582", "CVE-2024-1086", "CVE-2025-21756", "CVE-2025-37798", "CVE-2025-38001",
                    "CVE-2026-31414")
@pytest.mark.parametrize("subsystem", KERNEL)
@pytest.mark.parametrize("user", ["root", "user"])
def test_kernel_subsystems_with_a_history_cannot_be_reached(attack, subsystem, user):
    """The first step of published kernel exploits in nf_tables, x_tables, traffic control, io_uring, bpf, rare socket
    families, watch queues and userfaultfd is refused to the jail's root and to its plain user."""
    source, also = KERNEL[subsystem]
    report = attack(source, user=user)
    assert report and all(v in DENIED | also for v in report.values()), report


# ---- builds ----


def test_cve_2024_21626_a_build_works_in_a_leaked_descriptor(builder, victim):
    """CVE-2024-21626 (Leaky Vessels): WORKDIR /proc/self/fd/N of a build lands in a directory of the host that the
    runtime left open; every step that starts there is in the jail."""
    script = f"for up in . ../../../../../..; do test -e $up{victim} && exit 9; done; echo x > ./w 2>/dev/null; true"
    for fd in (3, 5, 7, 8, 9):
        ids, status = builder.build([{"type": "WORKDIR", "args": [f"/proc/self/fd/{fd}"]}, run(script, "root"),
                                     run(f"test ! -e {victim}/file", "root")], name=f"leaky-{uuid.uuid4().hex[:8]}")
        assert status["status"] == "ready" or "status 9" not in str(status["reason"]), status
        builder.call("DELETE", f"/templates/{ids[0]}")


def test_cve_2024_23651_a_build_asks_for_mounts_and_rights(builder, victim):
    """CVE-2024-23651 and CVE-2024-23653: cache mounts with a path of their own and entitlements that a build grants
    itself reach the host; neither exists here, whatever the request says."""
    ids = builder.request(f"mounts-{uuid.uuid4().hex[:8]}")
    steps = [{"type": "RUN", "args": [f"--mount=type=bind,source={victim},target=/mnt cat /mnt/file"], "force": True}]
    extra = {"entitlements": ["security.insecure"], "privileged": True, "security": "insecure",
             "mounts": [{"source": str(victim), "target": "/mnt"}]}
    builder.start(ids, [{**step, **extra} for step in steps], **extra)
    status = builder.wait(ids)
    assert status["status"] == "error" and "untouched" not in str(builder.log(ids)), status
    ids, status = builder.build([{**run("grep -E 'Seccomp:|CapEff' /proc/self/status", "root"), **extra}],
                                name=f"rights-{uuid.uuid4().hex[:8]}", **extra)
    log = "\n".join(builder.log(ids))
    assert "Seccomp:\t2" in log, log
    assert int(log.split("CapEff:")[1].split()[0], 16) & FORBIDDEN == 0, log
    builder.call("DELETE", f"/templates/{ids[0]}")


def test_cve_2024_23652_what_a_build_leaves_is_cleaned_up_inside(builder, victim):
    """CVE-2024-23652: mount points that a build replaced by links to the host are removed by the builder as root of
    the host; what lies behind the links stays."""
    script = (f"for d in /tmp /mnt /srv /etc/resolv.conf /etc/hosts /etc/hostname /var/tmp; do"
              f" rm -rf $d 2>/dev/null; ln -sfn {victim}/dir $d; done; ln -sfn {victim}/file /etc/resolv.conf; true")
    ids, status = builder.build([run(script, "root"), run("true", "root")], name=f"stubs-{uuid.uuid4().hex[:8]}")
    assert status["status"] in ("ready", "error"), status
    if status["status"] == "ready":
        answer = builder.create(ids[0])
        assert answer.status_code != 500, answer.text
        if answer.status_code == 201:
            Sandbox.kill(answer.json()["sandboxID"])
    builder.call("DELETE", f"/templates/{ids[0]}")
    assert (victim / "dir").is_dir()


@pytest.mark.parametrize("name", ["../../../../etc/passwd", "..%2f..%2fdefault.key", "/etc/passwd", ".", "..", "a" * 63, "A" * 64, "\0" * 64])
def test_cve_2026_33747_uploads_are_named_by_hashes_alone(builder, name):
    """CVE-2026-33747 and CVE-2026-33748: a build's message names files outside the builder's own directory; anything
    but a hash is refused, in the address of an upload and in a COPY."""
    ids = builder.request(f"names-{uuid.uuid4().hex[:8]}")
    answer = builder.call("GET", f"/templates/{ids[0]}/files/{quote(name, safe='').replace('.', '%2e')}")
    assert answer.status_code in (400, 404), answer.text
    body = {"fromTemplate": "base", "steps": [{"type": "COPY", "args": ["a", "/b", "", ""], "filesHash": name}]}
    answer = builder.call("POST", f"/v2/templates/{ids[0]}/builds/{ids[1]}", json=body)
    if answer.status_code == 202:
        assert builder.wait(ids)["status"] == "error"
    else:
        assert answer.status_code == 400, answer.text
    builder.call("DELETE", f"/templates/{ids[0]}")


@pytest.mark.parametrize("kind", ["link", "fifo", "huge", "directory"])
def test_cve_2024_9676_users_of_a_template_are_read_in_the_jail(builder, victim, kind):
    """CVE-2024-9676 and CVE-2024-9341: a template's /etc/passwd that is a link to the host, a FIFO, a directory or
    endless is read by the runtime as root; here creates end with a sandbox or a sentence, and never hang."""
    (victim / "passwd").write_text("stolen:x:0:0::/:/bin/sh\n")
    make = {"link": f"ln -s {victim}/passwd /etc/passwd", "fifo": "mkfifo /etc/passwd", "directory": "mkdir /etc/passwd",
            "huge": "yes user:x:1000:1000::/home/user:/bin/bash | head -c 64M > /etc/passwd"}[kind]
    ids, status = builder.build([run(f"rm /etc/passwd && {make}", "root")], name=f"users-{uuid.uuid4().hex[:8]}")
    assert status["status"] in ("ready", "error"), status
    if status["status"] == "ready":
        answer = builder.create(ids[0])
        assert answer.status_code != 500, answer.text
        if answer.status_code == 201:
            sandbox = Sandbox.connect(answer.json()["sandboxID"])
            with pytest.raises(Exception) as caught:
                sandbox.commands.run("id", user="stolen", timeout=20)
            assert "timed out" not in str(caught.value).lower(), caught.value
            Sandbox.kill(sandbox.sandbox_id)
    builder.call("DELETE", f"/templates/{ids[0]}")


# ---- sockets and engines of the host ----


def test_cve_2020_15257_sockets_of_the_host(attack):
    """CVE-2020-15257: abstract sockets of a shim in the host's network namespace give its API to a container; the
    jail sees none of the host's, by connecting or in /proc/net/unix."""
    name = f"atoll-shim-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dgram:
        for one in (stream, dgram):
            one.bind(f"\0{name}-{one.type}")
        stream.listen()
        report = attack(f"""
            for kind in (1, 2, 5):
                s = socket.socket(socket.AF_UNIX, kind)
                attempt(f"abstract {{kind}}", lambda: s.connect("\\0{name}-" + str(kind)) or "connected")
            report["seen"] = "{name}" in open("/proc/net/unix").read()
            for path in ("/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/atoll/keeper.sock",
                         "/var/lib/atoll/run/keeper.sock"):
                s = socket.socket(socket.AF_UNIX)
                attempt(path, lambda: s.connect(path) or "connected")
        """)
    assert report.pop("seen") is False
    assert all(v in ("ECONNREFUSED", "ENOENT", "EACCES") for v in report.values()), report


def test_cve_2025_9074_an_engine_on_the_host(attack):
    """CVE-2025-9074: an engine's API that listens on the host or its private networks is asked from a container; no
    connection from a jail reaches a listener of the host."""
    own = [line.split()[3].partition("/")[0] for line in os.popen("ip -o addr")]
    reached = []
    with socket.create_server(("0.0.0.0", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        stop = threading.Event()

        def accept():
            while not stop.is_set():
                try:
                    reached.append(listener.accept())
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            report = attack(f"""
                hosts = ["192.168.65.7", "192.168.65.1", "192.168.65.254", "172.17.0.1", "10.0.2.2", "127.0.0.1", "0.0.0.0", "host.docker.internal",
                         "gateway.docker.internal", "localhost", "0177.0.0.1", "2130706433", *{own!r}]
                for host in hosts:
                    for port in ({port}, 2375):
                        def ask():
                            with socket.create_connection((host, port), timeout=5) as s:
                                s.sendall(b"GET /version HTTP/1.0\\r\\n\\r\\n")
                                return "answered" if s.recv(16) else "closed"
                        attempt(f"{{host}}:{{port}}", ask)
            """)
        finally:
            stop.set()
            thread.join()
    assert reached == [] and "answered" not in report.values(), report


class Chunked:
    """A body without a length, as often as it is sent."""

    def __init__(self, body):
        self.body = body

    def __iter__(self):
        yield self.body


def test_cve_2024_41110_a_body_does_not_hide_a_missing_key():
    """CVE-2024-41110 and CVE-2026-34040: a request without a body length, or with more body than the check reads, is
    let through to the engine; without a key every such create is refused, and makes nothing."""
    url, key = os.environ["E2B_API_URL"], os.environ["E2B_API_KEY"]

    def ids():
        return {row["sandboxID"] for row in httpx.get(f"{url}/v2/sandboxes", headers={"X-API-Key": key}).json()}

    before = ids()
    body = b'{"templateID":"base","timeout":60}'
    large = {"content": body + b" " * (2 << 20)}
    forms = [
        {"content": b"", "headers": {"Content-Length": "0"}},
        {"content": body},
        large,
        {"content": Chunked(body)},
        {"content": body, "headers": {"Content-Type": "text/plain", "X-HTTP-Method-Override": "POST"}},
        {"content": body, "headers": {"X-API-Key": ""}},
        {"content": body, "headers": {"X-API-Key": key[:-1]}},
        {"content": body, "headers": {"Authorization": "Bearer"}},
    ]
    for form in forms:
        for path in ("/sandboxes", "/v2/sandboxes", "//sandboxes", "/sandboxes/", "/v2/../sandboxes", "/%73andboxes"):
            try:
                answer = httpx.post(url + path, timeout=60, **form)
            except httpx.TransportError:
                assert form is large, (path, form)  # cut off in the middle of a body that nobody wants
                continue
            assert answer.status_code in (401, 404, 413), (path, answer.status_code, answer.text[:200])
    assert ids() == before


@pytest.mark.attack("CVE-2022-31030")
def test_cve_2022_1708_output_does_not_grow_the_daemon():
    """CVE-2022-1708: endless output of a command that nobody reads fills the runtime's memory; the server's stays
    where it was, for streams without a reader and for tools that gather."""
    before = server_peak_kb()
    with Sandbox.create(timeout=120) as sandbox:
        sandbox.commands.run("yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -c 400M > /dev/stdout & sleep 4", background=True)
        headers = {"X-API-Key": os.environ["E2B_API_KEY"]}
        answer = httpx.post(f"{os.environ['E2B_API_URL']}/tools/run_code", headers=headers, timeout=120, json={
            "code": "import sys\nfor _ in range(300): sys.stdout.write('y\\n' * (1 << 19))"})
        assert answer.status_code == 200 and answer.json()["truncated"], answer.text[:300]
        assert len(answer.content) < 32 << 20
        time.sleep(3)
    assert server_peak_kb() - before < 256 * 1024
