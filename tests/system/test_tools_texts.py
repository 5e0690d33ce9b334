"""Inputs that workflow builders send as text, through every face of the catalogue: REST, MCP, the command line and the
document that builders import."""

import json
import subprocess

import httpx
import pytest
from catalogue import Catalogue, Refused
from daemon import PROGRAM

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "texts", "version": "1"}}}


def by_rest(daemon, name, fields):
    return Catalogue(daemon).call(name, fields)


def by_mcp(daemon, name, fields):
    headers = {"X-API-Key": daemon.key, "Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=daemon.url, headers=headers, timeout=300) as http:
        opened = http.post("/mcp", json=INITIALIZE)
        http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": name, "arguments": fields}}
        said = http.post("/mcp", json=call).text
    lines = [line.removeprefix("data: ") for line in said.splitlines() if line.startswith("data: ")] or [said]
    (answer,) = [message for message in map(json.loads, lines) if message.get("id") == 2]
    assert not answer["result"].get("isError"), answer
    return answer["result"]["structuredContent"]


def by_command_line(daemon, name, fields):
    words = [f"{field}={value}" for field, value in fields.items()]
    done = subprocess.run([PROGRAM, "tool", name, *words, "--data", str(daemon.data)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FACES = [by_rest, by_mcp, by_command_line]


@pytest.mark.parametrize("face", FACES)
def test_variables_labels_and_ports_may_be_texts(daemon, tools, face):
    made = face(daemon, "create_sandbox", {
        "template_alias": "", "envs_json": "A=1,B=two", "metadata": f"face={face.__name__},env=prod", "ports": "3000,8080",
        "timeout_seconds": "600", "allow_internet": "false", "github_token": ""})
    box = made["sandbox_id"]
    assert made["template_alias"] == "base" and [one["port"] for one in made["urls"]] == [3000, 8080]
    ran = face(daemon, "send_sandbox_input", {"sandbox_id": box, "action": "shell_command", "input": "echo $A $B $C",
                                              "envs": '{"C": "x,y"}'})
    assert ran["stdout"] == "1 two x,y\n"
    listed = face(daemon, "list_sandboxes", {"ids": f"{box}, none", "metadata": f"face={face.__name__}", "state": "running"})
    assert [row["sandbox_id"] for row in listed["sandboxes"]] == [box]
    tools.kill_sandbox(sandbox_id=box)


@pytest.mark.parametrize("face", FACES)
def test_commands_and_secrets_may_be_texts(daemon, tools, face):
    box = tools.create_sandbox()["sandbox_id"]
    done = face(daemon, "install_packages", {"sandbox_id": box, "commands": "echo one; echo two"})
    assert [one["output"] for one in done["results"]] == ["one\n", "two\n"]
    done = face(daemon, "install_packages", {"sandbox_id": box, "delimiter": "&&", "commands": "echo a; echo b && true"})
    assert [one["output"] for one in done["results"]] == ["a\nb\n", ""]
    guarded = face(daemon, "guard_output", {"text": "the password is hunter-two-42", "mode": "redact",
                                            "secrets": "other-secret-1,hunter-two-42"})
    assert guarded["text"] == "the password is [REDACTED]"
    tools.kill_sandbox(sandbox_id=box)


def test_permission_rules_may_be_texts_or_json(tools):
    with pytest.raises(Refused, match="permissions_preset"):  # the rules were understood, and nothing is started
        tools.create_claude_code_sandbox(permissions_preset="none", allow="Bash(make:*);Read(./a,b)", deny='["Bash(curl:*)"]')
    with pytest.raises(Refused, match=r"deny\[0\]: must be a string"):
        tools.create_claude_code_sandbox(permissions_preset="none", deny="[1]")


def test_packages_of_a_template_may_be_texts(tools):
    with pytest.raises(Refused, match=r"apt\[1\]: "):
        tools.build_template(alias="texts", apt="jq,--allow-downgrades", pip="six", npm="", commands="true; false")


@pytest.mark.parametrize("fields, words", [
    ({"envs": "A"}, "envs: 'A' is not NAME=VALUE"),
    ({"envs": "{A: 1}"}, "envs: is no valid JSON"),
    ({"ports": "3000,http"}, "ports[1]: must be an integer"),
    ({"timeout_seconds": "soon"}, "timeout_seconds: must be an integer"),
    ({"allow_internet": "perhaps"}, "allow_internet: must be a boolean"),
])
def test_a_text_that_has_none_of_the_forms_is_refused(tools, fields, words):
    with pytest.raises(Refused) as refusal:
        tools.create_sandbox(**fields)
    assert refusal.value.status == 400 and words in refusal.value.message


def test_the_document_for_builders_tells_the_forms(daemon):
    """Each list and each object has its type, and its description says how it is written as a text."""
    document = httpx.get(f"{daemon.url}/tools/openapi.json").json()
    told = 0
    for path, operations in document["paths"].items():
        body = operations["post"]["requestBody"]["content"]["application/json"]["schema"]
        for name, field in body["properties"].items():
            if field.get("type") in ("array", "object"):
                told += 1
                assert "As text: " in field["description"], (path, name)
    assert told > 40
    body = document["paths"]["/tools/create_sandbox"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "As text: A=1;B=2, A=1,B=2 or JSON." in body["properties"]["envs"]["description"]
    assert "As text: 3000,8080." in body["properties"]["ports"]["description"]
    assert "metadata_json" in body["properties"]["metadata"]["x-names"]


def test_one_call_takes_texts(daemon):
    said = httpx.post(f"{daemon.url}/api/code/execute", headers={"X-API-Key": daemon.key}, timeout=300, json={
        "language": "bash", "code": "echo $A-$B", "envs": "A=1,B=2", "packages": "", "timeout_seconds": "60"}).json()
    assert said["success"] and said["stdout"] == "1-2\n", said
