"""A server that was taken over, which is user atoll, against root's own commands: it changes every file
that it can and leaves links and FIFOs where root reads. Each command says a sentence, runs nothing of it,
shows nothing of root's and waits for nobody."""
import contextlib
import os
import pathlib
import pty
import pwd
import shutil
import stat
import subprocess
import tempfile
import time

import pytest

SERVER = pwd.getpwnam("atoll")
PROGRAM = os.environ["ATOLL_BUILD"] + "/atoll"
LIMIT_S = 30
KEY = "e2b_" + "0" * 40
SECRET = "root-alone-may-read-this"


def server(code, *words):
    """Python that runs as the server's user."""
    return subprocess.run(["/usr/bin/python3", "-c", code, *map(str, words)], user=SERVER.pw_uid, group=SERVER.pw_gid,
                          extra_groups=[], cwd="/", capture_output=True, text=True, timeout=LIMIT_S)


def plant(code, path, *words):
    done = server(f"import os, sys; path = sys.argv[1]; {code}", path, *words)
    assert done.returncode == 0, done.stderr


def atoll(data_dir, *words):
    """A command of root's: what it said in all, and whether it failed."""
    done = subprocess.run([PROGRAM, *words, "--data", str(data_dir)], capture_output=True, text=True, timeout=LIMIT_S,
                          env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr, done.returncode != 0


@pytest.fixture
def secret_file():
    """Only root may read it, and it looks like what is read."""
    with tempfile.TemporaryDirectory() as dir:
        os.chmod(dir, 0o755)
        path = pathlib.Path(dir) / "shadow"
        path.write_text(SECRET + "\n")
        path.chmod(0o600)
        yield path


@contextlib.contextmanager
def replaced(path):
    """Whatever the server leaves at a path, the file is back afterwards."""
    kept = path.read_bytes() if path.exists() else None
    try:
        yield path
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif kept is None or path.parent.stat().st_uid == SERVER.pw_uid:
            path.unlink(missing_ok=True)
        if kept is not None:
            path.write_bytes(kept)
            os.chown(path, SERVER.pw_uid, SERVER.pw_gid)
            path.chmod(0o600 if path.name.endswith(".key") else 0o644)


@pytest.fixture
def key_file(data_dir):
    with replaced(data_dir / "state" / "default.key") as path:
        yield path


@pytest.fixture
def endpoint_file(data_dir):
    with replaced(data_dir / "run" / "endpoint") as path:
        yield path


@pytest.fixture
def domain_file(data_dir):
    with replaced(data_dir / "run" / "domain") as path:
        yield path


@pytest.fixture
def ca_file(data_dir):
    with replaced(data_dir / "state" / "ca.pem") as path:
        yield path


# ---- content ----

EVIL = ["$(touch MARK)", "`touch MARK`", ";touch MARK", "\ntouch MARK\n", " & touch MARK #", "' ; touch MARK ; '",
        '" ; touch MARK ; "', "\x00; touch MARK", "|touch MARK", "\r\ntouch MARK", "\\\n; touch MARK"]


def evaluate(data_dir):
    """The documented line, in root's shell."""
    return subprocess.run(["sh", "-c", f'eval "$("{PROGRAM}" env --data "{data_dir}")"; echo "<$E2B_API_KEY>"'],
                          capture_output=True, text=True, timeout=LIMIT_S, env={"PATH": os.environ["PATH"]})


def test_the_documented_line_sets_the_key(data_dir, key_file):
    """The documented eval of `atoll env` sets the key."""
    assert evaluate(data_dir).stdout == f"<{key_file.read_text().strip()}>\n"


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("form", ["{evil}", "{good}{evil}", "{evil}{good}"])
@pytest.mark.parametrize("which", ["key", "endpoint", "domain"])
def test_eval_of_env_runs_nothing_that_the_server_wrote(data_dir, key_file, endpoint_file, domain_file, tmp_path, which,
                                                        form, evil):
    """The server writes shell commands into its endpoint, its domain and its key: root's eval of `atoll env` runs none of them."""
    mark = tmp_path / "mark"
    path = {"key": key_file, "endpoint": endpoint_file, "domain": domain_file}[which]
    text = form.format(good=path.read_text(), evil=evil.replace("MARK", str(mark)))
    plant("open(path, 'w').write(eval(sys.argv[2]))", path, repr(text))
    done = evaluate(data_dir)
    assert not mark.exists()
    assert done.stdout == "<>\n" and "contain" in done.stderr, done


# ---- what is no file ----

READERS = {"env": ["env"], "key": ["key", "list"], "logs": ["logs", "iabc"], "doctor": ["doctor", "iabc"],
           "disk": ["disk"], "template": ["template", "list"], "shell": ["shell", "list"], "tool": ["tool", "list_templates"]}


@pytest.mark.parametrize("reader", READERS)
def test_a_fifo_holds_no_command_up(data_dir, key_file, reader):
    """The server puts a FIFO in the place of its key: no command of root's waits for it."""
    plant("os.unlink(path); os.mkfifo(path, 0o600)", key_file)
    said, failed = atoll(data_dir, *READERS[reader])
    assert failed and "not a regular file" in said


@pytest.mark.parametrize("reader", READERS)
def test_a_link_shows_nothing_of_roots(data_dir, key_file, secret_file, reader):
    """The server puts a link to a file of root's in the place of its key: no command of root's shows it."""
    plant("os.unlink(path); os.symlink(sys.argv[2], path)", key_file, secret_file)
    said, failed = atoll(data_dir, *READERS[reader])
    assert failed and "is a link" in said and SECRET not in said


def test_a_second_name_of_roots_file_shows_nothing(data_dir, key_file, secret_file):
    """A hard link to a file of root's in the place of the key is not read."""
    shutil.move(secret_file, key_file.parent / "other")
    key_file.unlink()
    try:
        os.link(key_file.parent / "other", key_file)
        said, failed = atoll(data_dir, "env")
    finally:
        (key_file.parent / "other").unlink()
    assert failed and "other names" in said and SECRET not in said


def test_a_file_of_somebody_else_is_not_read(data_dir, key_file):
    """A key file that belongs to neither root nor the server is not read."""
    os.chown(key_file, 65534, 65534)
    said, failed = atoll(data_dir, "env")
    assert failed and "belongs to uid 65534" in said and "e2b_" not in said


def test_a_directory_and_a_huge_file_are_refused(data_dir, key_file):
    """The server puts a directory or a huge file in the place of its key: root reads neither."""
    plant("os.truncate(path, 1 << 40)", key_file)
    said, failed = atoll(data_dir, "env")
    assert failed and "larger than" in said
    plant("os.unlink(path); os.mkdir(path)", key_file)
    said, failed = atoll(data_dir, "env")
    assert failed and "not a regular file" in said


# ---- the authority's certificate ----

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def test_a_certificate_is_printed(data_dir, ca_file):
    """`atoll ca` prints the certificate that the server wrote."""
    plant("open(path, 'w').write(sys.argv[2])", ca_file, PEM)
    assert atoll(data_dir, "ca") == (PEM, False)


@pytest.mark.parametrize("text", [PEM + PEM, PEM + "root::0:0::/:/bin/sh\n", "root::0:0::/:/bin/sh\n", PEM + "\x1b[2J",
                                  PEM.replace("CERTIFICATE", "PRIVATE KEY"), "x" * 100_000])
def test_what_is_no_certificate_is_not_printed(data_dir, ca_file, text):
    """The server writes something else than one certificate: `atoll ca` prints none of it."""
    plant("open(path, 'w').write(sys.argv[2])", ca_file, text)
    said, failed = atoll(data_dir, "ca")
    assert failed and "root:" not in said and "\x1b" not in said and "BEGIN" not in said


def test_no_link_and_no_fifo_stands_for_the_certificate(data_dir, ca_file, secret_file):
    """The server puts a link or a FIFO in the place of its certificate: `atoll ca` neither follows nor waits."""
    plant("os.path.lexists(path) and os.unlink(path); os.symlink(sys.argv[2], path)", ca_file, secret_file)
    said, failed = atoll(data_dir, "ca")
    assert failed and "is a link" in said and SECRET not in said
    plant("os.unlink(path); os.mkfifo(path)", ca_file)
    said, failed = atoll(data_dir, "ca")
    assert failed and "not a regular file" in said


# ---- where root writes ----


def roots_places(data_dir):
    return [data_dir, data_dir / "run", data_dir / "run" / "notices", data_dir / "pool", data_dir / "pool" / "layers"]


TRIES = {
    "a file": "open(path + '/planted', 'w')",
    "a link": "os.symlink('/etc/shadow', path + '/planted')",
    "a FIFO": "os.mkfifo(path + '/planted')",
    "a directory": "os.mkdir(path + '/planted')",
    "another's end": "names = os.listdir(path); os.unlink(path + '/' + names[0])",
    "another's name": "names = os.listdir(path); os.rename(path + '/' + names[0], path + '/planted')",
}


@pytest.mark.parametrize("what", TRIES)
def test_the_server_leaves_nothing_in_directories_where_root_writes(data_dir, what):
    """The server makes, renames and removes files in every directory where root writes: all of it is refused.

    So root makes sockets, locks and notices there by their paths."""
    for place in roots_places(data_dir):
        assert place.stat().st_uid == 0 and not place.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), place
        done = server(f"import os, sys; path = sys.argv[1]; {TRIES[what]}", place)
        assert "PermissionError" in done.stderr, (place, done)


