"""Rules of the network: headers that requests are given outside the jail, with real programs inside.

Servers are on loopback and have certificates of an authority that the operator names (egress_ca)."""

import base64
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile

import httpx
import pytest
from daemon import running, until
from e2b import CommandExitException, Sandbox
from world import Authority, Names, Origin, Web

API, OLD, PLAIN, FALSE = "198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4"
GIT = "198.51.100.5"
ALL = "0.0.0.0/0"
SECRET = "s3cr3t-value-that-must-never-enter-7f1c"


def repository(path):
    """A bare repository with one file, as a plain web server can serve it."""
    at = pathlib.Path(path)
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.com"]
    subprocess.run([*git, "init", "-q", at / "work"], check=True)
    (at / "work" / "file").write_text("cloned\n")
    subprocess.run([*git, "-C", at / "work", "add", "file"], check=True)
    subprocess.run([*git, "-C", at / "work", "commit", "-qm", "one"], check=True)
    subprocess.run([*git, "clone", "-q", "--bare", at / "work", at / "bare"], check=True)
    subprocess.run([*git, "-C", at / "bare", "update-server-info"], check=True)
    return at / "bare"


class World:
    def __init__(self, path):
        self.authority, self.stranger = Authority(path), Authority(path, "stranger")
        self.api = Origin(*self.authority.leaf("api.test", "*.wild.test", "free.test", "other.test"))
        self.old = Origin(*self.authority.leaf("old.test"), "h1")
        self.false = Origin(*self.stranger.leaf("false.test"))
        self.plain = Web("plain")
        self.git = Web("git", self.combined(path, *self.authority.leaf("git.test")))
        self.git.files = repository(path)
        self.trusted = tempfile.NamedTemporaryFile("w", suffix=".pem")  # the daemon's user reads it
        self.trusted.write(open(self.authority.cert).read())
        self.trusted.flush()
        os.chmod(self.trusted.name, 0o644)
        self.names = Names({name: [address] for name, address in {
            "api.test": API, "a.wild.test": API, "a.b.wild.test": API, "wild.test": API, "free.test": API,
            "other.test": API, "old.test": OLD, "plain.test": PLAIN, "false.test": FALSE, "git.test": GIT, "wrong.test": API,
        }.items()})

    @staticmethod
    def combined(path, *parts):
        with open(f"{path}/combined.pem", "w") as out:
            out.writelines(open(part).read() for part in parts)
        return out.name

    def settings(self):
        pairs = [f"{GIT}:443=127.0.0.1:{self.git.server_port}",
                 f"{API}:443=127.0.0.1:{self.api.port}", f"{OLD}:443=127.0.0.1:{self.old.port}",
                 f"{FALSE}:443=127.0.0.1:{self.false.port}", f"{PLAIN}:80=127.0.0.1:{self.plain.server_port}",
                 f"{API}:8443=127.0.0.1:{self.api.port}"]
        return ["--egress-map", ",".join(pairs), "--egress-dns", f"127.0.0.1:{self.names.port}",
                "--egress-ca", self.trusted.name]

    def stop(self):
        for origin in (self.api, self.old, self.false):
            origin.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.stop()


@pytest.fixture(scope="module")
def daemon(world):
    with running(*world.settings()) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def api(daemon):
    with httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def secret(api):
    answer = api.post("/secrets", json={"name": "Token", "value": SECRET})
    assert answer.status_code == 201, answer.text
    return answer.json()


def rule(**headers):
    return [{"transform": {"headers": {name.replace("_", "-"): value for name, value in headers.items()}}}]


