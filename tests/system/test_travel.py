"""A snapshot or a paused sandbox becomes a file, and starts on another daemon: processes, files and hard links as they
were. A file that was changed in any way, or is of another key, is refused and leaves nothing behind."""

import os
import subprocess
import time

import httpx
import pytest
from daemon import running, until
from e2b import Sandbox

NOTES = ["origin", "upper", "nlink", "impure"]  # of overlayfs: each names files by number
HEAD_BYTES = 44

SERVE = """
import http.server, os
state = {"asked": 0}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        state["asked"] += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"%d %d" % (os.getpid(), state["asked"]))
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def here():
    with running() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def there(here):
    with running() as daemon:
        key = atoll(here, "export-key").stdout
        atoll(daemon, "export-key", "set", input=key)
        yield daemon


def atoll(daemon, *words, check=True, **options):
    done = subprocess.run(
        [daemon.program, *words, "--data", str(daemon.data)], capture_output=True, text=True, timeout=300, **options
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def exported(daemon, name, tmp_path):
    file = tmp_path / "a.atoll"
    atoll(daemon, "export", name, "-o", str(file))
    return file


def imported(daemon, file, *name):
    return atoll(daemon, "import", str(file), *name).stdout.strip()


def refused(daemon, content):
    """The sentence with which the bytes are refused; nothing of them stays."""
    saved = daemon.data / "pool" / "saved"
    before = sorted(os.listdir(saved))
    answer = httpx.post(
        f"{daemon.url}/snapshots/import", content=content, headers={"X-API-Key": daemon.key}, timeout=120
    )
    assert answer.status_code in (400, 413, 422), answer.text
    until(lambda: sorted(os.listdir(saved)) == before, "nothing is left of it")
    return answer.json()["message"]


def asked(daemon, sandbox_id):
    headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "8000"}
    answer = httpx.get(daemon.url, headers=headers, timeout=60)
    return answer.text.split() if answer.status_code == 200 else None


def chunks(content):
    at, found = HEAD_BYTES, []
    while at < len(content):
        size = 4 + int.from_bytes(content[at : at + 4], "little")
        found.append(content[at : at + size])
        at += size
    return found


def test_processes_files_and_links_go_along(here, there, tmp_path):
    source = Sandbox.create(timeout=3600, envs={"MARK": "of the source"}, **here.sdk)
    source.files.write("/home/user/serve.py", SERVE)
    source.commands.run("python3 serve.py", background=True, timeout=0)
    pid, first = until(lambda: asked(here, source.sandbox_id), "the server answers")
    setup = """
        set -e
        linked=$(find /usr/bin /usr/lib -xdev -type f -links +1 -printf '%i %p\\n' | sort | awk 'n[$1]++ == 1 {print $1; exit}')
        find /usr/bin /usr/lib -xdev -inum $linked -printf '%p\\n' | sort > /root/names
        echo changed > $(head -n 1 /root/names)
        cat $(tail -n 1 /root/names) > /root/other
        echo own > /root/own && ln /root/own /root/own2 && ln -s own /root/soft && mkfifo /root/fifo
        truncate -s 50M /root/sparse && echo end >> /root/sparse
        chown 1000:1000 /root/own && chmod 4711 /root/own
        setfattr -n user.note -v value /root/own 2>/dev/null || python3 -c "import os; os.setxattr('/root/own', 'user.note', b'value')"
        rm /etc/issue && mkdir /etc/made && rm -rf /usr/share/doc && mkdir /usr/share/doc && touch /usr/share/doc/mine
        ls /etc | sort | sha256sum > /root/etc
    """
    source.commands.run(setup, user="root")
    assert source.files.read("/root/other", user="root") == "changed\n"  # the index of overlayfs knows the other name
    snapshot = source.create_snapshot().snapshot_id
    file = exported(here, snapshot, tmp_path)
    assert file.read_bytes()[:8] == b"ATOLLSAV" and oct(file.stat().st_mode)[-3:] == "600"
    assert b"of the source" not in file.read_bytes()

    name = imported(there, file, "carried:v1")
    assert name.endswith("carried:v1")
    copy = Sandbox.create(name, timeout=3600, **there.sdk)
    again, count = asked(there, copy.sandbox_id)
    assert again == pid and int(count) == int(first) + 1  # the same process, with its memory
    look = """
        set -e
        for name in $(cat /root/names); do cat $name; done | sort -u
        [ $(stat -c %i $(head -n 1 /root/names)) = $(stat -c %i $(tail -n 1 /root/names)) ] && echo one file
        stat -c '%a %u %h' /root/own; readlink /root/soft; stat -c %F /root/fifo; stat -c '%s' /root/sparse
        [ $(stat -c %b /root/sparse) -lt 100 ] && echo sparse
        python3 -c "import os; print(os.getxattr('/root/own', 'user.note').decode())"
        ls /etc/issue 2>/dev/null || echo gone; ls /usr/share/doc
        ls /etc | sort | sha256sum | cmp - /root/etc && echo etc merges
        echo more >> $(tail -n 1 /root/names); tail -n 1 $(head -n 1 /root/names)
    """
    done = copy.commands.run(look, user="root")
    assert done.stdout.split("\n")[:-1] == [
        "changed", "one file", "4711 1000 2", "own", "fifo", str(50 * 2**20 + 4), "sparse", "value", "gone", "mine",
        "etc merges", "more",
    ]  # fmt: skip
    saved = [path for path in (there.data / "pool" / "saved").iterdir() if (path / "disk" / "upper" / "root").exists()]
    assert len(saved) == 1 and not os.listdir(saved[0] / "disk" / "work")
    for path in [saved[0] / "disk" / "upper", *(saved[0] / "disk" / "upper").rglob("*")]:
        names = os.listxattr(path, follow_symlinks=False)
        assert not [note for note in NOTES if f"trusted.overlay.{note}" in names], path
    for _ in range(2):  # it lives on as any other
        copy.pause()
        copy = Sandbox.connect(copy.sandbox_id, timeout=3600, **there.sdk)
    assert asked(there, copy.sandbox_id)[0] == pid
    copy.kill()


def test_a_paused_sandbox_travels_and_stays(here, there, tmp_path):
    source = Sandbox.create(timeout=3600, **here.sdk)
    source.commands.run("echo kept > /home/user/file; sleep 1000 & echo $! > /home/user/pid")
    assert atoll(here, "export", source.sandbox_id, check=False, cwd=tmp_path).returncode == 1
    source.pause()
    file = exported(here, source.sandbox_id, tmp_path)
    copy = Sandbox.create(imported(there, file), timeout=3600, **there.sdk)
    assert copy.commands.run("cat file; ps -o args= -p $(cat pid)").stdout == "kept\nsleep 1000\n"
    copy.kill()
    source = Sandbox.connect(source.sandbox_id, timeout=3600, **here.sdk)
    assert source.commands.run("ps -o args= -p $(cat pid)").stdout == "sleep 1000\n"
    source.kill()


def test_a_snapshot_without_memory_travels(here, there, tmp_path):
    source = Sandbox.create(timeout=3600, **here.sdk)
    source.commands.run("echo kept > file")
    answer = httpx.post(
        f"{here.url}/sandboxes/{source.sandbox_id}/snapshots", json={"memory": False}, headers={"X-API-Key": here.key}
    )
    file = exported(here, answer.json()["snapshotID"], tmp_path)
    copy = Sandbox.create(imported(there, file), timeout=3600, **there.sdk)
    assert copy.commands.run("cat file").stdout == "kept\n"
    copy.kill()
    source.kill()


@pytest.fixture(scope="module")
def content(here, tmp_path_factory):
    """A file with several chunks."""
    source = Sandbox.create(timeout=3600, **here.sdk)
    source.commands.run("head -c 400000 /dev/urandom > noise")
    file = exported(here, source.create_snapshot().snapshot_id, tmp_path_factory.mktemp("content"))
    source.kill()
    return file.read_bytes()


def test_a_file_that_was_cut_short_is_refused(there, content):
    for size in [0, 7, HEAD_BYTES, HEAD_BYTES + 3, len(content) // 2, len(content) - 1]:
        assert "import" in refused(there, content[:size])
    assert "cut short" in refused(there, content[:-1])
    assert "bytes follow its end" in refused(there, content + b"x")


def test_a_changed_bit_is_found_in_every_region(there, content):
    last = len(content) - len(chunks(content)[-1])
    places = {0: "no export", 8: "version", 12: "another key", 25: "damaged", HEAD_BYTES: "damaged"}
    places |= {HEAD_BYTES + 9: "damaged", len(content) // 2: "damaged", last + 5: "damaged", len(content) - 1: "damaged"}
    for at, sentence in places.items():
        changed = bytearray(content)
        changed[at] ^= 4
        said = refused(there, bytes(changed))
        assert sentence in said or "cut short" in said, (at, said)


def test_exchanged_chunks_are_refused(there, content):
    parts = chunks(content)
    assert len(parts) > 4
    parts[1], parts[2] = parts[2], parts[1]
    assert "not as it was sealed" in refused(there, content[:HEAD_BYTES] + b"".join(parts))
    parts = chunks(content)
    del parts[2]
    assert "not as it was sealed" in refused(there, content[:HEAD_BYTES] + b"".join(parts))


def test_another_key_is_refused(there, content):
    """The daemon alone cannot make root read a file: whatever was not sealed with the key of root is refused."""
    key = atoll(there, "export-key").stdout
    try:
        atoll(there, "export-key", "set", input="ab" * 32)
        assert "another key" in refused(there, content)
        (there.data / "export.key").unlink()
        assert "no export key" in refused(there, content)
    finally:
        atoll(there, "export-key", "set", input=key)
    server = os.stat(f"/proc/{there.child('serve')}").st_uid
    assert server != 0
    path = str(there.data / "export.key")
    for command in (["cat", path], ["mv", path, path + "2"], ["cp", "/etc/hostname", path]):
        assert subprocess.run(["setpriv", f"--reuid={server}", "--clear-groups", *command], stderr=-3).returncode != 0


def test_another_layer_is_named(there, content):
    layers = there.data / "pool" / "layers"
    layer = max(layers.iterdir(), key=lambda path: len(os.listdir(path)))
    subprocess.run(["btrfs", "property", "set", "-ts", layer, "ro", "false"], stderr=-3)
    issue = layer / "etc" / "issue"
    was = os.stat(issue)
    try:
        os.utime(issue, (time.time(), time.time()))
        assert layer.name in refused(there, content)
        os.utime(issue, ns=(was.st_atime_ns, was.st_mtime_ns))
        layer.rename(layers / "away")
        try:
            said = refused(there, content)
        finally:
            (layers / "away").rename(layer)
        assert "lacks the layer" in said and layer.name in said
    finally:
        os.utime(issue, ns=(was.st_atime_ns, was.st_mtime_ns))


def test_a_quota_holds_for_what_a_file_expands_to(there, here, tmp_path):
    source = Sandbox.create(timeout=3600, **here.sdk)
    source.commands.run("head -c 30M /dev/zero > zeros; sync")
    file = exported(here, source.create_snapshot().snapshot_id, tmp_path)
    source.kill()
    assert file.stat().st_size < 8 << 20
    admin = (there.data / "state" / "admin.token").read_text().strip()
    api = httpx.Client(base_url=there.url, headers={"X-Admin-Token": admin}, timeout=60)
    team = api.get("/admin/teams").json()[0]["id" if "id" in api.get("/admin/teams").json()[0] else "teamID"]
    assert api.patch(f"/admin/teams/{team}", json={"limits": {"diskMB": 20}}).is_success
    try:
        answer = httpx.post(
            f"{there.url}/snapshots/import", content=file.read_bytes(), headers={"X-API-Key": there.key}, timeout=120
        )
        assert answer.status_code in (413, 429), answer.text
    finally:
        assert api.patch(f"/admin/teams/{team}", json={"limits": {"diskMB": None}}).is_success


def test_a_keeper_that_dies_leaves_no_half_import(there, content):
    def slowly():
        yield content[: len(content) // 2]
        there.kill_child("keeper")
        yield content[len(content) // 2 :]

    with pytest.raises((httpx.TransportError, AssertionError)):
        answer = httpx.post(
            f"{there.url}/snapshots/import", content=slowly(), headers={"X-API-Key": there.key}, timeout=120
        )
        assert answer.status_code == 201, answer.text
    saved = there.data / "pool" / "saved"
    until(lambda: not [name for name in os.listdir(saved) if name.startswith(".")], "the half one is gone")
