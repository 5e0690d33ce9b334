"""What the tools do when little is said, and what single fields change: those that no story of the other files needs."""

import base64
import threading

import httpx
import pytest
from catalogue import Refused
from daemon import running, until
from test_tools_commands import refused, seconds_left, shell
from world import Web

HOUR_S = 3600
OUTSIDE = "198.51.100.1"
AGENT_PORT = "49983"


@pytest.fixture(scope="module")
def web():
    return Web("from outside")


@pytest.fixture(scope="module")
def daemon(web):
    with running("--egress-map", f"{OUTSIDE}:80=127.0.0.1:{web.server_port}") as daemon:
        yield daemon


# ---- sandboxes ----


def test_a_sandbox_is_made_of_nothing_but_defaults(tools):
    made = tools.create_sandbox()
    assert made["template_alias"] == "base" and made["urls"] == [] and 1700 < seconds_left(made) <= 1800
    [row] = tools.list_sandboxes(ids=[made["sandbox_id"]])["sandboxes"]
    assert row["state"] == "running" and row.get("metadata", {}) == {}
    tools.kill_sandbox(sandbox_id=made["sandbox_id"])


@pytest.mark.parametrize("allowed", [True, False])
def test_the_internet_is_reached_unless_it_is_forbidden(tools, allowed):
    made = tools.create_sandbox(**({} if allowed else {"allow_internet": False}))
    said = tools.send_sandbox_input(sandbox_id=made["sandbox_id"], action="shell_command", input=f"curl -sS -m 10 http://{OUTSIDE}/")
    assert said["success"] is allowed and said["stdout"].startswith("from outside") is allowed
    tools.kill_sandbox(sandbox_id=made["sandbox_id"])


@pytest.mark.parametrize("secure", [True, False])
def test_the_agent_wants_a_token_unless_it_is_told_not_to(daemon, tools, secure):
    made = tools.create_sandbox(**({} if secure else {"secure": False}))
    headers = {"E2b-Sandbox-Id": made["sandbox_id"], "E2b-Sandbox-Port": AGENT_PORT}
    answer = httpx.get(f"{daemon.url}/files", params={"path": "/etc/hostname"}, headers=headers)
    assert answer.status_code == (401 if secure else 200)
    assert shell(tools, made["sandbox_id"], "echo the tools have it") == "the tools have it\n"
    tools.kill_sandbox(sandbox_id=made["sandbox_id"])


def test_sandboxes_are_found_by_session_and_app(tools):
    made = tools.create_sandbox(metadata={"sessionId": "s-7", "app": "dify"})["sandbox_id"]
    for fields in ({"sessionId": "s-7"}, {"app": "dify"}, {"sessionId": "s-7", "app": "dify"}):
        assert [row["sandbox_id"] for row in tools.list_sandboxes(**fields)["sandboxes"]] == [made]
    assert tools.list_sandboxes(sessionId="s-7", app="other")["count"] == 0
    tools.kill_sandbox(sandbox_id=made)


def test_a_template_of_claude_that_is_not_there_is_told_with_what_to_do(tools):
    said = refused(tools.create_sandbox, template_alias="claude-code")
    assert said.status == 404 and "create_claude_code_sandbox" in said.message


@pytest.mark.parametrize("name", ["create_nextjs_sandbox", "create_nextjs_bun_sandbox"])
def test_next_js_is_not_made_without_the_internet(tools, name):
    with pytest.raises(Refused, match="allow_internet: must be true"):
        tools.call(name, {"allow_internet_access": False})


@pytest.fixture(scope="module")
def account(daemon):
    shell = {"baseUrl": f"http://{OUTSIDE}", "header": {"name": "Authorization", "value": "Bearer kept-outside-1234"}}
    assert httpx.put(f"{daemon.url}/shells/account", json=shell, headers={"X-API-Key": daemon.key}).status_code == 200


