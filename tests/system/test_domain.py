"""The default has a domain: official SDKs, new and old, curl and a browser reach a daemon that was started without a word
about it, with nothing but `eval "$(atoll env)"`."""

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from daemon import PROGRAM, ROOT, Daemon, open_way, until
from e2b import Sandbox
from world import Authority

HOST_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
TRUST = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"]
URLS = ["E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"]

PYTHON = """
import time, httpx
from e2b import Sandbox
sandbox = Sandbox.create() if hasattr(Sandbox, "create") else Sandbox()
try:
    assert sandbox.commands.run("echo hello").stdout == "hello\\n"
    sandbox.files.write("/tmp/page", "a page")
    assert sandbox.files.read("/tmp/page") == "a page"
    sandbox.commands.run("cd /tmp && exec python3 -m http.server 8000", background=True)
    for _ in range(300):
        answer = httpx.get(f"https://{sandbox.get_host(8000)}/page", timeout=30)
        if answer.status_code == 200:
            break
        time.sleep(0.1)
    print(answer.text)
finally:
    sandbox.kill()
"""

JAVASCRIPT = """
const { Sandbox } = await import(process.argv[2])
const sandbox = await Sandbox.create()
try {
  if ((await sandbox.commands.run('echo hello')).stdout !== 'hello\\n') throw new Error('no hello')
  await sandbox.files.write('/tmp/page', 'a page')
  if ((await sandbox.files.read('/tmp/page')) !== 'a page') throw new Error('no page')
  await sandbox.commands.run('cd /tmp && exec python3 -m http.server 8000', { background: true })
  let answer
  for (let i = 0; i < 300; i++) {
    answer = await fetch(`https://${sandbox.getHost(8000)}/page`)
    if (answer.status === 200) break
    await new Promise((done) => setTimeout(done, 100))
  }
  console.log(await answer.text())
} finally {
  await sandbox.kill()
}
"""


@pytest.fixture(scope="module")
def daemon():
    daemon = Daemon()
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.remove()


