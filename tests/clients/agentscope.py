"""AgentScope: its E2B workspace and the built-in tools over it.

initialize() also installs an MCP gateway, with an installer that it fetches from the internet. That part
is left out: the sandbox is taken and left as initialize() and close() do it."""

import os

from agentscope.tool import Bash, Edit, Read, Write
from agentscope.workspace._e2b import E2BWorkspace
from e2b import AsyncSandbox
from steps import async_step, run


def workspace():
    return E2BWorkspace(workspace_id=f"{os.environ['CLIENT_NAME']}-{os.getpid()}", timeout_seconds=120, env={"MADE": "yes"},
                        domain=os.environ.get("E2B_DOMAIN", ""))


def text(chunk):
    return "".join(block.text for block in chunk.content)


async def backend(space):
    shell = space._backend
    await space._ensure_workspace_layout()
    result = await shell.exec_shell(["sh", "-c", "echo $MADE; pwd; echo err >&2; exit 3"])
    assert (result.stdout, result.stderr, result.exit_code) == (b"yes\n/home/user/workspace\n", b"err\n", 3), result
    await shell.write_file("/home/user/workspace/data/deep/b", bytes(range(256)))
    assert await shell.read_file("/home/user/workspace/data/deep/b") == bytes(range(256))
    assert await shell.is_dir("/home/user/workspace/data/deep")
    assert await shell.list_dir("/home/user/workspace/data/deep") == ["b"]
    await shell.delete_path("/home/user/workspace/data/deep")
    assert not await shell.file_exists("/home/user/workspace/data/deep/b")
    try:
        await shell.read_file("/nowhere")
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("a missing file was read")


async def tools(space):
    shell = space._backend
    path = "/home/user/workspace/data/note.txt"
    await Write(backend=shell).call(path, "one\ntwo\n")
    await Read(backend=shell).call(path)
    await Edit(backend=shell).call(path, "two", "2")
    assert "2" in text(await Read(backend=shell).call(path))
    said = "".join([text(chunk) async for chunk in Bash(backend=shell).call(f"cat {path}; echo $((6 * 7))")])
    assert "one\n2\n42" in said, said
    limited = "".join([text(chunk) async for chunk in Bash(backend=shell).call("sleep 30", timeout=1000)])
    assert "tim" in limited.lower(), limited


async def again(space):
    """A workspace of the same id finds its sandbox, which was paused, by its metadata."""
    old = space.sandbox_id
    await space._teardown_backend()
    second = workspace()
    await second._provision_backend()
    assert second.sandbox_id == old, (second.sandbox_id, old)
    assert await second._backend.read_file("/home/user/workspace/data/note.txt") == b"one\n2\n"


async def main():
    space = workspace()
    if await async_step("create", space._provision_backend):
        sandbox_id = space.sandbox_id
        await async_step("backend: commands, files", backend, space)
        await async_step("tools: write, read, edit, bash, time limit", tools, space)
        await async_step("pause, found again by its metadata", again, space)
        await AsyncSandbox.kill(sandbox_id)


if __name__ == "__main__":
    run(main)
