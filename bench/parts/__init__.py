"""The parts of the measurement, in the order in which they are run.

Each is a module with LIMIT_S, the seconds it may take in each mode, and measure(part); where it needs a daemon that is
started otherwise, DAEMON_ARGS; prepare(), for what must be there before its time begins; and WHEN, the modes in which
it is run without being named, where that is not all."""

from parts import builds, clones, code, density, execs, files, growth, interpreters, lists, memory, merged, network, rate, sampling, tti

PARTS = {
    "tti": tti,
    "exec": execs,
    "rate": rate,
    "files": files,
    "memory": memory,
    "clones": clones,
    "density": density,
    "code": code,
    "interpreters": interpreters,
    "merged": merged,
    "growth": growth,
    "network": network,
    "builds": builds,
    "lists": lists,
    "sampling": sampling,
}
