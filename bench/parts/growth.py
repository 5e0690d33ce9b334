"""How cost grows: create, list, run and destroy beside 10, 100, 1,000 and 5,000 idle sandboxes, one after the other; and
creates without a pause, for which the jails have to be made."""

from lib import client, memory
from lib.hands import Failed

LIMIT_S = {"tiny": 90, "short": 60, "full": 240}
LANES = 8
RESERVE_KB = 2 << 20  # of the host's memory, that stays free
SANDBOX_KB = 2048  # at most, for the decision whether so many fit
DESCRIPTORS = 3  # of the server, that a sandbox takes
DESCRIPTORS_LEFT = 1000  # for connections


def probe(part, plain, n):
    """One after the other, beside what is held."""
    took = {"create": [], "run": [], "destroy": [], "list": []}
    failed = 0
    for _ in range(part.count(2, 10, 20)):
        made = plain.flows("create", "run", command="true")
        took["create"] += made["create"]
        took["run"] += made["run"]
        took["list"].append(plain.once("list"))
        took["destroy"] += plain.flows("kill")["kill"]
        failed += made["failed"]
    for what, samples in took.items():
        part.samples(f"{what}, beside {n:,}", samples, of=f"{what}, beside {part.first:,}",
                     failed=failed if what == "create" else 0, key=f"growth.{what}.{n}", size=n, what=what)


def cost(part, plain, n):
    """Of creates without a pause beside what is held: the ms of the whole machine for each."""
    took = plain.flows("create", "kill", n=100_000, lanes=LANES, span_s=part.count(1, 3, 6))
    part.value(f"cost of a create + destroy without a pause, beside {n:,}", took["all_ms"] / len(took["create"]), "ms",
               of=f"cost of a create + destroy without a pause, beside {part.first:,}", key=f"growth.cost.{n}")


def fits(n):
    return memory.available_kb() - n * SANDBOX_KB > RESERVE_KB


def measure(part):
    plain = part.client()
    sizes = part.count([2, 4], [10, 100, 200], [10, 100, 1000, 5000])
    most = int(client.figures()["process_max_fds"] - DESCRIPTORS_LEFT) // DESCRIPTORS
    if sizes[-1] > most:
        part.note(f"the server may have descriptors for {most:,} sandboxes here, so there are no {sizes[-1]:,}")
        sizes[-1] = most
    part.first, there = sizes[0], 0
    part.heading("How cost grows with the number of sandboxes")
    fills = []
    for n in sizes:
        if not fits(n - there):
            part.note(f"{n:,} sandboxes do not fit into this machine's memory: left out")
            break
        try:
            made = plain.flows("create", n=n - there, lanes=LANES)
        except Failed as failed:
            part.note(f"{n:,} sandboxes could not be made: {failed}")
            break
        there += len(made["create"])
        fills.append((n, len(made["create"]) * 1000 / made["all_ms"]))
        if made["failed"]:
            part.note(f"of {n:,} sandboxes {made['failed']} could not be made: {plain.why()}")
        probe(part, plain, n)
        cost(part, plain, n)
    for n, rate in fills:
        part.value(f"filling up to {n:,}", rate, "/s")
    done = plain.ask("flows", steps=["kill"], n=100_000, lanes=LANES)
    part.value(f"killing all {there:,}", len(done["kill"]) * 1000 / done["all_ms"], "/s")
