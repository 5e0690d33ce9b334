"""A PostgreSQL of the test's own: Debian's program, as an unprivileged user, on a socket in a directory of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from daemon import until

NOBODY = 65534


def programs():
    """Debian keeps each version apart; the newest one is taken."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    assert found, "PostgreSQL is not installed: tools/deps test"
    return found[-1].parent


class Postgres:
    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="atoll-postgres-"))
        os.chown(self.dir, NOBODY, NOBODY)
        self.dir.chmod(0o755)  # the daemon's user connects to the socket in it
        self.log = open(self.dir / "log", "ab")
        self.process = None
        words = ["-D", self.dir / "data", "-U", "atoll", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        self.run("initdb", *words).wait()

    def run(self, name, *words):
        return subprocess.Popen(
            [programs() / name, *words],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd=self.dir,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )

    def start(self):
        settings = ["listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=40"]
        flags = [word for setting in settings for word in ("-c", setting)]
        self.process = self.run("postgres", "-D", self.dir / "data", "-k", self.dir, *flags)
        until(lambda: self.ask("SELECT 1") == "1", f"PostgreSQL answers: {(self.dir / 'log').read_text()}")

    def crash(self):
        """An immediate end: the next start recovers."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    @property
    def url(self):
        return f"postgresql://atoll@/postgres?host={self.dir}"

    def ask(self, sql):
        """The first value; None when there is no answer."""
        done = subprocess.run(
            [programs() / "psql", "-XAtqc", sql, self.url], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else None

    def remove(self):
        if self.process and self.process.poll() is None:
            self.crash()
        self.log.close()
        shutil.rmtree(self.dir)


@contextmanager
def postgres_running():
    postgres = Postgres()
    try:
        postgres.start()
        yield postgres
    finally:
        postgres.remove()
