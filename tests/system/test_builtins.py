"""Built-in templates beyond `base`: made while the daemon serves, awaited in a sentence, kept."""

import json
import shutil
import subprocess

import httpx
import pytest
from daemon import PROGRAM, ROOT, Daemon, open_way, until
from e2b import Sandbox

# Makes a layer with one file, once it may go on; or says why not.
RECIPE = """#!/bin/bash
here=$(cd "$(dirname "$0")" && pwd)
case $1 in
name) echo "tool-$(cat "$here/version")" ;;
build)
    echo "  fetching the tool" >&2
    while [ ! -e "$here/go-on" ]; do sleep 0.1; done
    [ ! -e "$here/broken" ] || { echo "tool template: the tool is broken" >&2; exit 1; }
    work=$(mktemp -d) && mkdir -p "$work/opt" "$2/templates"
    cat "$here/version" >"$work/opt/tool"
    chmod -R a+rX "$work"
    tar -C "$work" -c . | zstd -q -o "$2/templates/tool-$(cat "$here/version").tar.zst"
    rm -rf "$work"
    ;;
clean) ;;
esac
"""
SETTINGS = {"from": "base", "cpuCount": 1, "memoryMB": 256, "diskSizeMB": 256, "env": {"TOOL": "yes"}}


@pytest.fixture
def tool(tmp_path):
    """A directory of templates with `base` as it is, and one more."""
    open_way(tmp_path)
    templates = tmp_path / "templates"
    shutil.copytree(ROOT / "templates" / "base", templates / "base")
    shutil.copy(ROOT / "templates" / "recipe.sh", templates)
    tool = templates / "tool"
    tool.mkdir()
    (tool / "recipe").write_text(RECIPE)
    (tool / "recipe").chmod(0o755)
    (tool / "settings.json").write_text(json.dumps(SETTINGS))
    (tool / "version").write_text(tmp_path.name.replace("_", "-").lower())  # the cache is shared
    return tool


@pytest.fixture
def daemon(tool):
    daemon = Daemon("--templates", str(tool.parent), "--with-templates", "tool")
    daemon.start()
    yield daemon
    daemon.remove()
    for archive in (daemon.cache / "templates").glob("tool-*"):
        archive.unlink()


def ask(daemon, template="tool"):
    return httpx.post(
        f"{daemon.url}/sandboxes",
        headers={"X-API-Key": daemon.key},
        json={"templateID": template, "timeout": 60},
        timeout=60,
    )


def version_inside(daemon):
    sandbox = Sandbox.create("tool", timeout=60, **daemon.sdk)
    try:
        return sandbox.commands.run("cat /opt/tool; echo $TOOL").stdout
    finally:
        sandbox.kill()


def test_it_is_awaited_and_then_there(daemon, tool):
    until(lambda: "fetching the tool" in ask(daemon).text, "its recipe says how far it is")
    answer = ask(daemon)
    assert answer.status_code == 503
    assert answer.json()["message"].startswith("the template tool is being made (fetching the tool)")
    with Sandbox.create(timeout=60, **daemon.sdk) as sandbox:
        assert sandbox.is_running()  # base is served meanwhile

    (tool / "go-on").touch()
    until(lambda: "The template tool is ready" in daemon.said(), "the operator is told")
    want = (tool / "version").read_text() + "yes\n"
    assert version_inside(daemon) == want

    daemon.stop()
    daemon.start()
    assert version_inside(daemon) == want


def test_it_is_awaited_from_the_first_request_on(tool):
    """It was "not found" until the process that makes it had looked: here that takes two seconds."""
    (tool / "recipe").write_text(RECIPE.replace("name) echo", "name) sleep 2; echo"))
    daemon = Daemon("--templates", str(tool.parent), "--with-templates", "tool")
    try:
        daemon.start()
        answer = ask(daemon)
        assert answer.status_code == 503 and "the template tool is" in answer.json()["message"], answer.text
    finally:
        daemon.remove()


