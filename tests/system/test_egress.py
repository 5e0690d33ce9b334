"""What a sandbox reaches and what it does not, tried with real programs inside.

The world is on loopback: 198.51.100.1 and its neighbours (addresses that are nobody's) lead to servers
of ours by egress_map, and names come from a DNS server of ours."""

import json
import re
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
from daemon import running, until
from e2b import CommandExitException, Sandbox
from world import Echo, Names, Web, certificate

ONE, TWO, TLS, ECHO = "198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4"
ALL = "0.0.0.0/0"
LIMIT = 1024  # EGRESS_CONNECTIONS_MAX


class World:
    def __init__(self, path):
        self.one, self.two, self.echo = Web("one"), Web("two"), Echo()
        self.tls = Web("tls", certificate(f"{path}/pem", "tls.test", "other.test"))
        self.names = Names({
            "one.test": [ONE], "two.test": [TWO], "tls.test": [TLS], "other.test": [TLS],
            "echo.test": [ECHO], "sub.one.test": [ONE], "deep.sub.one.test": [ONE],
            "rebound.test": ["127.0.0.1"], "metadata.test": ["169.254.169.254"],
            "many.test": [f"198.51.100.{i}" for i in range(10, 90)],
            "moved.test": [TWO],
        })
        self.pem = open(f"{path}/pem").read()

    def settings(self):
        pairs = [f"{ONE}=127.0.0.1:{self.one.server_port}", f"{TWO}=127.0.0.1:{self.two.server_port}",
                 f"{TLS}:443=127.0.0.1:{self.tls.server_port}",
                 f"{ECHO}=127.0.0.1:{self.echo.server_address[1]}"]
        return ["--egress-map", ",".join(pairs), "--egress-dns", f"127.0.0.1:{self.names.port}"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def daemon(world):
    with running(*world.settings()) as daemon:
        yield daemon


@pytest.fixture
def create(daemon):
    made = []

    def make(**options):
        sandbox = Sandbox.create(timeout=600, **options, **daemon.sdk)
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


@pytest.fixture(scope="module")
def plain(daemon):
    """One sandbox without rules, for tests that only look."""
    sandbox = Sandbox.create(timeout=600, **daemon.sdk)
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


@pytest.fixture
def update(daemon):
    def put(sandbox, **body):
        answer = httpx.put(f"{daemon.url}/sandboxes/{sandbox.sandbox_id}/network", json=body,
                           headers={"X-API-Key": daemon.key})
        assert answer.status_code == 204, answer.text

    return put


def curl(sandbox, url, *options):
    """What curl prints, or None when it could not."""
    try:
        return sandbox.commands.run(f"curl -sS -k -m 20 {' '.join(options)} '{url}'", timeout=30).stdout.strip()
    except CommandExitException:
        return None


def resolves(sandbox, name):
    try:
        return sandbox.commands.run(f"getent ahostsv4 {name}").stdout.split()[0]
    except CommandExitException:
        return None


def connections(daemon, sandbox):
    answer = httpx.get(f"{daemon.url}/sandboxes/{sandbox.sandbox_id}/connections", headers={"X-API-Key": daemon.key})
    assert answer.status_code == 200, answer.text
    return answer.json()


def entry(daemon, sandbox, **wanted):
    """The one entry that has all of these."""
    rows = [row for row in connections(daemon, sandbox)["connections"] if wanted.items() <= row.items()]
    assert len(rows) == 1, (wanted, connections(daemon, sandbox))
    return rows[0]


# ---- without rules ----


def test_an_address_and_a_name_are_reached(plain):
    assert curl(plain, f"http://{ONE}/") == f"one {ONE}"
    assert curl(plain, "http://two.test:8080/") == "two two.test:8080"
    assert curl(plain, "https://tls.test/") == "tls tls.test"


PROGRAMS = {
    "wget": "wget -q -O - http://one.test/",
    "python": "python3 -c \"import urllib.request as u; print(u.urlopen('http://one.test/').read().decode())\"",
    "node": "node -e \"fetch('http://one.test/').then(r => r.text()).then(console.log)\"",
    "bash": "exec 3<>/dev/tcp/one.test/80; printf 'GET / HTTP/1.0\\r\\nHost: one.test\\r\\n\\r\\n' >&3; cat <&3",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(plain, program):
    assert "one one.test" in plain.commands.run(PROGRAMS[program]).stdout


def test_git_clones(plain, tmp_path, world):
    """Over HTTP from a plain directory, as git's own servers of old."""
    work = tmp_path / "repo"
    subprocess.run(f"git init -q {work} && cd {work} && echo kept >file && git add . && git -c user.name=t"
                   " -c user.email=t@t commit -qm m && git update-server-info", shell=True, check=True)
    world.one.files = work / ".git"
    plain.commands.run("git clone -q http://one.test/repo /tmp/clone", timeout=60)
    assert plain.files.read("/tmp/clone/file") == "kept\n"


def test_a_name_that_does_not_exist(plain):
    assert resolves(plain, "nowhere.test") is None


def test_a_name_is_resolved_as_often_as_it_is_asked_for(plain):
    """With Debian 13's c-ares every question but the first failed while the answer was valid."""
    assert {resolves(plain, "one.test") for _ in range(4)} == {ONE}


def test_names_are_asked_of_the_network_alone(plain):
    """The host's own /etc/hosts is its own business."""
    own = {name for line in open("/etc/hosts") for name in line.split("#")[0].split()[1:]} - {"localhost"}
    for name in list(own)[:3]:
        code = plain.commands.run(f"getent ahostsv4 {name} || true").stdout
        assert "127.0.0.1" not in code or name == plain.commands.run("hostname").stdout.strip()


def test_long_answers_come_over_tcp(plain):
    lines = plain.commands.run("getent ahostsv4 many.test | grep -c STREAM").stdout
    assert int(lines) == 80


def test_half_closed_connections(plain):
    """Everything is sent, the end is said, and the answer still comes: also when it is large."""
    size = 20 * 1024 * 1024
    script = f"""
import socket, threading
s = socket.create_connection(("{ECHO}", 7))
def send():
    for _ in range({size} // 65536):
        s.sendall(b"x" * 65536)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
got = b""
n = 0
while data := s.recv(65536):
    n += len(data)
    got = data[-64:]
print(n, got.decode().strip('x\\n'))
"""
    plain.files.write("/tmp/half.py", script)
    total = size + len(f"end {size}\n")
    assert plain.commands.run("python3 /tmp/half.py", timeout=120).stdout == f"{total} end {size}\n"


# ---- what nobody reaches ----


@pytest.mark.attack
def test_the_host_is_not_reached(plain, daemon):
    """Connections of a sandbox to every address of the host and to private networks are refused."""
    port = daemon.url.rpartition(":")[2]
    own = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    spellings = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "[::1]", "[::ffff:127.0.0.1]",
                 "[::ffff:7f00:1]", "0.0.0.0", "localhost", "rebound.test", "169.254.169.254", "metadata.test",
                 "10.0.0.1", "192.168.0.1", "172.16.0.1", "169.254.0.1", "[fe80::1]", "[64:ff9b::7f00:1]",
                 "[fd00:a701::1]"]
    for host in spellings + [a if ":" not in a else f"[{a}]" for a in own]:
        assert curl(plain, f"http://{host}:{port}/health", "--connect-timeout 5") is None, host


@pytest.mark.attack
def test_the_gate_is_no_place_to_go(plain):
    """The daemon's own gate inside the jail, connected to directly, leads nowhere."""
    for url in ["http://169.254.0.1:1/", "http://127.0.0.1:1/", "http://[fd00:a701::1]:1/", "http://[::1]:1/"]:
        assert curl(plain, url) is None, url


@pytest.mark.parametrize("options", [{}, {"allow_internet_access": False}, {"network": {"deny_out": [ALL]}}],
                         ids=["open", "closed", "denied"])
def test_a_program_asks_which_sandbox_it_is_in(create, options):
    """As at E2B, by address and by name, also where nothing of the network may be reached."""
    sandbox = create(**options)
    for host in ["192.0.2.1", "events.e2b.local"]:
        assert json.loads(curl(sandbox, f"http://{host}/me")) == {"sandboxID": sandbox.sandbox_id}
    assert "404" in curl(sandbox, "http://192.0.2.1/health", "-i")
    assert "405" in curl(sandbox, "http://192.0.2.1/me", "-i -X POST")
    assert curl(sandbox, "http://192.0.2.1:81/me", "--connect-timeout 5") is None


def test_refusals_are_told(create, daemon):
    sandbox = create()
    curl(sandbox, "http://10.1.2.3:8123/")
    assert re.search(rf"sandbox {sandbox.sandbox_id}: egress to 10\.1\.2\.3:8123 refused by rule: private",
                     daemon.said())


def test_other_datagrams_are_refused(plain):
    script = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5);"
              f"s.connect(('{ONE}', 9999)); s.send(b'x'); s.recv(1)")
    done = plain.commands.run(f'python3 -c "{script}" 2>&1 || true').stdout
    assert "ConnectionRefusedError" in done


