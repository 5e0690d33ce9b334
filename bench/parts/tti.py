"""Time to interactive: from the asking for a sandbox until its first command has answered, as the public leaderboard
measures it: one after the other, staggered, and all at once; 5 % off each end; destroying is not part of it."""

from lib import client, stats
from lib.part import alternate

LIMIT_S = {"tiny": 90, "short": 160, "full": 330}
COMMANDS = ("echo hello", "node -v")
PEERS = ("bwrap", "crun", "runc", "podman")
MISSED = 'atoll_parked_claims_total{outcome="miss"}'
SLOW_PEERS_EVERY = 5  # of podman, which takes as long as all others together


def once(hand, command, kills=None):
    took = hand.flows("create", "run", command=command)
    kill = hand.flows("kill")["kill"]
    if kills is not None:
        kills += kill
    return took["total"][0]


def every(count, way):
    """Every so many calls; in between it gives nothing."""
    state = {"n": 0}

    def call():
        state["n"] += 1
        return way() if state["n"] % count == 1 else None

    return call


def sequential(part, plain, sdk, peers):
    names = [name for name in PEERS if name not in part.absent(*PEERS)]
    kills = []
    ways = {f"{name}: create + true + destroy": lambda name=name: peers.once("peer", name=name) for name in names}
    slow = "podman: create + true + destroy"
    if slow in ways:
        ways[slow] = every(SLOW_PEERS_EVERY, ways[slow])
    ways["kernel: clone3 of all namespaces + true"] = lambda: peers.once("peer", name="clone")
    for command in COMMANDS:
        ways[f"atoll: {command}, HTTP"] = lambda command=command: once(plain, command, kills)
        if sdk:
            ways[f"atoll: {command}, JS SDK"] = lambda command=command: once(sdk, command)
    taken, failed, why = alternate(ways, part.count(2, 40, 100))
    medians = {}
    for name, samples in taken.items():
        samples = [ms for ms in samples if ms is not None]
        if samples:
            medians[name] = stats.summary(samples, trimmed=True)["median"]
        part.samples(name, samples, of="bwrap: create + true + destroy", failed=failed[name], trimmed=True,
                     key=f"tti.sequential.{name}", why=why.get(name))
    part.samples("atoll: destroy, HTTP", kills, of="bwrap: create + true + destroy", trimmed=True, key="destroy")
    return medians


def at_once(part, hand, name, table, rounds, commands=COMMANDS, stagger_ms=0):
    """Each round finds the pool as the daemon keeps it by itself in quiet times: what was taken is made anew between."""
    n = part.count(5, 100, 100)
    medians = {}
    for command in commands if hand else ():
        each, whole, failed = [], [], 0
        for _ in range(rounds):
            if not client.wait_parked(n):
                part.note(f"fewer than {n} jails were parked before a round of {table}, {command}, {name}")
            took = hand.flows("create", "run", n=n, lanes=n, stagger_ms=stagger_ms, command=command)
            hand.kill_held(lanes=4)
            each += took["total"]
            whole.append(took["all_ms"])
            failed += took["failed"]
        if failed:
            part.note(f"{failed} of {rounds * n} sandboxes, {table}, {command}, {name}, failed: {hand.why()}")
        medians[f"atoll: {command}, {name}"] = stats.summary(each, trimmed=True)["median"]
        part.samples(f"atoll: {command}, {name}: each", each, failed=failed, trimmed=True,
                     key=f"tti.{table}.{command}.{name}.each")
        if not stagger_ms:
            part.samples(f"atoll: {command}, {name}: until the last answered", whole,
                         key=f"tti.{table}.{command}.{name}.all")
    return medians


def without_pool(part, hand, command):
    """Those that come while the pool is as good as empty: their jails are made for them."""
    n = part.count(5, 100, 100)
    client.wait_parked(n)
    hand.flows("create", n=n, lanes=n)
    before = client.figures()
    took = hand.flows("create", "run", n=n, lanes=n, command=command)
    missed = client.figures()[MISSED] - before[MISSED]
    hand.kill_held(lanes=4)
    part.samples(f"atoll: {command}, HTTP: {n} more behind them, {missed:.0f} found no jail: until the last answered",
                 [took["all_ms"]], failed=took["failed"], key=f"tti.burst.{command}.cold")


