"""The agent's GET /processes, POST /processes/{pid}/signal and GET /ports."""

import json
import struct
import time

import httpx
import pytest
from conftest import SANDBOX_URL

AGENT_PORT = 49983
WAIT_S = 30


class Agent:
    """Plain HTTP to the agent, with its token or without."""

    def __init__(self, sandbox, token=None):
        self.client = httpx.Client(base_url=SANDBOX_URL, timeout=60, headers={
            "E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(AGENT_PORT),
            **({"X-Access-Token": token} if token else {})})

    def get(self, path):
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def processes(self):
        return self.get("/processes")["processes"]

    def signal(self, pid, signal):
        return self.client.post(f"/processes/{pid}/signal", json={"signal": signal})


def token_of(sandbox):
    return sandbox.connection_config.sandbox_headers.get("X-Access-Token")


@pytest.fixture
def agent(own_sandbox):
    return Agent(own_sandbox, token_of(own_sandbox))


def until(check, what):
    deadline = time.monotonic() + WAIT_S
    while not (found := check()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def of_pid(agent, pid):
    return next((row for row in agent.processes() if row["pid"] == pid), None)


def test_every_process_is_listed(own_sandbox, agent):
    command = own_sandbox.commands.run("sleep 1000", background=True, user="user")
    asleep = {"command": "sleep 1000", "state": "S"}  # right after its start it runs
    row = until(lambda: next((r for r in agent.processes() if asleep.items() <= r.items()), None), "it is listed")
    assert row["user"] == "user" and row["memoryBytes"] > 0
    assert row["cpuSeconds"] >= 0 and row["startedAt"].endswith("Z")
    started = of_pid(agent, command.pid)
    assert started["started"] is True
    first = of_pid(agent, 1)
    assert first["user"] == "root" and first["started"] is False
    answer = agent.get("/processes")
    assert answer["truncated"] is False and answer["total"] >= len(answer["processes"])


def test_a_tag_is_shown(agent):
    message = json.dumps({"process": {"cmd": "/bin/sleep", "args": ["1000"]}, "tag": "the \u202e server"}).encode()
    with agent.client.stream("POST", "/process.Process/Start", content=struct.pack(">BI", 0, len(message)) + message,
                             headers={"Content-Type": "application/connect+json"}) as answer:
        assert answer.status_code == 200
        next(answer.iter_bytes())
        rows = [row for row in agent.processes() if "tag" in row]
    assert [(row["tag"], row["command"]) for row in rows] == [("the \u202e server", "/bin/sleep 1000")]


def test_names_of_processes_can_be_anything(own_sandbox, agent):
    own_sandbox.files.write("/tmp/odd.py", """
import ctypes, os, sys, time
name = bytes([0x29, 0x20, 0x0a, 0xff, 0x28, 0x53, 0x20, 0x31])
ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
time.sleep(1000)
""")
    odd = own_sandbox.commands.run("exec python3 /tmp/odd.py \"$(printf 'a\\nb\\377\\033[31m')\"", background=True)
    row = until(lambda: (r := of_pid(agent, odd.pid)) and r["name"].startswith(")") and r, "the name is taken")
    assert row["name"] == ") \n\ufffd(S 1" and row["ppid"] == 1
    assert "a\nb\ufffd\x1b[31m" in row["command"]


def test_long_command_lines_are_cut(own_sandbox, agent):
    long = own_sandbox.commands.run("exec -a \"$(head -c 5000 /dev/zero | tr '\\0' 'x')\" sleep 1000", background=True)
    row = until(lambda: (r := of_pid(agent, long.pid)) and r["command"].startswith("xxx") and r, "it runs")
    assert row["command"] == "x" * 1024


def test_signals(own_sandbox, agent):
    for signal in ("SIGTERM", "KILL", 15):
        command = own_sandbox.commands.run("exec sleep 1000", background=True, user="user")
        assert agent.signal(command.pid, signal).status_code == 204
        until(lambda pid=command.pid: not of_pid(agent, pid), "it is gone")
    assert agent.signal(command.pid, "SIGTERM").status_code == 404


@pytest.mark.parametrize("body", [{}, {"signal": "SIGNOTHING"}, {"signal": 0}, {"signal": 65}, {"signal": None}, []])
def test_wrong_signals(agent, body):
    answer = agent.client.post("/processes/99999/signal", json=body)
    assert answer.status_code == 400 and "SIGTERM" in answer.json()["message"]


def test_the_agent_takes_no_signal(own_sandbox, agent):
    refused = agent.signal(1, "SIGKILL")
    assert refused.status_code == 403 and "runs the sandbox" in refused.json()["message"]
    for pid in ("0", "-1", "x", "1x", "99999999999", "", "%31"):
        assert agent.signal(pid, "SIGKILL").status_code == 404, pid
    threads = own_sandbox.commands.run("ls /proc/1/task", user="root").stdout.split()
    for thread in threads[1:]:
        assert agent.signal(thread, "SIGKILL").status_code == 404
    assert own_sandbox.commands.run("echo alive").stdout == "alive\n"


def test_listening_ports(own_sandbox, agent):
    own_sandbox.files.write("/tmp/listen.py", """
import socket, time
kept = []
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
    s = socket.socket(family)
    s.bind((address, 3210 + len(kept)))
    s.listen()
    kept.append(s)
time.sleep(1000)
""")
    server = own_sandbox.commands.run("exec python3 /tmp/listen.py", background=True, user="user")
    rows = until(lambda: (p := {r["port"]: r for r in agent.get("/ports")["ports"]}) and 3212 in p and p, "it listens")
    assert [rows[3210 + i]["address"] for i in range(3)] == ["127.0.0.1", "0.0.0.0", "::1"]
    for i in range(3):
        assert rows[3210 + i]["pid"] == server.pid and "listen.py" in rows[3210 + i]["command"]
        assert rows[3210 + i]["internal"] is False
    assert rows[AGENT_PORT]["internal"] is True


def test_hundreds_of_processes_are_one_answer(own_sandbox, agent):
    own_sandbox.commands.run("for i in $(seq 300); do sleep 1000 & done; :", user="user")
    answer = agent.get("/processes")
    assert answer["total"] > 300 and len(answer["processes"]) > 300 and not answer["truncated"]


def test_the_token_guards_them(new_sandbox):
    sandbox = new_sandbox(secure=True)
    without, guarded = Agent(sandbox), Agent(sandbox, token_of(sandbox))
    for method, path in (("GET", "/processes"), ("GET", "/ports"), ("POST", "/processes/1/signal")):
        assert without.client.request(method, path, json={"signal": 9} if method == "POST" else None).status_code == 401
    assert guarded.processes() and guarded.get("/ports")


def test_other_methods_are_refused(agent):
    for method, path in (("POST", "/processes"), ("DELETE", "/ports"), ("GET", "/processes/1/signal")):
        assert agent.client.request(method, path).status_code == 405
    for path in ("/processes/", "/ports/1", "/processes/1", "/processes/1/2/signal"):
        assert agent.client.get(path).status_code == 404


def test_they_work_after_a_pause(own_sandbox, agent):
    own_sandbox.commands.run("sleep 1000", background=True)
    agent.processes(), agent.get("/ports")
    own_sandbox.pause()
    own_sandbox.connect()
    assert any(row["command"] == "sleep 1000" for row in agent.processes())
    assert agent.get("/ports")["ports"]
