"""tools/release: two commits and a tag, or a sentence and nothing."""

import re
import shutil
import subprocess

import pytest

from machine import TREE

NEXT = "99.0.0"


@pytest.fixture
def clone(machine):
    """With the whole history, as whoever makes a release has it, but for this tree's tags."""
    tree = machine.directory / "tree"
    subprocess.run(["git", "clone", "-q", "--no-tags", TREE, tree], check=True, timeout=60)
    for name in ("release", "version", "common.sh"):
        shutil.copy(TREE / "tools" / name, tree / "tools" / name)
    git(tree, "config", "user.name", "x")
    git(tree, "config", "user.email", "x@x.org")
    git(tree, "commit", "-q", "-a", "--allow-empty", "-m", "tools of this tree")
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n### Added\n- a thing\n\n## 0.0.1 (2020-01-01)\n- old\n")
    git(tree, "commit", "-q", "-a", "-m", "changes")
    return tree


def git(tree, *words):
    return subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def release(tree, *words):
    return subprocess.run(["tools/release", *words], cwd=tree, capture_output=True, text=True, timeout=60)


def test_a_release_is_two_commits_and_a_tag(clone):
    version = subprocess.run(["tools/version"], cwd=clone, check=True, capture_output=True, text=True).stdout.strip()
    before = git(clone, "rev-parse", "HEAD")
    done = release(clone, NEXT)
    assert done.returncode == 0, done.stderr
    assert git(clone, "log", "--format=%s", f"{before}..HEAD").splitlines() == [f"build: the next release is {NEXT}", f"release: {version}"]
    assert git(clone, "describe", "--exact-match", "HEAD^") == f"v{version}"
    assert git(clone, "cat-file", "-t", f"v{version}") == "tag"
    assert f"git push origin HEAD v{version}" in done.stderr
    changes = git(clone, "show", f"v{version}:CHANGELOG.md")
    assert re.search(rf"^## Unreleased\n\n## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)\n\n### Added\n- a thing$", changes, re.M), changes
    assert f" version: '{version}'" in git(clone, "show", f"v{version}:meson.build")
    assert subprocess.run(["tools/version"], cwd=clone, capture_output=True, text=True).stdout == f"{NEXT}\n"
    # What an upgrade is tested from, and what a package is called.
    before = '. tools/common.sh; version_before'
    assert subprocess.run(["bash", "-c", before], cwd=clone, capture_output=True, text=True).stdout.strip() == f"v{version}"
    released = git(clone, "rev-parse", "HEAD^")
    git(clone, "checkout", "-q", released)
    assert subprocess.run(["tools/version", "package"], cwd=clone, capture_output=True, text=True).stdout == f"{version}\n"
    # A clone to which no tag came knows the release by its commit.
    git(clone, "tag", "-d", f"v{version}")
    assert subprocess.run(["tools/version", "package"], cwd=clone, capture_output=True, text=True).stdout == f"{version}\n"
    git(clone, "checkout", "-q", "-")
    assert subprocess.run(["bash", "-c", before], cwd=clone, capture_output=True, text=True).stdout.strip() == released
    assert "~" in subprocess.run(["tools/version", "package"], cwd=clone, capture_output=True, text=True).stdout


def test_a_clone_without_an_earlier_release_says_so(clone):
    git(clone, "checkout", "-q", "--orphan", "alone")
    git(clone, "commit", "-q", "-m", "the first")
    git(clone, "commit", "-q", "--allow-empty", "-m", "the second")
    done = subprocess.run(["bash", "-c", ". tools/common.sh; version_before"], cwd=clone, capture_output=True, text=True)
    assert done.returncode != 0 and "this clone has no earlier release" in done.stderr


def without_changes(tree):
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.0.1 (2020-01-01)\n- old\n")
    git(tree, "commit", "-q", "-a", "-m", "none")


def with_the_tag(tree):
    version = subprocess.run(["tools/version"], cwd=tree, check=True, capture_output=True, text=True).stdout.strip()
    git(tree, "tag", f"v{version}")


def with_the_version(tree):
    version = subprocess.run(["tools/version"], cwd=tree, check=True, capture_output=True, text=True).stdout.strip()
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## Unreleased\n- a thing\n\n## {version} (2020-01-01)\n- old\n")
    git(tree, "commit", "-q", "-a", "-m", "released before")


REFUSED = {
    "no version": (lambda tree: None, [], "usage: tools/release NEXT"),
    "an odd version": (lambda tree: None, ["1.x"], "usage: tools/release NEXT"),
    "an earlier version": (lambda tree: None, ["0.0.9"], "does not come after"),
    "changes": (lambda tree: (tree / "README.md").write_text("x"), [NEXT], "not committed"),
    "a tag": (with_the_tag, [NEXT], "is there already"),
    "a version that was released, its tag not here": (with_the_version, [NEXT], "already: raise the version"),
    "nothing to tell": (without_changes, [NEXT], "has no changes below"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_release_is_refused_with_a_sentence(clone, case):
    prepare, words, says = REFUSED[case]
    prepare(clone)
    before = git(clone, "rev-parse", "HEAD"), git(clone, "tag")
    done = release(clone, *words)
    assert done.returncode != 0 and says in done.stderr, done.stderr
    assert (git(clone, "rev-parse", "HEAD"), git(clone, "tag")) == before
