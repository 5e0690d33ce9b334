"""CrewAI: its three E2B tools, called as an agent calls them.

Not tried: `append` to a file that is there. The tool adds to the bytearray that the SDK read, and the SDK
refuses to write one, before it asks the server."""

import base64
import inspect

from crewai_tools import E2BExecTool, E2BFileTool, E2BPythonTool
from e2b_code_interpreter import Sandbox
from steps import Absent, interpreter_is_reached, run, step


def commands():
    """A sandbox for each call."""
    tool = E2BExecTool(envs={"MADE": "yes"}, metadata={"by": "crew"})
    result = tool.run(command="echo $MADE $GIVEN; pwd", cwd="/tmp", envs={"GIVEN": "too"})
    assert result["stdout"] == "yes too\n/tmp\n" and result["exit_code"] == 0, result


def persistent():
    tool = E2BExecTool(persistent=True)
    try:
        tool.run(command="echo kept > /tmp/note")
        assert tool.run(command="cat /tmp/note")["stdout"] == "kept\n"
    finally:
        tool.close()


def attached():
    """Files of a sandbox that another made, which outlives the tool."""
    sandbox = Sandbox.create("base", timeout=120)
    try:
        tool = E2BFileTool(sandbox_id=sandbox.sandbox_id)
        tool.run(action="mkdir", path="/home/user/dir")
        assert tool.run(action="write", path="/home/user/dir/a.txt", content="one\n")["bytes"] == 4
        assert tool.run(action="append", path="/home/user/dir/new.txt", content="two\n")["total_bytes"] == 4
        assert tool.run(action="read", path="/home/user/dir/a.txt")["content"] == "one\n"
        data = bytes(range(256))
        tool.run(action="write", path="/home/user/dir/b", content=base64.b64encode(data).decode(), binary=True)
        read = tool.run(action="read", path="/home/user/dir/b", binary=True)
        assert base64.b64decode(read["content"]) == data
        entries = tool.run(action="list", path="/home/user", depth=2)["entries"]
        assert {"a.txt", "b", "new.txt"} <= {entry["name"] for entry in entries}, entries
        info = tool.run(action="info", path="/home/user/dir/a.txt")
        assert (info["size"], info["owner"], info["permissions"]) == (4, "user", "-rw-r--r--"), info
        tool.run(action="delete", path="/home/user/dir")
        assert tool.run(action="exists", path="/home/user/dir") == {"path": "/home/user/dir", "exists": False}
        assert sandbox.is_running()
    finally:
        sandbox.kill()


def python():
    if not interpreter_is_reached(inspect.getmodule(Sandbox)):
        raise Absent
    tool = E2BPythonTool(persistent=True)
    try:
        tool.run(code="x = 41")
        result = tool.run(code="import os\nprint(os.environ['GIVEN'])\nx + 1", envs={"GIVEN": "too"})
        assert result["text"] == "42" and result["stdout"] == ["too\n"], result
        assert tool.run(code="1 / 0")["error"]["name"] == "ZeroDivisionError"
        assert tool.run(code="console.log(6 * 7)", language="javascript")["stdout"] == ["42\n"]
    finally:
        tool.close()


def main():
    step("commands", commands)
    step("one sandbox for many calls", persistent)
    step("files of a sandbox by its id", attached)
    step("run code", python)


if __name__ == "__main__":
    run(main)
