"""A test that skips itself counts as one that failed, in every runner."""

import subprocess
import sys

from machine import TREE

REPORT = """<testsuites><testsuite><testcase classname="a" name="runs"/>
<testcase classname="a" name="does not">{}</testcase></testsuite></testsuites>"""


def counted(tmp_path, inner):
    report = tmp_path / "junit.xml"
    report.write_text(REPORT.format(inner))
    done = subprocess.run([sys.executable, TREE / "tools/count-junit.py", report], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()[-1]


def test_of_meson(tmp_path):
    assert counted(tmp_path, "<skipped/>") == (1, "1 passed, 1 failed")
    assert counted(tmp_path, "<failure/>") == (0, "1 passed, 1 failed")  # meson's own status says so
    assert counted(tmp_path, "") == (0, "2 passed, 0 failed")


def test_of_pytest(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "def test_runs(): assert True\n"
        "def test_asks(): pytest.skip('not here')\n"
        "@pytest.mark.skipif(True, reason='not here either')\n"
        "def test_is_marked(): pass\n"
        "@pytest.mark.xfail\n"
        "def test_is_excused(): assert False\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no_skips", "-p", "no:cacheprovider", tmp_path],
                          capture_output=True, text=True, env={"PYTHONPATH": str(TREE / "tests"), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 1 and "2 failed, 1 passed, 1 error" in done.stdout, done.stdout
    assert "not here either" in done.stdout
