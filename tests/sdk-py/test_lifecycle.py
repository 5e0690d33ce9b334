"""A sandbox from create to kill: what it says of itself, connect, timeouts, the end."""

import time
from datetime import datetime, timedelta, timezone

import pytest
from e2b import NotFoundException, Sandbox, SandboxException, SandboxNotFoundException, SandboxState

END_S = 30  # how long a test waits for an end that is due


def wait_until_gone(sandbox):
    deadline = time.monotonic() + END_S
    while sandbox.is_running():
        assert time.monotonic() < deadline, "the sandbox outlived its timeout"
        time.sleep(0.1)


def test_what_info_says(new_sandbox):
    before = datetime.now(timezone.utc)
    sandbox = new_sandbox(timeout=120, metadata={"purpose": "info", "\u6d77": "\U0001f41f"})
    after = datetime.now(timezone.utc)

    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id
    assert info.name == "base"
    assert info.state == SandboxState.RUNNING
    assert info.metadata == {"purpose": "info", "\u6d77": "\U0001f41f"}
    assert before - timedelta(seconds=1) <= info.started_at <= after
    assert before + timedelta(seconds=119) <= info.end_at <= after + timedelta(seconds=120)
    assert info.cpu_count > 0 and info.memory_mb > 0
    assert info.lifecycle == {"on_timeout": "kill", "auto_resume": False}


def test_the_machine_is_as_large_as_info_says(sandbox):
    info = sandbox.get_info()
    assert 0 < int(sandbox.commands.run("nproc").stdout) <= info.cpu_count
    total_kb = int(sandbox.commands.run("awk '/MemTotal/ {print $2}' /proc/meminfo").stdout)
    assert total_kb == info.memory_mb * 1024


def test_the_id_has_the_documented_form(sandbox):
    assert sandbox.sandbox_id[0] == "i"
    assert len(sandbox.sandbox_id) == 21 and sandbox.sandbox_id.isalnum()
    assert sandbox.sandbox_id == sandbox.sandbox_id.lower()


def test_sandboxes_share_nothing(new_sandbox):
    first, second = new_sandbox(), new_sandbox()
    first.files.write("/tmp/mine", "first")
    assert not second.files.exists("/tmp/mine")
    hosts = {
        box.commands.run("cat /proc/sys/kernel/random/boot_id").stdout for box in (first, second)
    }
    assert len(hosts) == 2
    first.commands.run("sleep 1000", background=True)
    assert "sleep 1000" not in second.commands.run("ps axo args").stdout.replace("ps axo args", "")


def test_kill_is_true_once(new_sandbox):
    sandbox = new_sandbox()
    assert sandbox.is_running() is True
    assert sandbox.kill() is True
    assert sandbox.is_running() is False
    assert sandbox.kill() is False
    assert Sandbox.kill(sandbox.sandbox_id) is False


def test_a_killed_sandbox_is_not_found(new_sandbox):
    sandbox = new_sandbox()
    sandbox.kill()
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    with pytest.raises(NotFoundException):
        sandbox.set_timeout(60)
    with pytest.raises(NotFoundException):
        Sandbox.connect(sandbox.sandbox_id)
    with pytest.raises(SandboxException, match="killed or reached its timeout"):
        sandbox.commands.run("true")
    with pytest.raises(SandboxException, match="killed or reached its timeout"):
        sandbox.files.read("/etc/hostname")


def test_an_id_that_never_was():
    nobody = "i" + "0" * 20
    assert Sandbox.kill(nobody) is False
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_info(nobody)


def test_connect_reaches_the_same_sandbox(new_sandbox):
    sandbox = new_sandbox()
    sandbox.files.write("note", "left here")
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.sandbox_id == sandbox.sandbox_id
    assert again.files.read("note") == "left here"


def test_connect_extends_and_never_shortens(new_sandbox):
    sandbox = new_sandbox(timeout=100)
    first_end = sandbox.get_info().end_at
    Sandbox.connect(sandbox.sandbox_id, timeout=10)
    assert sandbox.get_info().end_at == first_end
    Sandbox.connect(sandbox.sandbox_id, timeout=200)
    assert sandbox.get_info().end_at > first_end + timedelta(seconds=90)


def test_set_timeout_moves_the_end_both_ways(new_sandbox):
    sandbox = new_sandbox(timeout=100)
    for seconds in (500, 50):
        before = datetime.now(timezone.utc)
        sandbox.set_timeout(seconds)
        end = sandbox.get_info().end_at
        after = datetime.now(timezone.utc)
        span = timedelta(seconds=seconds)
        assert before + span - timedelta(seconds=1) <= end <= after + span


def test_a_timeout_ends_the_sandbox(new_sandbox):
    sandbox = new_sandbox(timeout=2)
    assert sandbox.is_running()
    wait_until_gone(sandbox)
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()


def test_a_shortened_timeout_ends_the_sandbox(new_sandbox):
    sandbox = new_sandbox(timeout=300)
    sandbox.set_timeout(1)
    wait_until_gone(sandbox)


def test_a_timeout_of_zero_ends_the_sandbox_now(new_sandbox):
    sandbox = new_sandbox(timeout=300)
    sandbox.set_timeout(0)
    wait_until_gone(sandbox)


def test_an_extended_sandbox_outlives_its_first_timeout(new_sandbox):
    sandbox = new_sandbox(timeout=3)
    end = sandbox.get_info().end_at
    sandbox.set_timeout(300)
    while datetime.now(timezone.utc) < end + timedelta(seconds=1):
        time.sleep(0.2)
    assert sandbox.is_running()


def test_an_unknown_template():
    with pytest.raises(SandboxException, match="no-such-template"):
        Sandbox.create(template="no-such-template")


def test_a_timeout_that_is_too_long():
    with pytest.raises(SandboxException, match="(?i)timeout"):
        Sandbox.create(timeout=10**7)


def test_a_wrong_key():
    with pytest.raises(Exception, match="(?i)api key|401|unauthorized"):
        Sandbox.create(api_key="e2b_" + "0" * 40)


def test_the_hostname_of_a_port(sandbox):
    assert sandbox.get_host(8080).startswith(f"8080-{sandbox.sandbox_id}.")


def test_a_negative_timeout(sandbox):
    with pytest.raises(SandboxException):
        sandbox.set_timeout(-1)
    assert sandbox.is_running()
