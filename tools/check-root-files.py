#!/usr/bin/env python3
"""Fails when code that runs as root opens a name in a way that nobody has thought about.

docs/internals/keeper-files.md has a table of every function of src/keeper and src/inside/stow that calls the
kernel with a name: which names, who may have prepared what is there, and how it is opened. A function that
is not in the table is refused, and so is a row without a function. Names that a jail may have prepared
are for one file alone, tenant_file.c, and for the few functions that find them without opening them."""
import pathlib
import re
import sys

ROOTS = ["src/keeper", "src/inside/stow"]
PAGE = "docs/internals/keeper-files.md"

# Calls that take a name, of the C library, of the kernel and of lib/base.
CALLS = """
    open openat openat2 creat fopen freopen opendir scandir nftw
    stat lstat fstatat statx statfs statvfs access faccessat eaccess readlink readlinkat realpath
    truncate rename renameat renameat2 unlink unlinkat rmdir remove link linkat symlink symlinkat
    mkdir mkdirat mknod mknodat mkfifo mkfifoat chmod fchmodat chown lchown fchownat utimensat
    getxattr lgetxattr setxattr lsetxattr listxattr name_to_handle_at
    mount umount2 open_tree move_mount chdir chroot execv execve execl execvp posix_spawnp
    small_file_read small_file_number
""".split()
NUMBERED = "openat2 openat open pivot_root execveat".split()  # by syscall(SYS_...)
CALL = re.compile(r"(?<![\w.>\"])(?:(%s)\(|SYS_(%s)\b)" % ("|".join(CALLS), "|".join(NUMBERED)))

# In the column "prepared by".
PREPARERS = {
    "root": "in a directory that root alone may write",
    "kernel": "procfs, sysfs and control groups: the kernel's own names",
    "operator": "the host's tree",
    "jail": "the tree of a jail, a volume or a template",
}
# The files that may have rows for what a jail prepared.
OPENERS = ["src/keeper/disk/tenant_file.c"]  # open it
FINDERS = ["src/keeper/disk/mounts.c", "src/keeper/disk/volume.c", "src/keeper/jail/jail_inside.c", "src/keeper/checkpoint/volume_mounts.c"]  # O_PATH
INSIDE = ["src/inside/stow/read.c", "src/inside/stow/write.c", "src/inside/stow/main.c", "src/keeper/disk/pool.c",
          "src/keeper/disk/spare.c"]  # see the page


def without_comments(text):
    """The same lines, with blanks for comments and the insides of strings."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)

    def blank(match):
        found = match.group()
        return re.sub(r"[^\n]", " ", found) if found[0] == "/" else '"' + " " * (len(found) - 2) + '"'

    return pattern.sub(blank, text)


def functions(text):
    """Yields (line, function, call) for each call with a name. A function begins with its brace in column 0."""
    head, name = [], None
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        if line.startswith("{"):
            found = re.findall(r"(\w+)\(", " ".join(head))
            name = next((word for word in found if word not in ("scoped", "__attribute__")), None)
        elif line.startswith("}"):
            head, name = [], None
        elif name is None:
            head = head + [line] if line.strip() and not line.startswith("#") else []
        if name:
            for match in CALL.finditer(line):
                yield number, name, match.group(1) or match.group(2)


def table(page):
    """The rows of the page's table: {(file, function): prepared by}."""
    rows, problems = {}, []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        match = re.fullmatch(r"`(src/\S+)`", cells[0])
        if not match or len(cells) != 5:
            continue
        if cells[3] not in PREPARERS:
            problems.append(f"{PAGE}: prepared by '{cells[3]}'; that is one of {', '.join(PREPARERS)}")
        for function in re.findall(r"`(\w+)`", cells[1]):
            if (match.group(1), function) in rows:
                problems.append(f"{PAGE}: {match.group(1)} has two rows for {function}()")
            rows[match.group(1), function] = cells[3]
    return rows, problems


def check(sources, page):
    """sources: {path: text}. Returns sentences."""
    rows, problems = table(page)
    seen = set()
    for path, text in sorted(sources.items()):
        for number, function, call in functions(text):
            seen.add((path, function))
            if (path, function) not in rows:
                problems.append(f"{path}:{number}: {function}() calls {call}() with a name, and is not in {PAGE}")
    for path, function in sorted(set(rows) - seen):
        problems.append(f"{PAGE}: {path} has no function {function}() that takes a name")
    for (path, function), preparer in sorted(rows.items()):
        if preparer == "jail" and path not in OPENERS + FINDERS + INSIDE:
            problems.append(f"{PAGE}: {path}: {function}() opens what a jail prepared: use tenant_file.h")
    return problems


def main():
    top = pathlib.Path(__file__).resolve().parent.parent
    sources = {}
    for root in ROOTS:
        for path in sorted((top / root).rglob("*.[ch]")):
            sources[str(path.relative_to(top))] = path.read_text()
    if sys.argv[1:] == ["--list"]:
        for path, text in sorted(sources.items()):
            for number, function, call in functions(text):
                print(path, function, call, number)
        return 0
    problems = check(sources, (top / PAGE).read_text())
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
