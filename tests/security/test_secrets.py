"""The value of a secret is looked for everywhere in a jail while requests with it run: in the memory
and the environment of every process, in files, and in what errors say."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import httpx
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

from daemon import Daemon, processes  # noqa: E402
from e2b import Sandbox  # noqa: E402
from world import Authority, Names, Origin  # noqa: E402

API = "198.51.100.1"
VALUE = "needle-5b0c6e2f-in-no-haystack"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    path = tmp_path_factory.mktemp("world")
    authority, stranger = Authority(path), Authority(path, "stranger")
    origin, false = Origin(*authority.leaf("api.test")), Origin(*stranger.leaf("false.test"))
    names = Names({"api.test": [API], "false.test": ["198.51.100.2"]})
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as trusted:
        trusted.write(open(authority.cert).read())
        trusted.flush()
        os.chmod(trusted.name, 0o644)
        pairs = f"{API}:443=127.0.0.1:{origin.port},198.51.100.2:443=127.0.0.1:{false.port}"
        daemon = Daemon("--egress-map", pairs, "--egress-dns", f"127.0.0.1:{names.port}", "--egress-ca", trusted.name)
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.remove()
            origin.stop()
            false.stop()


@pytest.fixture(scope="module")
def box(daemon):
    headers = {"X-API-Key": daemon.key}
    assert httpx.post(f"{daemon.url}/secrets", json={"name": "needle", "value": VALUE},
                      headers=headers).status_code == 201
    rule = [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.needle}"}}}]
    shell = {"baseUrl": "https://api.test", "header": {"name": "Authorization", "value": "Bearer ${e2b.secrets.needle}"}}
    assert httpx.put(f"{daemon.url}/shells/needle", json=shell, headers=headers).status_code == 200
    made = httpx.post(f"{daemon.url}/sandboxes", headers=headers, timeout=60, json={
        "templateID": "base", "timeout": 600, "secure": True, "shells": ["needle"],
        "network": {"rules": {"api.test": rule, "false.test": rule}}})
    assert made.status_code == 201, made.text
    sandbox = Sandbox.connect(made.json()["sandboxID"], **daemon.sdk)
    yield sandbox
    Sandbox.kill(sandbox.sandbox_id, **daemon.sdk)


def jail_of(sandbox):
    """The processes of the jail, seen from the host: those in the namespace of its marker."""
    marker = sandbox.commands.run("exec -a jail-marker sleep 600", background=True)
    inside, found = [], []
    for process in processes():
        try:
            if b"jail-marker" in (process / "cmdline").read_bytes():
                found.append(process)
        except OSError:
            continue  # it has ended
    namespace = os.readlink(found[0] / "ns" / "pid")
    for process in processes():
        try:
            if os.readlink(process / "ns" / "pid") == namespace:
                inside.append(process)
        except OSError:
            continue  # it has ended
    return marker, inside


def memory_has(process, needles):
    """Which of the needles are in what the process can read and write."""
    found = set()
    try:
        maps = (process / "maps").read_text().splitlines()
        with open(process / "mem", "rb", buffering=0) as mem:
            for line in maps:
                at, mode = line.split()[:2]
                if "r" not in mode or "[v" in line:
                    continue
                start, end = (int(part, 16) for part in at.split("-"))
                mem.seek(start)
                try:
                    bytes_ = mem.read(end - start)
                except OSError:
                    continue
                found.update(needle for needle in needles if needle in bytes_)
    except OSError:
        pass  # it has ended
    return found


LOOP = """
import http.client, sys
c = http.client.HTTPSConnection('api.test')
shell = http.client.HTTPConnection('shell.atoll.internal')
word = 'kept-' + 'by-the-' + 'program'
while True:
    c.request('GET', '/?status=204')
    c.getresponse().read()
    shell.request('GET', '/needle/')  # the API says what it was asked: its answer is guarded
    assert b'[REDACTED]' in shell.getresponse().read()
    print('.', end='', flush=True)