def test_datagrams_over_ipv6_are_refused_at_once(plain):
    script = ("import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM);"
              "s.connect(('2001:db8::1', 9999)); s.send(b'x')")
    done = plain.commands.run(f'python3 -c "{script}" 2>&1 || true').stdout
    assert "PermissionError" in done


def test_ping_does_not_pretend(plain):
    said = plain.commands.run(f"ping -c 1 -W 2 {ONE} 2>&1 || true").stdout
    assert "1 received" not in said and "not permitted" in said


# ---- rules ----


def test_no_internet_access(create, world):
    sandbox = create(allow_internet_access=False)
    before = len(world.names.asked)
    assert curl(sandbox, f"http://{ONE}/") is None
    assert curl(sandbox, "http://one.test/") is None
    assert len(world.names.asked) == before, "a name was asked for"
    assert sandbox.commands.run("curl -sS http://127.0.0.1:49983/health -o /dev/null && echo own").stdout == "own\n"


def test_deny_an_address(create):
    sandbox = create(network={"deny_out": [ONE]})
    assert curl(sandbox, f"http://{ONE}/") is None
    assert curl(sandbox, "http://one.test/") is None
    assert curl(sandbox, f"http://[::ffff:{ONE}]/") is None
    assert curl(sandbox, f"http://{TWO}/") == f"two {TWO}"