def environment(**more):
    """A shell that knows nothing but where programs are."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root"), **more}


def env(daemon, **more):
    return subprocess.run([PROGRAM, "env", "--data", str(daemon.data)], capture_output=True, text=True,
                          env=environment(**more))


def shell(daemon, command, without=(), **more):
    """The command after `eval "$(atoll env)"`, and after `unset` of some of its variables."""
    line = f'eval "$({PROGRAM} env --data {shlex.quote(str(daemon.data))})"; unset {" ".join(without) or "NONE"}; {command}'
    return subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180,
                          env=environment(**more))


def variables(daemon, **more):
    text = shell(daemon, "exec env -0", **more).stdout
    return dict(item.split("=", 1) for item in text.split("\0") if item)


def domain_port(daemon):
    return int(variables(daemon)["E2B_DOMAIN"].rpartition(":")[2])


# ---- SDKs ----


@pytest.mark.parametrize("without", [[], URLS], ids=["urls", "domain-alone"])
@pytest.mark.parametrize("version", ["", "2.10", "1.5"])
def test_a_python_sdk_needs_nothing_but_env(daemon, tmp_path, version, without):
    """Versions before 2.27 know no E2B_SANDBOX_URL, and the next major version will know no URL."""
    python = subprocess.run([ROOT / "tests/sdk-py/venv", *([version] if version else [])], check=True,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    script = tmp_path / "first.py"
    script.write_text(PYTHON)
    done = shell(daemon, f"{python} {script}", without)
    assert done.returncode == 0 and done.stdout == "a page\n", done.stderr


@pytest.mark.parametrize("without", [[], URLS], ids=["urls", "domain-alone"])
@pytest.mark.parametrize("package", ["e2b", "e2b-1"])
def test_a_javascript_sdk_needs_nothing_but_env(daemon, tmp_path, package, without):
    node = subprocess.run([ROOT / "tests/sdk-js/node"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    module = ROOT / "tests/sdk-js/node_modules" / package / "dist/index.mjs"
    script = tmp_path / "first.mjs"
    script.write_text(JAVASCRIPT)
    done = shell(daemon, f"{node} {script} {module}", without)
    assert done.returncode == 0 and done.stdout == "a page\n", done.stderr


def test_curl_reaches_api_and_ports_by_name(daemon):
    with Sandbox.create(**daemon.sdk) as sandbox:
        sandbox.commands.run("echo hello > /tmp/f; cd /tmp && exec python3 -m http.server 8000", background=True)
        host = f"8000-{sandbox.sandbox_id}.$E2B_DOMAIN"
        until(lambda: shell(daemon, f"curl -sS https://{host}/f").stdout == "hello\n", "curl reaches the port")
    done = shell(daemon, 'curl -sS "https://api.$E2B_DOMAIN/v2/sandboxes" -H "X-API-Key: $E2B_API_KEY"')
    assert json.loads(done.stdout) == [], done.stderr


def command(daemon, tmp_path, *words, without=(), line=None):
    """A command of `atoll` in a shell that has no data directory: only the domain, the key and whom to trust."""
    named = {name: value for name, value in variables(daemon).items() if name not in [*URLS, *without]}
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120,
                          input=line or "", env=environment(ATOLL_DATA=str(tmp_path), **named))


def test_every_command_reaches_the_daemon_by_its_domain(daemon, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian AS first\nCOPY note /note\nFROM debian\nCOPY --from=first /note /note\n")
    (tmp_path / "note").write_text("carried over TLS\n" * 100_000)
    ask = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
           "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    for words in (["tool", "list_templates"], ["shell", "list"], ["key", "list"], ["template", "list"], ["disk"],
                  ["template", "build", "by-domain", str(tmp_path)]):
        done = command(daemon, tmp_path, *words)
        assert done.returncode == 0, (words, done.stderr)
    talked = command(daemon, tmp_path, "mcp", line=json.dumps(ask) + "\n")
    assert json.loads(talked.stdout.splitlines()[0])["result"]["serverInfo"], talked.stderr


def test_the_command_line_refuses_a_daemon_that_it_does_not_trust(daemon, tmp_path):
    done = command(daemon, tmp_path, "key", "list", without=TRUST)
    assert done.returncode == 1 and "certificate" in done.stderr and "set SSL_CERT_FILE" in done.stderr, done.stderr
    done = command(daemon, tmp_path, "key", "list", without=["E2B_API_KEY"])
    assert done.returncode == 1 and "E2B_DOMAIN names a daemon, but E2B_API_KEY is not set" in done.stderr, done.stderr


def test_both_loopback_addresses_are_served(daemon):
    """Resolvers name ::1 first, and some clients try no second address."""
    port = domain_port(daemon)
    for address in ["127.0.0.1", "[::1]"]:
        done = shell(daemon, f"curl -sS --resolve api.localhost:{port}:{address} https://api.$E2B_DOMAIN/health")
        assert '"status":"ok"' in done.stdout, done.stderr


def test_the_api_tells_the_domain(daemon):
    domain = variables(daemon)["E2B_DOMAIN"]
    with Sandbox.create(**daemon.sdk) as sandbox:
        assert sandbox.get_host(80) == f"80-{sandbox.sandbox_id}.{domain}"
        assert sandbox.get_mcp_url() == f"https://50005-{sandbox.sandbox_id}.{domain}/mcp"


# ---- browsers ----


def dumped(url, home):
    """What Chromium makes of a page, with the home directory of a user who did nothing but what is in it."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    done = subprocess.run(
        [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", f"--user-data-dir={home}/profile", "--dump-dom", url],
        capture_output=True, text=True, timeout=120, env=environment(HOME=str(home)))  # fmt: skip
    return done.stdout


