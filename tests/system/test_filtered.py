"""A seccomp filter on the keeper forbids it to save memory: that is said before anybody pauses anything."""

import ctypes
import re
import struct
import subprocess

from daemon import PROGRAM, ROOT, Daemon

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)  # BPF_RET | BPF_K, SECCOMP_RET_ALLOW

# Settings of a unit that make systemd put a filter on its processes (systemd.exec(5)).
FILTERING = (
    "LockPersonality|MemoryDenyWriteExecute|NoExecPaths|PrivateDevices|ProtectClock|ProtectHostname|ProtectKernelLogs"
    "|ProtectKernelModules|ProtectKernelTunables|RestrictAddressFamilies|RestrictFileSystems|RestrictNamespaces"
    "|RestrictRealtime|RestrictSUIDSGID|SystemCall[A-Za-z]*"
)


def filter_self():
    """A filter that allows everything, as hardening of a unit allows nearly everything."""
    program = ctypes.create_string_buffer(ALLOW, len(ALLOW))
    fprog = struct.pack("HxxxxxxP", 1, ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, fprog, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no filter can be set")


def memory_point(data, **options):
    result = subprocess.run(
        [PROGRAM, "doctor", "--data", str(data)], capture_output=True, text=True, timeout=120, **options
    )
    return re.search(r"^(\w+) +memory +(.*)$", result.stdout, re.M).groups()


def test_doctor_sees_a_filter_on_itself(tmp_path):
    verdict, sentence = memory_point(tmp_path, preexec_fn=filter_self)
    assert verdict == "degraded"
    assert "a seccomp filter holds for the keeper" in sentence


def test_doctor_and_the_log_tell_of_a_filter_on_a_running_keeper():
    daemon = Daemon()
    try:
        daemon.start(preexec_fn=filter_self)
        verdict, sentence = memory_point(daemon.data)
        assert verdict == "degraded"
        assert "a seccomp filter holds for the keeper" in sentence
        assert "a seccomp filter holds for the keeper" in (daemon.data / "log").read_text()
        daemon.stop()
        daemon.start()
        assert memory_point(daemon.data)[0] == "ok"
    finally:
        daemon.remove()


def test_the_shipped_unit_puts_no_filter_on_the_keeper():
    unit = (ROOT / "systemd/atoll-keeper.service").read_text()
    assert re.findall(rf"^(?:{FILTERING})=.*", unit, re.M) == []
