"""Tools that run things in a sandbox: variables in layers, commands, packages, shell sessions and
heartbeats, each over REST against a daemon of the test's own."""

import datetime
import functools
import sqlite3
import time
import uuid

import httpx
import pytest
from catalogue import Catalogue, Refused
from daemon import until
from teams import two_teams
from world import Web

HOUR_S = 3600


@pytest.fixture(scope="module")
def web():
    return Web("watched")


@pytest.fixture(scope="module")
def daemon(web):
    with two_teams("--egress-map", f"198.51.100.1:80=127.0.0.1:{web.server_port}") as daemon:
        yield daemon


def shell(tools, box, command, **fields):
    answer = tools.send_sandbox_input(sandbox_id=box, action="shell_command", input=command, **fields)
    assert answer["success"], answer
    return answer["stdout"]


def seconds_left(answer):
    return datetime.datetime.fromisoformat(answer["expires_at"]).timestamp() - time.time()


def refused(call, **fields):
    with pytest.raises(Refused) as failure:
        call(**fields)
    return failure.value


# ---- creating ----


def test_a_sandbox_is_created_with_metadata_and_says_how_ports_are_reached(daemon, tools):
    word = uuid.uuid4().hex
    made = tools.create_sandbox(metadata={"userId": word}, ports=[8000], timeout_seconds=600)
    assert 0 < seconds_left(made) <= 600
    [listed] = tools.list_sandboxes(userId=word)["sandboxes"]
    assert listed["sandbox_id"] == made["sandbox_id"]

    shell(tools, made["sandbox_id"], "(cd /tmp; echo served > file; setsid python3 -m http.server 8000) >/dev/null 2>&1 &")
    headers = made["urls"][0]["headers"]
    assert made["urls"][0]["port"] == 8000

    def answered():
        answer = httpx.get(f"{daemon.url}/file", headers=headers)
        return answer.status_code == 200 and answer.text

    assert until(answered, "the server inside answers") == "served\n"
    tools.kill_sandbox(sandbox_id=made["sandbox_id"])


def test_a_parameter_beats_envs_which_beat_what_the_team_stored(daemon, tools):
    api = httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key})
    stored = [{"name": f"k-{name.lower()}", "value": f"stored-{name}", "metadata": {"env": name}}
              for name in ("VERCEL_TOKEN", "VERCEL_PROJECT_ID", "OTHER_KEY")]
    stored.append({"name": "unnamed", "value": "never given to a sandbox"})
    for body in stored:
        assert api.post("/secrets", json=body).status_code == 201
    try:
        made = tools.create_sandbox(
            vercel_token="own", vercel_team_id="team_1",
            envs={"VERCEL_TOKEN": "envs", "VERCEL_PROJECT_ID": "envs", "VERCEL_ORG_ID": "envs"})
        out = shell(tools, made["sandbox_id"],
                    "echo $VERCEL_TOKEN $VERCEL_PROJECT_ID $OTHER_KEY $VERCEL_TEAM_ID $VERCEL_ORG_ID; env")
        assert out.splitlines()[0] == "own envs stored-OTHER_KEY team_1 team_1"
        assert "never given" not in out
        tools.kill_sandbox(sandbox_id=made["sandbox_id"])
    finally:
        for body in stored:
            api.delete(f"/secrets/{body['name']}")


def test_variables_given_by_command_are_in_no_other_process(tools):
    made = tools.create_sandbox(env_injection="command", envs={"A_KEY": "by-command-only"}, github_token="ghp_by_command")
    box = made["sandbox_id"]
    assert shell(tools, box, "echo $A_KEY $GITHUB_TOKEN") == "by-command-only ghp_by_command\n"
    assert shell(tools, box, "echo $A_KEY", envs={"A_KEY": "of this call"}) == "of this call\n"

    # Only the command itself has them: nothing that runs there before, no file.
    shell(tools, box, "env -i setsid sleep 1000 >/dev/null 2>&1 &")
    found = shell(tools, box, "sudo grep -al by-command-only /proc/[0-9]*/environ 2>/dev/null |"
                              " grep -vF -e /self/ -e /$$/ -e /$PPID/; sudo grep -rl by-command-only /home /etc /root; true")
    assert [line for line in found.splitlines() if "/proc/" not in line] == []
    pid_one = shell(tools, box, "sudo tr '\\0' '\\n' < /proc/1/environ | grep -c A_KEY; true")
    assert pid_one.strip() == "0"

    pid = tools.start_shell_session(sandbox_id=box)["pid"]
    seen = tools.send_shell_session_input(sandbox_id=box, pid=pid, input="echo in $A_KEY")
    assert "in by-command-only" in seen["output"]
    tools.kill_sandbox(sandbox_id=box)


