"""The command line over HTTPS to a daemon elsewhere, with an authority of its own: commands, copies and forwarded ports
go by the names of its domain, or by headers at any other name."""

import json
import os
import signal
import socket
import subprocess

import pytest
from daemon import PROGRAM, running
from e2b import Sandbox

WAIT_S = 120
RAW = bytes(range(256)) * 4096  # every byte, more than any buffer on the way


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """Its port for TLS, its key, the file with its authority, and a sandbox."""
    port = free_port()
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    with running("--tls-listen", f"127.0.0.1:{port}") as daemon:
        path.write_text(subprocess.run([PROGRAM, "ca", "--data", str(daemon.data)], check=True, capture_output=True, text=True).stdout)
        with Sandbox.create(timeout=900, **daemon.sdk) as sandbox:
            yield port, daemon.key, path, sandbox


@pytest.fixture(params=["api.localhost", "localhost"], ids=["by its domain", "by headers"])
def words(request, far):
    """A command line without an environment, and with no daemon of this machine to fall back to."""
    port, key, path, _ = far
    nothing = {"PATH": os.environ["PATH"], "ATOLL_DATA": "/nonexistent"}

    def run(*more, **options):
        line = [PROGRAM, more[0], "--url", f"https://{request.param}:{port}", "--key", key, "--ca", str(path), *more[1:]]
        if options.pop("start", False):
            return subprocess.Popen(line, env=nothing, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        options.setdefault("input", b"")
        return subprocess.run(line, env=nothing, capture_output=True, timeout=WAIT_S, check=False, **options)

    return run


def test_commands(words, far):
    sandbox = far[3]
    ended = words("exec", sandbox.sandbox_id, "sh", "-c", "cat; echo aside >&2; exit 5", input=RAW)
    assert (ended.returncode, ended.stdout, ended.stderr) == (5, RAW, b"aside\n")
    ended = words("run", "sh", "-c", "echo $((6 * 7))")
    assert (ended.returncode, ended.stdout) == (0, b"42\n"), ended.stderr
    ended = words("connect", sandbox.sandbox_id, input=b"echo in a shell; exit 3\n")
    assert (ended.returncode, ended.stdout) == (3, b"in a shell\n"), ended.stderr
    assert [row["sandboxID"] for row in json.loads(words("ps", "--json").stdout)] == [sandbox.sandbox_id]


def test_copies(words, far, tmp_path):
    sandbox = far[3]
    there = f"{sandbox.sandbox_id}:/tmp/over-tls"
    (tmp_path / "raw").write_bytes(RAW)
    assert words("cp", str(tmp_path / "raw"), there).returncode == 0
    ended = words("cp", there, str(tmp_path / "back"))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "back").read_bytes() == RAW
    (tmp_path / "dir" / "deep").mkdir(parents=True)
    (tmp_path / "dir" / "deep" / "file").write_bytes(b"below")
    assert words("cp", str(tmp_path / "dir"), f"{there}-dir").returncode == 0
    assert words("cp", f"{there}-dir", str(tmp_path / "again")).returncode == 0
    assert (tmp_path / "again" / "deep" / "file").read_bytes() == b"below"
    sandbox.commands.run("rm -rf /tmp/over-tls*")


# A thread for each connection: over TLS the service is not told that the client has closed its side.
ECHO = """
import socket, threading
def serve(c):
    while data := c.recv(65536):
        c.sendall(data)
s = socket.create_server(("127.0.0.1", 7007))
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


@pytest.fixture(scope="module")
def echo(far):
    sandbox = far[3]
    sandbox.files.write("/tmp/echo.py", ECHO)
    sandbox.commands.run("exec python3 /tmp/echo.py", background=True, timeout=0)
    sandbox.commands.run("for i in $(seq 300); do ss -ltn | grep -q :7007 && exit 0; sleep 0.1; done; exit 1")
    return sandbox


def test_a_forwarded_port(words, echo):
    child = words("port", "--json", echo.sandbox_id, "0:7007", start=True)
    try:
        local = json.loads(child.stdout.readline())["local"]
        for _ in range(2):  # one connection after the other
            with socket.create_connection(("127.0.0.1", local), timeout=WAIT_S) as peer:
                got = bytearray()
                for at in range(0, len(RAW), 65536):
                    peer.sendall(RAW[at:at + 65536])
                    while len(got) < min(at + 65536, len(RAW)):
                        piece = peer.recv(65536)
                        assert piece, "the connection ended"
                        got += piece
                assert bytes(got) == RAW
    finally:
        child.send_signal(signal.SIGINT)
        assert child.wait(WAIT_S) == 0, child.stderr.read()


def test_a_daemon_that_nobody_vouches_for_is_not_spoken_to(far):
    port, key, _, sandbox = far
    ended = subprocess.run([PROGRAM, "exec", "--url", f"https://api.localhost:{port}", "--key", key, sandbox.sandbox_id, "true"],
                           env={"PATH": os.environ["PATH"], "ATOLL_DATA": "/nonexistent"}, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert ended.returncode != 0 and "certificate" in ended.stderr and key not in ended.stderr
