"""The disk of the virtual machines: what it promises, and what it forgets when the power goes."""

import json
import random
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

MACHINES = Path(__file__).resolve().parents[1] / "machines"
sys.path.insert(0, str(MACHINES))

from disk import FLUSH, PIECE, READ, WRITE, Connection, Medium  # noqa: E402

SIZE = 64 * PIECE


class NoChance(random.Random):
    """Decides that this share of the cache reaches the medium."""

    def __init__(self, share):
        super().__init__(1)
        self.share = share

    def choice(self, _):
        return self.share


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(b"o" * SIZE)
    return path


def test_what_was_flushed_outlives_the_power(path):
    medium = Medium(path)
    medium.write(100, b"kept")
    medium.flush()
    medium.write(200, b"lost")
    assert medium.read(98, 106) == b"oo" + b"kept" + b"o" * 96 + b"lost"
    assert medium.lose_power(NoChance(0.0)).startswith("1 pieces of 4 KiB were not flushed, 1 of them")
    assert path.read_bytes() == b"o" * 100 + b"kept" + b"o" * (SIZE - 104)


def test_a_write_that_was_not_flushed_may_be_there_in_part(path):
    medium = Medium(path)
    medium.write(0, b"n" * SIZE)
    medium.lose_power(NoChance(0.5))
    pieces = {path.read_bytes()[at : at + PIECE] for at in range(0, SIZE, PIECE)}
    assert pieces == {b"o" * PIECE, b"n" * PIECE}


def test_the_last_write_to_a_place_is_read_across_pieces(path):
    medium = Medium(path)
    medium.write(PIECE - 3, b"abcdef")
    medium.write(PIECE - 1, b"XY")
    assert medium.read(PIECE - 4, 8) == b"oabXYefo"
    medium.flush()
    assert path.read_bytes()[PIECE - 4 : PIECE + 4] == b"oabXYefo"


def test_a_full_cache_writes_back_the_oldest(path, monkeypatch):
    monkeypatch.setattr("disk.CACHE_PIECES_MAX", 2)
    medium = Medium(path)
    for number in range(3):
        medium.write(number * PIECE, b"n" * PIECE)
    assert list(medium.cached) == [1, 2]
    assert path.read_bytes()[:PIECE] == b"n" * PIECE


def test_it_speaks_nbd(path):
    ours, theirs = socket.socketpair()
    server = Connection(theirs, Medium(path))

    def serve():
        server.negotiate()
        try:
            server.serve()
        except EOFError:
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    assert ours.recv(18, socket.MSG_WAITALL)[:16] == b"NBDMAGICIHAVEOPT"
    ours.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 0))
    assert struct.unpack(">QH", ours.recv(10, socket.MSG_WAITALL)) == (SIZE, 5)
    for kind, data in ((WRITE, b"n" * 512), (FLUSH, b""), (READ, b"")):
        length = 0 if kind == FLUSH else 512
        ours.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 7, 0, length) + data)
        assert struct.unpack(">IIQ", ours.recv(16, socket.MSG_WAITALL)) == (0x67446698, 0, 7)
    assert ours.recv(512, socket.MSG_WAITALL) == b"n" * 512 == path.read_bytes()[:512]
    ours.close()
    thread.join()


def test_the_page_tells_a_step_that_failed_and_keeps_rounds(tmp_path):
    def page(*words):
        return subprocess.run(
            [sys.executable, MACHINES / "page.py", *map(str, words)], check=True, capture_output=True, text=True
        ).stdout

    def result(steps, faults, seed):
        row = {"seed": seed, "acknowledged": ["pause", "pause"], "under_way": [], "proven": 2, "disk": "d", "faults": faults}
        whole = {"release": "12", "commit": "c" * 40, "previous": "p" * 40, "seed": seed, "rounds": [row], "steps": steps,
                 "about": {"name": "Debian 12", "kernel": "6.1"}}  # fmt: skip
        (tmp_path / "result.json").write_text(json.dumps(whole))
        page("keep", tmp_path / "result.json", tmp_path)

    result([{"name": "reboot", "good": True, "sentence": ""}, {"name": "forks", "good": False, "sentence": "no"}], [], seed=5)
    assert page("count", tmp_path, "12") == "1 passed, 1 failed\n"
    for _ in range(2):  # a record that is kept twice counts once
        result([{"name": "power cut 1", "good": False, "sentence": "lost"}], ["lost"], seed=6)
    assert page("count", tmp_path, "12") == "0 passed, 1 failed\n"
    page("write", tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| forks | **fails**: no |" in text and "| reboot | ok |" in text
    assert "| power cuts | 1 of 2 rounds |" in text and "2 pause" in text and "**lost**" in text
