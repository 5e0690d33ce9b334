"""The life of atoll on one machine, step by step: `life.py RELEASE IMAGE WORK NEW OLD`.

The package of the commit NEW is installed, every capability is tried, the machine is rebooted and cut off a
few times, and the package removed and purged. Then OLD is installed, used, and upgraded to NEW. Each step is told as it
ends, and on record in WORK/result.json. A step that fails fails the run; the next ones are tried all
the same where they can be.

ATOLL_MACHINES_CUTS is the number of power cuts (3), ATOLL_MACHINES_SEED their seed. ATOLL_MACHINES_ONLY=cuts
leaves out all but the first start and the cuts. The disk after that start is kept, with the record of the steps up to
there, and the next run of the same package begins with both.
ATOLL_MACHINES_WITHOUT names capabilities that are not tried, separated by commas."""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import cuts
from machine import ROOT, Machine, Panicked, accelerator, until
from smoke import CAPABILITIES, LIFE_S, Smoke

sys.path.insert(0, str(ROOT / "tests" / "system"))
from e2b import Sandbox, Volume  # noqa: E402
from world import Authority, Names, Web  # noqa: E402

READY_S = 3600  # the first start unpacks the base template
OUTSIDE = "10.0.2.2"  # this machine's loopback, as the other one sees it
PATIENCE_S = 1800  # of the machine's systemd with a process that does not end: 90 s could be a slow machine's shutdown
DOWN_S_MAX = 900
SAFE = "/root/templates"  # where no purge looks for them
# The unit of the last commit without a tag filters the keeper's system calls, and a filtered keeper saves no memory.
UNFILTERED = "RestrictAddressFamilies=\\nLockPersonality=no\\nProtectClock=no\\nProtectKernelLogs=no\\nRestrictRealtime=no\\n"
APT = "DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Options::=--force-confold"


class World:
    """Servers on this machine's loopback, which sandboxes reach through the other one's network card."""

    def __init__(self, path):
        self.authority = Authority(path)
        combined = Path(path) / "combined.pem"
        combined.write_text("".join(Path(part).read_text() for part in self.authority.leaf("api.test")))
        self.api, self.plain = Web("api", str(combined)), Web("plain")
        self.names = Names({"api.test": ["198.51.100.1"], "plain.test": ["198.51.100.3"]})

    def settings(self):
        return {
            "egress_map": f"198.51.100.1:443={OUTSIDE}:{self.api.server_port},"
            f"198.51.100.3:80={OUTSIDE}:{self.plain.server_port}",
            "egress_dns": f"{OUTSIDE}:{self.names.port}",
            "egress_ca": "/etc/atoll/world.pem",
        }


