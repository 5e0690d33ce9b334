"""Parked jails: who claims one gets a sandbox like any other, made for nobody before; what is not
needed, not right or not affordable any more goes; and nothing of them outlives the daemon."""

import contextlib
import http.server
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from builder import Builder, run
from daemon import Daemon, until
from e2b import Sandbox
from teams import two_teams

FLOOR, CEILING = 4, 16
BURST = 100
OUTSIDE = "198.51.100.80"  # nobody's: leads to a server of the test's
SPARE_BYTES = 2 << 30
SETTLE_S = 60


def parked(daemon):
    return int(daemon.figures()["atoll_parked_jails"])


def claims(daemon, outcome):
    return int(daemon.figures()[f'atoll_parked_claims_total{{outcome="{outcome}"}}'])


def wait_parked(daemon, least=FLOOR):
    until(lambda: parked(daemon) >= least, f"{least} jails are parked", SETTLE_S)


def parked_of(daemon, template_id):
    """How many jails of one template are idle, of all its builds, as the daemon reports."""
    start = f'atoll_template_parked_jails{{template="{template_id}"'
    return sum(int(n) for name, n in daemon.figures().items() if name.startswith(start))


def claim(daemon, template_id, **options):
    """Claims an idle jail of a template. There is none before somebody uses it: a first create does."""
    Sandbox.create(template_id, timeout=60, **daemon.sdk).kill()
    until(lambda: parked_of(daemon, template_id), f"a jail of {template_id} is idle", SETTLE_S)
    before = set(daemon.jails())
    sandbox = Sandbox.create(template_id, timeout=60, **options, **daemon.sdk)
    assert sandbox.sandbox_id in before, "it was there before it was asked for"
    return sandbox