def test_a_browser_opens_a_port_by_its_name(daemon, tmp_path):
    """Over plain HTTP at once, and over TLS once it was told of the authority as `atoll ca --help` says."""
    store = tmp_path / ".pki" / "nssdb"
    store.mkdir(parents=True)
    subprocess.run(["certutil", "-d", f"sql:{store}", "-N", "--empty-password"], check=True, stdin=subprocess.DEVNULL,
                   timeout=60)
    with Sandbox.create(**daemon.sdk) as sandbox:
        sandbox.files.write("/tmp/index.html", "<p>a page</p>")
        sandbox.commands.run("cd /tmp && exec python3 -m http.server 8000", background=True)
        secure = f"https://{sandbox.get_host(8000)}/"
        plain = f"http://8000-{sandbox.sandbox_id}.localhost:{httpx.URL(daemon.url).port}/"
        until(lambda: "a page" in dumped(plain, tmp_path), "the page is opened over plain HTTP")
        assert "a page" not in dumped(secure, tmp_path)
        done = shell(daemon, f"{PROGRAM} ca --data {daemon.data} > {tmp_path}/atoll-ca.pem && certutil -d sql:{store} -A "
                             f"-t C,, -n atoll -i {tmp_path}/atoll-ca.pem")
        assert done.returncode == 0, done.stderr
        assert "a page" in dumped(secure, tmp_path)


def test_the_doctor_knows_whether_names_below_localhost_lead_here(tmp_path):
    (tmp_path / "nsswitch.conf").write_text("hosts: files\n")
    for setup, verdict in [("true", "ok"), (f"mount --bind {tmp_path}/nsswitch.conf /etc/nsswitch.conf", "degraded")]:
        done = subprocess.run(["unshare", "--mount", "bash", "-c", f"{setup} && {PROGRAM} doctor"], capture_output=True,
                              text=True)
        assert [line.split()[0] for line in done.stdout.splitlines() if line.split()[1] == "names"] == [verdict], done


# ---- whom a shell trusts ----


def test_the_bundle_has_the_hosts_authorities_and_ours(daemon):
    own = subprocess.run([PROGRAM, "ca", "--data", str(daemon.data)], check=True, capture_output=True, text=True).stdout
    told = variables(daemon)
    [path] = {told[name] for name in TRUST}
    assert Path(path).read_text() == HOST_BUNDLE.read_text() + own
    assert os.stat(path).st_mode & 0o777 == 0o644 and os.stat(path).st_uid == 0


def test_authorities_that_a_shell_trusted_before_stay_trusted(daemon, tmp_path):
    other = Path(Authority(str(tmp_path)).cert).read_text()
    (tmp_path / "company.pem").write_text(other)
    path = Path(variables(daemon, SSL_CERT_FILE=str(tmp_path / "company.pem"))["SSL_CERT_FILE"])
    assert other in path.read_text()
    variables(daemon, SSL_CERT_FILE=str(path))  # a second eval in the same shell
    assert other in path.read_text()
    variables(daemon)
    assert other not in path.read_text()
    assert variables(daemon, SSL_CERT_FILE=str(tmp_path / "gone.pem"))["SSL_CERT_FILE"] == str(path)


def test_two_daemons_in_one_shell_do_not_make_the_file_grow(daemon, tmp_path):
    path = Path(variables(daemon)["SSL_CERT_FILE"])
    before = path.stat().st_size
    other = tmp_path / "other.pem"  # that of another daemon, which has taken over ours
    for _ in range(3):
        other.write_text(path.read_text() + Path(Authority(str(tmp_path)).cert).read_text())
        variables(daemon, SSL_CERT_FILE=str(other))
        other.write_text(path.read_text())
    assert path.read_text().count("BEGIN") <= HOST_BUNDLE.read_text().count("BEGIN") + 4
    assert path.stat().st_size < before + 8192


