"""Starts that fail or are stopped, and what is left of them: nothing."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from daemon import PROGRAM, SETTINGS, Daemon, open_way, until
from e2b import Sandbox

# Mounts and starts a process of its own, as mmdebstrap does, and never ends.
RECIPE = """#!/bin/bash
case $1 in
name) echo base-endless ;;
build)
    mkdir -p "$2/templates/.making.x"
    mount -t tmpfs tmpfs "$2/templates/.making.x"
    sleep 1000 &
    cat /proc/sys/kernel/random/boot_id >"$2/begun"
    wait
    ;;
clean) rm -rf --one-file-system "$2"/templates/.making.* ;;
esac
"""

SETTINGS_OF_BASE = '{"cpuCount": 1, "memoryMB": 128, "diskSizeMB": 128}'


def processes_that_name(text):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in path.read_bytes().decode(errors="replace"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has ended
    return found


def mounts_below(path):
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(path) in line]


def serve(data, *flags, **options):
    return subprocess.Popen(
        [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data", str(data), *SETTINGS, *flags],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.fixture
def data(tmp_path):
    open_way(tmp_path)
    yield tmp_path / "data"
    subprocess.run(["umount", tmp_path / "data" / "pool"], check=False, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_recipe_ends_with_the_daemon(data, tmp_path, number):
    cache, recipe = tmp_path / "cache", tmp_path / "templates" / "base" / "recipe"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(RECIPE)
    recipe.chmod(0o755)
    recipe.with_name("settings.json").write_text(SETTINGS_OF_BASE)
    cache.mkdir()
    flags = ["--cache", str(cache), "--templates", str(tmp_path / "templates")]
    process = serve(data, *flags, start_new_session=True)
    until((cache / "begun").exists, "the recipe runs")
    assert processes_that_name(str(recipe))

    os.kill(process.pid, number)
    assert process.wait(timeout=60) != 0
    until(lambda: not processes_that_name(str(recipe)), "the recipe is gone")
    assert not mounts_below(cache)
    if number != signal.SIGKILL:
        assert not mounts_below(data)
        assert not list((cache / "templates").iterdir())


def test_a_busy_port_is_found_before_anything_is_made(data):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        process = serve(data, "--listen", address)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"another program listens on {address}" in said and "--listen" in said
    assert not data.exists()


def test_a_setting_that_cannot_be_read_is_found_before_anything_is_made(data):
    process = serve(data, "--egress-map", "198.51.100.10=127.0.0.1")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "'198.51.100.10=127.0.0.1' is not of the form ADDRESS[:PORT]=ADDRESS:PORT" in said
    assert not data.exists()


def test_an_orderly_end_leaves_nothing_mounted():
    daemon = Daemon()
    try:
        daemon.start()
        assert mounts_below(daemon.data)
        daemon.stop()
        assert not mounts_below(daemon.data)
        daemon.start()
        assert daemon.is_ready()
    finally:
        daemon.remove()


def test_a_failed_start_leaves_nothing_mounted(data):
    flags = ["--tls-listen", "127.0.0.1:0", "--tls-cert", "/nope", "--tls-key", "/nope"]
    process = serve(data, *flags)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "read the certificate /nope: No such file or directory" in said
    assert not mounts_below(data)


def test_a_stop_says_what_it_waits_for():
    daemon = Daemon()
    try:
        daemon.start()
        sandbox = Sandbox.create(timeout=600, **daemon.sdk)
        listened_to = sandbox.commands.run("sleep 1000", background=True, timeout=0)
        daemon.stop()
        assert "waiting up to 5 s for 1 connection that clients still use" in daemon.said()
        del listened_to
    finally:
        daemon.remove()
