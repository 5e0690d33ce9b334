"""Power cuts, of a virtual machine (life.py) or of a disk (tests/system/test_power_rounds.py): clients make sandboxes,
pause, resume, snapshot, fork, build and write; the power goes at a random moment; after the boot all that was acknowledged
is there and works, and nothing half made shows.

A round is decided by its seed as far as clients can decide it: what they do, in which order, after how many
acknowledgements the power goes and how long after the last of them. What a machine does in that time is
not repeatable."""

import random
import threading
import time

from e2b import Sandbox, Secret, Template, Volume

CLIENTS = 2
ACKNOWLEDGEMENTS_MAX = 5
LINGER_S_MAX = 8.0
WORK_S_MAX = 900
LIFE_S = 36000
EARLY = 0.5  # of the rounds, in which the kernel writes at once what nobody has asked it to write yet

# Keeps a word in its memory, and writes it down when it is asked.
KEEPER = """X=%s; trap 'echo $X >/home/user/told' USR1; sleep infinity & while :; do wait; done"""
ASK = """rm -f told; kill -USR1 %d; until [ -s told ]; do sleep 0.2; done; cat told; cat word"""

# Appends numbers to a file, each on the disk before the next, and says how far it was when it is asked. So what a pause keeps
# of the memory and of the disk is of one moment: the last number in the file is the one in memory, or the one before it.
WRITER = """n=0; trap 'echo $n >/home/user/told; exit' USR1; while :; do n=$((n+1)); echo $n >>/home/user/log; sync /home/user/log; done"""
ASK_WRITER = """rm -f told; kill -USR1 %d; until [ -s told ]; do sleep 0.2; done
awk -v told="$(cat told)" '$1 != NR { bad = 1 } END { print (!bad && NR > 0 && told - NR >= 0 && told - NR <= 1) ? "whole" : "torn " NR " " told }' log; cat word"""

# (what was acknowledged, what was under way) -> what may be there after the cut.
PAUSED, GONE, EITHER = "paused", "gone", "either"


class Thing:
    """Something that a client made. `expected` is what must be so after a cut at this moment."""

    def __init__(self, kind, word):
        self.kind, self.word = kind, word
        self.id, self.pid, self.expected = None, None, GONE
        self.writes, self.content = False, None


class Ledger:
    """What the clients were told, and what they were waiting for."""

    def __init__(self):
        self.lock = threading.Condition()
        self.things, self.acknowledged, self.ended = [], [], False
        self.errors = []

    def add(self, thing):
        with self.lock:
            self.things.append(thing)

    def expect(self, thing, state, acknowledged=None):
        """To be said before a request that may have an effect, and after its answer."""
        with self.lock:
            if self.ended:
                raise Cut
            thing.expected = state
            if acknowledged:
                self.acknowledged.append(acknowledged)
                self.lock.notify_all()


class Cut(Exception):
    """The power is gone: what a client is told from now on counts no more."""


