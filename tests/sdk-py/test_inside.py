"""What programs in a sandbox find out about their machine is the sandbox's own size, not the host's."""

import json
import os
import re
import subprocess
import time
import uuid

import pytest
from e2b import CommandExitException, Sandbox, Template

CPUS = 1  # fewer than any host has that is worth a test
MEMORY_MB = 512
TIMEOUT_S = 300
DISK_FRESH_S = 90  # btrfs counts when it commits, each 30 s
FRESH_S = 20  # how long a busy machine may take to show what has changed; a quiet one needs one second

MEASURE = """
import json, os, shutil
meminfo = {k: int(v.split()[0]) for k, v in (l.split(":") for l in open("/proc/meminfo"))}
print(json.dumps({
    "memory_kb": meminfo["MemTotal"],
    "available_kb": meminfo["MemAvailable"],
    "free_kb": meminfo["MemFree"],
    "swap_kb": meminfo["SwapTotal"],
    "cpu_count": os.cpu_count(),
    "affinity": len(os.sched_getaffinity(0)),
    "processors": sum(l.startswith("processor") for l in open("/proc/cpuinfo")),
    "stat_cpus": sum(l.startswith("cpu") for l in open("/proc/stat")) - 1,
}))
"""

# What comes from system calls.
MEASURE_CALLS = """
import json, os, shutil
fd = os.open("/home/user", os.O_RDONLY)
print(json.dumps({
    "disk": [shutil.disk_usage("/").total, shutil.disk_usage("/home/user").total, os.fstatvfs(fd).f_blocks * os.fstatvfs(fd).f_frsize],
    "disk_free": shutil.disk_usage("/").free,
    "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    "memory_free": os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
}))
"""


def measured(sandbox):
    sandbox.files.write("/tmp/measure.py", MEASURE)
    return json.loads(sandbox.commands.run("python3 /tmp/measure.py").stdout)


def assert_own_size(sandbox):
    found = measured(sandbox)
    assert found["memory_kb"] == MEMORY_MB * 1024
    assert found["swap_kb"] == 0
    assert 0 < found["free_kb"] <= found["available_kb"] <= found["memory_kb"]
    for name in ("cpu_count", "affinity", "processors", "stat_cpus"):
        assert found[name] == CPUS, name


def doctor_on_figures():
    program = os.environ["ATOLL_BUILD"] + "/atoll"
    said = subprocess.run([program, "doctor"], capture_output=True, text=True, timeout=120).stdout
    return re.search(r"^(\w+) +figures +(.*)$", said, re.M).groups()


@pytest.fixture(scope="module")
def told():
    """Whether system calls tell a sandbox its own size here. Where the kernel does not allow that, doctor says
    so, with the reason, and then the host's figures are expected."""
    verdict, sentence = doctor_on_figures()
    if verdict == "ok":
        assert sentence == "df and sysinfo() in a sandbox tell its own limits"
    else:
        assert verdict == "degraded"
        assert re.match(r"df and sysinfo\(\) in a sandbox tell the host's figures, and its limits hold: the kernel \w+", sentence)
    return verdict == "ok"


def expected(told, info):
    """Bytes of disk and of memory."""
    if told:
        return info["diskSizeMB"] << 20, info["memoryMB"] << 20
    pool = os.statvfs(os.environ["ATOLL_DATA"] + "/pool")
    return pool.f_blocks * pool.f_frsize, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def assert_told(sandbox, api, told):
    disk, memory = expected(told, api.get(f"/sandboxes/{sandbox.sandbox_id}").json())
    sandbox.files.write("/tmp/calls.py", MEASURE_CALLS)
    found = json.loads(sandbox.commands.run("python3 /tmp/calls.py").stdout)
    assert found["disk"] == [disk] * 3
    assert found["memory"] == memory
    assert 0 < found["disk_free"] <= disk
    assert 0 < found["memory_free"] <= memory
    shown = sandbox.commands.run("df -B1 --output=size / | tail -n 1").stdout
    assert int(shown) == disk


@pytest.fixture(scope="module")
def small():
    """A template of one processor and little memory, which wrote down what its build was shown."""
    name = f"small-{uuid.uuid4().hex[:12]}"
    template = (
        Template()
        .from_template("base")
        .run_cmd("(nproc; awk '/MemTotal/ {print $2}' /proc/meminfo) > /home/user/build")
    )
    Template.build(template, name, cpu_count=CPUS, memory_mb=MEMORY_MB)
    return name


@pytest.fixture
def sandbox(small):
    with Sandbox.create(small, timeout=TIMEOUT_S) as sandbox:
        yield sandbox


def test_a_fresh_sandbox_is_shown_its_own_size(sandbox):
    assert_own_size(sandbox)
    info = sandbox.get_info()
    assert (info.cpu_count, info.memory_mb) == (CPUS, MEMORY_MB)


def test_a_build_is_shown_the_size_of_its_template(sandbox):
    assert sandbox.files.read("/home/user/build").split() == [str(CPUS), str(MEMORY_MB * 1024)]


def test_free_and_nproc_tell_it(sandbox):
    total = sandbox.commands.run("free -b").stdout.splitlines()[1].split()[1]
    assert int(total) == MEMORY_MB << 20
    assert sandbox.commands.run("nproc; nproc --all; getconf _NPROCESSORS_ONLN").stdout.split()[::2] == ["1", "1"]


