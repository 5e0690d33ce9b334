"""atoll cp: files and trees both ways, between sandboxes, volumes and pipes; what a sandbox sends is hostile."""

import hashlib
import io
import json
import os
import pty
import signal
import subprocess
import tarfile
import time
import uuid
from pathlib import Path

import pytest

PROGRAM = os.path.join(os.environ.get("ATOLL_BUILD", ""), "atoll")
WAIT_S = 60
BIG_BYTES = 100_000_000


def cp(source, target, *more, **options):
    return subprocess.run([PROGRAM, "cp", *more, str(source), str(target)], capture_output=True, timeout=WAIT_S, check=False,
                          **options)


def copied(source, target, *more, **options):
    ended = cp(source, target, *more, **options)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def tree(top):
    """Names, kinds, modes and contents below a directory."""
    rows = {}
    for path in sorted(Path(top).rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            rows[name] = ("link", os.readlink(path))
        elif path.is_dir():
            rows[name] = ("dir", path.stat().st_mode & 0o777)
        else:
            rows[name] = ("file", path.stat().st_mode & 0o777, path.read_bytes())
    return rows


@pytest.fixture
def sample(tmp_path):
    top = tmp_path / "sample"
    (top / "deep" / "er").mkdir(parents=True)
    (top / "deep" / "er" / "empty").write_bytes(b"")
    (top / "script").write_bytes(b"#!/bin/sh\necho hi\n")
    (top / "script").chmod(0o751)
    (top / "binary").write_bytes(bytes(range(256)) * 100)
    (top / "new\nline \x1b[31mred\x1b[0m").write_bytes(b"odd")
    os.symlink("../somewhere/else", top / "link")
    (top / "closed").mkdir(mode=0o500)
    (top / "none").mkdir()
    return top


@pytest.fixture(scope="module")
def where(sandbox):
    """A fresh path in the sandbox."""
    return lambda: f"/tmp/{uuid.uuid4().hex}"


def test_a_large_file_goes_both_ways(sandbox, where, tmp_path):
    path, data = where(), os.urandom(BIG_BYTES)
    (tmp_path / "big").write_bytes(data)
    copied(tmp_path / "big", f"{sandbox.sandbox_id}:{path}")
    inside = sandbox.commands.run(f"sha256sum {path}").stdout.split()[0]
    assert inside == hashlib.sha256(data).hexdigest()
    copied(f"{sandbox.sandbox_id}:{path}", tmp_path / "back")
    assert hashlib.sha256((tmp_path / "back").read_bytes()).hexdigest() == inside
    sandbox.files.remove(path)


def test_modes_are_kept(sandbox, where, tmp_path):
    path = where()
    (tmp_path / "f").write_bytes(b"x")
    for mode in (0o600, 0o644, 0o755, 0o400):
        (tmp_path / "f").chmod(mode)
        copied(tmp_path / "f", f"{sandbox.sandbox_id}:{path}")
        assert sandbox.commands.run(f"stat -c %a {path}").stdout.strip() == f"{mode:o}"
        copied(f"{sandbox.sandbox_id}:{path}", tmp_path / "back")
        assert (tmp_path / "back").stat().st_mode & 0o777 == mode


def test_trees_go_both_ways_and_between_sandboxes(sandbox, new_sandbox, where, sample, tmp_path):
    path, want = where(), tree(sample)
    copied(sample, f"{sandbox.sandbox_id}:{path}")
    assert sandbox.commands.run(f"stat -c %U {path}/script").stdout == "user\n"
    copied(f"{sandbox.sandbox_id}:{path}", tmp_path / "back")
    assert tree(tmp_path / "back") == want
    other = new_sandbox()
    copied(f"{sandbox.sandbox_id}:{path}", f"{other.sandbox_id}:/tmp/taken")
    copied(f"{other.sandbox_id}:/tmp/taken", tmp_path / "twice")
    assert tree(tmp_path / "twice") == want
    copied(f"{sandbox.sandbox_id}:{path}/binary", f"{other.sandbox_id}:/tmp/one")
    assert other.files.read("/tmp/one", format="bytes") == want["binary"][2]


def test_a_template_without_tar(new_sandbox, sample, tmp_path):
    sandbox = new_sandbox()
    sandbox.commands.run("rm -f /bin/tar /usr/bin/tar /usr/local/bin/tar", user="root")
    want = {name: row[:1] if row[0] == "dir" else row for name, row in tree(sample).items() if row[0] != "link"}
    ended = cp(sample, f"{sandbox.sandbox_id}:/tmp/one")
    assert ended.returncode == 0 and b"1 entry was left out" in ended.stderr
    copied(sample, f"{sandbox.sandbox_id}:/tmp/one/.")
    sandbox.commands.run("ln -s script /tmp/one/again")
    copied(f"{sandbox.sandbox_id}:/tmp/one", tmp_path / "back")
    got = {name: row[:1] if row[0] == "dir" else row for name, row in tree(tmp_path / "back").items()}
    assert got.pop("again") == ("link", "/tmp/one/script")  # as the agent tells it: where it leads
    assert {name: row for name, row in got.items() if not name.startswith("sample")} == want


def test_targets_are_chosen_as_cp_does(sandbox, where, sample, tmp_path):
    """Into a directory that is there, under the source's name; DIR/. is its content; else to that very name."""
    path = where()
    sandbox.files.make_dir(path)
    at = f"{sandbox.sandbox_id}:{path}"
    copied(sample / "script", at)
    copied(sample / "script", f"{at}/")
    copied(sample, at)
    copied(f"{sample}/.", at)
    assert sandbox.commands.run(f"cd {path} && ls -d script sample/script binary && cat script").exit_code == 0
    (tmp_path / "dir").mkdir()
    copied(f"{at}/script", tmp_path / "dir")
    copied(f"{at}/sample", tmp_path / "dir")
    copied(f"{at}/sample/.", tmp_path / "dir")
    assert {"script", "sample", "binary"} <= set(os.listdir(tmp_path / "dir"))
    for source, target in ((f"{at}/script", tmp_path / "no" / "such"), (f"{at}/script", f"{tmp_path}/none/"),
                           (sample, f"{at}/script"), (f"{at}/sample", sample / "script")):
        assert cp(source, target).returncode == 1, (source, target)
    assert cp(f"{at}/nothing", tmp_path / "x").returncode == 3
    assert cp(tmp_path / "nothing", at).returncode == 3
    assert cp(sample, tmp_path / "local").returncode == 2  # cp has that job already


def test_paths_are_the_users(sandbox, tmp_path):
    (tmp_path / "f").write_text("mine")
    copied(tmp_path / "f", f"{sandbox.sandbox_id}:relative")
    assert sandbox.files.read("/home/user/relative") == "mine"
    assert copied(f"{sandbox.sandbox_id}:~/relative", "-") == b"mine"
    copied(tmp_path / "f", f"{sandbox.sandbox_id}:/root/f", "-u", "root")
    assert cp(f"{sandbox.sandbox_id}:/root", tmp_path / "root").returncode == 1  # tar as the user may not enter
    assert sandbox.commands.run("stat -c %U /root/f", user="root").stdout == "root\n"


def test_pipes(sandbox, where):
    path, data = where(), os.urandom(3_000_000)
    copied("-", f"{sandbox.sandbox_id}:{path}", input=data)
    assert copied(f"{sandbox.sandbox_id}:{path}", "-") == data
    assert cp("-", f"{sandbox.sandbox_id}:/tmp", input=b"x").returncode == 1
    sandbox.commands.run(f"rm {path} && mkdir {path} && echo a >{path}/b")
    with tarfile.open(fileobj=io.BytesIO(copied(f"{sandbox.sandbox_id}:{path}", "-"))) as archive:
        assert archive.extractfile("./b").read() == b"a\n"


def test_volumes(sandbox, where, sample, tmp_path):
    name, path = f"cp-{uuid.uuid4().hex[:8]}", where()
    subprocess.run([PROGRAM, "volume", "create", name], check=True, timeout=WAIT_S)
    try:
        copied(sample, f"vol:{name}/s")
        copied(f"vol:{name}/s", tmp_path / "back")
        want = {key: row for key, row in tree(sample).items() if row[0] != "link"}  # the content API makes no links
        assert tree(tmp_path / "back") == want
        copied(f"vol:{name}/s", f"{sandbox.sandbox_id}:{path}")
        assert sandbox.commands.run(f"stat -c %a {path}/script").stdout == "751\n"
        copied(f"{sandbox.sandbox_id}:{path}/deep", f"vol:{name}/again")
        assert copied(f"vol:{name}/s/binary", "-") == (sample / "binary").read_bytes()
        copied("-", f"vol:{name}/piped", input=b"in")
        assert copied(f"vol:{name}/piped", "-") == b"in"
        listed = subprocess.run([PROGRAM, "volume", "ls", name, "-q"], capture_output=True, check=True, timeout=WAIT_S)
        assert set(listed.stdout.split()) == {b"s", b"again", b"piped"}
        assert cp(f"vol:{name}/nothing", "-").returncode == 3
    finally:
        subprocess.run([PROGRAM, "volume", "rm", name], check=True, timeout=WAIT_S)
    assert cp(f"vol:{name}/s", tmp_path / "gone").returncode == 3


# ---- a hostile sandbox ----


def evil_tar(rows):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, link, data in rows:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


REG, SYM, LNK, DIR, CHR = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE


@pytest.fixture(scope="module")
def hostile(request):
    """A sandbox whose tar sends what a test likes."""
    from e2b import Sandbox

    sandbox = Sandbox.create(timeout=300)
    request.addfinalizer(sandbox.kill)
    for place in ("/usr/local/bin/tar", "/usr/bin/tar"):
        sandbox.files.write(place, "#!/bin/sh\nexec cat /tmp/stream\n", user="root")
        sandbox.commands.run(f"chmod 755 {place}", user="root")
    sandbox.files.make_dir("/tmp/it")
    return sandbox


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("rows", [
    [("../escaped", REG, "", b"bad")],
    [("a/../../escaped", REG, "", b"bad")],
    [("{outside}/escaped", REG, "", b"bad")],
    [("../escaped", DIR, "", b"")],
    [("l", SYM, "{outside}", b""), ("l/escaped", REG, "", b"bad")],
    [("l", SYM, "..", b""), ("l/escaped", REG, "", b"bad")],
    [("l", SYM, ".", b""), ("l/x", REG, "", b"bad")],
    [("d", DIR, "", b""), ("d", SYM, "{outside}", b""), ("d/escaped", REG, "", b"bad")],
    [("h", LNK, "../outside/secret", b"")],
    [("h", LNK, "/etc/passwd", b"")],
    [("l", SYM, "{outside}/secret", b""), ("h", LNK, "l/../../outside/secret", b"")],
], ids=range(11))
def test_nothing_leaves_the_target(hostile, tmp_path, rows, exists):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    target = tmp_path / "target"
    if exists:
        target.mkdir()
    stream = evil_tar([(name.format(outside=outside), kind, link.format(outside=outside), data) for name, kind, link, data in rows])
    hostile.files.write("/tmp/stream", stream)
    ended = cp(f"{hostile.sandbox_id}:/tmp/it", target)
    assert ended.returncode == 1 and ended.stderr.startswith(b"atoll: "), ended.stderr
    assert tree(outside) == {"secret": ("file", 0o644, b"secret")}
    assert {"outside"} <= set(os.listdir(tmp_path)) <= {"outside", "target"}
    assert target.exists() == exists  # a new one appears whole or not at all
    assert not any(".atoll-cp-" in name for name in tree(tmp_path))


def test_links_are_made_and_never_followed(hostile, tmp_path):
    (tmp_path / "outside").write_text("before")
    target = tmp_path / "target"
    target.mkdir()
    os.symlink(tmp_path / "outside", target / "f")
    hostile.files.write("/tmp/stream", evil_tar([("f", REG, "", b"after"), ("l", SYM, str(tmp_path / "outside"), b""),
                                                 ("tty", CHR, "", b"")]))
    ended = cp(f"{hostile.sandbox_id}:/tmp/it/.", target)
    assert ended.returncode == 0 and b"1 entry was left out" in ended.stderr
    assert (tmp_path / "outside").read_text() == "before"
    assert (target / "f").read_text() == "after" and not (target / "f").is_symlink()
    assert (target / "l").is_symlink() and not (target / "tty").exists()


def test_messages_cannot_steer_the_terminal(hostile, tmp_path):
    hostile.files.write("/tmp/stream", evil_tar([("x\x1b]0;title\x07\n/../y", REG, "", b"")]))
    ended = cp(f"{hostile.sandbox_id}:/tmp/it", tmp_path / "t")
    assert ended.returncode == 1 and b"\x1b" not in ended.stderr and ended.stderr.count(b"\n") == 1


@pytest.mark.parametrize("stream", [b"", b"noise" * 1000, None])
def test_a_stream_that_is_no_tree(hostile, tmp_path, stream):
    if stream is None:
        stream = evil_tar([("f", REG, "", b"x" * 5000)])[:3000]
    hostile.files.write("/tmp/stream", stream)
    ended = cp(f"{hostile.sandbox_id}:/tmp/it", tmp_path / "t")
    assert (ended.returncode, os.listdir(tmp_path)) == (1, [])


# ---- ends in the middle ----


def test_a_killed_sandbox_leaves_nothing_here(new_sandbox, tmp_path):
    sandbox = new_sandbox()
    sandbox.commands.run("mkfifo /tmp/slow && mkdir /tmp/d && head -c 1000000 /dev/urandom >/tmp/d/a && mkfifo /tmp/stuck")
    sandbox.files.write("/usr/local/bin/tar", "#!/bin/sh\n/usr/bin/tar \"$@\" | head -c 700000; sleep 1000\n", user="root")
    sandbox.commands.run("chmod 755 /usr/local/bin/tar; mv /usr/bin/tar /usr/bin/tar.real; "
                         "sed -i s,/usr/bin/tar,/usr/bin/tar.real, /usr/local/bin/tar; cp /usr/local/bin/tar /usr/bin/tar", user="root")
    child = subprocess.Popen([PROGRAM, "cp", f"{sandbox.sandbox_id}:/tmp/d", str(tmp_path / "d")], stderr=subprocess.PIPE)
    deadline = time.monotonic() + WAIT_S
    while not any(path.stat().st_size > 0 for path in tmp_path.rglob("*") if path.is_file()):
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.05)
    sandbox.kill()
    assert child.wait(WAIT_S) == 1
    assert os.listdir(tmp_path) == [] and b"atoll: " in child.stderr.read()


