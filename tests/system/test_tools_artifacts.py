"""An agent that makes durable tools: code in a folder Code/ that is listed, changed and run, which uses an account through
an API shell and holds no key. From the first call to the last, by REST, MCP and the helper that agents import."""

import http.server
import importlib.util
import json
import threading

import httpx
import pytest
from catalogue import Refused
from daemon import running
from test_tools_texts import by_command_line, by_mcp, by_rest

KEY = "sk-mail-4f9Q2zL7bX4vK1mR8wT5y"
MAIL = "198.51.100.1"
INBOX = """import make_api_shell as make
from words import shown

def unread(input):
    found = make.call("mail", "/messages", query={"q": input["q"]})
    make.call("mail", "/labels", method="POST", header=[{"key": "X-Trace", "value": "7"}], body={"label": "seen"})
    return [shown(one) for one in found["messages"]]
"""
WORDS = "def shown(message):\n    return message['subject'].upper()\n"
NODE = """import make from "make_api_shell"
export const unread = async (input) =>
  (await make.call("mail", "/messages", { query: { q: input.q } })).messages.map((one) => one.subject)
"""


class Mail(http.server.BaseHTTPRequestHandler):
    """An account: it opens to its key alone."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        good = self.headers["Authorization"] == f"Bearer {KEY}"
        if good:
            self.server.seen.append((self.command, self.path, body.decode(), self.headers["X-Trace"]))
        said = {"messages": [{"subject": "hello"}, {"subject": "again"}]} if good else {"message": "no key"}
        text = json.dumps(said).encode()
        self.send_response(200 if good else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def mail():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mail)
    server.daemon_threads, server.seen = True, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def daemon(mail):
    with running("--egress-map", f"{MAIL}:80=127.0.0.1:{mail.server_port}") as daemon:
        shell = {"baseUrl": f"http://{MAIL}", "methods": ["GET", "POST"], "paths": ["/messages", "/labels"],
                 "header": {"name": "Authorization", "value": f"Bearer {KEY}"}}
        made = httpx.put(f"{daemon.url}/shells/mail", json=shell, headers={"X-API-Key": daemon.key})
        assert made.status_code == 200, made.text
        yield daemon


@pytest.fixture
def make(daemon, tmp_path, monkeypatch):
    """The helper as an agent gets it: from the service, without a key."""
    got = httpx.get(f"{daemon.url}/tools/make_api_shell.py")
    assert got.status_code == 200 and got.headers["content-type"].startswith("text/x-python")
    path = tmp_path / "make_api_shell.py"
    path.write_text(got.text)
    spec = importlib.util.spec_from_file_location("make_api_shell", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("E2B_API_URL", daemon.url)
    monkeypatch.setenv("E2B_API_KEY", daemon.key)
    return module


def test_the_pattern_works_as_it_is_written(make):
    make.write_code_artifact(
        "tools/calc.py",
        "print(17 * 23)\n",
        language="python",
        confirm=True,
    )
    assert make.run_code_artifact("tools/calc.py")["stdout"] == "391\n"
    assert make.read_code_artifact("Code/tools/calc.py")["content"] == "print(17 * 23)\n"
    assert [one["codePath"] for one in make.list_code_artifacts("Code/tools/")] == ["tools/calc.py"]
    assert make.list_code_artifacts("Code") == make.list_code_artifacts()
    with pytest.raises(make.ShellError, match="409: .*confirm: true"):
        make.write_code_artifact("Code/tools/calc.py", "print(1)\n")
    assert make.delete_code_artifact("knowledge/hermes/Code/tools/calc.py")["version"] == 1
    assert make.list_code_artifacts() == []


def test_artifacts_are_kept_by_whoever_holds_a_key(make, monkeypatch):
    monkeypatch.delenv("E2B_API_KEY")
    with pytest.raises(RuntimeError, match="code in a sandbox holds no key"):
        make.list_code_artifacts()


@pytest.mark.parametrize("face", [by_rest, by_mcp, by_command_line])
def test_an_agent_makes_a_tool_uses_an_account_changes_it_and_runs_it_again(daemon, mail, face):
    name = face.__name__
    def use(tool, **fields):
        return face(daemon, tool, fields)

    use("write_code_artifact", codePath=f"Code/{name}/words.py", content=WORDS)
    made = use("write_code_artifact", codePath=f"Code/{name}/inbox.py", content=INBOX, entrypoint="unread", description="Unread mail.")
    assert (made["codePath"], made["version"], made["language"]) == (f"{name}/inbox.py", 1, "python")
    listed = use("list_code_artifacts", prefix=f"Code/{name}/")["artifacts"]
    assert [one["codePath"] for one in listed] == [f"{name}/inbox.py", f"{name}/words.py"]
    assert use("run_code_artifact", codePath=f"{name}/inbox.py", mode="dry_run")["success"]

    mail.seen.clear()
    question = '{"q": "is:unread"}' if face is by_command_line else {"q": "is:unread"}
    ran = use("run_code_artifact", codePath=f"{name}/inbox.py", shells="mail", input=question)
    assert ran["result"] == ["HELLO", "AGAIN"], ran
    assert mail.seen == [("GET", "/messages?q=is%3Aunread", "", None), ("POST", "/labels", '{"label": "seen"}', "7")]

    use("write_code_artifact", codePath=f"{name}/words.py", content=WORDS.replace("upper", "title"), confirm="true")
    ran = use("run_code_artifact", codePath=f"Code/{name}/inbox.py", shells="mail", input=question)
    assert ran["result"] == ["Hello", "Again"] and use("read_code_artifact", codePath=f"{name}/words.py")["version"] == 2
    for path in ("inbox.py", "words.py"):
        use("delete_code_artifact", codePath=f"{name}/{path}")


def test_node_has_the_helper_too(tools, mail):
    tools.write_code_artifact(codePath="js/inbox.mjs", content=NODE, entrypoint="unread")
    ran = tools.run_code_artifact(codePath="js/inbox.mjs", input={"q": "is:unread"}, shells=["mail"])
    assert ran["result"] == ["hello", "again"], ran
    tools.delete_code_artifact(codePath="js/inbox.mjs")


def test_code_without_the_grant_is_told_so(tools):
    code = "import make_api_shell as make\ntry:\n    make.call('mail', '/messages')\nexcept make.ShellError as error:\n    print(error)"
    tools.write_code_artifact(codePath="plain.py", content=code)
    said = tools.run_code_artifact(codePath="plain.py")
    assert said["stdout"].startswith("403: ") and "mail" in said["stdout"], said
    tools.delete_code_artifact(codePath="plain.py")
    with pytest.raises(Refused, match="none-such"):
        tools.run_code(code="1", shells=["none-such"])


def test_a_path_that_the_shell_does_not_allow_is_refused(tools):
    code = "import make_api_shell as make\ntry:\n    make.call('mail', '/admin')\nexcept make.ShellError as error:\n    print(error)"
    said = tools.run_code(code=code, shells="mail")
    assert said["logs"]["stdout"][0].startswith("403: "), said


def test_code_in_one_call_uses_a_shell_and_sees_no_key(daemon, tools):
    code = ("import make_api_shell as make, os, json\n"
            "print(make.call('mail', '/messages')['messages'][0]['subject'])\n"
            f"print({KEY!r} in json.dumps(dict(os.environ)))")
    assert "".join(tools.run_code(code=code, shells=["mail"])["logs"]["stdout"]) == "hello\nFalse\n"
    node = "const make = require('make_api_shell'); make.call('mail', '/messages').then((a) => console.log(a.messages.length))"
    said = httpx.post(f"{daemon.url}/api/code/execute", headers={"X-API-Key": daemon.key}, timeout=300,
                      json={"language": "node", "code": node, "shells": "mail"}).json()
    assert said["stdout"] == "2\n", said


def test_a_key_in_an_artifact_is_refused_with_its_place_and_the_better_way(make, tools):
    with pytest.raises(make.ShellError) as refused:
        make.write_code_artifact("tools/leak.py", f"import os\nKEY = '{KEY}'\n")
    assert refused.value.status == 400
    assert refused.value.said.startswith('content: line 2 holds the key of the API shell "mail"; ')
    assert "call the API through an API shell" in refused.value.said
    assert tools.list_code_artifacts(prefix="tools/leak")["artifacts"] == []


def test_the_folder_lies_in_a_sandbox_to_be_listed_changed_and_run(tools):
    tools.write_code_artifact(codePath="tools/calc.py", content="print(17 * 23)\n", confirm=True)
    box = tools.create_sandbox(code_folder=True, shells=["mail"])["sandbox_id"]

    def shell(command):
        return tools.send_sandbox_input(sandbox_id=box, action="shell_command", input=command)["stdout"]

    assert tools.read_sandbox_file(sandbox_id=box, path="Code")["tree"] == "tools/\n  calc.py\n"
    assert shell("python3 Code/tools/calc.py") == "391\n"
    tools.write_sandbox_file(sandbox_id=box, path="Code/tools/calc.py", content="print(17 * 24)\n")
    assert shell("python3 Code/tools/calc.py") == "408\n"
    kept = tools.read_sandbox_file(sandbox_id=box, path="Code/tools/calc.py")["content"]
    assert tools.write_code_artifact(path="Code/tools/calc.py", code=kept, confirm=True)["version"] == 2
    assert shell("python3 -c 'import make_api_shell as m; print(len(m.call(\"mail\", \"messages\")[\"messages\"]))'") == "2\n"
    tools.kill_sandbox(sandbox_id=box)
    assert tools.run_code_artifact(codePath="tools/calc.py")["stdout"] == "408\n"
    tools.delete_code_artifact(codePath="tools/calc.py")
