"""What scripts that run with a published package tell tests/published.py: a line of JSON for each step
on standard output."""

import asyncio
import inspect
import json
import os
import traceback


class Absent(Exception):
    """This package has no such call."""


def tell(step, result, why=""):
    print(json.dumps({"step": step, "result": result, "why": why}), flush=True)


def failed(name, error):
    traceback.print_exc()
    tell(name, "failed", f"{type(error).__name__}: {error}".splitlines()[0][:300])
    return False


def step(name, call, *arguments):
    """True unless it failed."""
    try:
        call(*arguments)
        tell(name, "ok")
    except Absent:
        tell(name, "absent")
    except BaseException as error:  # noqa: BLE001 a step must not end the others
        return failed(name, error)
    return True


async def async_step(name, call, *arguments):
    """The same for a coroutine."""
    try:
        await call(*arguments)
        tell(name, "ok")
    except BaseException as error:  # noqa: BLE001 a step must not end the others
        return failed(name, error)
    return True


def is_reached():
    """False where the SDK is to be reached by URLs and has no setting for them."""
    if not os.environ.get("E2B_SANDBOX_URL"):
        return True
    from e2b import connection_config

    return "E2B_SANDBOX_URL" in inspect.getsource(connection_config)


def interpreter_is_reached(interpreter):
    """False where the module of a code interpreter is to be reached by URLs and knows none."""
    return not os.environ.get("E2B_SANDBOX_URL") or "sandbox_url" in inspect.getsource(interpreter)


def run(main):
    """Runs a script of one client, `main` being a function or a coroutine's, and tells that it came to
    its end."""
    if not is_reached():
        tell("end", "absent")
        return
    if inspect.iscoroutinefunction(main):
        asyncio.run(main())
    else:
        main()
    tell("end", "ok")
