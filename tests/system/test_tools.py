"""The catalogue over REST and on the command line: the tools that need no other program, bad input of
every kind, clients that leave, a daemon that stops."""

import base64
import json
import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import httpx
import pytest
from catalogue import Catalogue, Refused
from daemon import PROGRAM, until
from e2b import Sandbox
from teams import two_teams


@pytest.fixture(scope="module")
def daemon():
    with two_teams() as daemon:
        yield daemon


@pytest.fixture
def box(daemon):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    yield sandbox
    sandbox.kill()


def post(daemon, name, body, key=None, **headers):
    headers = {"X-API-Key": key or daemon.key, **headers}
    return httpx.post(f"{daemon.url}/tools/{name}", content=body, headers=headers, timeout=60)


def seconds_left(stamp):
    end = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    return (end - datetime.now(timezone.utc)).total_seconds()


# ---- the tools ----


def test_files_are_written_and_read(tools, box):
    wrote = tools.write_sandbox_file(sandbox_id=box.sandbox_id, path="notes/ä b/one.txt", content="grüße\n", mode="600")
    assert wrote["path"] == "/home/user/notes/ä b/one.txt"
    assert (wrote["bytes"], wrote["mode"]) == (8, "600")
    read = tools.read_sandbox_file(sandbox_id=box.sandbox_id, path=wrote["path"])
    assert (read["type"], read["content"], read["encoding"], read["size"]) == ("file", "grüße\n", "utf-8", 8)
    assert read["truncated"] is False
    assert box.files.read(wrote["path"]) == "grüße\n"


def test_bytes_travel_as_base64(tools, box):
    data = bytes(range(256)) * 3000
    encoded = base64.b64encode(data).decode()
    wrote = tools.write_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp/data", content=encoded, encoding="base64")
    assert wrote["bytes"] == len(data)
    read = tools.read_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp/data")
    assert (read["encoding"], base64.b64decode(read["content"])) == ("base64", data)


def test_a_cut_text_ends_with_a_whole_character(tools, box):
    box.files.write("/tmp/text", "ääää")
    read = tools.read_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp/text", max_bytes=3)
    assert (read["content"], read["encoding"], read["truncated"]) == ("ä", "utf-8", True)


def test_a_folder_is_a_tree_with_contents(tools, box):
    for path in ("b/2.txt", "a/1.txt", "a.txt", "a/sub/3.txt", ".hidden/4.txt"):
        box.files.write(f"/home/user/proj/{path}", f"this is {path}")
    read = tools.read_sandbox_file(sandbox_id=box.sandbox_id, path="proj")
    assert read["tree"] == "a/\n  1.txt\n  sub/\n    3.txt\na.txt\nb/\n  2.txt\n"
    assert [file["content"] for file in read["files"]] == [
        "this is a/1.txt", "this is a/sub/3.txt", "this is a.txt", "this is b/2.txt"]
    assert (read["files_total"], read["truncated"]) == (4, False)
    few = tools.read_sandbox_file(sandbox_id=box.sandbox_id, path="proj", max_files=1)
    assert (len(few["files"]), few["files_total"]) == (1, 4)
    none = tools.read_sandbox_file(sandbox_id=box.sandbox_id, path="proj", max_files=0, include_hidden=True)
    assert none["files"] == [] and ".hidden/\n  4.txt\n" in none["tree"]


def test_many_files_are_read(tools, box):
    box.commands.run("mkdir /tmp/many && cd /tmp/many && for i in $(seq -w 300); do echo $i >$i; done")
    read = tools.read_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp/many", max_files=-1)
    assert [file["content"] for file in read["files"]] == [f"{i:03}\n" for i in range(1, 301)]


def test_files_that_cannot_be_read_or_written(tools, box):
    with pytest.raises(Refused, match="404.*/no/such") as refused:
        tools.read_sandbox_file(sandbox_id=box.sandbox_id, path="/no/such")
    assert refused.value.status == 404
    with pytest.raises(Refused, match="content: is not base64"):
        tools.write_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp/x", content="???", encoding="base64")
    with pytest.raises(Refused, match="mode: must be octal digits"):
        tools.write_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp/x", content="", mode="rwx")
    with pytest.raises(Refused, match="is a directory"):
        tools.write_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp", content="")


