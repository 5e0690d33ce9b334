"""Builds of templates by plain HTTP, so that a test can ask for what no SDK would."""

import hashlib
import io
import tarfile
import time

import httpx
from daemon import until


class Builder:
    """The calls of one team against one daemon."""

    def __init__(self, daemon, key=None):
        self.daemon = daemon
        self.key = key or daemon.key

    def call(self, method, path, **arguments):
        return httpx.request(
            method,
            f"{self.daemon.url}{path}",
            headers={"X-API-Key": self.key},
            timeout=60,
            **arguments,
        )

    def request(self, name="made", **body):
        """(template id, build id) of a build that waits for its start."""
        answer = self.call("POST", "/v3/templates", json={"name": name, **body})
        assert answer.status_code == 202, answer.text
        return answer.json()["templateID"], answer.json()["buildID"]

    def start(self, ids, steps=(), base=None, **body):
        body = {"steps": list(steps), **(base or {"fromTemplate": "base"}), **body}
        answer = self.call("POST", f"/v2/templates/{ids[0]}/builds/{ids[1]}", json=body)
        assert answer.status_code == 202, answer.text

    def status(self, ids, **query):
        answer = self.call("GET", f"/templates/{ids[0]}/builds/{ids[1]}/status", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def log(self, ids):
        lines = []
        while entries := self.status(ids, logsOffset=len(lines))["logEntries"]:
            lines += [entry["message"] for entry in entries]
        return lines

    def wait(self, ids, limit_s=120):
        return until(
            lambda: (s := self.status(ids))["status"] in ("ready", "error") and s,
            f"build {ids} ends",
            limit_s,
        )

    def build(self, steps=(), name="made", base=None, **body):
        """Builds, and returns the ids and the last status."""
        ids = self.request(name)
        self.start(ids, steps, base, **body)
        return ids, self.wait(ids)

    def upload(self, template_id, data):
        """Uploads what a COPY needs, and returns its hash."""
        name = hashlib.sha256(data).hexdigest()
        answer = self.call("GET", f"/templates/{template_id}/files/{name}")
        assert answer.status_code == 201, answer.text
        put = httpx.put(answer.json()["url"], content=data, timeout=60)
        assert put.status_code == 200, put.text
        return name

    def create(self, name):
        return self.call("POST", "/v2/sandboxes", json={"templateID": name, "timeout": 60})


def run(command, user=None):
    return {"type": "RUN", "args": [command] + ([user] if user else [])}


def archive(*entries, compress=""):
    """A tar of (name, content) pairs; content may be a TarInfo's type or a link's target."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{compress}") as tar:
        for name, content, *rest in entries:
            info = tarfile.TarInfo(name)
            info.mtime = int(time.time())
            if isinstance(content, bytes) and content in (
                tarfile.SYMTYPE,
                tarfile.LNKTYPE,
                tarfile.DIRTYPE,
                tarfile.CHRTYPE,
                tarfile.FIFOTYPE,
            ):
                info.type = content
                info.linkname = rest[0] if rest else ""
                info.mode = 0o755
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()
