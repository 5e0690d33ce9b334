"""The MCP gateway's program: configurations, servers that fail, names, what is passed on, bad clients."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from gateway import PROGRAM, ROOT, TOKEN, Gateway, Session, events, server

NOW = "2026-07-28"
META = "io.modelcontextprotocol/"
LIMIT_S = 60


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """Two servers of one kind, and one that greets before it speaks JSON."""
    config = {
        "first": server("first", envs={"FOO": "bar"}),
        "second": server("second"),
        "noisy": server("noisy", "greet"),
    }
    gateway = Gateway(tmp_path_factory.mktemp("gateway"), config)
    assert (gateway.done.returncode, gateway.done.stderr) == (0, ""), gateway.done.stderr
    yield gateway
    gateway.stop()


@pytest.fixture
def session(gateway):
    return gateway.session()


@pytest.fixture
def start(tmp_path):
    """Starts a gateway of the test's own; it need not come up."""
    made = []

    def make(config, *options, **more):
        made.append(Gateway(tmp_path / str(len(made)), config, *options, **more))
        return made[-1]

    yield make
    for gateway in made:
        gateway.stop()


def text_of(result):
    return result["content"][0]["text"]


# ---- its start ----


def test_the_token_is_where_the_sdk_reads_it(gateway):
    assert gateway.token_file.read_text() == TOKEN
    assert gateway.token_file.stat().st_mode & 0o777 == 0o600


def test_a_token_is_drawn_when_none_is_given(start):
    gateway = start({"a": server("a")}, env={"GATEWAY_ACCESS_TOKEN": ""})
    assert gateway.done.returncode == 0
    token = gateway.token_file.read_text()
    assert len(token) == 36
    assert gateway.request(token="").status == 401
    assert gateway.request(message="{}", token=token).status == 400