@pytest.mark.parametrize("name, fields, status, said", [
    ("read_sandbox_file", {"path": "/none"}, 404, 'path: "/none" does not exist'),
    ("read_sandbox_file", {"path": "f/x"}, 404, 'path: "f/x" does not exist'),
    ("read_sandbox_file", {"path": "loop"}, 400, "the file cannot be read: "),
    ("read_sandbox_file", {"path": "p"}, 400, "the file cannot be read: path '/home/user/p' is not a regular file"),
    ("read_sandbox_file", {"path": "~nobody/x"}, 400, "the path cannot be looked up: failed to expand path '~nobody/x'"),
    ("write_sandbox_file", {"path": "d", "content": ""}, 400, "the file cannot be written: path is a directory: /home/user/d"),
    ("write_sandbox_file", {"path": "f/x", "content": ""}, 400, "the file cannot be written: "),
    ("write_sandbox_file", {"path": "/sys/x", "content": ""}, 403, "the file cannot be written: "),
    ("start_shell_session", {"cwd": "/none"}, 400, "cwd '/none' does not exist"),
    ("send_sandbox_input", {"cwd": "f", "action": "shell_command", "input": "true"}, 400, "cwd '/home/user/f': Not a directory"),
    ("send_shell_session_input", {"pid": 1}, 404, "pid: sandbox "),
    ("kill_shell_session", {"pid": 4194304}, 404, "pid: sandbox "),
])
def test_what_cannot_be_is_told_in_a_sentence(tools, box, name, fields, status, said):
    """No name of a procedure and no code of the agent's stands before it."""
    box.commands.run("mkdir -p d; echo x > f; test -p p || mkfifo p; ln -sf loop loop")
    with pytest.raises(Refused) as refused:
        tools.call(name, {"sandbox_id": box.sandbox_id, **fields})
    assert refused.value.status == status and refused.value.message.startswith(said), refused.value


def test_lists_by_state_id_and_metadata(daemon, tools):
    first = Sandbox.create(timeout=600, metadata={"userId": "7", "what": "a&b=c ä"}, **daemon.sdk)
    second = Sandbox.create(timeout=600, metadata={"userId": "7", "env": "test"}, **daemon.sdk)
    try:
        tools.pause_sandbox(sandbox_id=second.sandbox_id)

        def ids(**filters):
            answer = tools.list_sandboxes(**filters)
            assert answer["count"] == len(answer["sandboxes"])
            return {row["sandbox_id"] for row in answer["sandboxes"]}

        assert {first.sandbox_id, second.sandbox_id} <= ids()
        assert ids(userId="7", state="running") == {first.sandbox_id}
        assert ids(userId="7", state="paused") == {second.sandbox_id}
        assert ids(userId="7", env="test") == {second.sandbox_id}
        assert ids(metadata={"what": "a&b=c ä"}) == {first.sandbox_id}
        assert ids(userId="8") == set()
        assert ids(ids=[first.sandbox_id, "nosuch"]) == {first.sandbox_id}
    finally:
        first.kill()
        second.kill()


def test_templates_are_listed(tools):
    base = next(row for row in tools.list_templates()["templates"] if "base" in row["aliases"])
    assert (base["build_status"], base["visibility"]) == ("ready", "public")
    assert base["cpu_count"] > 0 and base["memory_mb"] > 0


def test_a_killed_sandbox_is_gone(daemon, tools):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    assert tools.kill_sandbox(sandbox_id=sandbox.sandbox_id) == {"sandbox_id": sandbox.sandbox_id, "killed": True}
    with pytest.raises(Refused, match="doesn't exist") as refused:
        tools.kill_sandbox(sandbox_id=sandbox.sandbox_id)
    assert refused.value.status == 404


def run(tools, box, command):
    return tools.send_sandbox_input(sandbox_id=box.sandbox_id, action="shell_command", input=command)


def test_of_long_output_the_end_is_kept(tools, box):
    ran = run(tools, box, "seq 400000; echo the end; seq 3 >&2")
    assert ran["truncated"] is True and ran["stdout"].endswith("\n400000\nthe end\n")
    assert len(ran["stdout"]) == 1024 * 1024
    assert (ran["stderr"], ran["exit_code"]) == ("1\n2\n3\n", 0)


def test_output_that_is_no_text_becomes_text(tools, box):
    ran = run(tools, box, r"printf 'a\xffb\xc3'; printf '\xa4\xf0\x9f'")
    assert ran["stdout"] == "a\ufffdbä\ufffd\ufffd"


# ---- how long a sandbox lives ----


