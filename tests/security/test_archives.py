"""Archives made to write where they may not. They come in as the files of a COPY, through the API, and
are unpacked inside the build's jail: each is refused with a reason, and nothing of it stays."""
import io
import os
import tarfile
import time
import uuid

import httpx
import pytest
from e2b import Sandbox

LIMIT_S = 120


@pytest.fixture(scope="module")
def api():
    with httpx.Client(
        base_url=os.environ["E2B_API_URL"], headers={"X-API-Key": os.environ["E2B_API_KEY"]}, timeout=60
    ) as client:
        yield client


def entry(name, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def tar(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def build(api, archive, *args):
    """A build of base and one COPY; returns the template's id and the last status."""
    made = api.post("/v3/templates", json={"name": f"evil-{uuid.uuid4().hex[:8]}"}).json()
    template, path = made["templateID"], f"/templates/{made['templateID']}"
    files_hash = uuid.uuid4().hex * 2
    url = api.get(f"{path}/files/{files_hash}").json()["url"]
    assert httpx.put(url, content=archive).status_code // 100 == 2
    steps = [{"type": "COPY", "args": list(args), "filesHash": files_hash}]
    started = api.post(
        f"/v2/templates/{template}/builds/{made['buildID']}", json={"fromTemplate": "base", "steps": steps}
    )
    assert started.status_code == 202, started.text
    deadline = time.monotonic() + LIMIT_S
    while True:
        status = api.get(f"{path}/builds/{made['buildID']}/status").json()
        if status["status"] in ("ready", "error"):
            return template, status
        assert time.monotonic() < deadline, status
        time.sleep(0.1)


HOSTILE = {
    "a name that leads out": (entry("../../etc/evil", b"x"), "leads out of its directory"),
    "an absolute name": (entry("/etc/evil", b"x"), "an absolute name"),
    "a device": (entry("a/sda", type=tarfile.BLKTYPE), "no file cannot be copied"),
    "a hard link out of the archive": (entry("a/x", type=tarfile.LNKTYPE, linkname="/etc/shadow"), "an absolute name"),
    "a hard link out of the source": (entry("a/x", type=tarfile.LNKTYPE, linkname="b/x"), "leads out of what is copied"),
    "a name of many directories": (entry("a/" * 300 + "x"), "too many directories"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused_with_a_reason(api, case):
    """A COPY archive whose entries lead out of it, are devices, or link to files outside is refused with a
    sentence, and nothing of it stays."""
    bad, sentence = HOSTILE[case]
    template, status = build(api, tar(entry("a/good", b"x"), bad), "a", "/data/", "", "")
    assert status["status"] == "error"
    assert sentence in status["reason"]["message"], status
    assert status["reason"]["step"] == "1"
    assert api.delete(f"/templates/{template}").status_code == 204


@pytest.mark.parametrize("target", ["/proc/sys/kernel/", "/dev/", "/run/atoll/", "/sys/"])
def test_nothing_is_copied_into_what_the_jail_has_of_its_own(api, target):
    """A COPY into /proc, /dev, /sys or /run, which the jail's own mounts make up, is refused."""
    _, status = build(api, tar(entry("a", b"x")), "a", target, "", "")
    assert status["status"] == "error"
    assert "nothing can be copied below /dev, /proc, /sys and /run" in status["reason"]["message"], status


def test_a_link_in_an_archive_leads_nowhere_but_into_the_jail(api, tmp_path):
    """A link in a COPY archive to a directory of the host, and a file written through it, stay inside the build's
    jail."""
    archive = tar(
        entry("a/out", type=tarfile.SYMTYPE, linkname=str(tmp_path)),
        entry("a/out/evil", b"x"),
    )
    template, status = build(api, archive, "a", "/data/", "", "")
    assert status["status"] == "ready", status
    assert os.listdir(tmp_path) == []
    with Sandbox.create(template) as sandbox:
        assert sandbox.commands.run(f"cat {tmp_path}/evil").stdout == "x"


def test_what_is_no_archive_is_refused(api):
    """An upload that is no archive ends the build with a sentence."""
    _, status = build(api, b"<html>" * 1000, "a", "/data/", "", "")
    assert "the archive is damaged or not a tar" in status["reason"]["message"], status
