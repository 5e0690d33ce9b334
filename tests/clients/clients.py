"""Installs published clients with an E2B backend of their own, runs a script with each against a
daemon of its own, and tells what works. `--page FILE` writes the results into the marked section of
FILE, where rows of clients that were not run stay; `--install` installs the packages and runs nothing, words are the scripts to run."""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "shared"))
from published import (  # noqa: E402
    CACHE, PROGRAM, WAYS, House, command, commit, finish, install, list_rows, python, run, run_steps,
    show_failures, write_section)

SCRIPT_S = 600
WORKERS = 2
TEMPLATES = {"e2b_desktop": "desktop", "e2b_desktop_js": "desktop"}  # recipes that scripts ask for
TEMPLATE_S = 3600
NEWEST_MINOR = 15  # of the Pythons that are looked for
BEGIN, END = "<!-- clients: begin (made by tests/clients/run --page) -->", "<!-- clients: end -->"


class Client:
    """One line of `versions`."""

    def __init__(self, row):
        script, self.python, *self.packages = row.split()
        self.script = HERE / script
        self.name = self.script.stem
        self.language = {".py": "py", ".mjs": "js"}[self.script.suffix]
        # name[extra]==1.2, @scope/name@1.2
        self.package, self.version = re.fullmatch(r"(@?[^@\[=]+)(?:\[.*\])?(?:==|@)(.+)", self.packages[0]).groups()

    @property
    def title(self):
        """How its row of the page begins."""
        registry = {"py": "PyPI", "js": "npm"}[self.language]
        return f"| {self.package} ({registry})"

    def install(self):
        interpreter = python_of(self.python) if self.language == "py" else None
        return install(CACHE / "clients", self.name, self.language, self.packages, interpreter)

    def sdk(self, place):
        """The version of the SDK that it brought along."""
        if self.language == "py":
            [found] = place.glob("lib/python3*/site-packages/e2b-*.dist-info")
            return found.name.removeprefix("e2b-").removesuffix(".dist-info")
        text = (place / "node_modules" / "e2b" / "package.json").read_text()
        return re.search(r'"version": "([^"]+)"', text)[1]


def clients():
    return [Client(row) for row in list_rows(HERE / "versions")]


def minor_of(interpreter):
    """N of Python 3.N, or 0 if it does not run."""
    asked = [interpreter, "-c", "import sys; print(sys.version_info.minor)"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def python_of(oldest):
    """A Python that is new enough: Debian's, else one in PATH or of pyenv."""
    need = int(oldest.removeprefix("3."))
    found = [python(), *(shutil.which(f"python3.{minor}") for minor in range(need, NEWEST_MINOR + 1))]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found += [str(path) for path in sorted(versions.glob("3.*/bin/python3"))]
    for interpreter in found:
        if interpreter and minor_of(interpreter) >= need:
            return interpreter
    raise RuntimeError(f"no Python {oldest} or newer is in PATH")


def install_all(chosen):
    failed = 0
    for client in chosen:
        try:
            print(client.name, client.install(), flush=True)
        except (RuntimeError, OSError) as error:
            failed += 1
            print(client.name, error, flush=True)
    return 1 if failed else 0


# ---- runs ----


def build_templates(house, chosen):
    """Those that the daemon does not make by itself, as a user does it."""
    for name in sorted({TEMPLATES[client.name] for client in chosen if client.name in TEMPLATES}):
        print(f"building the template {name}", flush=True)
        run(PROGRAM, "template", "build", name, "--cpus", "2", "--memory", "4096", "--data", house.daemon.data,
            timeout=TEMPLATE_S)


def run_way(house, client, place, way):
    about = {"CLIENT_NAME": f"client-{client.name}-{way}".replace("_", "-")}
    results, said = run_steps(command(client.language, place, client.script), place,
                              house.environment(way) | about, SCRIPT_S)
    if "end" not in results:
        results["end"] = ("failed", f"not reached: {said.strip().splitlines()[-1:]}")
    elif results.pop("end")[0] == "absent":  # the SDK cannot be reached this way
        results = {}
    return results, said


def run_client(house, client):
    """The version of its SDK, and the results by way; an installation that fails is a failed step."""
    try:
        place = client.install()
    except (RuntimeError, OSError) as error:
        return "–", {"domain": ({"install": ("failed", str(error))}, "")}
    return client.sdk(place), {way: run_way(house, client, place, way) for way in WAYS}


def show(client, found):
    for way, (results, said) in found.items():
        marks = ", ".join(f"{step}: {result}" for step, (result, _) in results.items())
        print(f"{client.name} {client.version} {way}: {marks or 'this SDK cannot be reached so'}", flush=True)
        show_failures(results, said)


# ---- the page ----


def page_row(client, sdk, found):
    steps = list(dict.fromkeys(step for results, _ in found.values() for step in results))
    ways, broken = [], []
    for way, (results, _) in found.items():
        told = [result for result, _ in results.values() if result != "absent"]
        passed = f"{told.count('ok')} of {len(told)}" if told else "–"
        ways.append(f"{WAYS[way]}: {passed}")
        broken += [f"{step} ({WAYS[way]}): {why}" for step, (result, why) in results.items() if result == "failed"]
    result = "**no**: " + "; ".join(broken) if broken else "yes"
    return (f"{client.title} {client.version} | {sdk} | {'; '.join(steps)} | {'; '.join(ways)} | {result} | "
            f"{datetime.date.today().isoformat()}, {commit()} |")


def rows_of(path):
    """The rows of the page, by client: those of clients that are not run stay as they are."""
    section = Path(path).read_text().partition(BEGIN)[2].partition(END)[0]
    return [row for row in section.splitlines() if row.startswith("| ") and not row.startswith("| client and version |")]


def write_rows(path, tried):
    new = {client.title: page_row(client, sdk, found) for client, sdk, found in tried}
    rows = []
    for client in clients():
        old = [row for row in rows_of(path) if row.startswith(client.title + " ")]
        rows += [new[client.title]] if client.title in new else old
    good = sum("| yes |" in row for row in rows)
    head = "client and version | its SDK | tried | steps that passed | works | run on, at commit"
    write_section(path, BEGIN, END, f"""{good} of {len(rows)} clients work. "–": the SDK that this client wants knows no URLs. Steps
that run code by URLs are left out where its code interpreter knows none.

| {head} |
|{"---|" * len(head.split(" | "))}
""" + "\n".join(rows))


def main():
    parser = argparse.ArgumentParser(prog="tests/clients/run", description=__doc__)
    parser.add_argument("--page", metavar="FILE", help="write the result into FILE")
    parser.add_argument("--install", action="store_true", help="install the packages, run nothing")
    parser.add_argument("words", nargs="*", help="the name of a script")
    options = parser.parse_args()
    chosen = [client for client in clients() if not options.words or client.name in options.words]
    assert chosen, "no line of tests/clients/versions is meant"
    if options.install:
        return install_all(chosen)
    begun = time.monotonic()
    tried = []
    with House() as house, ThreadPoolExecutor(WORKERS) as pool:
        build_templates(house, chosen)
        for client, (sdk, found) in zip(chosen, pool.map(lambda one: run_client(house, one), chosen)):
            show(client, found)
            tried.append((client, sdk, found))
            if options.page:
                write_rows(options.page, tried)
    return finish("clients", [found for _, _, found in tried], begun)


if __name__ == "__main__":
    sys.exit(main())
