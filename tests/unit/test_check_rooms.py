#!/usr/bin/env python3
"""Tests what tools/check-rooms.py takes and refuses: test_check_rooms.py CHECK. TAP on stdout."""
import pathlib
import subprocess
import sys
import tempfile

TAKEN = {
    "a header of the folder's own": ("lib/base/a.c", '#include "lib/base/err.h"'),
    "one of a folder on its line": ("serve/edge/a.c", '#include "lib/http/http.h"'),
    "a door of another room": ("cli/a.c", '#include "keeper/probe.h"'),
    "a banned name in a comment": ("lib/base/a.c", "/* not strcpy(a, b) */"),
    "a banned name in a string": ("lib/base/a.c", 'const char *a = "system(1)";'),
    "a longer name": ("lib/base/a.c", "int a = my_system(1);"),
    "a file of as many lines as there may be": ("lib/base/a.c", "\n" * 799),
}
REFUSED = {
    "another room": ("lib/base/a.c", '#include "lib/http/http.h"'),
    "a folder above": ("keeper/disk/a.c", '#include "keeper/jail/jail.h"'),
    "root's code in the daemon": ("serve/sandbox/a.c", '#include "keeper/jail/jail.h"'),
    "a header that is no door": ("cli/a.c", '#include "keeper/handle.h"'),
    "an internal.h of another": ("serve/edge/a.c", '#include "serve/sandbox/internal.h"'),
    "a folder without a line": ("new/a.c", '#include "lib/base/err.h"'),
    "a banned call": ("lib/base/a.c", "void f(void) { strcpy(a, b); }"),
    "a call of a shell": ("cli/a.c", "int a = system(command);"),
    "a file that is too long": ("lib/base/a.c", "\n" * 800),
}


def verdict(check, name, text):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / name
        file.parent.mkdir(parents=True)
        file.write_text(text + "\n")
        return subprocess.run([sys.executable, check, folder], capture_output=True).returncode


cases = [(name, *case, 0) for name, case in TAKEN.items()] + [(name, *case, 1) for name, case in REFUSED.items()]
print(f"1..{len(cases)}")
for number, (name, file, text, expected) in enumerate(cases, 1):
    result = "ok" if verdict(sys.argv[1], file, text) == expected else "not ok"
    print(f"{result} {number} - {'refused' if expected else 'taken'}: {name}")
