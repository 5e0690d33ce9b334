"""Sandboxes behind a SOCKS5 proxy of their own, behind the operator's HTTP proxy, and with name
servers of their own: real programs inside, proxies of ours outside."""

import re
import subprocess

import httpx
import pytest
from daemon import Daemon, running
from e2b import CommandExitException, Sandbox
from proxies import Connect, Socks
from world import Authority, Echo, Names, Web, certificate

PROXY = "198.51.100.9"  # where a sandbox finds its SOCKS5 proxy
CURL = "curl -sS -m 20"


class World:
    def __init__(self, path):
        self.web, self.other, self.echo = Web("web"), Web("other"), Echo()
        self.tls = Web("tls", certificate(f"{path}/pem", "only.remote"))
        self.pem = f"{path}/pem"
        here = {"only.remote": ("127.0.0.1", self.web.server_port),
                ("only.remote", 443): ("127.0.0.1", self.tls.server_port),
                "93.184.216.34": ("127.0.0.1", self.web.server_port),
                "2606:4700::1": ("127.0.0.1", self.web.server_port),
                "echo.remote": ("127.0.0.1", self.echo.server_address[1])}
        self.socks, self.closed = Socks(here), Socks(here, login=("ann", "sec:ret"))
        self.authority = Authority(str(path), "proxies")
        self.veiled = Socks(here, login=("ann", "sec:ret"), tls=self.authority.leaf("proxy.test"))
        self.names = Names({"proxy.test": [PROXY], "only.local": ["93.184.216.34"]})
        self.special = Names({"special.test": ["198.51.100.1"]})

    def settings(self, *more):
        pairs = [f"{PROXY}:1080=127.0.0.1:{self.socks.port}",
                 f"{PROXY}:1081=127.0.0.1:{self.closed.port}",
                 f"{PROXY}:1082=127.0.0.1:{self.veiled.port}",
                 f"198.51.100.1=127.0.0.1:{self.other.server_port}",
                 f"8.8.4.4:53=127.0.0.1:{self.special.port}", *more]
        return ["--egress-map", ",".join(pairs), "--egress-dns", f"127.0.0.1:{self.names.port}"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def liars():
    """Proxies that say other things than proxies do, each at a port of PROXY."""
    words = {"ssh": b"SSH-2.0-x\r\n", "close": b"", "refuse": b"\x05\x02\x00\x01" + bytes(6),
             "strange": b"\x05\x00\x00\x09" + bytes(20), "unknown": b"\x05\x63\x00\x01" + bytes(6)}
    return {word: Socks({}, lie=lie) for word, lie in words.items()}


@pytest.fixture(scope="module")
def daemon(world, liars):
    more = [f"{PROXY}:{2000 + i}=127.0.0.1:{s.port}" for i, s in enumerate(liars.values())]
    with running(*world.settings(*more, f"{PROXY}:1=127.0.0.1:1")) as daemon:
        yield daemon


@pytest.fixture
def create(daemon):
    made = []

    def make(**network):
        made.append(Sandbox.create(timeout=600, network=network, **daemon.sdk))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.kill()


def proxy(port=1080, host=PROXY, **login):
    return {"address": f"{host}:{port}", **login}


def fails(sandbox, command):
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run(command)
    return caught.value.stderr


def test_names_are_the_proxys_to_resolve(create, world):
    sandbox = create(egress_proxy=proxy(host="proxy.test"))
    before = len(world.names.asked)
    assert sandbox.commands.run(f"{CURL} http://only.remote/x").stdout.startswith("web ")
    assert ("only.remote", 80) in world.socks.asked
    assert set(world.names.asked[before:]) <= {"proxy.test"}
    sandbox.files.write("/tmp/ca.pem", open(world.pem).read())
    assert sandbox.commands.run(f"{CURL} --cacert /tmp/ca.pem https://only.remote/").stdout[:3] == "tls"
    found = sandbox.commands.run("getent ahostsv4 only.remote").stdout
    assert re.match(r"198\.1[89]\.", found)


def test_addresses_of_either_family_are_passed_on(create, world):
    sandbox = create(egress_proxy=proxy())
    assert sandbox.commands.run(f"{CURL} http://93.184.216.34/").stdout.startswith("web ")
    assert sandbox.commands.run(f"{CURL} 'http://[2606:4700::1]/'").stdout.startswith("web ")
    assert ("93.184.216.34", 80) in world.socks.asked and ("2606:4700::1", 80) in world.socks.asked


def test_a_server_that_speaks_first_loses_no_byte(create, world):
    sandbox = create(egress_proxy=proxy())
    script = ("import socket;s=socket.create_connection(('echo.remote',7));s.sendall(b'x'*1000000);"
              "s.shutdown(1);d=b''\nwhile c:=s.recv(65536): d+=c\nprint(len(d),d[-14:])")
    sandbox.files.write("/tmp/t.py", script)
    assert "1000012 b'end 1000000\\n'" in sandbox.commands.run("python3 /tmp/t.py").stdout.replace(
        "b'xxend 1000000\\n'", "b'end 1000000\\n'").replace("1000012 b'xx", "1000012 b'")


def test_user_and_password_are_told_and_never_shown(create, daemon, world):
    good = create(egress_proxy=proxy(1081, username="ann", password="sec:ret"))
    assert good.commands.run(f"{CURL} http://only.remote/").stdout.startswith("web ")
    shown = httpx.get(f"{daemon.url}/sandboxes/{good.sandbox_id}",
                      headers={"X-API-Key": daemon.sdk["api_key"]}).text
    assert "sec:ret" not in shown and "sec:ret" not in daemon.said()
    bad = create(egress_proxy=proxy(1081, username="ann", password="wrong"))
    fails(bad, f"{CURL} http://only.remote/")
    assert "it refuses the user or the password" in daemon.said()
    none = create(egress_proxy=proxy(1081))
    fails(none, f"{CURL} http://only.remote/")
    assert "it wants a user and a password" in daemon.said()


# ---- TLS to the proxy ----


def veiled(world, host="proxy.test", **tls):
    tls = {"enabled": True, "caCert": open(world.authority.cert).read(), **tls}
    return {**proxy(1082, host, username="ann", password="sec:ret"), "tls": tls}


def raw_create(daemon, egress_proxy):
    """The SDK's own words for these fields may be others."""
    answer = httpx.post(f"{daemon.url}/sandboxes", headers={"X-API-Key": daemon.key}, timeout=60,
                        json={"templateID": "base", "timeout": 600, "network": {"egressProxy": egress_proxy}})
    assert answer.status_code == 201, answer.text
    return Sandbox.connect(answer.json()["sandboxID"], **daemon.sdk)


@pytest.fixture
def behind_tls(daemon, world):
    made = []

    def make(**options):
        made.append(raw_create(daemon, veiled(world, **options)))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.kill()


def test_all_that_is_said_to_a_proxy_with_tls_is_in_it(behind_tls, world):
    sandbox = behind_tls()
    assert sandbox.commands.run(f"{CURL} http://only.remote/x").stdout.startswith("web ")
    assert ("only.remote", 80) in world.veiled.asked and "proxy.test" in world.veiled.named
    sandbox.files.write("/tmp/ca.pem", open(world.pem).read())
    assert sandbox.commands.run(f"{CURL} --cacert /tmp/ca.pem https://only.remote/").stdout[:3] == "tls"
    script = ("import socket;s=socket.create_connection(('echo.remote',7));s.sendall(b'x'*3000000);"
              "s.shutdown(1);d=b''\nwhile c:=s.recv(65536): d+=c\nprint(len(d),d[-12:])")
    sandbox.files.write("/tmp/t.py", script)
    assert "3000012 b'end 3000000\\n'" in sandbox.commands.run("python3 /tmp/t.py").stdout


def test_a_proxy_s_certificate_is_for_the_name_that_is_said(behind_tls, daemon):
    by_address = behind_tls(host=PROXY, serverName="proxy.test")
    assert by_address.commands.run(f"{CURL} http://only.remote/").stdout.startswith("web ")
    for options in ({"host": PROXY}, {"serverName": "other.test"}):
        fails(behind_tls(**options), f"{CURL} http://only.remote/")
        assert "certificate" in daemon.said().split("through the proxy")[-1]


def test_a_proxy_s_certificate_is_of_the_authorities_that_are_given(daemon, world, tmp_path):
    other = Authority(str(tmp_path), "other")
    for tls in ({"caCert": open(other.cert).read()}, {"caCert": None}):
        sandbox = raw_create(daemon, veiled(world, **tls))
        before = len(world.veiled.asked)
        fails(sandbox, f"{CURL} http://only.remote/")
        assert "certificate" in daemon.said().split("through the proxy")[-1]
        assert len(world.veiled.asked) == before
        sandbox.kill()


def test_a_proxy_without_tls_is_not_spoken_to_in_plain_words(daemon, world):
    sandbox = raw_create(daemon, {**veiled(world), "address": "proxy.test:1081"})
    before = len(world.closed.asked)
    fails(sandbox, f"{CURL} http://only.remote/")
    assert len(world.closed.asked) == before
    sandbox.kill()


def test_a_proxy_that_is_down_or_lies_gets_nowhere(create, daemon, liars):
    says = {"ssh": "does not speak SOCKS5", "close": "closed the connection",
            "refuse": "its rules do not allow", "strange": "of no kind there is",
            "unknown": "says nothing that is known"}
    for i, word in enumerate(liars):
        fails(create(egress_proxy=proxy(2000 + i)), f"{CURL} http://only.remote/")
        assert says[word] in daemon.said()
    fails(create(egress_proxy=proxy(1)), f"{CURL} http://only.remote/")
    assert "connection refused" in daemon.said()
    fails(create(egress_proxy=proxy(host="nowhere.test")), f"{CURL} http://only.remote/")
    assert "its name has no address" in daemon.said()
    fails(create(egress_proxy=proxy()), f"{CURL} http://not.known.to.it/")
    assert "it cannot reach that host" in daemon.said()


def test_a_proxy_on_the_host_is_out_of_reach(create, daemon, world):
    fails(create(egress_proxy={"address": f"127.0.0.1:{world.socks.port}"}),
          f"{CURL} http://only.remote/")
    assert "no sandbox may reach it" in daemon.said()


def test_rules_hold_for_names_behind_a_proxy(create, world):
    sandbox = create(egress_proxy=proxy(), allow_out=["only.remote"], deny_out=["0.0.0.0/0"])
    assert sandbox.commands.run(f"{CURL} http://only.remote/").stdout.startswith("web ")
    fails(sandbox, f"{CURL} http://93.184.216.34/")
    assert "resolve" in fails(sandbox, f"{CURL} http://echo.remote/")


def test_a_change_of_proxy_cuts_what_is_open(create, daemon):
    sandbox = create(egress_proxy=proxy())
    script = "import socket;s=socket.create_connection(('echo.remote',7));s.sendall(b'1');s.recv(1);" \
             "print('open',flush=True);\ntry: print(s.recv(1))\nexcept OSError as e: print(e)"
    sandbox.files.write("/tmp/t.py", script)
    running = sandbox.commands.run("python3 /tmp/t.py", background=True)
    for out, _, _ in running:
        if out and "open" in out:
            break
    sandbox.update_network({"allow_out": []})
    assert "reset" in running.wait().stdout
    fails(sandbox, f"{CURL} http://only.remote/")


@pytest.mark.parametrize("bad", [
    {"address": "x"}, {"address": "x:0"}, {"address": "x:99999"}, {"address": "a b:1"},
    {"address": "u@h:1"}, {"address": "::1:1080"}, {"address": "h:1", "password": "p"},
    {"address": "h:1", "username": "u" * 256}, {"address": "h:1", "tls": {}}, {"address": "h:1", "tls": True},
    {"address": "h:1", "tls": {"enabled": False, "serverName": "x"}},
    {"address": "h:1", "tls": {"enabled": True, "serverName": "a b"}},
    {"address": "h:1", "tls": {"enabled": True, "caCert": "no certificate"}},
    {"address": "h:1", "tls": {"enabled": True, "caCert": "x" * 70000}},
])
def test_what_is_no_proxy_is_refused(daemon, bad):
    answer = httpx.post(f"{daemon.url}/sandboxes", headers={"X-API-Key": daemon.sdk["api_key"]},
                        json={"templateID": "base", "network": {"egressProxy": bad}})
    assert answer.status_code == 400 and "egressProxy" in answer.json()["message"]


def test_a_sandbox_may_have_name_servers_of_its_own(daemon, world):
    def create(servers):
        answer = httpx.post(f"{daemon.url}/v2/sandboxes", timeout=60,
                            headers={"X-API-Key": daemon.sdk["api_key"]},
                            json={"templateID": "base", "network": {"dnsServers": servers}})
        assert answer.status_code == 201, answer.text
        return Sandbox.connect(answer.json()["sandboxID"], **daemon.sdk)

    own = create(["8.8.4.4"])
    assert own.commands.run(f"{CURL} http://special.test/").stdout.startswith("other ")
    assert "resolve" in fails(own, f"{CURL} http://only.local/")
    own.kill()
    hosts = create(["127.0.0.1", "10.0.0.1"])  # out of reach: the host's servers are asked
    assert hosts.commands.run("getent ahostsv4 only.local").stdout.startswith("93.184.216.34")
    assert "dnsServers refused by rule" in daemon.said()
    hosts.kill()


# ---- the operator's proxy ----


@pytest.fixture(scope="module")
def behind(world):
    """A daemon whose way out is an HTTP proxy, told by the usual variables."""
    proxy = Connect({"only.local": ("127.0.0.1", world.web.server_port),
                     "93.184.216.34": ("127.0.0.1", world.web.server_port)}, login=("op", "p@ss"))
    daemon = Daemon(*world.settings(), "--no-proxy", ".direct.test,203.0.113.0/24")
    daemon.environment = {"https_proxy": f"http://op:p%40ss@127.0.0.1:{proxy.port}",
                          "HTTP_PROXY": f"http://op:p%40ss@127.0.0.1:{proxy.port}"}
    try:
        daemon.start()
        yield daemon, proxy
    finally:
        daemon.remove()


def test_the_operators_proxy_is_used(behind):
    daemon, proxy = behind
    with Sandbox.create(timeout=600, **daemon.sdk) as sandbox:
        assert sandbox.commands.run(f"{CURL} http://only.local/").stdout.startswith("web ")
        assert proxy.asked[-1] == ("only.local", 80)
        assert sandbox.commands.run(f"{CURL} http://93.184.216.34:8080/").stdout.startswith("web ")
        assert proxy.asked[-1] == ("93.184.216.34", 8080)
        # A name that is not the address' own is only the program's word.
        assert sandbox.commands.run(
            f"{CURL} -H 'Host: elsewhere.test' http://93.184.216.34/").stdout.startswith("web ")
        assert proxy.asked[-1] == ("93.184.216.34", 80)
        before = len(proxy.asked)
        assert sandbox.commands.run(f"{CURL} http://198.51.100.1/").stdout.startswith("other ")
        fails(sandbox, f"{CURL} http://127.0.0.1:1/; {CURL} http://10.0.0.1/")
        assert len(proxy.asked) == before


def test_the_operators_password_is_not_in_the_process_list(behind):
    listed = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    assert "p%40ss" not in listed and "p@ss" not in listed
