#!/usr/bin/env python3
"""Fails when a local that cleans up after itself is declared without an initialiser.

Its destructor runs on every way out of the scope, also on a return before the first assignment: unset,
it would free a wild pointer or close a stranger's descriptor. Three forms are allowed:
`scoped_fd a = -1;`, `scoped(fn) struct x a = {0};`, and a macro that brings its own initialiser,
`scoped_buf(a, MAX);`. The attribute itself is written in lib/base/compiler.h alone. The compiler's
-Wjump-misses-init covers a goto that skips the initialiser. Arguments: files; else those of the tree."""
import re
import subprocess
import sys

DECLARATION = re.compile(r"^\s+(?:static\s+)?(scoped(?:_\w+)?\b|json_auto_t\b)([^;]*);", re.MULTILINE)
HOME = "src/lib/base/compiler.h"


def without_comments(text):
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])
    return re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', blank, text, flags=re.DOTALL)


def split_declarators(text):
    """Splits at the commas that are in no bracket."""
    parts, depth = [""], 0
    for char in text:
        depth += char in "([{"
        depth -= char in ")]}"
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def is_complete(kind, rest):
    if kind != "scoped" and rest.startswith("("):
        return True  # a macro that brings its initialiser: plain use of another one does not compile
    return all("=" in part for part in split_declarators(rest))


def findings(path, text):
    text = without_comments(text)
    for found in DECLARATION.finditer(text):
        if not is_complete(found[1], found[2]):
            yield text.count("\n", 0, found.start(1)) + 1, "this scoped local has no initialiser"
    if path != HOME:
        for found in re.finditer(r"\bcleanup\s*\(", text):
            yield text.count("\n", 0, found.start()) + 1, f"use scoped() of {HOME}"


def main():
    paths = sys.argv[1:] or subprocess.check_output(["git", "ls-files", "*.c", "*.h"], text=True).split()
    bad = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line, sentence in findings(path, file.read()):
                print(f"{path}:{line}: {sentence}")
                bad += 1
    sys.exit(bad > 0)


main()