def send_all(pids, number):
    """To those that are still there: there may be some among them that are being ended anyway."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


@pytest.fixture(scope="module")
def daemon(server):
    with two_teams(
        *("--parked-min", str(FLOOR), "--parked-max", str(CEILING)),
        *("--egress-map", f"{OUTSIDE}:80=127.0.0.1:{server}"),
    ) as daemon:
        yield daemon


@pytest.fixture
def full(daemon):
    wait_parked(daemon)
    return daemon


def test_a_claimed_one_is_what_was_asked_for(full):
    before = claims(full, "hit")
    made = [
        Sandbox.create(
            timeout=60, envs={"WHO": f"number {i}"}, metadata={"n": str(i)}, allow_internet_access=i > 0, **full.sdk
        )
        for i in range(3)
    ]
    say = f"hostname; echo $E2B_SANDBOX_ID; echo $WHO; curl -s -m 5 http://{OUTSIDE}/ || echo no"
    try:
        assert claims(full, "hit") == before + 3
        assert len({sandbox.sandbox_id for sandbox in made}) == 3
        for i, sandbox in enumerate(made):
            said = sandbox.commands.run(say).stdout.split("\n")
            assert said[:3] == [sandbox.sandbox_id, sandbox.sandbox_id, f"number {i}"]
            assert said[3] == ("hello" if i > 0 else "no"), "the network is as it was asked for"
            info = sandbox.get_info()
            assert info.metadata == {"n": str(i)}
            assert (info.end_at - info.started_at).total_seconds() == pytest.approx(60, abs=1)
        tokens = [s.connection_config.sandbox_headers["X-Access-Token"] for s in made]
        assert len(set(tokens)) == 3
        headers = {"E2b-Sandbox-Id": made[0].sandbox_id, "E2b-Sandbox-Port": "49983"}
        answers = [
            httpx.get(f"{full.url}/envs", headers={**headers, "X-Access-Token": token}).status_code
            for token in tokens
        ]
        assert answers == [200, 401, 401]
    finally:
        for sandbox in made:
            sandbox.kill()


def test_parked_ones_are_nobody_s(full):
    """Not in a list, not in a count, not to be reached, whatever one knows of them."""
    ids = set(full.jails())
    assert len(ids) >= FLOOR
    headers = {"X-API-Key": full.key}
    assert httpx.get(f"{full.url}/v2/sandboxes", headers=headers).json() == []
    assert full.figures()['atoll_sandboxes{state="running"}'] == 0
    assert full.figures()['atoll_sandboxes{state="starting"}'] == 0
    for sandbox_id in ids:
        assert httpx.get(f"{full.url}/sandboxes/{sandbox_id}", headers=headers).status_code == 404
        assert httpx.delete(f"{full.url}/sandboxes/{sandbox_id}", headers=headers).status_code == 404
        inside = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49983"}
        assert httpx.get(f"{full.url}/health", headers=inside).status_code == 502


def test_two_teams_claim_from_one_pool(full):
    theirs = {**full.sdk, "api_key": full.other_key}
    mine, other = Sandbox.create(timeout=60, **full.sdk), Sandbox.create(timeout=60, **theirs)
    try:
        for key, own in ((full.key, mine), (full.other_key, other)):
            rows = httpx.get(f"{full.url}/v2/sandboxes", headers={"X-API-Key": key}).json()
            assert [row["sandboxID"] for row in rows] == [own.sandbox_id]
    finally:
        mine.kill()
        other.kill()


def test_none_is_used_twice(full):
    seen = set()
    for _ in range(3 * FLOOR):
        sandbox = Sandbox.create(timeout=60, **full.sdk)
        assert sandbox.sandbox_id not in seen
        assert sandbox.commands.run("ls -A /tmp; touch /tmp/used").stdout == ""
        seen.add(sandbox.sandbox_id)
        sandbox.kill()


def test_a_burst_beyond_the_pool(full):
    """All succeed: those that find none are made for their callers."""
    missed = claims(full, "miss")

    def one(number):
        sandbox = Sandbox.create(timeout=120, envs={"N": str(number)}, **full.sdk)
        return sandbox, sandbox.commands.run("echo $N $E2B_SANDBOX_ID", timeout=60).stdout.split()

    with ThreadPoolExecutor(BURST) as threads:
        made = list(threads.map(one, range(BURST)))
    try:
        assert [said for _, said in made] == [[str(n), sb.sandbox_id] for n, (sb, _) in enumerate(made)]
        assert len({sandbox.sandbox_id for sandbox, _ in made}) == BURST
        assert claims(full, "miss") > missed
    finally:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda pair: pair[0].kill(), made))
    until(lambda: FLOOR < parked(full) <= CEILING, "more are parked than in quiet times", SETTLE_S)


def test_bursts_in_a_row_each_find_a_pool(full):
    """What was taken is made anew between them; who comes while it is made gets one all the same."""
    missed, seen = claims(full, "miss"), set()
    for _ in range(5):
        wait_parked(full)
        with ThreadPoolExecutor(FLOOR) as threads:
            made = list(threads.map(lambda _: Sandbox.create(timeout=60, **full.sdk), range(FLOOR)))
        assert claims(full, "miss") == missed
        seen |= {sandbox.sandbox_id for sandbox in made}
        for sandbox in made:
            sandbox.kill()
    assert len(seen) == 5 * FLOOR
    for _ in range(2 * FLOOR):
        sandbox = Sandbox.create(timeout=60, **full.sdk)
        assert sandbox.sandbox_id not in seen
        seen.add(sandbox.sandbox_id)
        sandbox.kill()
    until(lambda: FLOOR <= parked(full) <= CEILING, "as many are parked as should be", SETTLE_S)


def test_a_claimed_one_can_be_paused_and_copied(full):
    hits = claims(full, "hit")
    sandbox = Sandbox.create(timeout=600, **full.sdk)
    assert claims(full, "hit") == hits + 1
    copies = []
    try:
        sandbox.files.write("/home/user/kept", "here")
        sandbox.pause()
        sandbox = Sandbox.connect(sandbox.sandbox_id, **full.sdk)
        copies = sandbox.fork(count=2, timeout=600)
        snapshot = sandbox.create_snapshot()
        copies.append(Sandbox.create(snapshot.snapshot_id, timeout=600, **full.sdk))
        for copy in [sandbox, *copies]:
            assert copy.files.read("/home/user/kept") == "here"
            assert copy.commands.run("hostname").stdout.strip() == copy.sandbox_id
        Sandbox.delete_snapshot(snapshot.snapshot_id, **full.sdk)
    finally:
        for copy in [sandbox, *copies]:
            copy.kill()


def test_one_that_nobody_has_used_can_be_paused_and_copied(full):
    """The connections that were made for its first request are no part of what is saved."""
    sandbox = Sandbox.create(timeout=600, **full.sdk)
    copies = []
    try:
        copies = sandbox.fork(count=1, timeout=600)
        sandbox.pause()
        sandbox = Sandbox.connect(sandbox.sandbox_id, **full.sdk)
        for copy in [sandbox, *copies]:
            assert copy.commands.run("hostname").stdout.strip() == copy.sandbox_id
    finally:
        for copy in [sandbox, *copies]:
            copy.kill()


def test_what_was_done_ahead_does_not_show(full):
    sandbox = Sandbox.create(timeout=60, **full.sdk)
    try:
        assert sandbox.commands.run("ps -eo comm=; true").stdout.split() == ["agent", "bash", "ps"]
        lines = httpx.get(
            f"{full.url}/sandboxes/{sandbox.sandbox_id}/logs", headers={"X-API-Key": full.key}
        ).json()["logEntries"]
        assert [line["fields"]["event_type"] for line in lines] == ["process_start", "process_end"]
    finally:
        sandbox.kill()


def test_one_that_dies_is_replaced(full):
    victim, pid = next(iter(full.jails().items()))
    os.kill(pid, signal.SIGKILL)
    until(lambda: victim not in full.sandbox_dirs(), "it is gone", SETTLE_S)
    wait_parked(full)
    sandbox = Sandbox.create(timeout=60, **full.sdk)
    assert sandbox.commands.run("echo ok").stdout == "ok\n"
    sandbox.kill()


def test_dead_ones_are_claimed_by_nobody(full):
    """Both are there to be read when the server wakes: that they died, and who wants one."""
    server = full.child("serve")
    with ThreadPoolExecutor() as pool:
        os.kill(server, signal.SIGSTOP)
        try:
            for pid in full.jails().values():
                os.kill(pid, signal.SIGKILL)
            until(lambda: not full.jails(), "they are dead", SETTLE_S)
            created = [pool.submit(Sandbox.create, timeout=60, **full.sdk) for _ in range(FLOOR)]
        finally:
            os.kill(server, signal.SIGCONT)
        for sandbox in [future.result() for future in created]:
            assert sandbox.commands.run("echo ok").stdout == "ok\n"
            sandbox.kill()


def test_one_that_dies_as_it_is_claimed_is_made_up_for(full):
    """Its agent does not answer any more when the claim asks it, and then it dies: the caller gets another."""
    parked_ones, hits = full.jails(), claims(full, "hit")
    with ThreadPoolExecutor() as pool:
        send_all(parked_ones.values(), signal.SIGSTOP)
        created = pool.submit(Sandbox.create, timeout=60, metadata={"who": "me"}, envs={"WHO": "me"}, **full.sdk)
        until(lambda: claims(full, "hit") == hits + 1, "one is claimed", SETTLE_S)
        send_all(parked_ones.values(), signal.SIGKILL)
        sandbox = created.result()
    assert sandbox.sandbox_id not in parked_ones
    assert sandbox.commands.run("echo $WHO").stdout == "me\n"
    info = sandbox.get_info()
    assert (info.end_at - info.started_at).total_seconds() == pytest.approx(60, abs=1)
    rows = httpx.get(f"{full.url}/v2/sandboxes", headers={"X-API-Key": full.key}).json()
    assert [(row["sandboxID"], row["metadata"]) for row in rows] == [(sandbox.sandbox_id, {"who": "me"})]
    sandbox.kill()
    until(lambda: not set(parked_ones) & set(full.sandbox_dirs()), "what died is gone", SETTLE_S)


def test_a_template_that_changed_is_not_claimed(full):
    builder = Builder(full)
    ids, status = builder.build([run("echo one >/home/user/which")], name="turning")
    assert status["status"] == "ready", status
    sandbox = claim(full, ids[0])
    assert sandbox.files.read("/home/user/which") == "one\n"
    sandbox.kill()

    _, status = builder.build([run("echo two >/home/user/which")], name="turning")
    assert status["status"] == "ready", status
    for _ in range(3):
        sandbox = Sandbox.create("turning", timeout=60, **full.sdk)
        assert sandbox.files.read("/home/user/which") == "two\n"
        sandbox.kill()
    assert builder.call("DELETE", f"/templates/{ids[0]}").status_code in (200, 204)
    until(lambda: parked(full) == FLOOR, "those of a template that is gone are gone", SETTLE_S)
    assert builder.create("turning").status_code == 404


def test_a_steady_load_of_another_template_starves_none(full):
    """There are no quiet times, but an empty pool does not wait for them."""
    builder, over = Builder(full), threading.Event()
    ids, status = builder.build(name="beside")
    assert status["status"] == "ready", status

    def load():
        while not over.wait(0.03):
            Sandbox.create(timeout=60, **full.sdk).kill()

    with ThreadPoolExecutor(1) as thread:
        loading = thread.submit(load)
        try:
            claim(full, ids[0]).kill()
        finally:
            over.set()
        loading.result()
    assert builder.call("DELETE", f"/templates/{ids[0]}").status_code in (200, 204)


def test_another_team_does_not_see_what_is_parked_of_a_template(full):
    builder = Builder(full)
    ids, status = builder.build(name="ours")
    assert status["status"] == "ready", status
    claim(full, ids[0]).kill()

    def page(key):
        return httpx.get(f"{full.url}/metrics", headers={"X-API-Key": key}).text

    assert ids[0] in page(full.key)
    assert "atoll_template_parked_jails" in page(full.other_key)
    assert ids[0] not in page(full.other_key)
    assert builder.call("DELETE", f"/templates/{ids[0]}").status_code in (200, 204)


def test_what_a_template_starts_runs_in_parked_ones(full):
    """A template that is kept with its processes is parked with them, and knows who it became."""
    builder = Builder(full)
    ids, status = builder.build(
        name="serving",
        startCmd="cd /home/user && exec python3 -m http.server 8000",
        readyCmd="curl -sf http://localhost:8000/",
    )
    assert status["status"] == "ready", status
    sandbox = claim(full, ids[0], envs={"WHO": "me"})
    try:
        said = sandbox.commands.run("hostname; echo $E2B_SANDBOX_ID $WHO; pgrep -fc http.server").stdout
        assert said.split() == [sandbox.sandbox_id, sandbox.sandbox_id, "me", "1"]
        sandbox.files.write("/home/user/page", "served")
        headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
        assert httpx.get(f"{full.url}/page", headers=headers).text == "served"
    finally:
        sandbox.kill()
        builder.call("DELETE", f"/templates/{ids[0]}")
    until(lambda: parked(full) <= FLOOR, "those of a template that is gone are gone", SETTLE_S)


def test_restored_ones_are_parked_by_demand(full):
    """As many as were asked for at once, and more, as far as the host has the memory."""
    builder, asked = Builder(full), CEILING - 4
    ids, status = builder.build(
        name="wanted", startCmd="exec python3 -m http.server 8000", readyCmd="curl -sf http://localhost:8000/"
    )
    assert status["status"] == "ready", status
    try:
        with ThreadPoolExecutor(asked) as threads:
            made = list(threads.map(lambda _: Sandbox.create(ids[0], timeout=60, **full.sdk), range(asked)))
        until(lambda: parked_of(full, ids[0]) >= asked, "a second burst would find all that it needs", SETTLE_S)
        assert parked_of(full, ids[0]) <= CEILING
        for sandbox in made:
            sandbox.kill()
    finally:
        builder.call("DELETE", f"/templates/{ids[0]}")
    until(lambda: parked(full) <= FLOOR, "those of a template that is gone are gone", SETTLE_S)


def test_a_killed_keeper_leaves_them_parked(full):
    until(lambda: len(full.jails()) == parked(full), "no jail is on its way in or out", SETTLE_S)
    before = set(full.jails())
    full.kill_child("keeper")
    assert before <= set(full.jails())
    sandbox = Sandbox.create(timeout=60, **full.sdk)
    assert sandbox.sandbox_id in before
    sandbox.kill()


def test_a_killed_daemon_leaves_nothing(full):
    kept = Sandbox.create(timeout=600, **full.sdk)
    before = set(full.jails()) - {kept.sandbox_id}
    for end in (lambda: full.kill_child("server"), lambda: (full.kill(), full.start())):
        end()
        until(lambda: not before & set(full.jails()), "the parked ones of before are gone", SETTLE_S)
        until(lambda: not before & set(full.sandbox_dirs()), "and their disks", SETTLE_S)
        wait_parked(full)
        before = set(full.jails()) - {kept.sandbox_id}
    kept = Sandbox.connect(kept.sandbox_id, **full.sdk)
    assert kept.commands.run("echo on").stdout == "on\n"
    kept.kill()


def test_an_orderly_stop_leaves_nothing(full):
    full.stop()
    until(lambda: not full.jails() and not full.sandbox_dirs(), "nothing is left", SETTLE_S)
    full.start()


def available_bytes():
    with open("/proc/meminfo") as text:
        return next(int(line.split()[1]) for line in text if line.startswith("MemAvailable")) << 10


def test_a_host_short_of_memory_has_none(server):
    free = available_bytes() - SPARE_BYTES
    daemon = Daemon("--parked-min", "auto", "--parked-max", str(FLOOR), "--parked-free", str(free))
    try:
        daemon.start()
        wait_parked(daemon)
        eaten = bytearray(2 * SPARE_BYTES)
        eaten[:: os.sysconf("SC_PAGESIZE")] = b"x" * (len(eaten) // os.sysconf("SC_PAGESIZE"))
        until(lambda: parked(daemon) == 0, "none is parked", SETTLE_S)
        sandbox = Sandbox.create(timeout=60, **daemon.sdk)
        assert sandbox.commands.run("echo cold").stdout == "cold\n"
        sandbox.kill()
        del eaten
        wait_parked(daemon)
    finally:
        daemon.remove()
