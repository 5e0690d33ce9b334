"""run_code beside the same kernel driven by jupyter_client, in the same sandboxes: `1+1` over HTTP from outside, and by
jupyter_client inside, with a kernel that was started the same way. The difference is what the interpreter, the agent
and the edge cost together. How many interpreters wait to be claimed, and what creates of many take, one behind the
other, at once and for a while. And a hundred such sandboxes at one time, idle and after a cell in each."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from lib import client, memory
from lib.part import timed
from parts import density

TEMPLATE = "code-interpreter-v1"
DAEMON_ARGS = f"--with-templates {TEMPLATE}"
PORT = 49999
LIMIT_S = {"tiny": 150, "short": 240, "full": 360}
MADE_S = 1500  # that the template may take to be there, on a machine that has never made it
CELLS = 10
LANES = 4  # clients that create interpreters without a pause
CROWD, EACH_KB, RESERVE_KB = 100, 150 << 10, 3 << 20  # interpreters at one time, what one may take, and what stays free
REFILL_S = 30  # that it may take to make what was claimed anew
LOOK_S, STILL_LOOKS = 0.5, 12  # a number that stays as it is for so many looks changes no more
PRINTED_BYTES = 100 * 1000 * 1000
PRINT = f"for _ in range({PRINTED_BYTES // 100}): print('x' * 99)"

# Run inside, by the system's Python: the times of each cell in ms, and of the printing one.
DIRECT = f"""
import json, sys, time
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

with open("/usr/lib/atoll/kernels/python/kernel.json") as file:
    spec = json.load(file)
spec["argv"] = [word.replace("{{resource_dir}}", "/usr/lib/atoll/kernels/python") for word in spec["argv"]]
manager = KernelManager(transport="ipc", connection_file="/tmp/direct/kernel.json")
manager._kernel_spec = KernelSpec(argv=spec["argv"], env=spec.get("env", {{}}), language="python")
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
printed = 0

def on_message(message):
    global printed
    if message["msg_type"] == "stream":
        printed += len(message["content"]["text"])

def run(code):
    begin = time.monotonic()
    client.execute_interactive(code, output_hook=on_message, timeout=300)
    return (time.monotonic() - begin) * 1000

cells = [run("1+1") for _ in range({CELLS})]
if len(sys.argv) > 1:
    cells.append(run({PRINT!r}))
    assert printed == {PRINTED_BYTES}, printed
