#!/usr/bin/env python3
"""Tests what tools/check-links.py takes and refuses: test_check_links.py CHECK. TAP on stdout."""
import pathlib
import subprocess
import sys
import tempfile

TAKEN = {
    "a link to a page": ("docs/a.md", "[b](b.md)"),
    "a link to a heading": ("docs/a.md", "[b](b.md#a-heading)"),
    "a path from the root": ("docs/a.md", "`src/room/file.c`"),
    "a folder": ("docs/a.md", "see src/room."),
    "a path below src": ("docs/a.md", "`room/file.{c,h}`"),
    "a bare name": ("src/room/file.c", "/* as file.h says */"),
    "a header of the kernel": ("src/room/file.c", "/* linux/fs.h */"),
    "a name that is no comment": ("src/room/file.c", '#include "gone/gone.h"'),
    "a pattern": ("docs/a.md", "`src/room/*.h`"),
    "a function in its file": ("docs/internals/a.md", "| `room/file.c` | `here()` |"),
}
REFUSED = {
    "a link to no page": ("docs/a.md", "[c](c.md)"),
    "a link to no heading": ("docs/a.md", "[b](b.md#gone)"),
    "a path from the root that is gone": ("docs/a.md", "`src/gone/file.c`"),
    "a folder that is gone": ("docs/a.md", "see src/gone."),
    "a path below src that is gone": ("docs/a.md", "`gone/file.c`"),
    "a bare name that is gone": ("docs/a.md", "`gone.c`"),
    "a function that is not in its file": ("docs/internals/a.md", "| `room/file.c` | `gone()` |"),
    "a comment with a path that is gone": ("src/room/file.c", "/* see room/gone.h */"),
}


def verdict(check, path, text):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        files = {"README.md": "", "docs/b.md": "# A heading\n", "src/room/file.c": "int here(void)\n", "src/room/file.h": "", path: text}
        for name, content in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(content)
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
        subprocess.run(["git", "add", "."], cwd=tree, check=True)
        return subprocess.run([sys.executable, check], cwd=tree, capture_output=True).returncode


cases = [(name, *case, 0) for name, case in TAKEN.items()] + [(name, *case, 1) for name, case in REFUSED.items()]
print(f"1..{len(cases)}")
for number, (name, path, text, expected) in enumerate(cases, 1):
    result = "ok" if verdict(str(pathlib.Path(sys.argv[1]).resolve()), path, text) == expected else "not ok"
    print(f"{result} {number} - {'refused' if expected else 'taken'}: {name}")
