"""A kernel that was saved and goes on in another sandbox must not draw the same random numbers.

Every sandbox has a host name of its own: when it is another one, we are another one."""

import os
import random
import sys


def watch(shell):
    known = os.uname().nodename

    def on_cell(*_):
        nonlocal known
        name = os.uname().nodename
        if name == known:
            return
        known = name
        random.seed()
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random:
            numpy_random.seed()

    shell.events.register("pre_run_cell", on_cell)
