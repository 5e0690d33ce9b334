"""atoll-tools as a process: what it has and has not, that it is started again, and that nobody speaks to the daemon in its
name."""

import os
import signal
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from daemon import children, until
from teams import two_teams


@pytest.fixture(scope="module")
def daemon():
    with two_teams() as daemon:
        yield daemon


def pid_of_tools(daemon):
    return next((pid for pid, command in children(daemon.child("server")) if command.startswith("atoll-tools")), None)


def listed(daemon, key=None, **headers):
    headers = ({"X-API-Key": key} if key else {}) | headers
    return httpx.post(f"{daemon.url}/tools/list_sandboxes", json={}, headers=headers, timeout=60)


def test_the_tools_have_no_privileges_no_environment_and_no_file(daemon):
    process = Path("/proc") / str(until(lambda: pid_of_tools(daemon), "the tools run"))
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert int(status["CapEff"], 16) == 0 and int(status["CapBnd"], 16) == 0
    assert set(status["Uid"].split()) == {str(os.stat(daemon.data / "state").st_uid)}
    assert (process / "environ").read_bytes() == b""
    open_files = {os.readlink(link) for link in (process / "fd").iterdir()}
    assert not [name for name in open_files if str(daemon.data / "state") in name]
    for name in ("tools.sock", "api.sock"):
        mode = os.stat(daemon.data / "state" / name).st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600


def test_tools_that_die_are_started_again_and_callers_are_told(daemon):
    code = {"language": "bash", "code": "sleep 60", "timeout_seconds": 100}
    before = until(lambda: pid_of_tools(daemon), "the tools run")

    def run():
        return httpx.post(f"{daemon.url}/api/code/execute", json=code, headers={"X-API-Key": daemon.key}, timeout=120)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        until(lambda: httpx.get(f"{daemon.url}/sandboxes", headers={"X-API-Key": daemon.key}).json(), "its sandbox is there")
        os.kill(before, signal.SIGKILL)
        answer = running.result()
    assert answer.status_code == 502 and "the tools ended before they had answered" in answer.json()["message"]
    answers = []
    until(lambda: answers.append(listed(daemon, daemon.key)) or answers[-1].status_code == 200, "the tools answer again")
    assert all(answer.status_code == 503 and answer.headers["retry-after"] == "1" for answer in answers[:-1])
    assert pid_of_tools(daemon) not in (None, before)
    for sandbox in httpx.get(f"{daemon.url}/sandboxes", headers={"X-API-Key": daemon.key}).json():
        httpx.delete(f"{daemon.url}/sandboxes/{sandbox['sandboxID']}", headers={"X-API-Key": daemon.key})


def test_no_client_says_who_it_is_in_the_words_of_the_daemon(daemon):
    team = httpx.get(f"{daemon.url}/teams", headers={"X-API-Key": daemon.key}).json()[0]["teamID"]
    forged = {"x-atoll-team": team, "x-atoll-key": daemon.key}
    assert listed(daemon, **forged).status_code == 401
    assert listed(daemon, "e2b_" + "0" * 40, **forged).status_code == 401
    assert listed(daemon, daemon.key, **{"x-atoll-refused": "no"}).status_code == 200


def test_internal_routes_exist_for_the_internal_socket_alone(daemon):
    for method, path in (("GET", "/internal/variables"), ("GET", "/internal/artifacts"), ("POST", "/internal/guard")):
        answer = httpx.request(method, f"{daemon.url}{path}", headers={"X-API-Key": daemon.key})
        assert answer.status_code == 404 and "no such endpoint" in answer.json()["message"]
    inside = httpx.Client(transport=httpx.HTTPTransport(uds=str(daemon.data / "state" / "api.sock")), base_url="http://localhost")
    assert inside.get("/internal/variables", headers={"X-API-Key": daemon.key}).json() == {}
    assert inside.get("/internal/variables").status_code == 401


def test_a_server_that_is_killed_takes_the_tools_along(daemon):
    before = until(lambda: pid_of_tools(daemon), "the tools run")
    daemon.kill_child("server")
    until(lambda: not Path(f"/proc/{before}").exists(), "the old tools are gone")
    until(lambda: listed(daemon, daemon.key).status_code == 200, "the new ones answer")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(daemon.data / "state" / "tools.sock"))