def test_deny_a_block(create):
    sandbox = create(network={"deny_out": ["198.51.100.0/31"]})
    assert curl(sandbox, f"http://{ONE}/") is None
    assert curl(sandbox, f"http://{TWO}/") == f"two {TWO}"


def test_allow_beats_deny(create):
    sandbox = create(network={"deny_out": [ALL], "allow_out": [ONE]})
    assert curl(sandbox, f"http://{ONE}/") == f"one {ONE}"
    assert curl(sandbox, f"http://{TWO}/") is None


def test_allow_a_name(create):
    sandbox = create(network={"deny_out": [ALL], "allow_out": ["one.test", "tls.test"]})
    assert curl(sandbox, "http://one.test/") == "one one.test"
    assert curl(sandbox, "https://tls.test/") == "tls tls.test"
    assert resolves(sandbox, "two.test") is None
    assert resolves(sandbox, "sub.one.test") is None
    assert curl(sandbox, f"http://{ONE}/") is None, "an address is no name"
    assert curl(sandbox, f"https://{TLS}/") is None
    assert curl(sandbox, "https://other.test/", f"--resolve other.test:443:{TLS}") is None


def test_allow_a_family_of_names(create):
    sandbox = create(network={"deny_out": [ALL], "allow_out": ["*.one.test"]})
    assert curl(sandbox, "http://sub.one.test/") == "one sub.one.test"
    assert curl(sandbox, "http://deep.sub.one.test/") == "one deep.sub.one.test"
    assert curl(sandbox, "http://one.test/", f"--resolve one.test:80:{ONE}") is None