def test_the_side_that_fails_gives_the_reason(hostile, sample):
    """Here tar in the sandbox reads nothing and fails; the tar of this machine then has no reader, and no say."""
    for place in ("/usr/local/bin/tar", "/usr/bin/tar"):
        hostile.files.write(place, "#!/bin/sh\necho the disk is full >&2\nexit 2\n", user="root")
    (sample / "more").write_bytes(os.urandom(5_000_000))
    ended = cp(sample, f"{hostile.sandbox_id}:/tmp/full")
    assert ended.returncode == 1 and ended.stderr.splitlines()[-1].endswith(b"the disk is full"), ended.stderr


def test_json_tells_what_was_copied(sandbox, new_sandbox, where, sample, tmp_path):
    """The same figures by every way that a tree takes, with tar on either side or none."""
    there, other = f"{sandbox.sandbox_id}:{where()}", f"{new_sandbox().sandbox_id}:{where()}"
    files = [path for path in sample.rglob("*") if path.is_file() and not path.is_symlink()]
    wanted = {"files": len(files), "bytes": sum(path.stat().st_size for path in files), "skipped": 0}
    assert json.loads(copied(sample, there, "--json")) == wanted
    assert json.loads(copied(there, other, "--json")) == wanted
    assert json.loads(copied(other, tmp_path / "back", "--json")) == wanted
    assert tree(tmp_path / "back") == tree(sample)
    assert json.loads(copied(sample / "binary", f"{there}.file", "--json")) == {"files": 1, "bytes": 25600, "skipped": 0}
    assert json.loads(copied(f"{there}.file", tmp_path / "file", "--json")) == {"files": 1, "bytes": 25600, "skipped": 0}
    assert json.loads(copied("-", f"{there}.pipe", "--json", input=b"12345")) == {"files": 1, "bytes": 5, "skipped": 0}
    name = f"cli-{uuid.uuid4().hex[:8]}"
    subprocess.run([PROGRAM, "volume", "create", name], check=True, timeout=WAIT_S, stdout=subprocess.DEVNULL)
    try:
        told = json.loads(copied(sample, f"vol:{name}/tree", "--json"))
        assert told == wanted | {"skipped": 1}  # a volume has no links
    finally:
        subprocess.run([PROGRAM, "volume", "rm", name], check=True, timeout=WAIT_S, stdout=subprocess.DEVNULL)
    refused = cp(f"{there}.file", "-", "--json")
    assert refused.returncode == 1 and refused.stdout == b"" and b"leave --json out" in refused.stderr
    assert cp(f"{there}/nothing", tmp_path / "x", "--json").stdout == b""