def test_one_whose_turn_has_not_come_is_awaited(tool):
    """It was "not found" until its own recipe began, which may be many minutes after the start. Its notice is written
    once: a recipe is asked for its name whenever somebody looks whether there is one to write."""
    later = tool.parent / "later"
    shutil.copytree(tool, later)
    (later / "recipe").write_text(RECIPE.replace("tool-", "later-").replace("name) echo", 'name) echo >>"$here/looks"; echo'))
    daemon = Daemon("--templates", str(tool.parent), "--with-templates", "tool,later")
    try:
        daemon.start()
        until(lambda: "fetching the tool" in ask(daemon).text, "the first one is being made")
        answer = ask(daemon, "later")
        assert answer.status_code == 503, answer.text
        assert "is made after others" in answer.json()["message"]
        assert (later / "looks").read_text().count("\n") == 1
    finally:
        daemon.remove()


def test_a_failure_is_told_and_the_daemon_serves(daemon, tool):
    (tool / "broken").touch()
    (tool / "go-on").touch()
    until(lambda: "the tool is broken" in ask(daemon).text, "clients are told")
    assert "could not be made: tool template: the tool is broken" in ask(daemon).json()["message"]
    assert "[tool] tool template: the tool is broken" in daemon.said()
    assert daemon.is_ready()


def test_a_newer_one_replaces_the_old_one(daemon, tool):
    (tool / "go-on").touch()
    until(lambda: "The template tool is ready" in daemon.said(), "the first one")
    old = version_inside(daemon)
    daemon.stop()
    (tool / "version").write_text((tool / "version").read_text() + "-2")
    (tool / "go-on").unlink()
    daemon.start()
    until(lambda: daemon.said().count("[tool]   fetching the tool") == 2, "the second one begins")
    assert version_inside(daemon) == old
    (tool / "go-on").touch()
    until(lambda: version_inside(daemon) != old, "the second one is used")


def test_an_end_in_the_middle_leaves_nothing_running(daemon, tool):
    until(lambda: "fetching the tool" in daemon.said(), "its recipe runs")
    daemon.stop()
    assert str(tool / "recipe") not in subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout


def test_a_start_does_not_wait_for_another_template(daemon, tool):
    """A template takes minutes to unpack. Meanwhile `atoll prepare`, which comes before every start of the
    keeper's unit, finds `base` and is through: here the archive is a pipe that brings nothing."""
    archive = daemon.cache / "templates" / f"tool-{(tool / 'version').read_text()}.tar.zst"
    empty = tool / "empty.tar.zst"
    subprocess.run(f"tar -c -T /dev/null | zstd -q -o {empty}", shell=True, check=True)
    daemon.stop()
    (tool / "recipe").write_text(RECIPE.split("build)")[0] + f"build) mkfifo {archive} ;;\nesac\n")
    daemon.start()
    until(lambda: "Unpacking the template tool" in daemon.said(), "it is being unpacked")

    flags = ["--templates", str(tool.parent), "--data", str(daemon.data), "--cache", str(daemon.cache)]
    subprocess.run([PROGRAM, "prepare", *flags], check=True, capture_output=True, timeout=60)
    assert "The template tool is ready" not in daemon.said()
    with open(archive, "wb") as pipe:
        pipe.write(empty.read_bytes())
    until(lambda: "The template tool is ready" in daemon.said(), "it is unpacked")


def test_prepare_all(tool, tmp_path):
    (tool / "go-on").touch()
    flags = ["--templates", str(tool.parent), "--with-templates", "tool", "--pool-size", "16G"]
    flags += ["--data", str(tmp_path / "data"), "--cache", str(Daemon.cache)]
    try:
        done = subprocess.run([PROGRAM, "prepare", "all", *flags], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "The template tool is ready" in done.stderr
        notice = json.loads((tmp_path / "data/run/notices/tool.json").read_text())
        assert notice["layers"].startswith("tool-") and ",base-" in notice["layers"]
        (tool / "settings.json").write_text("{}")
        done = subprocess.run([PROGRAM, "prepare", "all", *flags], capture_output=True, text=True)
        assert done.returncode == 1 and "'cpuCount' is missing" in done.stderr
        done = subprocess.run([PROGRAM, "prepare", "some", *flags], capture_output=True, text=True)
        assert done.returncode == 2 and "'some'" in done.stderr
    finally:
        subprocess.run(["umount", tmp_path / "data/pool"], check=False)
        for archive in (Daemon.cache / "templates").glob("tool-*"):
            archive.unlink()
