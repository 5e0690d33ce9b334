"""docs/benchmarks: latest.json, the plots and the page that is made of them."""

import json

from lib import results, svg

ATOLL, PEER, PUBLISHED = "a", "b", ""


def plot_tti(found):
    rows = []
    for row in found["rows"]:
        if row.get("key", "").startswith("tti.sequential.") and "median" in row:
            rows.append((row["name"], row["median"], row["p95"], ATOLL if row["name"].startswith("atoll") else PEER))
    for one in found["public"]:
        if rows and one["name"] == results.INTERACTIVE:
            rows.append((f"published, node -v: {one['whose']}", one["value"], None, PUBLISHED))
    return svg.bars("Time to interactive, median and p95", rows, "ms") if rows else None


def plot_growth(found):
    series = {}
    for row in found["rows"]:
        if "size" in row and "median" in row:
            series.setdefault(row["what"], {})[row["size"]] = row["median"]
    return svg.lines("How cost grows", series, "ms", "idle sandboxes beside it") if series else None


def plot_breakdown(found):
    parts = found["extras"].get("breakdown")
    return svg.stack("Where the time to interactive goes: echo", parts, "ms") if parts else None


def plot_node(found):
    parts = found["extras"].get("breakdown-node")
    return svg.stack("Where the time to interactive goes: node -v, JS SDK", parts, "ms") if parts else None


PLOTS = {"tti.svg": plot_tti, "breakdown.svg": plot_breakdown, "breakdown-node.svg": plot_node, "growth.svg": plot_growth}

INTRODUCTION = """# Measurements

This page is made by `make bench-full` (`make bench` makes a shorter one); it is not written by hand. Everything on it
was measured in one run on one machine, and what is compared alternated within one loop, so that noise met all alike.
Ratios carry further than milliseconds: they are multiples of the row's reference, which has none itself.

- **noise**: each row was measured in five consecutive rounds; it is the range of their medians over the median.
- **time to interactive**: from the asking for a sandbox until its first command has answered. The smallest and the
  largest 5 % are left out, as the public leaderboard does it. The peers do less: they create, run `true` and destroy,
  without an API, a disk of its own, limits, or a way in.
- **at once**: the daemon is as it is set up by default, and its pool of parked jails as full as it keeps it in quiet
  times; what a round has taken is made anew before the next. A further row is a burst right after another,
  for which jails have to be made.
- **HTTP** is a plain client in C, **JS SDK** the unmodified npm package `e2b`. `node -v` through the JS SDK is what the
  public leaderboard measures: one after the other, one every 200 ms, and 100 at once. `echo` is what the sandbox itself
  costs: most of `node -v` is the start of Node.js.
- An aim that was not met says so, and so does one that was not measured.
- Peers that are not installed are left out and said so.
"""


def machine_lines(found):
    machine = found["machine"]
    return [
        "| | |", "|---|---|",
        f"| machine | {machine['cores']} cores, {machine['processor']}, {machine['memory_gib']} GiB |",
        f"| system | {machine['system']}, Linux {machine['kernel']} |",
        f"| date | {found['date']}, {found['seconds']} s, mode {found['mode']}, load {machine['load']:.1f} at its end |",
        f"| commit | {found['commit']} |",
    ]


def aim_lines(found):
    lines = ["", "## Aims", "", "| what | aim | measured | |", "|---|--:|--:|---|"]
    for aim in found["aims"]:
        sign = "≥" if aim["unit"] in results.MORE_IS_BETTER else "≤"
        got = "" if aim["got"] is None else f"{results.number(aim['got'])} {aim['unit']}"
        word = results.AIM_WORDS[aim["met"]]
        lines.append(f"| {aim['name']} | {sign} {aim['aim']} {aim['unit']} | {got} | {word if aim['met'] else f'**{word}**'} |")
    return lines


# Which row stands beside what others publish, and which of its figures.
BESIDE = {
    results.INTERACTIVE: results.NODE,
    "create": "growth.create.10",
    results.ALL_INTERACTIVE: results.NODE_BURST,
    "create rate": "rate",
    "memory of an idle sandbox": "density.base.host",
    "pause": "memory.pause",
    "resume": "memory.resume",
    "100 forks": "memory.forks",
}


def public_lines(found):
    by_key = {row["key"]: row for row in found["rows"] if row.get("key")}
    lines = ["", "## Beside what others publish", "",
             "Their machines, their figures: another order of hardware, and often with KVM. The public leaderboard measures "
             "from the asking through a", "service's JavaScript SDK until `node -v` has answered, and so do the rows here "
             "that stand beside it. Their clients reach", "them over a network; ours is on the same machine.", "",
             "| what | whose | theirs | here | here / theirs |", "|---|---|--:|--:|--:|"]
    for one in found["public"]:
        row = by_key.get(BESIDE[one["name"]])
        here, ratio = "not measured", ""
        if row and row.get("median"):
            here, ratio = f"{results.number(row['median'])} {one['unit']}", f"{row['median'] / one['value']:.2f}"
        lines.append(f"| {one['name']} | {one['whose']} | {results.number(one['value'])} {one['unit']} | {here} | {ratio} |")
    return lines


def table_lines(found):
    lines = []
    for table, rows in results.tables(found["rows"]).items():
        lines += ["", f"## {table}", "", "| | " + " | ".join(results.COLUMNS) + " |", "|---|" + "--:|" * len(results.COLUMNS)]
        lines += [f"| {row['name']} | " + " | ".join(results.cells(row)) + " |" for row in rows]
    return lines


def rest_lines(found):
    lines = []
    missed = [part for part in found["parts"] if part["failed"]]
    if missed or found["notes"]:
        lines += ["", "## What was not measured", ""]
    lines += [f"- {part['name']}: {part['failed']}" for part in missed]
    lines += [f"- {note['part']}: {note['text']}" for note in found["notes"]]
    return lines


def write(found, out):
    out.mkdir(parents=True, exist_ok=True)
    (out / "latest.json").write_text(json.dumps(found, indent=1) + "\n")
    pictures = []
    for name, plot in PLOTS.items():
        drawn = plot(found)
        if drawn:
            (out / name).write_text(drawn)
            pictures += ["", f"![{name.partition('.')[0]}]({name})"]
    lines = [INTRODUCTION, *machine_lines(found), *aim_lines(found), *pictures, *public_lines(found), *table_lines(found),
             *rest_lines(found)]
    (out / "README.md").write_text("\n".join(lines) + "\n")
