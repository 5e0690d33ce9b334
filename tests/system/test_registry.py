"""Images from registries of every kind, resolved as the daemon does, with directories for jails."""

import gzip
import json
import os
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from daemon import PROGRAM
from oci import Image, Impostor, Registry, digest, entry, layer, tar

PULL = Path(PROGRAM).parent / "tests" / "system" / "image-pull"
AGENT = Path(PROGRAM).parent / "src" / "inside" / "agent" / "atoll-agent"
LIMIT_S = 120

TWO_LAYERS = Image(
    layer(
        entry("etc", type=tarfile.DIRTYPE, mode=0o755),
        entry("etc/one", b"1"),
        entry("etc/gone", b"x"),
        entry("old/.hidden", b"x"),
        entry("old/plain", b"x"),
        entry("bin/tool", b"#!", mode=0o4755, uid=7, gid=8),
        entry("bin/same", type=tarfile.LNKTYPE, linkname="bin/tool"),
        entry("lib", type=tarfile.SYMTYPE, linkname="/usr/lib"),
        entry("dev/null", type=tarfile.CHRTYPE),
        entry("run/x", b"x"),
    ),
    layer(
        entry("etc/.wh.gone"),
        entry("old/.fresh", b"2"),
        entry("old/.wh..wh..opq"),
        entry("lib/inside", b"by the link"),
        entry("bin", type=tarfile.DIRTYPE, mode=0o711),
    ),
    config={"Env": ["A=b"], "User": "u", "WorkingDir": "/w", "Cmd": ["sh"], "Entrypoint": ["e"]},
)


class Puller:
    """A store of blobs and of saved disks, and what pulling into it said."""

    def __init__(self, path):
        self.state, self.saved = path / "state", path / "saved"
        self.state.mkdir()
        self.saved.mkdir()
        self.lines = []

    def pull(self, name, **settings):
        command = [PULL, AGENT, self.state, self.saved, name, "plain=1"]
        command += [f"{key}={value}" for key, value in settings.items()]
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        *self.lines, last = run.stdout.splitlines()
        result = json.loads(last)
        assert (run.returncode == 0) == ("saved" in result), run
        assert not list(self.saved.glob(".jail-*")), "a jail was left"
        return result

    def refused(self, name, **settings):
        return self.pull(name, **settings)["error"]

    def root(self, result):
        return self.saved / result["saved"]


@pytest.fixture
def puller(tmp_path):
    return Puller(tmp_path)


@pytest.fixture
def impostor():
    made = []

    def make(image=TWO_LAYERS, answer=lambda request: None):
        made.append(Impostor(image, answer))
        return made[-1]

    yield make
    for one in made:
        one.close()


def check_two_layers(root):
    assert (root / "etc/one").read_text() == "1"
    assert not (root / "etc/gone").exists()
    assert sorted(os.listdir(root / "old")) == [".fresh"]
    assert (root / "bin/tool").stat().st_mode & 0o7777 == 0o4755
    assert ((root / "bin/tool").stat().st_uid, (root / "bin/tool").stat().st_gid) == (7, 8)
    assert (root / "bin/same").stat().st_ino == (root / "bin/tool").stat().st_ino
    assert (root / "bin").stat().st_mode & 0o7777 == 0o711
    assert os.readlink(root / "lib") == "/usr/lib"
    assert (root / "usr/lib/inside").read_text() == "by the link"
    assert not (root / "dev").exists() and not (root / "run").exists()


# ---- good registries ----


def test_an_image_of_debian_s_registry_and_its_cache(puller, tmp_path):
    registry = Registry(tmp_path / "registry")
    try:
        name = registry.push(TWO_LAYERS, "some/image:v1")
        first = puller.pull(name)
        check_two_layers(puller.root(first))
        assert first["env"] == {"A": "b"}
        assert (first["user"], first["workdir"]) == ("u", "/w")
        assert (first["entrypoint"], first["cmd"]) == (["e"], ["sh"])
        assert puller.pull(name) == first
        assert any("2 of 2 layers" in line for line in puller.lines)
    finally:
        registry.stop()


def test_a_password_is_needed_where_the_registry_wants_one(puller, tmp_path):
    registry = Registry(tmp_path / "registry", "me", "secret")
    try:
        name = registry.push(TWO_LAYERS, "some/image:v1")
        assert "to those without credentials (401)" in puller.refused(name)
        assert "to these credentials (401)" in puller.refused(name, user="me", password="wrong")
        check_two_layers(puller.root(puller.pull(name, user="me", password="secret")))
    finally:
        registry.stop()


