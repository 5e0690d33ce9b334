"""LangChain's Deep Agents: the E2B backend, its file tools, sync and async, and an agent with a fake model."""

import e2b
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_e2b import AsyncE2BSandbox, E2BSandbox
from steps import async_step, run, step


class Answers(GenericFakeChatModel):
    """LangChain's fake model, which takes tools."""

    def bind_tools(self, tools, **_):
        return self


def commands(backend):
    result = backend.execute("echo out; echo err >&2; pwd; exit 3")
    assert result.exit_code == 3 and result.output == "out\n/home/user\n\nerr\n", result
    assert backend.execute("sleep 30", timeout=1).exit_code == 124


def files(backend):
    assert backend.write("/home/user/dir/a.txt", "one\ntwo\nthree\n").error is None
    assert "two" in str(backend.read("/home/user/dir/a.txt", offset=1, limit=1))
    assert backend.edit("/home/user/dir/a.txt", "two", "2").error is None
    assert [entry["path"] for entry in backend.ls("/home/user/dir").entries] == ["/home/user/dir/a.txt"]
    assert [match["line"] for match in backend.grep("thr", "/home/user/dir").matches] == [3]
    assert len(backend.glob("*.txt", "/home/user/dir").matches) == 1
    [up] = backend.upload_files([("/home/user/bytes", bytes(range(256)))])
    assert up.error is None, up
    good, missing, directory = backend.download_files(["/home/user/bytes", "/nowhere", "/home/user/dir"])
    assert good.content == bytes(range(256))
    assert (missing.error, directory.error) == ("file_not_found", "is_directory"), (missing, directory)


def agent(backend):
    def call(name, **arguments):
        return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])

    model = Answers(messages=iter([
        call("write_file", file_path="/home/user/task.py", content="print(6 * 7)\n"),
        call("execute", command="python3 task.py"),
        AIMessage("It is 42.")]))
    said = create_deep_agent(model=model, backend=backend).invoke({"messages": [("user", "go")]})["messages"]
    [result] = [message.content for message in said if message.type == "tool" and message.name == "execute"]
    assert result.startswith("42"), result


async def asynchronous():
    sandbox = await e2b.AsyncSandbox.create(timeout=120)
    try:
        backend = AsyncE2BSandbox(sandbox=sandbox)
        assert (await backend.aexecute("echo out")).output == "out\n"
        assert (await backend.awrite("/home/user/b.txt", "x" * 300_000)).error is None
        assert (await backend.aedit("/home/user/b.txt", "x" * 300_000, "y" * 300_000)).error is None
        [down] = await backend.adownload_files(["/home/user/b.txt"])
        assert down.content == b"y" * 300_000
        assert len((await backend.agrep("yyy", "/home/user")).matches) == 1
        assert len((await backend.aglob("*.txt", "/home/user")).matches) == 1
    finally:
        await sandbox.kill()


async def main():
    sandbox = e2b.Sandbox.create(timeout=120)
    backend = E2BSandbox(sandbox=sandbox)
    try:
        step("commands, exit code, timeout", commands, backend)
        step("write, read, edit, list, grep, glob, upload, download", files, backend)
        step("agent that writes a program and runs it", agent, backend)
    finally:
        sandbox.kill()
    await async_step("the async backend", asynchronous)


if __name__ == "__main__":
    run(main)
