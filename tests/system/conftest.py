"""The fixtures that most of these tests share; a file that needs another daemon or sandbox has a fixture of the same name.

Each process that runs these tests has a mount namespace of its own. A process that is started in a namespace gets a
copy of every mount there, and holds it: a keeper of one test would keep the disk of another test busy, which is taken
away from under its daemon, and tests that count mounts would see each other's."""

import ctypes
import os
import subprocess

import pytest
from catalogue import Catalogue
from daemon import running

CLONE_NEWNS = 0x20000


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes of processor time; `make test-long` runs it")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), f"make a mount namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.fixture(scope="module")
def daemon():
    with running() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def tools(daemon):
    return Catalogue(daemon)


@pytest.fixture(scope="module")
def box(tools):
    """The id of a sandbox that the tests of a file share."""
    return tools.create_sandbox(timeout_seconds=7200)["sandbox_id"]
