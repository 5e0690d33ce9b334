"""How many idle sandboxes fit, what each costs in memory, and whether all of them still answer."""

import time

from lib import client, memory

LIMIT_S = {"tiny": 90, "short": 60, "full": 120}
LANES = 8
PARKED = 100  # so that they are not made while the memory is looked at
TEMPLATE = "base"
SETTLE_S = 1  # the kernel frees what was used on the way a moment later


def filled(part, plain, template, wanted, key):
    """Makes so many and asks each of them something; how many there are."""
    made = plain.flows("create", n=wanted, lanes=LANES, template=template)
    n = len(made["create"])
    answers = plain.flows("run", n=n, lanes=LANES, command="true")
    part.value("sandboxes made", n, "", success=n / wanted, key=f"{key}.made")
    part.value("sandboxes that answer a command", len(answers["run"]), "", success=len(answers["run"]) / n,
               key=f"{key}.answer")
    return n


def cost(part, before, n, key):
    """What each of them takes of the host's memory, of which there was so much before."""
    each_kb, uses = memory.spent(before, n)
    part.value("host memory for each (MemAvailable)", each_kb, "kB", key=f"{key}.host")
    for name, kb in uses.items():
        part.value(f"of it {name}", kb, "kB")
    charged = memory.groups_kb(client.api("GET", "/v2/sandboxes?limit=1")[0]["sandboxID"])
    if charged:
        part.value("charged to the cgroup of each", sum(charged) / len(charged), "kB", key=f"{key}.cgroup")


def parked():
    return client.figures()["atoll_parked_jails"]


def crowd(part, plain, template, wanted, use=None):
    """Makes so many, and tells what they cost. use(n): uses each of them once, and what they cost then is told as
    well, beside the name that it returns."""
    key = f"density.{template}"
    client.wait_parked(PARKED)
    before, serve_before_kb, parked_before = memory.account(), memory.serve_kb(), parked()
    n = filled(part, plain, template, wanted, key)
    time.sleep(SETTLE_S)
    cost(part, before, n + parked() - parked_before, key)  # a parked jail costs what an idle sandbox does
    if use:
        part.heading(f"{part.table}, {use(n)}")
        time.sleep(SETTLE_S)
        cost(part, before, n + parked() - parked_before, f"{key}.cell")
    part.value("server, resident, before", serve_before_kb, "kB")
    part.value("server, resident, with them", memory.serve_kb(), "kB", key=f"{key}.serve")
    for name, kb in memory.daemon_kb().items():
        if "serve" not in name:
            part.value(f"{name}, resident, with them", kb, "kB")
    part.samples("list of a hundred of them", [plain.once("list") for _ in range(20)])
    part.samples("kill of each", plain.kill_held(lanes=LANES))


def floor(part, peers, n):
    """What the kernel takes for bare processes, in namespaces of their own."""
    for kind in ("none", "net", "all"):
        before = memory.account()
        peers.once("hold", name=kind, n=n)
        time.sleep(SETTLE_S)
        each_kb, uses = memory.spent(before, n)
        peers.once("release")
        part.value(f"kernel: a bare process, namespaces of its own: {kind}", each_kb, "kB", key=f"density.floor.{kind}",
                   uses=uses)


def measure(part):
    wanted = part.count(5, 200, 1000)
    part.heading("Density: what the kernel takes")
    floor(part, part.peers(), wanted)
    part.heading(f"Density: {wanted} idle sandboxes of {TEMPLATE}")
    crowd(part, part.client(), TEMPLATE, wanted)