"""


def test_no_process_has_the_value_in_memory_or_environment(box):
    """A secret's value, searched for in the memory and environment of every process of the jail while it is in
    use, is not there."""
    box.files.write("/tmp/loop.py", LOOP)
    loop = box.commands.run("python3 -u /tmp/loop.py", background=True)
    for stdout, _, _ in loop:
        if stdout:
            break
    marker, inside = jail_of(box)
    assert len(inside) >= 3
    needles = (VALUE.encode(), b"kept-by-the-program")
    found = set().union(*(memory_has(process, needles) for process in inside))
    assert found == {b"kept-by-the-program"}
    environments = []
    for process in inside:
        with contextlib.suppress(OSError):  # it has ended
            environments.append((process / "environ").read_bytes())
    assert sum(b"PATH=" in one for one in environments) >= 3
    assert not any(VALUE.encode() in one for one in environments)
    loop.kill()
    marker.kill()


def test_no_file_has_it(box):
    """A secret's value, searched for in every file of the jail, is not there."""
    pattern = f"{VALUE[:-1]}[{VALUE[-1]}]"  # which does not match itself: commands are logged
    search = f"sudo grep -rls --exclude-dir=proc --exclude-dir=sys '{pattern}' / ; true"
    assert box.commands.run(search, timeout=300).stdout == ""
    box.commands.run(f"(printf %s '{VALUE[:-1]}'; printf %s '{VALUE[-1]}') > /tmp/found-by-the-search")
    assert box.commands.run(search, timeout=300).stdout == "/tmp/found-by-the-search\n"
    box.commands.run("rm /tmp/found-by-the-search")


ERRORS = {
    "a server with a false certificate": "curl -sS -i https://false.test/",
    "another host than TLS says": "curl -sS -i -H 'Host: other.test' https://api.test/",
    "an answer that is no good": "curl -sS -i -v https://api.test/cut",
    "a request that is no good": "printf 'GET / HTTP/1.1\\r\\n\\r\\n' | openssl s_client -quiet -connect api.test:443"
                                 " -servername api.test",
    "an echo through a shell": "curl -sS -i http://shell.atoll.internal/needle/",
    "what a shell refuses": "for path in '..;/x' '%2e%2e/x' 'x -X DELETE' 'x -H Host:api.test'; do"
                            " curl -sS -i --path-as-is http://shell.atoll.internal/needle/$path; done",
    "what the daemon says of itself": "env; cat /proc/self/environ; sudo cat /proc/1/environ",
}


@pytest.mark.parametrize("error", ERRORS)
def test_no_error_says_it(box, error):
    """Failed, cut off and refused requests that would carry a secret show nothing of its value."""
    done = box.commands.run(f"({ERRORS[error]}) 2>&1; true", timeout=60)
    assert done.stdout and VALUE not in done.stdout


def test_no_answer_of_the_api_says_it(box, daemon):
    """No answer of the API about secrets, shells, sandboxes or logs shows a secret's value."""
    headers = {"X-API-Key": daemon.key}
    for path in ("/secrets", "/secrets/needle", "/shells", "/shells/needle", f"/sandboxes/{box.sandbox_id}", f"/sandboxes/{box.sandbox_id}/logs"):
        answer = httpx.get(daemon.url + path, headers=headers)
        assert answer.status_code == 200 and VALUE not in answer.text
    answer = httpx.get(f"{daemon.url}/secrets/needle", headers=headers)
    assert answer.headers["cache-control"] == "no-store"


def test_the_authority_s_key_is_not_in_the_jail(box):
    """The private key of the authority that a jail trusts, searched for in the jail, is not there."""
    said = box.commands.run("sudo grep -rls 'PRIVATE KEY' /etc /usr/local /root /home ; true").stdout
    assert "atoll" not in said


def trusted(sandbox):
    """The subjects of all that a jail trusts."""
    return sandbox.commands.run("openssl crl2pkcs7 -nocrl -certfile /etc/ssl/certs/ca-certificates.crt |"
                                " openssl pkcs7 -print_certs -noout | grep ^subject").stdout


def test_the_jail_trusts_its_own_authority_and_no_other_jail_does(box, daemon):
    """The authority made for one sandbox is trusted in no other sandbox."""
    other = Sandbox.create(timeout=600, **daemon.sdk)
    try:
        assert f"sandbox {box.sandbox_id}" in trusted(box)
        assert "subject" in trusted(other) and "sandbox i" not in trusted(other)
    finally:
        Sandbox.kill(other.sandbox_id, **daemon.sdk)


def test_the_store_has_it_sealed(daemon):
    """A secret's value, searched for in the daemon's files, is there only sealed."""
    done = subprocess.run(["grep", "-rlaF", VALUE, str(daemon.data / "state")], capture_output=True, text=True)
    assert done.stdout == "" and done.returncode == 1
    assert (daemon.data / "state" / "secret.key").stat().st_mode & 0o777 == 0o600
