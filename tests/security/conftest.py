"""Each test here tries a way out of a jail and passes when it leads nowhere.

The attacks run inside real sandboxes of a running daemon, as root of the jail, through the official
SDK. The base template's Python reaches any system call by ctypes, so nothing needs to be compiled
inside. What an attack would have changed is looked at from outside: hence root on the host."""
import json
import os
import pathlib
import textwrap

import pytest
from e2b import Sandbox

import keeper

# In front of every attack: attempt(NAME, CALL) records what a call came to.
PRELUDE = textwrap.dedent("""
    import ctypes, errno, json, os, socket, struct, sys
    libc = ctypes.CDLL(None, use_errno=True)
    report = {}

    def syscall(number, *args):
        ctypes.set_errno(0)
        result = libc.syscall(ctypes.c_long(number), *[
            ctypes.c_long(a) if isinstance(a, int) else a for a in args])
        return result if result >= 0 else -ctypes.get_errno()

    def attempt(name, call):
        try:
            result = call()
        except OSError as e:
            result = -(e.errno or 0)
        report[name] = errno.errorcode.get(-result, result) if isinstance(result, int) and result < 0 else result
""")


@pytest.fixture(scope="session")
def data_dir():
    return pathlib.Path(os.environ["ATOLL_DATA"])


@pytest.fixture(scope="module")
def sandbox():
    box = Sandbox.create(timeout=300)
    yield box
    box.kill()


@pytest.fixture(scope="module")
def attack(sandbox):
    """Runs Python source inside, as root unless told, and returns its `report`."""

    def run(source, user="root"):
        path = "/tmp/attack.py"
        code = PRELUDE + textwrap.dedent(source) + "\nprint(json.dumps(report))\n"
        sandbox.files.write(path, code, user="root")
        done = sandbox.commands.run(f"python3 {path}", user=user, timeout=60)
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture
def keeper_door(data_dir):
    with keeper.Keeper(data_dir / "run" / "keeper.sock") as door:
        yield door


@pytest.fixture
def base_layer(data_dir):
    return next((data_dir / "pool" / "layers").glob("base-*"))
