"""A company's authority that the host trusts: pip, npm, apt, git, curl, node and Python inside reach
mirrors that it vouches for, through the company's proxy, without a setting in the sandbox."""

import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zipfile

import pytest
from daemon import Daemon
from e2b import Sandbox
from proxies import Connect
from world import Authority, Names, Web

ADDRESS = "93.184.216.40"


def wheel(path):
    name = path / "hello_mirror-1.0-py3-none-any.whl"
    with zipfile.ZipFile(name, "w") as out:
        out.writestr("hello_mirror.py", "word = 'from the mirror'\n")
        out.writestr("hello_mirror-1.0.dist-info/METADATA",
                     "Metadata-Version: 2.1\nName: hello-mirror\nVersion: 1.0\n")
        out.writestr("hello_mirror-1.0.dist-info/WHEEL",
                     "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr("hello_mirror-1.0.dist-info/RECORD",
                     "hello_mirror.py,,\nhello_mirror-1.0.dist-info/METADATA,,\n"
                     "hello_mirror-1.0.dist-info/WHEEL,,\nhello_mirror-1.0.dist-info/RECORD,,\n")
    (path / "simple" / "hello-mirror").mkdir(parents=True)
    (path / "simple" / "hello-mirror" / "index.html").write_text(
        f"<a href='/repo/{name.name}'>{name.name}</a>")


def package(path):
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as out:
        for file, text in {"package.json": '{"name":"hello-mirror","version":"1.0.0"}',
                           "index.js": "module.exports = 'from the mirror'"}.items():
            info = tarfile.TarInfo(f"package/{file}")
            info.size = len(text)
            out.addfile(info, io.BytesIO(text.encode()))
    data = body.getvalue()
    (path / "hello-mirror-1.0.0.tgz").write_bytes(data)
    version = {"name": "hello-mirror", "version": "1.0.0",
               "dist": {"tarball": "https://mirror.test/repo/hello-mirror-1.0.0.tgz",
                        "shasum": hashlib.sha1(data).hexdigest()}}
    (path / "hello-mirror").write_text(json.dumps(
        {"name": "hello-mirror", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))


def archive(path):
    (path / "dists" / "stable" / "main" / "binary-all").mkdir(parents=True)
    release = path / "dists" / "stable"
    (release / "main" / "binary-all" / "Packages").write_text("")
    empty = hashlib.sha256(b"").hexdigest()
    (release / "Release").write_text(
        "Suite: stable\nCodename: stable\nComponents: main\nArchitectures: all\n"
        f"SHA256:\n {empty} 0 main/binary-all/Packages\n")


def repository(path):
    git = ["git", "-C", str(path / "src")]
    (path / "src").mkdir()
    subprocess.run([*git, "init", "-q"], check=True)
    (path / "src" / "note").write_text("from the mirror")
    subprocess.run([*git, "add", "note"], check=True)
    subprocess.run([*git, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(path / "src"), str(path / "note.git")], check=True)
    subprocess.run(["git", "-C", str(path / "note.git"), "update-server-info"], check=True)


@pytest.fixture(scope="module")
def sandbox():
    path = pathlib.Path(tempfile.mkdtemp(prefix="atoll-trust-"))
    path.chmod(0o755)
    for make in (wheel, package, archive, repository):
        make(path)
    company = Authority(str(path), "company")
    cert, key = company.leaf("mirror.test")
    pem = path / "mirror.pem"
    pem.write_text(open(cert).read() + open(key).read())
    os.chmod(company.cert, 0o644)
    mirror = Web("mirror", str(pem))
    mirror.files = path
    proxy = Connect({"mirror.test": ("127.0.0.1", mirror.server_port)})
    names = Names({"mirror.test": [ADDRESS]})
    daemon = Daemon("--egress-ca", company.cert, "--egress-dns", f"127.0.0.1:{names.port}",
                    "--https-proxy", f"http://127.0.0.1:{proxy.port}")
    try:
        daemon.start()
        made = Sandbox.create(timeout=600, **daemon.sdk)
        yield made
        made.kill()
        assert ("mirror.test", 443) in proxy.asked
    finally:
        daemon.remove()
        shutil.rmtree(path)


PROGRAMS = {
    "curl": ("curl -sS https://mirror.test/", "mirror"),
    "wget": ("wget -qO- https://mirror.test/", "mirror"),
    "python": ("python3 -c 'import urllib.request as u;"
               "print(u.urlopen(\"https://mirror.test/\").read().decode())'", "mirror"),
    "node": ("node -e 'fetch(\"https://mirror.test/\").then(r=>r.text()).then(console.log)'", "mirror"),
    "node of root": ("sudo node -e 'fetch(\"https://mirror.test/\").then(r=>r.text()).then(console.log)'", "mirror"),
    "npm of root": ("mkdir -p /tmp/r && cd /tmp/r && sudo npm --silent --registry https://mirror.test/repo/ "
                    "install hello-mirror && node -e 'console.log(require(\"hello-mirror\"))'", "from the mirror"),
    "git": ("git clone -q https://mirror.test/repo/note.git /tmp/n && cat /tmp/n/note", "from the mirror"),
    "pip": ("python3 -m venv /tmp/v && /tmp/v/bin/pip install -q --index-url "
            "https://mirror.test/repo/simple hello-mirror && "
            "/tmp/v/bin/python -c 'import hello_mirror; print(hello_mirror.word)'", "from the mirror"),
    "npm": ("mkdir -p /tmp/p && cd /tmp/p && npm --silent --registry https://mirror.test/repo/ "
            "install hello-mirror && node -e 'console.log(require(\"hello-mirror\"))'",
            "from the mirror"),
    "apt": ("echo 'deb [trusted=yes] https://mirror.test/repo stable main' > /tmp/l && sudo apt-get "
            "-o Dir::Etc::sourcelist=/tmp/l -o Dir::Etc::sourceparts=- update 2>&1; echo done $?",
            "done 0"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_mirror_that_the_host_trusts_is_trusted(sandbox, program):
    command, said = PROGRAMS[program]
    assert said in sandbox.commands.run(command, timeout=120).stdout