def test_what_was_given_survives_a_restart_and_goes_with_the_sandbox(daemon, tools):
    box = tools.create_sandbox(env_injection="command", envs={"A_KEY": "kept by the daemon"})["sandbox_id"]
    daemon.stop()
    daemon.start()
    assert shell(tools, box, "echo $A_KEY") == "kept by the daemon\n"
    database = daemon.data / "state" / "atoll.db"
    parts = list(database.parent.glob("atoll.db*"))
    assert database in parts and all(b"kept by the daemon" not in part.read_bytes() for part in parts)
    assert records(database, box) == 1
    tools.kill_sandbox(sandbox_id=box)
    until(lambda: records(database, box) == 0, "the record of its keys is gone")


def test_what_was_given_goes_with_forks_and_snapshots(daemon, tools):
    """It is in the memory of the copy, so the copy's commands have it, and the guard looks for it there."""
    http = httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=120)
    source = tools.create_sandbox(env_injection="command", envs={"A_KEY": "given-to-the-source"})["sandbox_id"]
    copies = [http.post(f"/sandboxes/{source}/fork", json={}).json()[0]["sandbox"]["sandboxID"]]
    snapshot = http.post(f"/sandboxes/{source}/snapshots", json={}).json()["snapshotID"]
    tools.kill_sandbox(sandbox_id=source)
    own = {"B_KEY": "given-to-the-copy"}
    copies.append(tools.create_sandbox(template_alias=snapshot, env_injection="command", envs=own)["sandbox_id"])
    for box in copies:
        assert shell(tools, box, "echo $A_KEY") == "given-to-the-source\n"
        assert tools.guard_output(text="is given-to-the-source", sandbox_id=box)["found"]
    assert shell(tools, copies[1], "echo $B_KEY") == "given-to-the-copy\n"
    for box in copies:
        tools.kill_sandbox(sandbox_id=box)
    assert http.delete(f"/templates/{snapshot}").status_code == 204


def records(database, box):
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as db:
        return db.execute("SELECT count(*) FROM sandbox_keys WHERE sandbox_id = ?", (box,)).fetchone()[0]


@pytest.mark.parametrize("fields, words", [
    ({"template_alias": "no-such"}, "template 'no-such' not found"),
    ({"unknown": 1}, "unknown:"),
    ({"ports": [0]}, "ports[0]:"),
    ({"envs": {"A": [1]}}, "envs.A:"),
    ({"env_injection": "file"}, "env_injection:"),
    ({"timeout_seconds": 10**9}, "Timeout cannot be greater"),
    ({"envs": {"A": "x" * 60000}, "env_injection": "command"}, "envs:"),
])
def test_a_create_that_cannot_be_is_refused_with_the_reason(daemon, tools, fields, words):
    before = len(tools.list_sandboxes()["sandboxes"])
    failure = refused(tools.create_sandbox, **fields)
    assert 400 <= failure.status < 500 and words in failure.message, failure
    assert len(tools.list_sandboxes()["sandboxes"]) == before


# ---- commands and time ----


def test_a_command_is_told_with_both_outputs_and_its_code(tools, box):
    answer = tools.send_sandbox_input(sandbox_id=box, action="shell_command", input="echo out; echo err >&2; cd /tmp; exit 3", cwd="/usr")
    assert (answer["success"], answer["stdout"], answer["stderr"], answer["exit_code"]) == (False, "out\n", "err\n", 3)
    assert shell(tools, box, "pwd") == "/home/user\n"  # a fresh shell each time
    assert shell(tools, box, "pwd", cwd="/usr") == "/usr\n"


