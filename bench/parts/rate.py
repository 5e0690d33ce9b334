"""How many sandboxes are made a second, without a pause: each is killed as soon as it is there."""

from lib import stats

LIMIT_S = {"tiny": 90, "short": 40, "full": 100}
LANES = 16


def measure(part):
    plain = part.client()
    span_s = part.count(1, 10, 60)
    plain.flows("create", "kill", n=LANES, lanes=LANES)
    took = plain.flows("create", "kill", n=100_000, lanes=LANES, span_s=span_s)
    done = len(took["create"])
    part.heading(f"Create rate, {LANES} clients for {span_s} s")
    part.value("atoll: create + destroy", done * 1000 / took["all_ms"], "/s", key="rate",
               success=done / (done + took["failed"]), n=done, noise=stats.noise(took["create"]))
    part.samples("atoll: create, of those", took["create"], failed=took["failed"])
    part.samples("atoll: destroy, of those", took["kill"])
