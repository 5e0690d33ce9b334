"""What the package is made of agrees with the tree: versions, dependencies, manual pages, completions."""

import hashlib
import pathlib
import re
import shutil
import subprocess

import pytest

from machine import TREE

PROGRAM = TREE / "build/atoll"


def output(*words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60, **options).stdout


def help_text():
    return output(PROGRAM, "help")


def commands():
    return re.findall(r"^  ([a-z-]+)", help_text(), re.M)


def settings():
    return re.findall(r"^  --([a-z-]+) ", output(PROGRAM, "help", "settings"), re.M)


# ---- versions ----


@pytest.fixture
def clone(machine):
    tree = machine.directory / "tree"
    output("git", "clone", "-q", "--no-local", "--depth", "3", f"file://{TREE}", tree)
    shutil.copy(TREE / "tools/version", tree / "tools/version")
    return tree


def package_version(tree):
    return output("tools/version", "package", cwd=tree).strip()


def test_the_program_and_the_package_have_the_version_of_meson_build():
    [version] = re.findall(r"^project\(.*? version: '([^']*)'", (TREE / "meson.build").read_text())
    assert output(PROGRAM, "version") == output(PROGRAM, "--version") == f"atoll {version}\n"
    assert output("tools/version", cwd=TREE) == f"{version}\n"
    assert package_version(TREE).startswith(version)


def test_packages_of_commits_sort_before_their_release_and_after_earlier_commits(clone):
    release = output("tools/version", cwd=clone).strip()
    early = package_version(clone)
    made_s = int(output("git", "log", "-1", "--format=%ct", cwd=clone))
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "x"), ("EMAIL", "x@x.org"), ("DATE", f"{made_s + 1} +0000"))} | {"PATH": "/usr/bin"}
    output("git", "commit", "-q", "--allow-empty", "-m", "later", cwd=clone, env=who)
    late = package_version(clone)
    output("git", "tag", "-a", f"v{release}", "-m", "x", cwd=clone, env=who)
    assert package_version(clone) == release
    for older, newer in [(early, late), (late, release)]:
        output("dpkg", "--compare-versions", older, "lt", newer)


# ---- dependencies ----


def group(name):
    [words] = re.findall(rf'^{name}="([^"]*)"', (TREE / "tools/deps").read_text(), re.M)
    return set(words.split())


def field(name):
    text = (TREE / "debian/control").read_text()
    [value] = re.findall(rf"^{name}: ((?:.*\n(?: .*\n)*))", text, re.M)
    return {re.sub(r" *\(.*?\)", "", word).strip() for line in value.split(",") for word in line.split("|")}


def test_the_package_needs_what_a_run_needs():
    assert group("run") <= field("Depends")
    libraries = re.findall(r'echo "(libbsd0 .*)"', (TREE / "tools/deps").read_text())
    for name in libraries[0].replace("$gnutls", "libgnutls30 libgnutls30t64").split():
        assert name in field("Depends")


def test_the_package_is_built_with_what_a_build_needs():
    assert group("build") - {"libc6-dev"} <= field("Build-Depends")


# ---- what is installed ----


@pytest.fixture
def dest(machine):
    installed = machine.run("tools/install", str(machine.directory / "dest"), "/usr")
    assert installed.returncode == 0, installed.stderr
    return machine.directory / "dest"


def test_the_manual_knows_every_command_and_every_setting(dest):
    page = (dest / "usr/share/man/man1/atoll.1").read_text().replace("\\-", "-")
    config = (dest / "usr/share/man/man5/atoll.conf.5").read_text().replace("\\-", "-")
    assert len(commands()) > 10 and len(settings()) > 30
    for command in commands():
        assert f".BR atoll-{command} (1)" in page, command
    for setting in settings():
        assert f'.BI --{setting} "' in page, setting
        assert setting == "config" or f".BI {setting.replace('-', '_')} " in config, setting
    assert "@" not in re.sub(r"[\w.]+@", "", page + config), "a placeholder was left"