@pytest.mark.attack
def test_a_name_is_not_taken_at_its_word(create):
    """A connection that names an allowed host but goes to another address is refused.

    Who says an allowed name to another address is led to where that name is."""
    sandbox = create(network={"deny_out": [ALL], "allow_out": ["moved.test"]})
    assert curl(sandbox, "http://moved.test/", f"--resolve moved.test:80:{ONE}") == "two moved.test"


@pytest.mark.attack
def test_a_name_cannot_be_bound_to_the_host(create, daemon):
    """DNS rebinding: a name that resolves to the host is refused when it is dialled."""
    port = daemon.url.rpartition(":")[2]
    sandbox = create(network={"deny_out": [ALL], "allow_out": ["rebound.test", "metadata.test"]})
    assert curl(sandbox, f"http://rebound.test:{port}/health", f"--resolve rebound.test:{port}:{ONE}") is None
    assert curl(sandbox, "http://metadata.test/", f"--resolve metadata.test:80:{ONE}") is None
    assert re.search(r"rebound\.test refused by rule: no address of that name", daemon.said())


@pytest.mark.attack
def test_a_connection_that_says_nothing_has_no_name(create):
    """A connection that names nobody is not let through by rules for names."""
    sandbox = create(network={"deny_out": [ALL], "allow_out": ["echo.test"]})
    script = f"import socket; s = socket.create_connection(('{ECHO}', 7)); s.sendall(b'hello'); print(s.recv(9))"
    assert "ConnectionResetError" in sandbox.commands.run(f'python3 -c "{script}" 2>&1 || true', timeout=60).stdout


# ---- changes ----

HOLD = f"""
import socket, sys
s = socket.create_connection(("{ECHO}", 7))
s.settimeout(60)
print("open", flush=True)
try:
    while True:
        sys.stdin.readline()
        s.sendall(b"x")
        print("got", s.recv(1).decode() or "end", flush=True)
except OSError as e:
    print("cut", e.errno, flush=True)
"""


def test_a_change_cuts_what_is_open(create, update, daemon):
    sandbox = create()
    sandbox.files.write("/tmp/hold.py", HOLD)
    said = []
    held = sandbox.commands.run("python3 /tmp/hold.py", background=True, stdin=True)
    threading.Thread(target=lambda: [said.append(out) for out, _, _ in held if out], daemon=True).start()
    text = lambda: "".join(said)
    until(lambda: "open" in text(), "the connection is open")
    sandbox.commands.send_stdin(held.pid, "\n")
    until(lambda: "got x" in text(), "it works")

    update(sandbox, denyOut=[TWO])  # says nothing about it
    sandbox.commands.send_stdin(held.pid, "\n")
    until(lambda: text().count("got x") == 2, "it still works")

    update(sandbox, denyOut=[ECHO])
    sandbox.commands.send_stdin(held.pid, "\n")
    until(lambda: "cut" in text() or "got end" in text(), "it was cut")
    assert curl(sandbox, f"http://{ONE}/") == f"one {ONE}"


def test_a_change_replaces_everything(create, update, daemon):
    sandbox = create(network={"deny_out": [ALL], "allow_out": [ONE], "mask_request_host": "kept.test"})
    assert curl(sandbox, f"http://{TWO}/") is None
    update(sandbox)
    assert curl(sandbox, f"http://{TWO}/") == f"two {TWO}"
    update(sandbox, allow_internet_access=False)
    assert curl(sandbox, f"http://{TWO}/") is None
    detail = httpx.get(f"{daemon.url}/sandboxes/{sandbox.sandbox_id}", headers={"X-API-Key": daemon.key}).json()
    assert detail["allowInternetAccess"] is False
    assert detail["network"] == {"maskRequestHost": "kept.test"}


