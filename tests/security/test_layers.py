"""Images made to write where they may not: layers with links, devices, names that lead out, removals, attributes
and bombs, taken from OCI layouts. They are unpacked inside a jail; whatever comes of it, the host stays as it was."""
import gzip
import io
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

from builder import Builder, run  # noqa: E402
from daemon import running  # noqa: E402
from e2b import InvalidArgumentException, Sandbox  # noqa: E402
from oci import Image, digest, entry, layer, tar  # noqa: E402

SYM, HARD, DIR, CHR, BLK, FIFO = (
    tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
PLACES = ["dev", "run", "etc", "proc", "sys", "tmp", "usr", "var/run", "home", "root"]


@pytest.fixture(scope="module")
def images():
    """A directory that the serving user may read."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="atoll-images-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def daemon(images):
    with running("--image-dir", str(images), "--parked-max", "0") as daemon:
        yield daemon
        assert daemon.jails() == {}


@pytest.fixture
def builder(daemon):
    return Builder(daemon)


@pytest.fixture
def victim(tmp_path):
    """What the traps point at, and what must be the same afterwards."""
    tmp_path.chmod(0o755)
    (tmp_path / "dir" / "inner").mkdir(parents=True)
    (tmp_path / "dir" / "kept").write_text("kept\n")
    (tmp_path / "file").write_text("untouched\n")
    (tmp_path / "file").chmod(0o640)
    before = picture(tmp_path)
    yield tmp_path
    assert picture(tmp_path) == before


def picture(path):
    found = {}
    for one in sorted(path.rglob("*")):
        st = one.lstat()
        found[str(one)] = (st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_nlink)
    return found


def build(builder, images, *layers, config=None, steps=(), manifest=None, media="tar+gzip", diff_ids=None):
    """A template of an image of these layers; returns its ids and the last status."""
    name = uuid.uuid4().hex
    image = Image(*layers, config=config, media=media, diff_ids=diff_ids)
    if manifest:
        image.manifest = json.dumps({**json.loads(image.manifest), **manifest}).encode()
    image.write_layout(images / name, "v1")
    try:
        ids, status = builder.build(list(steps), name=f"evil-{name[:8]}", base={"fromImage": f"oci:{name}:v1"})
    finally:
        shutil.rmtree(images / name)
    if status["status"] == "error":
        assert status["reason"]["message"], status
    return ids, status


def settle(builder, ids, status):
    """Starts a sandbox of what came of it, if anything did, and removes all."""
    if status["status"] == "ready":
        answer = builder.create(ids[0])
        assert answer.status_code in (201, 400, 422, 503), answer.text
        if answer.status_code == 201:
            builder.call("DELETE", f"/sandboxes/{answer.json()['sandboxID']}")
        else:
            assert answer.json()["message"]
    builder.call("DELETE", f"/templates/{ids[0]}")
    assert builder.call("GET", "/health").status_code == 200


# ---- places that are links ----


@pytest.mark.attack("CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881", "CVE-2026-41579", "CVE-2023-28642")
@pytest.mark.parametrize("place, kind", [(place, "absolute") for place in PLACES] + [
    (place, kind) for place in ("dev", "run", "etc") for kind in ("relative", "loop", "self", "proc")])
def test_an_image_whose_own_places_are_links(builder, images, victim, place, kind):
    """An image whose /dev, /run, /etc, /proc, /sys, /tmp, /usr or /var/run is a link to the host, to itself or in a
    loop, with files that go through it, changes nothing on the host."""
    up = "../" * (place.count("/") + 12)
    target = {"absolute": f"{victim}/dir", "relative": f"{up}{str(victim)[1:]}/dir", "loop": f"/{place}2",
              "self": f"/{place}", "proc": "/proc/1/root/tmp"}[kind]
    entries = [entry("hello", b"x")]
    entries += [entry(part, type=DIR, mode=0o755) for part in [place.rpartition("/")[0]] if part]
    entries += [entry(place, type=SYM, linkname=target), entry(f"{place}2", type=SYM, linkname=f"/{place}"),
                entry(f"{place}/passwd", b"root::0:0::/:/bin/sh\n"), entry(f"{place}/inner/evil", b"x"),
                entry(f"{place}/kept", type=DIR, mode=0o777)]
    settle(builder, *build(builder, images, layer(*entries), layer(entry(f"{place}/later", b"x"), entry(f"{place}/.wh.kept"))))


# ---- names, links, devices ----

NAMES = {
    "up": entry("../../../../../../tmp/evil", b"x"),
    "absolute": entry("/tmp/evil", b"x"),
    "up in the middle": entry("a/../../../../tmp/evil", b"x"),
    "dots": entry("./.././../tmp/evil", b"x"),
    "only dots": entry("..", b"x"),
    "a newline": entry("a\nb", b"x"),
    "bytes that are no text": entry("a\udcff\udcfe", b"x"),
    "a long part": entry("a" * 300, b"x"),
    "a long name": entry("/".join(["abcdefgh"] * 600), b"x"),
    "many directories": entry("a/" * 300 + "x", b"x"),
    "a hard link out": entry("x", type=HARD, linkname="../../../../etc/shadow"),
    "a hard link to an absolute name": entry("x", type=HARD, linkname="/etc/shadow"),
    "a hard link to itself": entry("x", type=HARD, linkname="x"),
    "a hard link to the agent": entry("x", type=HARD, linkname="run/atoll/agent"),
    "a block device": entry("disk", type=BLK, devmajor=7, devminor=0, mode=0o666),
    "a character device": entry("mem", type=CHR, devmajor=1, devminor=1, mode=0o666),
    "an overlay's whiteout": entry("etc", type=CHR, devmajor=0, devminor=0),
    "a device in /dev": entry("dev/evil", type=BLK, devmajor=7, devminor=0),
    "a fifo": entry("etc/passwd", type=FIFO),
    "an owner beyond the jail": entry("x", b"x", uid=70000),
    "an owner beyond all": entry("x", b"x", uid=2**31),
    "a set-uid file": entry("bin/su", b"x", mode=0o6777),
    "a kind that is not known": entry("x", type=b"Z"),
}


@pytest.mark.parametrize("case", NAMES)
def test_an_entry_that_leads_out(builder, images, victim, case):
    """Entries of an image's layer that lead out by their names, are hard links to outside, devices, FIFOs or set-uid
    files are refused or stay in the jail."""
    ids, status = build(builder, images, layer(entry("good", b"x"), NAMES[case]))
    assert not pathlib.Path("/tmp/evil").exists()
    settle(builder, ids, status)


THROUGH = {
    "a file": entry("way/evil", b"x"),
    "a file that is there": entry("way/kept", b"changed"),
    "a directory's mode": entry("way", type=DIR, mode=0o777, uid=1000),
    "a removal": entry("way/.wh.kept"),
    "a removal of all": entry("way/.wh..wh..opq"),
    "a hard link": entry("x", type=HARD, linkname="way/kept"),
    "a deep directory": entry("way/inner/a/b/c", type=DIR, mode=0o755),
}


@pytest.mark.attack("CVE-2021-32760", "CVE-2019-14271", "CVE-2018-15664")
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("case", THROUGH)
def test_an_entry_that_goes_through_a_link(builder, images, victim, case, later):
    """A link of a layer to the host, and an entry that writes, changes, links or removes through it, in the same
    layer or a later one, touch nothing on the host."""
    way = entry("way", type=SYM, linkname=f"{victim}/dir")
    layers = [layer(way), layer(THROUGH[case])] if later else [layer(way, THROUGH[case])]
    settle(builder, *build(builder, images, *layers))


REMOVALS = [".wh.", ".wh..", ".wh...", ".wh..wh.", ".wh..wh..opq", ".wh..wh.plnk/1.2", ".wh..wh.aufs", ".wh.dev", ".wh.proc", ".wh.run",
            ".wh.sys", "dev/.wh.null", "proc/.wh..wh..opq", "run/.wh.atoll", "run/atoll/.wh.agent", ".wh.a/b", "a/.wh...", ".wh.\n", ".wh.." + "." * 200,
            ".wh..wh..wh..opq", "/.wh.etc", "../.wh.tmp"]


@pytest.mark.parametrize("name", REMOVALS)
def test_an_odd_removal(builder, images, victim, name):
    """Removals (.wh.) with odd names, of the jail's own places or of nothing, are refused or remove files of the
    image alone."""
    settle(builder, *build(builder, images, layer(entry("good", b"x"), entry("a/b", b"x")), layer(entry(name))))


ATTRIBUTES = {
    "capabilities": {"SCHILY.xattr.security.capability": struct.pack("<IIIIII", 0x03000001, 2**32 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1, 0).decode("latin-1")},
    "short capabilities": {"SCHILY.xattr.security.capability": "x"},
    "an overlay's redirect": {"SCHILY.xattr.trusted.overlay.redirect": "/../../../../etc"},
    "an overlay's opaqueness": {"SCHILY.xattr.trusted.overlay.opaque": "y"},
    "an overlay's metacopy": {"SCHILY.xattr.trusted.overlay.metacopy": ""},
    "an overlay's origin": {"SCHILY.xattr.trusted.overlay.origin": "\x00\xfb\x21" + "x" * 30},
    "a user's overlay": {"SCHILY.xattr.user.overlay.redirect": "/../etc", "SCHILY.xattr.user.overlay.whiteout": "y"},
    "a label": {"SCHILY.xattr.security.selinux": "system_u:object_r:shadow_t:s0"},
    "a large one": {"SCHILY.xattr.user.large": "x" * 70000},
    "a list of rights": {"SCHILY.xattr.system.posix_acl_access": "\x02\x00\x00\x00" + "x" * 40},
    "a size": {"size": str(2**63 - 1)},
    "a negative size": {"size": "-1"},
    "a path": {"path": "../../../../tmp/evil"},
    "a path with a NUL": {"path": "a\0/../../tmp/evil"},
    "a link's path": {"linkpath": "/etc/shadow"},
    "a far time": {"mtime": "9" * 40},
    "a sparse map": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(2**62), "GNU.sparse.name": "../../tmp/evil"},
    "an old sparse map": {"GNU.sparse.size": str(2**62), "GNU.sparse.numblocks": "1", "GNU.sparse.map": f"{2**61},1"},
}


@pytest.mark.attack("CVE-2023-2640", "CVE-2023-32629")
@pytest.mark.parametrize("case", ATTRIBUTES)
def test_an_entry_with_hostile_attributes(builder, images, victim, case):
    """Extended attributes of an overlay or of capabilities, and PAX fields that name other paths, sizes and sparse
    files, give a layer no way to the host and no file larger than its disk."""
    ids, status = build(builder, images, layer(entry("good", b"x"), entry("etc/x", b"x", pax_headers=ATTRIBUTES[case]),
                                               entry("etc/sub", type=DIR, mode=0o755, pax_headers=ATTRIBUTES[case])))
    assert not pathlib.Path("/tmp/evil").exists()
    settle(builder, ids, status)


# ---- bombs ----


def zeros(gigabytes, packer):
    """One file of so many GB of zeros, packed; made in a pipe."""
    info = tarfile.TarInfo("zeros")
    info.size = gigabytes << 30
    head = info.tobuf(tarfile.GNU_FORMAT)
    process = subprocess.Popen(packer, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def feed():
        process.stdin.write(head)
        block = b"\0" * (1 << 20)
        for _ in range(gigabytes << 10):
            process.stdin.write(block)
        process.stdin.close()

    feeder = threading.Thread(target=feed)
    feeder.start()
    packed = process.stdout.read()
    feeder.join()
    assert process.wait() == 0
    return packed


def sparse_header(real, offset):
    """An old GNU sparse entry: one byte, far out in a file of `real` bytes."""
    info = tarfile.TarInfo("sparse")
    info.type = b"S"
    info.size = 1
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[386:398] = b"\x80" + offset.to_bytes(11, "big")
    block[398:410] = b"%011o\0" % 1
    block[482] = 0
    block[483:495] = b"\x80" + real.to_bytes(11, "big")
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + b"x" + b"\0" * 511 + b"\0" * 1024


def many(count):
    """So many empty files, with names of their own."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for i in range(count):
            archive.addfile(tarfile.TarInfo(f"d{i % 100}/{i}"))
    return out.getvalue()


def pax_bomb(size):
    record = b"comment=" + b"x" * size + b"\n"
    length = len(record) + 2
    while len(b"%d " % length) + len(record) != length:
        length += 1
    data = b"%d " % length + record
    info = tarfile.TarInfo("PaxHeaders/x")
    info.type, info.size = b"x", len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + b"\0" * (-len(data) % 512) + tar(entry("x", b"x"))


BOMBS = {
    "gzip": lambda: (zeros(1, ["gzip", "-6"]), "tar+gzip", True),
    "zstd": lambda: (zeros(4, ["zstd", "-qc"]), "tar+zstd", True),
    "sparse": lambda: (gzip.compress(sparse_header(2**62, 2**61)), "tar+gzip", True),
    "sparse within reach": lambda: (gzip.compress(sparse_header(2**40, 2**39)), "tar+gzip", True),
    "a PAX header of 64 MB": lambda: (gzip.compress(pax_bomb(64 << 20), 1), "tar+gzip", False),
    "50,000 files": lambda: (gzip.compress(many(50_000), 1), "tar+gzip", False),
    "gzip that is cut off": lambda: (gzip.compress(tar(entry("x", b"x" * 100_000)))[:-40], "tar+gzip", True),
    "gzip of gzip": lambda: (gzip.compress(layer(entry("x", b"x"))), "tar+gzip", False),
    "no archive": lambda: (gzip.compress(b"<html>" * 1000), "tar+gzip", True),
    "nothing": lambda: (b"", "tar+gzip", False),
    "zstd that is gzip": lambda: (layer(entry("x", b"x")), "tar+zstd", False),
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_bomb_ends_with_a_sentence(daemon, builder, images, case):
    """Layers that unpack to gigabytes of zeros, to exabytes of holes, to very many files or headers, or that are cut
    off, end the build with a sentence, and leave nothing in the pool and no memory taken."""
    data, media, refused = BOMBS[case]()
    before = shutil.disk_usage(daemon.data / "pool").used
    ids, status = build(builder, images, data, media=media, diff_ids=[digest(data)])
    assert status["status"] == "error" or not refused, status
    settle(builder, ids, status)
    server = pathlib.Path(f"/proc/{daemon.child('server')}/status").read_text()
    assert int(server.split("VmHWM:")[1].split()[0]) < 1 << 20  # KB
    assert shutil.disk_usage(daemon.data / "pool").used - before < 4 << 30


# ---- the same as a COPY ----

COPIED = {
    **{name: lambda name=name: gzip.compress(tar(entry("good", b"x"), NAMES[name])) for name in NAMES},
    **{f"attributes: {name}": lambda name=name: gzip.compress(tar(entry("x", b"x", pax_headers=ATTRIBUTES[name]))) for name in ATTRIBUTES},
    **{f"bomb: {name}": lambda name=name: BOMBS[name]()[0] for name in ("gzip", "sparse", "a PAX header of 64 MB", "gzip that is cut off")},
}


@pytest.mark.parametrize("case", COPIED)
def test_a_copy_of_a_hostile_archive(builder, victim, case):
    """The entries, attributes and bombs that layers are tried with, uploaded as the files of a COPY, are refused with a
    sentence or stay in the build's jail."""
    ids = builder.request(f"copy-{uuid.uuid4().hex[:8]}")
    name = builder.upload(ids[0], COPIED[case]())
    builder.start(ids, [{"type": "COPY", "args": [".", "/data/", "", ""], "filesHash": name}])
    status = builder.wait(ids)
    assert status["status"] == "ready" or status["reason"]["message"], status
    assert not pathlib.Path("/tmp/evil").exists()
    settle(builder, ids, status)


# ---- what an image says of itself ----

CHECKPOINT = {
    "io.kubernetes.cri-o.annotations.checkpoint.name": "evil", "org.criu.checkpoint.container.name": "evil",
    "org.criu.checkpoint.rootfsImageName": "base", "cdi.k8s.io/evil": "vendor.com/device=all",
}


@pytest.mark.attack("CVE-2026-50195", "CVE-2026-53488", "CVE-2026-53489", "CVE-2026-53492")
def test_labels_hooks_and_checkpoints_of_an_image_are_data(builder, images, victim):
    """Labels that name programs to run, annotations that ask for devices or a restore, and checkpoint files in an
    image are not acted upon: nothing runs on the host, and no file of it shows up in the sandbox."""
    evil = f"binary:///bin/touch?{victim}/dir/ran"
    config = {
        "Labels": {"containerd.io/restart.loguri": evil, "containerd.io/restart.status": "running", **CHECKPOINT},
        "Volumes": {"/../../../../etc": {}, f"{victim}": {}, "/proc": {}},
        "Healthcheck": {"Test": ["CMD-SHELL", f"touch {victim}/dir/ran"]}, "OnBuild": [f"RUN touch {victim}/dir/ran"],
        "Entrypoint": ["/bin/touch", f"{victim}/dir/ran"], "StopSignal": "SIGKILL; id", "User": "../../root",
        "Env": ["LD_PRELOAD=/evil.so", "PATH=/evil", "NOEQUALS", "=x", "A=" + "x" * 100_000],
    }
    dump = json.dumps({"rootfsImageName": "base", "logPath": f"{victim}/file", "annotations": CHECKPOINT}).encode()
    layers = [layer(entry("config.dump", dump), entry("spec.dump", dump), entry("container.log", type=SYM, linkname=f"{victim}/file"),
                    entry("checkpoint/core-1.img", b"x" * 100), entry("rootfs-diff.tar", tar(entry("../../tmp/evil", b"x"))))]
    ids, status = build(builder, images, *layers, config=config, manifest={"annotations": CHECKPOINT})
    settle(builder, ids, status)


@pytest.mark.attack("CVE-2026-47262", "CVE-2021-21285")
@pytest.mark.parametrize("case", ["a large config", "deep JSON", "many layers", "the wrong kind", "a size that lies", "an odd platform"])
def test_a_manifest_that_takes_memory(daemon, builder, images, case):
    """A manifest or configuration that is very large, deeply nested, of thousands of layers or of wrong kinds ends the
    build with a sentence, and the server's memory stays small."""
    image = Image(layer(entry("x", b"x")))
    if case == "a large config":
        image = Image(layer(entry("x", b"x")), config={"Labels": {f"l{i}": "x" * 100 for i in range(400_000)}})
    manifest = json.loads(image.manifest)
    if case == "deep JSON":
        image.manifest = b'{"schemaVersion":2,"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}"
    else:
        if case == "many layers":
            manifest["layers"] = manifest["layers"] * 5000
        if case == "the wrong kind":
            manifest["layers"] = {"a": [None, 1, "x"]}
        if case == "a size that lies":
            manifest["layers"][0]["size"] = 2**62
        if case == "an odd platform":
            manifest["config"]["digest"] = "sha256:../../../../etc/passwd"
        image.manifest = json.dumps(manifest).encode()
    name = uuid.uuid4().hex
    image.write_layout(images / name, "v1")
    ids, status = builder.build([], name=f"evil-{name[:8]}", base={"fromImage": f"oci:{name}:v1"})
    shutil.rmtree(images / name)
    assert status["status"] == "error" and status["reason"]["message"], status
    settle(builder, ids, status)
    server = pathlib.Path(f"/proc/{daemon.child('server')}/status").read_text()
    assert int(server.split("VmHWM:")[1].split()[0]) < 1 << 20  # KB


# ---- templates made by running things ----

PLANTED = {
    "etc": "cp -a /etc /etc2 && rm -rf /etc && ln -s {v}/dir /etc",
    "tmp": "rm -rf /tmp && ln -s {v}/dir /tmp",
    "var run": "rm -rf /var/run && ln -s {v}/dir /var/run",
    "home": "rm -rf /home/user && ln -s {v}/dir /home/user",
    "root home": "rm -rf /root && ln -s /proc/1/root{v}/dir /root",
    "passwd": "ln -sf {v}/file /etc/passwd; ln -sf {v}/file /etc/group",
    "certificates": "rm -rf /etc/ssl/certs && ln -s {v}/dir /etc/ssl/certs && rm -rf /usr/local/share/ca-certificates && ln -s {v}/dir /usr/local/share/ca-certificates",
    "profile": "ln -sf {v}/file /etc/profile; ln -sf {v}/file /etc/environment",
    "loop": "rm -rf /tmp && ln -s /tmp2 /tmp && ln -s /tmp /tmp2",
}


UNFIT = {"etc", "passwd", "certificates"}  # for the last commands of a build, which run inside
NO_TMP = {"tmp", "loop"}  # nothing can be written there, by an agent that follows no link out of it


@pytest.mark.parametrize("case", PLANTED)
def test_a_template_whose_places_became_links(daemon, builder, victim, case):
    """A template whose build replaced /etc, /tmp, /var/run, homes, users, certificates or profiles by links to the
    host is refused, or built, started, used, saved and restored, without a change on the host."""
    ids, status = builder.build([run(PLANTED[case].format(v=victim), "root")], name=f"links-{uuid.uuid4().hex[:8]}")
    if case in UNFIT:
        assert status["status"] == "error" and status["reason"]["step"] == "finalize", status
    else:
        assert status["status"] == "ready", status
        answer = builder.create(ids[0])
        assert answer.status_code == 201, answer.text
        sandbox = Sandbox.connect(answer.json()["sandboxID"], **daemon.sdk)
        for attempt in (lambda: sandbox.files.write("x", "x", user="root"), lambda: sandbox.commands.run("id")):
            try:
                attempt()
            except Exception as error:  # a home that leads to nowhere
                assert case in ("home", "root home") and "500" not in str(error)[:12], error
        place = "/var/tmp/x"
        if case not in NO_TMP:
            place = "/tmp/x"
        else:
            with pytest.raises(InvalidArgumentException, match="symbolic links"):
                sandbox.files.write("/tmp/x", "x")
        sandbox.files.write(place, "x")
        sandbox.pause()
        assert sandbox.connect(timeout=60).files.read(place) == "x"
        Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)
    builder.call("DELETE", f"/templates/{ids[0]}")
