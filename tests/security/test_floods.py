"""A sandbox, or a client, makes as much as it can of something: the daemon, its disk and other sandboxes hold.

Floods are bounded in number and time. A full disk under the store is in tests/system/test_limits.py, a full pool in
tests/system/test_build_limits.py, floods of connections and of creates that starve others in test_fairness.py."""

import base64
import gzip
import json
import os
import pathlib
import struct
import sys
import threading
import zlib

import httpx
import pytest
from e2b import Sandbox

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import flood  # noqa: E402
from flood import Flood, sdk_of_other, until  # noqa: E402

SANDBOXES = 8
LOG_BYTES = 8 << 20  # of one sandbox on the host's disk, and a block for each of its two files
WATCHERS = 4096
BOMB_BYTES = 512 << 20
GROWTH_BYTES = 96 << 20  # what a process may grow by, whatever a bomb unpacks to


@pytest.fixture(scope="module")
def daemon():
    with flood.two_teams("--team-sandboxes-max", str(SANDBOXES)) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def box(daemon):
    """The sandbox that floods."""
    box = Sandbox.create(timeout=900, **daemon.sdk)
    yield box
    box.kill()


@pytest.fixture(scope="module")
def other(daemon):
    """A sandbox of the other team, which goes on."""
    box = Sandbox.create(timeout=900, **sdk_of_other(daemon))
    yield box
    box.kill()


@pytest.fixture(autouse=True)
def others_go_on(daemon, other):
    """After each flood the same daemon and the other team's sandbox answer."""
    server, keeper = daemon.child("server"), daemon.child("keeper")
    yield
    assert (daemon.child("server"), daemon.child("keeper")) == (server, keeper), daemon.said()
    assert other.commands.run("echo here").stdout == "here\n"
    other.files.write("/tmp/note", "kept")
    assert other.files.read("/tmp/note") == "kept"


def rss_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def agent_headers(box, **more):
    return {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "49983",
            "X-Access-Token": box._envd_access_token, **more}


# ---- creates ----

