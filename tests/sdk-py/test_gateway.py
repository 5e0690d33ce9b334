"""The SDK's `mcp` option: real MCP servers from npm and PyPI in one gateway, asked by the official MCP client."""

import json
import shlex
import uuid
from contextlib import asynccontextmanager

import httpx
import httpx2
import pytest
from conftest import TIMEOUT_S
from e2b import AsyncSandbox, Sandbox, SandboxException, SandboxQuery, Template
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

SERVERS = {
    "filesystem": {"paths": ["/home/user"]},
    "memory": {},
    "sequentialthinking": {},
    "everything": {},
    "time": {},  # from PyPI
}


@pytest.fixture(scope="module")
def template(gateway_template):
    """Its servers are installed once, as `add_mcp_server` does it."""
    alias = f"gateway-{uuid.uuid4().hex[:8]}"
    Template.build(Template().from_template("mcp-gateway").add_mcp_server(list(SERVERS)), alias)
    return alias


@pytest.fixture(scope="module")
def sandbox(template):
    sandbox = Sandbox.create(template, mcp=SERVERS, timeout=TIMEOUT_S)
    yield sandbox
    sandbox.kill()


def headers(token):
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def connected(sandbox, **options):
    """By get_mcp_url() as it is: `atoll env` has told whom to trust."""
    http = httpx2.AsyncClient(headers=headers(sandbox.get_mcp_token()), timeout=60)
    async with http, Client(streamable_http_client(sandbox.get_mcp_url(), http_client=http), **options) as client:
        yield client


def text_of(result):
    assert not result.is_error, result
    return result.content[0].text


@pytest.mark.asyncio
async def test_tools_of_all_servers_are_listed(sandbox):
    async with connected(sandbox) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert names >= {
        "filesystem-read_text_file", "memory-create_entities", "sequentialthinking-sequentialthinking",
        "everything-echo", "time-get_current_time",
    }  # fmt: skip


@pytest.mark.asyncio
async def test_tools_of_all_servers_are_called(sandbox):
    async with connected(sandbox) as client:
        written = {"path": "/home/user/note.txt", "content": "from a tool"}
        await client.call_tool("filesystem-write_file", written)
        entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
        await client.call_tool("memory-create_entities", {"entities": [entity]})
        assert "wrote programs" in text_of(await client.call_tool("memory-read_graph", {}))
        thought = {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
        assert "thoughtNumber" in text_of(await client.call_tool("sequentialthinking-sequentialthinking", thought))
        assert text_of(await client.call_tool("everything-echo", {"message": "hi"})) == "Echo: hi"
        assert "datetime" in text_of(await client.call_tool("time-get_current_time", {"timezone": "UTC"}))
    # The file is the user's, not root's: what the SDK does next can change it.
    assert sandbox.files.read("/home/user/note.txt") == "from a tool"
    sandbox.commands.run("echo more >>/home/user/note.txt")


@pytest.mark.asyncio
async def test_progress_prompts_and_resources(sandbox):
    seen = []

    async def progress(done, total, message):
        seen.append((done, total))

    async with connected(sandbox) as client:
        arguments = {"duration": 0.4, "steps": 4}
        name = "everything-trigger-long-running-operation"
        text_of(await client.call_tool(name, arguments, progress_callback=progress))
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert "everything-simple-prompt" in prompts
        assert (await client.get_prompt("everything-simple-prompt")).messages
        resources = [each for each in (await client.list_resources()).resources if each.name.startswith("everything-")]
        assert (await client.read_resource(resources[0].uri)).contents


@pytest.mark.asyncio
async def test_inside_the_sandbox_it_is_on_localhost(sandbox):
    token = sandbox.files.read("/etc/mcp-gateway/.token", user="root")
    assert token == sandbox.get_mcp_token()
    command = f"curl -s -o /dev/null -w '%{{http_code}}' -H 'Authorization: Bearer {token}' localhost:50005/mcp"
    assert sandbox.commands.run(command).stdout == "400"  # there, and asks for a session


def test_a_server_at_an_address_is_reached_through_mcp_remote(sandbox):
    """As the catalogue does it for servers of the internet; here the address is that of the gateway itself."""
    header = f"Authorization: Bearer {sandbox.get_mcp_token()}"
    words = ["http://localhost:50005/mcp", "--transport", "http-only", "--allow-http", "--header", header]
    config = json.dumps({"far": {"npm": "mcp-remote", "args": words}})
    places = "--listen 127.0.0.1:50006 --token-file /tmp/far.token --log /tmp/far.log"
    sandbox.commands.run(f"mcp-gateway --config {shlex.quote(config)} {places}", user="root", timeout=TIMEOUT_S)
    log = sandbox.files.read("/tmp/far.log", user="root")
    assert "installing" not in log and "far: up, with" in log


def test_the_token_is_found_again_by_another_client(sandbox):
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.get_mcp_token() == sandbox.get_mcp_token()


@pytest.mark.parametrize("token", ["x", "wrong"])
def test_a_wrong_token(sandbox, token):
    answer = httpx.post(sandbox.get_mcp_url(), headers=headers(token), json={})
    assert answer.status_code == 401


@pytest.mark.asyncio
async def test_it_goes_on_after_a_pause(sandbox):
    async with connected(sandbox) as client:
        await client.call_tool("everything-echo", {"message": "before"})
    sandbox.pause()
    sandbox.connect()
    async with connected(sandbox) as client:
        assert text_of(await client.call_tool("everything-echo", {"message": "after"})) == "Echo: after"


def test_servers_of_the_template_need_no_network(gateway_template):
    """Their packages are in the template: nothing is installed."""
    servers = {"filesystem": {"paths": ["/home/user"]}, "memory": {}, "time": {}}
    with Sandbox.create(mcp=servers, allow_internet_access=False, timeout=TIMEOUT_S) as sandbox:
        log = sandbox.files.read("/var/log/mcp-gateway/gateway.log", user="root")
    assert "installing" not in log
    assert all(f"{name}: up, with" in log for name in servers)


FAILURES = {
    "unknown": ({"invalid_server": {}}, "unknown MCP server invalid_server"),
    "a field": ({"filesystem": {}}, "filesystem.paths is needed"),
    "a wrong field": ({"slack": {"token": "x"}}, "slack has no field token, but: botToken"),
    "no package": ({"githubOfficial": {"githubPersonalAccessToken": "x"}},
                   "githubOfficial needs the program github-mcp-server"),
    "failing": ({"bad": {"command": "sh", "args": ["-c", "echo no license >&2; exit 3"]}},
                "the MCP server bad ended with status 3; it wrote:\nno license"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_a_gateway_that_cannot_start_says_why(gateway_template, case):
    config, sentence = FAILURES[case]
    metadata = {"case": uuid.uuid4().hex}
    with pytest.raises(SandboxException, match="Failed to start MCP gateway: mcp-gateway: ") as failed:
        Sandbox.create(mcp=config, metadata=metadata, timeout=TIMEOUT_S)
    assert sentence in str(failed.value)
    assert not Sandbox.list(query=SandboxQuery(metadata=metadata)).next_items()


@pytest.mark.asyncio
async def test_servers_are_installed_when_they_are_asked_for(gateway_template):
    sandbox = await AsyncSandbox.create(mcp={"notes": {"npm": "@modelcontextprotocol/server-memory"}}, timeout=TIMEOUT_S)
    try:
        assert len(await sandbox.get_mcp_token()) == 36
        log = await sandbox.files.read("/var/log/mcp-gateway/gateway.log", user="root")
        assert "notes: up, with 9 tools" in log
    finally:
        await sandbox.kill()
