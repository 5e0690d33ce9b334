"""Each rule that tools/check holds the tree to can fail: in a copy of the tree, where it is broken."""

import json
import shutil
import subprocess

import pytest

from machine import TREE

# A place of a copy's own for what tools/build would make.
BUILD = """#!/bin/bash
[ "$1" != build-fuzz ] || { mkdir -p build-fuzz/tests/fuzz; cp fuzzer build-fuzz/tests/fuzz/fuzz_http1; }
"""
BROKEN = {
    "format": ("src/lib/base/err.c", "\nint   badly( void )\n{ return 1; }\n"),
    "rooms": ("src/lib/base/err.c", '\n#include "serve/sandbox/sandbox.h"\n'),
    "scoped": ("src/lib/base/err.c", "\nvoid bad(void)\n{\n    scoped_fd fd;\n    (void)fd;\n}\n"),
    "rootfiles": ("src/keeper/disk/saved.c", '\nint bad(const char *p)\n{\n    return open(p, O_RDONLY);\n}\n'),
    "redaction": ("src/serve/secrets/identity.c", '\nvoid bad(const char *heard)\n{\n    log_warn("%s", heard);\n}\n'),
    "promises": ("tests/promises.txt", "\nA promise | | tools::test_that_is_not_there\n"),
    "shell": ("tools/uninstall", '\nrm -rf "$nothing"/* $unset_array[0]\n'),
}
CHANGED = {
    "gcc -fanalyzer": "int bad(void)\n{\n    int *at = malloc(4);\n    free(at);\n    return *at;\n}\n",
    "clang-tidy": "int bad(int n)\n{\n    if (n = 1) {\n        return 2;\n    }\n    return 3;\n}\n",
}


def git(tree, *words):
    subprocess.run(["git", "-C", tree, "-c", "user.name=test", "-c", "user.email=test@localhost", *words],
                   check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path):
    """The files that git knows here, as they are now, in a repository of their own."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--",
                            "src", "tools", "tests", "docs/internals", "docs/CATALOGUE.md", ".clang-format", ".clang-tidy", "meson.build"],
                           cwd=TREE, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (TREE / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, tmp_path / name)
    (tmp_path / "tools/deps").write_text("#!/bin/sh\n")
    (tmp_path / "tools/build").write_text(BUILD)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "whole")
    return tmp_path


def check(tree, *parts, **environment):
    return subprocess.run(["env", *(f"{k}={v}" for k, v in environment.items()), tree / "tools/check", *parts],
                          cwd=tree, capture_output=True, text=True)


@pytest.mark.parametrize("part", BROKEN)
def test_a_broken_rule_fails_the_check(tree, part):
    assert check(tree, part).returncode == 0
    name, text = BROKEN[part]
    with open(tree / name, "a") as file:
        file.write(text)
    broken = check(tree, part)
    assert broken.returncode == 1, broken.stdout
    assert "0 passed, 1 failed" in broken.stdout


@pytest.mark.parametrize("tool", CHANGED)
def test_an_analyzer_fails_the_check_for_lines_that_changed(tree, tool):
    source = tree / "src/lib/base/bad.c"
    source.write_text("#include <stdlib.h>\n" + CHANGED[tool])
    build = tree / "build"
    build.mkdir()
    entry = {"directory": str(build), "file": "../src/lib/base/bad.c",
             "command": "cc -I../src -Wall -MD -MF x.d -o x.o -c ../src/lib/base/bad.c"}
    (build / "compile_commands.json").write_text(json.dumps([entry]))
    git(tree, "add", "src")
    git(tree, "commit", "-qm", "bad")
    found = check(tree, "changed")
    assert found.returncode == 1 and "src/lib/base/bad.c:" in found.stdout, found.stdout
    git(tree, "commit", "-q", "--allow-empty", "-m", "other")
    unchanged = check(tree, "changed")
    assert unchanged.returncode == 0 and "0 of 0 sources" in unchanged.stdout, unchanged.stdout
    late = check(tree, "changed", CHECK_SINCE="HEAD~2", CHECK_SECONDS="0")
    assert "1 were left out after 0 s" in late.stdout, late.stdout


@pytest.mark.parametrize("code", [0, 77])
def test_a_fuzzer_that_finds_something_fails_the_check(tree, code):
    (tree / "fuzzer").write_text(f"#!/bin/sh\necho ran\nexit {code}\n")
    for name in ("fuzzer", "tools/build"):
        (tree / name).chmod(0o755)
    done = check(tree, "fuzz", FUZZ_SECONDS="1")
    assert (done.returncode == 0) == (code == 0), done.stdout
    assert "ran" in done.stdout


def test_no_fuzzer_at_all_fails_the_check(tree):
    (tree / "tools/build").write_text("#!/bin/sh\n")
    assert check(tree, "fuzz", FUZZ_SECONDS="1").returncode == 1