def test_a_token_is_fetched_where_the_registry_wants_one(puller, impostor):
    def answer(request):
        if request.path.startswith("/token"):
            assert "service=s+1" in request.path or "service=s%201" in request.path
            good = request.headers["Authorization"] == "Basic bWU6c2VjcmV0"  # me:secret
            return (200, {}, b'{"token": "t0k"}') if good else (401, {}, b"")
        if request.headers["Authorization"] != "Bearer t0k":
            realm = f'Bearer realm="http://{registry.host}/token",service="s 1",scope="repository:a:pull"'
            return 401, {"WWW-Authenticate": realm}, b"{}"
        return None

    registry = impostor(answer=answer)
    check_two_layers(puller.root(puller.pull(f"{registry.host}/a", user="me", password="secret")))
    assert "does not give a" in puller.refused(f"{registry.host}/a", user="me", password="no")


def test_images_share_the_layers_they_begin_with(puller, impostor):
    longer = Image(*TWO_LAYERS.layers, layer(entry("third", b"3")))
    registry = impostor(longer)
    puller.pull(f"{impostor().host}/a")
    assert (puller.root(puller.pull(f"{registry.host}/b")) / "third").read_text() == "3"
    assert any("2 of 3 layers" in line for line in puller.lines)
    assert not any(digest(one) in path for path in registry.asked for one in TWO_LAYERS.layers)


def test_a_mirror_is_asked_instead(puller, impostor):
    registry = impostor()
    check_two_layers(puller.root(puller.pull("some/name", mirror=registry.host)))
    check_two_layers(puller.root(puller.pull("ghcr.io/a/b", mirror=f"ghcr.io={registry.host}")))


def test_zstd_and_plain_layers(puller, impostor):
    plain = tar(entry("plain", b"p"))
    packed = subprocess.run(["zstd", "-c"], input=tar(entry("packed", b"z")), capture_output=True).stdout
    image = Image(plain, packed, diff_ids=[digest(plain), digest(tar(entry("packed", b"z")))])
    root = puller.root(puller.pull(f"{impostor(image).host}/a"))
    assert (root / "plain").read_text() + (root / "packed").read_text() == "pz"


def test_a_digest_names_one_image(puller, impostor):
    host = impostor().host
    check_two_layers(puller.root(puller.pull(f"{host}/a@{digest(TWO_LAYERS.manifest)}")))
    said = puller.refused(f"{host}/a@{digest(b'something else')}")
    assert "something else than it promised" in said


# ---- this machine's disk ----


def test_a_layout_directory_and_an_archive(puller, tmp_path):
    TWO_LAYERS.write_layout(tmp_path / "images" / "layout", "v1")
    archive = tmp_path / "images" / "saved.tar"
    source = f"oci:{tmp_path}/images/layout:v1"
    subprocess.run(["skopeo", "copy", "-q", source, f"docker-archive:{archive}:a/b:c"], check=True)
    for name in ["oci:layout", "oci:layout:v1", source, "docker-archive:saved.tar"]:
        check_two_layers(puller.root(puller.pull(name, local=tmp_path / "images")))
    assert "no image named 'v2'" in puller.refused("oci:layout:v2", local=tmp_path / "images")
    assert "image_dir" in puller.refused(source)


@pytest.mark.attack
def test_nothing_outside_the_directory_is_read(puller, tmp_path):
    """An image named by a path outside the operator's directory, by .. or by a link, is not read."""
    (tmp_path / "images").mkdir()
    TWO_LAYERS.write_layout(tmp_path / "secret", "v1")
    (tmp_path / "images" / "link").symlink_to(tmp_path / "secret")
    for path in ["../secret", f"{tmp_path}/secret", "link", "/etc"]:
        said = puller.refused(f"oci:{path}:v1", local=tmp_path / "images")
        assert "does not lie below" in said, said


# ---- faults ----