def test_node_is_told_it(sandbox):
    script = "const os = require('os'); console.log(os.cpus().length, os.totalmem(), os.availableParallelism())"
    found = sandbox.commands.run(f'node -e "{script}"').stdout
    assert found == f"{CPUS} {MEMORY_MB << 20} {CPUS}\n"


def test_memory_that_is_taken_shows(sandbox):
    before_kb = measured(sandbox)["available_kb"]
    script = "import time; held = bytearray(b'x') * (200 << 20); print('held', flush=True); time.sleep(60)"
    sandbox.commands.run(f'python3 -c "{script}"', background=True)
    deadline = time.monotonic() + FRESH_S
    while measured(sandbox)["available_kb"] > before_kb - 190 * 1024:
        assert time.monotonic() < deadline, "200 MB were taken and do not show"
        time.sleep(0.2)


def test_time_that_is_used_shows(sandbox):
    read = "awk '/^cpu / {print $2}' /proc/stat"
    before = int(sandbox.commands.run(read).stdout)
    assert before < 60 * 100, "no new sandbox has used a minute: this is the host's time"
    sandbox.commands.run("timeout 2 sh -c 'while :; do :; done' || true")
    deadline = time.monotonic() + FRESH_S
    while int(sandbox.commands.run(read).stdout) <= before:
        assert time.monotonic() < deadline, "two seconds were used and do not show"
        time.sleep(0.2)


def test_a_paused_sandbox_and_a_fork_are_shown_it_too(sandbox):
    # `top` and its like keep the file open.
    sandbox.commands.run("sleep 1000 < /proc/meminfo 3< /proc/stat", background=True)
    sandbox.pause()
    resumed = Sandbox.connect(sandbox.sandbox_id, timeout=TIMEOUT_S)
    assert_own_size(resumed)
    assert resumed.commands.run("readlink /proc/$(pgrep -x sleep)/fd/0").stdout == "/proc/meminfo\n"
    for fork in resumed.fork(count=2, timeout=TIMEOUT_S):
        with fork as copy:
            assert_own_size(copy)


@pytest.mark.parametrize("path", ["/proc/meminfo", "/proc/stat", "/proc/cpuinfo", "/sys/devices/system/cpu/online"])
def test_the_covers_cannot_be_lifted(sandbox, path):
    for command in (f"echo x > {path}", f"umount {path}", f"mount -o remount,rw {path}", f"rm {path}", f"mv /tmp {path}"):
        with pytest.raises(CommandExitException):
            sandbox.commands.run(command, user="root")
    assert_own_size(sandbox)


@pytest.mark.parametrize(
    "trick",
    [
        "ln -sf /etc/shadow /run/atoll/meminfo",
        "rm /run/atoll/meminfo; mkfifo /run/atoll/meminfo",
        "rm /run/atoll/meminfo; mkdir /run/atoll/meminfo",
        "truncate -s 1T /run/atoll/meminfo",
        "mv /run/atoll /run/elsewhere; ln -s /etc /run/atoll",
        "chattr +i /run/atoll/meminfo",
    ],
)
def test_who_spoils_them_harms_himself_alone(sandbox, small, trick):
    sandbox.commands.run(f"({trick}) 2>&1 || true", user="root")
    before = sandbox.commands.run("sha256sum /etc/shadow", user="root").stdout
    sandbox.commands.run("timeout 3 sh -c 'while :; do :; done' || true")  # the keeper writes meanwhile
    assert sandbox.commands.run("sha256sum /etc/shadow", user="root").stdout == before
    with Sandbox.create(small, timeout=TIMEOUT_S) as other:
        assert_own_size(other)


def test_system_calls_tell_its_own_disk_and_memory(sandbox, api, told):
    assert_told(sandbox, api, told)


def test_system_calls_tell_it_after_a_pause_and_in_a_fork_too(sandbox, api, told):
    sandbox.pause()
    resumed = Sandbox.connect(sandbox.sandbox_id, timeout=TIMEOUT_S)
    assert_told(resumed, api, told)
    [fork] = resumed.fork(count=1, timeout=TIMEOUT_S)
    with fork as copy:
        assert_told(copy, api, told)


def test_disk_that_is_written_shows(sandbox):
    read = "df -B1 --output=avail / | tail -n 1"
    before = int(sandbox.commands.run(read).stdout)
    sandbox.commands.run("head -c 100M /dev/urandom > /home/user/big; sync -f /home/user")
    deadline = time.monotonic() + DISK_FRESH_S
    while int(sandbox.commands.run(read).stdout) > before - (90 << 20):
        assert time.monotonic() < deadline, "100 MB were written and do not show"
        time.sleep(0.5)


def test_psutil_is_told_them(interpreter, api, told):
    info = api.get(f"/sandboxes/{interpreter.sandbox_id}").json()
    disk, memory = expected(told, info)
    code = "import psutil; print(psutil.disk_usage('/').total, psutil.virtual_memory().total, psutil.swap_memory().total)"
    found = [int(word) for word in "".join(interpreter.run_code(code).logs.stdout).split()]
    assert found == [disk, info["memoryMB"] << 20, 0]  # memory is from /proc/meminfo
    code = "import os; print(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))"
    assert int("".join(interpreter.run_code(code).logs.stdout)) == memory
