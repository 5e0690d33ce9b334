"""Errors made of another side's words after a secret was put in, beside API shells (test_shell_attacks.py): registries
that were shown credentials, and programs that were given keys."""

import base64
import pathlib
import subprocess
import sys
import tarfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

from catalogue import Catalogue, Refused  # noqa: E402
from daemon import PROGRAM, running  # noqa: E402
from oci import Image, Impostor, entry, layer  # noqa: E402

BUILD = pathlib.Path(PROGRAM).parent
PASSWORD = "registry-password-7b21-x9"
BEARER = "registry-bearer-5521-token-of-the-registry"
KEY = "model-key-4417-that-programs-may-say"
ANSWERS = "http://events.e2b.local/me"  # in every sandbox: the tools ask whether the model can be reached
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode().rstrip("=")


def pull(tmp_path, registry):
    """What the daemon's own code for images says of a pull with credentials."""
    for name in ("state", "saved"):
        (tmp_path / name).mkdir(exist_ok=True)
    command = [BUILD / "tests" / "system" / "image-pull", BUILD / "src" / "inside" / "agent" / "atoll-agent", tmp_path / "state",
               tmp_path / "saved", f"{registry.host}/a", "plain=1", "user=me", f"password={PASSWORD}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout


LOCATIONS = {"as a host": "https://{}.invalid/", "in base64 as a host": "https://{64}.invalid/",
             "as a user": "https://me:{}@nowhere.invalid/", "as a scheme": "{}://nowhere.invalid/",
             "in the query": "https://nowhere.invalid/?{}", "as a port": "https://nowhere.invalid:{}/"}


@pytest.mark.parametrize("kind", ["basic", "bearer"])
@pytest.mark.parametrize("where", LOCATIONS)
def test_no_error_of_a_registry_repeats_credentials(tmp_path, kind, where):
    """A registry redirects to an address that is made of the credentials it was shown: the build's error does not repeat them."""
    shown = PASSWORD if kind == "basic" else BEARER
    encoded = base64.urlsafe_b64encode(shown.encode()).decode().rstrip("=")
    sent = []

    def answer(request):
        authorization = request.headers["Authorization"] or ""
        if request.path.startswith("/token"):
            return 200, {}, b'{"token": "%s"}' % BEARER.encode()
        if kind == "basic" and not authorization.startswith("Basic"):
            return 401, {"WWW-Authenticate": "Basic"}, b""
        if kind == "bearer" and not authorization.startswith("Bearer"):
            realm = f"http://{registry.host}/token"
            return 401, {"WWW-Authenticate": f'Bearer realm="{realm}",service="s",scope="x"'}, b""
        sent.append(authorization)
        return 307, {"Location": LOCATIONS[where].replace("{64}", encoded).replace("{}", shown)}, b""

    registry = Impostor(Image(layer(entry("etc", type=tarfile.DIRTYPE, mode=0o755))), answer)
    said = pull(tmp_path, registry)
    assert sent and '"error"' in said, said  # it had been shown them
    for text in (shown, shown.lower(), shown[4:16], encoded[:16], encoded[:16].lower(), BASIC[:16]):
        assert text not in said, said


@pytest.fixture(scope="module")
def tools():
    with running() as daemon:
        yield Catalogue(daemon)


SAID = {"as it is": 'echo "invalid x-api-key: $ANTHROPIC_API_KEY" >&2',
        "in base64": 'echo "invalid x-api-key: $(printf %s "$ANTHROPIC_API_KEY" | base64 -w0)" >&2',
        "where the sentence is cut": 'printf "%0*d" 100 7 >&2; echo "$ANTHROPIC_API_KEY" >&2',
        "in its answer": 'echo "{\\"is_error\\": true, \\"result\\": \\"invalid key $ANTHROPIC_API_KEY\\"}"'}


@pytest.mark.parametrize("injection", ["sandbox", "command"])
def test_no_error_of_a_program_repeats_the_key_that_it_was_given(tools, injection):
    """A program that was given a key says it as it fails: the tool's error has a mark in its place, also where the sentence is cut."""
    box = tools.create_sandbox(envs={"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": ANSWERS}, env_injection=injection)["sandbox_id"]
    try:
        for how, script in SAID.items():
            tools.write_sandbox_file(sandbox_id=box, path="/tmp/claude", content=f"#!/bin/bash\n{script}\nexit 1\n", mode="755")
            tools.send_sandbox_input(sandbox_id=box, action="shell_command", input="sudo cp /tmp/claude /usr/local/bin/claude")
            with pytest.raises(Refused) as refused:
                tools.setup_sandbox_heartbeat(sandbox_id=box, task="x", interval="1 minute", duration="1 hour")
            said = refused.value.message
            assert "did not write the script" in said, (how, said)
            encoded = base64.b64encode(KEY.encode()).decode()
            assert KEY[:6] not in said and KEY[6:14] not in said and encoded[:8] not in said, (how, said)
    finally:
        tools.kill_sandbox(sandbox_id=box)
