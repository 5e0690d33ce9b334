"""The parts of the measurement, in the order in which they are run.

Each is a module with LIMIT_S, the seconds it may take in each mode; measure(part); and, where it needs a daemon that is
started otherwise, DAEMON_ARGS. ASKED_FOR: it is run only when it is named."""

from parts import code, density, execs, files, growth, lists, memory, rate, tti

PARTS = {
    "tti": tti,
    "exec": execs,
    "rate": rate,
    "files": files,
    "memory": memory,
    "lists": lists,
    "density": density,
    "growth": growth,
    "code": code,
}
