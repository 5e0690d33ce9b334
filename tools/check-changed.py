#!/usr/bin/env python3
"""check-changed.py BUILD SECONDS [SINCE]: gcc -fanalyzer and clang-tidy on the lines of src/ that changed.

Changed is what differs from SINCE: by default from the last tag, else from where this branch left main,
else from the commit before. No source is begun after SECONDS; what was left out is said. BUILD has the
compile_commands.json that tells how each source is compiled."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path.cwd()
DROPPED = {"ccache", "-c", "-MD", "-MMD", "-Werror"}
DROPPED_WITH_VALUE = {"-o", "-MF", "-MQ", "-MT"}
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")
FINDING = re.compile(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", re.M)


def git(*words):
    """The output of a git command, or "" when it fails."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, errors="replace")
    return done.stdout.strip() if done.returncode == 0 else ""


def base():
    branched = git("merge-base", "HEAD", "origin/main") or git("merge-base", "HEAD", "main")
    return (git("describe", "--tags", "--abbrev=0")
            or (branched if branched != git("rev-parse", "HEAD") else "")
            or git("rev-parse", "--verify", "-q", "HEAD~1"))


def changed_lines(since):
    """The numbers of the lines that are new in each file below src."""
    lines, path = {}, None
    for line in git("diff", "-U0", "--no-color", "--diff-filter=d", since, "--", "src/*.c", "src/*.h").splitlines():
        if line.startswith("+++ b/"):
            path = line[6:]
        elif hunk := HUNK.match(line):
            first, n = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + n))
    return lines


def commands(build):
    """How each source is compiled, by its path in the tree."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        directory = pathlib.Path(entry["directory"])
        path = os.path.relpath((directory / entry["file"]).resolve(), ROOT)
        found.setdefault(path, (directory, shlex.split(entry["command"])))
    return found


def analyzer(directory, command):
    """The same command, with the analyzer and without what it would write."""
    words, skip = [], False
    for word in command:
        if not skip and word not in DROPPED and word not in DROPPED_WITH_VALUE:
            words.append(word)
        skip = word in DROPPED_WITH_VALUE
    return directory, [*words, "-fanalyzer", "-c", "-o", "/dev/null"]


def tidy(build, path):
    return ROOT, ["clang-tidy", "-p", str(build), "--quiet", "--extra-arg=-Wno-unknown-warning-option", path]


def findings(directory, command, lines):
    """Of one analyzer, those on lines that changed. One that cannot work at all is a finding, too."""
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    found = []
    for path, line, text in FINDING.findall(done.stdout):
        path = os.path.relpath((directory / path).resolve(), ROOT)
        if int(line) in lines.get(path, ()):
            found.append(f"{path}:{line}: {text}")
    if done.returncode and not FINDING.search(done.stdout):
        found.append(f"{shlex.join(command)}: {done.stdout}")
    return found


def look(build, path, command, lines, deadline):
    """What is wrong with one source, or None when there was no time for it."""
    if time.monotonic() >= deadline:
        return None
    return findings(*analyzer(*command), lines) + findings(*tidy(build, path), lines)


def main(build, seconds, since=""):
    since = since or base()
    if not since:
        print("left out: git knows no earlier commit to compare with")
        return
    build = pathlib.Path(build).resolve()
    lines, known = changed_lines(since), commands(build)
    paths = sorted(path for path in lines if path in known)
    deadline = time.monotonic() + float(seconds)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = list(threads.map(lambda path: look(build, path, known[path], lines, deadline), paths))
    late = found.count(None)
    print(f"{len(paths) - late} of {len(paths)} sources that changed since {since[:12]} were analyzed"
          + (f"; {late} were left out after {seconds} s" if late else ""))
    wrong = sorted({text for one in found if one for text in one})
    print("".join(f"{text}\n" for text in wrong), end="")
    sys.exit(1 if wrong else 0)


main(*sys.argv[1:])
