"""The kernel locks a file while a call writes to it, also while the bytes are read from disk first and while the
thread waits for its turn on a processor. Root of a jail can hold such a lock for minutes: nothing that serves others
may wait for it."""
import time

from e2b import Sandbox

HOLD = """
import mmap, os, sys, tempfile, time
SIZE = 8 << 20
for _ in range(16):
    if os.fork() == 0:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass
        os._exit(0)
with tempfile.TemporaryFile(dir="/home/user") as file:
    file.write(b"x" * SIZE)
    file.flush()
    os.fsync(file.fileno())
    pages = mmap.mmap(file.fileno(), SIZE, mmap.MAP_SHARED, mmap.PROT_READ)
    pages.madvise(mmap.MADV_RANDOM)
    targets = [os.open("/run/atoll/" + name, os.O_WRONLY) for name in ("meminfo", "stat")]
    for target in targets[:-1]:
        if os.fork() == 0:
            break
        targets = targets[1:]
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print("held", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pages.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            os.pwrite(targets[0], pages, 0)
        except OSError:
            pass
"""
HELD_S = 20
SERVED_S = 15


def test_files_that_show_a_jail_its_size_hold_up_nobody():
    """Root of a jail holds the kernel's lock of /run/atoll/meminfo and stat, which the daemon keeps true: others create
    and pause sandboxes and run commands meanwhile."""
    attacker = Sandbox.create(timeout=120)
    try:
        attacker.files.write("/tmp/hold.py", HOLD, user="root")
        command = attacker.commands.run("python3 /tmp/hold.py", user="root", background=True, timeout=90)
        for stdout, _, _ in command:
            if stdout and "held" in stdout:
                break
        end = time.monotonic() + HELD_S
        while time.monotonic() < end:
            with Sandbox.create(timeout=60, request_timeout=SERVED_S) as other:
                assert other.commands.run("echo fine", request_timeout=SERVED_S, timeout=SERVED_S).stdout == "fine\n"
                other.pause(request_timeout=SERVED_S)  # the keeper does it, whatever lies ready
    finally:
        assert attacker.kill(request_timeout=60)