def test_a_call_without_a_timeout_never_shortens_a_life(daemon, tools):
    sandbox = Sandbox.create(timeout=36000, **daemon.sdk)
    try:
        read = tools.read_sandbox_file(sandbox_id=sandbox.sandbox_id, path="/tmp")
        assert 35900 < seconds_left(read["expires_at"]) <= 36000
        paused = tools.pause_sandbox(sandbox_id=sandbox.sandbox_id)
        assert paused["expires_at"] == read["expires_at"]
        assert tools.pause_sandbox(sandbox_id=sandbox.sandbox_id) == paused
        resumed = tools.read_sandbox_file(sandbox_id=sandbox.sandbox_id, path="/tmp")
        assert resumed["expires_at"] >= read["expires_at"]
        assert seconds_left(resumed["expires_at"]) <= 36001
    finally:
        sandbox.kill()


def test_a_call_with_a_timeout_sets_it_exactly(daemon, tools):
    sandbox = Sandbox.create(timeout=36000, **daemon.sdk)
    try:
        for seconds in (500, 3000):
            wrote = tools.write_sandbox_file(
                sandbox_id=sandbox.sandbox_id, path="/tmp/x", content="x", timeout_seconds=seconds)
            assert seconds - 60 < seconds_left(wrote["expires_at"]) <= seconds
        tools.pause_sandbox(sandbox_id=sandbox.sandbox_id)
        read = tools.read_sandbox_file(sandbox_id=sandbox.sandbox_id, path="/tmp/x", timeout_seconds=400)
        assert 340 < seconds_left(read["expires_at"]) <= 400
    finally:
        sandbox.kill()


def test_one_whose_time_was_nearly_up_gets_half_an_hour_when_it_is_resumed(daemon, tools):
    sandbox = Sandbox.create(timeout=120, **daemon.sdk)
    try:
        tools.pause_sandbox(sandbox_id=sandbox.sandbox_id, memory=False)
        read = tools.read_sandbox_file(sandbox_id=sandbox.sandbox_id, path="/tmp")
        assert 1740 < seconds_left(read["expires_at"]) <= 1800
    finally:
        sandbox.kill()


def test_what_the_kernel_does_not_give_is_no_failure_of_ours(tools, box):
    with pytest.raises(Refused, match="error reading file '/proc/self/mem'") as refused:
        tools.read_sandbox_file(sandbox_id=box.sandbox_id, path="/proc/self/mem")
    assert refused.value.status == 400


@pytest.mark.parametrize("name", ["A B", "1A", "A-B", "", "A=B"])
def test_what_cannot_name_a_variable_is_refused(tools, box, name):
    for call in (lambda: tools.create_sandbox(envs={name: "x"}),
                 lambda: tools.send_sandbox_input(sandbox_id=box.sandbox_id, action="shell_command", input="true", envs={name: "x"})):
        with pytest.raises(Refused, match=f"envs: '{name}' cannot name a variable"):
            call()


def test_a_command_is_ended_before_its_sandbox(tools, box):
    told = tools.send_sandbox_input(sandbox_id=box.sandbox_id, action="shell_command", input="echo begun; sleep 60", timeout_seconds=5)
    assert told["timed_out"] and told["stdout"] == "begun\n"
    assert "3 seconds before the sandbox expires" in told["note"] and "a longer timeout_seconds" in told["note"]


# ---- who asks ----


@pytest.mark.parametrize("headers, sentence", [
    ({}, "authorization header is missing"),
    ({"X-API-Key": "Bearer KEY"}, 'authorization header is malformed: there is "Bearer " before the key; in X-API-Key'),
    ({"X-API-Key": '"KEY"'}, "authorization header is malformed: the key is in quotes"),
    ({"X-API-Key": "'KEY'"}, "authorization header is malformed: the key is in quotes"),
    ({"X-API-Key": "sk_e2b_0123"}, "Invalid access token format"),
    ({"Authorization": "KEY"}, 'authorization header is malformed: write "Bearer " before the key'),
    ({"Authorization": "Bearer Bearer KEY"},
     'authorization header is malformed: there is "Bearer " before the key; in Authorization'),
    ({"Authorization": "Basic dTpw"}, "authorization header is malformed: it is Basic"),
    ({"Authorization": "Bearer"}, "authorization header is missing"),
    ({"X-API-Key": "hello"}, "authorization header is malformed: a key begins with e2b_"),
    ({"X-API-Key": "e2b_" + "0" * 40}, "Invalid API key"),
])
def test_wrong_keys_are_told_what_they_look_like(daemon, headers, sentence):
    headers = {name: value.replace("KEY", daemon.key) for name, value in headers.items()}
    for answer in (httpx.get(f"{daemon.url}/tools", headers=headers),
                   httpx.post(f"{daemon.url}/tools/list_templates", headers=headers, content="{}")):
        assert answer.status_code == 401
        assert answer.json()["message"].startswith(sentence)


