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
