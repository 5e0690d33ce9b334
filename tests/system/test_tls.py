"""TLS of the daemon's own: an authority that outlives restarts, names below the domain, and the
operator's files read again when they change."""

import os
import pathlib
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile

import pytest
from daemon import PROGRAM, Daemon, until
from e2b import Sandbox
from world import Authority


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def curl(port, host, *words, **options):
    """What curl says to https://host:port/, where every name is this machine."""
    return subprocess.run(
        ["curl", "-sS", "-m", "20", "--resolve", f"{host}:{port}:127.0.0.1", *words,
         f"https://{host}:{port}{options.get('path', '/health')}"],
        capture_output=True, text=True)


def serial(port, name="localhost"):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain:
        with context.wrap_socket(plain, server_hostname=name) as tls:
            return tls.getpeercert(True)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    port = free_port()
    daemon = Daemon("--tls-listen", f"127.0.0.1:{port}", "--domain", "sandboxes.test")
    try:
        daemon.start()
        yield daemon, port, tmp_path_factory.mktemp("ca") / "ca.pem"
    finally:
        daemon.remove()


def authority(daemon):
    return subprocess.run([PROGRAM, "ca", "--data", str(daemon.data)], check=True,
                          capture_output=True, text=True).stdout


def test_its_own_authority_vouches_for_the_domain_and_localhost(own):
    daemon, port, path = own
    path.write_text(authority(daemon))
    for host in ["sandboxes.test", "api.sandboxes.test", "3000-iabc.sandboxes.test", "localhost",
                 "49983-x.localhost", "127.0.0.1"]:
        answer = curl(port, host, "--cacert", str(path))
        assert answer.returncode == 0, answer.stderr
    assert curl(port, "elsewhere.test", "--cacert", str(path)).returncode == 60
    assert curl(port, "sandboxes.test").returncode == 60  # nobody else believes it


def test_a_client_that_trusts_it_goes_on_doing_so_after_a_restart(own):
    daemon, port, path = own
    path.write_text(authority(daemon))
    daemon.stop()
    daemon.start()
    assert curl(port, "sandboxes.test", "--cacert", str(path)).returncode == 0
    text = subprocess.run(["openssl", "x509", "-noout", "-text"], input=authority(daemon), text=True,
                          capture_output=True, check=True).stdout
    assert "CA:TRUE" in text and "atoll " in text


def test_a_port_of_a_sandbox_is_reached_by_its_name(own):
    daemon, port, path = own
    path.write_text(authority(daemon))
    with Sandbox.create(**daemon.sdk) as sandbox:
        sandbox.commands.run("echo hello > /tmp/f; cd /tmp && python3 -m http.server 8000",
                             background=True)
        host = f"8000-{sandbox.sandbox_id}.sandboxes.test"
        for version in ["--http1.1", "--http2"]:
            answer = curl(port, host, "--cacert", str(path), version, path="/f")
            assert answer.stdout == "hello\n", answer.stderr


@pytest.fixture(scope="module")
def files():
    path = pathlib.Path(tempfile.mkdtemp(prefix="atoll-tls-"))
    path.chmod(0o755)  # the serving user reads them
    authority = Authority(str(path))
    cert, key = authority.leaf("one.test")
    port = free_port()
    for name, source in {"cert.pem": cert, "key.pem": key}.items():
        (path / name).write_bytes(open(source, "rb").read())
        (path / name).chmod(0o644)
    daemon = Daemon("--tls-listen", f"127.0.0.1:{port}", "--tls-cert", str(path / "cert.pem"),
                    "--tls-key", str(path / "key.pem"))
    try:
        daemon.start()
        yield daemon, port, path, authority
    finally:
        daemon.remove()
        shutil.rmtree(path)


