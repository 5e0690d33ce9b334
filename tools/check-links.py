#!/usr/bin/env python3
"""Fails when README.md is too long, when a page links to a file or a heading that is not there, or when a page or a
comment of src/ names a source file that is not there: `src/...`, `tests/...` and the like from the root of the tree,
`folder/file.c` from src/ or tests/, and a bare `file.c` or `file.h` anywhere. In a row of a table that begins with a file
of src/, the functions behind it must be in that file."""
import fnmatch
import pathlib
import re
import subprocess
import sys

README_LINES_MAX = 150
ROOTS = ("bench", "docs", "src", "systemd", "tests")  # not tools and templates, which are words of the API too
OTHERS = ("asm", "criu", "linux", "net", "netinet", "sys")  # folders of the kernel, the C library and CRIU
GENERATED = ("tools/catalogue/handlers.h",)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
EDGE = r"(?<![\w./<>$~:@*-])"  # of a name that is not a part of a longer one
SOURCE = re.compile(EDGE + r"(?:[\w-]+/)*[\w*{},-]*[\w*}]\.[ch]\b")
ROOTED = re.compile(EDGE + r"(?:" + "|".join(ROOTS) + r")/[\w./*{},-]*[\w*}]")
WALK = re.compile(r"^\| `([a-z_/]+\.c)` \| (.*) \|$", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


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


def spelled_out(name):
    """a/{b,c}.h names two files."""
    group = re.search(r"\{([^{}]*)\}", name)
    if not group:
        return [name]
    return [each for part in group[1].split(",") for each in spelled_out(name[: group.start()] + part + name[group.end() :])]


def is_there(name, files):
    """Whether a file or a folder of the tree has this name; `*` stands for any text."""
    folder = name.rpartition("/")[0]
    if not folder:
        return any(fnmatch.fnmatch(file, f"*/{name}") for file in files)
    if folder.split("/")[0] in OTHERS or name in GENERATED:
        return True
    name = re.sub(r"\b[A-Z]+\b(?=\.\w+$)", "*", name)  # NAME.json
    places = [name, f"src/{name}", f"tests/{name}"]
    return any(fnmatch.fnmatch(file, place) or file.startswith(f"{place}/") for file in files for place in places)


def missing(path, text, files):
    for name in dict.fromkeys(SOURCE.findall(text) + ROOTED.findall(text)):
        for each in spelled_out(name):
            if not is_there(each, files):
                yield f"{path}: {each}: there is no such file"


def strayed(page):
    """Functions that a table puts into a file that does not define them."""
    for name, cell in WALK.findall(page.read_text()):
        source = pathlib.Path("src", name)
        text = source.read_text() if source.exists() else ""
        for function in re.findall(r"`(\w+)\(\)`", cell):
            if not re.search(rf"^[a-z].*\b{function}\(", text, re.MULTILINE):
                yield f"{page}: {name} has no function {function}()"


def all_missing(files):
    for path in map(pathlib.Path, files):
        if path.suffix == ".md":
            yield from missing(path, re.sub(r"\]\([^)]*\)|https?://\S+", "", path.read_text()), files)
        elif path.suffix in (".c", ".h") and path.parts[0] == "src":
            yield from missing(path, "\n".join(COMMENT.findall(path.read_text())), files)


listed = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split()
present = [name for name in listed if pathlib.Path(name).exists()]
found = [fault for name in present if name.endswith(".md") for fault in faults(pathlib.Path(name))]
found += all_missing(present)
found += [fault for name in present if name.startswith("docs/internals/") for fault in strayed(pathlib.Path(name))]
lines = len(pathlib.Path("README.md").read_text().splitlines())
if lines > README_LINES_MAX:
    found.append(f"README.md: {lines} lines, more than {README_LINES_MAX}")
print("\n".join(found))
sys.exit(bool(found))
