"""Packages of a newer Debian are known by their sums, and go on being had when a mirror moves on."""


def test_known_packages_are_unpacked_once(machine):
    machine.pins.write_text("".join(machine.criu_pins()))
    first = machine.deps("criu")
    assert first.returncode == 0, first.stderr
    assert machine.criu == "criu 4.2.1"
    assert (machine.cache / "criu/usr/share/libnet9").read_text() == "net"
    second = machine.deps("criu")
    assert (second.returncode, second.stderr) == (0, "")


def test_a_file_with_another_sum_is_not_unpacked(machine):
    lines = machine.criu_pins()
    machine.pins.write_text("".join(lines))
    machine.deb("criu", "4.2.1-1", "not what was pinned")
    result = machine.deps("criu")
    assert machine.criu is None
    assert "no mirror has a version of criu that tools/pins knows" in result.stderr
    assert list(machine.cache.iterdir()) == []


def test_a_replayed_older_version_is_not_unpacked(machine):
    lines = machine.criu_pins()
    machine.pins.write_text("".join(lines))
    older = machine.deb("criu", "4.2-1", "old, with a hole")
    machine.file_of(older).rename(machine.file_of(lines[0]))
    machine.deps("criu")
    assert machine.criu is None


def test_an_older_known_version_stands_in_for_one_that_is_gone(machine):
    lines = machine.criu_pins()
    gone = machine.deb("criu", "4.3-1", "criu 4.3")
    machine.file_of(gone).unlink()
    machine.pins.write_text("".join([gone, *lines]))
    result = machine.deps("criu")
    assert result.returncode == 0, result.stderr
    assert machine.criu == "criu 4.2.1"


def test_without_any_known_version_the_set_up_goes_on_and_says_so(machine):
    lines = machine.criu_pins()
    machine.pins.write_text("".join(lines))
    machine.file_of(lines[1]).unlink()
    result = machine.deps("criu")
    assert result.returncode == 0, result.stderr
    assert "no mirror has a version of libnet9" in result.stderr
    assert "sandboxes are paused without their memory" in result.stderr
    assert machine.criu is None


def test_an_unpacked_version_is_kept_when_newer_ones_cannot_be_had(machine):
    machine.pins.write_text("".join(machine.criu_pins()))
    assert machine.deps("criu").returncode == 0
    gone = machine.deb("criu", "4.3-1", "criu 4.3")
    machine.file_of(gone).unlink()
    machine.pins.write_text(gone + "".join(machine.criu_pins()[1:]))
    result = machine.deps("criu")
    assert result.returncode == 0, result.stderr
    assert "the CRIU that an earlier start unpacked is kept" in result.stderr
    assert machine.criu == "criu 4.2.1"


def test_a_new_line_replaces_what_was_unpacked(machine):
    lines = machine.criu_pins()
    machine.pins.write_text("".join(lines))
    assert machine.deps("criu").returncode == 0
    machine.pins.write_text("".join([machine.deb("criu", "4.3-1", "criu 4.3"), *lines]))
    assert machine.deps("criu").returncode == 0
    assert machine.criu == "criu 4.3"


def test_without_root_what_is_there_is_used(machine):
    machine.pins.write_text("".join(machine.criu_pins()))
    assert machine.deps("criu").returncode == 0
    machine.pins.write_text("".join([machine.deb("criu", "4.3-1", "criu 4.3"), *machine.criu_pins()[1:]]))
    machine.program("id", "echo 1000")
    result = machine.deps("criu")
    assert (result.returncode, result.stderr) == (0, "")
    assert machine.criu == "criu 4.2.1"


def test_without_root_it_says_that_root_is_needed(machine):
    machine.pins.write_text("".join(machine.criu_pins()))
    machine.program("id", "echo 1000")
    result = machine.deps("criu")
    assert result.returncode == 1
    assert result.stderr.endswith("; run this as root (sudo make ...)\n")


def test_a_mirror_that_the_operator_names_is_asked_as_well(machine):
    machine.program("apt-get", 'case $1 in indextargets) echo "http://127.0.0.1:9/debian/" ;; esac')
    machine.pins.write_text("".join(machine.criu_pins()))
    result = machine.deps("criu", ATOLL_MIRRORS=f"{machine.url}/debian")
    assert result.returncode == 0, result.stderr
    assert machine.criu == "criu 4.2.1"


def test_the_archive_of_the_past_that_apt_knows_is_asked_last(machine):
    lines = machine.criu_pins()
    machine.pins.write_text("".join(lines))
    (machine.www / "past").mkdir()
    (machine.www / "debian").rename(machine.www / "past/20260101T000000Z")
    machine.program("apt-config", f'echo "{machine.url}/past/@SNAPSHOTID@/"')
    result = machine.deps("criu")
    assert result.returncode == 0, result.stderr
    assert machine.criu == "criu 4.2.1"
