"""Rules of the network: headers that requests are given outside the jail, with real programs inside.

Servers are on loopback and have certificates of an authority that the operator names (egress_ca)."""

import base64
import hashlib
import json
import os
import tempfile

import httpx
import pytest
from daemon import Daemon
from e2b import CommandExitException, Sandbox
from world import Authority, Names, Origin, Web

API, OLD, PLAIN, FALSE = "198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4"
ALL = "0.0.0.0/0"
SECRET = "s3cr3t-value-that-must-never-enter-7f1c"


class World:
    def __init__(self, path):
        self.authority, self.stranger = Authority(path), Authority(path, "stranger")
        self.api = Origin(*self.authority.leaf("api.test", "*.wild.test", "free.test", "other.test"))
        self.old = Origin(*self.authority.leaf("old.test"), "h1")
        self.false = Origin(*self.stranger.leaf("false.test"))
        self.plain = Web("plain")
        self.trusted = tempfile.NamedTemporaryFile("w", suffix=".pem")  # the daemon's user reads it
        self.trusted.write(open(self.authority.cert).read())
        self.trusted.flush()
        os.chmod(self.trusted.name, 0o644)
        self.names = Names({name: [address] for name, address in {
            "api.test": API, "a.wild.test": API, "a.b.wild.test": API, "wild.test": API, "free.test": API,
            "other.test": API, "old.test": OLD, "plain.test": PLAIN, "false.test": FALSE, "wrong.test": API,
        }.items()})

    def settings(self):
        pairs = [f"{API}:443=127.0.0.1:{self.api.port}", f"{OLD}:443=127.0.0.1:{self.old.port}",
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
    daemon = Daemon(*world.settings())
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.remove()


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
    "old.test": rule(authorization="Bearer ${e2b.secrets.token}"),
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
    "curl as root": "sudo curl -sS https://api.test/",
    "openssl": "printf 'GET / HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\n\\r\\n' |"
               " openssl s_client -quiet -verify_return_error -connect api.test:443 -servername api.test"
               " 2>/dev/null | sed -n '/^{/p'",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_trust_the_sandbox_s_authority(box, program):
    asked = json.loads(run(box, PROGRAMS[program]))
    assert asked["headers"]["authorization"] == f"Bearer {SECRET}"
