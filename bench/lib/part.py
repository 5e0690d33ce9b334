"""What a part of the measurement has: counts by mode, hands, and where its rows go."""

import contextlib
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from lib import hands, stats

TOP = pathlib.Path(__file__).resolve().parents[2]
MODES = ("tiny", "short", "full")  # tiny: whether it works at all


class Part:
    def __init__(self, name, mode, out):
        self.name, self.mode, self.out = name, mode, out
        self.data = os.environ["ATOLL_DATA"]
        self.program = f"{os.environ['BENCH_BUILD']}/bench/bench-hand"
        self.table = None
        self.scratch = None
        self.leaving = contextlib.ExitStack()

    def __enter__(self):
        self.scratch = self.leaving.enter_context(tempfile.TemporaryDirectory(dir=self.data, prefix="bench."))
        return self

    def __exit__(self, *_):
        self.leaving.close()

    @property
    def full(self):
        return self.mode == "full"

    def count(self, tiny, short, full):
        return dict(zip(MODES, (tiny, short, full)))[self.mode]

    def alone(self):
        """Begins the part anew, in a mount namespace of its own, unless it is in one."""
        if "BENCH_ALONE" not in os.environ:
            os.environ["BENCH_ALONE"] = "1"
            self.leaving.close()
            os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])

    # ---- hands ----

    def hand(self, made):
        self.leaving.callback(made.close)
        return made

    def client(self):
        return self.hand(hands.plain(self.program))

    def peers(self):
        return self.hand(hands.peers(self.program, self.layer(), self.scratch))

    def sdk(self):
        return self.hand(hands.sdk(TOP))

    def start(self, words, **options):
        """A program that is ended with the part."""
        process = subprocess.Popen(words, **options)
        self.leaving.callback(process.wait)
        self.leaving.callback(process.terminate)
        return process

    def layer(self):
        return glob.glob(f"{self.data}/pool/layers/base-*")[0]

    def absent(self, *programs):
        """Those of the programs that are not installed; each is a row that says so."""
        missing = [program for program in programs if not shutil.which(program)]
        for program in missing:
            self.row(f"{program}: not installed", {})
        return missing

    # ---- what is found ----

    def write(self, kind, **what):
        with open(self.out, "a") as file:
            file.write(json.dumps({"kind": kind, "part": self.name, **what}) + "\n")

    def heading(self, table):
        self.table = table

    def row(self, name, values, **more):
        """values: as of stats.summary(), or a part of it."""
        self.write("row", table=self.table, name=name, **more, **values)

    def samples(self, name, samples, of=None, failed=0, trimmed=False, **more):
        """A row of what was measured often. of: the name of the row that it is to be compared with."""
        asked = len(samples) + failed
        values = stats.summary(samples, trimmed) if samples else {}
        success = len(samples) / asked if asked else 0
        self.row(name, values | {"success": success}, of=of, unit=more.pop("unit", "ms"), **more)

    def value(self, name, value, unit, **more):
        self.row(name, {"median": value}, unit=unit, **more)

    def note(self, text):
        self.write("note", text=text)

    def extra(self, name, value):
        """For the plots."""
        self.write("extra", name=name, value=value)


def timed(work, *arguments):
    """What it returns, and milliseconds."""
    begin = time.monotonic()
    result = work(*arguments)
    return result, (time.monotonic() - begin) * 1000


def alternate(ways, count):
    """Calls each way in turn, count times; the ms of each, and how often it failed. Noise meets all alike. A way that
    fails three times before it has succeeded is left out from there on."""
    taken, failed, why = {name: [] for name in ways}, dict.fromkeys(ways, 0), {}
    for _ in range(count):
        for name, way in ways.items():
            if failed[name] >= 3 and not taken[name]:
                continue
            try:
                taken[name].append(way())
            except hands.Failed as error:
                failed[name] += 1
                why[name] = str(error)
    return taken, failed, why