BAD = {
    "no JSON": ("{", "the configuration is no JSON: "),
    "no object": ("[1]", "the configuration must be an object of 1 to 64 servers"),
    "no server": ("{}", "the configuration must be an object of 1 to 64 servers"),
    "unknown": ({"invalid_server": {}}, "unknown MCP server invalid_server: it is not in the catalogue"),
    "not an object": ({"memory": []}, "memory must be an object"),
    "a missing field": ({"filesystem": {}}, "filesystem.paths is needed"),
    "an empty field": ({"exa": {"apiKey": ""}}, "exa.apiKey is needed"),
    "a wrong type": ({"filesystem": {"paths": "/"}}, "filesystem.paths must be an array of strings"),
    "an unknown field": ({"memory": {"size": 1}}, "memory has no field size, and no other"),
    "a name of the catalogue": ({"memory": {"npm": "mine"}}, "memory is a name of the catalogue and takes no npm"),
    "a strange name": ({"../x": {"command": "true"}}, "../x is no name of a server"),
    "two sources": ({"x": {"npm": "a", "command": "b"}}, "x may give one of npm, pypi and command"),
    "bad arguments": ({"x": {"command": "a", "args": [1]}}, "x.args[0] must be a string"),
    "bad variables": ({"x": {"command": "a", "envs": {"A": 1}}}, "x.envs.A must be"),
    "no repository": ({"github/x": {"runCmd": "a"}}, "github/x is no repository"),
    "a path for one": ({"github/../x": {"runCmd": "a"}}, "github/../x is no repository"),
    "no command": ({"github/a/b": {}}, "github/a/b.runCmd is needed"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_configuration_is_refused_with_its_place(start, case):
    config, sentence = BAD[case]
    done = start(config).done
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"mcp-gateway: {sentence}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_a_server_that_fails_is_told_with_its_last_words(start):
    gateway = start({"good": server("good"), "bad": server("bad", "fail")})
    assert gateway.done.returncode == 1
    assert gateway.done.stderr == (
        "mcp-gateway: the MCP server bad ended with status 7; it wrote:\nthis server has no license\n"
    )
    assert not gateway.token_file.exists()


def test_a_command_that_does_not_exist(start):
    done = start({"bad": {"command": "/nowhere/at/all"}}).done
    assert done.returncode == 1
    assert "the MCP server bad could not be started: start /nowhere/at/all" in done.stderr


def test_a_server_that_is_silent_is_not_waited_for_without_end(start):
    done = start({"good": server("good"), "mute": server("mute", "silent")}, "--wait", "2").done
    assert done.returncode == 1
    assert done.stderr == (
        "mcp-gateway: after 2 s these MCP servers were not up: mute; it wrote:\nconnecting to nowhere\n"
    )


def test_a_port_that_is_taken(gateway, start):
    done = start({"a": server("a")}, "--listen", f"127.0.0.1:{gateway.port}").done
    assert done.returncode == 1
    assert str(gateway.port) in done.stderr


def test_nothing_is_left_when_the_starter_is_killed(tmp_path):
    mark = f"mute-{os.getpid()}-{time.monotonic_ns()}"
    command = [
        PROGRAM, "--config", json.dumps({"mute": server(mark, "silent")}), "--listen", "127.0.0.1:0",
        "--catalogue", ROOT / "templates/mcp-gateway/catalogue.json", "--root", tmp_path / "root",
        "--token-file", tmp_path / "token", "--log", tmp_path / "log",
    ]  # fmt: skip
    starter = subprocess.Popen(command)
    until(lambda: running(mark) == 1, "the server runs")
    starter.kill()
    starter.wait()
    until(lambda: running(mark) == 0, "the server is gone")


def running(mark):
    """Test servers of this name."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        count += len(words) > 2 and words[2] == mark.encode()
    return count


def until(check, what):
    deadline = time.monotonic() + LIMIT_S
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


# ---- what is passed on ----


def test_tools_of_all_servers_have_their_names(session):
    names = session.names()
    assert len(names) == 24
    assert [name for name in names if name.endswith("-echo")] == ["first-echo", "second-echo", "noisy-echo"]


def test_a_call_reaches_its_server_under_its_own_name(session):
    said = json.loads(text_of(session.call("second-echo", text="hello")))
    assert (said["name"], said["text"], said["foo"]) == ("second", "hello", None)
    said = json.loads(text_of(session.call("first-echo", text="x")))
    assert (said["name"], said["foo"]) == ("first", "bar")


def test_servers_do_not_see_the_token(session):
    assert json.loads(text_of(session.call("first-echo")))["token"] is None


def test_what_the_gateway_says_of_itself(session):
    assert session.about["serverInfo"]["name"] == "mcp-gateway"
    assert session.about["capabilities"] == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "logging": {},
        "completions": {},
    }
    assert session.about["instructions"] == (
        "first: this is first\n\nsecond: this is second\n\nnoisy: this is noisy"
    )


@pytest.mark.parametrize("asked,answered", [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")])
def test_the_version_of_the_protocol_is_agreed(gateway, asked, answered):
    assert Session(gateway, asked).about["protocolVersion"] == answered


def test_prompts(session):
    assert session.names("prompts") == ["first-greet", "second-greet", "noisy-greet"]
    got = session.ask("prompts/get", name="second-greet", arguments={"who": "you"})
    assert got["messages"][0]["content"]["text"] == "second greets you with greet"


def test_resources_keep_their_addresses(session):
    resources = session.ask("resources/list")["resources"]
    assert resources[1] == {"uri": "test://second/one", "name": "second-one"}
    for uri in ["test://second/one", "test://second/number/7"]:
        read = session.ask("resources/read", uri=uri)
        assert read["contents"][0]["text"] == f"second has {uri}"


def test_completions_go_to_their_server(session):
    argument = {"name": "who", "value": ""}
    ref = {"type": "ref/prompt", "name": "second-greet"}
    values = session.ask("completion/complete", ref=ref, argument=argument)["completion"]["values"]
    assert values == ["second:greet"]
    ref = {"type": "ref/resource", "uri": "test://first/number/{id}"}
    values = session.ask("completion/complete", ref=ref, argument=argument)["completion"]["values"]
    assert values == ["first:test://first/number/{id}"]


def test_progress_comes_before_the_answer_with_the_clients_token(session):
    params = {"name": "first-count", "arguments": {"n": 3}, "_meta": {"progressToken": "mine"}}
    answer, number = session.begin("tools/call", params)
    assert answer.headers["Content-Type"] == "text/event-stream"
    *progress, last = list(events(answer))
    assert [(each["params"]["progressToken"], each["params"]["progress"]) for each in progress] == [
        ("mine", 1), ("mine", 2), ("mine", 3),
    ]  # fmt: skip
    assert last["id"] == number and text_of(last["result"]) == "counted"


def test_a_client_that_takes_no_events_gets_the_answer_alone(session):
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call",
               "params": {"name": "first-count", "arguments": {"n": 3}, "_meta": {"progressToken": 1}}}  # fmt: skip
    answer = session.gateway.request(message=message, session=session.id, Accept="application/json")
    assert answer.headers["Content-Type"] == "application/json"
    assert text_of(json.loads(answer.read())["result"]) == "counted"


def test_a_cancelled_call_ends_and_its_server_knows(gateway, session):
    before = json.loads(text_of(session.call("second-cancelled")))
    got = []
    params = {"name": "second-wait"}
    waiter = threading.Thread(target=lambda: got.append(session.begin("tools/call", params)[0].read()))
    waiter.start()
    until(lambda: session.last >= 2, "the call is on its way")
    deadline = time.monotonic() + LIMIT_S
    while not got:
        assert time.monotonic() < deadline
        session.notify("notifications/cancelled", requestId=2, reason="enough")
        waiter.join(0.1)
    assert got == [b""]
    assert json.loads(text_of(session.call("second-cancelled"))) == before + 1


def test_another_session_cannot_cancel(gateway, session):
    got = []
    params = {"name": "first-wait"}
    waiter = threading.Thread(target=lambda: got.append(session.begin("tools/call", params)[0].read()))
    waiter.start()
    until(lambda: session.last >= 1, "the call is on its way")
    gateway.session().notify("notifications/cancelled", requestId=1)
    waiter.join(0.3)
    assert not got
    while not got:
        session.notify("notifications/cancelled", requestId=1)
        waiter.join(0.1)


def test_lists_that_change_are_told_and_are_new(session):
    stream = session.listen()
    session.call("noisy-grow")
    assert next(stream)["method"] == "notifications/tools/list_changed"
    assert "noisy-grown" in session.names()


def test_log_messages_say_whose_they_are(session):
    stream = session.listen()
    assert session.ask("logging/setLevel", level="debug") == {}
    session.call("first-log")
    message = next(stream)
    assert message["method"] == "notifications/message"
    assert message["params"] == {"level": "info", "logger": "first-x", "data": "said"}


def test_updates_of_resources_reach_those_who_subscribed(gateway, session):
    uri = "test://first/one"
    other = gateway.session()
    mine, theirs = session.listen(), other.listen()
    assert session.ask("resources/subscribe", uri=uri) == {}
    session.call("first-touch", uri=uri)
    assert next(mine)["params"] == {"uri": uri}
    assert session.ask("resources/unsubscribe", uri=uri) == {}
    session.call("first-touch", uri=uri)
    session.call("first-log")
    assert next(mine)["method"] == "notifications/message"
    assert next(theirs)["method"] == "notifications/message"


def test_a_server_that_dies_is_started_again(start):
    gateway = start({"a": server("a")})
    session = gateway.session()
    pid = json.loads(text_of(session.call("a-echo")))["pid"]
    error = session.call("a-die")
    assert error["message"] == "the MCP server a ended with status 3"
    assert json.loads(text_of(session.call("a-echo")))["pid"] != pid
    assert "dying as asked" in gateway.log.read_text()


# ---- clients without sessions ----


def modern(gateway, method, head=None, headers=None, **params):
    """A request of 2026-07-28, which says all that it needs."""
    about = {META + "protocolVersion": NOW, META + "clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": about, **params}}
    heads = {"MCP-Protocol-Version": NOW, "Mcp-Method": method} | ({"Mcp-Name": head} if head else {})
    return gateway.request(message=message, **(heads | (headers or {})))


def test_a_client_without_a_session_is_served(gateway):
    about = json.loads(modern(gateway, "server/discover").read())["result"]
    assert NOW in about["supportedVersions"] and about["resultType"] == "complete"
    assert about["capabilities"]["resources"] == {"listChanged": True} and "logging" not in about["capabilities"]
    assert about["_meta"][META + "serverInfo"]["name"] == "mcp-gateway"
    tools = json.loads(modern(gateway, "tools/list").read())["result"]
    assert "second-echo" in [tool["name"] for tool in tools["tools"]] and tools["ttlMs"] == 0
    called = modern(gateway, "tools/call", "second-echo", name="second-echo", arguments={"text": "hello"})
    result = json.loads(called.read())["result"]
    assert json.loads(text_of(result))["text"] == "hello" and result["resultType"] == "complete"
    uri = "test://second/one"
    read = json.loads(modern(gateway, "resources/read", uri, uri=uri).read())["result"]
    assert read["contents"][0]["text"] == f"second has {uri}" and read["cacheScope"] == "private"


@pytest.mark.parametrize("method,name,headers,status,code", [
    ("ping", None, {}, 404, -32601),
    ("tools/list", None, {"Mcp-Method": "tools/call"}, 400, -32020),
    ("tools/call", "another", {}, 400, -32020),
    ("tools/list", None, {"MCP-Protocol-Version": "2025-11-25"}, 400, -32020),
])  # fmt: skip
def test_a_head_that_says_otherwise_is_refused(gateway, method, name, headers, status, code):
    answer = modern(gateway, method, name, headers, **({"name": "first-echo"} if name else {}))
    assert (answer.status, json.loads(answer.read())["error"]["code"]) == (status, code)


def test_a_client_that_leaves_has_cancelled(gateway, session):
    before = json.loads(text_of(session.call("second-cancelled")))
    with pytest.raises(TimeoutError):
        modern(Impatient(gateway), "tools/call", "second-wait", name="second-wait", arguments={})
    until(lambda: json.loads(text_of(session.call("second-cancelled"))) == before + 1, "the server knows")


class Impatient:
    """Leaves after half a second."""

    def __init__(self, gateway):
        self.gateway = gateway

    def request(self, **fields):
        return self.gateway.request(timeout=0.5, **fields)


def test_a_subscription_hears_of_lists_that_change(gateway, session):
    asked = {"toolsListChanged": True, "resourceSubscriptions": ["test://first/one"]}
    stream = events(modern(gateway, "subscriptions/listen", notifications=asked))
    about = {META + "subscriptionId": 7}
    acknowledged = next(stream)
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"] == {"_meta": about, "notifications": {"toolsListChanged": True}}
    session.call("noisy-grow")
    assert next(stream) == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": about}}


# ---- bad clients ----


@pytest.mark.parametrize("token", [None, "wrong", TOKEN + "x", TOKEN[:-1]])
def test_without_the_token_nobody_is_served(gateway, token):
    answer = gateway.request(message={"jsonrpc": "2.0", "id": 1, "method": "initialize"}, token=token)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert gateway.request("GET", token=token).status == 401
    assert gateway.request("DELETE", token=token).status == 401


def test_health_needs_no_token(gateway):
    answer = gateway.request("GET", token=None, path="/health")
    assert (answer.status, answer.read()) == (200, b"OK")


MESSAGES = {
    "no JSON": (b"{", 400, -32700),
    "a batch": (b"[]", 400, -32600),
    "no message": (b"{}", 400, -32600),
    "an unknown method": ({"id": 1, "method": "nothing/there"}, 200, -32601),
    "an unknown tool": ({"id": 1, "method": "tools/call", "params": {"name": "first-none"}}, 200, -32602),
    "a tool without its prefix": ({"id": 1, "method": "tools/call", "params": {"name": "echo"}}, 200, -32602),
    "an unknown prompt": ({"id": 1, "method": "prompts/get", "params": {"name": "x"}}, 200, -32602),
    "an unknown resource": ({"id": 1, "method": "resources/read", "params": {"uri": "x:y"}}, 200, -32002),
    "bad parameters": ({"id": 1, "method": "tools/call", "params": []}, 400, -32600),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_messages_get_an_error(session, case):
    message, status, code = MESSAGES[case]
    if isinstance(message, dict):
        message = {"jsonrpc": "2.0", **message}
    answer = session.gateway.request(message=message, session=session.id)
    assert answer.status == status
    assert json.loads(answer.read())["error"]["code"] == code


def test_sessions(gateway, session):
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert gateway.request(message=message).status == 400
    assert gateway.request(message=message, session="0" * 32).status == 404
    assert gateway.request("GET").status == 400
    assert gateway.request("GET", session="x").status == 404
    assert session.ask("ping") == {}
    assert gateway.request("DELETE", session=session.id).status == 204
    assert gateway.request(message=message, session=session.id).status == 404


def test_a_message_that_is_too_long(session):
    answer = session.gateway.request(message=b" " * (17 << 20), session=session.id)
    assert answer.status == 413


def test_a_revision_that_is_not_spoken(session):
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
    headers = {"MCP-Protocol-Version": "2099-01-01"}
    answer = session.gateway.request(message=message, **headers)
    error = json.loads(answer.read())["error"]
    assert (answer.status, error["code"]) == (400, -32022)
    assert error["data"]["supported"][0] == NOW


def test_pages_may_ask_what_they_may(gateway):
    answer = gateway.request("OPTIONS", token=None)
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (204, "*")
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]


def test_other_paths_and_methods(gateway):
    assert gateway.request("GET", path="/").status == 404
    assert gateway.request("PUT").status == 405


def test_many_sessions_end_the_quietest(start):
    gateway = start({"a": server("a")})
    first, second = gateway.session(), gateway.session()
    for _ in range(254):
        gateway.session()
    first.ask("ping")
    gateway.session()
    assert first.ask("ping") == {}
    assert second.begin("ping")[0].status == 404


# ---- packages and repositories ----


def test_a_repository_is_cloned_installed_and_run(start, tmp_path):
    source = tmp_path / "hub/owner/repo.git"
    source.mkdir(parents=True)
    git = ["git", "-C", source, "-c", "user.name=t", "-c", "user.email=t@example.test"]
    (source / "serve.py").write_bytes((Path(__file__).parent / "mcp_server.py").read_bytes())
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    env = {
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/hub/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }  # fmt: skip
    config = {"github/owner/repo": {
        "installCmd": "echo installed >mark", "runCmd": "python3 serve.py $(cat mark)", "envs": {"FOO": "1"},
    }}  # fmt: skip
    gateway = start(config, env=env)
    assert gateway.done.returncode == 0, gateway.done.stderr
    said = json.loads(text_of(gateway.session().call("github/owner/repo-echo")))
    assert (said["name"], said["foo"]) == ("installed", "1")

    bad = {"github/owner/repo": {"install_cmd": "echo no luck >&2; exit 1", "run_cmd": "true"}}
    done = start(bad, env=env).done
    assert done.returncode == 1
    assert "could not be installed from https://github.com/owner/repo.git; it wrote:\nno luck\n" in done.stderr


def test_the_catalogue_is_listed_and_whole():
    catalogue = ROOT / "templates/mcp-gateway/catalogue.json"
    done = subprocess.run([PROGRAM, "--catalogue", catalogue, "list"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "filesystem: " in done.stdout and "    paths: strings\n" in done.stdout


def test_unknown_names_are_not_pulled(tmp_path):
    catalogue = ROOT / "templates/mcp-gateway/catalogue.json"
    command = [PROGRAM, "--catalogue", catalogue, "--root", tmp_path, "pull", "memory", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "mcp-gateway: unknown MCP server nothing: it is not in the catalogue\n"
    assert not list(tmp_path.iterdir())
