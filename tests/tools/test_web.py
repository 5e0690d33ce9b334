"""A machine without npm builds all but the dashboard, or with it: from a released archive, which has it compiled."""

import gzip
import os
import re
import shutil
import subprocess
import sys

import pytest

from machine import TREE

NEEDED = ("bash", "env", "git", "tar", "gzip", "mktemp", "rm", "mkdir", "cp", "cat", "sha256sum", "flock", "dirname", "ls", "date", "cut",
          "sed", "grep", "head", "tail", "tr", "awk", "sort")


@pytest.fixture
def tree(tmp_path):
    """The sources of the dashboard, and the tools that compile and embed them."""
    shutil.copytree(TREE / "web", tmp_path / "tree/web", ignore=shutil.ignore_patterns("node_modules", "dist"))
    (tmp_path / "tree/tools").mkdir()
    for name in ("embed-web", "build-web", "common.sh"):
        shutil.copy(TREE / "tools" / name, tmp_path / "tree/tools" / name)
    return tmp_path / "tree"


@pytest.fixture
def path(tmp_path):
    """A PATH on which there is no npm."""
    (tmp_path / "bin").mkdir()
    for name in NEEDED:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    assert shutil.which("npm", path=str(tmp_path / "bin")) is None
    return str(tmp_path / "bin")


def compiled(tree, sources):
    """As tools/build-web leaves it, but for the compiler."""
    (tree / "web/dist/assets").mkdir(parents=True)
    (tree / "web/dist/index.html").write_text("<!doctype html><title>the page</title>")
    (tree / "web/dist/assets/app-1.js").write_text("the program")
    (tree / "web/dist/assets/app-1.js.br").write_bytes(b"as brotli has it")
    (tree / "web/dist/.sources").write_text(f"{sources}\n")


def sources(tree):
    return subprocess.check_output([sys.executable, tree / "tools/embed-web", "--sources", tree / "web"], text=True).strip()


def embed(tree, path):
    """What it says, and the files of the table by their paths: in gzip, and in brotli or None."""
    out = tree / "files.c"
    done = subprocess.run([sys.executable, tree / "tools/embed-web", out, tree / "files.d", "auto", tree / "web", tree / "built"],
                          env={"PATH": path}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text = out.read_text()
    arrays = {name: bytes(int(number) for number in data.split(","))
              for name, data in re.findall(r"(\w+)\[\] = \{([^}]*)\};", text)}
    rows = re.findall(r'^    \{"([^"]+)", "[^"]+", "[^;]*?", (\w+), (\d+), (\w+), (\d+), ', text, re.M)
    assert rows and all(len(arrays[packed]) == int(length) for _, packed, length, _, _ in rows)
    return done.stderr, {name: (gzip.decompress(arrays[packed]), arrays.get(smaller)) for name, packed, _, smaller, _ in rows}


def test_without_a_compiled_dashboard_there_is_a_page_that_says_so(tree, path):
    said, files = embed(tree, path)
    assert "there is no npm to make the dashboard from: this build has none" in said
    assert files.keys() == {"/"} and b"built without its dashboard" in files["/"][0] and b"make build" in files["/"][0]
    assert "npm-is-missing" in (tree / "files.d").read_text(), "ninja asks again, in case npm is there"


def test_a_compiled_dashboard_of_these_sources_is_embedded(tree, path):
    compiled(tree, sources(tree))
    said, files = embed(tree, path)
    assert said == ""
    assert files == {"/": (b"<!doctype html><title>the page</title>", None), "/assets/app-1.js": (b"the program", b"as brotli has it")}
    assert "npm-is-missing" not in (tree / "files.d").read_text()


def test_a_compiled_dashboard_of_other_sources_is_embedded_with_a_warning(tree, path):
    compiled(tree, sources(tree))
    (tree / "web/src/main.tsx").write_text("changed since")
    said, files = embed(tree, path)
    assert "web/dist was made from other sources, and there is no npm to compile these" in said
    assert files["/assets/app-1.js"][0] == b"the program"


def test_an_archive_carries_the_compiled_dashboard(tmp_path, path, machine):
    """npm is a script here that compiles nothing: what it leaves is in the archive, and fits the archive's own sources."""
    machine.program("npm", 'case "$*" in *build*) mkdir -p "$ATOLL_WEB_OUT" && echo the page >"$ATOLL_WEB_OUT/index.html" ;; esac')
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--no-local", "--depth", "3", f"file://{TREE}", clone], check=True, timeout=60)
    made = subprocess.run([clone / "tools/source-archive"], cwd=clone, env=os.environ | {"PATH": f"{machine.bin}:{os.environ['PATH']}"},
                          capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    (tmp_path / "archive").mkdir()
    subprocess.run(["tar", "-xf", made.stdout.strip(), "-C", tmp_path / "archive"], check=True, timeout=60)
    (tree,) = (tmp_path / "archive").iterdir()
    said, files = embed(tree, path)
    assert said == "" and files["/"][0] == b"the page\n" and "/licenses.txt" in files
