"""Builds that run into a limit: of time, or of the pool. Each ends in `error` with
a reason that names the step, leaves nothing, and the next build goes through."""

import os
import uuid

import pytest
from builder import Builder, run
from daemon import running, until

STEP_S, READY_S = 3, 4
POOL = "2G"


@pytest.fixture(scope="module")
def daemon():
    with running("--build-step-s", str(STEP_S), "--build-ready-s", str(READY_S), "--pool-size", POOL) as daemon:
        yield daemon


@pytest.fixture
def builder(daemon):
    yield Builder(daemon)
    until(lambda: daemon.jails() == {} and not daemon.sandbox_dirs(), "the build's jail is gone")


def kept(daemon):
    return {path.name for path in (daemon.data / "pool" / "saved").iterdir()}


def failed(builder, steps=(), **body):
    """The reason of a build that ends in error; its template is not there."""
    name = f"limited-{uuid.uuid4().hex[:8]}"
    ids, status = builder.build(steps, name=name, **body)
    assert status["status"] == "error", builder.log(ids)
    assert builder.create(name).status_code == 404
    return status["reason"]


def test_a_ready_command_that_never_succeeds_is_named(builder):
    reason = failed(builder, startCmd="sleep 600", readyCmd="test -e /nowhere")
    assert reason["step"] == "finalize"
    assert "'test -e /nowhere'" in reason["message"] and f"{READY_S} s" in reason["message"]


def test_a_ready_command_that_hangs_is_named(builder):
    reason = failed(builder, readyCmd="sleep 600")
    assert reason["step"] == "finalize" and "'sleep 600'" in reason["message"]


def test_a_start_command_that_exits_while_it_is_waited_for_is_named(builder):
    reason = failed(builder, startCmd="sleep 1; echo gave up >&2; exit 5", readyCmd="false")
    assert reason["step"] == "finalize"
    assert "the start command" in reason["message"] and "exit status 5" in reason["message"]


def test_a_step_that_does_not_end_is_named(builder):
    reason = failed(builder, [run("true"), run("sleep 600")])
    assert reason["step"] == "2"
    assert f"'sleep 600': it ran for longer than {STEP_S} s" in reason["message"]


@pytest.fixture
def ballast(daemon):
    """Fills the pool but for some megabytes, as others' sandboxes would."""
    path = daemon.data / "pool" / "ballast"
    room = os.statvfs(path.parent)
    with open(path, "wb") as file:
        left = room.f_bavail * room.f_frsize - (200 << 20)
        while left > 0:
            left -= file.write(os.urandom(min(left, 8 << 20)))
        os.fsync(file.fileno())
    yield
    path.unlink()
    os.sync()


def test_a_pool_that_fills_in_the_middle_is_named(daemon, builder, ballast):
    before = kept(daemon)
    reason = failed(builder, [run("true"), run("head -c 1G /dev/urandom > /var/tmp/big && sync /var/tmp/big", "root")])
    assert reason["step"] == "2"
    assert len(kept(daemon) - before) <= 1  # what the first step made may stay, for the next build


def test_after_all_that_a_build_goes_through(builder):
    _, status = builder.build([run(f"echo {uuid.uuid4()} > /var/tmp/after")], name="after", readyCmd="true")
    assert status["status"] == "ready"