def test_another_teams_sandbox_is_not_there(daemon, box):
    others = Catalogue(daemon, daemon.other_key)
    for call in (lambda: others.read_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp"),
                 lambda: others.write_sandbox_file(sandbox_id=box.sandbox_id, path="/tmp/x", content="x"),
                 lambda: others.pause_sandbox(sandbox_id=box.sandbox_id),
                 lambda: others.kill_sandbox(sandbox_id=box.sandbox_id)):
        with pytest.raises(Refused, match="doesn't exist or you don't have access") as refused:
            call()
        assert refused.value.status == 404
    assert others.list_sandboxes()["count"] == 0
    assert box.is_running()


# ---- bad input ----


@pytest.mark.parametrize("name, body, status, message", [
    ("kill_sandbx", "{}", 404, "there is no tool 'kill_sandbx'; did you mean kill_sandbox?"),
    ("frobnicate", "{}", 404, "there is no tool 'frobnicate'; GET /tools lists them"),
    ("kill_sandbox/x", "{}", 404, "there is no tool 'kill_sandbox/x'; did you mean kill_sandbox?"),
    ("kill_sandbox", "{}", 400, "sandbox_id: is required"),
    ("kill_sandbox", "", 400, "sandbox_id: is required"),
    ("kill_sandbox", '{"sandbox_id": 5}', 400, "sandbox_id: must be a string"),
    ("kill_sandbox", '{"sandbox_id": ""}', 400, "sandbox_id: must not be empty"),
    ("kill_sandbox", '{"sandbox_id": "../teams"}', 400, 'sandbox_id: "../teams" is not the id of a sandbox'),
    ("kill_sandbox", '{"sandbox_id": "x", "force": true}', 400, "force: there is no such field"),
    ("kill_sandbox", '{"sandboxid": "x"}', 400,
     "sandbox_id: is required; sandboxid: there is no such field; did you mean sandbox_id?"),
    ("list_sandboxes", '{"state": "runing"}', 400,
     'state: must be one of "all", "running", "paused"; did you mean "running"?'),
    ("list_sandboxes", '{"ids": ["x", 1]}', 400, "ids[1]: must be a string"),
    ("list_sandboxes", '{"metadata": {"a": [1]}}', 400, "metadata.a: must be a string"),
    ("read_sandbox_file", '{"sandbox_id": "x", "path": "y", "max_files": -2, "max_bytes": 1.5}', 400,
     "max_files: must be at least -1; max_bytes: must be an integer"),
])
def test_wrong_input_is_told_by_its_path(daemon, name, body, status, message):
    answer = post(daemon, name, body)
    assert (answer.status_code, answer.json()) == (status, {"code": status, "message": message})


@pytest.mark.parametrize("body", ["[]", "null", "{", '{"a": 1, "a": 2}', '{"a": "\\u0000"}', b'{"a": "\xff"}', "[" * 100000])
def test_what_is_no_json_object_is_refused(daemon, body):
    answer = post(daemon, "list_sandboxes", body)
    assert answer.status_code == 400 and answer.json()["message"]


def test_deeply_nested_input_does_no_harm(daemon):
    nested = '{"metadata":' * 1500 + "{}" + "}" * 1500
    answer = post(daemon, "list_sandboxes", nested)
    assert (answer.status_code, answer.json()["message"]) == (400, "metadata.metadata: must be a string")


def test_a_body_that_is_too_large_is_refused_by_its_limit(daemon):
    length = str(100 * 1024 * 1024)
    host, port = daemon.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"POST /tools/write_sandbox_file HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\n"
                       f"Content-Length: {length}\r\n\r\n".encode())
        answer = client.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 413") and "larger than 50331648 bytes" in answer