def test_files_are_read_again_when_they_change(files):
    daemon, port, path, authority = files
    first = serial(port)
    kept = ssl.create_default_context(cafile=authority.cert).wrap_socket(
        socket.create_connection(("127.0.0.1", port)), server_hostname="one.test")
    cert, key = authority.leaf("two.test")
    (path / "cert.pem").write_bytes(open(cert, "rb").read())
    until(lambda: "cannot be used" in daemon.said(), "the lone certificate is refused")
    assert serial(port) == first
    (path / "key.pem").write_bytes(open(key, "rb").read())
    until(lambda: serial(port) != first, "the new certificate is served")
    assert '"status"' in curl(port, "two.test", "--cacert", authority.cert).stdout
    kept.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert kept.recv(12) == b"HTTP/1.1 200"


def test_what_is_no_certificate_changes_nothing(files):
    daemon, port, path, _ = files
    def refusals():  # in all of the log: what was said last may have left the end of it
        return (daemon.data / "log").read_text(errors="replace").count("cannot be used")

    before, refused = serial(port), refusals()
    (path / "cert.pem").write_text("nonsense")
    until(lambda: refusals() > refused, "the nonsense is refused")
    assert serial(port) == before


def test_one_file_without_the_other_is_refused(tmp_path):
    answer = subprocess.run([PROGRAM, "serve", "--data", str(tmp_path), "--tls-listen", "127.0.0.1:1",
                             "--tls-cert", "/x"], capture_output=True, text=True)
    assert answer.returncode == 2 and "need each other" in answer.stderr


# ---- sockets that the server could not open itself ----


def test_a_port_below_1024_is_opened_before_root_is_dropped():
    """`--tls-listen :443` answered "permission denied": only root may listen there."""
    daemon = Daemon("--tls-listen", "127.77.0.1:443", "--domain", "sandboxes.test")
    try:
        daemon.start()
        for way in (lambda: None, lambda: daemon.kill_child("server")):
            way()
            answer = subprocess.run(
                ["curl", "-sSk", "-m", "20", "--resolve", "sandboxes.test:443:127.77.0.1",
                 "https://sandboxes.test/health"], capture_output=True, text=True)
            assert answer.returncode == 0, answer.stderr
        status = pathlib.Path(f"/proc/{daemon.child('server')}/status").read_text()
        assert "Uid:\t0" not in status
    finally:
        daemon.remove()


def test_sockets_of_a_socket_unit_are_taken():
    """As systemd does it: the unprivileged server finds its sockets as descriptors 3 and 4."""
    daemon = Daemon("--domain", "sandboxes.test")
    server = keeper = None
    daemon.start()
    try:
        # The units: a keeper of its own, and a server that root did not start.
        daemon.stop()
        common = ["--data", str(daemon.data), *daemon.settings]
        subprocess.run([PROGRAM, "prepare", *common], check=True, capture_output=True)
        keeper = subprocess.Popen([PROGRAM, "keeper", *common], stdout=daemon.log, stderr=daemon.log)
        with socket.create_server(("127.0.0.1", 0)) as plain, socket.create_server(("127.0.0.1", 0)) as tls:
            def hand_over():
                low = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate((plain, tls))]
                for i, fd in enumerate(low):
                    os.dup2(fd, 3 + i, inheritable=True)
                for output in (1, 2):
                    os.dup2(daemon.log.fileno(), output)
                os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2", LISTEN_FDNAMES="http:https")
                user = pwd.getpwnam("atoll")
                os.setgroups([])
                os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
                os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
                os.execv(PROGRAM, [str(PROGRAM), "serve", *common])

            server = os.fork()
            if server == 0:
                try:
                    hand_over()
                finally:
                    os._exit(127)
            ports = [s.getsockname()[1] for s in (plain, tls)]
            until(lambda: "ready on" in daemon.said().split("stopping")[-1], "the server is ready")
            answer = curl(ports[1], "sandboxes.test", "-k")
            assert answer.returncode == 0, answer.stderr
            plain_answer = subprocess.run(["curl", "-sS", "-m", "20", f"http://127.0.0.1:{ports[0]}/health"],
                                          capture_output=True, text=True)
            assert plain_answer.returncode == 0, plain_answer.stderr
    finally:
        if server:
            os.kill(server, signal.SIGTERM)
            os.waitpid(server, 0)
        if keeper:
            keeper.terminate()
            keeper.wait()
        daemon.remove()
