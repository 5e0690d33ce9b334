"""A command in a sandbox that runs, beside the same login shell forked and executed without one."""

from lib.part import alternate

LIMIT_S = {"tiny": 30, "short": 40, "full": 60}
COMMAND = "echo hello"
AT_ONCE = 5


def measure(part):
    plain, peers, sdk = part.client(), part.peers(), part.sdk()
    reference = "bare fork + exec of bash -l -c echo"
    for hand in (plain, sdk):
        hand.flows("create", "run", command=COMMAND)
    ways = {
        reference: lambda: peers.once("peer", name="bash"),
        "bare fork + exec of true": lambda: peers.once("peer", name="bare"),
        "atoll: echo, HTTP": lambda: plain.flows("run", command=COMMAND)["total"][0],
        "atoll: echo, JS SDK": lambda: sdk.flows("run", command=COMMAND)["total"][0],
        "atoll: 5 at once, HTTP, until the last": lambda: plain.flows("run", n=AT_ONCE, lanes=AT_ONCE,
                                                                     command=COMMAND)["all_ms"],
        "atoll: 5 at once, JS SDK, until the last": lambda: sdk.flows("run", n=AT_ONCE, lanes=AT_ONCE,
                                                                     command=COMMAND)["all_ms"],
    }
    part.heading("Commands, 25 one after the other, and 5 at once")
    taken, failed, why = alternate(ways, part.count(2, 25, 4 * 25))
    for name, samples in taken.items():
        part.samples(name, samples, of=reference, failed=failed[name], why=why.get(name), key=f"exec.{name}")
    for hand in (plain, sdk):
        hand.kill_held()
