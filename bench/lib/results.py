"""From the lines that parts wrote to tables, to latest.json, and to the words about aims."""

import json
import os
import platform
import subprocess
import time

# What others publish of themselves, on machines of theirs: by what is measured, in ms unless it says otherwise. The
# public leaderboard's command is `node -v`, through each service's JavaScript SDK.
INTERACTIVE = "time to interactive, `node -v` through the JS SDK, p50"
ALL_INTERACTIVE = "100 at once, `node -v` through the JS SDK, all interactive"
PUBLIC = (
    (INTERACTIVE, "fastest hosted service", 12.8, "ms"),
    (INTERACTIVE, "E2B, hosted", 366, "ms"),
    ("create", "fastest open source one, 96 threads with KVM", 47.8, "ms"),
    (ALL_INTERACTIVE, "fastest hosted service", 156, "ms"),
    (ALL_INTERACTIVE, "E2B, hosted", 1300, "ms"),
    ("create rate", "best published", 181, "/s"),
    ("memory of an idle sandbox", "best published, 21 to 26 MB", 21 * 1024, "kB"),
    ("pause", "best published", 558, "ms"),
    ("resume", "best published", 42, "ms"),
    ("100 forks", "best published", 541, "ms"),
)

ECHO = "tti.sequential.atoll: echo hello, HTTP"
BWRAP = "tti.sequential.bwrap: create + true + destroy"
BURST = "tti.burst.echo hello.HTTP"
NODE = "tti.sequential.atoll: node -v, JS SDK"
NODE_BURST = "tti.burst.node -v.JS SDK.all"

# Of each: what, the aim, its unit, the row's key, which of its figures, and the row it is divided by.
AIMS = (
    ("100 forks of an empty sandbox", 500, "ms", "memory.forks", "median", None),
    ("10 forks of a sandbox with 100 MB", 500, "ms", "memory.100.forks", "median", None),
    ("processor time of a clone with 100 MB, as a multiple of a plain restore", 0.5, "x",
     "clones.100.clone.processor time", "median", "clones.100.plain.processor time"),
    ("memory of a clone with 100 MB, as a multiple of a plain restore", 0.1, "x", "clones.100.clone.memory charged", "median",
     "clones.100.plain.memory charged"),
    ("resume of 1 GB, until its first command has answered", 100, "ms", "memory.1000.ready", "median", None),
    ("fork of 1 GB", 250, "ms", "memory.1000.fork", "median", None),
    ("fork of 1 GB, memory of each", 10, "MB", "memory.1000.fork.memory", "median", None),
    ("memory of an idle interpreter, at 100 of them", 15, "MB", "density.code-interpreter-v1.host", "median", None),
    ("memory of an interpreter after a cell", 25, "MB", "density.code-interpreter-v1.cell.host", "median", None),
    ("create rate of interpreters", 25, "/s", "code.rate", "median", None),
    ("interpreters one right behind the other without a pool, p50", 80, "ms", "interpreters.row", "median", None),
    ("interpreters one right behind the other with the pool, p50", 10, "ms", "code.row", "median", None),
    ("create rate", 275, "/s", "rate", "median", None),
    ("busiest thread, of the processor time of a create", 50, "%", "rate.thread", "median", None),
    ("cost of a create beside 5,000 sandboxes, as a multiple of that beside 10", 1.5, "x", "growth.cost.5000", "median",
     "growth.cost.10"),
    ("100 at once, until the last is interactive", 156, "ms", f"{BURST}.all", "median", None),
    ("100 at once, share that failed", 0, "", f"{BURST}.each", "failures", None),
    ("time to interactive with node -v through the JS SDK, p50", 15, "ms", NODE, "median", None),
    ("output of a command, as a multiple of a pipe", 3, "x", "files.atoll: output over HTTP", "median",
     "files.output over a pipe"),
    ("upload as a form, its time as a multiple of a raw one (0.8 of its speed)", 1.25, "x",
     "files.atoll: upload as a form", "median", "files.atoll: upload"),
    ("time to interactive with echo, p50", 5, "ms", ECHO, "median", None),
    ("the same, as a multiple of bwrap's create + true + destroy", 1, "x", ECHO, "median", BWRAP),
    ("echo, as a multiple of a bare fork + exec of bash", 2, "x", "exec.atoll: echo, HTTP", "median",
     "exec.bare fork + exec of bash -l -c echo"),
    ("output of a command in JSON, as a multiple of a pipe", 3, "x", "files.atoll: output over HTTP", "median",
     "files.output over a pipe"),
    ("the same in binary messages", 3, "x", "files.atoll: output in binary messages", "median",
     "files.output over a pipe"),
    ("upload as a form, as a multiple of a plain one", 1.25, "x", "files.atoll: upload as a form", "median",
     "files.atoll: upload"),
    ("run_code, first cell", 15, "ms", "code.first", "median", None),
    ("destroy returns", 2, "ms", "destroy", "median", None),
    ("memory of an idle sandbox of base", 1024, "kB", "density.base.host", "median", None),
    ("the server's memory beside them", 100 * 1024, "kB", "density.base.serve", "median", None),
)
MORE_IS_BETTER = {"/s"}


