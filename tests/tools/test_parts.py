"""tools/test counts every part, also those that run beside the others."""

import shutil
import subprocess

import pytest

from machine import TREE

COUNTED = ("tools/check", "tools/clean-root", "tools/with-daemon", "tests/tools/run")


@pytest.fixture
def tree(tmp_path):
    """The script itself, with others that say how many tests passed in place of all that it calls."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tests/tools").mkdir(parents=True)
    for name in ("test", "common.sh"):
        shutil.copy2(TREE / "tools" / name, tmp_path / "tools" / name)
    for name in (*COUNTED, "tools/deps", "tools/build"):
        write(tmp_path / name, "echo 2 passed, 0 failed" if name in COUNTED else "")
    return tmp_path


def write(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def parts(tree, *names, lanes=1):
    done = subprocess.run(["env", f"LANES={lanes}", tree / "tools/test", *names], capture_output=True, text=True)
    return done.returncode, done.stdout.strip().splitlines()[-1], done.stdout


def test_all_parts_are_counted(tree):
    assert parts(tree, "check", "tools", "fuzz-brief", "clean-root")[:2] == (0, "10 passed, 0 failed")


@pytest.mark.parametrize("name", ["fuzz-brief", "clean-root"])
def test_what_fails_beside_the_others_is_counted(tree, name):
    write(tree / ("tools/check" if name == "fuzz-brief" else "tools/clean-root"), "echo 1 passed, 1 failed; exit 1")
    code, last, said = parts(tree, "tools", name)
    assert (code, last) == (1, "3 passed, 1 failed"), said


def test_what_dies_beside_the_others_is_counted(tree):
    write(tree / "tools/clean-root", "kill -9 $$")
    code, last, said = parts(tree, "tools", "clean-root")
    assert (code, last) == (1, "2 passed, 1 failed"), said


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_lane_is_counted(tree, lanes):
    code, last, said = parts(tree, "tools", "security", "sdk-js", lanes=lanes)
    assert (code, last) == (0, "6 passed, 0 failed"), said
    assert ("the other lane" in said) == (lanes == 2)


def test_a_lane_that_fails_is_counted(tree):
    write(tree / "tools/with-daemon", "echo 1 passed, 1 failed; exit 1")
    code, last, said = parts(tree, "tools", "security", "sdk-js", lanes=2)
    assert (code, last) == (1, "4 passed, 2 failed"), said


def test_what_node_skips_is_counted(tree):
    write(tree / "tools/with-daemon", "printf '# tests 5\\n# pass 3\\n# fail 0\\n# skipped 1\\n# todo 1\\n# duration_ms 7\\n'")
    code, last, said = parts(tree, "tools", "sdk-js")
    assert (code, last) == (1, "5 passed, 2 failed"), said


def test_a_lane_that_dies_is_counted(tree):
    write(tree / "tools/with-daemon", "kill -9 $PPID")
    code, last, said = parts(tree, "tools", "security", lanes=2)
    assert (code, last) == (1, "2 passed, 1 failed"), said


def test_lanes_are_the_default(tree):
    done = subprocess.run([tree / "tools/test", "tools", "security"], capture_output=True, text=True)
    assert done.returncode == 0 and "the other lane" in done.stdout, done.stdout