def test_the_only_files_of_the_servers_outside_its_directory(data_dir):
    """Outside of state/, the server owns no file but its endpoint and its domain."""
    own = [path for path in (data_dir / "run").rglob("*") if path.lstat().st_uid == SERVER.pw_uid]
    assert sorted(path.name for path in own) == ["domain", "endpoint"]
    assert (data_dir / "state").stat().st_mode & 0o777 == 0o700


def test_prepare_follows_nothing_that_the_server_left(data_dir, tmp_path):
    """Links and a FIFO in the places that `atoll prepare` gives to the server: it gives away nothing that they lead to."""
    victim = tmp_path / "roots"
    victim.mkdir(mode=0o755)
    fresh = pathlib.Path(tempfile.mkdtemp(prefix="atoll-prepare."))
    try:
        fresh.chmod(0o755)
        (fresh / "state").symlink_to(victim)
        said, failed = atoll(fresh, "prepare")
        assert failed and "state" in said
        (fresh / "state").unlink()
        (fresh / "run" / "endpoint").unlink(missing_ok=True)
        os.mkfifo(fresh / "run" / "endpoint")
        said, failed = atoll(fresh, "prepare")
        assert failed and "endpoint" in said
        (fresh / "run" / "endpoint").unlink()
        (tmp_path / "passwd").write_text("")
        (fresh / "run" / "endpoint").symlink_to(tmp_path / "passwd")
        said, failed = atoll(fresh, "prepare")
        assert failed and "endpoint" in said
        assert victim.stat().st_uid == 0 and (tmp_path / "passwd").stat().st_uid == 0
    finally:
        subprocess.run(["umount", str(fresh / "pool")], capture_output=True)
        shutil.rmtree(fresh)


