"""The agent can be looked into while its jail is saved: by the jail's root, who owns it, and by nobody else."""
import json
import os
import textwrap
import time

import httpx
import pytest
from conftest import PRELUDE
from e2b import NotFoundException, Sandbox

# Tries to trace pid 1, to read its memory and to open its files, over and over, until told to end.
TRY = PRELUDE + textwrap.dedent("""
    import time
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    room = ctypes.create_string_buffer(16)
    here, there = Vector(ctypes.cast(room, ctypes.c_void_p), 16), Vector(0x400000, 16)
    report = {"tries": 0, "seize": 0, "peek": 0, "mem": 0, "fd": 0}
    def opens(path, flags):
        try:
            os.close(os.open(path, flags))
            return True
        except OSError:
            return False
    def lists(path):
        try:
            return bool(os.listdir(path))
        except OSError:
            return False
    end = time.monotonic() + 60
    while not os.path.exists("/tmp/enough") and time.monotonic() < end:
        report["tries"] += 1
        report["peek"] += syscall(310, 1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) > 0
        report["mem"] += opens("/proc/1/mem", os.O_RDWR)
        report["fd"] += lists("/proc/1/fd")
        if syscall(101, 0x4206, 1, 0, 0) == 0:  # PTRACE_SEIZE
            report["seize"] += 1
            break
    with open("/tmp/report.new", "w") as f:
        json.dump(report, f)
    os.rename("/tmp/report.new", "/tmp/report")
    while report["seize"] and not os.path.exists("/tmp/enough") and time.monotonic() < end:
        time.sleep(0.05)
""")


@pytest.fixture
def box():
    box = Sandbox.create(timeout=300)
    yield box
    box.kill()


def snapshot(box):
    return httpx.post(f"{os.environ['E2B_API_URL']}/sandboxes/{box.sandbox_id}/snapshots", json={},
                      headers={"X-API-Key": os.environ["E2B_API_KEY"]}, timeout=60)


def begin(box, user):
    box.files.write("/tmp/try.py", TRY, user="root")
    box.commands.run("exec python3 /tmp/try.py", user=user, background=True, timeout=0)


def report_of(box):
    deadline = time.monotonic() + 60
    while True:
        try:
            return json.loads(box.files.read("/tmp/report", user="root"))
        except NotFoundException:
            assert time.monotonic() < deadline, "no report"
            time.sleep(0.1)


def test_the_plain_user_never_sees_into_the_agent(box):
    begin(box, "user")
    for _ in range(4):
        assert snapshot(box).status_code == 201
    box.commands.run("touch /tmp/enough", user="root")
    report = report_of(box)
    assert report.pop("tries") > 100
    assert report == {"seize": 0, "peek": 0, "mem": 0, "fd": 0}


def test_a_root_that_holds_the_agent_hurts_its_own_sandbox_alone(box):
    neighbour = Sandbox.create(timeout=120)
    try:
        begin(box, "root")
        answers = [snapshot(box).status_code for _ in range(4)]
        # Saved before it was held, or refused because it is: never an error of the server's.
        assert set(answers) <= {201, 409, 422}, answers
        assert neighbour.commands.run("echo well").stdout == "well\n"
        assert snapshot(neighbour).status_code == 201
    finally:
        neighbour.kill()
