"""Everyday jobs with the command line: what people tried first, and expected."""

import json
import subprocess
from datetime import datetime, timezone

import pytest
from cli import api, atoll, environment, make  # noqa: F401 (fixtures)
from daemon import PROGRAM, until
from e2b import Sandbox
from terminal import shown

NO_INPUT = {"stdin": subprocess.DEVNULL}


def seconds_left(api, sandbox_id):
    end = datetime.fromisoformat(api.get(f"/sandboxes/{sandbox_id}").json()["endAt"].replace("Z", "+00:00"))
    return (end - datetime.now(timezone.utc)).total_seconds()


# ---- a paused sandbox ----


def test_exec_tells_that_it_resumes_and_for_how_long(atoll, api, make):
    sandbox_id = make()
    atoll("pause", sandbox_id)
    done = atoll("exec", sandbox_id, "echo", "out", **NO_INPUT)
    told = f"Resumed sandbox {sandbox_id}, which was paused; it has 5m until its timeout.\n"
    assert (done.stdout, done.stderr) == ("out\n", told)
    assert atoll("exec", sandbox_id, "true", **NO_INPUT).stderr == "", "it runs already"
    atoll("pause", sandbox_id)
    assert atoll("exec", "-q", "--timeout", "2h", sandbox_id, "true", **NO_INPUT).stderr == ""
    assert 3600 < seconds_left(api, sandbox_id) <= 7200
    atoll("pause", sandbox_id)
    copied = atoll("cp", f"{sandbox_id}:/etc/hostname", "-")
    assert (copied.stdout, copied.stderr.splitlines()[0]) == (f"{sandbox_id}\n", told.strip())
    atoll("pause", sandbox_id)
    assert atoll("cp", "-q", f"{sandbox_id}:/etc/hostname", "-").stderr == ""
    assert "--timeout takes a time" in atoll("exec", "--timeout", "soon", sandbox_id, "true", code=2, **NO_INPUT).stderr


def test_the_age_counts_from_the_creation(atoll, make):
    """A resume makes no sandbox younger: the order of `top`, newest first, is that of the creations."""
    first = make()
    second = make()
    atoll("pause", first)
    atoll("resume", first)
    rows = [line.split("\t")[0] for line in atoll("top", "--once", "--sort", "age").stdout.splitlines()]
    assert rows == [second, first]
    started = json.loads(atoll("inspect", first, "--json").stdout)
    assert started["createdAt"] < started["startedAt"]


# ---- run ----


def test_run_quiet_and_kept_prints_the_id_alone(atoll, api):
    done = atoll("run", "--keep", "-q", "--timeout", "5m", "sh", "-c", "echo out; echo err >&2; exit 3", code=3, **NO_INPUT)
    sandbox_id = done.stdout.strip()
    assert done.stdout == f"{sandbox_id}\n" and done.stderr == "out\nerr\n"
    assert api.get(f"/sandboxes/{sandbox_id}").json()["state"] == "running"
    loud = atoll("run", "--keep", "--timeout", "5m", "echo", "out", **NO_INPUT)
    assert loud.stdout == "out\n" and loud.stderr.startswith("The sandbox keeps running: ")
    for kept in (sandbox_id, loud.stderr.split()[-1]):
        atoll("kill", kept)


def test_run_takes_metadata_and_rules(atoll, api):
    done = atoll("run", "--keep", "-q", "--timeout", "5m", "-m", "user=ann", "--metadata", "job=a=b", "--allow-out", "pypi.org", "--allow-out",
                 "*.example.com", "true", **NO_INPUT)
    sandbox_id = done.stdout.strip()
    try:
        detail = api.get(f"/sandboxes/{sandbox_id}").json()
        assert detail["metadata"] == {"user": "ann", "job": "a=b"}
        assert detail["network"] == {"allowOut": ["pypi.org", "*.example.com"], "denyOut": ["0.0.0.0/0"]}
        assert atoll("ps", "-q", "-m", "user=ann").stdout == f"{sandbox_id}\n"
    finally:
        atoll("kill", sandbox_id)
    refused = atoll("run", "--no-internet", "sh", "-c", "getent hosts example.com || echo none", **NO_INPUT)
    assert refused.stdout == "none\n"
    assert "give KEY=VALUE" in atoll("run", "-m", "nothing", "true", code=1, **NO_INPUT).stderr
    assert "invalid denied CIDR" in atoll("run", "--deny-out", "a.name", "true", code=1, **NO_INPUT).stderr