def test_a_flood_of_creates_stops_at_the_limit_of_its_team(daemon, box, other):
    """A team posts sixty creates at once; as many as it may have succeed, the rest are told 429, and another team gets its sandbox."""
    body = json.dumps({"templateID": "base", "timeout": 300}).encode()
    head = (f"POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {daemon.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    with Flood(daemon) as many:
        numbers = many.open(60, head + body)
        assert many.listen(lambda f: len(f.order) == len(numbers))
        statuses = many.statuses()
        assert sorted(statuses) == [201] * (SANDBOXES - 1) + [429] * (60 - SANDBOXES + 1)
        made = [json.loads(text.rpartition(b"\r\n\r\n")[2])["sandboxID"] for text in many.said.values()
                if text.startswith(b"HTTP/1.1 201")]
    Sandbox.create(timeout=60, **sdk_of_other(daemon)).kill()
    for sandbox_id in made:
        assert Sandbox.kill(sandbox_id, **daemon.sdk)


# ---- logs ----

LOGGER = """
import socket, sys
token, count = sys.argv[1], int(sys.argv[2])
line = (f"GET /files?path=/{'nowhere' * 40} HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nX-Access-Token: {token}\\r\\n\\r\\n").encode()
link = socket.create_connection(("127.0.0.1", 49983))
answered = 0
for _ in range(count // 50):
    link.sendall(line * 50)
    got = b""
    while got.count(b"HTTP/1.1 ") < 50:
        data = link.recv(1 << 20)
        if not data:
            sys.exit(f"closed after {answered}")
        got += data
    answered += 50
print(answered)
"""


def log_bytes(daemon, box):
    return sum(path.stat().st_size for path in (daemon.data / "state" / "logs").rglob(f"*{box.sandbox_id}*"))


def test_a_sandbox_that_logs_as_fast_as_it_can_fills_no_disk(daemon, box, other):
    """Programs in a sandbox make its agent log as fast as they can; the log on the host stays within its bytes, and others are served meanwhile."""
    box.files.write("/tmp/logger.py", LOGGER)
    before = daemon.figures()["atoll_log_lines_total"]
    floods = [box.commands.run(f"python3 /tmp/logger.py {box._envd_access_token} 15000", background=True, timeout=120)
              for _ in range(3)]
    waits = [threading.Thread(target=one.wait) for one in floods]
    for wait in waits:
        wait.start()
    served = 0
    while any(wait.is_alive() for wait in waits):
        assert other.commands.run("echo here").stdout == "here\n"
        assert log_bytes(daemon, box) <= LOG_BYTES + (64 << 10)
        served += 1
    assert served > 0
    figures = daemon.figures()
    told = figures["atoll_log_lines_total"] - before + figures["atoll_log_lines_lost_total"]
    assert told >= 100, told
    assert log_bytes(daemon, box) <= LOG_BYTES + (64 << 10)
    answer = httpx.get(f"{daemon.url}/v2/sandboxes/{box.sandbox_id}/logs", params={"limit": 10},
                       headers={"X-API-Key": daemon.key}, timeout=60)
    assert answer.status_code == 200 and answer.json()["logs"]


def test_a_log_full_of_large_lines_is_cut_to_its_size(daemon, box):
    """A process whose command line is as long as it may be is started over and over; each line is cut, and the log stays within its bytes."""
    for _ in range(40):
        box.commands.run("true " + "x" * 60000)
    assert log_bytes(daemon, box) <= LOG_BYTES + (64 << 10)


# ---- terminals ----

def test_a_flood_of_terminals_stays_in_its_sandbox(box, other):
    """Root in a sandbox opens terminals until the kernel refuses, six thousand at most; another sandbox and the host still open theirs."""
    box.files.write("/tmp/ptys.py", """
import os, resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
kept = []
try:
    while len(kept) < 6000:
        kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as e:
    print(e.strerror, flush=True)
print(len(kept), flush=True)
time.sleep(600)
""", user="root")
    flooder = box.commands.run("python3 /tmp/ptys.py > /tmp/ptys.out 2>&1", user="root", background=True, timeout=0)
    try:
        until(lambda: box.commands.run("tail -n 1 /tmp/ptys.out || true").stdout.strip().isdigit(), "the flood is over")
        taken = int(box.commands.run("tail -n 1 /tmp/ptys.out").stdout)
        assert taken < 6000, "there is no limit"
        assert other.commands.run("python3 -c 'import os; print(len(os.openpty()))'").stdout == "2\n"
        for fd in os.openpty():
            os.close(fd)
    finally:
        flooder.kill()


# ---- watches ----

def watch(client, box, path="/tmp"):
    return client.post("/filesystem.Filesystem/CreateWatcher", json={"path": path}, headers=agent_headers(box))


def test_a_million_watches_are_refused_at_the_sandbox_s_limit(daemon, box, other):
    """A client asks for watches without end and reads none of them; the sandbox's limit is told, and another sandbox still watches."""
    made = []
    with httpx.Client(base_url=daemon.url, timeout=60) as client:
        try:
            while len(made) <= WATCHERS:
                answer = watch(client, box)
                if answer.status_code != 200:
                    break
                made.append(answer.json()["watcherId"])
            assert 0 < len(made) <= WATCHERS
            assert answer.status_code in (429, 503), answer.text
            assert answer.json()["code"] in ("resource_exhausted", "unavailable"), answer.text
            assert watch(client, other).status_code == 200
        finally:
            for one in made:
                client.post("/filesystem.Filesystem/RemoveWatcher", json={"watcherId": one}, headers=agent_headers(box))
    handle = other.files.watch_dir("/tmp")
    other.files.write("/tmp/seen", "x")
    assert until(lambda: any(event.name == "seen" for event in handle.get_new_events()), "the event comes")
    handle.stop()


# ---- gzip bombs ----

@pytest.fixture(scope="module")
def bomb():
    """Half a gibibyte of blanks, which JSON may have between its parts, in some hundred kilobytes."""
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b" " * (1 << 20)
    out = [pack.compress(block) for _ in range(BOMB_BYTES >> 20)]
    return b"".join([*out, pack.flush()])


@pytest.mark.parametrize("path", ["/v2/sandboxes", "/events/webhooks", "/secrets", "/tools/run_code", "/mcp", "/execute"])
def test_a_gzip_bomb_in_a_call_is_not_unpacked(daemon, bomb, path):
    """A call of the API or of a tool has a gzip bomb as its body; it is refused, and the server does not grow by it."""
    server = daemon.child("server")
    before = rss_bytes(server)
    answer = httpx.post(f"{daemon.url}{path}", content=bomb, timeout=60,
                        headers={"X-API-Key": daemon.key, "Content-Encoding": "gzip", "Content-Type": "application/json",
                                 "Accept": "application/json, text/event-stream"})
    assert 400 <= answer.status_code < 500, answer.text
    assert rss_bytes(server) - before < GROWTH_BYTES


def test_a_gzip_bomb_in_an_rpc_is_cut_off(daemon, box, bomb):
    """A unary call to a sandbox's agent has a gzip bomb as its body; it is refused by size, and the agent lives."""
    answer = httpx.post(f"{daemon.url}/process.Process/List", content=bomb, timeout=60,
                        headers=agent_headers(box, **{"Content-Encoding": "gzip", "Content-Type": "application/json"}))
    assert answer.status_code == 429 or 400 <= answer.status_code < 500, answer.text
    assert answer.json()["code"] in ("resource_exhausted", "invalid_argument"), answer.text
    assert box.commands.run("echo here").stdout == "here\n"


def test_a_gzip_bomb_in_a_stream_s_message_is_cut_off(daemon, box, bomb):
    """A streaming call to a sandbox's agent has a compressed message that is a bomb; the stream ends with an error, and the agent lives."""
    answer = httpx.post(f"{daemon.url}/process.Process/Start", content=struct.pack(">BI", 1, len(bomb)) + bomb, timeout=60,
                        headers=agent_headers(box, **{"Connect-Content-Encoding": "gzip",
                                                      "Content-Type": "application/connect+json",
                                                      "Connect-Protocol-Version": "1"}))
    assert b"resource_exhausted" in answer.content or b"invalid_argument" in answer.content, answer.content
    assert box.commands.run("echo here").stdout == "here\n"


def test_a_gzip_bomb_from_a_service_passes_as_it_is(daemon, box, bomb):
    """A service in a sandbox answers with a gzip bomb; the client gets its compressed bytes, and the server does not grow by it."""
    source = f"""
import base64, http.server, sys
BOMB = base64.b64decode({base64.b64encode(bomb)!r})
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(BOMB)))
        self.end_headers()
        self.wfile.write(BOMB)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
    flood.serve(box, source, 8080)
    server = daemon.child("server")
    before = rss_bytes(server)
    headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "8080"}
    with httpx.stream("GET", daemon.url, headers=headers, timeout=60) as answer:
        assert b"".join(answer.iter_raw()) == bomb
    assert rss_bytes(server) - before < GROWTH_BYTES


# ---- full disk ----

def fill_disk(box, leave_mb):
    """Takes all of the sandbox's disk but so much, without writing it."""
    box.files.write("/tmp/fill.py", f"""
import errno, os
size, n = 1 << 30, 0
while size >= 1 << 20:
    fd = os.open(f"/var/tmp/fill-{{n}}", os.O_CREAT | os.O_WRONLY)
    try:
        os.posix_fallocate(fd, 0, size)
        n += 1
    except OSError as e:
        assert e.errno in (errno.ENOSPC, errno.EDQUOT), e
        os.unlink(f"/var/tmp/fill-{{n}}")
        size //= 4
    os.close(fd)
left = {leave_mb} << 20
for name in sorted(os.listdir("/var/tmp"), key=lambda name: os.stat("/var/tmp/" + name).st_size):
    if left > 0 and name.startswith("fill-"):
        left -= os.stat("/var/tmp/" + name).st_size
        os.unlink("/var/tmp/" + name)
""", user="root")
    box.commands.run("python3 /tmp/fill.py && sync", user="root", timeout=120)


def test_a_sandbox_that_fills_its_disk_stops_at_its_own_limit(daemon, box, other, bomb):
    """A sandbox takes all of its disk and then uploads a gzip bomb into it; it is told that the disk is full, keeps no half of it, and others write on."""
    try:
        fill_disk(box, leave_mb=64)
        answer = httpx.post(f"{daemon.url}/files", params={"path": "/var/tmp/bomb", "username": "root"}, content=bomb,
                            headers=agent_headers(box, **{"Content-Encoding": "gzip",
                                                          "Content-Type": "application/octet-stream"}), timeout=120)
        assert answer.status_code == 507, answer.text
        assert not box.files.exists("/var/tmp/bomb")
        other.commands.run("head -c 64M /dev/zero > /var/tmp/written && sync /var/tmp/written && rm /var/tmp/written")
        assert box.commands.run("echo here").stdout == "here\n"
    finally:
        box.commands.run("rm -f /var/tmp/fill-*", user="root")
    box.files.write("/var/tmp/after", "room again")