# ---- root's terminal ----


def test_a_commands_output_does_not_drive_roots_terminal(data_dir, endpoint_file):
    """The server writes terminal control sequences: no command of root's passes them on."""
    plant("open(path, 'w').write('http://\\x1b]0;owned\\x07')", endpoint_file)
    said, failed = atoll(data_dir, "key", "list")
    assert failed and "\x1b" not in said and "\x07" not in said


def test_the_server_cannot_read_what_is_typed_into_roots_terminal():
    """A server that was started from root's terminal cannot read what is typed there."""
    master, slave = pty.openpty()
    data = pathlib.Path(tempfile.mkdtemp(prefix="atoll-terminal."))
    data.chmod(0o755)
    daemon = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data", str(data), "--with-templates", "none",
                               "--parked-max", "0", "--pool-size", "4G"],
                              stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    os.set_blocking(master, False)
    try:
        pid = None
        deadline = time.monotonic() + 300
        while pid is None:
            assert time.monotonic() < deadline and daemon.poll() is None
            with contextlib.suppress(BlockingIOError):
                os.read(master, 65536)
            children = subprocess.run(["pgrep", "-P", str(daemon.pid), "-u", "atoll"], capture_output=True, text=True)
            pid = int(children.stdout.split()[0]) if children.stdout.split() else None
            time.sleep(0.2)
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3)]
        modes = [int(line.split()[1], 8) & os.O_ACCMODE for fd in range(3)
                 for line in open(f"/proc/{pid}/fdinfo/{fd}") if line.startswith("flags:")]
        assert links[0] == "/dev/null" and links[1].startswith("/dev/pts/") and links[1] == links[2]
        assert modes == [os.O_RDONLY, os.O_WRONLY, os.O_WRONLY]
        for fd, path in [(e.name, e.path) for e in os.scandir(f"/proc/{pid}/fd")]:
            if fd not in ("1", "2"):
                assert not os.readlink(path).startswith("/dev/pts/"), fd
    finally:
        daemon.terminate()
        daemon.wait(LIMIT_S)
        os.close(master)
        subprocess.run(["umount", str(data / "pool")], capture_output=True)
        shutil.rmtree(data, ignore_errors=True)
