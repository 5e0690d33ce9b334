"""Ways from one volume to something else: by its paths, by links that a sandbox left in it, by another
team's token or name, and past its size."""

import json
import os
import pathlib
import sys
import uuid

import httpx
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

from daemon import Daemon  # noqa: E402
from e2b import Sandbox  # noqa: E402
from teams import add_team  # noqa: E402

SIZE_MB = 32
MARK = "nobody else's"


@pytest.fixture(scope="module")
def daemon():
    daemon = Daemon("--volume-size", f"{SIZE_MB}M")
    try:
        daemon.start()
        daemon.other_key = add_team(daemon, "another")
        yield daemon
    finally:
        daemon.remove()


class Content:
    """A volume, and its content as the holder of its token sees it."""

    def __init__(self, daemon, key):
        self.daemon, self.key = daemon, key
        made = httpx.post(f"{daemon.url}/volumes", json={"name": f"v-{uuid.uuid4().hex[:12]}"},
                          headers={"X-API-Key": key}, timeout=60)
        assert made.status_code == 201, made.text
        self.id, self.name, self.token = (made.json()[k] for k in ("volumeID", "name", "token"))

    def call(self, method, what, path=None, token=None, volume=None, **arguments):
        return httpx.request(method, f"{self.daemon.url}/volumecontent/{volume or self.id}/{what}",
                             params={} if path is None else {"path": path}, timeout=60,
                             headers={"Authorization": f"Bearer {token or self.token}"}, **arguments)

    def remove(self):
        httpx.delete(f"{self.daemon.url}/volumes/{self.id}", headers={"X-API-Key": self.key}, timeout=60)


@pytest.fixture
def ours(daemon):
    volume = Content(daemon, daemon.key)
    yield volume
    volume.remove()


@pytest.fixture
def theirs(daemon):
    volume = Content(daemon, daemon.other_key)
    assert volume.call("PUT", "file", "/mark", content=MARK).status_code == 201
    yield volume
    volume.remove()


def names_in(volume, path="/"):
    answer = volume.call("GET", "dir", path)
    assert answer.status_code == 200, answer.text
    return sorted(entry["name"] for entry in answer.json())


# ---- paths ----

PATHS = ["../../etc/passwd", "/../../../etc/passwd", "a/../../../../etc/passwd", "/proc/self/environ",
         "/proc/1/root/etc/passwd", "..%2f..%2fetc%2fpasswd", "//etc/passwd", "/./.././etc/passwd"]


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out_of_the_volume(ours, path):
    """Paths with .., /proc and encodings in the content API lead to nothing outside the volume."""
    answer = ours.call("GET", "file", path)
    assert answer.status_code in (400, 404), (answer.status_code, answer.text[:200])
    answer = ours.call("DELETE", "path", path)
    assert answer.status_code in (400, 404), (answer.status_code, answer.text[:200])


@pytest.mark.parametrize("volume", ["..", "%2e%2e", "../volumes", ".", "x" * 4096])
def test_no_volume_is_named_by_a_path(ours, volume):
    """A volume named by a path is refused."""
    answer = ours.call("GET", "dir", "/", volume=volume)
    assert answer.status_code in (400, 401, 404, 414), (answer.status_code, answer.text[:200])


# ---- links that a sandbox left ----


def test_links_of_a_sandbox_lead_nowhere(daemon, ours, theirs):
    """Links that a sandbox left in a volume lead the content API neither to the host nor to another volume."""
    with Sandbox.create(timeout=120, volume_mounts={"/v": ours.name}, **daemon.sdk) as sandbox:
        sandbox.commands.run(
            "cd /v && ln -s / root && ln -s /etc/passwd passwd && ln -s ../../.. up && ln -s /proc/1/root p"
            f" && ln -s ../{theirs.id} sibling && ln -s loop loop && mkdir -p d && ln -s / d/root", user="root")
    for path in ("/root/etc/passwd", "/passwd", "/up/etc/passwd", "/p/etc/passwd", "/d/root/etc/passwd",
                 "/sibling/mark", "/loop", "/loop/x"):
        answer = ours.call("GET", "file", path)
        assert answer.status_code in (400, 403, 404), (path, answer.status_code, answer.text[:200])
    unheard = f"atoll-{uuid.uuid4().hex}"
    for path in (f"/root/tmp/{unheard}", f"/up/tmp/{unheard}", f"/sibling/{unheard}"):
        ours.call("PUT", "file", path, content="x")
        ours.call("POST", "dir", f"{path}-dir")
    assert not list(pathlib.Path("/tmp").glob(f"{unheard}*"))
    assert names_in(theirs) == ["mark"]
    assert theirs.call("GET", "file", "/mark").text == MARK