def test_a_call_never_shortens_a_life_unless_it_says_so(tools):
    made = tools.create_sandbox(timeout_seconds=20 * HOUR_S)
    box = made["sandbox_id"]
    after = tools.send_sandbox_input(sandbox_id=box, action="shell_command", input="true")
    assert after["expires_at"] == made["expires_at"]
    assert tools.send_sandbox_input(sandbox_id=box, action="keep_alive")["expires_at"] == made["expires_at"]
    tools.pause_sandbox(sandbox_id=box)
    resumed = tools.send_sandbox_input(sandbox_id=box, action="shell_command", input="true")
    assert seconds_left(resumed) > 19.9 * HOUR_S
    short = tools.send_sandbox_input(sandbox_id=box, action="keep_alive", timeout_seconds=60)
    assert seconds_left(short) <= 60
    longer = tools.send_sandbox_input(sandbox_id=box, action="keep_alive")
    assert 1700 < seconds_left(longer) <= 1800
    extended = tools.send_sandbox_input(sandbox_id=box, action="extend_lifecycle")
    assert HOUR_S - 100 < seconds_left(extended) <= HOUR_S
    same = tools.send_sandbox_input(sandbox_id=box, action="extend_lifecycle", timeout_seconds=600)
    assert same["expires_at"] == extended["expires_at"]  # never shorter
    more = tools.send_sandbox_input(sandbox_id=box, action="extend_lifecycle", timeout_seconds=2 * HOUR_S)
    assert 2 * HOUR_S - 100 < seconds_left(more) <= 2 * HOUR_S
    most = tools.send_sandbox_input(sandbox_id=box, action="extend_lifecycle", timeout_seconds=90 * HOUR_S)
    assert "operator" in most["note"] and seconds_left(most) <= 24 * HOUR_S
    tools.kill_sandbox(sandbox_id=box)


def test_a_command_that_would_outlive_the_sandbox_is_ended_and_told(tools):
    box = tools.create_sandbox()["sandbox_id"]
    answer = tools.send_sandbox_input(sandbox_id=box, action="shell_command", input="echo begun; sleep 60", timeout_seconds=5)
    assert answer["timed_out"] and not answer["success"] and answer["stdout"] == "begun\n"
    assert "extend_lifecycle" in answer["note"]
    tools.kill_sandbox(sandbox_id=box)


def test_work_goes_on_between_turns_with_a_pause(tools):
    box = tools.create_sandbox()["sandbox_id"]
    shell(tools, box, "echo 1 > turn; (while :; do date +%s%N > alive; sleep 0.1; done) >/dev/null 2>&1 &")
    tools.pause_sandbox(sandbox_id=box)
    assert tools.list_sandboxes(ids=[box])["sandboxes"][0]["state"] == "paused"
    assert shell(tools, box, "cat turn; echo 2 >> turn") == "1\n"
    first = shell(tools, box, "cat alive")
    until(lambda: shell(tools, box, "cat alive") not in ("", first), "what ran before the pause runs on")
    tools.pause_sandbox(sandbox_id=box, memory=False)
    assert shell(tools, box, "cat turn") == "1\n2\n"
    tools.kill_sandbox(sandbox_id=box)


@pytest.mark.parametrize("fields, status, words", [
    ({"input": "true", "action": "dance"}, 400, "action:"),
    ({"action": "shell_command"}, 400, "input: is required"),
    ({"action": "shell_command", "input": "ls", "cwd": "/none"}, 400, "/none"),
    ({"action": "shell_command", "input": "ls", "timeout_seconds": 0}, 400, "timeout_seconds:"),
    ({"action": "claude_code", "input": "hello"}, 409, "install_packages"),
])
def test_input_that_cannot_be_is_refused_with_the_reason(tools, box, fields, status, words):
    failure = refused(tools.send_sandbox_input, sandbox_id=box, **fields)
    assert failure.status == status and words in failure.message, failure


@pytest.mark.parametrize("name, fields", [
    ("send_sandbox_input", {"action": "shell_command", "input": "true"}),
    ("install_packages", {"commands": ["true"]}),
    ("start_shell_session", {}),
    ("send_shell_session_input", {"pid": 1}),
    ("kill_shell_session", {"pid": 1}),
    ("setup_sandbox_heartbeat", {"command": "true"}),
])
def test_another_team_s_sandbox_is_not_there(daemon, box, name, fields):
    other = Catalogue(daemon, daemon.other_key)
    for sandbox_id in (box, "ixxxxxxxxxxxxxxxxxxxx", "../../teams"):
        failure = refused(getattr(other, name), sandbox_id=sandbox_id, **fields)
        assert failure.status in (400, 404), failure


# ---- packages ----