def test_other_methods_are_refused(daemon):
    headers = {"X-API-Key": daemon.key}
    assert httpx.post(f"{daemon.url}/tools", headers=headers).status_code == 405
    assert httpx.delete(f"{daemon.url}/tools/list_templates", headers=headers).status_code == 405
    one = httpx.get(f"{daemon.url}/tools/kill_sandbox", headers=headers).json()
    assert one["name"] == "kill_sandbox" and one["destroys"] is True
    preflight = httpx.options(f"{daemon.url}/tools/kill_sandbox", headers={"Origin": "http://x"})
    assert preflight.status_code == 204
    near, far = (httpx.get(f"{daemon.url}/tools", headers={**headers, "Origin": f"http://{host}"})
                 for host in ("localhost:5173", "elsewhere.example"))
    assert near.headers["access-control-allow-origin"] == "*"
    assert far.status_code == 200 and "access-control-allow-origin" not in far.headers


# ---- leaving and stopping ----


def connections(pid):
    """The sockets that a process holds."""
    links = (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    return sum(link.startswith("socket:") for link in links)


def leave_during(daemon, name, fields, while_running):
    """Calls a tool, and closes the connection once while_running() is true."""
    body = json.dumps(fields)
    host, port = daemon.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"POST /tools/{name} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        until(while_running, f"{name} is under way")


def runs(box, what):
    """Whether a process of the sandbox has these words; the one that looks does not count."""
    return box.commands.run(f"pgrep -f '[{what[0]}]{what[1:]}' | wc -l").stdout.strip() != "0"


def test_a_client_that_leaves_ends_what_it_began(daemon, box):
    server = daemon.child("serve")
    before = connections(server)
    leave_during(daemon, "send_sandbox_input",
                 {"sandbox_id": box.sandbox_id, "action": "shell_command", "input": "sleep 4321 | cat; true"},
                 lambda: runs(box, "sleep 4321"))
    until(lambda: not runs(box, "sleep 4321"), "the command is ended, and what it started")
    until(lambda: connections(server) <= before + 4, "the connections are closed")
    assert box.is_running()


def test_many_calls_at_once(daemon, tools, box):
    box.files.write("/tmp/x", "x" * 100_000)
    with httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=60) as client:
        def read(_):
            return client.post("/tools/read_sandbox_file", json={"sandbox_id": box.sandbox_id, "path": "/tmp/x"})

        with ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(read, range(200)))
    assert {answer.status_code for answer in answers} == {200}
    assert all(len(answer.json()["content"]) == 100_000 for answer in answers)


# ---- the command line ----


def atoll(daemon, *words, **kwargs):
    return subprocess.run([PROGRAM, "tool", *words, "--data", str(daemon.data)],
                          capture_output=True, text=True, timeout=60, **kwargs)


def test_the_command_line_calls_tools(daemon, box, tmp_path):
    source = tmp_path / "source"
    source.write_text("from a file\n")
    wrote = atoll(daemon, "write_sandbox_file", f"sandbox_id={box.sandbox_id}", "path=/tmp/cli", f"content=@{source}",
                  "mode:=644")
    assert wrote.returncode == 0, wrote.stderr
    assert json.loads(wrote.stdout)["bytes"] == 12
    read = atoll(daemon, "read_sandbox_file", "@-", "max_files=0",
                 input=json.dumps({"sandbox_id": box.sandbox_id, "path": "/tmp/cli"}))
    assert json.loads(read.stdout)["content"] == "from a file\n"
    listed = atoll(daemon, "list_sandboxes", f"ids={box.sandbox_id}", "ids=nosuch", "metadata:={}")
    assert json.loads(listed.stdout)["count"] == 1
    filtered = atoll(daemon, "list_sandboxes", "metadata.userId=nobody")
    assert json.loads(filtered.stdout)["count"] == 0


def test_the_command_line_explains_and_refuses(daemon):
    assert "kill_sandbox" in atoll(daemon).stdout
    explained = atoll(daemon, "read_sandbox_file", "--help").stdout
    assert "max_files  (integer, default 50)" in explained and "Also called max_files_content" in explained
    for words, code, sentence in (
        (("nosuch",), 2, "there is no tool 'nosuch'"),
        (("kill_sandbox", "x"), 1, "'x' is not FIELD=VALUE"),
        (("kill_sandbox", "sandbox_id:={"), 1, "the text after := is not JSON"),
        (("kill_sandbox", "sandbox_id=@/no/such"), 1, "open /no/such"),
        (("kill_sandbox",), 1, "sandbox_id: is required"),
        (("kill_sandbox", "sandbox_id=x", "y=1"), 1, "y: there is no such field"),
    ):
        refused = atoll(daemon, *words)
        assert refused.returncode == code and sentence in refused.stderr