class Life:
    slow = {"start_ready_s": "900"}

    def __init__(self, release, image, work, new, old):
        self.release, self.image, self.work = release, Path(image), Path(work)
        self.new, self.old = new, old
        self.cuts = int(os.environ.get("ATOLL_MACHINES_CUTS", "3"))
        self.seed = int(os.environ.get("ATOLL_MACHINES_SEED") or random.SystemRandom().randrange(1 << 32))
        self.only_cuts = os.environ.get("ATOLL_MACHINES_ONLY") == "cuts"
        self.without = set(filter(None, os.environ.get("ATOLL_MACHINES_WITHOUT", "").split(",")))
        assert self.without <= set(CAPABILITIES), f"no capability is called {self.without - set(CAPABILITIES)}"
        self.world = World(tempfile.mkdtemp(dir=self.work))
        package = (self.image / f"{new}.deb").resolve().stem
        self.started = (self.image / "disk.img").resolve().parent / f"{package}.started"
        self.goes_on = self.started.exists()
        self.machine = Machine(self.image, self.work / "machine", self.started if self.goes_on else None)
        self.steps, self.rounds, self.about, self.kept = [], [], {}, {}
        self.smoke = None

    # ---- telling ----

    def say(self, text):
        print(f"{time.strftime('%H:%M:%S')} Debian {self.release}: {text}", flush=True)

    def step(self, name, do, *arguments):
        """Tries a step, tells how it ended, and returns whether it went well."""
        began, sentence = time.monotonic(), ""
        try:
            sentence = do(*arguments) or ""
            good = True
        except Exception as error:
            traceback.print_exc()
            good, sentence = False, f"{type(error).__name__}: {error}".splitlines()[0][:300]
        took = round(time.monotonic() - began)
        self.say(f"{'ok' if good else 'FAILED'}  {name} ({took} s){': ' + sentence if sentence else ''}")
        self.steps.append({"name": name, "good": good, "seconds": took, "sentence": sentence})
        self.record()
        return good

    def record(self):
        result = {
            "release": self.release, "commit": self.new, "previous": self.old, "about": self.about,
            "steps": self.steps, "seed": self.seed, "rounds": self.rounds, "without": sorted(self.without),
        }  # fmt: skip
        (self.work / "result.json").write_text(json.dumps(result, indent=1))

    # ---- the machine ----

    def boot(self):
        self.machine.start(seed=self.seed)
        ask = "uname -r; systemctl --version | head -1; stat -fc %T /sys/fs/cgroup; . /etc/os-release; echo $PRETTY_NAME; cat /etc/debian_version"
        kernel, systemd, groups, name, version = self.machine.ssh(ask).stdout.splitlines()
        assert groups == "cgroup2fs", f"/sys/fs/cgroup is {groups}"
        self.be_patient()
        self.about = {
            "kernel": kernel, "systemd": systemd.split()[1], "cgroups": "v2 alone", "name": name, "version": version,
            "processor": "KVM" if accelerator(self.image / "vmlinuz") == "kvm" else "TCG",
        }  # fmt: skip
        return f"{name}, Linux {kernel}, systemd {systemd.split()[1]}, cgroup v2 alone"

    def be_patient(self):
        conf = "/etc/systemd/system.conf.d"
        text = f"[Manager]\\nDefaultTimeoutStopSec={PATIENCE_S}\\n"
        self.machine.ssh(f"mkdir -p {conf} && printf '{text}' >{conf}/patience.conf && systemctl daemon-reexec")

    def apt(self, words, check=True):
        return self.machine.ssh(f"{APT} {words} 2>&1", check)

    def package(self, commit, check=True):
        self.machine.send(self.image / f"{commit}.deb", "/root/atoll.deb")
        return self.apt("install --allow-downgrades --no-install-recommends /root/atoll.deb", check)

    def configure(self, templates, **more):
        """What an administrator has written before the package comes."""
        settings = {"listen": "0.0.0.0:3000", "pool_size": "8G", "parked_max": "2", **more}
        settings |= self.world.settings() | {"with_templates": ",".join(templates) or "none"}
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        self.machine.ssh(f"mkdir -p /etc/atoll && cat >/etc/atoll/atoll.conf <<'END'\n{text}END")
        self.machine.send(self.world.authority.cert, "/etc/atoll/world.pem")
        return text

    def install(self):
        text = self.configure([], **self.slow)
        self.package(self.new)
        assert self.machine.ssh("cat /etc/atoll/atoll.conf").stdout == text, "the configuration was replaced"
        return self.version()

    def settings_anew(self):
        """The administrator wants more templates, and has restarted the server."""
        named = {"code_interpreter": "code-interpreter-v1", "mcp_gateway": "mcp-gateway"}
        templates = [name for tried, name in named.items() if tried not in self.without]
        self.configure(templates, **self.slow)
        self.machine.ssh("systemctl restart --no-block atoll-templates.service && systemctl restart atoll.service")
        self.wait_ready()
        return ", ".join(templates)

    def version(self):
        return self.machine.ssh("dpkg-query -W -f '${Version}' atoll").stdout

    def install_previous(self):
        """As it was installed then: by a package, or by `make install`, with the libraries that the package
        needs, which a purge of it leaves."""
        self.smoke = None
        self.configure([])
        if (self.image / f"{self.old}.deb").exists():
            self.package(self.old)
        else:
            self.machine.send(self.image / f"{self.old}.tar", "/root/atoll.tar")
            self.machine.ssh("tar -x --keep-old-files -C / -f /root/atoll.tar --exclude=./etc/atoll && rm /root/atoll.tar")
            drop_in = "/etc/systemd/system/atoll-keeper.service.d"
            self.machine.ssh(f"mkdir -p {drop_in} && printf '[Service]\\n{UNFILTERED}' >{drop_in}/memory.conf")
            self.machine.ssh("systemctl daemon-reload && systemctl enable --now --no-block atoll.service")
        self.wait_ready()
        return self.machine.ssh("atoll version").stdout.strip()

    def ready(self):
        """The first start finds all that it needs on a stock kernel, whose parts are modules."""
        self.wait_ready()
        warned = self.machine.ssh("journalctl -b -u atoll-keeper -o cat | grep ' warn ' || true").stdout
        assert not warned, warned
        return "the keeper is connected, and has warned of nothing"

    def wait_ready(self):
        if not self.smoke:
            read = "cat /var/lib/atoll/state/default.key"
            until(lambda: self.machine.alive() and self.machine.ssh(read, check=False).returncode == 0, "there is a key", READY_S, 3)
            self.smoke = Smoke(self.machine.url, self.machine.ssh(read).stdout.strip(), self.world)
            os.environ["E2B_VOLUME_API_URL"] = self.machine.url

        def connected():
            self.machine.alive()
            try:
                health = self.smoke.api("GET", "/health").json()
                return health["keeperConnected"] and not any(one["what"] == "adoption" for one in health["degraded"])
            except Exception:
                return False

        until(connected, "the daemon and its keeper are up", READY_S)

    def doctor(self):
        done = self.machine.ssh("atoll doctor", check=False)
        assert done.returncode == 0 and re.search(r"^ok +memory ", done.stdout, re.MULTILINE), done.stdout
        return "ok, with memory"

    def https(self):
        """Port 443 is opened by systemd for a server without privilege; names, certificate and environment fit together."""
        self.machine.ssh("systemctl enable --now atoll-https.socket && systemctl restart atoll.service")
        self.wait_ready()
        by_name = "env -u E2B_API_URL -u E2B_SANDBOX_URL ATOLL_DATA=/nowhere atoll key list"
        domain = self.machine.ssh(f'eval "$(atoll env)" && {by_name} >/dev/null && echo "$E2B_DOMAIN"').stdout.strip()
        assert domain and ":" not in domain, f"the domain is {domain!r}: port 443 needs no number"
        self.machine.ssh("systemctl disable --now atoll-https.socket && systemctl restart atoll.service")
        self.wait_ready()
        return f"https://api.{domain} answers on port 443"

    def dashboard(self):
        """It is part of the package, and `atoll open` makes a link that logs in."""
        page = self.smoke.api("GET", "/")
        assert page.status_code == 200 and "<script" in page.text, page.text[:300]
        link = self.machine.ssh("atoll open --no-browser").stdout.strip().splitlines()[-1].strip()
        assert link.startswith("http"), link
        return f"served, {len(page.content)} bytes of its first page"

    # ---- what lasts ----

    def prepare(self):
        """A running sandbox, a paused one, a snapshot and a volume, each with a state."""
        smoke = self.smoke
        running = Sandbox.create(timeout=LIFE_S * 10, **smoke.sdk)
        smoke.start_counter(running)
        snapshot = running.create_snapshot()
        paused = Sandbox.create(timeout=LIFE_S * 10, **smoke.sdk)
        smoke.start_counter(paused)
        paused.pause()
        volume = Volume.create("kept", api_url=smoke.url, api_key=smoke.key)
        volume.write_file("/file", "kept")
        self.kept = {"running": running.sandbox_id, "paused": paused.sandbox_id, "snapshot": snapshot.snapshot_id}
        self.counts = {"running": 1, "paused": 1}

    def counts_on(self, name):
        self.counts[name] += 1
        counted = until(lambda: self.smoke.count(self.kept[name]), f"the {name} sandbox answers", 600)
        assert counted == self.counts[name], f"the {name} sandbox has counted {counted}"

    def kept_works(self, survives):
        """What was paused, snapshotted and in the volume is there; what ran as is documented."""
        smoke = self.smoke
        if survives:
            self.counts_on("running")
        else:
            assert smoke.api("GET", f"/sandboxes/{self.kept['running']}").status_code == 404
        Sandbox.connect(self.kept["paused"], timeout=LIFE_S * 10, **smoke.sdk)
        self.counts_on("paused")
        Sandbox.pause(self.kept["paused"], **smoke.sdk)
        with smoke.sandbox(self.kept["snapshot"]) as copy:
            assert smoke.count(copy.sandbox_id) == 2
        [volume] = [v for v in Volume.list(api_url=smoke.url, api_key=smoke.key) if v.name == "kept"]
        volume = Volume.connect(volume.volume_id, api_url=smoke.url, api_key=smoke.key)
        assert volume.read_file("/file") == "kept"
        return f"the running sandbox {'goes on' if survives else 'is gone, as documented'}, the rest is there"

    def upgrade(self):
        """Over a `make install` the package says what to do first, and that is done."""
        if not (self.image / f"{self.old}.deb").exists():
            refused = self.package(self.new, check=False)
            wanted = "make uninstall PREFIX=/usr/local SANDBOXES=keep"
            assert refused.returncode and wanted in refused.stdout, refused.stdout
            self.machine.ssh("mkdir -p /root/atoll/tools")
            for name in ("common.sh", "uninstall"):
                self.machine.send(ROOT / "tools" / name, f"/root/atoll/tools/{name}")
            self.machine.ssh("SANDBOXES=keep bash /root/atoll/tools/uninstall '' /usr/local")
            self.machine.ssh("rm -r /root/atoll /etc/systemd/system/atoll-keeper.service.d")
        self.package(self.new)
        self.wait_ready()
        self.kept_works(survives=True)
        return self.version()

    def reboot(self):
        """A sandbox runs meanwhile; nothing that it does may hold up the shutdown."""
        down_s = self.machine.reboot()
        late = self.machine.ssh("journalctl -b -1 -o cat | grep -E 'timed out|Killing process' || true").stdout
        assert down_s < DOWN_S_MAX and not late, f"down after {down_s:.0f} s: {late}"
        self.wait_ready()
        return f"down after {down_s:.0f} s; {self.kept_works(survives=False)}"

    def power_off(self):
        """After an upgrade a sandbox with the agent of the version before runs, which may ignore SIGTERM."""
        off_s, disk = self.machine.power_off()
        assert off_s < DOWN_S_MAX, f"off after {off_s:.0f} s"
        return f"off after {off_s:.0f} s; {disk}"

    def javascript(self):
        tests = ROOT / "tests"
        node = subprocess.run([tests / "sdk-js" / "node"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        variables = {"E2B_API_URL": self.smoke.url, "E2B_SANDBOX_URL": self.smoke.url, "E2B_API_KEY": self.smoke.key}
        done = subprocess.run(
            [node, tests / "machines" / "smoke.cjs"], env=os.environ | variables, capture_output=True, text=True,
            timeout=1800, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    # ---- cuts, and the end ----

    def cut(self, number):
        seed = self.seed + number
        try:
            row = cuts.round_of(self.machine, self.smoke, seed, self.empty, self.wait_ready)
        except Panicked:
            self.machine.cut()
            self.machine.start(seed=seed)
            self.wait_ready()
            self.clear()
            raise
        self.rounds.append(row)
        if row["faults"]:
            self.empty = cuts.pool(self.machine)
        assert not row["faults"], "; ".join(row["faults"])
        told = ", ".join(row["acknowledged"]) or "nothing"
        return f"seed {seed}: acknowledged {told}; {row['disk']}; {row['proven']} proven; {row['seconds']}"

    def clear(self):
        """The rounds begin with an empty table, and each leaves it so."""
        self.kept = {}
        cuts.Look(self.smoke, self.machine, cuts.Ledger()).clear(cuts.pool(self.machine))
        self.empty = cuts.pool(self.machine)

    def removed(self):
        self.machine.ssh(f"mkdir -p {SAFE} && ln /var/cache/atoll/templates/*.tar.zst {SAFE}")
        sandbox = Sandbox.create(timeout=LIFE_S, **self.smoke.sdk)
        self.apt("remove atoll")
        ask = "pgrep -l atoll; ls /usr/bin/atoll /usr/lib/atoll 2>/dev/null; true"
        left = self.machine.ssh(ask).stdout
        assert not left, f"left of sandbox {sandbox.sandbox_id} and the package: {left}"
        kept = self.machine.ssh("ls /var/lib/atoll/state /etc/atoll/atoll.conf").stdout
        assert "atoll.db" in kept, kept
        return "no process and no program is left; data and configuration are"

    def purged(self):
        self.apt("purge atoll")
        left = self.machine.ssh("ls -d /var/lib/atoll/state; ls -d /etc/atoll/atoll.conf /var/cache/atoll 2>/dev/null; true").stdout
        assert left == "/var/lib/atoll/state\n", left
        return "the data is kept, as nobody asked for its end"

    def purged_with_data(self):
        """What was kept is there when the package comes again; then nothing is."""
        self.templates_back()
        self.configure([])
        self.package(self.new)
        self.wait_ready()
        self.machine.ssh("echo atoll atoll/purge_data boolean true | debconf-set-selections")
        self.apt("purge atoll")
        left = self.machine.ssh("ls -d /var/lib/atoll /etc/atoll/atoll.conf; getent passwd atoll; mount | grep atoll; true").stdout
        assert "/var/lib/atoll\n" not in left and "pool" not in left and "atoll:" not in left, left
        return "nothing is left"

    def templates_back(self):
        self.machine.ssh(f"mkdir -p /var/cache/atoll/templates && ln {SAFE}/* /var/cache/atoll/templates/")

    # ---- all of it ----

    def keep_started(self):
        self.machine.power_off()
        (self.started.with_suffix(".json")).write_text(json.dumps({"about": self.about, "steps": self.steps}))
        subprocess.run(["cp", "--sparse=always", self.machine.disk, self.started.with_suffix(".new")], check=True)
        self.started.with_suffix(".new").rename(self.started)
        self.machine.start(seed=self.seed)
        self.wait_ready()

    def go_on(self):
        kept = json.loads(self.started.with_suffix(".json").read_text())
        self.about, self.steps = kept["about"], kept["steps"]
        self.say("goes on from the first start of an earlier run with this package")
        for step in self.steps:
            self.say(f"ok  {step['name']} ({step['seconds']} s): {step['sentence']}")
        self.machine.start(seed=self.seed)
        self.be_patient()
        self.wait_ready()
        return True

    def begin(self):
        if self.goes_on:
            return self.go_on()
        well = (
            self.step("boot", self.boot)
            and self.step("install the package", self.install)
            and self.step("start the units", self.ready)
            and self.step("atoll doctor", self.doctor)
        )
        if well:
            self.keep_started()
        return well

    def middle(self):
        self.step("settings, and a restart", self.settings_anew)
        for name in CAPABILITIES:
            if name not in self.without:
                self.step(name.replace("_", " "), getattr(self.smoke, name))
        self.step("JavaScript SDK", self.javascript)
        self.step("TLS on port 443", self.https)
        self.step("dashboard", self.dashboard)
        if self.step("sandboxes before the reboot", self.prepare):
            self.step("reboot", self.reboot)

    def end(self):
        self.step("remove the package", self.removed)
        self.step("purge the package", self.purged)
        self.step("install again, and purge with its data", self.purged_with_data)
        self.templates_back()
        if self.step("install the previous version", self.install_previous) and self.step(
            "sandboxes before the upgrade", self.prepare
        ):
            self.step("upgrade from the previous version", self.upgrade)

    def live(self):
        self.say(f"power cuts: {self.cuts} with the seeds from {self.seed} on")
        try:
            if not self.begin():
                return False
            if not self.only_cuts:
                self.middle()
            self.clear()
            for number in range(self.cuts):
                self.step(f"power cut {number + 1}", self.cut, number)
            if not self.only_cuts:
                self.end()
            self.step("power off", self.power_off)
        finally:
            self.record()
            if self.machine.process:
                self.machine.cut()
        return all(step["good"] for step in self.steps)


if __name__ == "__main__":
    life = Life(*sys.argv[1:6])
    well = life.live()
    good = sum(step["good"] for step in life.steps)
    print(f"{good} passed, {len(life.steps) - good} failed", flush=True)
    sys.exit(0 if well else 1)