def test_each_package_is_told_and_a_failure_hides_no_other(tools, box):
    answer = tools.install_packages(
        sandbox_id=box, preset="pnpm",
        commands=["pip install no-such-package-of-any-name-7f1c", "echo third; whoami"])
    names = [(result["name"], result["success"]) for result in answer["results"]]
    assert names[0] == ("pnpm", True), answer
    assert names[1][1] is False and "no-such-package" in answer["results"][1]["output"]
    assert answer["results"][2]["output"] == "third\nuser\n"
    assert answer["success"] is False
    assert all(result["duration_ms"] >= 0 for result in answer["results"])
    assert shell(tools, box, "pnpm --version")


def test_nothing_to_install_is_a_mistake(tools, box):
    assert "say what to install" in refused(tools.install_packages, sandbox_id=box).message
    assert "presets[0]:" in refused(tools.install_packages, sandbox_id=box, presets=["rpm"]).message


# ---- shell sessions ----


@pytest.fixture
def session(tools, box):
    pid = tools.start_shell_session(sandbox_id=box, cols=200)["pid"]
    yield lambda text="", **fields: tools.send_shell_session_input(
        sandbox_id=box, pid=pid, input=text, **({"wait_seconds": 0.5} | fields))
    try:
        tools.kill_shell_session(sandbox_id=box, pid=pid)
    except Refused:
        pass  # the test has ended it


def test_a_session_remembers_and_loses_nothing_between_calls(session):
    session("cd /tmp; WORD=remembered")
    assert "remembered /tmp" in session("echo $WORD $PWD")["output"]
    loop = "for i in $(seq 30); do echo line-$i; sleep 0.05; done; echo fin''ished"
    session = functools.partial(session, strip_ansi=True)
    shown = session(loop, wait_seconds=0)["output"]
    while "finished" not in shown:
        piece = session(wait_seconds=0.2)
        assert not piece["ended"]
        shown += piece["output"]
    assert [line for line in shown.splitlines() if line.startswith("line-")] == [f"line-{i}" for i in range(1, 31)]


def test_a_wait_ends_when_the_shell_is_back_at_its_prompt(session):
    assert "slept" in session("sleep 1; echo sle''pt", wait_seconds=60)["output"]
    assert "back" in session("sleep 100 & echo ba''ck", wait_seconds=90)["output"]
    assert "Running" in session("jobs", wait_seconds=90)["output"]


def test_a_wait_ends_also_behind_a_line_that_wraps(tools, box):
    """A line editor that drew more than a row erases what is right of the prompt, behind the prompt's mark."""
    pid = tools.start_shell_session(sandbox_id=box, cols=40)["pid"]
    began = time.monotonic()
    for words in ("x" * 50, "y" * 75):
        answer = tools.send_shell_session_input(sandbox_id=box, pid=pid, input=f"echo {words}", wait_seconds=120)
        assert words in answer["output"].replace("\r", "").replace("\n", "")
    assert time.monotonic() - began < 100  # two waits of 120 s ended early
    tools.kill_shell_session(sandbox_id=box, pid=pid)


def test_a_session_whose_client_leaves_while_it_starts_is_ended(daemon, tools, box):
    def sessions():
        return shell(tools, box, "pgrep -fx '/bin/bash -l -i' || true")

    before = sessions()
    shell(tools, box, "echo '[[ $- != *i* ]] || sleep 10' > ~/.bash_profile")  # no prompt comes
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{daemon.url}/tools/start_shell_session", timeout=0.7, json={"sandbox_id": box},
                   headers={"X-API-Key": daemon.key})
    shell(tools, box, "rm ~/.bash_profile")
    until(lambda: sessions() == before, "it is ended")


def test_a_session_outlives_a_pause(tools, box, session):
    session("WORD=kept")
    tools.pause_sandbox(sandbox_id=box)
    assert "still kept" in session("echo still $WORD", wait_seconds=1)["output"]


def test_a_session_is_a_terminal_with_keys(session):
    assert "20" in session("tput lines; tput cols; tty")["output"]
    session("sleep 1000")
    assert "gone on" in session("\u0003", append_newline=False)["output"] + session("echo gone on")["output"]
    raw = session("printf '\\033[31mred\\033[0m\\n'")["output"]
    assert "\033[31mred\033[0m" in raw and "133;B" not in raw  # as a terminal got it, without our own marks
    plain = session("printf '\\033[31mred\\033[0m\\n'", strip_ansi=True)["output"]
    assert "\nred\n" in plain and "\033" not in plain


