"""Images and registries for tests: layers, layouts, Debian's docker-registry, and one that misbehaves."""

import gzip
import hashlib
import http.server
import io
import json
import os
import socket
import subprocess
import tarfile
import tempfile
import threading
from pathlib import Path

import httpx
from daemon import until

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def tar(*entries, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def layer(*entries):
    return gzip.compress(tar(*entries), 1, mtime=0)


class Image:
    """The blobs of an image, its manifest, and an index that names it among others."""

    def __init__(self, *layers, diff_ids=None, config=None, media="tar+gzip"):
        self.layers = list(layers)
        plain = diff_ids or [digest(gzip.decompress(one)) for one in layers]
        self.config = json.dumps(
            {
                "architecture": ARCHITECTURE,
                "os": "linux",
                "config": config or {},
                "rootfs": {"type": "layers", "diff_ids": plain},
            }
        ).encode()
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": self.about(self.config, "application/vnd.oci.image.config.v1+json"),
                "layers": [
                    self.about(one, f"application/vnd.oci.image.layer.v1.{media}") for one in layers
                ],
            }
        ).encode()
        self.index = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": INDEX,
                "manifests": [
                    {**self.about(b"other", MANIFEST), "platform": {"os": "linux", "architecture": "mips"}},
                    {
                        **self.about(self.manifest, MANIFEST),
                        "platform": {"os": "linux", "architecture": ARCHITECTURE},
                    },
                ],
            }
        ).encode()

    @staticmethod
    def about(data, media):
        return {"mediaType": media, "digest": digest(data), "size": len(data)}

    def blobs(self):
        return {digest(data): data for data in [self.config, *self.layers]}

    def write_layout(self, path, tag):
        """An OCI layout directory."""
        path = Path(path)
        (path / "blobs" / "sha256").mkdir(parents=True)
        for name, data in [*self.blobs().items(), (digest(self.manifest), self.manifest)]:
            (path / "blobs" / "sha256" / name.removeprefix("sha256:")).write_bytes(data)
        (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        named = {
            **self.about(self.manifest, MANIFEST),
            "annotations": {"org.opencontainers.image.ref.name": tag},
        }
        (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def bcrypt(password):
    """The one hash that the registry takes; the C library makes it, and perl is everywhere."""
    command = ["perl", "-e", "print crypt($ARGV[0], q($2y$05$abcdefghijklmnopqrstuu))", password]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Registry:
    """Debian's docker-registry on loopback, over a directory of the test's own."""

    def __init__(self, path, user=None, password=None):
        self.path = Path(path)
        self.path.mkdir(exist_ok=True)
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.credentials = f"{user}:{password}" if user else None
        settings = {
            "version": 0.1,
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(self.path / "store")}},
            "http": {"addr": self.host},
        }
        if user:
            (self.path / "htpasswd").write_text(f"{user}:{bcrypt(password)}\n")
            settings["auth"] = {"htpasswd": {"realm": "test", "path": str(self.path / "htpasswd")}}
        (self.path / "config.yml").write_text(json.dumps(settings))
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["docker-registry", "serve", str(self.path / "config.yml")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self.answers, "the registry answers")

    def answers(self):
        try:
            return httpx.get(f"http://{self.host}/v2/").status_code in (200, 401)
        except httpx.TransportError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()

    def push(self, image, name):
        """By skopeo, as users do."""
        with tempfile.TemporaryDirectory() as layout:
            image.write_layout(f"{layout}/image", "it")
            command = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false"]
            if self.credentials:
                command += ["--dest-creds", self.credentials]
            subprocess.run([*command, f"oci:{layout}/image:it", f"docker://{self.host}/{name}"], check=True)
        return f"{self.host}/{name}"


class Impostor:
    """A registry that answers what the test wants: `answer(request)` returns (status, headers, body),
    or None for what a good one says."""

    def __init__(self, image, answer=lambda request: None):
        self.image = image
        self.answer = answer
        self.asked = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.asked.append(self.path)
                reply = outer.answer(self) or outer.good(self.path)
                status, headers, body = reply
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass
                if "Content-Length" in headers:
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def good(self, path):
        what = path.rpartition("/")[2]
        if "/manifests/" in path and what == digest(self.image.manifest):
            return 200, {"Content-Type": MANIFEST}, self.image.manifest
        if "/manifests/" in path:
            return 200, {"Content-Type": INDEX}, self.image.index
        if what in self.image.blobs():
            return 200, {}, self.image.blobs()[what]
        return 404, {}, b"{}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
