#!/usr/bin/env python3
"""Tests what tools/check-root-files.py takes and refuses: test_check_root_files.py CHECK. TAP on stdout."""
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("check", sys.argv[1])
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)

PLAIN = "static int f(int a)\n{\n    return %s;\n}\n"
ROW = "| `src/keeper/%s.c` | `f` | a name | %s | how |\n"

TAKEN = {
    "a call with a row": (PLAIN % 'openat(a, "b", 0)', ROW % ("x", "root")),
    "a call that takes no name": (PLAIN % "fstat(a, &st)", ""),
    "a function of another name": (PLAIN % "saved_open(a)", ""),
    "a member of that name": (PLAIN % "a->open(b)", ""),
    "a comment": (PLAIN % '1 /* open("/x") */', ""),
    "a sentence": (PLAIN % 'err_set(err, 1, "open(x)")', ""),
}
REFUSED = {
    "a call without a row": (PLAIN % 'open("/x", 0)', ""),
    "a call behind another": (PLAIN % 'a < 0 ? openat(a, "b", 0) : 1', ""),
    "a call by number": (PLAIN % "syscall(SYS_openat2, a)", ""),
    "a call on a second line": (PLAIN % 'a +\n        opendir("/x")', ""),
    "a row without a function": (PLAIN % "0", ROW % ("x", "root")),
    "a row of another file": (PLAIN % 'open("/x", 0)', ROW % ("y", "root")),
    "what a jail prepared": (PLAIN % 'open("/x", 0)', ROW % ("x", "jail")),
    "what somebody else prepared": (PLAIN % 'open("/x", 0)', ROW % ("x", "nobody")),
    "two rows": (PLAIN % 'open("/x", 0)', (ROW % ("x", "root")) * 2),
}


def is_taken(source, page):
    return not check.check({"src/keeper/x.c": source}, page)


cases = [(name, case, True) for name, case in TAKEN.items()] + [(name, case, False) for name, case in REFUSED.items()]
print(f"1..{len(cases)}")
for number, (name, case, expected) in enumerate(cases, 1):
    result = "ok" if is_taken(*case) == expected else "not ok"
    print(f"{result} {number} - {'taken' if expected else 'refused'}: {name}")