RULES = {
    "api.test": rule(authorization="Bearer ${e2b.secrets.token}", x_set="by the rule"),
    "*.wild.test": rule(x_wild="shallow"),
    "*.b.wild.test": rule(x_wild="deep"),
    "old.test": rule(authorization="Bearer ${e2b.secrets.token}", x_set="by the rule"),
    "git.test": rule(authorization="Bearer ${e2b.secrets.token}"),
    "plain.test": rule(x_set="plain"),
    "false.test": rule(authorization="Bearer ${e2b.secrets.token}"),
    "wrong.test": rule(authorization="Bearer ${e2b.secrets.token}"),
}


@pytest.fixture(scope="module")
def box(daemon):
    sandbox = Sandbox.create(timeout=600, network={"rules": RULES}, **daemon.sdk)
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def run(sandbox, command, **options):
    return sandbox.commands.run(command, timeout=60, **options).stdout


def fails(sandbox, command):
    try:
        sandbox.commands.run(command, timeout=60)
    except CommandExitException as failure:
        return failure.stderr
    raise AssertionError(f"it worked: {command}")


def ask(sandbox, url, *options):
    """What the origin says it was asked."""
    return json.loads(run(sandbox, f"curl -sS -m 20 {' '.join(options)} '{url}'"))


def status(sandbox, url, *options):
    return int(run(sandbox, f"curl -sS -m 20 -o /dev/null -w '%{{http_code}}' {' '.join(options)} '{url}'"))


# ---- programs ----


def test_curl_over_http2_and_http1(box):
    for option, version in (("--http2", "2.0"), ("--http1.1", "1.1")):
        asked = ask(box, "https://api.test/path?q=1", option)
        assert asked["version"] == version
        assert asked["url"] == "/path?q=1"
        assert asked["headers"]["authorization"] == f"Bearer {SECRET}"
        assert asked["headers"]["x-set"] == "by the rule"


