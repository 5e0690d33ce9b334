#!/usr/bin/env python3
"""build-targets.py BUILD unit|rest: the names that ninja has for a part of what BUILD makes.

unit: the programs of tests/unit, the agent that some of them start, the server and its tools. rest: all that is made by
default but those programs. `make test` runs unit tests in the sanitized build alone, and nothing else there but the
server, so that neither build makes what only the other one runs."""
import json
import os
import subprocess
import sys

UNIT = os.path.join("tests", "unit", "meson.build")
WITH_UNIT = {"atoll", "atoll-agent", "atoll-tools"}


def targets(build):
    done = subprocess.run(["meson", "introspect", build, "--targets"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def is_unit(target):
    return target["defined_in"].endswith(UNIT)


def wanted(target, part):
    if part == "unit":
        return is_unit(target) or target["name"] in WITH_UNIT
    return target["build_by_default"] and not is_unit(target)


def main():
    build, part = sys.argv[1:]
    assert part in ("unit", "rest"), __doc__
    names = [os.path.relpath(name, build) for target in targets(build) if wanted(target, part)
             for name in target["filename"]]
    assert names, f"{build} makes nothing of '{part}'"
    print(*names)


if __name__ == "__main__":
    main()
