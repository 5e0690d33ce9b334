"""CRIU is built once from a source that is known by its sum, with our patch; what prevents that is said, and is no
failure of the set-up."""

import time

SAID = "CRIU with our patch was not built: sandboxes that start from one save each have a copy of its memory"


def made(machine):
    """The names in the cache, but for the lock that keeps two builds apart."""
    return sorted(path.name for path in machine.cache.iterdir() if path.name != "criu-zygote.lock")


def test_the_source_is_built_once_with_the_patch(machine):
    machine.pins.write_text(machine.criu_source())
    first = machine.deps("criu-zygote")
    assert first.returncode == 0, first.stderr
    assert machine.criu_zygote == "patched", first.stderr
    assert (machine.cache / "criu-zygote/usr/share/doc/criu/zygote.patch").read_text() == machine.patch.read_text()
    second = machine.deps("criu-zygote")
    assert (second.returncode, second.stderr) == (0, "")
    assert made(machine) == ["criu-zygote"]


def test_another_patch_is_built_again(machine):
    machine.pins.write_text(machine.criu_source())
    machine.deps("criu-zygote")
    machine.pins.write_text(machine.criu_source(says="patched otherwise"))
    machine.deps("criu-zygote")
    assert machine.criu_zygote == "patched otherwise"


def refused(machine, why):
    result = machine.deps("criu-zygote")
    assert result.returncode == 0, result.stderr
    assert why in result.stderr and SAID in result.stderr
    assert machine.criu_zygote is None
    assert made(machine) == []


def test_a_description_with_another_sum_is_not_believed(machine):
    machine.pins.write_text(machine.criu_source())
    [dsc] = machine.www.glob("debian/pool/criu/*.dsc")
    dsc.write_text(dsc.read_text() + "\n")
    refused(machine, "no mirror has a source of criu that tools/pins knows")


def test_an_archive_with_another_sum_is_not_built(machine):
    machine.pins.write_text(machine.criu_source())
    [archive] = machine.www.glob("debian/pool/criu/*.orig.tar.xz")
    archive.write_bytes(archive.read_bytes() + b"\0")
    refused(machine, "no mirror has a source of criu that tools/pins knows")


def test_a_patch_that_does_not_fit_is_said(machine):
    machine.pins.write_text(machine.criu_source())
    machine.patch.write_text(machine.patch.read_text().replace("-int main", "-int other"))
    refused(machine, "zygote.patch does not fit CRIU 4.2.1-1")


def test_a_source_that_does_not_compile_is_said(machine):
    machine.pins.write_text(machine.criu_source(says='"; no C'))
    refused(machine, "CRIU 4.2.1-1 could not be compiled")


def test_an_earlier_build_is_kept_when_the_next_one_fails(machine):
    machine.pins.write_text(machine.criu_source())
    machine.deps("criu-zygote")
    machine.pins.write_text(machine.criu_source(says='"; no C'))
    result = machine.deps("criu-zygote")
    assert result.returncode == 0 and machine.criu_zygote == "patched", result.stderr


def test_it_is_built_in_the_background_while_others_wait_for_it(machine):
    machine.pins.write_text(machine.criu_source())
    later = machine.deps("criu-zygote-later")
    assert later.returncode == 0 and "in the background" in later.stderr
    waited = machine.deps("criu-zygote")
    assert waited.returncode == 0 and machine.criu_zygote == "patched", waited.stderr
    deadline = time.monotonic() + 60
    while [name for name in made(machine) if name.startswith(".")]:  # the other one sees that it is there, and ends
        assert time.monotonic() < deadline
        time.sleep(0.1)
    again = machine.deps("criu-zygote-later")
    assert (again.returncode, again.stderr) == (0, "")


def test_a_failure_in_the_background_is_in_its_log(machine):
    machine.pins.write_text(machine.criu_source(says='"; no C'))
    assert machine.deps("criu-zygote-later").returncode == 0
    log, deadline = machine.cache / "criu-zygote.log", time.monotonic() + 60
    while not log.exists() or SAID not in log.read_text():
        assert time.monotonic() < deadline, log.read_text() if log.exists() else "there is no log"
        time.sleep(0.1)
    assert machine.criu_zygote is None
