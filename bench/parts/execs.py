"""A command in a sandbox that runs, beside the same login shell forked and executed without one."""

from lib.part import alternate

LIMIT_S = {"tiny": 90, "short": 40, "full": 60}
COMMAND = "echo hello"
AT_ONCE = 5


def measure(part):
    plain, peers, sdk = part.client(), part.peers(), part.sdk()
    reference = "bare fork + exec of bash -l -c echo"
    all_hands = {name: hand for name, hand in (("HTTP", plain), ("JS SDK", sdk)) if hand}
    ways = {
        reference: lambda: peers.once("peer", name="bash"),
        "bare fork + exec of true": lambda: peers.once("peer", name="bare"),
    }
    for name, hand in all_hands.items():
        hand.flows("create", "run", command=COMMAND)
        ways[f"atoll: echo, {name}"] = lambda hand=hand: hand.flows("run", command=COMMAND)["total"][0]
        ways[f"atoll: {AT_ONCE} at once, {name}, until the last"] = lambda hand=hand: hand.flows(
            "run", n=AT_ONCE, lanes=AT_ONCE, command=COMMAND)["all_ms"]
    part.heading("Commands, 25 one after the other, and 5 at once")
    taken, failed, why = alternate(ways, part.count(2, 25, 4 * 25))
    for name, samples in taken.items():
        part.samples(name, samples, of=reference, failed=failed[name], why=why.get(name), key=f"exec.{name}")
    for hand in all_hands.values():
        hand.kill_held()
