#!/usr/bin/env python3
"""Tests what tools/check-style.py takes and refuses: test_check_style.py CHECK. TAP on stdout."""
import pathlib
import subprocess
import sys
import tempfile

TAKEN = {
    "a comment that names its subject": "/* The socket is closed by its owner. */",
    "a word that only begins like one": "/* Offers are refused. */",
    "the word inside of a comment": "/* The first. One of them is taken. */",
    "the word in a string": 'const char *a = "/* What */";',
    "steps on lines of their own": "    r = first();\n    r = r < 0 ? r : second();",
    "a loop that assigns": "    while ((r = once()) < 0) {",
}
REFUSED = {
    "What": "/* What is kept. */",
    "Who": "/* Who waits is told. */",
    "Of": "/* Of two, the first. */",
    "One": "/* One that waits. */",
    "a field's comment": "    int a; /* Of the jail. */",
    "a file's comment": "/* a.c - What is kept. */",
    "a condition that assigns": "    if ((r = first()) < 0) {",
    "a chain of steps": "    if ((r = first()) < 0 ||\n        (r = second()) < 0) {",
    "a chain after a test": "    if (ready && (r = first()) < 0) {",
}


def verdict(check, text):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "a.c").write_text(text + "\n")
        return subprocess.run([sys.executable, check, folder], capture_output=True).returncode


cases = [(name, text, 0) for name, text in TAKEN.items()] + [(name, text, 1) for name, text in REFUSED.items()]
print(f"1..{len(cases)}")
for number, (name, text, expected) in enumerate(cases, 1):
    result = "ok" if verdict(sys.argv[1], text) == expected else "not ok"
    print(f"{result} {number} - {'refused' if expected else 'taken'}: {name}")