def elsewhere(tmp_path, *words, **variables):
    """A command of somebody who has no data directory, only the variables."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("E2B_", "ATOLL_"))}
    return subprocess.run([PROGRAM, *words], env={**env, "ATOLL_DATA": str(tmp_path), **variables},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def test_every_command_chooses_its_daemon_alike(daemon, box, tmp_path):
    host = daemon.url.replace("127.0.0.1", "localhost")
    named = {"E2B_API_URL": f"{host}/", "E2B_API_KEY": daemon.key}
    wrong = {"E2B_API_URL": "http://127.0.0.1:1", "E2B_API_KEY": "e2b_no"}
    for words in (["tool", "list_templates"], ["shell", "list"], ["key", "list"], ["template", "list"],
                  ["logs", box.sandbox_id], ["doctor", box.sandbox_id], ["mcp"]):
        done = elsewhere(tmp_path, *words, **named)
        assert done.returncode == 0, done.stderr
        done = elsewhere(tmp_path, *words, "--data", str(daemon.data), **wrong)
        assert done.returncode == 0, done.stderr
        lost = elsewhere(tmp_path, *words)
        assert lost.returncode == 4 and f"no daemon serves {tmp_path}" in lost.stderr
        lost = elsewhere(tmp_path, *words, E2B_API_KEY=daemon.key)
        assert lost.returncode == 4 and "set E2B_API_URL to its address" in lost.stderr
    lost = elsewhere(tmp_path, "tool", "list_templates", E2B_API_URL="atoll.example.com", E2B_API_KEY="x")
    assert "it is of the form http://HOST:PORT or https://HOST" in lost.stderr
    lost = elsewhere(tmp_path, "tool", "list_templates", **wrong)
    assert "connect to http://127.0.0.1:1: Connection refused" in lost.stderr


def test_a_key_that_is_revoked_by_another_is_not_taken_for_the_default_one(daemon, tmp_path):
    made = elsewhere(tmp_path, "key", "create", "one", E2B_API_URL=daemon.url, E2B_API_KEY=daemon.key)
    listed = httpx.get(f"{daemon.url}/api-keys", headers={"X-API-Key": daemon.key}).json()
    key = next(key["id"] for key in listed if key["id"] in made.stderr)
    env = {**os.environ, "E2B_API_URL": daemon.url, "E2B_API_KEY": made.stdout.strip(), "ATOLL_DATA": str(daemon.data)}
    done = subprocess.run([PROGRAM, "key", "revoke", key], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_explains_itself(tmp_path):
    for words, text in ((["shell", "put"], "put NAME URL --header NAME"), (["mcp"], "[--template NAME | --sandbox ID]"),
                        (["template", "build"], "template prune [DAYS]"), (["key"], "revoke ID"),
                        (["logs"], "that were refused or failed"), (["tool"], "NAME --help"), (["env"], "E2B_DOMAIN"),
                        (["serve"], "--listen ADDR:PORT"), (["prepare"], "[all]"), (["keeper"], "--data DIR"),
                        (["ca"], "certutil"), (["doctor"], "[ID]"), (["disk"], "built-in templates"), (["version"], "version")):
        explained = elsewhere(tmp_path, *words, "--help")
        assert explained.returncode == 0
        assert explained.stdout.startswith(f"usage: atoll {words[0]}") and text in explained.stdout


# ---- the end: it stops the daemon ----


def test_a_daemon_that_stops_ends_the_calls(daemon):
    box = Sandbox.create(timeout=600, **daemon.sdk)
    body = json.dumps({"sandbox_id": box.sandbox_id, "action": "shell_command", "input": "sleep 4322"})
    host, port = daemon.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"POST /tools/send_sandbox_input HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: runs(box, "sleep 4322"), "the command runs")
        daemon.process.send_signal(signal.SIGTERM)
        answer = client.recv(65536).decode()
        assert answer.startswith("HTTP/1.1 499") and "cancelled" in answer
    assert daemon.process.wait(timeout=60) == 0
    assert "did not clean up" not in daemon.said()
    daemon.start()
    box = Sandbox.connect(box.sandbox_id, timeout=600, **daemon.sdk)
    assert not runs(box, "sleep 4322")
