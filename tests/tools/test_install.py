"""`make install` and `make uninstall` undo each other, but for the configuration."""

import pytest

UNITS = {"atoll.service", "atoll-keeper.service", "atoll-templates.service", "atoll-https.socket"}


def files(directory):
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("prefix, units", [("/usr/local", "etc/systemd/system"), ("/usr", "usr/lib/systemd/system")])
def test_uninstall_leaves_the_configuration_alone(machine, prefix, units):
    dest = machine.directory / "dest"
    other = dest / prefix.lstrip("/") / "lib/other"
    other.mkdir(parents=True)
    (other / "file").write_text("of another program")
    installed = machine.run("tools/install", str(dest), prefix)
    assert installed.returncode == 0, installed.stderr
    there = files(dest)
    assert {f"{units}/{name}" for name in UNITS} <= there
    assert any(name.endswith("sysctl.d/60-atoll.conf") for name in there)
    assert {f"{prefix.lstrip('/')}/share/man/man1/atoll.1", f"{prefix.lstrip('/')}/lib/atoll/end-sandboxes"} <= there
    removed = machine.run("tools/uninstall", str(dest), prefix)
    assert removed.returncode == 0, removed.stderr
    assert files(dest) == {"etc/atoll/atoll.conf", f"{prefix.lstrip('/')}/lib/other/file"}


def test_a_configuration_that_is_there_is_kept(machine):
    config = machine.directory / "dest/etc/atoll/atoll.conf"
    config.parent.mkdir(parents=True)
    config.write_text("listen = 127.0.0.1:1\n")
    assert machine.run("tools/install", str(machine.directory / "dest"), "/usr/local").returncode == 0
    assert config.read_text() == "listen = 127.0.0.1:1\n"


# In a copy of this machine's /etc, without a service manager. $1 is where the programs go.
ALONE = """
    set -e
    mkdir "$1" && mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work"
    mount -t overlay none /etc -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work"
    [ ! -d /run/systemd ] || mount -t tmpfs none /run/systemd
    tools/install "" "$1/usr"
    printf '#!/bin/sh\\necho sandboxes end' >"$1/usr/lib/atoll/end-sandboxes"
    tools/uninstall "" "$1/usr"
    find "$1/usr" "$1/upper" -type f -printf 'left: %P\\n'
"""


def test_sandboxes_end_also_where_no_service_manager_is(machine):
    removed = machine.run(
        "unshare", "--mount", "--propagation", "private", "bash", "-c", ALONE, "bash", str(machine.directory / "alone")
    )
    assert removed.returncode == 0, removed.stderr
    said = removed.stdout.splitlines()
    assert "sandboxes end" in said
    assert {line for line in said if line.startswith("left:")} <= {"left: atoll/atoll.conf"}
