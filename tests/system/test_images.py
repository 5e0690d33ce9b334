"""Templates from images: registries with and without a password, restarts, this machine's disk, names
that the operator mapped. The image holds the base template, packed with zstd, and a layer on top."""

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import uuid
from pathlib import Path

import pytest
from daemon import ROOT, running
from e2b import Sandbox, Template
from e2b.exceptions import BuildException
from oci import Image, Registry, digest, entry, layer

TEMPLATES = Path(os.environ.get("ATOLL_TEMPLATES", ROOT / "templates"))
CACHE = Path(os.environ.get("ATOLL_CACHE", "/var/cache/atoll"))
# As Debian's /etc/profile begins: it replaces PATH.
PROFILE = b"""if [ "$(id -u)" -eq 0 ]; then
  PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
else
  PATH="/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
fi
export PATH
"""
TOP = layer(entry("etc/from-image", b"top\n"), entry("etc/.wh.issue"), entry("etc/profile", PROFILE))


def sha256_of(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    found = hashlib.file_digest(process.stdout, "sha256").hexdigest()
    assert process.wait() == 0
    return f"sha256:{found}"


def base_archive():
    name = subprocess.run([TEMPLATES / "base" / "recipe", "name"], check=True, capture_output=True, text=True)
    return CACHE / "templates" / f"{name.stdout.strip()}.tar.zst"


@pytest.fixture(scope="module")
def image(daemon):
    """Made once the daemon has started: by then the base's archive is there."""
    archive = base_archive()
    return Image(
        archive.read_bytes(),
        TOP,
        diff_ids=[sha256_of(["zstd", "-dcq", archive]), digest(b"of the top")],
        config={"Env": ["FROM_IMAGE=yes", "PATH=/usr/bin:/bin:/of/image"], "WorkingDir": "/srv"},
    )


@pytest.fixture(scope="module")
def images():
    """A directory that the serving user may read, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="atoll-images-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def daemon(images):
    # Images without a registry in their name are asked for where nobody is.
    settings = ["--registry-local", "true", "--registry-mirror", "127.0.0.1:1", "--image-dir", str(images)]
    with running(*settings) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def registry(images, image):
    registry = Registry(images / "registry")
    registry.push(image, "test/image:v1")
    yield registry
    registry.stop()


def build(daemon, name, **credentials):
    """Builds a template of an image and one step; returns its name and the log."""
    alias = f"t-{uuid.uuid4().hex[:8]}"
    log = []
    template = Template().from_image(name, **credentials).run_cmd("cat /etc/from-image")
    Template.build(template, alias, on_build_logs=lambda line: log.append(line.message), **only_api(daemon))
    return alias, log


def only_api(daemon):
    return {key: value for key, value in daemon.sdk.items() if key != "sandbox_url"}


def test_a_template_of_an_image_and_again_from_cache(daemon, registry):
    alias, log = build(daemon, f"{registry.host}/test/image:v1")
    assert any("Layer 2 of 2" in line for line in log), log
    with Sandbox.create(alias, **daemon.sdk) as sandbox:
        assert sandbox.files.read("/etc/from-image") == "top\n"
        assert not sandbox.files.exists("/etc/issue")
        assert sandbox.commands.run("echo $FROM_IMAGE").stdout == "yes\n"
        # The image has the files of base: its user has a ~/.local/bin, which ~/.profile puts before.
        assert sandbox.commands.run("echo $PATH").stdout == "/home/user/.local/bin:/usr/bin:/bin:/of/image\n"
        assert sandbox.commands.run("sudo id -u").stdout == "0\n"
    _, log = build(daemon, f"{registry.host}/test/image:v1")
    assert any(line.startswith("CACHED [builder 1/1]") for line in log), log


def test_a_password_is_the_sdk_s(daemon, images, image):
    registry = Registry(images / "closed", "me", "secret")
    name = f"{registry.host}/test/image:v1"
    try:
        registry.push(image, "test/image:v1")
        with pytest.raises(BuildException, match="to those without credentials"):
            build(daemon, name)
        with pytest.raises(BuildException, match="to these credentials"):
            build(daemon, name, username="me", password="wrong")
        build(daemon, name, username="me", password="secret")
    finally:
        registry.stop()


class Interrupter:
    """Stands before a registry, and restarts it after so many bytes, once."""

    def __init__(self, registry, after):
        self.registry, self.left, self.restarted = registry, after, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.connect, args=(client,), daemon=True).start()

    def connect(self, client):
        with client, socket.create_connection(("127.0.0.1", self.registry.port)) as upstream:
            threading.Thread(target=self.copy, args=(client, upstream, False), daemon=True).start()
            self.copy(upstream, client, True)

    def copy(self, source, target, counts):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
                self.left -= len(data) if counts else 0
                if self.left < 0 and not self.restarted:
                    self.restarted = True
                    self.registry.stop()
                    self.registry.start()
                    return
        except OSError:
            pass


def test_a_registry_that_restarts_in_the_middle(daemon, images, image):
    shutil.rmtree(daemon.data / "state" / "blobs")
    (daemon.data / "state" / "blobs").mkdir(mode=0o700)
    shutil.chown(daemon.data / "state" / "blobs", "atoll", "atoll")
    daemon.kill_child("server")  # it had the directory open
    other = Image(*reversed(image.layers), diff_ids=[digest(b"a"), digest(b"b")])
    registry = Registry(images / "restarted")
    try:
        registry.push(other, "test/image:v2")
        between = Interrupter(registry, 20_000_000)
        build(daemon, f"{between.host}/test/image:v2")
        assert between.restarted
        between.listener.close()
    finally:
        registry.stop()


def test_images_of_this_machine_s_disk(daemon, images, image):
    image.write_layout(images / "layout", "v1")
    alias, _ = build(daemon, "oci:layout:v1")
    with Sandbox.create(alias, **daemon.sdk) as sandbox:
        assert sandbox.files.read("/etc/from-image") == "top\n"
    with pytest.raises(BuildException, match="does not lie below"):
        build(daemon, "oci:/etc:v1")


def build_here(daemon, image, command):
    """Builds from a name without a registry, and runs a command in a sandbox: its output, and the build's log."""
    alias = f"t-{uuid.uuid4().hex[:8]}"
    log = []
    Template.build(
        Template().from_image(image), alias, on_build_logs=lambda line: log.append(line.message), **only_api(daemon)
    )
    with Sandbox.create(alias, **daemon.sdk) as sandbox:
        return sandbox.commands.run(command).stdout, [line for line in log if line.startswith("[")]


@pytest.mark.parametrize(
    "image, command, version",
    [
        ("python:3.13-slim", "python3 --version", "Python 3.13."),
        ("python", "python3 --version", "Python 3.13."),
        ("debian:13", "cat /etc/debian_version", "13."),
        ("node:20", "node --version", "v20."),
    ],
)
def test_a_well_known_name_needs_no_registry(daemon, image, command, version):
    said, log = build_here(daemon, image, command)
    assert said.startswith(version)
    assert f"STAND-IN: {image} is not fetched; the template base of this machine stands for it" in log[0], log


def test_the_version_of_node_comes_from_npm(daemon):
    said, log = build_here(daemon, "node:22-slim", "node --version; npm --version; yarn --version")
    assert [line.split(".")[0] for line in said.split()] == ["v22", "10", "1"]
    assert "STAND-IN: node:22-slim" in log[0] and "with Node 22 from npm" in log[0], log


def test_without_a_registry_debian_stands_for_ubuntu_and_the_log_says_so(daemon):
    said, log = build_here(daemon, "ubuntu:22.04", "cat /etc/debian_version")
    assert said.startswith("13.")
    assert "STAND-IN: ubuntu:22.04 cannot be fetched (the registry 127.0.0.1:1 cannot be reached" in log[1], log
    assert "stands for it: Debian 13" in log[1], log


def test_whoever_says_what_stands_for_what_gets_nothing_else(images):
    settings = ["--registry-local", "true", "--registry-mirror", "127.0.0.1:1", "--image-map", "debian:*=base"]
    with running(*settings) as daemon, pytest.raises(BuildException, match="cannot be reached"):
        build_here(daemon, "ubuntu:22.04", "true")


@pytest.mark.parametrize(
    "image, instead",
    [("python:3.12-slim", "use python:3.13-slim"), ("debian:12", "use debian:13")],
)
def test_another_version_is_refused_with_what_there_is(daemon, image, instead):
    with pytest.raises(BuildException, match="cannot be reached") as failed:
        build_here(daemon, image, "true")
    assert "Without a registry this machine has Debian 13 with Python 3.13 and Node 24" in str(failed.value)
    assert instead in str(failed.value)


def test_what_is_wrong_with_an_image_is_the_build_s_reason(daemon, registry):
    for name, sentence in [
        (f"{registry.host}/no/such:v1", "there is no manifests/v1 of no/such"),
        ("Not An Image", "names no image"),
        ("127.0.0.1:1/a/b", "cannot be reached"),
    ]:
        with pytest.raises(BuildException, match=sentence):
            build(daemon, name)
    assert daemon.jails() == {}
