"""Installs published SDKs, runs one scenario with each against a daemon of its own, and tells what
works. `--short` takes the lines that `make test` runs, `--page FILE` writes the result into the
marked section of FILE, words are the lines to run (`py`, `js`, or a version such as 2.63.0)."""

import argparse
import datetime
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "shared"))
from published import (  # noqa: E402
    CACHE, LANGUAGES, WAYS, House, command, commit, count, finish, install, list_rows, run_steps, show_failures,
    write_section)

STEPS = ["create", "command", "files", "pty", "info", "pause", "connect", "run_code", "secure", "build"]
SCENARIO_S = 600
WORKERS = 2
BEGIN, END = "<!-- matrix: begin (made by tests/matrix/run --page) -->", "<!-- matrix: end -->"


class Line:
    """One line of `versions`."""

    def __init__(self, text):
        self.language, self.sdk, self.interpreter, self.when, self.why = text.split(None, 4)
        assert self.language in LANGUAGES and self.when in ("short", "long"), text

    @property
    def packages(self):
        if self.language == "py":
            return [f"e2b=={self.sdk}", f"e2b-code-interpreter=={self.interpreter}"]
        return [f"e2b@{self.sdk}", f"@e2b/code-interpreter@{self.interpreter}"]

    def wanted(self, words):
        return not words or bool({self.language, self.sdk} & set(words))

    def __str__(self):
        return f"{LANGUAGES[self.language]} {self.sdk}"


def lines():
    return [Line(row) for row in list_rows(HERE / "versions")]


# ---- runs ----


def scenario(house, line, place, way):
    """What each step came to, and what was said besides."""
    name = f"matrix-{line.language}-{line.sdk}-{way}".replace(".", "-")
    about = {"MATRIX_NAME": name, "MATRIX_SDK": line.sdk}
    script = HERE / {"py": "scenario.py", "js": "scenario.mjs"}[line.language]
    results, said = run_steps(command(line.language, place, script), place,
                              house.environment(way) | about, SCENARIO_S)
    if results.get("create", ("",))[0] != "absent":
        for step in STEPS:
            results.setdefault(step, ("failed", f"not reached: {said.strip().splitlines()[-1:]}"))
    return results, said


def run_line(house, line):
    """The results by way; an installation that fails is a failed create."""
    try:
        place = install(CACHE / "matrix", f"{line.language}-{line.sdk}", line.language, line.packages)
    except (RuntimeError, OSError) as error:
        return {"domain": ({"create": ("failed", f"not installed: {error}")}, "")}
    return {way: scenario(house, line, place, way) for way in WAYS}


def show(line, found):
    for way, (results, said) in found.items():
        marks = " ".join(f"{step}:{results[step][0]}" for step in STEPS if step in results)
        print(f"{str(line):18} {way:7} {marks}", flush=True)
        show_failures(results, said)


# ---- the page ----


MARKS = {"ok": "yes", "absent": "–", "failed": "**no**"}


def page_rows(tried):
    for line, found in tried:
        for way, (results, _) in found.items():
            if results.get("create", ("",))[0] == "absent":
                cells = "– | " * len(STEPS)
            else:
                cells = "".join(f"{MARKS[results[step][0]]} | " for step in STEPS if step in results)
            yield f"| {LANGUAGES[line.language]} {line.sdk} | {line.interpreter} | {WAYS[way]} | {cells}{line.why} |"


def page(tried):
    head = " | ".join(step.replace("run_code", "run code").replace("secure", "run code, `secure`, 1.x")
                      for step in STEPS)
    rows = "\n".join(page_rows(tried))
    all_found = [found for _, found in tried]
    return f"""Run on {datetime.date.today().isoformat()} at commit {commit()}: {count(all_found, "ok")} steps passed, \
{count(all_found, "failed")} failed.
"–": this SDK has no such call (before its first release with it, or after it was taken out).

| SDK | code interpreter | reached by | {head} | why this version |
|---|---|---|{"---|" * len(STEPS)}---|
{rows}"""


def main():
    parser = argparse.ArgumentParser(prog="tests/matrix/run", description=__doc__)
    parser.add_argument("--short", action="store_true", help="only the lines that `make test` runs")
    parser.add_argument("--page", metavar="FILE", help="write the result into FILE")
    parser.add_argument("words", nargs="*", help="a language or a version")
    options = parser.parse_args()
    chosen = [line for line in lines() if line.wanted(options.words) and
              (line.when == "short" or not options.short)]
    assert chosen, "no line of tests/matrix/versions is meant"
    begun = time.monotonic()
    tried = []
    with House() as house, ThreadPoolExecutor(WORKERS) as pool:
        for line, found in zip(chosen, pool.map(lambda one: run_line(house, one), chosen)):
            show(line, found)
            tried.append((line, found))
    if options.page:
        write_section(options.page, BEGIN, END, page(tried))
    return finish("versions", [found for _, found in tried], begun)


if __name__ == "__main__":
    sys.exit(main())