# ---- rules of a running sandbox ----


def rules(done):
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_rules_are_shown_and_replaced(atoll, api, make):
    sandbox_id = make(network={"rules": {"api.example.com": [{"transform": {"headers": {"X-A": "b"}}}]}})
    assert rules(atoll("network", sandbox_id[:8])) == [["allow", "everything"]]
    changed = atoll("network", sandbox_id, "--allow-out", "10.1.0.0/16", "--deny-out", "1.1.1.1")
    assert rules(changed) == [["allow", "10.1.0.0/16"], ["deny", "1.1.1.1"]] == rules(atoll("network", sandbox_id))
    assert rules(atoll("network", sandbox_id, "--allow-out", "example.com")) == [["allow", "example.com"], ["deny", "0.0.0.0/0"]]
    assert rules(atoll("network", sandbox_id, "--no-internet")) == [["deny", "everything"]]
    assert json.loads(atoll("network", sandbox_id, "--json").stdout)["allowInternetAccess"] is False
    assert rules(atoll("network", sandbox_id, "--open")) == [["allow", "everything"]]
    assert "api.example.com" in api.get(f"/sandboxes/{sandbox_id}").json()["network"]["rules"], "what no option is about stays"
    assert atoll("network", sandbox_id, "-q").stdout == f"{sandbox_id}\n"
    assert "leave the other options out" in atoll("network", sandbox_id, "--open", "--no-internet", code=2).stderr
    atoll("network", "izzzzzz", code=3)


def test_rules_are_not_changed_where_a_password_would_be_lost(atoll, make):
    proxy = {"address": "proxy.example.com:1080", "username": "ann", "password": "secret"}
    sandbox_id = make(network={"egress_proxy": proxy})
    assert "a proxy whose password" in atoll("network", sandbox_id, "--no-internet", code=1).stderr


@pytest.mark.parametrize("options, rule", [({"allow_internet_access": False}, "allow_internet_access: false"),
                                           ({"network": {"deny_out": ["0.0.0.0/0"]}}, "denyOut 0.0.0.0/0")])
def test_a_refused_name_is_told_with_the_rule_that_there_is(atoll, daemon, make, options, rule):
    sandbox_id = make(**options)
    Sandbox.connect(sandbox_id, **daemon.sdk).commands.run("getent hosts example.com || true")
    told = until(lambda: [line for line in atoll("logs", sandbox_id, "-q").stdout.splitlines() if "example.com" in line and "egress" in line],
                 "the refusal is in the log")
    assert all(line.endswith(f"refused by rule: {rule}") for line in told)


# ---- a command in the background ----


def test_the_output_of_a_detached_command_is_read_later(atoll, make):
    sandbox_id = make()
    script = "echo before; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo after; echo aside >&2; exit 5"
    pid = atoll("exec", "-d", sandbox_id, "sh", "-c", script, **NO_INPUT).stdout.strip()
    atoll("exec", sandbox_id, "touch", "/tmp/go", **NO_INPUT)
    done = atoll("attach", sandbox_id[:10], pid, code=5, **NO_INPUT)
    assert (done.stdout, done.stderr) == ("before\nafter\n", "aside\n")
    pid = atoll("exec", "-d", sandbox_id, "echo", "short", **NO_INPUT).stdout.strip()
    until(lambda: atoll("exec", sandbox_id, "kill", "-0", pid, code=None, **NO_INPUT).returncode != 0, "it has ended")
    done = atoll("attach", sandbox_id, pid, "--json", **NO_INPUT)
    assert done.stdout == "short\n", "it is kept for a while"
    assert json.loads(done.stderr) == {"sandboxID": sandbox_id, "exitCode": 0}
    assert "has no command with the pid 999999" in atoll("attach", sandbox_id, "999999", code=3, **NO_INPUT).stderr
    assert "is not a pid" in atoll("attach", sandbox_id, "first", code=2, **NO_INPUT).stderr


