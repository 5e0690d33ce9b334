"""What the shell of whoever starts the daemon held does not reach the daemon's processes."""

from pathlib import Path

import pytest
from daemon import Daemon, until
from e2b import Sandbox

SECRETS = {"AWS_SECRET_ACCESS_KEY": "operators-own-9f31", "GCONV_PATH": "/tmp/operators-own-9f31",
           "ATOLL_NO_SETTING": "operators-own-9f31", "BASH_ENV": "/tmp/operators-own-9f31"}
KNOWN = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "APT_CONFIG",
         "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "npm_config_registry", "ATOLL_CACHE", "ATOLL_DOMAIN",
         "ATOLL_HTTP_PROXY", "ATOLL_HTTPS_PROXY", "ATOLL_NO_PROXY", "ATOLL_OTLP_HEADERS",
         "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}


@pytest.fixture(scope="module")
def daemon():
    daemon = Daemon("--with-templates", "none", "--parked-max", "1")
    daemon.environment = {**SECRETS, "ATOLL_DOMAIN": "kept.test"}
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.remove()


def environment_of(pid):
    text = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return dict(entry.split("=", 1) for entry in text.split("\0") if entry)


@pytest.mark.parametrize("name", ["supervisor", "serve", "keeper"])
def test_processes_of_the_daemon_have_known_variables_alone(daemon, name):
    pid = daemon.process.pid if name == "supervisor" else daemon.child(name)
    found = environment_of(pid)
    assert found and set(found) <= KNOWN, name
    assert "operators-own" not in repr(found)


def test_settings_in_the_environment_still_count(daemon):
    with Sandbox.create(**daemon.sdk, timeout=60) as box:
        assert box.get_host(80)
        assert box.commands.run("env").stdout.count("operators-own") == 0
    assert environment_of(daemon.process.pid)["ATOLL_DOMAIN"] == "kept.test"


def test_the_keeper_ends_with_its_supervisor_after_it_made_sandboxes():
    """A change of ids, which every create needs, must not cost the keeper its signal."""
    daemon = Daemon("--with-templates", "none", "--parked-max", "1")
    daemon.start()
    try:
        box = Sandbox.create(**daemon.sdk, timeout=60)
        box.kill()
        keeper = daemon.child("keeper")
        daemon.process.kill()
        daemon.process.wait()
        until(lambda: not Path(f"/proc/{keeper}").exists(), "the keeper has ended")
    finally:
        daemon.remove()
