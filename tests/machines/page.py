"""docs/MACHINES.md, from what the runs have recorded.

    page.py keep RESULT STORE    puts a run's result on record
    page.py write STORE PAGE     writes the page
    page.py count STORE REL...   prints `N passed, N failed` of the last runs

A run with power cuts alone adds its rounds to the last whole run's; rounds of other commits are kept."""

import json
import sys
from pathlib import Path

HEAD = """# Stock machines

Written by `make test-machines` (tests/machines), which takes the Debian package through its life on virtual machines
with an unchanged Debian: its own kernel, systemd, cgroup v2 alone. QEMU runs them, by KVM where that works, else by
TCG, which is slow: seconds here say nothing about a real machine. Clients are the official SDKs, outside the machine.

"""

CUTS = """
## Power cuts

Clients create, pause, resume, snapshot, fork and build; QEMU is killed at a random moment. The disk has a volatile write
cache (tests/machines/disk.py): of what was never flushed all is lost, or some, in any order, or nothing, as the seed
decides. After the boot everything that was acknowledged must be there and go on with its memory, nothing half made may
show, and when all that shows is removed the pool's disk is as it was. Sandboxes that run when the power goes are gone, as
documented.

Rounds of several runs are kept, those that failed too; each names the commit that was tried. A round in which the
machine's own kernel panics has no result: that was seen once, on Debian 13 under TCG (in `dequeue_entities`, 45 s after the
boot).

"""

# What came of rounds that failed, by their seed.
FOUND = {
    1555514467: "Listed before the start had looked for its sandboxes; since 8afbdc5 `/health` tells that, and the rounds "
    "wait for it.",
}


# What is to be said of capabilities that were left out.
LEFT_OUT = {
    "code_interpreter": "The code interpreter was left out for its time. On Debian 13 it was tried once, with 4597633: its "
    "template was made in five minutes, then its Python kernel had no more than one minute to start, which was too short, and "
    "was not started again. 2b71c0c mends that; it was not tried on a machine since.",
}


def load(path):
    return json.loads(path.read_text()) if path.exists() else None


def keep(result, store):
    new = load(Path(result))
    place = Path(store) / f"result-{new['release']}.json"
    old = load(place)
    for row in new["rounds"]:
        row["commit"] = new["commit"]
    if old:
        fresh = {(row["seed"], row["commit"]) for row in new["rounds"]}
        new["rounds"] = [row for row in old["rounds"] if (row["seed"], row["commit"]) not in fresh] + new["rounds"]
        if not any(step["name"] == "reboot" for step in new["steps"]):  # cuts alone
            cuts = [step for step in new["steps"] if step["name"].startswith("power cut")]
            old["rounds"], old["last"] = new["rounds"], cuts
            new = old
    place.write_text(json.dumps(new, indent=1))


def results(store):
    return [found for release in ("12", "13") if (found := load(Path(store) / f"result-{release}.json"))]


def cell(step):
    if step is None:
        return "not tried"
    return "ok" if step["good"] else f"**fails**: {step['sentence']}"


def table(runs):
    lines = ["| | " + " | ".join(run["about"].get("name", f"Debian {run['release']}") for run in runs) + " |"]
    lines.append("|---" * (len(runs) + 1) + "|")
    for title, field in (("release", "version"), ("kernel", "kernel"), ("systemd", "systemd"),
                         ("cgroups", "cgroups"), ("run by QEMU with", "processor")):
        lines.append(f"| {title} | " + " | ".join(run["about"].get(field, "") for run in runs) + " |")
    for title, field in (("commit", "commit"), ("upgraded from", "previous")):
        lines.append(f"| {title} | " + " | ".join(run[field][:12] for run in runs) + " |")
    names = list(dict.fromkeys(step["name"] for run in runs for step in run["steps"]))
    for name in names:
        if not name.startswith("power cut"):
            steps = [next((step for step in run["steps"] if step["name"] == name), None) for run in runs]
            lines.append(f"| {name} | " + " | ".join(cell(step) for step in steps) + " |")
    for name in dict.fromkeys(name.replace("_", " ") for run in runs for name in run.get("without", [])):
        if name not in names:
            lines.append(f"| {name} |" + " not tried |" * len(runs))
    for run in runs:
        run["good"] = sum(not row["faults"] for row in run["rounds"])
    lines.append("| power cuts | " + " | ".join(f"{run['good']} of {len(run['rounds'])} rounds" for run in runs) + " |")
    return "\n".join(lines) + "\n"


def stopped(runs):
    """A sentence for each run that did not come to its end."""
    return "".join(
        f"The run on Debian {run['release']} was stopped after the step \"{run['steps'][-1]['name']}\": what it says of later "
        "steps is that they were not tried.\n\n"
        for run in runs
        if not any(step["name"] == "power off" for step in run["steps"])
    )


def left_out(runs):
    names = sorted({name for run in runs for name in run.get("without", [])} & set(LEFT_OUT))
    return "".join(f"\n{LEFT_OUT[name]}\n" for name in names)


def tally(words):
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "nothing"


def rounds(runs):
    lines = ["| Debian | commit | seed | acknowledged before the cut | under way | the disk | proven after it | result |",
             "|---|---|---|---|---|---|---|---|"]
    for run in runs:
        for row in run["rounds"]:
            result = "ok" if not row["faults"] else "**" + "; ".join(row["faults"])[:300] + "**"
            if row["seed"] in FOUND:
                result = f"**failed**: {FOUND[row['seed']]}"
            lines.append(
                f"| {run['release']} | {row['commit'][:12]} | {row['seed']} | {tally(row['acknowledged'])} | "
                f"{', '.join(row['under_way']) or '–'} | {row['disk']} | {row['proven']} | {result} |"
            )
    return "\n".join(lines) + "\n"


def write(store, page):
    runs = results(store)
    found = stopped(runs) + table(runs) + left_out(runs) + CUTS + rounds(runs) if runs else "No whole run is on record yet.\n"
    Path(page).write_text(HEAD + found)


def count(store, *releases):
    steps = [step for run in results(store) if run["release"] in releases for step in run.get("last", run["steps"])]
    good = sum(step["good"] for step in steps)
    print(f"{good} passed, {len(steps) - good} failed")


if __name__ == "__main__":
    {"keep": keep, "write": write, "count": count}[sys.argv[1]](*sys.argv[2:])
