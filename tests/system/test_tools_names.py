"""Calls as they were written for the original Dify plugin: its names of tools, fields and values, through every face."""

import httpx
import pytest
from catalogue import Refused
from test_tools_commands import seconds_left
from test_tools_texts import FACES, INITIALIZE, by_mcp


def declared(daemon):
    """{tool: its input schema} as the service lists it."""
    listed = httpx.get(f"{daemon.url}/tools", headers={"X-API-Key": daemon.key}).json()["tools"]
    return {tool["name"]: tool["input_schema"] for tool in listed}


@pytest.mark.parametrize("face", FACES)
def test_a_sandbox_is_made_found_and_used_by_the_other_names(daemon, tools, face):
    made = face(daemon, "create_sandbox", {
        "template_alias": "", "envs_json": "DEBUG=true;NODE_ENV=development", "metadata_json": f"userId=u1;app={face.__name__}",
        "ports": "3000", "env_injection_scope": "sandbox_global", "timeout_preset": "600", "allow_internet_access": "false",
        "secure": "true", "github_token_override": "ghp_given", "github_username_override": "octocat",
        "vercel_token_override": "ccc", "vercel_org_id_override": "team_x", "vercel_project_id_override": "prj_x"})
    box = made["sandbox_id"]
    assert 500 < seconds_left(made) <= 600
    listed = face(daemon, "list_sandboxes", {
        "state_filter": "running", "sandbox_ids": f"{box},none", "metadata_user_id": "u1", "metadata_app": face.__name__,
        "metadata_custom": f"app={face.__name__}"})
    assert [row["sandbox_id"] for row in listed["sandboxes"]] == [box]
    said = face(daemon, "send_sandbox_input", {
        "sandbox_id": box, "action": "shell_command", "sandbox_timeout_seconds": "900", "timeout_preset": "300",
        "input_text": "echo $DEBUG $NODE_ENV $GITHUB_TOKEN $GITHUB_USER $VERCEL_TOKEN $VERCEL_ORG_ID $VERCEL_TEAM_ID $VERCEL_PROJECT_ID"})
    assert said["stdout"] == "true development ghp_given octocat ccc team_x team_x prj_x\n"
    assert 800 < seconds_left(said) <= 900  # the exact one wins over the preset
    face(daemon, "write_sandbox_file", {"sandbox_id": box, "file_path": "/home/user/p/.env", "content": "A=1\nB=2"})
    read = face(daemon, "read_sandbox_file", {"sandbox_id": box, "file_path": "/home/user/p", "include_hidden": "true",
                                              "max_files_content": "-1", "max_concurrent_reads": "50"})
    assert read["tree"] == ".env\n" and read["files"][0]["content"] == "A=1\nB=2"
    assert face(daemon, "kill_sandbox", {"sandbox_id": box})["killed"]


@pytest.mark.parametrize("face", FACES)
def test_a_session_is_used_by_the_other_names(daemon, box, face):
    started = face(daemon, "start_shell_session", {"sandbox_id": box, "cwd": "/tmp"})
    session = {"sandbox_id": box, "session_pid": str(started["pid"])}
    seen = face(daemon, "send_shell_session_input", {**session, "input_text": "pwd; stty size", "read_timeout_seconds": "30",
                                                     "max_output_chars": "1000"})
    assert "/tmp" in seen["output"] and "30 120" in seen["output"]
    assert face(daemon, "kill_shell_session", {**session, "timeout_preset": "3600"})["killed"]


@pytest.mark.parametrize("face", FACES)
def test_software_is_installed_by_the_other_names(daemon, box, face):
    commands = "echo one; echo more\necho two && echo three"
    done = face(daemon, "install_packages", {"sandbox_id": box, "custom_commands": commands, "custom_delimiter": "newline",
                                             "additional_preset_delimiter": "comma", "command_timeout_seconds": "60"})
    assert [one["output"] for one in done["results"]] == ["one\nmore\n", "two\nthree\n"]
    again = face(daemon, "install_packages", {"sandbox_id": box, "custom_commands": commands})
    assert [one["name"] for one in again["results"]] == [one["name"] for one in done["results"]]
    halves = face(daemon, "install_packages", {"sandbox_id": box, "custom_commands": "echo a, echo b", "custom_delimiter": "comma"})
    assert [one["output"] for one in halves["results"]] == ["a\n", "b\n"]


