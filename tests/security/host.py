"""What the host has, as root sees it from outside."""

import re
import tempfile
from pathlib import Path

POOL = re.compile(re.escape(tempfile.gettempdir()) + r"/atoll[^/]*/pool")  # of a daemon of the tests


def mounts():
    """Every place where something is mounted, but for the daemons' own pools, which come and go."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted(point for point in points if not POOL.fullmatch(point))