@pytest.mark.parametrize("injection", ["sandbox", "command"])
@pytest.mark.parametrize("name", ["create_sandbox", "create_claude_code_sandbox", "create_nextjs_sandbox", "create_nextjs_bun_sandbox"])
def test_every_tool_that_makes_a_sandbox_takes_the_same_fields(daemon, tools, account, name, injection):
    """The sandbox is looked at as soon as it is there, and ended: what would be installed is not waited for."""
    mine = {"made": f"{name}-{injection}"}
    fields = {"envs": {"WORD": "given"}, "metadata": mine, "timeout_seconds": 2700, "env_injection": injection, "secure": False,
              "github_token": "ghp_same", "github_user": "octocat", "vercel_token": "vt", "vercel_team_id": "team_same",
              "vercel_project_id": "prj_same", "shells": ["account"]}
    internet = injection == "sandbox" or "nextjs" in name  # which is not made without
    fields["allow_internet"] = internet

    def make():
        try:
            tools.call(name, fields)
        except Refused:
            pass  # its sandbox was ended

    making = threading.Thread(target=make)
    making.start()
    [row] = until(lambda: tools.list_sandboxes(metadata=mine)["sandboxes"], "the sandbox is there")
    box = row["sandbox_id"]
    assert 2500 < seconds_left(row) <= 2700
    told = "echo $WORD $GITHUB_TOKEN $GITHUB_USER $VERCEL_TOKEN $VERCEL_TEAM_ID $VERCEL_ORG_ID $VERCEL_PROJECT_ID"
    wanted = "given ghp_same octocat vt team_same team_same prj_same\n"
    until(lambda: shell(tools, box, told) == wanted, "it has its variables")
    headers = {"E2b-Sandbox-Id": box, "E2b-Sandbox-Port": AGENT_PORT}
    assert httpx.get(f"{daemon.url}/files", params={"path": "/etc/hostname"}, headers=headers).status_code == 200
    assert shell(tools, box, "curl -sS http://shell.atoll.internal/account/").startswith("from outside")
    outside = tools.send_sandbox_input(sandbox_id=box, action="shell_command", input=f"curl -sS -m 10 http://{OUTSIDE}/")
    assert outside["success"] is internet, outside
    tools.kill_sandbox(sandbox_id=box)
    making.join()


# ---- time ----


@pytest.mark.parametrize("name, fields", [
    ("send_sandbox_input", {"action": "shell_command", "input": "true"}),
    ("send_sandbox_input", {"action": "keep_alive"}),
    ("install_packages", {"commands": ["true"]}),
    ("read_sandbox_file", {"path": "/tmp"}),
    ("write_sandbox_file", {"path": "/tmp/x", "content": "x"}),
    ("start_shell_session", {}),
    ("send_shell_session_input", {"pid": "session"}),
    ("kill_shell_session", {"pid": "session"}),
])
def test_every_call_sets_the_clock_when_it_says_so_and_never_else(tools, name, fields):
    made = tools.create_sandbox(timeout_seconds=3 * HOUR_S)
    box = made["sandbox_id"]
    if "pid" in fields:
        fields = {"pid": tools.start_shell_session(sandbox_id=box)["pid"]}
    if name != "kill_shell_session":
        assert tools.call(name, {"sandbox_id": box, **fields})["expires_at"] == made["expires_at"]
    after = tools.call(name, {"sandbox_id": box, **fields, "timeout_seconds": 700})
    assert 600 < seconds_left(after) <= 700
    tools.kill_sandbox(sandbox_id=box)


def test_a_command_is_ended_by_its_own_limit(tools, box):
    told = tools.send_sandbox_input(sandbox_id=box, action="shell_command", input="echo begun; sleep 100", command_timeout_seconds=2)
    assert told["timed_out"] and told["stdout"] == "begun\n" and "command_timeout_seconds" in told["note"]
    assert seconds_left(told) > HOUR_S
    done = tools.install_packages(sandbox_id=box, commands=["sleep 100", "echo next"], command_timeout_seconds=1)
    assert [one["success"] for one in done["results"]] == [False, True]


def test_a_sandbox_that_is_kept_alive_says_a_word(tools, box):
    said = tools.send_sandbox_input(sandbox_id=box, action="keep_alive")
    assert (said["stdout"], said["exit_code"], said["success"]) == ("heartbeat\n", 0, True)
    longer = tools.send_sandbox_input(sandbox_id=box, action="extend_lifecycle")
    assert longer["success"] and "stdout" not in longer and "exit_code" not in longer


# ---- files ----


def test_fifty_files_of_a_folder_are_read_and_links_are_shown(tools, box):
    shell(tools, box, "mkdir fifty && cd fifty && for i in $(seq -w 60); do echo $i > $i; done; ln -s 01 link; mkdir sub .hidden")
    read = tools.read_sandbox_file(sandbox_id=box, path="fifty")
    assert len(read["files"]) == 50 and read["files_total"] == 61
    assert "link\n" in read["tree"] and "sub/\n" in read["tree"] and ".hidden" not in read["tree"]
    every = tools.read_sandbox_file(sandbox_id=box, path="fifty", max_files=-1)
    assert len(every["files"]) == 61 and {"path": "/home/user/fifty/60", "content": "60\n"}.items() <= every["files"][59].items()


# ---- sessions ----


