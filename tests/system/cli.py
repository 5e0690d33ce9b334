"""The command line at a daemon of a test: what the tests of commands share."""

import os
import subprocess

import pytest
from daemon import PROGRAM, end_sandboxes
from e2b import Sandbox

import httpx


def environment(daemon, **more):
    """Nothing of this machine's: the daemon is the one that is named."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {"TERM": "xterm", "E2B_API_URL": daemon.url, "E2B_API_KEY": daemon.key} | more


@pytest.fixture(scope="module")
def atoll(daemon):
    def run(*words, code=0, env=None, **options):
        done = subprocess.run([PROGRAM, *words], env=environment(daemon) if env is None else env, capture_output=True,
                              text=True, timeout=120, **options)
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    return run


@pytest.fixture(scope="module")
def api(daemon):
    with httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=60) as client:
        yield client


@pytest.fixture
def make(daemon, api):
    """Makes sandboxes, which are gone after the test."""

    def one(**options):
        return Sandbox.create(timeout=600, **options, **daemon.sdk).sandbox_id

    yield one
    end_sandboxes(api)
