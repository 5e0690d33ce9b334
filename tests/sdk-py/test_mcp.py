"""The official MCP client for Python: it speaks the newest revision by itself, and the ones with
sessions when it is told to."""

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from conftest import API_KEY, API_URL
from e2b import Sandbox
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

PROGRAM = str(Path(os.environ["ATOLL_BUILD"]) / "atoll")
REVISIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@asynccontextmanager
async def connected(transport, mode, query=""):
    if transport == "http":
        async with httpx2.AsyncClient(headers={"X-API-Key": API_KEY}, timeout=60) as http:
            async with Client(streamable_http_client(f"{API_URL}/mcp{query}", http_client=http), mode=mode) as client:
                yield client
    else:
        keys = {"E2B_API_KEY": API_KEY, "E2B_API_URL": API_URL}
        server = StdioServerParameters(command=PROGRAM, args=["mcp"], env=keys)
        async with Client(stdio_client(server), mode=mode) as client:
            yield client


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


def sandboxes():
    return {info.sandbox_id for info in Sandbox.list().next_items()}


async def gone(before):
    with anyio.fail_after(30):
        while await asyncio.to_thread(sandboxes) != before:
            await anyio.sleep(0.05)


@pytest.mark.parametrize("mode", REVISIONS)
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_it_lists_and_calls(transport, mode, own_sandbox):
    async with connected(transport, mode) as client:
        assert client.protocol_version == REVISIONS[mode]
        assert client.server_info.name == "atoll" and "sandbox" in client.instructions
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "read_sandbox_file" in names and len(names) == len(set(names))
        box = own_sandbox.sandbox_id
        await call(client, "write_sandbox_file", sandbox_id=box, path="note", content="kept")
        assert own_sandbox.files.read("note") == "kept"
        result = await client.call_tool("read_sandbox_file", {"sandbox_id": box, "path": "missing"})
        assert result.is_error and "missing" in result.content[0].text


@pytest.mark.parametrize("transport, mode", [("http", "legacy"), ("stdio", "legacy"), ("stdio", "auto")])
async def test_a_session_has_a_sandbox_of_its_own(transport, mode):
    before = sandboxes()
    async with connected(transport, mode) as client:
        await call(client, "write_sandbox_file", path="note", content="kept")
        assert (await call(client, "read_sandbox_file", path="note"))["content"] == "kept"
        assert len(sandboxes() - before) == 1
    await gone(before)


async def test_without_a_session_the_sandbox_must_be_named_or_bound(own_sandbox):
    async with connected("http", "auto") as client:
        result = await client.call_tool("read_sandbox_file", {"path": "note"})
        assert result.is_error and "sandbox_id" in result.content[0].text
    async with connected("http", "auto", f"?sandbox_id={own_sandbox.sandbox_id}") as client:
        await call(client, "write_sandbox_file", path="note", content="bound")
    assert own_sandbox.files.read("note") == "bound" and own_sandbox.is_running()


@pytest.mark.parametrize("mode", REVISIONS)
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_progress_and_cancellation(transport, mode, own_sandbox):
    box, told = own_sandbox.sandbox_id, []

    async def progress(done, total, message):
        told.append((done, message))

    def running():
        return any("sleep 302" in " ".join(p.args) for p in own_sandbox.commands.list())

    async with connected(transport, mode) as client:
        arguments = {"sandbox_id": box, "commands": ["sleep 1", "true"]}
        result = await client.call_tool("install_packages", arguments, progress_callback=progress)
        assert not result.is_error
        assert told and all(a[0] < b[0] for a, b in zip(told, told[1:]))

        slow = {"sandbox_id": box, "action": "shell_command", "input": "sleep 302"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "send_sandbox_input", slow)
            with anyio.fail_after(30):
                while not await asyncio.to_thread(running):
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(30):
            while await asyncio.to_thread(running):
                await anyio.sleep(0.05)
