"""The jail's view of files: proc, sys, dev, devices, handles, chroot."""
import pathlib

MASKED_FILES = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/sysrq-trigger",
                "/proc/cmdline", "/proc/diskstats", "/proc/interrupts", "/proc/partitions", "/proc/swaps"]
MASKED_DIRECTORIES = ["/proc/acpi", "/proc/asound", "/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/scsi"]


def test_masked_files_of_proc_are_empty(attack):
    """Kernel memory, keys and timers of the host, read through /proc (kcore, keys, timer_list), are not readable."""
    report = attack(f"""
        for path in {MASKED_FILES!r}:
            if os.path.exists(path):
                attempt(path, lambda: len(open(path, "rb").read(64)))
    """)
    assert {path for path in MASKED_FILES if pathlib.Path(path).exists()} == report.keys(), "each was tried"
    assert all(v == 0 or v in ("EACCES", "EPERM", "EIO") for v in report.values()), report


def test_masked_directories_of_proc_are_empty(attack):
    report = attack(f"""
        for path in {MASKED_DIRECTORIES!r}:
            if os.path.exists(path):
                attempt(path, lambda: len(os.listdir(path)))
    """)
    assert report and set(report.values()) == {0}, report


def test_proc_does_not_tell_how_the_host_was_booted_or_what_disks_it_has(sandbox):
    """Every file of /proc that belongs to no process, searched for words of the host."""
    disks = [entry.name for entry in pathlib.Path("/sys/block").iterdir() if not entry.name.startswith(("loop", "ram"))]
    words = [word for word in pathlib.Path("/proc/cmdline").read_text().split() if len(word) > 8] + disks
    assert disks and words
    sandbox.files.write("/tmp/words", "\n".join(words), user="root")
    find = ("find /proc -maxdepth 4 -regex '/proc/[0-9].*' -prune -o -path '/proc/*self' -prune -o -type f -readable "
            "-not -path '/proc/kmsg' -not -path '/proc/sys/*' -print0")
    search = f"{find} | xargs -0 timeout 20 grep -lwFf /tmp/words 2>/dev/null || true"
    assert sandbox.commands.run(search, user="root").stdout == ""
    sandbox.files.write("/tmp/words", "MemTotal", user="root")
    assert sandbox.commands.run(search, user="root").stdout == "/proc/meminfo\n", "the search finds what is there"


def test_kernel_knobs_cannot_be_turned(attack):
    """CVE-2025-52881 and older: a write to core_pattern, modprobe, sysrq or binfmt_misc, which is root on the
    host, is refused."""
    knobs = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
             "/proc/sys/vm/panic_on_oom", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/hostname",
             "/proc/sys/kernel/random/boot_id", "/proc/irq/default_smp_affinity", "/proc/1/oom_score_adj"]
    before = {k: pathlib.Path(k).read_text() for k in knobs[:2] + knobs[3:4] if pathlib.Path(k).exists()}
    report = attack(f"""
        def write(path):
            with open(path, "wb", buffering=0) as f:
                return f.write(b"0")
        for path in {knobs[:-1]!r}:
            attempt(path, lambda: write(path))
        attempt("lower oom score", lambda: os.write(os.open("/proc/1/oom_score_adj", os.O_WRONLY), b"-1000"))
    """)
    failed = {"EACCES", "EPERM", "EROFS", "ENOENT", "EIO", "EINVAL"}
    assert len(report) == len(knobs) and {k: v for k, v in report.items() if v not in failed} == {}
    for path, text in before.items():
        assert pathlib.Path(path).read_text() == text


def test_sys_shows_nothing_of_the_machine(sandbox):
    """The host's hardware and firmware, looked for below /sys, do not show."""
    done = sandbox.commands.run("ls /sys/class /sys/block /sys/firmware /sys/kernel 2>/dev/null | wc -l", user="root")
    assert done.stdout.strip() == "0"


