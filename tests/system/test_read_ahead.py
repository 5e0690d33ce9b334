"""Node.js of `base` is in the page cache before the first sandbox needs it."""

import subprocess

from daemon import Daemon, until


def cached(path):
    """The bytes of a file that are in memory, and all that it has."""
    done = subprocess.run(["fincore", "--bytes", "--raw", "--noheadings", "--output", "RES,SIZE", path], check=True,
                          capture_output=True, text=True)
    return tuple(int(word) for word in done.stdout.split())


def test_a_start_reads_node_ahead():
    """A pool that is mounted anew has no file in memory. Only what is read from there on is."""
    daemon = Daemon()
    try:
        daemon.start()
        daemon.stop()
        daemon.start()
        node = next((daemon.data / "pool" / "layers").glob("base-*")) / "usr/bin/node"
        until(lambda: cached(node)[0] == cached(node)[1] or cached(node)[0] > cached(node)[1] - 4096, "node is in memory")
    finally:
        daemon.remove()