def test_our_authority_is_for_our_names_alone(daemon):
    text = subprocess.run(["openssl", "x509", "-noout", "-ext", "nameConstraints"], text=True, capture_output=True,
                          check=True, input=(daemon.data / "state/ca.pem").read_text()).stdout
    assert "critical" in text
    assert {line.strip() for line in text.splitlines() if "DNS:" in line} == {"DNS:localhost"}


@pytest.mark.parametrize("name", ["state/ca.pem", "run/domain"])
def test_a_server_cannot_make_root_trust_or_run_what_it_likes(daemon, tmp_path, name):
    """The server may write both files; root's shell takes what `atoll env` prints."""
    path, bad = daemon.data / name, {
        "state/ca.pem": Path(Authority(str(tmp_path)).cert).read_text(),  # for all names
        "run/domain": "localhost'; touch /tmp/atoll-was-here; '",
    }[name]
    bundle = daemon.data / "run/ca-bundle.pem"
    variables(daemon)
    good, before = path.read_bytes(), bundle.read_bytes()
    try:
        path.write_text(bad)
        answer = env(daemon)
        assert answer.returncode == 1 and answer.stdout == "" and str(path) in answer.stderr
        assert bundle.read_bytes() == before
    finally:
        path.write_bytes(good)
    assert env(daemon).returncode == 0


def test_with_files_of_the_operators_no_authority_of_ours_is_named(tmp_path_factory):
    path = tmp_path_factory.mktemp("tls")
    open_way(path)
    cert, key = Authority(str(path)).leaf("box.test")
    for file in (cert, key):
        os.chmod(file, 0o644)
    daemon = Daemon("--domain", "box.test:9443", "--tls-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
    try:
        daemon.start()
        told = variables(daemon)
        assert told["E2B_DOMAIN"] == "box.test:9443" and not set(TRUST) & set(told)
    finally:
        daemon.remove()


# ---- where it is served ----

# In a network of its own: takes ports, starts a daemon, and prints what `atoll env` says.
ALONE = """
import os, socket, subprocess, sys
sys.path.insert(0, {here!r})
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
taken = [socket.create_server(("127.0.0.1", port)) for port in {ports}]
from daemon import PROGRAM, Daemon
daemon = Daemon(*{settings})
try:
    daemon.start(listen="127.0.0.1:3000")
    print(subprocess.run([PROGRAM, "env", "--data", str(daemon.data)], check=True, capture_output=True, text=True).stdout)
finally:
    daemon.remove()
"""


@pytest.mark.parametrize("ports, settings, domain", [
    ([], [], "localhost"),
    ([443], [], "localhost:3443"),
    ([], ["--tls-listen", "none"], None),
])  # fmt: skip
def test_the_port_is_443_where_that_is_free(ports, settings, domain):
    script = ALONE.format(here=str(Path(__file__).parent), ports=ports, settings=settings)
    done = subprocess.run(["unshare", "--net", sys.executable, "-c", script], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    line = f"export E2B_DOMAIN='{domain}'"
    assert (line in done.stdout.splitlines()) if domain else ("E2B_DOMAIN" not in done.stdout), done.stdout


def test_names_of_others_are_refused_over_tls_too(daemon):
    port = domain_port(daemon)
    answer = httpx.get(f"https://127.0.0.1:{port}/health", headers={"Host": "rebound.test"},
                       verify=False)  # noqa: S501
    assert answer.status_code == 421


def test_nothing_is_said_before_there_is_anything(tmp_path):
    answer = subprocess.run([PROGRAM, "env", "--data", str(tmp_path / "none")], capture_output=True, text=True)
    assert answer.returncode == 4 and "make run" in answer.stderr and answer.stdout == ""


def test_env_says_what_to_wait_for_while_a_daemon_is_prepared(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with open(run / "prepare.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = subprocess.run([PROGRAM, "env", "--data", str(tmp_path)], capture_output=True, text=True)
    assert answer.returncode == 4 and "is being prepared" in answer.stderr
