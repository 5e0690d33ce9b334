"""The name of a built-in template changes with its content, and with nothing else: a new name costs every
machine the time to make it again."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from machine import TREE

SHARED, BASE, LIST = "recipe.sh", "base/recipe", "base/packages"
PACKAGES = "code-interpreter-packages"


@pytest.fixture
def templates(tmp_path):
    return shutil.copytree(TREE / "templates", tmp_path / "templates")


def name(templates, template="base"):
    done = subprocess.run([templates / template / "recipe", "name"], check=True, capture_output=True, text=True)
    return done.stdout


def change(templates, file, old, new):
    text = (templates / file).read_text()
    assert old in text
    (templates / file).write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    "file, old, new",
    [
        (SHARED, "reading the package lists", "reading lists"),
        (BASE, "# Runs after", "# It runs after"),
        (LIST, "# terminals", "# terminals, and more"),
    ],
    ids=["a message", "a comment", "a comment of a list"],
)
def test_words_cost_nothing(templates, file, old, new):
    before = name(templates), name(templates, "code-interpreter-packages")
    change(templates, file, old, new)
    assert (name(templates), name(templates, "code-interpreter-packages")) == before


@pytest.mark.parametrize(
    "file, old, new",
    [
        (SHARED, "chmod 777", "chmod 755"),
        (SHARED, "--numeric-owner", "--owner=0"),
        (BASE, "suite=trixie", "suite=forky"),
        (LIST, "vim-tiny", "vim"),
        ("base/python-records", "RECORD", "OTHER"),
        ("base/node/package-lock.json", "sha512-", "sha1-"),
    ],
)
def test_content_has_a_name_of_its_own(templates, file, old, new):
    before = name(templates), name(templates, "code-interpreter-packages")
    change(templates, file, old, new)
    after = name(templates), name(templates, "code-interpreter-packages")
    assert before[0] != after[0] and before[1] != after[1]


@pytest.mark.parametrize(
    "file, old, new",
    [
        ("packages", "r-recommended", "r-base"),
        ("requirements.txt", "sha256:", "sha512:"),
        ("pip.conf", "no-cache-dir = true", "no-cache-dir = false"),
        ("package-lock.json", "sucrase", "sucrose"),
        ("node/package-lock.json", "axios", "other"),
    ],
)
def test_every_list_of_the_interpreter_is_in_its_name(templates, file, old, new):
    before = name(templates), name(templates, PACKAGES)
    change(templates, f"{PACKAGES}/{file}", old, new)
    assert name(templates) == before[0] and name(templates, PACKAGES) != before[1]


def test_what_the_interpreter_lists_is_locked():
    """requirements.txt has every line of requirements.in, with hashes; no lock says where a file is fetched from."""
    place = TREE / "templates" / PACKAGES
    wanted = {line for line in (place / "requirements.in").read_text().splitlines() if line and line[0] != "#"}
    blocks = (place / "requirements.txt").read_text().replace(" \\\n", " ").splitlines()
    locked = {block.split()[0].replace("_", "-") for block in blocks}
    assert {line.replace("_", "-") for line in wanted} <= locked
    assert all(" --hash=sha256:" in block for block in blocks)
    for folder in (place, place / "node"):
        lock = json.loads((folder / "package-lock.json").read_text())["packages"]
        asked = json.loads((folder / "package.json").read_text())["dependencies"]
        assert {one: lock[f"node_modules/{one}"]["version"] for one in asked} == asked
        assert not [one for one, about in lock.items() if "resolved" in about]


def test_the_node_of_base_is_locked():
    """For both processors in one version, each file by its hash, and no lock says where a file is fetched from."""
    place = TREE / "templates" / "base" / "node"
    lock = json.loads((place / "package-lock.json").read_text())["packages"]
    asked = json.loads((place / "package.json").read_text())
    wanted = asked["dependencies"] | asked["optionalDependencies"]
    assert {one: lock[f"node_modules/{one}"]["version"] for one in wanted} == wanted
    assert all(lock[f"node_modules/{one}"]["integrity"].startswith("sha512-") for one in wanted)
    assert {lock[f"node_modules/node-linux-{cpu}"]["cpu"] for cpu in ("x64", "arm64")} == {"x64", "arm64"}
    assert len(set(asked["optionalDependencies"].values())) == 1
    assert not [one for one, about in lock.items() if "resolved" in about]


def test_the_servers_packages_follow_from_what_is_installed_ahead(templates, monkeypatch):
    """Another entry of the catalogue, or another text in one, costs nothing."""
    build = Path(os.environ.get("BUILD", TREE / "build"))
    monkeypatch.setenv("ATOLL_GATEWAY", str(build / "src/inside/gateway/mcp-gateway"))
    catalogue = "mcp-gateway/catalogue.json"
    before = name(templates, "mcp-gateway-packages")
    change(templates, catalogue, '"The time, and its zones"', '"The time"')
    change(templates, catalogue, "{", '{\n  "another": {"about": "x", "npm": "another"},')
    assert name(templates, "mcp-gateway-packages") == before
    change(templates, catalogue, '"pypi": "mcp-server-time"', '"pypi": "mcp-server-time==1"')
    assert name(templates, "mcp-gateway-packages") != before