STEPS = {
    "jail": "jail: the keeper makes or claims it",
    "dial": "dial: a socket to the agent",
    "init": "init: the agent takes its configuration",
    "command": "start command of the template",
    "record": "record: the store's commit, beyond that",
}


def breakdown(part, hand, command, bare):
    """Means, which add up: of the whole as the client sees it, what the daemon counted of each step, and the rest.
    bare calls the same command without a sandbox. The rows, and the ms of the whole."""
    n = part.count(2, 30, 100)
    before = client.figures()
    create, run, alone = [], [], []
    for _ in range(n):
        took = hand.flows("create", "run", command=command)
        hand.flows("kill")
        create += took["create"]
        run += took["run"]
        alone.append(bare())
    after = client.figures()

    def spent(family, step):
        name = f'atoll_{family}_step_seconds_sum{{step="{step}"}}'
        return (after[name] - before[name]) * 1000 / n

    create_ms, run_ms = sum(create) / n, sum(run) / n
    steps = {text: spent("create", step) for step, text in STEPS.items()}
    edge_ms, agent_ms = spent("edge", "dial"), spent("edge", "answer")
    rows = {"client, HTTP and API of the create": create_ms - sum(steps.values())} | steps
    rows["edge: a connection to the agent"] = edge_ms
    rows["agent: until it answers"] = agent_ms
    rows["the command until it has ended; its stream and the client"] = run_ms - edge_ms - agent_ms
    return rows, create_ms + run_ms, sum(alone) / n


def breakdown_show(part, rows, bare_ms, key):
    for name, ms in rows.items():
        part.value(name, ms, "ms", key=f"{key}.{name}")
    part.value("all of it", sum(rows.values()), "ms", key=f"{key}.all")
    part.value("beside it: a bare fork and exec of that command by a login shell", bare_ms, "ms", key=f"{key}.bare")
    part.extra(key, rows)


def breakdowns(part, plain, sdk, peers):
    echo, node = COMMANDS
    part.heading("Time to interactive: where it goes, echo, means")
    rows, whole_ms, bare_ms = breakdown(part, plain, echo, lambda: peers.once("peer", name="bash"))
    if sdk:
        took = [once(sdk, echo) for _ in range(part.count(2, 30, 100))]
        rows["JavaScript SDK, beyond the plain client"] = sum(took) / len(took) - whole_ms
    breakdown_show(part, rows, bare_ms, "breakdown")
    if sdk:
        part.heading("Time to interactive: where it goes, node -v through the JS SDK, means")
        rows, _, bare_ms = breakdown(part, sdk, node, lambda: peers.once("peer", name="node"))
        breakdown_show(part, rows, bare_ms, "breakdown-node")


def measure(part):
    plain, peers = part.client(), part.peers()
    sdk = part.sdk()
    client.wait_parked(part.count(5, 100, 100))  # the first second of a daemon is not what is measured
    for hand in filter(None, (plain, sdk)):  # the first of anything is not what is measured
        once(hand, COMMANDS[0])
    part.heading("Time to interactive, one after the other")
    alone = sequential(part, plain, sdk, peers)
    breakdowns(part, plain, sdk, peers)
    part.heading("Time to interactive, 100 at once")
    rounds = part.count(1, 2, 5)
    burst = at_once(part, plain, "HTTP", "burst", rounds) | at_once(part, sdk, "JS SDK", "burst", rounds)
    without_pool(part, plain, COMMANDS[0])
    for name, median in burst.items():
        if name in alone:
            part.value(f"{name}: p50 at once / one after the other", median / alone[name], "x")
    stagger_ms = part.count(20, 50, 200)
    part.heading(f"Time to interactive, one every {stagger_ms} ms")
    at_once(part, plain, "HTTP", "staggered", 1, COMMANDS[:1], stagger_ms)
    at_once(part, sdk, "JS SDK", "staggered", 1, COMMANDS, stagger_ms)
