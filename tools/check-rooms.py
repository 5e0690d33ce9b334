#!/usr/bin/env python3
"""check-rooms.py [SRC]: fails when a source file breaks one of three rules.

Rooms:  MAY_USE is the architecture. A folder of src/ may include headers of itself and of the folders on its
        line, and nothing else. internal.h belongs to its own folder alone, and of a folder in DOORS only the
        named headers are for others.
Length: a file has at most LINES_MAX lines (tests too, when no SRC is given).
Calls:  what BANNED names is not called: each entry says what to call instead."""
import pathlib
import re
import subprocess
import sys

LINES_MAX = 800

# The process that runs a folder's code is its first name: lib (any), wire (both ends of a socket), inside (in a jail),
# keeper (root), serve (the daemon, no privilege), tools (the catalogue), cli (the command line).
MAY_USE = {
    "lib/base": "",
    "lib/guard": "lib/base",
    "lib/http": "lib/base",
    "lib/mcp": "lib/base lib/http",
    "lib/pki": "lib/base",
    "lib/rpc": "lib/base lib/http",
    "lib/web": "lib/base lib/guard",
    "lib/child": "lib/base",
    "wire": "lib/base",
    "inside/unpack": "lib/base",
    "inside/stow": "lib/base",
    "inside/agent": "lib/base lib/http lib/rpc wire inside/stow inside/unpack",
    "inside/interpreter": "lib/base lib/http lib/child wire",
    "inside/gateway": "lib/base lib/mcp lib/http lib/child",
    "keeper/disk": "lib/base wire",
    "keeper/jail": "lib/base wire keeper/disk",
    "keeper/checkpoint": "lib/base wire keeper/disk keeper/jail inside/stow",
    "keeper/travel": "lib/base wire keeper/disk keeper/jail keeper/checkpoint",
    "keeper": "lib/base wire keeper/disk keeper/jail keeper/checkpoint keeper/travel",
    "serve/keeper": "lib/base wire",
    "serve/store": "lib/base",
    "serve/template": "lib/base serve/store",
    "serve/template/image": "lib/base lib/guard lib/web wire",
    "serve/secrets": "lib/base lib/pki serve/store",
    "serve/egress": "lib/base lib/guard lib/http lib/pki",
    "serve/secrets/shell": "lib/base serve/egress serve/secrets serve/store",
    "serve/sandbox": "lib/base lib/http lib/rpc wire serve/keeper serve/store serve/template serve/egress",
    "serve/volume": "lib/base lib/http serve/keeper serve/store serve/sandbox",
    "serve/template/build": "lib/base wire serve/keeper serve/store serve/template serve/sandbox serve/template/image",
    "serve/telemetry": "lib/base lib/guard lib/http lib/web serve/keeper serve/store serve/sandbox",
    "serve/edge": "lib/base lib/http lib/rpc wire serve/sandbox serve/web",
    "serve/web": "lib/base lib/http serve/store",
    "serve/api": "lib/base lib/guard lib/http serve/keeper serve/secrets serve/secrets/shell serve/store serve/template "
    "serve/sandbox serve/template/build serve/volume serve/telemetry serve/web serve/api/openapi",
    "tools": "lib/base lib/guard lib/mcp lib/http lib/rpc wire tools/catalogue tools/helpers",
    "serve/daemon": "lib/base lib/http lib/pki wire keeper keeper/disk serve/keeper serve/secrets serve/secrets/shell "
    "serve/store serve/template serve/egress serve/sandbox serve/telemetry serve/edge serve/web serve/api serve/template/build",
    "cli": "lib/base lib/mcp lib/rpc lib/web wire keeper serve/daemon tools",
}

# Headers of a folder that other rooms may include, where not all are.
DOORS = {
    "keeper": ["probe.h"],
    "keeper/disk": ["pool.h"],
    "serve/egress": ["egress.h", "shell.h"],
    "tools": ["tool.h", "tools.h"],
}

BANNED = {
    "strcpy": "str_copy() or snprintf()",
    "strcat": "snprintf() or a struct buf",
    "strncpy": "str_copy() or snprintf()",
    "strncat": "snprintf() or a struct buf",
    "sprintf": "snprintf()",
    "vsprintf": "vsnprintf()",
    "gets": "getline()",
    "strtok": "str_split()",
    "atoi": "strtol(), and look at where it stopped",
    "atol": "strtol(), and look at where it stopped",
    "alloca": "a fixed array or the heap",
    "system": "fork and exec, without a shell",
    "popen": "fork and exec, without a shell",
    "mktemp": "mkostemp()",
    "tmpnam": "mkostemp()",
    "rand": "id_random() or getrandom()",
    "ctime": "clock.h",
    "asctime": "clock.h",
    "gmtime": "gmtime_r()",
    "localtime": "localtime_r()",
    "gethostbyname": "c-ares, on the loop",
    "usleep": "nanosleep()",
}
CALL = re.compile(r"(?<![\w.>\"-])(" + "|".join(BANNED) + r")\s*\(")
INCLUDE = re.compile(r'#include "([a-z0-9_/-]+)/([a-z0-9_-]+\.h)"')


def code(text):
    """The text without comments and strings, with its lines."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', lambda match: "\n" * match[0].count("\n"), text, flags=re.S)


def room(folder):
    return folder.split("/")[0]


def faults(root, path):
    folder = str(path.relative_to(root).parent)
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found or found[1] == folder:
            continue
        owner, header = found[1], found[2]
        private = header == "internal.h" or (room(owner) != room(folder) and header not in DOORS.get(owner, [header]))
        if owner not in MAY_USE.get(folder, "").split() or private:
            yield f"{path}:{number}: {folder} may not include {owner}/{header}"
    for number, line in enumerate(code(text).splitlines(), 1):
        if found := CALL.search(line):
            yield f"{path}:{number}: {found[1]}() is banned: call {BANNED[found[1]]}"


def too_long(path):
    lines = path.read_text().count("\n")
    if lines > LINES_MAX:
        yield f"{path}: {lines} lines, of at most {LINES_MAX}"


def tests():
    """The tests of the tree: installed packages lie beside them."""
    listed = subprocess.run(["git", "ls-files", "tests/*.[ch]", "tests/*.py"], check=True, capture_output=True, text=True)
    return [path for path in map(pathlib.Path, listed.stdout.split()) if path.exists()]


def main(argv):
    root = pathlib.Path(argv[1] if len(argv) > 1 else "src")
    sources = sorted(root.rglob("*.[ch]"))
    others = [] if len(argv) > 1 else tests()
    found = [fault for path in sources for fault in faults(root, path)]
    found += [fault for path in sources + others for fault in too_long(path)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
