"""Claude Code in a sandbox, from npm, against a stand-in for the Messages API: one sandbox for all."""

import json

import pytest
from catalogue import Refused
from daemon import running, until
from messages_api import MessagesApi, turn

API = "198.51.100.7"
NOBODY = "198.51.100.8"  # leads to a port on which nothing listens
KEY = "sk-ant-stand-in-0123456789"
SCRIPT = "Here it is:\n```bash\necho written by the model\n```\n"


def reply(said):
    return SCRIPT if said[-1].startswith("Write a bash script") else turn(said)


@pytest.fixture(scope="module")
def model():
    return MessagesApi(reply)


@pytest.fixture(scope="module")
def daemon(model):
    with running("--egress-map", f"{API}:80=127.0.0.1:{model.server_port},{NOBODY}:80=127.0.0.1:1") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def made(tools):
    return tools.create_claude_code_sandbox(
        anthropic_api_key=KEY, envs={"ANTHROPIC_BASE_URL": f"http://{API}"}, env_injection="command",
        permissions_preset="dev_standard", allow=["Bash(terraform:*)"], permissions_ask="Bash(ssh:*)", deny=["Read(./private/**)"],
        additional_directories=["../docs"], disable_bypass=True, metadata={"app": "law"}, ports=[3000],
        github_token="ghp_of_the_shop", vercel_org_id_override="team_shop",
        user_memory="Answer in verse.", project_memory="This is a shop.", working_dir="/srv/shop", timeout_seconds=3600)


@pytest.fixture(scope="module")
def box(made):
    assert made["success"], made
    return made["sandbox_id"]


def shell(tools, box, command):
    answer = tools.send_sandbox_input(sandbox_id=box, action="shell_command", input=command)
    assert answer["success"], answer
    return answer["stdout"]


def prompt(tools, box, text, **fields):
    answer = tools.send_sandbox_input(sandbox_id=box, action="claude_code", input=text, **fields)
    assert answer["success"], answer
    return answer


def test_the_command_line_is_installed_and_set_up(tools, made, box):
    assert made["template_alias"] == "base" and "no template claude" in made["note"]
    assert [step["name"] for step in made["steps"]][:2] == ["prepare", "claude update"]
    assert made["steps"][1]["success"] is False  # there was none to update: the next way was tried
    assert made["updated_by"].startswith("npm install") and made["claude_version"][0].isdigit()
    permissions = made["settings"]["permissions"]
    assert permissions["defaultMode"] == "acceptEdits"
    assert "Bash(terraform:*)" in permissions["allow"] and "Read(./private/**)" in permissions["deny"]
    assert {"Bash(git push:*)", "WebFetch", "Bash(ssh:*)"} <= set(permissions["ask"])
    assert permissions["additionalDirectories"] == ["../docs"] and permissions["disableBypassPermissionsMode"] == "disable"
    local = tools.read_sandbox_file(sandbox_id=box, path="/srv/shop/.claude/settings.local.json")["content"]
    assert json.loads(local) == made["settings"]
    assert [one["port"] for one in made["urls"]] == [3000] and tools.list_sandboxes(app="law")["count"] == 1
    assert shell(tools, box, "echo $GITHUB_TOKEN $VERCEL_ORG_ID $VERCEL_TEAM_ID") == "ghp_of_the_shop team_shop team_shop\n"

    assert tools.read_sandbox_file(sandbox_id=box, path="/srv/shop/CLAUDE.md")["content"] == "This is a shop."
    assert tools.read_sandbox_file(sandbox_id=box, path="/home/user/.claude/CLAUDE.md")["content"] == "Answer in verse."
    assert "acceptEdits" in tools.read_sandbox_file(sandbox_id=box, path=".claude/settings.json")["content"]
    lines = shell(tools, box, "grep -h E2B_SANDBOX_ID ~/.profile ~/.bashrc").splitlines()
    assert lines == [f"export E2B_SANDBOX_ID={box}"] * 2
    assert "0" == shell(tools, box, "sudo grep -rl sk-ant-stand-in /home /srv /etc /root | wc -l").strip()