client.stop_channels()
manager.shutdown_kernel(now=True)
print(json.dumps(cells))
"""


class Notebook(client.Box):
    """With one connection that is kept, as the SDKs keep theirs."""

    def __init__(self, id=None):
        super().__init__(TEMPLATE, id)
        self.connection = client.connect(os.environ["E2B_SANDBOX_URL"])

    def execute(self, code):
        self.connection.request("POST", "/execute", json.dumps({"code": code}),
                                self.route(PORT) | {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"a cell was answered {answer.status}: {answer.read(500).decode()}")
        lines = [json.loads(line) for line in answer]
        for line in lines:
            if line["type"] == "error":
                raise RuntimeError(f"{line['name']}: {line['value']}")
        return "".join(line["text"] for line in lines if line["type"] == "stdout")

    def cell(self, code):
        """What it printed, and the ms that it took."""
        return timed(self.execute, code)

    def direct(self, *words):
        code = ("import os, subprocess\n"
                "os.makedirs('/tmp/direct', exist_ok=True)\n"
                f"print(subprocess.run(['/usr/bin/python3', '-c', {DIRECT!r}, *{list(words)!r}],"
                " check=True, capture_output=True, text=True).stdout)")
        return json.loads(self.execute(code))


def cells(part):
    ready, first, tenth, direct_first, direct_tenth = rows = [[] for _ in range(5)]
    for _ in range(part.count(1, 6, 10)):
        begin = time.monotonic()
        box = Notebook()
        first.append(box.cell("1+1")[1])
        ready.append((time.monotonic() - begin) * 1000)
        tenth.append([box.cell("1+1")[1] for _ in range(CELLS - 1)][-1])
        direct = box.direct()
        direct_first.append(direct[0])
        direct_tenth.append(direct[-1])
        box.kill()
    part.heading("run_code: 1+1 in Python")
    names = ("atoll: create to the first answer, HTTP", "atoll: first cell, HTTP", "atoll: tenth cell, HTTP",
             "jupyter_client inside: first cell", "jupyter_client inside: tenth cell")
    of = {names[1]: names[3], names[2]: names[4]}
    keys = {names[0]: "code.ready", names[1]: "code.first", names[2]: "code.tenth"}
    for name, samples in zip(names, rows):
        part.samples(name, samples, of=of.get(name), key=keys.get(name))


# ---- creates of many ----


def waiting():
    """How many interpreters lie parked."""
    start = f'atoll_template_parked_jails{{template="{client.api("GET", f"/templates/aliases/{TEMPLATE}")["templateID"]}"'
    return sum(int(n) for name, n in client.figures().items() if name.startswith(start))


def misses():
    return int(client.figures()['atoll_parked_claims_total{outcome="miss"}'])


def waiting_most(limit_s=REFILL_S):
    """How many wait once no more are made: the most that there were until their number falls, or stays."""
    seen, deadline = [waiting()], time.monotonic() + limit_s
    while time.monotonic() < deadline and seen[-1] == max(seen):
        if seen[-STILL_LOOKS:] == STILL_LOOKS * seen[-1:]:
            break
        time.sleep(LOOK_S)
        seen.append(waiting())
    return max(seen)


def create(_=None):
    box, took_ms = timed(client.Box, TEMPLATE)
    return box, took_ms


def rate(part, name, key):
    """How many interpreters are made a second, without a pause: each is killed as soon as it is there."""
    span_s = part.count(1, 10, 20)
    took = part.client().flows("create", "kill", n=100_000, lanes=LANES, span_s=span_s, template=TEMPLATE)
    done = len(took["create"])
    part.value(f"{name}, {LANES} clients for {span_s} s", done * 1000 / took["all_ms"], "/s", key=key,
               success=done / (done + took["failed"]), n=done)


def in_a_row(part, name, key):
    row = []
    for _ in range(part.count(2, 20, 30)):
        box, took_ms = create()
        row.append(took_ms)
        box.kill()
    part.samples(name, row, key=key)


def creates(part):
    part.heading(f"Creates of {TEMPLATE}, in a row and at once")
    part.value("waiting in quiet times", waiting_most(), "", key="code.parked.quiet")
    found = misses()
    in_a_row(part, "one right behind the other: create", "code.row")
    part.value("of those, found none waiting", misses() - found, "", key="code.row.missed")
    part.value("waiting once they are over", waiting_most(), "", key="code.parked.row")
    at_once = part.count(2, 15, 30)
    for time_of in ("a first burst", "a second behind it"):
        found = misses()
        with ThreadPoolExecutor(at_once) as threads:
            made, took_ms = timed(lambda n: list(threads.map(create, range(n))), at_once)
        part.samples(f"{at_once} at once, {time_of}: each", [ms for _, ms in made])
        part.value(f"{at_once} at once, {time_of}: until the last is there", took_ms, "ms")
        part.value(f"{at_once} at once, {time_of}: found none waiting", misses() - found, "")
        for box, _ in made:
            box.kill()
        part.value(f"waiting after {time_of}", waiting_most(), "")
    rate(part, "create + destroy", "code.rate")


def a_cell_in_each(n):
    """What is left of the memory that they share once each has run a cell."""
    ids = [one["sandboxID"] for one in client.api("GET", f"/v2/sandboxes?limit={n}")]
    with ThreadPoolExecutor(LANES) as threads:
        list(threads.map(lambda one: Notebook(one).cell("1+1"), ids))
    return "after a cell in each"


def crowd(part):
    """As many as fit, up to a hundred."""
    n = min(part.count(2, CROWD, CROWD), (memory.available_kb() - RESERVE_KB) // EACH_KB)
    if n < CROWD and not part.mode == "tiny":
        part.note(f"{CROWD} interpreters may not fit into this machine's memory: {n} are measured")
    part.heading(f"Density: {n} idle sandboxes of {TEMPLATE}")
    density.crowd(part, part.client(), TEMPLATE, n, a_cell_in_each)


def output(part):
    box = Notebook()
    direct_ms = box.direct("print")[-1]
    took_ms = box.cell(PRINT)[1]
    box.kill()
    part.heading("run_code: 100 MB of print()")
    part.value("jupyter_client inside", PRINTED_BYTES / 1000 / direct_ms, "MB/s")
    part.value("atoll, HTTP", PRINTED_BYTES / 1000 / took_ms, "MB/s")


def prepare():
    client.wait_for_template(TEMPLATE, MADE_S)


def measure(part):
    cells(part)
    creates(part)
    if part.full:
        output(part)
    crowd(part)
