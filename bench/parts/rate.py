"""How many sandboxes are made a second, without a pause: each is killed as soon as it is there. And whose processor time
a create and destroy takes: a thread that has most of it is what the rate of a larger machine ends at."""

from lib import processor, stats

LIMIT_S = {"tiny": 90, "short": 40, "full": 100}
LANES = 16


def shares(part, done, before, after):
    """Processor time of a create and destroy: of the machine without the client, and of the daemon's busiest thread."""
    used = {thread: s - before["threads"].get(thread, 0) for thread, s in after["threads"].items()}
    all_s = after["machine"] - before["machine"] - (after["client"] - before["client"])
    busiest = max(used, key=used.get)
    part.value("processor time of a create + destroy, without the client", all_s * 1000 / done, "ms", key="rate.cpu")
    part.value(f"of it the busiest thread: {processor.thread_name(*busiest)}", used[busiest] * 1000 / done, "ms")
    part.value("of it the busiest thread, share", 100 * used[busiest] / all_s, "%", key="rate.thread")


def spent(hand):
    return {"threads": processor.daemon_threads_s(), "machine": processor.machine_s(),
            "client": processor.process_s(hand.process.pid)}


def measure(part):
    plain = part.client()
    span_s = part.count(1, 10, 60)
    plain.flows("create", "kill", n=LANES, lanes=LANES)
    before = spent(plain)
    took = plain.flows("create", "kill", n=100_000, lanes=LANES, span_s=span_s)
    after = spent(plain)
    done = len(took["create"])
    part.heading(f"Create rate, {LANES} clients for {span_s} s")
    part.value("atoll: create + destroy", done * 1000 / took["all_ms"], "/s", key="rate",
               success=done / (done + took["failed"]), n=done, noise=stats.noise(took["create"]))
    part.samples("atoll: create, of those", took["create"], failed=took["failed"])
    part.samples("atoll: destroy, of those", took["kill"])
    shares(part, done, before, after)
