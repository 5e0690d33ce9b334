"""Paths that try to be something else: NUL, '..', links that leave, names that are not UTF-8."""

import os

import pytest
import web
from e2b import SandboxException


@pytest.fixture(scope="module")
def agent(sandbox):
    with web.agent(sandbox) as client:
        yield client


@pytest.fixture
def host_file(tmp_path):
    """A file of the host that no sandbox may see."""
    path = tmp_path / "of-the-host"
    path.write_text("secret of the host")
    path.chmod(0o644)
    return str(path)


def refused(answer, *statuses):
    assert answer.status_code in statuses, answer.text
    error = answer.json()
    assert error["message"].strip()


@pytest.mark.parametrize("path", ["%00", "/etc/hostname%00", "/tmp/a%00b"])
def test_nul(sandbox, agent, path):
    refused(agent.get(f"/files?path={path}"), 400)
    refused(agent.post(f"/files?path={path}", content=b"x"), 400)
    assert not sandbox.files.exists("/tmp/a")


def test_nul_in_a_call(agent):
    for method in ("Stat", "ListDir", "MakeDir", "Remove"):
        answer = agent.post(f"/filesystem.Filesystem/{method}", json={"path": "/tmp/a\0b"})
        refused(answer, 400)


@pytest.mark.parametrize("up", ["..", "../..", "/..", "/../../../..", "/tmp/../../../.."])
def test_dots_stay_inside(sandbox, agent, host_file, up):
    refused(agent.get("/files", params={"path": f"{up}{host_file}"}), 404)
    assert not sandbox.files.exists(f"{up}{host_file}")


def test_dots_inside_work_as_usual(sandbox):
    sandbox.files.write("/tmp/dots/a/../b", "x")
    assert sandbox.files.read("/tmp/dots/b") == "x"
    assert sandbox.files.read("/../../tmp/dots/b") == "x"


@pytest.mark.parametrize(
    "target", ["{0}", "../../../../../../..{0}", "/proc/1/root{0}", "/proc/self/cwd/../../..{0}"]
)
def test_links_do_not_leave(sandbox, agent, host_file, target):
    link = f"/tmp/link-{abs(hash(target))}"
    sandbox.commands.run(f"ln -sfn '{target.format(host_file)}' {link}")
    refused(agent.get("/files", params={"path": link}), 404)
    sandbox.commands.run(f"ln -sfn '{target.format(os.path.dirname(host_file))}' {link}-dir")
    refused(agent.get("/files", params={"path": f"{link}-dir/of-the-host"}), 404)


def test_a_link_in_a_circle(sandbox, agent):
    sandbox.commands.run("ln -sfn /tmp/circle /tmp/circle")
    refused(agent.get("/files", params={"path": "/tmp/circle"}), 400, 404)
    refused(agent.post("/files", params={"path": "/tmp/circle/x"}, content=b"x"), 400, 404)
    sandbox.files.remove("/tmp/circle")
    assert not sandbox.files.exists("/tmp/circle")


def test_a_path_through_a_file(sandbox, agent):
    sandbox.files.write("/tmp/plain", "x")
    refused(agent.get("/files", params={"path": "/tmp/plain/below"}), 400, 404)
    refused(agent.post("/files", params={"path": "/tmp/plain/below"}, content=b"x"), 400)
    assert sandbox.files.read("/tmp/plain") == "x"


def test_a_path_longer_than_any(agent):
    refused(agent.get("/files", params={"path": "/a" * 3000}), 400, 404)


def test_names_that_are_not_utf8_can_be_listed(sandbox):
    sandbox.commands.run("mkdir -p /tmp/odd && cd /tmp/odd && touch $'bad\\xff\\xfe' good")
    names = [entry.name for entry in sandbox.files.list("/tmp/odd")]
    assert "good" in names and len(names) == 2
    sandbox.files.remove("/tmp/odd")
    assert not sandbox.files.exists("/tmp/odd")


def test_names_that_are_not_utf8_in_a_request(agent):
    refused(agent.get("/files?path=/tmp/%ff%fe"), 400, 404)
    answer = agent.post(
        "/filesystem.Filesystem/Stat",
        content=b'{"path": "/tmp/\xff\xfe"}',
        headers={"Content-Type": "application/json"},
    )
    refused(answer, 400)


@pytest.mark.parametrize(
    "path", ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/sys/power/state"]
)
def test_the_hosts_kernel_is_not_a_file(sandbox, agent, path):
    answer = agent.post("/files", params={"path": path, "username": "root"}, content=b"x")
    assert answer.status_code >= 400
    assert sandbox.is_running()


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "/tmp/fifo"])
def test_what_never_ends_is_not_read(sandbox, agent, path):
    sandbox.commands.run("test -p /tmp/fifo || mkfifo /tmp/fifo")
    with agent.stream("GET", "/files", params={"path": path}) as answer:
        assert answer.status_code == 400
    assert sandbox.is_running()


@pytest.mark.parametrize(
    "user", ["0x0", "-1", "1000:0", "root\n", "", "../root", "\u6d77", "a" * 5000]
)
def test_odd_user_names(agent, user):
    refused(agent.get("/files", params={"path": "/etc/hostname", "username": user}), 400, 401)


def test_a_call_with_a_broken_body(agent):
    headers = {"Content-Type": "application/json"}
    for body in (b"", b"{", b"[]", b'{"path": 5}', b"\xff"):
        answer = agent.post("/filesystem.Filesystem/Stat", content=body, headers=headers)
        refused(answer, 400)


def test_a_call_that_does_not_exist(agent):
    headers = {"Content-Type": "application/json"}
    answer = agent.post("/filesystem.Filesystem/Explode", content=b"{}", headers=headers)
    assert answer.status_code in (404, 501)


def test_a_stream_whose_frame_lies(sandbox, agent):
    headers = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
    for frame in (
        b"\x00\xff\xff\xff\xff{}",
        b"\x00\x00\x00\x00\x02{",
        b"\x00",
        b"\x01\x00\x00\x00\x02{}",
    ):
        answer = agent.post("/process.Process/Start", content=frame, headers=headers)
        assert answer.status_code >= 400 or b'"error"' in answer.content
    assert sandbox.is_running()


def test_a_read_only_place(sandbox):
    with pytest.raises(SandboxException, match="403: .*Read-only file system"):
        sandbox.files.write("/sys/x", "nowhere to put it", user="root")