def test_every_command_has_a_page_with_its_help(dest):
    """Each line of `COMMAND --help` is in the page, beside titles and the last hint; the page breaks lines elsewhere."""
    for command in commands():
        page = (dest / f"usr/share/man/man1/atoll-{command}.1").read_text()
        page = page.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
        page = " ".join(" ".join(line for line in page.splitlines() if not line.startswith(".")).split())
        for line in output(PROGRAM, command, "--help").splitlines():
            text = line.removeprefix("usage: ").strip()
            if text and not text.startswith("`atoll help ") and text not in ("Options:", "Examples:"):
                assert " ".join(text.split()) in page, (command, text)


def test_the_help_of_every_command_fits_a_screen():
    for command in commands():
        lines = output(PROGRAM, command, "--help").splitlines()
        assert len(lines) <= 24, (command, len(lines))
        assert max(map(len, lines)) <= 80, (command, max(lines, key=len))
        assert lines[0].startswith(f"usage: atoll {command}")
        assert output(PROGRAM, "help", command).splitlines() == lines


def test_the_manual_is_well_formed(dest):
    pages = sorted((dest / "usr/share/man").rglob("*.[15]"))
    assert {page.name for page in pages} >= {"atoll.1", "atoll.conf.5", "atoll-ps.1"}
    for page in pages:
        shown = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200"})
        assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.parametrize(
    "words, expected",
    [
        (["atoll", "doc"], {"doctor"}),
        (["atoll", "serve", "--tls-"], {"--tls-listen", "--tls-cert", "--tls-key"}),
        (["atoll", "template", "b"], {"build"}),
        (["atoll", "admin"], {"admin-key"}),
        (["atoll", "team", "key"], {"key", "keys", "key-limit"}),
        (["atoll", "shell", ""], {"list", "put", "rm"}),
        (["atoll", "prepare", ""], {"all"}),
        (["atoll", "serve", "--log-level", ""], {"debug", "info", "warn", "error"}),
        (["atoll", "serve", "--merge-pages", ""], {"true", "false"}),
        (["atoll", "tool", "pause_s"], {"pause_sandbox"}),
    ],
)
def test_bash_completes(dest, words, expected):
    script = """
        . "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _atoll atoll "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    completion = dest / "usr/share/bash-completion/completions/atoll"
    env = {"PATH": f"{dest}/usr/bin:/usr/bin:/bin"}
    assert set(output("bash", "-c", script, "bash", completion, *words, env=env).split()) == expected


# ---- the end of sandboxes ----


def test_nothing_of_others_ends_with_the_sandboxes(machine):
    """A data directory that no daemon has: nothing is found, nothing is said."""
    result = machine.run("systemd/end-sandboxes", ATOLL_DATA=str(machine.directory / "none"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.fixture
def stubborn(machine):
    """A process that ignores SIGTERM, as the agent of an older version does, in the group of a data directory."""
    data = machine.directory / "data"
    unified = output("findmnt", "-n", "-o", "TARGET", "-t", "cgroup2").splitlines()[0]
    group = pathlib.Path(unified) / f"atoll-{hashlib.sha256(bytes(data)).hexdigest()[:8]}"
    (group / "jail").mkdir(parents=True)
    process = subprocess.Popen(["sh", "-c", "trap '' TERM; echo ready; read -r line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    (group / "jail/cgroup.procs").write_text(str(process.pid))
    yield data, process
    process.kill()
    process.wait()
    for left in (group / "jail", group):
        if left.exists():
            left.rmdir()


def test_a_shutdown_ends_sandboxes_that_ignore_sigterm(machine, stubborn):
    data, process = stubborn
    machine.program("systemctl", 'case "$*" in list-jobs*shutdown.target) echo "1 shutdown.target start waiting" ;; esac')
    result = machine.run("systemd/end-sandboxes", "at-shutdown", ATOLL_DATA=str(data))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert process.wait(timeout=60) == -9


def test_a_stop_of_the_keeper_ends_no_sandbox(machine, stubborn):
    data, process = stubborn
    machine.program("systemctl", "")
    result = machine.run("systemd/end-sandboxes", "at-shutdown", ATOLL_DATA=str(data))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    process.communicate(b"line\n")
    assert process.returncode == 0


def test_the_keeper_ends_sandboxes_at_a_shutdown(dest):
    unit = (dest / "usr/lib/systemd/system/atoll-keeper.service").read_text()
    [after] = re.findall(r"^ExecStopPost=-(\S+) at-shutdown$", unit, re.M)
    assert (dest / after.lstrip("/")).exists()