def test_devices_cannot_be_made(attack):
    """A device node of the host's disk or memory, made with mknod, is refused."""
    report = attack("""
        attempt("block", lambda: os.mknod("/tmp/disk", 0o060600, os.makedev(254, 0)) or 0)
        attempt("char", lambda: os.mknod("/tmp/mem", 0o020600, os.makedev(1, 1)) or 0)
        attempt("listed", lambda: sorted(os.listdir("/dev")))
    """)
    assert report["block"] == "EPERM" and report["char"] == "EPERM"
    assert set(report["listed"]) <= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm",
                                     "mqueue", "fd", "stdin", "stdout", "stderr", "console", "core"}


def test_handles_do_not_open_files_of_the_host(attack):
    """The "shocker" of 2014: a file of the host, opened by a guessed handle (open_by_handle_at), is refused."""
    report = attack("""
        handle = struct.pack("IiII", 8, 1, 2, 0)
        root = os.open("/", os.O_RDONLY)
        attempt("handle", lambda: syscall(304, root, ctypes.create_string_buffer(handle), 0))
    """)
    assert report["handle"] in ("EPERM", "ENOSYS")


def test_chroot_leads_nowhere_new(attack):
    """The classic way out of a chroot, by a descriptor held above it, ends at the jail's own root."""
    report = attack("""
        before = os.stat("/").st_ino
        os.makedirs("/tmp/cell", exist_ok=True)
        up = os.open("/", os.O_RDONLY)
        os.chroot("/tmp/cell")
        os.fchdir(up)
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        report["same"] = os.stat("/").st_ino == before
        report["seen"] = sorted(os.listdir("/"))
    """)
    assert report["same"] is True
    assert "home" in report["seen"] and "lost+found" not in report["seen"]


def test_no_mount_of_the_host_shows(sandbox, data_dir):
    """Mounts of the host, looked for in mountinfo, are not in the jail."""
    mounts = sandbox.commands.run("cat /proc/self/mountinfo", user="root").stdout
    kinds = {line.split(" - ")[1].split()[0] for line in mounts.splitlines()}
    assert kinds <= {"overlay", "proc", "tmpfs", "devpts", "mqueue", "devtmpfs"}, kinds
    points = {line.split()[4] for line in mounts.splitlines()}
    assert not [p for p in points if p.startswith(str(data_dir))]


def test_a_cgroup_cannot_be_mounted_for_its_release_agent(attack):
    """CVE-2022-0492: a control group hierarchy, mounted to set its release_agent, is refused."""
    report = attack("""
        os.makedirs("/tmp/cg", exist_ok=True)
        attempt("v1", lambda: syscall(165, b"none", b"/tmp/cg", b"cgroup", 0, b"rdma"))
        attempt("v2", lambda: syscall(165, b"none", b"/tmp/cg", b"cgroup2", 0, 0))
    """)
    assert set(report.values()) <= {"EPERM", "ENOSYS", "EACCES"}


def test_the_shared_layer_stays_as_it_was(sandbox, base_layer):
    """Files of the template that many sandboxes share stay as they were when one sandbox writes over or removes
    them."""
    before = (base_layer / "etc" / "passwd").read_bytes()
    sandbox.commands.run("echo evil::0:0::/:/bin/sh >> /etc/passwd; rm -rf /usr/share/zoneinfo", user="root")
    assert (base_layer / "etc" / "passwd").read_bytes() == before
    assert (base_layer / "usr" / "share" / "zoneinfo").is_dir()


def test_setuid_files_of_a_jail_mean_nothing_outside(sandbox, data_dir):
    """A set-uid root shell that a jail leaves on its disk lies on a nosuid, nodev mount of the host."""
    sandbox.commands.run("cp /bin/bash /home/user/rootsh && chmod 4755 /home/user/rootsh", user="root")
    found = list((data_dir / "pool" / "sandboxes" / sandbox.sandbox_id).rglob("rootsh"))
    assert found
    target = str(data_dir / "pool")
    options = [line.split()[3] for line in open("/proc/mounts") if line.split()[1] == target]
    assert options and {"nosuid", "nodev"} <= set(options[0].split(","))
    assert (data_dir / "pool").stat().st_mode & 0o077 == 0