def test_bad_changes_change_nothing(create, daemon):
    sandbox = create(network={"deny_out": [ONE]})
    url, headers = f"{daemon.url}/sandboxes/{sandbox.sandbox_id}/network", {"X-API-Key": daemon.key}
    for body in [{"denyOut": ["example.com"]}, {"denyOut": ["1.2.3.4/33"]}, {"allowOut": ["a.test"]},
                 {"denyOut": "all"}, {"allow_internet_access": "no"}, {"allowOut": [ONE] * 1001}]:
        assert httpx.put(url, json=body, headers=headers).status_code == 400, body
    assert httpx.put(url.replace(sandbox.sandbox_id, "inothing"), json={}, headers=headers).status_code == 404
    assert curl(sandbox, f"http://{ONE}/") is None


# ---- the daemon ends, and comes back ----


@pytest.mark.parametrize("way", ["server", "both"])
def test_the_network_outlives_the_daemon(create, daemon, way):
    sandbox = create(network={"deny_out": [TWO]})
    assert curl(sandbox, "http://one.test/") == "one one.test"
    daemon.kill_child(*{"server": ["server"], "both": ["server", "keeper"]}[way])
    again = Sandbox.connect(sandbox.sandbox_id, **daemon.sdk)
    assert curl(again, "http://one.test/") == "one one.test"
    assert curl(again, f"http://{TWO}/") is None


@pytest.mark.attack
def test_without_a_daemon_nothing_gets_out(create, daemon):
    """While the daemon is down nothing gets out of a sandbox.

    Fails closed: every try that begins and ends while no daemon is there fails."""
    sandbox = create()
    log = "/tmp/tries"
    sandbox.commands.run("while :; do begun=$(date +%s.%N); "
                         f"curl -s -m 2 -o /dev/null http://{ONE}/ && out=yes || out=no; "
                         f"echo $begun $(date +%s.%N) $out >>{log}; sleep 0.05; done", background=True)
    until(lambda: "yes" in sandbox.commands.run(f"cat {log} || true").stdout, "it gets out")
    inside = Path("/proc") / str(daemon.jails()[sandbox.sandbox_id]) / "root" / log[1:]
    daemon.kill()
    away = time.time()

    def tries():
        lines = [line.split() for line in inside.read_text().splitlines()]
        return [line for line in lines if len(line) == 3 and away < float(line[0])]

    until(lambda: len(tries()) >= 3, "it tried while there was no daemon")
    assert {out for _, _, out in tries()} == {"no"}
    daemon.start()
    again = Sandbox.connect(sandbox.sandbox_id, **daemon.sdk)
    until(lambda: again.commands.run(f"tail -n 1 {log}").stdout.endswith("yes\n"), "it gets out again")


# ---- many ----


@pytest.mark.attack
def test_thousands_of_connections_hurt_nobody_else(create):
    """Thousands of connections of one sandbox leave the others their own."""
    greedy, other = create(), create()
    greedy.files.write("/tmp/many.py", f"""
import socket, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
held = []
for i in range(10000):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("{ECHO}", 7))
    held.append(s)
    if i % 500 == 0:
        time.sleep(0.01)
def tally(call):
    done = 0
    for s in held:
        try:
            done += bool(call(s))
        except OSError:
            pass
    return done
time.sleep(3)
tally(lambda s: s.send(b"x"))
time.sleep(3)
alive = tally(lambda s: s.recv(1))  # those that were answered
open("/tmp/alive", "w").write(str(alive))
time.sleep(60)
""")
    run = greedy.commands.run("python3 /tmp/many.py", background=True, timeout=120, user="root")
    for _ in range(10):
        assert curl(other, f"http://{ONE}/") == f"one {ONE}"
    alive = int(until(lambda: greedy.commands.run("cat /tmp/alive || true").stdout, "it has tried"))
    assert 0 < alive <= LIMIT, alive
    assert curl(other, f"http://{ONE}/") == f"one {ONE}"
    run.kill()
    until(lambda: curl(greedy, f"http://{ONE}/") == f"one {ONE}", "its connections have gone")


# ---- what people are shown of it ----