def test_output_is_cut_to_its_end_with_a_note(session):
    answer = session("seq 100000; echo ab''c", max_chars=200, wait_seconds=3)
    assert answer["truncated"] and len(answer["output"]) == 200 and "abc" in answer["output"]
    assert "max_chars is 200" in answer["note"]


def test_the_end_of_a_session_is_told(tools, box, session):
    answer = session("exit 7", wait_seconds=10)
    assert answer["ended"] and answer["exit_code"] == 7
    failure = refused(session, text="more")
    assert failure.status == 404 and "start_shell_session" in failure.message


def test_a_session_is_killed_and_only_sessions_are(tools, box):
    pid = tools.start_shell_session(sandbox_id=box)["pid"]
    assert tools.kill_shell_session(sandbox_id=box, pid=pid)["killed"]
    until(lambda: shell(tools, box, f"test -e /proc/{pid} || echo gone") == "gone\n", "it is gone")
    other = int(shell(tools, box, "setsid sleep 1000 >/dev/null 2>&1 & echo $!"))
    for call in (tools.kill_shell_session, tools.send_shell_session_input):
        assert refused(call, sandbox_id=box, pid=other).status == 404
    assert shell(tools, box, f"test -e /proc/{other} && echo there") == "there\n"
    assert refused(tools.start_shell_session, sandbox_id=box, cwd="/none").status == 400


# ---- heartbeats ----


def log_of(tools, box, heart):
    return shell(tools, box, f"cat {heart['log_path']}")


def test_a_heartbeat_watches_a_server_and_ends_with_its_time(tools, box, web):
    heart = tools.setup_sandbox_heartbeat(
        sandbox_id=box, command="curl -sS -m 5 http://198.51.100.1/health", interval="every 1 second", duration="4 seconds")
    assert heart["interval_seconds"] == 1 and "curl" in heart["script"]
    assert int(shell(tools, box, f"cat {heart['log_path'].replace('/log', '/pid')}")) == heart["pid"]
    log = until(lambda: "the time is over" in (text := log_of(tools, box, heart)) and text, "it ends by itself")
    assert log.count("watched 198.51.100.1") >= 2
    assert "beat 1 ended with code 0" in log and "beat 2" in log
    assert shell(tools, box, f"test -e /proc/{heart['pid']} || echo gone") == "gone\n"


def test_a_heartbeat_goes_on_after_failures_and_stops_when_told(tools, box):
    heart = tools.setup_sandbox_heartbeat(
        sandbox_id=box, command="echo looked; false", interval="1 second", duration="until stopped")
    assert "ends_at" not in heart
    until(lambda: "beat 2 ended with code 1" in log_of(tools, box, heart), "a failed beat is followed by another")
    shell(tools, box, f"pkill -KILL -P {heart['pid']}")
    until(lambda: "started again" in log_of(tools, box, heart), "a loop that was ended is started again")
    shell(tools, box, f"kill {heart['pid']}")
    until(lambda: "stopped" in log_of(tools, box, heart), "it is stopped")
    assert shell(tools, box, f"test -e /proc/{heart['pid']} || echo gone") == "gone\n"


def test_a_heartbeat_extends_the_life_to_cover_it(tools):
    box = tools.create_sandbox(timeout_seconds=600)["sandbox_id"]
    covered = tools.setup_sandbox_heartbeat(sandbox_id=box, command="true", duration="6 hours")
    assert covered["interval_seconds"] == 300 and seconds_left(covered) > 6 * HOUR_S
    longest = tools.setup_sandbox_heartbeat(sandbox_id=box, command="true", duration="30 days")
    assert "operator" in longest["note"]
    tools.kill_sandbox(sandbox_id=box)


@pytest.mark.parametrize("fields, words", [
    ({}, "command or task"),
    ({"command": "true", "task": "look"}, "give one of them"),
    ({"command": "true", "interval": "soon"}, "interval:"),
    ({"command": "true", "duration": "a while"}, "duration:"),
    ({"command": "if true"}, "syntax error"),
    ({"task": "look"}, "install_packages"),
])
def test_a_heartbeat_that_cannot_be_is_refused_with_the_reason(tools, box, fields, words):
    assert words in refused(tools.setup_sandbox_heartbeat, sandbox_id=box, **fields).message