def test_what_is_removed_is_the_link(daemon, ours):
    """Removing a link in a volume leaves what it points to."""
    with Sandbox.create(timeout=120, volume_mounts={"/v": ours.name}, **daemon.sdk) as sandbox:
        sandbox.commands.run("mkdir /v/kept && touch /v/kept/it && ln -s kept /v/link", user="root")
    assert ours.call("DELETE", "path", "/link").status_code < 300
    assert names_in(ours) == ["kept"] and names_in(ours, "/kept") == ["it"]


# ---- another team ----


def test_a_token_of_another_team_opens_nothing(ours, theirs):
    """A token of one volume opens nothing of another team's volume."""
    for method, what, path in (("GET", "file", "/mark"), ("GET", "dir", "/"), ("PUT", "file", "/x"),
                               ("DELETE", "path", "/mark"), ("POST", "dir", "/x")):
        answer = ours.call(method, what, path, volume=theirs.id)
        assert answer.status_code == 401, (method, what, answer.status_code, answer.text)
        assert MARK not in answer.text
    assert names_in(theirs) == ["mark"]


def test_a_token_that_was_changed_opens_nothing(ours):
    """A volume's token with any part changed opens nothing."""
    token = ours.token
    for bad in (token[:-1], token + "A", token[:-2] + ("AA" if token[-2:] != "AA" else "BB"), token.swapcase(), "."):
        answer = ours.call("GET", "dir", "/", token=bad)
        assert answer.status_code == 401, (bad == token, answer.text)


def test_a_volume_of_another_team_is_not_there(daemon, ours, theirs):
    """A volume of another team can be neither seen, removed nor mounted, by id, name or path."""
    headers = {"X-API-Key": ours.key}
    for method in ("GET", "DELETE"):
        answer = httpx.request(method, f"{daemon.url}/volumes/{theirs.id}", headers=headers, timeout=60)
        assert answer.status_code == 404, answer.text
    assert theirs.id not in httpx.get(f"{daemon.url}/volumes", headers=headers, timeout=60).text
    for name in (theirs.name, theirs.id, f"../{theirs.id}", f"{ours.name}/../{theirs.id}"):
        body = {"templateID": "base", "timeout": 60, "volumeMounts": [{"name": name, "path": "/v"}]}
        answer = httpx.post(f"{daemon.url}/sandboxes", json=body, headers=headers, timeout=60)
        assert answer.status_code in (400, 404), (name, answer.text)
    assert names_in(theirs) == ["mark"]


def test_a_mount_covers_nothing_that_the_jail_is_made_of(daemon, ours):
    """A volume mounted over /, /proc, /sys or /dev is refused."""
    headers = {"X-API-Key": ours.key}
    for path in ("/", "/proc", "/proc/x", "/sys/fs", "/dev", "/v/../proc", "relative", "", "/v\0x"):
        body = {"templateID": "base", "timeout": 60, "volumeMounts": [{"name": ours.name, "path": path}]}
        answer = httpx.post(f"{daemon.url}/sandboxes", content=json.dumps(body),
                            headers=headers | {"Content-Type": "application/json"}, timeout=60)
        assert answer.status_code == 400, (path, answer.text)


# ---- its size ----


def test_no_way_of_writing_goes_past_the_size(daemon, ours):
    """Large files, many files and filled holes do not take a volume past its size."""
    attack = f"""
cd /v
head -c {SIZE_MB * 2}M /dev/urandom > big; rm -f big; sync
for i in 1 2 3 4; do head -c {SIZE_MB // 2}M /dev/urandom > part$i; done
truncate -s {SIZE_MB * 4}M hole && shred -n 1 hole
true"""
    with Sandbox.create(timeout=120, volume_mounts={"/v": ours.name}, **daemon.sdk) as sandbox:
        sandbox.commands.run(attack, user="root", timeout=100)
        used = int(sandbox.commands.run("sync; du -sm --apparent-size /v/part* | awk '{s += $1} END {print s}'").stdout)
        assert used <= SIZE_MB + 1
        blocks = int(sandbox.commands.run("du -sm /v | cut -f1", user="root").stdout)
        assert blocks <= SIZE_MB + 1
        sandbox.commands.run("head -c 64M /dev/urandom > /var/tmp/own && rm /var/tmp/own")  # only /v is full
    answer = ours.call("PUT", "file", "/more", content=os.urandom(4 << 20))
    assert answer.status_code == 507, (answer.status_code, answer.text)
    assert "more" not in names_in(ours)
