"""agno: E2BTools, called as an agent's model would call them.

Not tried, because they cannot work with any server: watch_directory calls get_change() of the SDK's
watch, download_file_from_sandbox writes text into a binary file, list_running_sandboxes iterates over a
paginator, get_sandbox_status reads an attribute that SDKs 2 do not have."""

import json
import os
import tempfile
from pathlib import Path

import httpx
from agno.agent import Agent
from agno.tools.e2b import E2BTools
from steps import run, step


def code(tools):
    assert "42" in tools.run_python_code("x = 41\nprint('printed')\nx + 1")
    assert "ZeroDivisionError" in tools.run_python_code("1 / 0")
    assert "[1, 41]" in tools.run_python_code("[1, x]"), "the variable is gone"


def chart(tools):
    agent = Agent()
    tools.run_python_code("import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.title('Bars')\nplt.show()")
    with tempfile.TemporaryDirectory() as place:
        picture = tools.download_png_result(agent, 0, f"{place}/chart.png")
        assert Path(place, "chart.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n", picture
        result = tools.last_execution.results[0]
        assert result.chart.type.value == "bar" and result.chart.title == "Bars", result.chart


def files(tools):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("up")
        file.flush()
        assert tools.upload_file(file.name, "/home/user/up.txt") == "/home/user/up.txt"
    assert tools.write_file_content("/home/user/dir/note.txt", "kept \u00e9") == "/home/user/dir/note.txt"
    assert tools.read_file_content("/home/user/dir/note.txt") == "kept \u00e9"
    listing = tools.list_files("/home/user")
    assert "up.txt (File, 2 bytes)" in listing, listing
    assert json.loads(tools.read_file_content("/nowhere"))["status"] == "error"


def commands(tools):
    assert "STDOUT:\\nout" in tools.run_command("echo out; echo err >&2")
    assert json.loads(tools.run_command("exit 3"))["status"] == "error"
    assert "STDERR: late" in tools.stream_command("echo early; sleep 0.2; echo late >&2")
    background = tools.run_background_command("sleep 60")
    assert tools.kill_background_command(background) == "Background command terminated successfully."


def server(tools):
    url = tools.run_server("python3 -m http.server 8000 --bind 127.0.0.1 --directory /home/user/dir", 8000)
    assert url == tools.get_public_url(8000)
    tools.run_command("until curl -s localhost:8000 >/dev/null; do sleep 0.1; done")
    if os.environ.get("E2B_DOMAIN"):  # by URLs there is no name for a port
        answer = httpx.get(url.replace("http:", "https:") + "/note.txt", verify=os.environ["SSL_CERT_FILE"])
        assert answer.text == "kept \u00e9", answer


def lifetime(tools):
    assert tools.set_sandbox_timeout(200) == "200"
    assert json.loads(tools.shutdown_sandbox())["content"] is True
    assert json.loads(tools.run_command("true"))["status"] == "error"


def main():
    tools = E2BTools(timeout=120)
    step("run code", code, tools)
    step("chart", chart, tools)
    step("files", files, tools)
    step("commands", commands, tools)
    step("server on a port", server, tools)
    step("timeout, shutdown", lifetime, tools)


if __name__ == "__main__":
    run(main)
