"""A virtual machine in QEMU: started, asked over ssh, rebooted, powered off, cut off."""

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MEMORY_MB = 4096
BOOT_S = 1800
COMMAND_S = 3600
PROBE_S = 30
KERNEL = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off no5lvl cryptomgr.notests quiet"


class Panicked(Exception):
    """The machine's own kernel has given up."""


def until(check, what, limit_s, pause_s=0.5):
    """Polls until check() is true, and returns what it returned."""
    deadline = time.monotonic() + limit_s
    while not (result := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not so after {limit_s} s: {what}")
        time.sleep(pause_s)
    return result


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# A board with no more devices than a virtual machine needs, and a processor without what only brings modules along: a
# kernel under TCG takes a third of its start to find and to load them.
BOARD = "q35,sata=off,smbus=off,i8042=off,vmport=off"
PROCESSOR = "max,-la57,-svm,-aes,-pclmulqdq,-sha-ni"


def qemu(accelerator, *words):
    return [
        *("qemu-system-x86_64", "-machine", BOARD, "-accel", accelerator, "-smp", "2"),
        *("-cpu", PROCESSOR if accelerator.startswith("tcg") else "host"),
        *("-m", str(MEMORY_MB), "-display", "none", "-monitor", "none", "-no-user-config", "-nodefaults"),
        *words,
    ]


@functools.cache
def accelerator(kernel):
    """KVM where the release's own kernel comes up under it; else TCG. A nested KVM may start a kernel
    and hang it: so it is tried."""
    tcg = "tcg,thread=multi,tb-size=1024"
    wanted = os.environ.get("ATOLL_MACHINES_ACCEL")
    if wanted:
        return tcg if wanted == "tcg" else wanted
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return tcg
    # Without a root the kernel panics, and the machine ends: a sign of life.
    words = ("-kernel", str(kernel), "-append", "console=ttyS0 panic=-1", "-no-reboot", "-serial", "stdio")
    try:
        done = subprocess.run(
            qemu("kvm", *words), stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return tcg
    return "kvm" if b"Kernel panic" in done.stdout else tcg


class Machine:
    """A disk of its own, copied from the image in `image`; what it says is in `place`/console."""

    def __init__(self, image, place, disk=None):
        self.image, self.place = Path(image), Path(place)
        self.place.mkdir(parents=True, exist_ok=True)
        self.disk = self.place / "disk.img"
        self.process = self.medium = None
        self.said_before = 0  # the length of its console's text when it was started
        self.ssh_port, self.api_port = free_port(), free_port()
        subprocess.run(["cp", "--sparse=always", disk or self.image / "disk.img", self.disk], check=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.api_port}"

    def start(self, seed=0, wait=True):
        """Boots it. `seed` decides what its disk does with unflushed writes should it be cut off."""
        console = self.place / "console"
        console.touch()
        self.said_before = len(self.said())
        door = self.place / "disk.sock"
        door.unlink(missing_ok=True)
        self.medium = subprocess.Popen(
            [sys.executable, HERE / "disk.py", self.disk, door, str(seed)], stdout=subprocess.PIPE, text=True
        )
        assert self.medium.stdout.readline() == "ready\n"
        forward = f"hostfwd=tcp:127.0.0.1:{self.ssh_port}-:22,hostfwd=tcp:127.0.0.1:{self.api_port}-:3000"
        self.process = subprocess.Popen(
            qemu(
                accelerator(self.image / "vmlinuz"),
                *("-kernel", self.image / "vmlinuz", "-initrd", self.image / "initrd.img", "-append", KERNEL),
                *("-blockdev", f"driver=nbd,node-name=disk,server.type=unix,server.path={door}"),
                *("-device", "virtio-blk-pci,drive=disk,write-cache=on"),
                *("-nic", f"user,model=virtio-net-pci,{forward}", "-device", "virtio-rng-pci"),
                *("-chardev", f"file,id=console,path={console},append=on", "-serial", "chardev:console"),
            ),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        if wait:
            self.wait_door()

    def wait_door(self, limit_s=BOOT_S):
        until(lambda: self.alive() and self.ssh("true", check=False, limit_s=60).returncode == 0,
              f"the machine answers; its console is {self.place / 'console'}", limit_s)

    def alive(self):
        assert self.process.poll() is None, f"QEMU ended: {self.process.returncode}"
        if "Kernel panic" in self.said()[self.said_before :]:
            raise Panicked(f"the machine's kernel panicked; its console is {self.place / 'console'}")
        return True

    def ssh(self, command, check=True, limit_s=COMMAND_S, **options):
        """Runs a command as root in the machine; the result has its output as text."""
        done = subprocess.run(
            [
                *("ssh", "-i", self.image / "id", "-p", str(self.ssh_port), "-o", "BatchMode=yes"),
                *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
                *("-o", "ConnectTimeout=30", "-o", "KexAlgorithms=curve25519-sha256", "root@127.0.0.1", command),
            ],
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit_s,
            check=False,
            **options,
        )
        assert not check or done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout[-2000:]}"
        return done

    def send(self, path, to):
        """Copies a file into the machine."""
        with open(path, "rb") as file:
            self.ssh(f"cat >{to}", stdin=file)

    def pool_names(self):
        """What lies in the directories of the pool that outlive sandboxes."""
        return self.ssh("cd /var/lib/atoll/pool && ls -d saved/* layers/* volumes/* 2>/dev/null; true").stdout.split()

    def write_early(self, early):
        """Whether its kernel writes what programs wrote a tenth of a second later, and not half a minute: then
        much is in the disk's cache, unflushed, at every moment."""
        every, after = (10, 10) if early else (500, 3000)
        self.ssh(f"sysctl -q vm.dirty_writeback_centisecs={every} vm.dirty_expire_centisecs={after}")

    def said(self):
        """What it has said on its console in all its boots."""
        return (self.place / "console").read_text(errors="replace")

    def reboot(self):
        """Returns after how many seconds it was down; it is up again then."""
        boot, ended = self.ssh("cat /proc/sys/kernel/random/boot_id").stdout, "reboot: Restarting system"
        before, began = self.said().count(ended), time.monotonic()
        self.ssh("systemctl reboot", check=False)
        until(lambda: self.alive() and self.said().count(ended) > before, "it is down", BOOT_S)
        down_s = time.monotonic() - began

        def anew():
            done = self.ssh("cat /proc/sys/kernel/random/boot_id", check=False, limit_s=60)
            return self.alive() and done.returncode == 0 and done.stdout != boot

        until(anew, "it is up again", BOOT_S)
        return down_s

    def cut(self):
        """Takes its power away, and returns what its disk says of it."""
        os.kill(self.process.pid, signal.SIGKILL)
        return self.ended()

    def power_off(self):
        """Returns after how many seconds it was off, and what its disk says."""
        began = time.monotonic()
        self.ssh("systemctl poweroff", check=False)
        self.process.wait(timeout=BOOT_S)
        return time.monotonic() - began, self.ended()

    def ended(self):
        self.process.wait()
        self.process = None
        said = self.medium.communicate()[0].strip()
        self.medium = None
        return said

    def scrap(self):
        if self.process:
            self.cut()
        shutil.rmtree(self.place)
