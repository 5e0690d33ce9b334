"""How many sandboxes are made a second, without a pause: each is killed as soon as it is there; and the share of the
keeper's busiest process, which must not be what the rate ends at."""

import os
import pathlib

from lib import stats

LIMIT_S = {"tiny": 90, "short": 40, "full": 100}
LANES = 16
KEEPER = ("atoll-keeper", "keeper-worker")
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def keeper_ms(data):
    """Processor time of the keeper of this data directory and of its workers, by pid."""
    found = {}
    for at in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (at / "comm").read_text().strip()
            if name in KEEPER and data in (at / "cmdline").read_text():
                fields = (at / "stat").read_text().rpartition(")")[2].split()
                found[at.name] = (int(fields[11]) + int(fields[12])) * TICK_MS
        except OSError:
            continue  # it has just ended
    return found


def measure(part):
    plain = part.client()
    span_s = part.count(1, 10, 60)
    plain.flows("create", "kill", n=LANES, lanes=LANES)
    before = keeper_ms(part.data)
    took = plain.flows("create", "kill", n=100_000, lanes=LANES, span_s=span_s)
    spent = [ms - before.get(pid, 0) for pid, ms in keeper_ms(part.data).items()]
    done = len(took["create"])
    part.heading(f"Create rate, {LANES} clients for {span_s} s")
    part.value("atoll: create + destroy", done * 1000 / took["all_ms"], "/s", key="rate",
               success=done / (done + took["failed"]), n=done, noise=stats.noise(took["create"]))
    part.samples("atoll: create, of those", took["create"], failed=took["failed"])
    part.samples("atoll: destroy, of those", took["kill"])
    part.value(f"processor time of the keeper's {len(spent)} processes, a create", sum(spent) / done, "ms")
    part.value("processor time of the busiest of them, a create", max(spent) / done, "ms")