def test_an_interrupted_copy_leaves_nothing(sandbox, tmp_path):
    sandbox.commands.run("rm -f /tmp/endless; mkfifo /tmp/endless; rm -rf /tmp/e; mkdir /tmp/e; yes | head -c 50000000 >/tmp/e/f")
    child = subprocess.Popen([PROGRAM, "cp", "-", f"{sandbox.sandbox_id}:/tmp/never"], stdin=subprocess.PIPE)
    child.stdin.write(b"x" * 100_000)
    child.stdin.flush()
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    try:
        child.stdin.close()
    except BrokenPipeError:
        pass
    assert child.wait(WAIT_S) == 130
    assert sandbox.commands.run("ls -A /tmp/never; ls -A /tmp | grep atoll || true; true").stdout == ""


def test_progress_is_for_terminals(sandbox, tmp_path):
    """At a terminal a long copy shows how far it is; at a pipe nothing is said."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    parent, child_end = pty.openpty()
    child = subprocess.Popen([PROGRAM, "cp", "-", f"{sandbox.sandbox_id}:/tmp/slow"], stdin=subprocess.PIPE, stderr=child_end)
    os.close(child_end)
    child.stdin.write(b"x" * 2_000_000)
    child.stdin.flush()
    seen = b""
    while b"MB" not in seen:
        seen += os.read(parent, 4096)
    child.stdin.close()
    assert child.wait(WAIT_S) == 0
    os.close(parent)
    assert cp("-", f"{sandbox.sandbox_id}:/tmp/slow", input=b"x").stderr == b""