PROGRAMS = {
    "python urllib": "python3 -c \"import urllib.request as u; print(u.urlopen('https://api.test/').read().decode())\"",
    "python without variables": "env -u SSL_CERT_FILE python3 -c \"import urllib.request as u;"
                                " print(u.urlopen('https://api.test/').read().decode())\"",
    "node": "node -e \"fetch('https://api.test/').then(r => r.text()).then(console.log)\"",
    "wget": "wget -q -O - https://api.test/",
    "requests": "python3 -c \"from pip._vendor import requests; print(requests.get('https://api.test/').text)\"",
    "curl as root": "sudo curl -sS https://api.test/",
    "openssl": "printf 'GET / HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\n\\r\\n' |"
               " openssl s_client -quiet -verify_return_error -connect api.test:443 -servername api.test"
               " 2>/dev/null | sed -n '/^{/p'",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_trust_the_sandbox_s_authority(box, program):
    asked = json.loads(run(box, PROGRAMS[program]))
    assert asked["headers"]["authorization"] == f"Bearer {SECRET}"


def test_git_clones_over_https(box, world):
    run(box, "rm -rf /tmp/clone && git clone -q https://git.test/repo /tmp/clone")
    assert box.files.read("/tmp/clone/file") == "cloned\n"
    assert f"Bearer {SECRET}" in world.git.seen


def test_a_websocket_passes_with_the_header(box):
    script = (
        "import socket, ssl\n"
        "s = ssl.create_default_context().wrap_socket(socket.create_connection(('api.test', 443)),"
        " server_hostname='api.test')\n"
        "s.sendall(b'GET /ws HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
        "Sec-WebSocket-Key: abc\\r\\nSec-WebSocket-Version: 13\\r\\n\\r\\n')\n"
        "got = b''\n"
        "while not got.endswith(b'ping'):\n"
        "    if got.endswith(b'\\n') and b'Bearer' in got: s.sendall(b'ping')\n"
        "    piece = s.recv(4096)\n"
        "    assert piece, got\n"
        "    got += piece\n"
        "print(got.decode())\n")
    box.files.write("/tmp/ws.py", script)
    said = run(box, "python3 /tmp/ws.py")
    assert said.startswith("HTTP/1.1 101") and f"Bearer {SECRET}\nping" in said


def test_trailers_pass_as_grpc_needs_them(box):
    box.files.write("/tmp/trailers.cjs", (
        "const http2 = require('http2')\n"
        "const session = http2.connect('https://api.test')\n"
        "const stream = session.request({':path': '/trailers', te: 'trailers'})\n"
        "stream.on('response', (head) => console.log('te', head['x-te']))\n"
        "stream.on('trailers', (last) => console.log('status', last['grpc-status'], last['x-last']))\n"
        "stream.on('close', () => session.close())\n"
        "stream.resume()\n"))
    assert run(box, "node /tmp/trailers.cjs") == "te trailers\nstatus 7 word\n"


# ---- bodies ----


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_large_bodies_pass_whole_both_ways(box, version):
    size = 20_000_000
    run(box, f"head -c {size} /dev/zero > /tmp/zeros")
    asked = ask(box, "https://api.test/up", version, "-T /tmp/zeros")
    assert asked["length"] == size and asked["sha256"] == hashlib.sha256(bytes(size)).hexdigest()
    got = run(box, f"curl -sS {version} 'https://api.test/big?size={size}' | sha256sum").split()[0]
    assert got == hashlib.sha256(b"b" * size).hexdigest()


def test_a_body_without_a_length_is_passed_on(box):
    for version in ("--http1.1", "--http2"):
        asked = json.loads(run(box, f"echo -n hello | curl -sS {version} -T - https://api.test/chunks"))
        assert asked["length"] == 5


def test_an_answer_that_is_cut_off_looks_cut_off(box):
    for version in ("--http1.1", "--http2"):
        assert fails(box, f"curl -sS {version} https://api.test/cut")


def test_many_requests_at_once_on_one_connection(box):
    run(box, "curl -sS --http2 --parallel --parallel-max 50 'https://api.test/n?i=[0-49]' -o '/tmp/n_#1'")
    lines = [json.loads(line) for line in run(box, "for n in /tmp/n_*; do cat $n; echo; done").split("\n") if line]
    assert sorted(int(line["url"].split("=")[1]) for line in lines) == list(range(50))
    assert all(line["headers"]["authorization"] == f"Bearer {SECRET}" for line in lines)


def test_a_server_of_http1_alone(box):
    for version in ("--http1.1", "--http2"):
        asked = ask(box, "https://old.test/", version)
        assert asked["version"] == "1.1" and asked["headers"]["authorization"] == f"Bearer {SECRET}"
    run(box, "curl -sS --http2 --parallel --parallel-max 20 'https://old.test/n?i=[0-19]' -o '/tmp/o_#1'")
    assert int(run(box, "grep -l x-set.*rule /tmp/o_* | wc -l")) == 20


# ---- which rule ----


def test_the_rule_s_header_replaces_the_program_s(box):
    asked = ask(box, "https://api.test/", "-H 'Authorization: mine' -H 'X-Other: stays'")
    assert asked["headers"]["authorization"] == f"Bearer {SECRET}"
    assert asked["headers"]["x-other"] == "stays"
    assert "mine" not in json.dumps(asked)


def test_the_longest_wildcard_wins_and_the_apex_is_not_in_it(box):
    assert ask(box, "https://a.wild.test/")["headers"]["x-wild"] == "shallow"
    assert "x-wild" not in ask(box, "https://wild.test/", "-k")["headers"]
    # Certificates stand for one level; the origin's is no good for the deeper name.
    assert status(box, "https://a.b.wild.test/") == 502


def issuer(sandbox, name):
    return run(sandbox, f"openssl s_client -connect {name}:443 -servername {name} </dev/null 2>/dev/null"
                        " | openssl x509 -noout -issuer")


def test_a_name_without_a_rule_is_not_intercepted(box, daemon):
    assert "world authority" in issuer(box, "free.test")
    assert "sandbox" in issuer(box, "api.test")
    assert "authorization" not in ask(box, "https://free.test/")["headers"]


@pytest.mark.attack
def test_tls_that_names_nobody_is_given_nothing(box):
    """TLS without a name is given no secret."""
    assert "authorization" not in ask(box, f"https://{API}/", "-k")["headers"]
    assert "authorization" not in ask(box, f"https://{API}/", "-k", "-H 'Host: api.test'")["headers"]


def test_another_port_has_the_rule_too(box):
    assert ask(box, "https://api.test:8443/")["headers"]["authorization"] == f"Bearer {SECRET}"


def test_a_rule_grants_no_access(daemon):
    shut = Sandbox.create(timeout=600, network={"rules": RULES, "deny_out": [ALL], "allow_out": ["old.test"]},
                          **daemon.sdk)
    try:
        assert fails(shut, "curl -sS -m 10 https://api.test/")
        assert ask(shut, "https://old.test/")["headers"]["authorization"] == f"Bearer {SECRET}"
    finally:
        Sandbox.kill(shut.sandbox_id, **daemon.sdk)


# ---- whom it is sent to ----


@pytest.mark.attack
@pytest.mark.parametrize("name, why", [("false.test", "certificate"), ("wrong.test", "mismatch")])
def test_a_server_that_cannot_prove_its_name_gets_nothing(box, name, why):
    """A server whose certificate does not prove the rule's name gets no secret."""
    said = run(box, f"curl -sS https://{name}/")
    assert why in said and SECRET not in said
    assert status(box, f"https://{name}/") == 502


@pytest.mark.attack
def test_tls_and_host_must_name_one_server(box):
    """A request whose Host differs from the name of its TLS gets no secret."""
    for version in ("--http1.1", "--http2"):
        assert status(box, "https://api.test/", version, "-H 'Host: other.test'") == 421


@pytest.mark.attack
def test_an_address_of_the_program_s_own_choice_gets_nothing(box):
    """A program that sends the rule's name to an address of its own choice hands no secret to it.

    The name is one with a rule, the address is another server's."""
    assert status(box, "https://api.test/", f"--resolve api.test:443:{FALSE}") == 502


@pytest.mark.attack
def test_plain_http_is_given_headers_but_no_secrets(box, daemon):
    """Plain HTTP carries no secret."""
    said = run(box, "curl -sS -D - http://plain.test/")
    assert "plain plain.test" in said
    sandbox = Sandbox.create(
        timeout=600, network={"rules": {"plain.test": rule(authorization="${e2b.secrets.token}")}}, **daemon.sdk)
    try:
        assert status(sandbox, "http://plain.test/") == 403
        assert "https" in run(sandbox, "curl -sS http://plain.test/")
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


# ---- changes ----


def put(api, sandbox, **body):
    answer = api.put(f"/sandboxes/{sandbox.sandbox_id}/network", json=body)
    assert answer.status_code == 204, answer.text


def test_rules_that_come_and_go(api, daemon):
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    try:
        assert "world authority" in issuer(sandbox, "api.test")
        held = sandbox.commands.run(
            "(printf 'GET / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n'; sleep 30) |"
            " openssl s_client -quiet -connect api.test:443 -servername api.test", background=True)
        put(api, sandbox, rules={"api.test": rule(x_one="1")})
        for program in ("curl -sS https://api.test/", PROGRAMS["node"], PROGRAMS["python urllib"]):
            assert json.loads(run(sandbox, program))["headers"]["x-one"] == "1"
        put(api, sandbox, rules={"api.test": rule(x_two="2")})
        asked = ask(sandbox, "https://api.test/")["headers"]
        assert asked["x-two"] == "2" and "x-one" not in asked
        put(api, sandbox)
        assert "world authority" in issuer(sandbox, "api.test")
        held.kill()
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def test_an_open_connection_is_cut_when_its_rule_goes(api, daemon):
    sandbox = Sandbox.create(timeout=600, network={"rules": RULES}, **daemon.sdk)
    try:
        sandbox.files.write("/tmp/hold.py", (
            "import http.client, ssl, sys\n"
            "c = http.client.HTTPSConnection('api.test')\n"
            "c.request('GET', '/'); print(c.getresponse().read() and 'first', flush=True)\n"
            "sys.stdin.readline()\n"
            "try:\n"
            "    c.request('GET', '/'); c.getresponse(); print('second')\n"
            "except OSError: print('cut')\n"
            "except http.client.HTTPException: print('cut')\n"))
        held = sandbox.commands.run("python3 -u /tmp/hold.py", background=True, stdin=True)
        for stdout, _, _ in held:
            if stdout and "first" in stdout:
                break
        put(api, sandbox)
        sandbox.commands.send_stdin(held.pid, "\n")
        assert "cut" in held.wait().stdout
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def test_a_secret_s_new_value_is_used_at_once_and_none_after_it_is_gone(api, box):
    assert api.post("/secrets", json={"name": "moving", "value": "one"}).status_code == 201
    put(api, box, rules={**RULES, "other.test": rule(x_secret="<${e2b.secrets.Moving}>")})
    assert ask(box, "https://other.test/")["headers"]["x-secret"] == "<one>"
    assert api.post("/secrets/moving", json={"value": "two"}).json()["currentVersion"] == 2
    assert ask(box, "https://other.test/")["headers"]["x-secret"] == "<two>"
    assert api.delete("/secrets/moving").status_code == 204
    assert status(box, "https://other.test/") == 502
    assert 'no secret \\"Moving\\"' in run(box, "curl -sS https://other.test/")
    put(api, box, rules=RULES)


@pytest.mark.attack
def test_other_teams_secrets_are_not_found(api, box):
    """A rule that names another team's secret finds none."""
    put(api, box, rules={"other.test": rule(x="${e2b.secrets.nobody_s}", y="$5 ${other} {}")})
    assert status(box, "https://other.test/") == 502
    put(api, box, rules={"other.test": rule(y="$5 ${other} {}")})
    assert ask(box, "https://other.test/")["headers"]["y"] == "$5 ${other} {}"
    put(api, box, rules=RULES)


# ---- workload tokens ----


def part(text):
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def test_a_workload_token_is_fresh_and_signed_by_a_published_key(api, daemon):
    sandbox = Sandbox.create(
        timeout=600,
        iam={"tokens": {"aws": {"audience": "sts.example.com", "token_type": "JWT-SVID"}}},
        network={"rules": {"api.test": rule(authorization="Bearer ${e2b.identity.tokens.aws}"),
                           "other.test": rule(authorization="${e2b.identity.tokens.none}")}},
        **daemon.sdk)
    try:
        tokens = [ask(sandbox, "https://api.test/")["headers"]["authorization"].split()[1] for _ in range(2)]
        assert tokens[0] != tokens[1]
        head, claims, signature = tokens[0].split(".")
        assert part(head)["alg"] == "ES256"
        configuration = httpx.get(f"{daemon.url}/.well-known/openid-configuration").json()
        said = part(claims)
        assert said["iss"] == configuration["issuer"] == daemon.url
        assert said["aud"] == "sts.example.com" and said["exp"] - said["iat"] == 300
        assert said["sub"].endswith(f"/sandbox/{sandbox.sandbox_id}") and said["sub"].startswith("spiffe://")
        assert said["sandbox_id"] == sandbox.sandbox_id
        [key] = httpx.get(configuration["jwks_uri"]).json()["keys"]
        assert key["kid"] == part(head)["kid"]
        verify(key, f"{head}.{claims}", signature)
        with pytest.raises(AssertionError):
            verify(key, f"{head}.{claims}x", signature)
        assert status(sandbox, "https://other.test/") == 502
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def number(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def der(tag, body):
    return bytes([tag, len(body)]) + body


def integer(bytes_):
    body = bytes_.lstrip(b"\0") or b"\0"
    return der(2, b"\0" + body if body[0] & 0x80 else body)


def verify(key, text, signature):
    """By openssl, from the published numbers alone."""
    point = b"\0\4" + number(key["x"]) + number(key["y"])
    names = der(0x30, bytes.fromhex("06072a8648ce3d020106082a8648ce3d030107"))
    raw = number(signature)
    with tempfile.TemporaryDirectory() as at:
        with open(f"{at}/key", "wb") as out:
            out.write(der(0x30, names + der(3, point)))
        with open(f"{at}/signature", "wb") as out:
            out.write(der(0x30, integer(raw[:32]) + integer(raw[32:])))
        done = subprocess.run(["openssl", "dgst", "-sha256", "-keyform", "DER", "-verify", f"{at}/key",
                               "-signature", f"{at}/signature"], input=text.encode(), capture_output=True)
    assert done.returncode == 0, done


# ---- what is told ----


def lines(api, sandbox):
    said = api.get(f"/v2/sandboxes/{sandbox.sandbox_id}/logs", params={"limit": 1000}).json()["logs"]
    return [entry for entry in said if entry["fields"].get("logger") == "egress"]


def test_requests_and_refusals_are_in_the_sandbox_s_log(api, daemon):
    sandbox = Sandbox.create(timeout=600, network={"rules": RULES, "deny_out": [OLD]}, **daemon.sdk)
    try:
        ask(sandbox, "https://api.test/a/path?token=hidden&status=201")
        fails(sandbox, "curl -sS -m 10 https://old.test/")
        said = until(lambda: len(found := lines(api, sandbox)) >= 2 and found, "the lines are on record")
        request = next(line for line in said if line["fields"]["event_type"] == "egress_request")
        assert request["message"] == "GET api.test/a/path: 201 by rule api.test"
        assert request["fields"]["status"] == "201"
        refusal = next(line for line in said if line["fields"]["event_type"] == "egress_refused")
        assert refusal["message"] == f"egress to {OLD}:443 refused by rule: denyOut {OLD}"
        assert "hidden" not in json.dumps(said) and SECRET not in json.dumps(said)
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


# ---- a new daemon ----


def test_a_daemon_started_anew_is_trusted_and_knows_its_secrets(box, daemon):
    before = box.files.read("/usr/local/share/ca-certificates/atoll-sandbox.crt")
    daemon.kill_child("server")
    asked = ask(box, "https://api.test/")
    assert asked["headers"]["authorization"] == f"Bearer {SECRET}"
    assert before.startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in before


@pytest.mark.attack
def test_the_value_is_on_no_disk(daemon):
    """A secret's value is on no disk in the clear.

    Sealed in the store, and in no other file of the daemon's."""
    found = [path for path in (daemon.data / "state").rglob("*")
             if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert found == []
    assert SECRET not in daemon.said()


def test_what_goes_through_is_counted_for_each_sandbox(daemon):
    sandbox = Sandbox.create(timeout=600, network={"rules": RULES, "deny_out": [OLD]}, **daemon.sdk)

    def figure(family, more=""):
        return daemon.figures()[f'{family}{{sandbox="{sandbox.sandbox_id}"{more}}}']

    try:
        assert figure("atoll_egress_connections_total") == 0
        run(sandbox, "curl -sS 'https://api.test/big?size=100000' -o /dev/null")
        run(sandbox, "curl -sS https://free.test/ -o /dev/null")
        fails(sandbox, "curl -sS -m 10 https://old.test/")
        assert figure("atoll_egress_connections_total") == 2
        assert figure("atoll_egress_refused_total") == 1
        assert figure("atoll_egress_bytes_total", ',direction="in"') > 100000
        assert 0 < figure("atoll_egress_bytes_total", ',direction="out"') < 10000
    finally:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)
