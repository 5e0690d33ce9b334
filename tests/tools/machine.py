"""A machine for tools/deps: a mirror on loopback with packages of a few bytes, and an apt that installs nothing.

The programs that would change this machine (apt-get, apt-cache) are replaced by scripts that record their calls; all
others, apt's downloader with its check of sums among them, are the real ones.
"""

import functools
import hashlib
import http.server
import os
import pathlib
import subprocess
import threading

TREE = pathlib.Path(__file__).resolve().parents[2]
ARCHITECTURE = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
DATE = "20260101T000000Z"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Machine:
    def __init__(self, directory):
        self.directory = directory
        self.www = directory / "www"
        self.bin = directory / "bin"
        self.cache = directory / "cache"
        self.pins = directory / "pins"
        self.calls = directory / "calls"
        self.patch = directory / "patch"
        self.os_release = pathlib.Path("/etc/os-release")
        self.past = ""
        for path in (self.www, self.bin, self.cache):
            path.mkdir()
        self.pins.write_text("")
        self.calls.write_text("")
        os.chmod(directory, 0o755)
        handler = functools.partial(QuietHandler, directory=str(self.www))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.program("apt-get", f'case $1 in indextargets) echo "{self.url}/debian/" ;; esac')
        self.program("apt-cache", "")

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def program(self, name, body):
        """Stands before the program of that name, and notes that it was called."""
        path = self.bin / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.calls}\n{body}\n')
        path.chmod(0o755)

    def deb(self, package, version, text, below="debian"):
        """Puts a package with one file of that text on the mirror. Returns its line in tools/pins."""
        tree = self.directory / "deb" / f"{package}_{version}"
        file = tree / ("usr/sbin/criu" if package == "criu" else f"usr/share/{package}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        (tree / "DEBIAN").mkdir(exist_ok=True)
        (tree / "DEBIAN/control").write_text(
            f"Package: {package}\nVersion: {version}\nArchitecture: {ARCHITECTURE}\n"
            "Maintainer: nobody <nobody@example.org>\nDescription: none\n"
        )
        pool = self.www / below / f"pool/{package}"
        pool.mkdir(parents=True, exist_ok=True)
        out = pool / f"{package}_{version}_{ARCHITECTURE}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, out], check=True, stdout=subprocess.DEVNULL)
        sum_of = hashlib.sha256(out.read_bytes()).hexdigest()
        return f"{package} {version} {ARCHITECTURE} {sum_of} pool/{package} {DATE}\n"

    def file_of(self, line, below="debian"):
        package, version, architecture, _, pool, _ = line.split()
        return self.www / below / pool / f"{package}_{version}_{architecture}.deb"

    def run(self, *args, **more):
        env = {
            "PATH": f"{self.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "ATOLL_CACHE": str(self.cache),
            "ATOLL_PINS": str(self.pins),
            "ATOLL_CRIU_PATCH": str(self.patch),
            "ATOLL_OS_RELEASE": str(self.os_release),
            "no_proxy": "127.0.0.1",
            **more,
        }
        return subprocess.run(args, cwd=TREE, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    def deps(self, *groups, **more):
        return self.run("tools/deps", *groups, **more)

    def criu_pins(self):
        """Lines for all that CRIU is unpacked with."""
        return [
            self.deb("criu", "4.2.1-1", "criu 4.2.1"),
            self.deb("libnet9", "1.3+dfsg-3+b2", "net"),
            self.deb("libnl-3-200", "3.12.0-2", "nl"),
            self.deb("libc6", "2.41-12", "libc"),
        ]

    def criu_source(self, version="4.2.1-1", says="patched"):
        """Puts a source package on the mirror that compiles in no time. Returns its line in tools/pins."""
        tree = self.directory / f"criu-{version.partition('-')[0]}"
        (tree / "criu").mkdir(parents=True, exist_ok=True)
        (tree / "COPYING").write_text("GPL\n")
        (tree / "criu/main.c").write_text('#include <stdio.h>\nint main(void) { return puts("plain") < 0; }\n')
        (tree / "Makefile").write_text("criu:\n\tgcc -o criu/criu criu/main.c\n.PHONY: criu\n")
        self.patch.write_text(
            "--- a/criu/main.c\n+++ b/criu/main.c\n@@ -1,2 +1,2 @@\n #include <stdio.h>\n"
            f'-int main(void) {{ return puts("plain") < 0; }}\n+int main(void) {{ return puts("{says}") < 0; }}\n'
        )
        pool = self.www / "debian/pool/criu"
        pool.mkdir(parents=True, exist_ok=True)
        archive = pool / f"criu_{version.partition('-')[0]}.orig.tar.xz"
        subprocess.run(["tar", "-C", tree.parent, "-cJf", archive, tree.name], check=True)
        dsc = pool / f"criu_{version}.dsc"
        sum_of = hashlib.sha256(archive.read_bytes()).hexdigest()
        dsc.write_text(
            f"Format: 3.0 (quilt)\nChecksums-Sha1:\n 00 1 {archive.name}\nChecksums-Sha256:\n {sum_of} 1 {archive.name}\n"
            f" 00 1 criu_{version}.debian.tar.xz\nFiles:\n 00 1 {archive.name}\n"
        )
        return f"criu-source {version} source {hashlib.sha256(dsc.read_bytes()).hexdigest()} pool/criu {DATE}\n"

    @property
    def criu_zygote(self):
        path = self.cache / "criu-zygote/usr/sbin/criu"
        return subprocess.check_output([path], text=True).strip() if path.exists() else None

    @property
    def criu(self):
        path = self.cache / "criu/usr/sbin/criu"
        return path.read_text() if path.exists() else None
