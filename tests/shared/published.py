"""Published packages against a daemon of the tests' own: installs them on demand, runs a script with
them, reads what its steps came to (steps.py, steps.mjs), and writes the result into a page.
tests/matrix and tests/clients are made of it."""

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
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
import httpx  # noqa: E402
from daemon import PROGRAM, Daemon, until  # noqa: E402

CACHE = Path(os.environ.get("ATOLL_CACHE", "/var/cache/atoll"))
WAYS = {"domain": "domain, TLS", "url": "URLs"}
LANGUAGES = {"py": "Python", "js": "JavaScript"}
UV_VERSION = "0.13.7"
INTERPRETER_S = 1200  # to make its template on a machine that never did


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words[:4]))} ...: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


def commit():
    return run("git", "-C", HERE, "rev-parse", "--short=10", "HEAD").strip()


def list_rows(path):
    """The lines of a list that are neither empty nor a comment."""
    return [row for row in path.read_text().splitlines() if row.strip() and not row.startswith("#")]


# ---- packages ----


def python():
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3"


def install(root, label, language, packages, interpreter=None):
    """The directory below `root` that has the packages; it is made once and kept."""
    interpreter = interpreter or python()
    about = " ".join([*packages, run(interpreter, "--version") if language == "py" else "node"])
    place = root / f"{label}-{hashlib.sha256(about.encode()).hexdigest()[:12]}"
    root.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            run("rm", "-rf", place)
            if language == "py":
                install_py(place, packages, interpreter)
            else:
                install_js(place, packages)
            (place / "complete").touch()
    return place


def install_py(place, packages, interpreter):
    installer = uv()
    run(installer, "venv", "--quiet", "--python", interpreter, place)
    run(installer, "pip", "install", "--quiet", "--python", place / "bin" / "python",
        "--cache-dir", CACHE / "uv", *packages)


def uv():
    """The installer: pip takes many minutes for what it does in seconds."""
    place = CACHE / f"uv-{UV_VERSION}"
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "bin" / "uv").exists():
            run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                "--target", place, f"uv=={UV_VERSION}")
    return place / "bin" / "uv"


def install_js(place, packages):
    place.mkdir()
    (place / "package.json").write_text('{"private": true, "type": "module"}\n')
    run("npm", "install", "--prefix", place, "--ignore-scripts", "--no-audit", "--no-fund",
        "--loglevel=error", *packages)


def command(language, place, script):
    """What runs a script with the packages of a directory."""
    if language == "py":
        return [place / "bin" / "python", "-P", script]  # a script may have its package's name
    for source in (script, HERE / "steps.mjs"):  # modules are found beside the file that asks for them
        (place / source.name).write_text(source.read_text())
    return [os.environ["TESTS_NODE"], place / script.name]


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
        common |= {"E2B_API_KEY": self.daemon.key, "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONPATH": str(HERE)}
        if way == "url":
            return common | {"E2B_API_URL": self.daemon.url, "E2B_SANDBOX_URL": self.daemon.url}
        ca = self.authority.name
        return common | {"E2B_DOMAIN": self.domain, "SSL_CERT_FILE": ca, "NODE_EXTRA_CA_CERTS": ca}


# ---- steps ----


def run_steps(words, place, environment, limit_s):
    """What each step of a script came to, as (result, why) by its name, and what was said besides."""
    with tempfile.TemporaryDirectory() as scratch:  # some packages leave files there
        try:
            done = subprocess.run(words, capture_output=True, text=True, cwd=place,
                                  env=environment | {"TMPDIR": scratch}, timeout=limit_s)
            out, said = done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            out, said = (error.stdout or b"").decode(), f"no end after {limit_s} s"
    results = {}
    for row in out.splitlines():
        if row.startswith('{"step"'):
            told = json.loads(row)
            results[told["step"]] = (told["result"], told["why"])
    return results, said


def show_failures(results, said):
    for step, (result, why) in results.items():
        if result == "failed":
            print(f"    {step}: {why}")
    if said and any(result == "failed" for result, _ in results.values()):
        print("    " + "\n    ".join(said.strip().splitlines()[-30:]), flush=True)


def count(all_found, wanted):
    return sum(result == wanted for found in all_found for results, _ in found.values()
               for result, _ in results.values())


# ---- the page ----


def finish(what, all_found, begun):
    """Says how a run ended that began at that moment, and returns its exit code."""
    failed = count(all_found, "failed")
    print(f"{len(all_found)} {what} in {time.monotonic() - begun:.0f} s")
    print(f"{count(all_found, 'ok')} passed, {failed} failed")
    return 1 if failed else 0


def write_section(path, begin, end, text):
    """Puts text between two marks of a page."""
    old = Path(path).read_text()
    assert begin in old and end in old, f"{path} has no section {begin}"
    section = f"{begin}\n{text}\n{end}"
    new = re.sub(re.escape(begin) + ".*" + re.escape(end), lambda _: section, old, flags=re.S)
    Path(path).write_text(new)
