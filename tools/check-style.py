#!/usr/bin/env python3
"""check-style.py [SRC]: fails when a source file breaks one of two rules of docs/STYLE.md.

Words:  no comment begins with What, Who, Of or One. Name the subject instead.
Chains: no condition assigns the result of a step and compares it, as in `if ((r = first()) < 0 || ...)`. The
        steps stand on lines of their own: `r = r < 0 ? r : next();`, or `if (r == 0) { r = next(); }`."""
import pathlib
import re
import sys

COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/', re.S)
BEGINNING = re.compile(r"/\*+\s*(?:-+\s*)?(?:[\w.-]+\.[ch] - )?(What|Who|Of|One)\b")
CHAIN = re.compile(r"\bif \(\(\w+ = [^;]*\) < 0|(?:\|\||&&) \(\w+ = [^;]*\) < 0")


def faults(path):
    text = path.read_text()
    for found in COMMENT.finditer(text):
        word = BEGINNING.match(found[0])
        if word:
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path}:{line}: a comment begins with {word[1]}: name the subject"
    code = COMMENT.sub(lambda found: '""' if found[0][0] == '"' else "\n" * found[0].count("\n"), text)
    for number, line in enumerate(code.splitlines(), 1):
        if CHAIN.search(line):
            yield f"{path}:{number}: a condition assigns and compares: give each step a line of its own"


def main(argv):
    root = pathlib.Path(argv[1] if len(argv) > 1 else "src")
    found = [fault for path in sorted(root.rglob("*.[ch]")) for fault in faults(path)]
    if found:
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
