"""Builds beside buildah, starts from what was built, and the unpacker beside tar. Both build the same ten steps. buildah
runs them by chroot, its quickest way, which works on every machine, on what of the root filesystem they need: it would
take minutes to make an image of all of it."""

import hashlib
import io
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import uuid

from lib import client
from lib.part import timed

LIMIT_S = {"tiny": 60, "short": 75, "full": 120}
POLL_S, BUILD_LIMIT_S, COPIED_FILES = 0.01, 100, 500
UNPACKED = ["usr/lib/python3", "usr/lib/python3.13"]  # of the root: some thousand files, large and small

# As Dockerfile instructions; of each its first word and the rest. WORD makes a build like no other.
STEPS = [
    "RUN echo WORD > /var/tmp/word",
    "ENV STAGE bench",
    "WORKDIR /srv/bench",
    "COPY context/ /srv/bench/context/",
    "RUN find context -type f | wc -l > counted",
    "RUN head -c 32M /dev/zero > zeros",
    "RUN for i in $(seq 1000); do echo $i > file-$i; done",
    "RUN rm -r context",
    "RUN cat file-* | sha256sum > sum",
    "RUN echo $STAGE > stage",
]

PROGRAMS = ("dash", "find", "wc", "head", "seq", "rm", "cat", "sha256sum")

# ---- atoll ----


def packed(context):
    """What a client uploads for a COPY: the same bytes for the same files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for path in sorted(context.rglob("*")):
            tar.add(path, path.relative_to(context.parent))
    return out.getvalue()


def upload(template, data, name):
    asked = client.api("GET", f"/templates/{template}/files/{name}")
    if not asked["present"]:
        client.call("PUT", asked["url"], data)


def as_step(line, word, files_hash):
    kind, rest = line.split(" ", 1)
    step = {"type": kind, "args": [rest.replace("WORD", word)] if kind == "RUN" else rest.split(" ")}
    return step | ({"filesHash": files_hash} if kind == "COPY" else {})


def atoll_build(name, word, context):
    data = packed(context)
    files_hash = hashlib.sha256(word.encode()).hexdigest()
    made = client.api("POST", "/v3/templates", {"name": name})
    template, build = made["templateID"], made["buildID"]
    upload(template, data, files_hash)
    # As the user that buildah builds as.
    steps = [{"type": "USER", "args": ["root"]}] + [as_step(line, word, files_hash) for line in STEPS]
    client.api("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": steps})
    deadline = time.monotonic() + BUILD_LIMIT_S
    while True:
        status = client.api("GET", f"/templates/{template}/builds/{build}/status")
        if status["status"] == "ready":
            return
        if status["status"] == "error" or time.monotonic() > deadline:
            raise RuntimeError(f"the build did not succeed: {status}")
        time.sleep(POLL_S)


# ---- buildah ----


def seed(layer, root):
    """Of the root filesystem: the programs that the steps name, and the libraries of those."""
    words = ["chroot", layer, "/usr/bin/ldd", *[f"/usr/bin/{name}" for name in PROGRAMS]]
    said = subprocess.run(words, capture_output=True, text=True).stdout
    wanted = {f"/usr/bin/{name}" for name in PROGRAMS} | set(re.findall(r"(/\S+\.so\S*) \(", said))
    for path in sorted(wanted):
        os.makedirs(os.path.dirname(f"{root}{path}"), exist_ok=True)
        shutil.copy2(f"{layer}{path}", f"{root}{path}")
    for name in ("bin", "tmp", "var/tmp", "etc"):
        os.makedirs(f"{root}/{name}")
    os.symlink("/usr/bin/dash", f"{root}/bin/sh")


class Buildah:
    """With images, containers and state of its own."""

    def __init__(self, layer, scratch):
        self.scratch = scratch
        self.words = ["buildah", "--root", f"{scratch}/store", "--runroot", f"{scratch}/run"]
        container = self.run("from", "scratch")
        root = self.run("mount", container)
        seed(layer, root)
        self.run("umount", container)
        self.run("commit", "--quiet", container, "bench-base")
        self.run("rm", container)

    def run(self, *words):
        done = subprocess.run([*self.words, *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"buildah {words[0]}: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def build(self, name, word, context):
        file = pathlib.Path(self.scratch) / "Containerfile"
        lines = [line.replace("WORD", word) for line in STEPS]
        file.write_text("\n".join(["FROM localhost/bench-base", *lines, ""]))
        self.run("build", "--layers", "--quiet", "--isolation", "chroot", "--pull=never", "-f", str(file), "-t", name,
                 str(context.parent))


def buildah_or_none(part):
    """A buildah that cannot work here is a note, not a failure of all the rest."""
    if part.absent("buildah"):
        return None
    try:
        return Buildah(part.layer(), part.scratch)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        part.note(f"buildah could not take the root filesystem: {error}")
        return None


# ---- the unpacker ----


def unpack_atoll(archive, root):
    """The agent's unpacker as the agent starts it, with a directory for a jail."""
    ours, its = socket.socketpair()
    program = os.open(os.environ["ATOLL_AGENT"], os.O_RDONLY)
    child = os.fork()
    if child == 0:
        become_unpacker(program, its, root)
    its.close(), os.close(program)
    with ours, open(archive, "rb") as file:
        ours.sendall(b"mode layer\n\n")
        ours.sendfile(file)
        ours.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: ours.recv(65536), b"")).decode()
    os.waitpid(child, 0)
    if not said.rpartition("\n")[0].rpartition("\n")[2].startswith("done "):
        raise RuntimeError(f"the unpacker failed: {said}")


