"""What a sandbox may reach, and what its requests are given, over pauses, in forks, from snapshots and
in sandboxes restored from a template."""

import json

import httpx
import pytest
from builder import Builder
from daemon import Daemon, until
from e2b import CommandExitException, Sandbox
from proxies import Socks
from test_transform import API, PLAIN, SECRET, World, rule

PROXY = "198.51.100.9"
RULES = {"api.test": rule(authorization="Bearer ${e2b.secrets.token}")}
CURL = "curl -sS -m 20"


class Wider(World):
    """Also a SOCKS5 proxy that knows a name nobody else does."""

    def settings(self):
        self.socks = Socks({"only.remote": ("127.0.0.1", self.plain.server_port)})
        settings = super().settings()
        settings[1] += f",{PROXY}:1080=127.0.0.1:{self.socks.port}"
        return settings


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = Wider(tmp_path_factory.mktemp("world"))
    yield world
    world.stop()


@pytest.fixture(scope="module")
def daemon(world):
    daemon = Daemon(*world.settings())
    try:
        daemon.start()
        secret = {"name": "Token", "value": SECRET}
        headers = {"X-API-Key": daemon.key}
        assert httpx.post(f"{daemon.url}/secrets", json=secret, headers=headers).status_code == 201
        _, status = Builder(daemon).build(
            name="warm", startCmd="cd /tmp && exec python3 -m http.server 8000", readyCmd="curl -sf localhost:8000"
        )
        assert status["status"] == "ready", status
        yield daemon
    finally:
        daemon.remove()


@pytest.fixture
def create(daemon):
    made = []

    def make(template="base", **options):
        made.append(Sandbox.create(template, timeout=600, **options, **daemon.sdk))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.kill()


def resumed(sandbox):
    sandbox.pause()
    sandbox.connect(timeout=600)
    return sandbox


def started_anew(sandbox):
    sandbox.pause(keep_memory=False)
    sandbox.connect(timeout=600)
    return sandbox


def forked(sandbox):
    [copy] = sandbox.fork(timeout=600)
    return copy


def saved(sandbox):
    return sandbox.create_snapshot().snapshot_id


WAYS = {"resumed": resumed, "started anew": started_anew, "forked": forked}
every_way = pytest.mark.parametrize("way", WAYS)
every_template = pytest.mark.parametrize("template", ["base", "warm"])


def out(sandbox, command):
    return sandbox.commands.run(command, timeout=60).stdout


def fails(sandbox, command):
    with pytest.raises(CommandExitException) as failure:
        out(sandbox, command)
    return failure.value.stderr


def authority(sandbox):
    """Who signed what the sandbox is shown for a name with a rule."""
    shown = out(sandbox, "openssl s_client -connect api.test:443 -servername api.test </dev/null 2>/dev/null"
                         " | openssl x509 -noout -issuer")
    return shown.strip()


def given(sandbox):
    """The header that the origin was given, asked with programs that trust in different ways."""
    asked = json.loads(out(sandbox, f"{CURL} https://api.test/"))
    code = "import urllib.request as u; print(u.urlopen('https://api.test/').read().decode())"
    again = json.loads(out(sandbox, f'python3 -c "{code}"'))
    assert asked["headers"]["authorization"] == again["headers"]["authorization"]
    return asked["headers"]["authorization"]


@every_template
@every_way
def test_rules_hold(create, template, way):
    sandbox = create(template, network={"rules": RULES})
    assert given(sandbox) == f"Bearer {SECRET}"
    before = authority(sandbox)
    after = WAYS[way](sandbox)
    assert given(after) == f"Bearer {SECRET}"
    if after.sandbox_id == sandbox.sandbox_id:
        assert authority(after) == before
    assert SECRET not in out(after, "env; sudo cat /proc/[0-9]*/environ | tr '\\0' '\\n'")
    assert given(resumed(after)) == f"Bearer {SECRET}"


def test_rules_of_a_create_from_a_snapshot_are_its_own(create, daemon):
    source = create(network={"rules": RULES})
    assert given(source) == f"Bearer {SECRET}"
    snapshot = saved(source)
    assert given(create(snapshot, network={"rules": RULES})) == f"Bearer {SECRET}"
    without = create(snapshot)
    assert "authorization" not in json.loads(out(without, f"{CURL} -k https://api.test/"))["headers"]
    plain = saved(create())
    assert given(create(plain, network={"rules": RULES})) == f"Bearer {SECRET}"


@every_template
@every_way
def test_what_is_denied_stays_denied(create, template, way):
    sandbox = create(template, network={"deny_out": [f"{PLAIN}/32"]})
    fails(sandbox, f"{CURL} http://{PLAIN}/")
    assert out(sandbox, f"{CURL} -k -o /dev/null -w '%{{http_code}}' https://{API}/") == "200"
    after = WAYS[way](sandbox)
    fails(after, f"{CURL} http://{PLAIN}/")
    assert out(after, f"{CURL} -k -o /dev/null -w '%{{http_code}}' https://{API}/") == "200"


@every_template
@every_way
def test_without_internet_it_stays(create, template, way):
    sandbox = create(template, allow_internet_access=False)
    fails(sandbox, f"{CURL} http://{PLAIN}/")
    after = WAYS[way](sandbox)
    fails(after, f"{CURL} http://{PLAIN}/")
    assert out(after, "echo fine") == "fine\n"


@every_template
@every_way
def test_the_proxy_stays(create, template, way):
    sandbox = create(template, network={"egress_proxy": {"address": f"{PROXY}:1080"}})
    assert out(sandbox, f"{CURL} http://only.remote/").startswith("plain")
    assert out(WAYS[way](sandbox), f"{CURL} http://only.remote/").startswith("plain")


def test_what_was_changed_while_it_ran_is_what_copies_have(create):
    sandbox = create()
    assert out(sandbox, f"{CURL} http://{PLAIN}/").startswith("plain")
    sandbox.update_network({"deny_out": [f"{PLAIN}/32"]})
    copy = forked(sandbox)
    fails(copy, f"{CURL} http://{PLAIN}/")
    copy.update_network({})
    assert out(copy, f"{CURL} http://{PLAIN}/").startswith("plain")
    fails(resumed(sandbox), f"{CURL} http://{PLAIN}/")


def test_connections_out_are_reset(create, world):
    code = (
        "import socket, time\n"
        f"s = socket.create_connection(('{PLAIN}', 80))\n"
        "print('up', flush=True)\n"
        "while True:\n"
        "    time.sleep(0.2)\n"
        "    try:\n"
        "        s.send(b'x')\n"
        "    except OSError as e:\n"
        "        open('/tmp/end', 'w').write(type(e).__name__)\n"
        "        break\n"
    )
    sandbox = create()
    sandbox.files.write("/tmp/hold.py", code)
    sandbox.commands.run("python3 /tmp/hold.py >/tmp/said 2>&1", background=True)
    until(lambda: "up" in out(sandbox, "cat /tmp/said || true"), "it is connected")
    copy = forked(sandbox)
    for one in (copy, resumed(sandbox)):
        until(lambda: out(one, "cat /tmp/end 2>/dev/null || true"), "the connection has ended")
        assert out(one, f"{CURL} http://{PLAIN}/").startswith("plain")
    copy.kill()
