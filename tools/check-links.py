#!/usr/bin/env python3
"""Fails when a page links to a file or a heading that is not there, or when README.md is too long."""
import pathlib
import re
import subprocess
import sys

README_LINES_MAX = 150
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchor(heading):
    """The fragment that renderers of Markdown make of a heading."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    return {anchor(found) for found in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)}


def faults(page):
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, fragment = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            yield f"{page}: {link}: there is no such file"
        elif fragment and target.suffix == ".md" and fragment not in anchors(target):
            yield f"{page}: {link}: there is no such heading"


listed = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout
found = [fault for name in listed.split() for fault in faults(pathlib.Path(name))]
lines = len(pathlib.Path("README.md").read_text().splitlines())
if lines > README_LINES_MAX:
    found.append(f"README.md: {lines} lines, more than {README_LINES_MAX}")
print("\n".join(found))
sys.exit(bool(found))
