"""Programs that do the measured work in processes of their own: a line of JSON in, a line of JSON out."""

import contextlib
import json
import os
import subprocess
import threading

PEERS = """
mount --bind "$BENCH_LAYER" "$BENCH_ROOTFS" || exit 1
[ ! -d /sys/fs/cgroup/unified ] || mount -t cgroup2 none /sys/fs/cgroup || exit 1
exec "$0"
"""


class Failed(Exception):
    """What was asked of a hand did not succeed."""


class Hand:
    def __init__(self, words, environment=None):
        self.said = []
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=os.environ | (environment or {}))
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stderr:
            self.said = [*self.said[-4:], line.strip()]

    def why(self):
        """What it said last of a failure."""
        return self.said[-1] if self.said else "it did not say why"

    def ask(self, what, **words):
        try:
            self.process.stdin.write(json.dumps({"do": what, **words}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer = json.loads(line) if line else {"error": True}
        if answer.get("error"):
            raise Failed(f"{what}: {self.why()}")
        return answer

    def once(self, what, **words):
        """The ms that it took."""
        return self.ask(what, **words)["ms"]

    def flows(self, *steps, n=1, lanes=1, **words):
        """See bench/main.c."""
        answer = self.ask("flows", steps=steps, n=n, lanes=lanes, **words)
        if not answer["total"]:
            raise Failed(f"{', '.join(steps)}: {self.why()}")
        return answer

    def kill_held(self, n=100_000, lanes=8):
        """The ms of each kill."""
        return self.ask("flows", steps=["kill"], n=n, lanes=lanes)["kill"]

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(30)


def plain(program, environment=None):
    return Hand([program], environment)


def peers(program, layer, scratch):
    """The peers see the layer outside the pool, which is shut to all but root; and crun, which refuses hosts that
    mount both kinds of cgroups, sees the second kind alone. Both in a mount namespace of its own."""
    environment = {"BENCH_LAYER": str(layer), "BENCH_ROOTFS": f"{scratch}/rootfs", "BENCH_SCRATCH": f"{scratch}/bundle"}
    for directory in ("rootfs", "bundle"):
        os.makedirs(f"{scratch}/{directory}", exist_ok=True)
    os.chmod(scratch, 0o755)
    return Hand(["unshare", "--mount", "--propagation", "private", "sh", "-c", PEERS, program], environment)


def sdk(top):
    """The unmodified JavaScript SDK, as the tests install it."""
    packages = f"{top}/tests/sdk-js"
    found = subprocess.run([f"{packages}/node"], capture_output=True, text=True)
    if found.returncode != 0:
        raise Failed(f"the JavaScript SDK is not there: {found.stderr.strip()[-200:]}")
    return Hand([found.stdout.strip(), f"{top}/bench/sdk.mjs"], {"BENCH_PACKAGES": packages})
