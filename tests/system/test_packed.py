"""The memory of a sandbox that stays paused is compressed on the disk, whoever is killed meanwhile, and
is read as it was; what sandboxes start from is left alone."""

import hashlib

import httpx
import pytest
from daemon import running, until
from e2b import Sandbox

HOLD = """
import hashlib, http.server, random
held = b"".join(b"%d is a number, and this is about it. " % i for i in range(2_000_000))
held += random.Random(4).randbytes(8 << 20)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(hashlib.sha256(held).hexdigest().encode())
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


@pytest.fixture
def daemon():
    with running("--parked-max", "0", "--pack-after-s", "1") as daemon:
        yield daemon


def held(daemon, sandbox_id):
    headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "8000"}
    answer = httpx.get(daemon.url, headers=headers, timeout=60)
    return answer.text if answer.status_code == 200 else None


def saved_metric(daemon):
    return daemon.figures()['atoll_saved_memory_bytes{of="paused"}']


def test_idle_memory_is_compressed_and_comes_back(daemon):
    sandbox = Sandbox.create(timeout=3600, **daemon.sdk)
    sandbox.files.write("/home/user/hold.py", HOLD)
    sandbox.commands.run("python3 hold.py", background=True, timeout=0)
    before = until(lambda: held(daemon, sandbox.sandbox_id), "the server answers")
    assert len(before) == len(hashlib.sha256().hexdigest())
    snapshot = sandbox.create_snapshot()
    with_snapshot = saved_metric(daemon)
    sandbox.pause()
    both = saved_metric(daemon)
    saved = daemon.data / "pool" / "saved"

    daemon.kill_child("keeper")  # it is about to begin, or has
    mark = until(lambda: list(saved.glob("*/memory/packed")), "it is packed")
    plain, packed = map(int, mark[0].read_text().split())
    assert plain > 60 << 20 and packed < plain / 2
    until(lambda: saved_metric(daemon) == with_snapshot + packed, "the figures say so")
    assert with_snapshot + packed < both
    daemon.kill()
    daemon.start()  # and the next daemon learns it
    until(lambda: saved_metric(daemon) == with_snapshot + packed, "the figures say so again")

    sandbox = Sandbox.connect(sandbox.sandbox_id, timeout=3600, **daemon.sdk)
    assert held(daemon, sandbox.sandbox_id) == before
    assert not list(saved.glob("*/memory/packed"))  # the snapshot's is as it was
    copy = Sandbox.create(snapshot.snapshot_id, timeout=3600, **daemon.sdk)
    assert held(daemon, copy.sandbox_id) == before