def become_unpacker(program, its, root):
    try:
        os.dup2(its.fileno(), 0)
        os.chroot(root)
        os.chdir("/")
        os.execve(program, ["atoll-unpack"], {})
    finally:
        os._exit(127)


def unpack_tar(archive, root):
    subprocess.run(["tar", "--extract", "--numeric-owner", "--directory", root, "--file", archive], check=True)


# ---- the measurement ----


def show(part, title, rows):
    part.heading(title)
    first = next((name for name, samples in rows.items() if samples), None)
    for name, samples in rows.items():
        if samples:
            part.samples(name, samples, of=first)


def builds(part):
    context = pathlib.Path(part.scratch) / "build" / "context"
    context.mkdir(parents=True)
    for i in range(COPIED_FILES):
        (context / f"file-{i}").write_text(f"{i}\n" * 100)
    peer = buildah_or_none(part)
    whole, again = {"buildah": [], "atoll": []}, {"buildah": [], "atoll": []}
    starts = {"atoll: of base": [], "atoll: of a template just built": []}
    for i in range(part.count(1, 1, 2)):
        word, name = uuid.uuid4().hex, f"bench-{i}"
        for rows in (whole, again):
            if peer:
                rows["buildah"].append(timed(peer.build, name, word, context)[1])
            rows["atoll"].append(timed(atoll_build, name, word, context)[1])
            for title, template in zip(starts, ("base", name)):
                box, ms = timed(client.Box, template)
                starts[title].append(ms)
                box.kill()
    show(part, f"Build of {len(STEPS)} steps", whole)
    show(part, "The same again, all cached", again)
    show(part, "Create of base, and of a template just built", starts)


def unpacking(part):
    archive = f"{part.scratch}/layer.tar"
    there = [name for name in UNPACKED if os.path.isdir(f"{part.layer()}/{name}")]
    subprocess.run(["tar", "--create", "--numeric-owner", "--directory", part.layer(), "--file", archive, *there],
                   check=True)
    subprocess.run(["gzip", "-1", "--keep", archive], check=True)
    mb = os.path.getsize(archive) / 1e6
    for file, title in ((archive, "plain"), (f"{archive}.gz", "gzip")):
        rows = {"tar": [], "atoll": []}
        for _ in range(part.count(1, 3, 3)):
            for name, unpack in (("tar", unpack_tar), ("atoll", unpack_atoll)):
                where = tempfile.mkdtemp(dir=part.scratch)
                rows[name].append(timed(unpack, file, where)[1])
                shutil.rmtree(where)
        show(part, f"Unpacking {mb:.0f} MB, {title}", rows)


def measure(part):
    part.alone()  # buildah leaves mounts behind
    unpacking(part)
    builds(part)
    subprocess.run(["umount", "--lazy", f"{part.scratch}/store/overlay"], stderr=subprocess.DEVNULL, check=False)