def test_a_download_goes_on_where_it_was_cut(puller, impostor):
    big = Image(layer(entry("big", os.urandom(5_000_000))))
    cuts = []

    def answer(request):
        if f"/blobs/{digest(big.layers[0])}" not in request.path:
            return None
        begin = int((request.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        cuts.append(begin)
        body = big.layers[0][begin:]
        headers = {"Content-Length": str(len(body))}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(big.layers[0]) - 1}/{len(big.layers[0])}"
        return 206 if begin else 200, headers, body[:2_000_000]

    result = puller.pull(f"{impostor(big, answer).host}/a")
    assert (puller.root(result) / "big").stat().st_size == 5_000_000
    assert cuts == [0, 2_000_000, 4_000_000]


def test_a_registry_without_ranges_sends_all_again(puller, impostor):
    big = Image(layer(entry("big", os.urandom(3_000_000))))
    tries = []

    def answer(request):
        if f"/blobs/{digest(big.layers[0])}" not in request.path:
            return None
        tries.append(request.headers["Range"])
        body = big.layers[0]
        headers = {"Content-Length": str(len(body))}
        return 200, headers, body[:2_000_000] if len(tries) == 1 else body

    result = puller.pull(f"{impostor(big, answer).host}/a")
    assert (puller.root(result) / "big").stat().st_size == 3_000_000
    assert tries == [None, "bytes=2000000-"]


def test_a_cancelled_download_is_resumed_by_the_next(puller, impostor):
    big = Image(layer(entry("big", os.urandom(3_000_000))))
    seen = []

    def answer(request):
        if f"/blobs/{digest(big.layers[0])}" not in request.path:
            return None
        seen.append(request.headers["Range"])
        body = big.layers[0]
        if len(seen) == 1:  # promised, and never sent
            request.send_response(200)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body[:1_500_000])
            request.wfile.flush()
            time.sleep(5)
            request.close_connection = True
        begin = int((seen[-1] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        return 206, {}, body[begin:]

    host = impostor(big, answer).host
    assert puller.refused(f"{host}/a", cancel=1500) == "cancelled"
    result = puller.pull(f"{host}/a")
    assert (puller.root(result) / "big").stat().st_size == 3_000_000
    assert seen[1] and seen[1] != "bytes=0-"


def test_a_registry_that_stumbles_is_asked_again(puller, impostor):
    stumbles = [503, 500]

    def answer(request):
        return (stumbles.pop(), {}, b"<html>") if stumbles else None

    check_two_layers(puller.root(puller.pull(f"{impostor(answer=answer).host}/a")))


def test_a_registry_that_is_down_is_named(puller):
    said = puller.refused("127.0.0.1:1/a/b")
    assert said.startswith("the registry 127.0.0.1:1 cannot be reached")


@pytest.mark.attack
@pytest.mark.parametrize(
    "where, reply, sentence",
    [
        ("/manifests/", (200, {}, b"<html>hello</html>"), "it is not JSON"),
        ("/manifests/", (404, {}, b"{}"), "there is no manifests/latest of a in the registry"),
        ("/manifests/", (403, {}, b"{}"), "to those without credentials (403)"),
        ("/manifests/", (200, {}, b"x" * 5_000_000), "larger than 4194304 bytes"),
        ("/manifests/", (200, {}, b'{"schemaVersion": 1}'), "no manifest of version 2"),
        ("/manifests/", (302, {"Location": "file:///etc/passwd"}, b""), "cannot be reached"),
        ("/manifests/", (401, {"WWW-Authenticate": "Kerberos"}, b""), "authentication that is not known"),
        ("/blobs/", (200, {}, b"<html>hello</html>"), "something else than it promised"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_sentence(puller, impostor, where, reply, sentence):
    """A registry that answers nonsense ends the build with a sentence."""
    registry = impostor(answer=lambda request: reply if where in request.path else None)
    assert sentence in puller.refused(f"{registry.host}/a")


@pytest.mark.attack
def test_a_layer_that_is_not_what_was_promised(puller, impostor):
    """A layer whose bytes are not those of its digest is refused."""
    wanted = digest(TWO_LAYERS.layers[1])
    size = len(TWO_LAYERS.layers[1])
    for body, sentence in [(b"x" * size, "something else"), (b"x" * (size + 1), "more than")]:
        registry = impostor(answer=lambda request: (200, {}, body) if wanted in request.path else None)
        said = puller.refused(f"{registry.host}/a")
        assert said.startswith("layer 2 of 2") and sentence in said, said
    check_two_layers(puller.root(puller.pull(f"{impostor().host}/a")))


@pytest.mark.attack("CVE-2024-24557")
def test_an_image_cannot_lie_about_its_layers(puller, impostor):
    """An image that claims another image's layers cannot put its own in their place in the cache.

    A configuration that names another image's layers does not put files under that one's name."""
    liar = Image(layer(entry("etc/one", b"evil")), diff_ids=[digest(gzip.decompress(TWO_LAYERS.layers[0]))])
    puller.pull(f"{impostor(liar).host}/a")
    check_two_layers(puller.root(puller.pull(f"{impostor().host}/b")))


HOSTILE = {
    "a name that leads out": (entry("../../etc/evil", b"x"), "leads out of its directory"),
    "an absolute name": (entry("/etc/evil", b"x"), "an absolute name"),
    "a device": (entry("sda", type=tarfile.BLKTYPE), "a device"),
    "a hard link out": (entry("x", type=tarfile.LNKTYPE, linkname="../../etc/passwd"), "leads out"),
    "a hard link to /proc": (entry("x", type=tarfile.LNKTYPE, linkname="proc/1/root"), "not the image's"),
    "an owner that no jail has": (entry("x", uid=70000), "an owner above 65535"),
    "a removal of nothing": (entry("a/.wh..."), "a removal that names nothing"),
    "a name of many directories": (entry("d/" * 300 + "x"), "too many directories"),
    "a line forged": (entry("../x\ndone 1 1"), "leads out of its directory: ../x?done 1 1"),
}


@pytest.mark.attack
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_layer_is_refused_with_a_reason(puller, impostor, case):
    """Layers of a hostile registry with names, links and devices that lead out are refused with a sentence."""
    bad, sentence = HOSTILE[case]
    said = puller.refused(f"{impostor(Image(layer(entry('good', b'x'), bad))).host}/a")
    assert said.startswith("layer 1 of 1") and sentence in said, said
    assert os.listdir(puller.saved) == []


@pytest.mark.attack
def test_a_link_leads_nowhere_but_into_the_image(puller, impostor, tmp_path):
    """A link in a layer of a registry to a directory of the host leads into the image alone."""
    outside = tmp_path / "outside"
    outside.mkdir()
    image = Image(
        layer(
            entry("abs", type=tarfile.SYMTYPE, linkname=str(outside)),
            entry("up", type=tarfile.SYMTYPE, linkname="../" * 20 + str(outside).lstrip("/")),
            entry("abs/a", b"x"),
            entry("up/b", b"x"),
        )
    )
    root = puller.root(puller.pull(f"{impostor(image).host}/a"))
    assert os.listdir(outside) == []
    assert sorted(os.listdir(root / str(outside).lstrip("/"))) == ["a", "b"]


@pytest.mark.attack
def test_a_bomb_is_refused(puller, impostor):
    """A layer of a registry that unpacks to far more than it is, is refused."""
    class Zeros:
        def __init__(self, left):
            self.left = left

        def read(self, n=-1):
            n = min(n, self.left)
            self.left -= n
            return bytes(n)

    size = 800 << 20
    packed = subprocess.Popen(["zstd", "-q", "-19", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=packed.stdin, mode="w|") as archive:
        info = tarfile.TarInfo("zeros")
        info.size = size
        archive.addfile(info, Zeros(size))
    packed.stdin.close()
    bomb = packed.stdout.read()
    packed.wait()
    said = puller.refused(f"{impostor(Image(bomb, diff_ids=[digest(bomb)])).host}/a")
    assert "more than 200 times its own size: it is a compression bomb" in said


@pytest.mark.attack
def test_a_size_that_is_a_lie_is_refused(puller, impostor):
    """A layer whose size is not what its manifest says is refused."""
    huge = bytearray(tar(entry("huge", b"x"), format=tarfile.GNU_FORMAT)[:512])
    huge[124:136] = b"\x80" + (1 << 50).to_bytes(11, "big")
    huge[148:156] = b" " * 8
    huge[148:156] = b"%06o\0 " % sum(huge)
    said = puller.refused(f"{impostor(Image(gzip.compress(bytes(huge)))).host}/a")
    assert "more than the limit" in said


def test_a_layer_that_is_no_archive_is_refused(puller, impostor):
    for data in [b"<html>" * 1000, gzip.compress(b"hello" * 1000), tar(entry("x", b"y" * 5000))[:3000]]:
        said = puller.refused(f"{impostor(Image(data, diff_ids=[digest(data)])).host}/a")
        assert "the archive is damaged or not a tar" in said
