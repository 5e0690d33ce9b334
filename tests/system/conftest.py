"""Each process that runs these tests has a mount namespace of its own.

Who starts in a namespace gets a copy of all that is mounted there, and holds it: a keeper of one test would keep the
disk of another test busy that is taken away from under its daemon, and tests that count mounts would see each other's."""

import ctypes
import os
import subprocess

CLONE_NEWNS = 0x20000


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes of processor time; `make test-long` runs it")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), f"make a mount namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
