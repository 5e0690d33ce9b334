"""The page of these tests is about these tests."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_page_lists_exactly_the_attacks_that_are_tried():
    """An attack that is dropped from the tests, or that no page tells of, must not go unnoticed."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "security-page", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