def test_a_conversation_goes_on_over_a_pause_and_begins_anew_when_asked(tools, box, model):
    first = prompt(tools, box, "hello there")
    assert first["result"].strip() == "turn 1: hello there"
    tools.pause_sandbox(sandbox_id=box)
    second = prompt(tools, box, "and again")
    assert second["result"].strip() == "turn 2: and again"
    assert second["session_id"] == first["session_id"]
    fresh = prompt(tools, box, "from the start", resume_session=False)
    assert fresh["result"].strip() == "turn 1: from the start"
    assert fresh["session_id"] != first["session_id"]
    assert set(model.keys) == {KEY}
    back = prompt(tools, box, "where were we", session_id=first["session_id"], anthropic_api_key_override="sk-ant-other-9876543210")
    assert back["result"].strip() == "turn 3: where were we" and model.keys[-1] == "sk-ant-other-9876543210"
    assert shell(tools, box, "ls ~/.claude/projects") == "-srv-shop\n"  # where it was made to work


def test_a_command_line_that_asks_to_be_updated_is_updated_once_and_asked_again(tools, box):
    shell(tools, box, "at=$(readlink -f $(command -v claude)); sudo tee $at >/dev/null <<'END'\n"
                      "#!/bin/sh\n"
                      "echo 'It looks like your version of Claude Code (1.0.0) needs an update.' >&2\n"
                      "exit 1\n"
                      "END")
    answer = prompt(tools, box, "are you new", resume_session=False)
    assert answer["updated"] and answer["result"].strip() == "turn 1: are you new"


def test_a_heartbeat_runs_the_script_that_the_model_wrote(tools, box, model):
    heart = tools.setup_sandbox_heartbeat(sandbox_id=box, task_description="look after the shop", suggested_interval="1 second",
                                          estimated_duration="1 minute", anthropic_api_key="sk-ant-heart-0123456789",
                                          command_timeout_seconds=120)
    assert model.keys[-1] == "sk-ant-heart-0123456789" and "sk-ant-heart" not in shell(tools, box, f"cat /proc/{heart['pid']}/environ")
    assert heart["script"] == "echo written by the model\n"
    until(lambda: "written by the model" in shell(tools, box, f"cat {heart['log_path']} || true"), "it beats")
    shell(tools, box, f"kill {heart['pid']}")


def test_a_heartbeat_goes_on_with_the_conversation_when_asked(tools, box, model):
    """The model sees what was said before only then."""
    prompt(tools, box, "remember the lighthouse", resume_session=False)
    for resume in (True, False):
        model.said.clear()
        heart = tools.setup_sandbox_heartbeat(sandbox_id=box, task="look after it", duration="1 second", resume_session=resume)
        assert any("remember the lighthouse" in text for text in model.said) is resume, heart


def test_what_the_command_line_says_of_a_failure_is_told(tools, box):
    answer = tools.send_sandbox_input(sandbox_id=box, action="claude_code", input="hello", resume_session=False,
                                      envs={"ANTHROPIC_BASE_URL": f"http://{API}/no-such-place", "CLAUDE_CODE_MAX_RETRIES": "0"})
    assert not answer["success"] and not answer["updated"]
    assert answer.get("result") or answer["stderr"] or answer["stdout"]


def test_a_model_that_cannot_be_reached_is_told_before_the_command_line_tries_for_minutes(tools, box):
    nowhere = {"ANTHROPIC_BASE_URL": f"http://{NOBODY}"}
    for call in (lambda: tools.send_sandbox_input(sandbox_id=box, input="hello", envs=nowhere),
                 lambda: tools.setup_sandbox_heartbeat(sandbox_id=box, task="look after the shop", envs=nowhere)):
        with pytest.raises(Refused, match="the model's API cannot be reached") as refusal:
            call()
        assert refusal.value.status == 502


def test_a_prompt_without_a_key_names_the_variable(tools, box):
    with pytest.raises(Refused, match="ANTHROPIC_API_KEY is not set") as refusal:
        tools.send_sandbox_input(sandbox_id=box, input="hello", envs={"ANTHROPIC_API_KEY": ""})
    assert refusal.value.status == 409


def test_a_working_directory_that_cannot_be_leaves_the_sandbox_and_tells(tools):
    made = tools.create_claude_code_sandbox(working_dir="/proc/none")
    assert not made["success"] and made["steps"][0]["name"] == "prepare" and not made["steps"][0]["success"]
    assert "anthropic_api_key" in made["note"]
    tools.kill_sandbox(sandbox_id=made["sandbox_id"])
    with pytest.raises(Refused, match="permissions_preset"):
        tools.create_claude_code_sandbox(permissions_preset="root")