def test_a_session_has_its_size_its_variables_and_its_place(tools, box):
    pid = tools.start_shell_session(sandbox_id=box, cwd="/usr", cols=77, rows=11, envs={"WORD": "given"})["pid"]
    seen = tools.send_shell_session_input(sandbox_id=box, pid=pid, input="echo $PWD $WORD; stty size", wait_seconds=30)
    assert "/usr given" in seen["output"] and "11 77" in seen["output"]
    tools.kill_shell_session(sandbox_id=box, pid=pid)


def test_the_first_prompt_has_no_escapes_when_they_are_not_wanted(tools, box):
    plain = tools.start_shell_session(sandbox_id=box, strip_ansi=True)
    raw = tools.start_shell_session(sandbox_id=box)
    assert "\033" not in plain["output"] and "$" in plain["output"] and "\033" in raw["output"]
    for one in (plain, raw):
        tools.kill_shell_session(sandbox_id=box, pid=one["pid"])


def test_a_session_shows_four_thousand_characters_and_presses_enter(tools, box):
    pid = tools.start_shell_session(sandbox_id=box)["pid"]
    shown = tools.send_shell_session_input(sandbox_id=box, pid=pid, input="seq 3000; sleep 1")
    assert len(shown["output"]) == 4000 and shown["truncated"]
    typed = tools.send_shell_session_input(sandbox_id=box, pid=pid, input="echo not''yet", append_newline=False)
    assert "notyet" not in typed["output"]
    entered = tools.send_shell_session_input(sandbox_id=box, pid=pid, input=" ", wait_seconds=30)  # and Enter
    assert "notyet" in entered["output"]
    tools.kill_shell_session(sandbox_id=box, pid=pid)


# ---- heartbeats ----


def test_a_heartbeat_beats_every_five_minutes_for_six_hours(tools):
    box = tools.create_sandbox()["sandbox_id"]
    heart = tools.setup_sandbox_heartbeat(sandbox_id=box, command="echo $WORD > ~/word", envs={"WORD": "given"})
    assert heart["interval_seconds"] == 300 and heart["log_path"].startswith("/home/user/.heartbeats/")
    assert 6 * HOUR_S - 100 < seconds_left({"expires_at": heart["ends_at"]}) <= 6 * HOUR_S
    until(lambda: shell(tools, box, "cat ~/word 2>/dev/null || true") == "given\n", "it has its variables")
    tools.kill_sandbox(sandbox_id=box)


def test_a_heartbeat_keeps_the_sandbox_for_an_hour_at_least(tools):
    box = tools.create_sandbox(timeout_seconds=600)["sandbox_id"]
    heart = tools.setup_sandbox_heartbeat(sandbox_id=box, command="true", interval="1h", duration="10 seconds")
    assert HOUR_S - 100 < seconds_left(heart) <= HOUR_S
    longer = tools.setup_sandbox_heartbeat(sandbox_id=box, command="true", duration="10 seconds", timeout_seconds=2 * HOUR_S)
    assert seconds_left(longer) > 2 * HOUR_S - 100
    tools.kill_sandbox(sandbox_id=box)


# ---- the guard ----


def test_encoded_secrets_are_found_from_twelve_characters_on(tools):
    for secret, found in (("short-11-ch", False), ("longer-12-ch", True)):
        encoded = base64.b64encode(secret.encode()).decode()
        assert tools.guard_output(text=f"a {encoded} b", secrets=[secret])["found"] is found
        assert tools.guard_output(text=f"a {secret} b", secrets=[secret])["found"]
    blocked = tools.guard_output(text="is longer-12-ch here", secrets=["longer-12-ch"])
    assert blocked["mode"] == "block" and blocked["text"].startswith("[BLOCKED]")


# ---- code in one call ----


@pytest.mark.parametrize("language, package, code", [
    ("python", "inflection", "import inflection; print(inflection.pluralize('box'))"),
    ("node", "is-number", "console.log(require('is-number')(1) && 'boxes')"),
    ("bash", "sl", "test -x /usr/games/sl && echo boxes"),
])
def test_each_language_has_its_installer(daemon, language, package, code):
    said = httpx.post(f"{daemon.url}/api/code/execute", headers={"X-API-Key": daemon.key}, timeout=300,
                      json={"language": language, "code": code, "packages": [package]}).json()
    assert said["stdout"] == "boxes\n" and said["success"] and said["exitCode"] == 0 and said["error"] is None, said


def test_a_program_in_one_call_leaves_no_warning(daemon):
    """An ES module that is not called one: Node.js finds out by itself, and says nothing of it."""
    for code in ("import fs from 'node:fs'; console.log(typeof fs)", "export {}; console.log(typeof await Promise.resolve({}))"):
        said = httpx.post(f"{daemon.url}/api/code/execute", headers={"X-API-Key": daemon.key}, timeout=300,
                          json={"language": "node", "code": code}).json()
        assert (said["stdout"], said["stderr"]) == ("object\n", ""), said
