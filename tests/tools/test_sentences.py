"""No script of tools/ ends with an error and without a sentence."""

import os
import re
import subprocess

import pytest

from machine import TREE

# Every program that tools/deps runs on its way to an unpacked CRIU.
PROGRAMS = (
    "id dpkg dpkg-query apt-get apt-config sed sort grep mkdir mktemp chmod chown sha256sum "
    "dpkg-deb mv rm"
).split()
SYSTEMS = {
    "Ubuntu 24.04.1 LTS": 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\nID_LIKE=debian\n',
    "Debian GNU/Linux 11 (bullseye)": 'ID=debian\nVERSION_ID="11"\nPRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\n',
    "Debian GNU/Linux forky/sid": 'ID=debian\nPRETTY_NAME="Debian GNU/Linux forky/sid"\n',
    "Fedora Linux 42": 'ID=fedora\nVERSION_ID=42\nPRETTY_NAME="Fedora Linux 42"\n',
    "Arch Linux": 'ID=arch\nPRETTY_NAME="Arch Linux"\nBUILD_ID=rolling\n',
    "an unnamed system": "",
}


def last_line(result):
    return (result.stderr.strip().splitlines() or [""])[-1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_deps_says_why_when_a_program_fails(machine, name):
    machine.pins.write_text("".join(machine.criu_pins()))
    machine.program(name, "exit 1")
    result = machine.deps("criu")
    assert f"{name} " in machine.calls.read_text(), "the program was never run"
    said = [line for line in result.stderr.splitlines() if line.startswith("deps: ")]
    assert said or (result.returncode == 0 and machine.criu == "criu 4.2.1"), result
    assert result.returncode == 0 or last_line(result).startswith("deps: "), result


def test_a_failure_that_nobody_foresaw_names_the_step_and_the_command(machine):
    machine.pins.write_text("".join(machine.criu_pins()))
    machine.program("dpkg-deb", "exit 7")
    result = machine.deps("criu")
    assert result.returncode == 7
    assert list(machine.cache.iterdir()) == [], "a half unpacked directory was left"
    assert re.search(r"^deps: failed at this step: install what 'criu' needs \(line \d+, .*dpkg-deb", last_line(result))


@pytest.mark.parametrize("name", SYSTEMS)
def test_another_system_is_named_before_anything_is_installed(machine, name):
    machine.os_release = machine.directory / "os-release"
    machine.os_release.write_text(SYSTEMS[name])
    result = machine.deps("build", "run", "criu")
    assert result.returncode == 1
    assert result.stderr.startswith(f"deps: atoll is built on Debian 12 and 13, and this is {name}. Nothing was installed.")
    assert len(result.stderr.splitlines()) == 1
    assert machine.calls.read_text() == ""


def test_a_system_without_a_name_is_refused(machine):
    machine.os_release = machine.directory / "none"
    result = machine.deps("build")
    assert result.returncode == 1
    assert "this system is unknown" in last_line(result)
    assert machine.calls.read_text() == ""


@pytest.mark.parametrize("version", ["12", "13"])
def test_supported_releases_are_accepted(machine, version):
    machine.os_release = machine.directory / "os-release"
    machine.os_release.write_text(f'ID=debian\nVERSION_ID="{version}"\nPRETTY_NAME="Debian {version}"\n')
    machine.pins.write_text("".join(machine.criu_pins()))
    result = machine.deps("criu")
    assert result.returncode == 0, result.stderr


def test_another_system_may_be_tried_all_the_same(machine):
    machine.os_release = machine.directory / "os-release"
    machine.os_release.write_text(SYSTEMS["Arch Linux"])
    machine.pins.write_text("".join(machine.criu_pins()))
    assert machine.deps("criu", ATOLL_ANY_SYSTEM="yes").returncode == 0
    assert machine.criu == "criu 4.2.1"


@pytest.mark.parametrize(
    "words, programs, sentence",
    [
        (["tools/deps"], {}, "deps: usage"),
        (["tools/deps", "nothing"], {}, "deps: there is no group 'nothing'"),
        (["tools/build", "{dir}/b"], {"meson": "exit 1"}, "build: meson could not configure"),
        (["tools/build", "{dir}/b"], {"mktemp": "exit 1"}, "build: failed at this step: configure"),
        (["tools/build", "build"], {"ninja": "exit 1"}, "build: meson could not configure build again"),
        (["tools/build", "build"], {"ninja": '[ "${3:-}" = build.ninja ]'}, "build: compiling in build failed"),
        (["tools/install", "{dir}/d", "relative"], {}, "install: PREFIX must be an absolute path"),
        (["tools/install", "{dir}/d", "/usr"], {"install": "exit 1"}, "install: failed at this step: copy"),
        (["tools/uninstall", "{dir}/d", "/usr"], {"rm": "exit 1"}, "uninstall: failed at this step: remove"),
        (["tools/version", "nothing"], {}, "version: usage"),
        (["tools/man-pages", "{dir}/m"], {"mkdir": "exit 1"}, "man-pages: failed at this step: read the help"),
        (["tools/deb", "nothing"], {}, "deb: usage"),
        (["tools/with-daemon"], {}, "with-daemon: usage"),
        (["tools/with-daemon", "true"], {"mktemp": "exit 1"}, "with-daemon: no directory can be made"),
        (["tools/check", "nothing"], {"dpkg-query": "exit 1"}, "check: what the checks need could not be installed"),
        (["tools/clean-root", "11"], {}, "clean-root: usage"),
        (["tools/clean-root", "13"], {"mmdebstrap": "exit 1"}, "clean-root: failed at this step: make a minimal trixie"),
        (["tools/test"], {"dpkg-query": "exit 1"}, "test: what the tests need could not be installed"),
        (["templates/base/recipe", "build", "{dir}/c"], {"mktemp": "exit 1"}, "base template: line "),
        (["templates/base/recipe", "build", "{dir}/c"], {"flock": "exit 1"}, "base template: line "),
        (["templates/base/recipe", "build", "{dir}/c"], {"mmdebstrap": "exit 1"}, "base template: it could not be made"),
        (["templates/base/recipe", "name"], {"sha256sum": "exit 1"}, "base template: line "),
        (["tests/sdk-py/run"], {}, "sdk-py/run: E2B_API_URL is not set"),
        (["tests/sdk-py/venv"], {"sha256sum": "exit 1"}, "sdk-py/venv: failed (line"),
        (["tests/sdk-js/node"], {"flock": "exit 1"}, "sdk-js/node: failed (line"),
    ],
)
def test_each_script_says_why_it_fails(machine, words, programs, sentence):
    if "dpkg-query" in programs:
        programs = {**programs, "apt-get": "exit 1"}
    for name, body in programs.items():
        machine.program(name, body)
    result = machine.run(*[word.format(dir=machine.directory) for word in words], TMPDIR=str(machine.directory))
    assert result.returncode != 0
    assert last_line(result).startswith(sentence), result.stderr


def test_a_clone_of_another_user_is_as_good(machine):
    clone = machine.directory / "clone"
    subprocess.run(["git", "clone", "-q", "--no-local", "--depth", "1", f"file://{TREE}", clone], check=True)
    for path in [clone, *clone.rglob("*")]:
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert subprocess.run(["git", "-C", clone, "status"], capture_output=True).returncode != 0
    result = machine.run(f"{clone}/tools/check", "format", "scoped")
    assert (result.returncode, result.stdout.splitlines()[-1:]) == (0, ["2 passed, 0 failed"]), result


def test_every_script_has_the_handler_that_speaks():
    scripts = []
    for file in sorted([*TREE.glob("tools/*"), *TREE.glob("tests/*/*")]):
        text = file.read_bytes() if file.is_file() else b""
        if re.match(rb"#!/bin/(ba)?sh\b", text):
            scripts.append(file)
            assert b"common.sh" in text, f"{file} does not source common.sh"
            assert not re.search(rb"^\s*trap .*\b(EXIT|ERR)\b", text, re.M), f"{file} replaces its traps"
    assert len(scripts) > 10


def test_whoever_waits_for_apt_sees_how_far_it_is(machine):
    """A first `make run` fetches 200 MB: minutes in which nothing was printed."""
    machine.program("dpkg-query", "")
    machine.program("apt-get", """
        [ "$LC_ALL" = C ] || [ "$1" != install ] || exit 1
        [ "$1" = install ] || exit 0
        echo 'Need to get 12.3 MB/45.6 MB of archives.'
        for i in $(seq 40); do echo "Get:$i http://deb.example bookworm/main amd64 p$i amd64 1 [2 kB]"; done
        for i in $(seq 40); do echo "Unpacking p$i (1) ..."; done
        for i in $(seq 40); do echo "Setting up p$i (1) ..."; done
    """)
    result = machine.deps("sdk")
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stderr.splitlines() if line.startswith("  ")] == [
        "  12.3 MB to fetch", "  20 packages fetched", "  40 packages fetched", "  unpacking",
        "  20 packages set up", "  40 packages set up",
    ]  # fmt: skip