def text_of(*words):
    done = subprocess.run(words, capture_output=True, text=True, cwd=os.path.dirname(__file__))
    return done.stdout.strip() if done.returncode == 0 else ""


def field(path, name):
    with open(path) as file:
        for line in file:
            if line.startswith(name):
                return line.partition(":" if ":" in line else "=")[2].strip().strip('"')
    return ""


def machine():
    memory_kb = int(field("/proc/meminfo", "MemTotal").split()[0])
    return {
        "cores": os.cpu_count(),
        "processor": field("/proc/cpuinfo", "model name"),
        "memory_gib": round(memory_kb / 1048576, 1),
        "kernel": platform.release(),
        "system": field("/etc/os-release", "PRETTY_NAME"),
        "load": os.getloadavg()[0],
    }


def commit():
    dirty = "-changed" if text_of("git", "status", "--porcelain", "--untracked-files=no") else ""
    return text_of("git", "rev-parse", "--short=12", "HEAD") + dirty


def ratios(rows):
    """Each row's median as a multiple of that of the row it names, of the same table."""
    medians = {(row["table"], row["name"]): row.get("median") for row in rows}
    for row in rows:
        reference = medians.get((row["table"], row.get("of")))
        if reference and row.get("median") is not None and row["name"] != row["of"]:
            row["ratio"] = row["median"] / reference


def aim_figure(by_key, unit, key, figure, over):
    """None: it was not measured."""
    row, reference = by_key.get(key, {}), by_key.get(over, {})
    if row.get("median") is None or (over and not reference.get("median")):
        return None
    got = 1 - row["success"] if figure == "failures" else row[figure]
    if unit == "MB" and row.get("unit") == "kB":
        got /= 1024
    return got / reference["median"] if over else got


def aims(rows):
    by_key = {row["key"]: row for row in rows if row.get("key")}
    found = []
    for name, aim, unit, *what in AIMS:
        got = aim_figure(by_key, unit, *what)
        met = None if got is None else got >= aim if unit in MORE_IS_BETTER else got <= aim
        found.append({"name": name, "aim": aim, "unit": unit, "got": got, "met": met})
    return found


AIM_WORDS = {True: "met", False: "missed", None: "not measured"}


def gather(lines, mode, began):
    """What latest.json holds."""
    rows = [line for line in lines if line["kind"] == "row"]
    ratios(rows)
    return {
        "mode": mode,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
        "seconds": round(time.time() - began),
        "commit": commit(),
        "machine": machine(),
        "aims": aims(rows),
        "public": [dict(zip(("name", "whose", "value", "unit"), one)) for one in PUBLIC],
        "parts": [line for line in lines if line["kind"] == "part"],
        "notes": [line for line in lines if line["kind"] == "note"],
        "extras": {line["name"]: line["value"] for line in lines if line["kind"] == "extra"},
        "rows": [{name: value for name, value in row.items() if name != "kind" and value is not None} for row in rows],
    }


# ---- as text ----


def number(value):
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"


def percent(value):
    return "" if value is None else f"{value * 100:.0f} %"


COLUMNS = ("median", "min", "p95", "p99", "ratio", "noise", "success")


def cells(row):
    """The figures of a row, in the order of COLUMNS."""
    unit = row.get("unit", "ms")
    median = f"{number(row.get('median'))} {unit}".strip() if "median" in row else row.get("why", "")[:40]
    success = row.get("success")
    return (median, number(row.get("min")), number(row.get("p95")), number(row.get("p99")),
            f"{row['ratio']:.2f}x" if "ratio" in row else "", percent(row.get("noise")),
            "" if success is None else f"{success * 100:.4g} %")


def tables(rows):
    """Rows by table, in the order in which they came."""
    found = {}
    for row in rows:
        found.setdefault(row["table"], []).append(row)
    return found


def show(rows):
    for table, those in tables(rows).items():
        print(f"\n{table or '':<56}" + "".join(f"{name:>11}" for name in COLUMNS))
        for row in those:
            print(f"{row['name'][:56]:<56}" + "".join(f"{cell:>11}" for cell in cells(row)), flush=True)


def show_aims(results):
    print(f"\n{'Aims':<74}{'aim':>14}{'measured':>14}")
    for aim in results["aims"]:
        sign = ">=" if aim["unit"] in MORE_IS_BETTER else "<="
        got = "" if aim["got"] is None else f"{number(aim['got'])} {aim['unit']}"
        print(f"{aim['name']:<74}{sign + ' ' + str(aim['aim']) + ' ' + aim['unit']:>14}{got:>14}  {AIM_WORDS[aim['met']]}")


def load(path):
    with open(path) as file:
        return [json.loads(line) for line in file]
