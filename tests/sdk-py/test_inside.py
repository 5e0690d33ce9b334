"""What programs in a sandbox find out about their machine is the sandbox's own size, not the host's."""

import json
import time
import uuid

import pytest
from e2b import CommandExitException, Sandbox, Template

CPUS = 1  # fewer than any host has that is worth a test
MEMORY_MB = 512
TIMEOUT_S = 300
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
