#!/usr/bin/env python3
"""Tests what tools/check-scoped.py takes and refuses: test_check_scoped.py CHECK. TAP on stdout."""
import pathlib
import subprocess
import sys
import tempfile

TAKEN = {
    "a scoped local with an initialiser": "    scoped_fd fd = -1;",
    "an initialiser over several lines": '    scoped_fd fd = open("a;b",\n        0);',
    "two with an initialiser each": "    scoped_fd a = f(1, 2), b = -1;",
    "the general form": "    scoped(x_fini) struct x a = {0, 1};",
    "a macro with its own initialiser": "    scoped_buf(bytes, BYTES_MAX);",
    "a comment that mentions one": "    /* scoped_fd fd; */",
}
REFUSED = {
    "none": "    scoped_fd fd;",
    "one of two without": "    scoped_fd a = f(1, 2), b;",
    "the general form without": "    scoped(x_fini) struct x a;",
    "jansson's without": "    json_auto_t *value;",
    "the bare attribute": "    int a __attribute__((cleanup(f))) = 1;",
}


def verdict(check, text):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "file.c"
        file.write_text(f"void f(void)\n{{\n{text}\n}}\n")
        return subprocess.run([sys.executable, check, str(file)], capture_output=True).returncode


cases = [(name, text, 0) for name, text in TAKEN.items()] + [(name, text, 1) for name, text in REFUSED.items()]
print(f"1..{len(cases)}")
for number, (name, text, expected) in enumerate(cases, 1):
    result = "ok" if verdict(sys.argv[1], text) == expected else "not ok"
    print(f"{result} {number} - {'refused' if expected else 'taken'}: {name}")