def test_destinations_are_shown(create, daemon):
    sandbox = create(network={"deny_out": [f"{TWO}/32"]})
    assert connections(daemon, sandbox)["connections"] == []
    for _ in range(2):
        assert curl(sandbox, "http://one.test/") == "one one.test"
    assert curl(sandbox, f"http://{TWO}/") is None
    assert curl(sandbox, "http://10.1.2.3/") is None
    reached = until(lambda: (row := entry(daemon, sandbox, verdict="reached"))["bytesReceived"] and row, "it is counted")
    assert reached["host"] == "one.test" and reached["address"] == ONE and reached["port"] == 80
    assert reached["count"] == 2 and reached["rule"] is None and reached["bytesSent"] > 50
    assert reached["firstAt"] <= reached["lastAt"]
    assert entry(daemon, sandbox, address=TWO)["rule"] == f"denyOut {TWO}/32"
    assert entry(daemon, sandbox, address=TWO)["verdict"] == "refused"
    assert "private" in entry(daemon, sandbox, address="10.1.2.3")["rule"]
    whole = connections(daemon, sandbox)
    assert whole["names"] >= 1 and whole["bytesReceived"] >= reached["bytesReceived"] and whole["dropped"] == 0


def test_destinations_by_name_are_shown(create, daemon):
    sandbox = create(network={"allow_out": ["one.test"], "deny_out": [ALL]})
    assert curl(sandbox, "http://one.test/") == "one one.test"
    assert curl(sandbox, f"http://{TWO}/", "-H 'Host: <evil>.test'") is None
    assert resolves(sandbox, "two.test") is None
    assert entry(daemon, sandbox, verdict="reached")["rule"] == "allowOut one.test"
    name = entry(daemon, sandbox, host="two.test")
    assert name["verdict"] == "refused" and name["address"] is None and name["port"] is None
    assert name["rule"] == "denyOut 0.0.0.0/0"
    refused = entry(daemon, sandbox, address=TWO)
    assert refused["verdict"] == "refused" and "<" not in json.dumps(refused)


def test_destinations_outlive_a_pause(create, daemon):
    sandbox = create()
    assert curl(sandbox, "http://one.test/") == "one one.test"
    Sandbox.pause(sandbox.sandbox_id, **daemon.sdk)
    assert entry(daemon, sandbox, verdict="reached")["count"] == 1
    sandbox = Sandbox.connect(sandbox.sandbox_id, timeout=600, **daemon.sdk)
    assert curl(sandbox, "http://one.test/") == "one one.test"
    until(lambda: entry(daemon, sandbox, verdict="reached")["count"] == 2, "it goes on")


def test_traffic_is_part_of_the_metrics(create, daemon, world):
    sandbox = create()

    def latest():
        rows = httpx.get(f"{daemon.url}/sandboxes/{sandbox.sandbox_id}/metrics", headers={"X-API-Key": daemon.key}).json()
        return rows[-1] if rows else {"networkSent": 0, "networkReceived": 0}

    sandbox.commands.run(f"head -c 1000000 /dev/zero | curl -sS -m 20 --data-binary @- http://{ONE}/ || :", timeout=30)
    for _ in range(5):
        assert curl(sandbox, f"http://{ONE}/")
    # The server may end the connection before it has read the megabyte: how much was sent is not ours to say.
    until(lambda: latest()["networkSent"] > 0 and latest()["networkReceived"] > 0, "it is counted", 60)
    before = latest()
    Sandbox.pause(sandbox.sandbox_id, **daemon.sdk)
    sandbox = Sandbox.connect(sandbox.sandbox_id, timeout=600, **daemon.sdk)
    for _ in range(5):
        assert curl(sandbox, f"http://{ONE}/")
    until(lambda: latest()["networkReceived"] > before["networkReceived"], "it goes on from there", 60)
    assert latest()["networkSent"] >= before["networkSent"]


def test_destinations_are_not_for_strangers(plain, daemon):
    for key in ("e2b_" + "0" * 40, ""):
        answer = httpx.get(f"{daemon.url}/sandboxes/{plain.sandbox_id}/connections", headers={"X-API-Key": key})
        assert answer.status_code == 401