def test_who_leaves_a_detached_command_lets_it_run(atoll, daemon, make):
    sandbox_id = make()
    pid = atoll("exec", "-d", sandbox_id, "sh", "-c", "while :; do echo on; sleep 0.1; done", **NO_INPUT).stdout.strip()
    reader = subprocess.Popen([PROGRAM, "attach", sandbox_id, pid], env=environment(daemon), stdout=subprocess.PIPE, **NO_INPUT)
    assert reader.stdout.readline() == b"on\n"
    reader.stdout.close()
    assert reader.wait(60) == 141
    reader = subprocess.Popen([PROGRAM, "attach", sandbox_id, pid], env=environment(daemon), stdout=subprocess.PIPE, **NO_INPUT)
    assert reader.stdout.readline() == b"on\n"
    reader.terminate()
    assert reader.wait(60) == 143
    assert atoll("exec", sandbox_id, "kill", "-0", pid, **NO_INPUT).returncode == 0


# ---- what happened ----


def test_a_fork_is_an_event_of_its_parent(atoll, make):
    sandbox_id = make()
    copies = atoll("fork", sandbox_id, "-n", "2").stdout.split()
    lines = until(lambda: len(found := atoll("events", sandbox_id, "--type", "forked").stdout.splitlines()) == 2 and found, "two events")
    assert sorted(line.split()[-1] for line in lines) == sorted(copies)
    assert all(f"{sandbox_id}  forked  as " in line for line in lines)
    assert f"the sandbox was forked as {copies[0]}" in atoll("doctor", sandbox_id).stdout


def test_a_copy_to_a_new_path_is_no_warning(atoll, make, tmp_path):
    sandbox_id = make()
    (tmp_path / "file").write_text("text")
    atoll("cp", str(tmp_path / "file"), f"{sandbox_id}:/tmp/new")
    until(lambda: "/tmp/new" in atoll("logs", sandbox_id).stdout, "the log has the copy")
    assert atoll("logs", sandbox_id, "--level", "warn").stdout == ""


def test_the_audit_log_takes_names_and_says_when_nothing_matches(atoll, daemon, make):
    sandbox_id = make()
    made = json.loads(atoll("key", "create", "auditor", "--json").stdout)
    env = environment(daemon, E2B_API_KEY=made["key"])
    atoll("timeout", sandbox_id, "5m", env=env)
    atoll("volume", "create", "audited")
    try:
        def objects(*words):
            return atoll("audit", "-q", *words).stdout.split()

        assert until(lambda: objects("--actor", "auditor"), "the row is there") == [sandbox_id] == objects("--actor", made["id"])
        assert set(objects("--object", sandbox_id[:9])) == {sandbox_id}
        assert objects("--object", "auditor") == [made["id"]]
        assert len(objects("--object", "audited")) == 1
        for words in (["--actor", "nobody"], ["--object", "nothing"], ["--object", "izzzz"]):
            nothing = atoll("audit", *words)
            assert (nothing.stdout, nothing.stderr) == ("", "atoll: no row of the audit log matches\n")
    finally:
        atoll("volume", "rm", "audited")
        atoll("key", "revoke", made["id"])


# ---- help ----


def test_help_names_what_people_look_for(atoll, daemon):
    assert "--data DIR" in atoll("help", "options").stdout
    assert "create" not in atoll("snapshot", "--help").stdout
    for command in ("run", "exec", "attach", "network"):
        text, code = shown([PROGRAM, command, "--help"], environment(daemon), columns=80)
        lines = text.splitlines()
        assert code == 0 and len(lines) <= 24 and max(map(len, lines)) <= 80, (command, len(lines))
        assert text.count("--json") == 1 and text.count("--quiet") == 1, text