class Client(threading.Thread):
    """One that goes on with random requests until the power goes."""

    def __init__(self, smoke, ledger, seed):
        super().__init__(daemon=True)
        self.smoke, self.ledger, self.chance = smoke, ledger, random.Random(seed)
        self.team = {"api_url": smoke.url, "api_key": smoke.key, "request_timeout": 600}
        self.order = []

    def run(self):
        deeds = [self.pause, self.pause, self.resume, self.snapshot, self.fork, self.build, self.volume, self.secret,
                 self.write]  # fmt: skip
        try:
            while True:
                self.chance.choice(deeds)()
        except Cut:
            pass
        except Exception as error:  # a machine that is cut off fails in every way
            with self.ledger.lock:
                if not self.ledger.ended:
                    self.ledger.errors.append(f"{type(error).__name__}: {error}")

    def thing(self, kind):
        made = Thing(kind, f"w{self.chance.randrange(1 << 40):010x}")
        self.ledger.add(made)
        return made

    def inhabited(self, program=None):
        """A sandbox that keeps a word in a file and in a process. Running, it does not outlive the power."""
        made = self.thing("sandbox")
        sandbox = Sandbox.create(timeout=LIFE_S, **self.smoke.sdk)
        made.id = sandbox.sandbox_id
        sandbox.files.write("/home/user/word", made.word)
        command = ["bash", "-c", program or KEEPER % made.word]
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)
        made.pid = sandbox.commands.run(quoted, background=True, timeout=0).pid
        self.ledger.expect(made, GONE, "create")
        return made, sandbox

    def pause_it(self, made):
        self.ledger.expect(made, EITHER)
        Sandbox.pause(made.id, **self.smoke.sdk)
        self.ledger.expect(made, PAUSED, "pause")

    def pause(self):
        made, _ = self.inhabited()
        self.pause_it(made)
        return made

    def write(self):
        """A sandbox that writes without end, and may be paused at it. Half of them write on until the power goes."""
        made, _ = self.inhabited(WRITER)
        made.writes = True
        if self.chance.random() < 0.5:
            self.pause_it(made)

    def resume(self):
        """After it the row of a running sandbox may be on the disk, or not yet."""
        made = self.pause()
        self.ledger.expect(made, EITHER)
        Sandbox.connect(made.id, timeout=LIFE_S, **self.smoke.sdk)
        self.ledger.expect(made, EITHER, "resume")
        if self.chance.random() < 0.5:
            self.pause_it(made)

    def snapshot(self):
        made, sandbox = self.inhabited()
        kept = Thing("snapshot", made.word)
        kept.pid = made.pid
        self.ledger.add(kept)
        self.ledger.expect(kept, EITHER)
        kept.id = sandbox.create_snapshot().snapshot_id
        self.ledger.expect(kept, PAUSED, "snapshot")
        sandbox.kill()

    def fork(self):
        made, _ = self.inhabited()
        copy = Thing("sandbox", made.word)
        copy.pid = made.pid
        answer = self.smoke.api("POST", f"/sandboxes/{made.id}/fork", json={"count": 1, "timeout": LIFE_S})
        assert answer.status_code in (200, 201), answer.text
        copy.id = answer.json()[0]["sandbox"]["sandboxID"]
        self.ledger.add(copy)
        self.ledger.expect(copy, GONE, "fork")
        self.pause_it(copy)

    def build(self):
        made = self.thing("template")
        made.id = made.word
        self.ledger.expect(made, EITHER)
        Template.build(
            Template().from_template("base").run_cmd(f"echo -n {made.word} > /home/user/word"), made.id, **self.team
        )
        self.ledger.expect(made, PAUSED, "build")

    def volume(self):
        made = self.thing("volume")
        self.ledger.expect(made, EITHER)
        made.id = made.word
        volume = Volume.create(made.word, **self.team)
        self.ledger.expect(made, PAUSED, "volume")
        if self.chance.random() < 0.5:
            volume.write_file("/word", made.word)
            made.content = made.word
            self.ledger.expect(made, PAUSED, "file")

    def secret(self):
        made = self.thing("secret")
        self.ledger.expect(made, EITHER)
        made.id = made.word
        Secret.create(made.word, "value", **self.team)
        self.ledger.expect(made, PAUSED, "secret")


