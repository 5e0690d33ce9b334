"""The MCP servers that the gateway knows by name: those of the SDK's types, and what each of them does."""

import json
import os
import shlex
import subprocess
import sys
import typing

import httpx
import pytest
from daemon import ROOT, Daemon, until
from e2b import CommandExitException, Sandbox
from e2b.sandbox import mcp
from gateway import SERVER, Gateway
from mcp_tries import CATALOGUE, config, servers, try_all

KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list[str]: "strings"}
LIFE_S = 4 * 3600
TEMPLATE_S = 1800

catalogue = json.loads(CATALOGUE.read_text())


def of_type(hint):
    """Our word for a type of the SDK's, and whether it may be left out."""
    optional = typing.get_origin(hint) is typing.NotRequired
    return KINDS[typing.get_args(hint)[0] if optional else hint], optional


def fields_of_sdk(hint):
    """The fields of a server, by name; one without fields is a plain dict."""
    (kind,) = typing.get_args(hint)
    return {} if typing.get_origin(kind) is dict else typing.get_type_hints(kind, include_extras=True)


OF_SDK = {name: fields_of_sdk(hint) for name, hint in typing.get_type_hints(mcp.McpServer, include_extras=True).items()}


def test_the_catalogue_has_every_name_of_the_sdk():
    assert len(OF_SDK) >= 265
    assert set(OF_SDK) - set(catalogue) == set()


def test_the_catalogue_has_every_field_of_the_sdk():
    """What the SDK's types accept is accepted: no field is missing, has another type, or is asked for."""
    for name, fields in OF_SDK.items():
        ours = catalogue[name].get("fields", {})
        assert set(ours) == set(fields), name
        for field, hint in fields.items():
            kind, optional = of_type(hint)
            assert ours[field].rstrip("?") == kind, f"{name}.{field}"
            assert ours[field].endswith("?") or not optional, f"{name}.{field}"


def test_the_page_tells_of_every_server():
    subprocess.run([ROOT / "tools" / "mcp-page", "--check"], check=True)


def test_servers_without_a_package_say_what_they_need(tmp_path):
    without = {name: entry for name, entry in catalogue.items() if "repository" in entry}
    assert without
    for name, entry in without.items():
        done = Gateway(tmp_path, {name: config(name, entry)}).done
        need = "needs the program " + entry["command"] if "command" in entry else "is known as a Docker image alone"
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"mcp-gateway: {name} {need}"), done.stderr
        assert entry["repository"] in done.stderr
        assert done.stderr.count("\n") == 1 and "..." not in done.stderr


def test_a_server_without_a_package_runs_when_its_program_is_there(tmp_path):
    """As in a template of one's own that has it: arguments and variables are the catalogue's."""
    program = tmp_path / "bin" / "github-mcp-server"
    program.parent.mkdir()
    serve = shlex.join([sys.executable, str(SERVER), "official"])
    program.write_text(f'#!/bin/sh\n[ "$1 $GITHUB_PERSONAL_ACCESS_TOKEN" = "stdio t" ] || exit 9\nexec {serve}\n')
    program.chmod(0o755)
    asked = {"githubOfficial": {"githubPersonalAccessToken": "t"}}
    gateway = Gateway(tmp_path, asked, env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    try:
        assert gateway.done.returncode == 0, gateway.done.stderr
        assert all(tool.startswith("github-official-") for tool in gateway.session().names())
    finally:
        gateway.stop()


def test_a_wrong_field_is_answered_with_the_valid_ones(tmp_path):
    for name, entry in catalogue.items():
        done = Gateway(tmp_path, {name: {"wrong": 1}}).done
        have = " ".join(entry.get("fields", {}))
        assert done.returncode == 1
        assert done.stderr == f"mcp-gateway: {name} has no field wrong, {'but: ' + have if have else 'and no other'}\n"


# ---- every server of npm and PyPI, for real ----


@pytest.fixture(scope="module")
def sandbox():
    daemon = Daemon("--with-templates", "mcp-gateway")
    daemon.start()
    asked = {"headers": {"X-API-Key": daemon.key}, "timeout": 60}
    address = f"{daemon.url}/templates/aliases/mcp-gateway"
    until(lambda: httpx.get(address, **asked).status_code == 200, "the template is there", TEMPLATE_S)
    made = Sandbox.create("mcp-gateway", timeout=LIFE_S, **daemon.sdk)
    yield made
    made.kill()
    daemon.remove()


@pytest.mark.long
def test_every_server_is_tried(sandbox):
    """The outcomes go to build/mcp-tries.json, and from there to the page (tools/mcp-page --write)."""

    def run(command, timeout_s):
        try:
            done = sandbox.commands.run(command, user="root", timeout=timeout_s)
        except CommandExitException as failed:
            done = failed
        return done.exit_code, done.stdout + done.stderr

    tries = try_all(run)
    (ROOT / "build" / "mcp-tries.json").write_text(json.dumps(tries, indent=1, sort_keys=True))
    assert set(tries) == set(servers())
    without = [name for name, entry in servers().items() if "asks" not in entry]
    assert sum("tools" in tries[name] for name in without) > len(without) * 3 // 4, tries
