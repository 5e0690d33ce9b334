"""Creates of code interpreters when none is parked: each is restored for its caller."""

from parts import code

DAEMON_ARGS = f"{code.DAEMON_ARGS} --parked-max 0"
LIMIT_S = {"tiny": 120, "short": 60, "full": 90}

prepare = code.prepare


def measure(part):
    part.heading(f"Creates of {code.TEMPLATE} without a pool")
    code.create()[0].kill()  # the first of anything is not what is measured
    code.in_a_row(part, "one right behind the other: create", "interpreters.row")
    code.rate(part, "create + destroy", "interpreters.rate")