@pytest.mark.parametrize("face", FACES)
def test_secrets_are_given_with_names(daemon, face):
    for form in ("KEY=hunter-two-42;OTHER=x", '{"KEY": "hunter-two-42"}'):
        out = face(daemon, "guard_output", {"text": "the KEY is hunter-two-42", "mode": "redact", "additional_secrets": form})
        assert out["text"] == "the KEY is [REDACTED]"


def test_the_other_actions(tools, box):
    beat = tools.send_sandbox_input(sandbox_id=box, action="heartbeat")
    assert (beat["action"], beat["stdout"], beat["success"]) == ("keep_alive", "heartbeat\n", True)
    longer = tools.send_sandbox_input(sandbox_id=box, action="extend_lifecycle_1h", capture_session_id=True)
    assert longer["action"] == "extend_lifecycle" and "stdout" not in longer and seconds_left(longer) > 3500


def test_a_template_is_described_by_the_other_names(daemon, tools):
    built = tools.build_template(template_name="named", base_strategy="e2b_base_image", visibility="public", cpu_count=2,
                                 memory_mb=512, custom_dockerfile_commands="echo one > ~/one; echo two > ~/two")
    assert built["success"], built
    [row] = [row for row in tools.list_templates()["templates"] if "named" in row["aliases"]]
    assert (row["visibility"], row["cpu_count"], row["memory_mb"]) == ("public", 2, 512)
    again = tools.build_template(template_name="named", base_strategy="template_alias", base_template_alias="base",
                                 visibility="private", custom_dockerfile_commands="true")
    assert again["success"], again
    [row] = [row for row in tools.list_templates()["templates"] if "named" in row["aliases"]]
    assert row["visibility"] == "team"
    with pytest.raises(Refused, match=r"apt\[0\]: must not begin with -"):
        tools.build_template(template_name="x", apt_packages="-y", pip_packages="a", npm_packages="b", git_repositories="c")
    with pytest.raises(Refused, match="from: is required with base image"):
        tools.build_template(template_name="x", base_strategy="docker_image")


def test_names_of_tools_may_have_dashes(daemon):
    key = {"X-API-Key": daemon.key}
    assert httpx.post(f"{daemon.url}/tools/list-templates", headers=key).json()["count"] > 0
    assert by_mcp(daemon, "list-templates", {})["count"] > 0
    assert httpx.post(f"{daemon.url}/tools/list-templates-", headers=key).status_code == 404


def test_no_name_is_taken_twice(daemon):
    for name, schema in declared(daemon).items():
        names = list(schema["properties"]) + schema.get("x-unused", [])
        for field in schema["properties"].values():
            names += field.get("x-names", [])
        assert len(names) == len(set(names)), name


def test_every_other_name_is_understood(daemon):
    """What came by another name is told by the field's own: with a value that no field takes."""
    key = {"X-API-Key": daemon.key}
    for name, schema in declared(daemon).items():
        for field, about in schema["properties"].items():
            for other in about.get("x-names", []):
                said = httpx.post(f"{daemon.url}/tools/{name}", json={other: [[]]}, headers=key).json()["message"]
                assert field in said and "there is no such field" not in said, (name, other, said)


def test_models_are_shown_plain_schemas(daemon):
    """The makers of some models refuse a tool whose schema has words that JSON Schema has not."""
    headers = {"X-API-Key": daemon.key, "Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=daemon.url, headers=headers) as http:
        http.headers["Mcp-Session-Id"] = http.post("/mcp", json=INITIALIZE).headers["mcp-session-id"]
        listed = http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).text
    assert '"create_sandbox"' in listed and '"x-' not in listed
