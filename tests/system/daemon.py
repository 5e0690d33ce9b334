"""A daemon of the test's own, in a data directory of its own, that may be killed in any way.

BUILD names the build directory (default build), DAEMON_ARGS more flags, as for tools/with-daemon."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(os.environ.get("BUILD", ROOT / "build")) / "atoll")
POOL_SIZE = "16G"
SETTINGS = [
    *("--pool-size", POOL_SIZE, "--with-templates", "none"),
    *("--parked-max", "0"),  # they would be counted as well: tests that want them say so
    *os.environ.get("DAEMON_ARGS", "").split(),
]
START_S = 300  # the first start may have to build the base template
WAIT_S = 60


def until(check, what, limit_s=WAIT_S):
    """Polls until check() is true, and returns what it returned."""
    deadline = time.monotonic() + limit_s
    while not (result := check()):
        assert time.monotonic() < deadline, f"still not so after {limit_s} s: {what}"
        time.sleep(0.05)
    return result


def open_way(path):
    """Lets everybody go to a directory of pytest's, as the server's user must, however deep it lies."""
    top = Path(tempfile.gettempdir())
    for each in [path, *path.parents]:
        if top in each.parents:
            each.chmod(0o755)


def processes():
    """The directories of /proc. A process may end while one looks: a glob would trip over it."""
    return [Path("/proc") / name for name in os.listdir("/proc") if name.isdigit()]


def children(pid):
    """The children of a process, as (pid, first words of the command line)."""
    found = []
    for process in processes():
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append((int(process.name), b" ".join(command[:2]).decode()))
    return found


def name_of(pid):
    """The name that a process gave itself; "" when it has ended."""
    try:
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def end_sandboxes(api, headers=None):
    """All that this client may list."""

    def none_left():
        rows = api.get("/v2/sandboxes", headers=headers).json()
        for row in rows:
            api.delete(f"/sandboxes/{row['sandboxID']}", headers=headers)
        return not rows

    until(none_left, "all sandboxes are gone")


class Daemon:
    """`atoll serve` with its children: the server, the keeper, and one that makes templates."""

    cache = Path(os.environ.get("ATOLL_CACHE", "/var/cache/atoll"))
    copies_pool = True  # else the program makes its pool from nothing

    def __init__(self, *settings):
        self.program = PROGRAM
        self.settings = [*SETTINGS, *settings]
        self.data = Path(tempfile.mkdtemp(prefix="atoll-test-"))
        self.data.chmod(0o755)
        self.environment = {}
        self.process = None
        self.log = open(self.data / "log", "ab")

    def pool_copy(self):
        """A pool that has the base template already (tools/test-pool), unless the test wants another size."""
        sizes = [value for name, value in zip(self.settings, self.settings[1:]) if name == "--pool-size"]
        if self.copies_pool and sizes[-1] == POOL_SIZE and not (self.data / "pool.img").exists():
            subprocess.run([ROOT / "tools" / "test-pool", self.data], check=True)

    def start(self, listen="127.0.0.1:0", **options):
        self.pool_copy()
        self.process = subprocess.Popen(
            [self.program, "serve", "--listen", listen, "--data", str(self.data), *self.settings],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
            env=os.environ | self.environment,
            **options,
        )
        self.wait_ready(START_S)

    def wait_ready(self, limit_s=WAIT_S):
        until(self.is_ready, f"the daemon of {self.data} answers\n{self.said()}", limit_s)

    def is_ready(self):
        assert self.process.poll() is None, f"the daemon ended:\n{self.said()}"
        try:
            return bool(self.url) and httpx.get(f"{self.url}/health").status_code == 200
        except (OSError, httpx.TransportError):
            return False

    def said(self):
        return (self.data / "log").read_text(errors="replace")[-4000:]

    @property
    def url(self):
        return (self.data / "run" / "endpoint").read_text().strip()

    @property
    def key(self):
        return (self.data / "state" / "default.key").read_text().strip()

    @property
    def sdk(self):
        """What the SDK's calls take to reach this daemon."""
        return {"api_url": self.url, "sandbox_url": self.url, "api_key": self.key}

    def figures(self):
        """GET /metrics, as a value for each name with its labels."""
        lines = httpx.get(f"{self.url}/metrics", headers={"X-API-Key": self.key}).text.splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def child(self, name):
        """The pid of the server or the keeper, or None while it is not running."""
        for pid, command in children(self.process.pid):
            # A preparer may be there as well, and looks as the server does.
            if "keeper" in command if name == "keeper" else name_of(pid) == "atoll-serve":
                return pid
        return None

    def kill_child(self, *names):
        """kill -9 of children, and waits for the ones that the supervisor starts instead."""
        old = {name: self.child(name) for name in names}
        for pid in old.values():
            os.kill(pid, signal.SIGKILL)
        for name, pid in old.items():
            until(lambda: self.child(name) not in (None, pid), f"another {name} runs")
        self.wait_ready()

    def kill(self):
        """kill -9 of everything: the supervisor takes its children along."""
        pids = [self.process.pid] + [pid for pid, _ in children(self.process.pid)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def stop(self):
        """An orderly end; sandboxes go on."""
        self.process.terminate()
        assert self.process.wait(timeout=WAIT_S) == 0, self.said()

    def jails(self):
        """The pids of every jail's first process below this data directory, by sandbox id."""
        found = {}
        for process in processes():
            try:
                text = (process / "cgroup").read_text()
                status = (process / "status").read_text()
            except OSError:
                continue
            inner = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid")]
            if not inner or len(inner[0]) != 2 or inner[0][1] != "1":
                continue
            for sandbox_id in self.sandbox_dirs():
                if sandbox_id in text:
                    found[sandbox_id] = int(process.name)
        return found

    def sandbox_dirs(self):
        return [path.name for path in (self.data / "pool" / "sandboxes").glob("*")]

    def remove_sandboxes(self, key):
        """Those of the team that has this key."""
        with httpx.Client(base_url=self.url, headers={"X-API-Key": key}, timeout=WAIT_S) as api:
            end_sandboxes(api)

    def remove(self):
        """Ends every sandbox and the daemon, and leaves nothing of either."""
        if self.process.poll() is not None:
            self.start()
        token = (self.data / "state" / "admin.token").read_text().strip()
        with httpx.Client(base_url=self.url, headers={"X-Admin-Token": token}, timeout=WAIT_S) as api:
            for team in api.get("/admin/teams").json():
                end_sandboxes(api, {"X-Team-ID": team["teamID"]})
        self.stop()
        until(lambda: not self.jails(), "all jails are gone")
        self.log.close()
        subprocess.run(["umount", self.data / "pool"], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.data)


@contextmanager
def running(*settings, environment=None):
    """A daemon that has started, and of which nothing is left afterwards."""
    daemon = Daemon(*settings)
    daemon.environment |= environment or {}
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.remove()
