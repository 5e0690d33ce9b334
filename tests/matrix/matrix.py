"""Installs published SDKs, runs one scenario with each against a daemon of its own, and tells what
works. `--short` takes the lines that `make test` runs, `--page FILE` writes the result into the
marked section of FILE, words are the lines to run (`py`, `js`, or a version such as 2.63.0)."""

import argparse
import datetime
import fcntl
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
import httpx  # noqa: E402
from daemon import PROGRAM, Daemon, until  # noqa: E402

CACHE = Path(os.environ.get("ATOLL_CACHE", "/var/cache/atoll")) / "matrix"
STEPS = ["create", "command", "files", "pty", "info", "pause", "connect", "run_code", "secure", "build"]
WAYS = {"domain": "domain, TLS", "url": "URLs"}
LANGUAGES = {"py": "Python", "js": "JavaScript"}
SCENARIO_S = 600
INTERPRETER_S = 1200  # to make its template on a machine that never did
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
    rows = (HERE / "versions").read_text().splitlines()
    return [Line(row) for row in rows if row.strip() and not row.startswith("#")]


# ---- packages ----


def python():
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3"


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words[:4]))} ...: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


def install(line):
    """The directory that has the packages; it is made once and kept."""
    about = " ".join([*line.packages, run(python(), "--version") if line.language == "py" else "node"])
    place = CACHE / f"{line.language}-{line.sdk}-{hashlib.sha256(about.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            run("rm", "-rf", place)
            {"py": install_py, "js": install_js}[line.language](place, line.packages)
            (place / "complete").touch()
    return place


def install_py(place, packages):
    run(python(), "-m", "venv", place)
    run(place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


def install_js(place, packages):
    place.mkdir()
    (place / "package.json").write_text('{"private": true, "type": "module"}\n')
    run("npm", "install", "--prefix", place, "--ignore-scripts", "--no-audit", "--no-fund",
        "--loglevel=error", *packages)


def command(line, place):
    if line.language == "py":
        return [place / "bin" / "python", HERE / "scenario.py"]
    scenario = place / "scenario.mjs"  # modules are found beside the file that asks for them
    scenario.write_text((HERE / "scenario.mjs").read_text())
    return [os.environ["MATRIX_NODE"], scenario]


# ---- the daemon ----


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class House:
    """A daemon that is reached by URL, and by names below localhost over TLS."""

    def __init__(self):
        port = free_port()
        self.domain = f"localhost:{port}"
        self.daemon = Daemon("--tls-listen", f"127.0.0.1:{port}", "--domain", self.domain,
                             "--with-templates", "code-interpreter-v1")
        self.authority = None

    def __enter__(self):
        self.daemon.start()
        until(self.interpreter_is_there, "the code interpreter's template is made", INTERPRETER_S)
        text = run(PROGRAM, "ca", "--data", self.daemon.data)
        self.authority = tempfile.NamedTemporaryFile("w", suffix=".pem")
        self.authority.write(text)
        self.authority.flush()
        return self

    def __exit__(self, *_):
        self.daemon.remove()
        self.authority.close()

    def interpreter_is_there(self):
        answer = httpx.get(f"{self.daemon.url}/templates/aliases/code-interpreter-v1",
                           headers={"X-API-Key": self.daemon.key})
        return answer.status_code == 200

    def environment(self, way):
        common = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
        common |= {"E2B_API_KEY": self.daemon.key, "PYTHONDONTWRITEBYTECODE": "1"}
        if way == "url":
            return common | {"E2B_API_URL": self.daemon.url, "E2B_SANDBOX_URL": self.daemon.url}
        ca = self.authority.name
        return common | {"E2B_DOMAIN": self.domain, "SSL_CERT_FILE": ca, "NODE_EXTRA_CA_CERTS": ca}


# ---- runs ----


def scenario(house, line, place, way):
    """What each step came to, and what was said besides."""
    name = f"matrix-{line.language}-{line.sdk}-{way}".replace(".", "-")
    about = {"MATRIX_NAME": name, "MATRIX_SDK": line.sdk}
    try:
        done = subprocess.run(command(line, place), capture_output=True, text=True, cwd=place,
                              env=house.environment(way) | about, timeout=SCENARIO_S)
        out, said = done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        out, said = (error.stdout or b"").decode(), f"no end after {SCENARIO_S} s"
    results = {}
    for row in out.splitlines():
        if row.startswith('{"step"'):
            told = json.loads(row)
            results[told["step"]] = (told["result"], told["why"])
    if results.get("create", ("",))[0] != "absent":
        for step in STEPS:
            results.setdefault(step, ("failed", f"not reached: {said.strip().splitlines()[-1:]}"))
    return results, said


def run_line(house, line):
    """The results by way; an installation that fails is a failed create."""
    try:
        place = install(line)
    except (RuntimeError, OSError) as error:
        return {"domain": ({"create": ("failed", f"not installed: {error}")}, "")}
    return {way: scenario(house, line, place, way) for way in WAYS}


def show(line, found):
    for way, (results, said) in found.items():
        marks = " ".join(f"{step}:{results[step][0]}" for step in STEPS if step in results)
        print(f"{str(line):18} {way:7} {marks}", flush=True)
        for step, (result, why) in results.items():
            if result == "failed":
                print(f"    {step}: {why}")
        if said and any(result == "failed" for result, _ in results.values()):
            print("    " + "\n    ".join(said.strip().splitlines()[-30:]), flush=True)


def count(all_found, wanted):
    return sum(result == wanted for found in all_found for results, _ in found.values()
               for result, _ in results.values())


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


def page(tried, commit):
    head = " | ".join(step.replace("run_code", "run code").replace("secure", "run code, `secure`, 1.x")
                      for step in STEPS)
    rows = "\n".join(page_rows(tried))
    all_found = [found for _, found in tried]
    return f"""{BEGIN}
Run on {datetime.date.today().isoformat()} at commit {commit}: {count(all_found, "ok")} steps passed, \
{count(all_found, "failed")} failed.
"–": this SDK has no such call (before its first release with it, or after it was taken out).

| SDK | code interpreter | reached by | {head} | why this version |
|---|---|---|{"---|" * len(STEPS)}---|
{rows}
{END}"""


def write_page(path, text):
    old = Path(path).read_text()
    assert BEGIN in old and END in old, f"{path} has no section for the matrix"
    new = re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: text, old, flags=re.S)
    Path(path).write_text(new)


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
        commit = run("git", "-C", HERE, "rev-parse", "--short=10", "HEAD").strip()
        write_page(options.page, page(tried, commit))
    all_found = [found for _, found in tried]
    failed = count(all_found, "failed")
    print(f"{len(chosen)} versions in {time.monotonic() - begun:.0f} s")
    print(f"{count(all_found, 'ok')} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