class Look:
    """What is there after the boot, against what was promised. `faults` are sentences."""

    def __init__(self, smoke, machine, ledger):
        self.smoke, self.machine, self.ledger = smoke, machine, ledger
        self.faults, self.proven = [], 0

    def fault(self, sentence):
        self.faults.append(sentence)

    def listed(self, kind):
        """The names of all there is of a kind, as the API lists them."""
        path, field = {
            "sandbox": ("/v2/sandboxes?state=running,paused&limit=100", "sandboxID"),
            "snapshot": ("/snapshots?limit=100", "snapshotID"),
            "volume": ("/volumes", "name"),
            "secret": ("/secrets?limit=100", "name"),
        }[kind]
        answer = self.smoke.api("GET", path)
        assert answer.status_code == 200, answer.text
        return {row[field]: row for row in answer.json()}

    def templates(self):
        rows = self.smoke.api("GET", "/templates").json()
        return {name: row for row in rows for name in row.get("aliases") or row.get("names") or []}

    def look(self):
        for kind in ("sandbox", "snapshot", "volume", "secret"):
            self.look_at(kind, self.listed(kind))
        self.look_at_templates(self.templates())

    def look_at(self, kind, there):
        things = [thing for thing in self.ledger.things if thing.kind == kind]
        names = {thing.id for thing in things if thing.id}
        under_way = [thing for thing in things if not thing.id and thing.expected == EITHER]
        strangers = [name for name in there if name not in names]
        if len(strangers) > len(under_way):
            self.fault(f"{kind}s that nobody was told of: {strangers}")
        for thing in things:
            if thing.expected == PAUSED and thing.id not in there:
                self.fault(f"{kind} {thing.id} was acknowledged and is not there")
            elif thing.expected == GONE and thing.id in there:
                self.fault(f"{kind} {thing.id} ran when the power went and is there: {there[thing.id]}")
            elif thing.id in there and kind in ("sandbox", "snapshot"):
                self.prove(thing)
            elif thing.id in there and kind == "volume":
                self.prove_volume(thing)
            elif thing.id in there:
                self.proven += 1
        for name, thing in zip(strangers, under_way):
            thing.id = name
            if kind in ("sandbox", "snapshot"):
                self.prove(thing)

    def prove(self, thing):
        """It goes on where it was: the file and the process have the word."""
        try:
            if thing.kind == "sandbox":
                sandbox = Sandbox.connect(thing.id, timeout=LIFE_S, **self.smoke.sdk)
            else:
                sandbox = Sandbox.create(thing.id, timeout=LIFE_S, **self.smoke.sdk)
            said = self.smoke.run(sandbox, (ASK_WRITER if thing.writes else ASK) % thing.pid)
            if said != f"{'whole' if thing.writes else thing.word}\n{thing.word}":
                self.fault(f"{thing.kind} {thing.id} has lost what it knew: {said!r}")
            Sandbox.kill(sandbox.sandbox_id, **self.smoke.sdk)
            self.proven += 1
        except Exception as error:
            self.fault(f"{thing.kind} {thing.id} does not work: {type(error).__name__}: {error}")

    def prove_volume(self, thing):
        """It is everybody's: its mode is given after it is made. A file that was acknowledged has its content."""
        try:
            with self.smoke.sandbox(volume_mounts={"/data": thing.id}) as sandbox:
                self.smoke.run(sandbox, "touch /data/mine")
                if thing.content and (said := sandbox.files.read("/data/word")) != thing.content:
                    self.fault(f"volume {thing.id} has {said!r} in a file instead of {thing.content!r}")
            self.proven += 1
        except Exception as error:
            self.fault(f"volume {thing.id} does not work: {type(error).__name__}: {error}")

    def look_at_templates(self, there):
        for thing in self.ledger.things:
            if thing.kind != "template":
                continue
            row = there.get(thing.id)
            if thing.expected == PAUSED and not row:
                self.fault(f"template {thing.id} was acknowledged and is not there")
            elif row and row.get("buildStatus") == "building" and not self.settles(thing.id):
                self.fault(f"template {thing.id} is still said to be built: {row}")
            elif row and (thing.expected == PAUSED or row.get("buildStatus") == "ready"):
                self.prove_template(thing)

    def settles(self, name):
        """One that waits may still be started; one that was under way has ended."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.templates().get(name, {}).get("buildStatus") != "building":
                return True
            time.sleep(2)
        return False

    def prove_template(self, thing):
        try:
            with self.smoke.sandbox(thing.id) as sandbox:
                said = sandbox.files.read("/home/user/word")
            if said != thing.word:
                self.fault(f"template {thing.id} has {said!r} instead of {thing.word!r}")
            self.proven += 1
        except Exception as error:
            self.fault(f"template {thing.id} does not work: {type(error).__name__}: {error}")

    def clear(self, before):
        """All that shows is removed; then the pool has what it had `before`, and nothing hidden."""
        for name in self.listed("sandbox"):
            self.smoke.api("DELETE", f"/sandboxes/{name}")
        for name in self.listed("snapshot"):
            Sandbox.delete_snapshot(name, **self.smoke.sdk)
        for row in self.listed("volume").values():
            self.smoke.api("DELETE", f"/volumes/{row['volumeID']}")
        for name in self.listed("secret"):
            self.smoke.api("DELETE", f"/secrets/{name}")
        for name, row in self.templates().items():
            if name.startswith("w"):
                self.smoke.api("DELETE", f"/templates/{row['templateID']}")
        deadline = time.monotonic() + 300
        while (left := pool(self.machine) - before) and time.monotonic() < deadline:
            time.sleep(3)
        if left:
            self.fault(f"left in the pool when all that showed was removed: {sorted(left)}")


def pool(machine):
    """What is on the pool's disk, apart from the disks of jails that run, which come and go, and from
    what builds keep of their steps."""
    return {name for name in machine.pool_names() if not name.startswith("saved/saved-build-")}


def work_until_cut(smoke, machine, seed):
    """Lets clients work, takes the power away, and returns the ledger and what the disk said."""
    chance = random.Random(seed)
    ledger = Ledger()
    machine.write_early(chance.random() < EARLY)
    wanted, linger = chance.randint(1, ACKNOWLEDGEMENTS_MAX), chance.uniform(0, LINGER_S_MAX)
    clients = [Client(smoke, ledger, chance.random()) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    with ledger.lock:
        ledger.lock.wait_for(lambda: len(ledger.acknowledged) >= wanted or ledger.errors, WORK_S_MAX)
    time.sleep(linger)
    with ledger.lock:
        ledger.ended = True
    disk = machine.cut()
    return ledger, disk


def round_of(machine, smoke, seed, before, wait_ready):
    """One cut. Returns a row for the table."""
    began = time.monotonic()
    ledger, disk = work_until_cut(smoke, machine, seed)
    worked = time.monotonic()
    machine.start(seed=seed, wait=False)
    wait_ready()
    booted = time.monotonic()
    look = Look(smoke, machine, ledger)
    look.look()
    look.clear(before)
    return {
        "seed": seed,
        "acknowledged": list(ledger.acknowledged),
        "under_way": sorted({thing.kind for thing in ledger.things if thing.expected == EITHER}),
        "proven": look.proven,
        "disk": disk,
        "faults": ledger.errors + look.faults,
        "seconds": [round(worked - began), round(booted - worked), round(time.monotonic() - booted)],
    }
