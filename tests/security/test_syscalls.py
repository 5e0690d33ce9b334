"""Kernel surface that a jail has no business with: each call answers with an errno, and the caller
lives on to see it."""

DENIED = {"EPERM", "ENOSYS", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT"}


def test_new_namespaces_cannot_be_made(attack):
    """New namespaces of any kind, by unshare, clone or clone3, are refused to the jail's root."""
    report = attack("""
        CLONE = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000,
                 "ipc": 0x8000000, "uts": 0x4000000, "cgroup": 0x2000000, "time": 0x80}
        for name, flag in CLONE.items():
            attempt("unshare " + name, lambda: syscall(272, flag))
        def clone3(flag):
            args = struct.pack("11Q", flag, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
            r = syscall(435, ctypes.create_string_buffer(args), len(args))
            if r == 0:
                os._exit(0)
            return r
        attempt("clone3 user", lambda: clone3(0x10000000))
        def clone(flag):
            r = syscall(56, flag | 17, 0, 0, 0, 0)
            if r == 0:
                os._exit(0)
            return r
        attempt("clone user", lambda: clone(0x10000000))
    """)
    assert report and all(v in DENIED for v in report.values()), report


def test_a_user_namespace_cannot_be_made_by_the_plain_user_either(attack):
    """A user namespace, made by the jail's plain user, is refused."""
    report = attack('attempt("unshare", lambda: syscall(272, 0x10000000))', user="user")
    assert report["unshare"] in DENIED


def test_privileged_calls_are_denied(attack):
    """System calls that widen the kernel's surface (bpf, io_uring, keyctl, userfaultfd, mounts, modules and
    others) are refused."""
    report = attack("""
        empty = ctypes.create_string_buffer(256)
        CALLS = {"io_uring_setup": (425, 8, empty), "bpf": (321, 0, empty, 120),
                 "keyctl": (250, 0, -3, 0), "add_key": (248, b"user", b"x", b"y", 1, -3),
                 "request_key": (249, b"user", b"x", 0, 0), "userfaultfd": (323, 0),
                 "perf_event_open": (298, empty, 0, -1, -1, 0), "kexec_load": (246, 0, 0, 0, 0),
                 "init_module": (175, empty, 1, b""), "finit_module": (313, 0, b"", 0),
                 "delete_module": (176, b"x", 0), "mount": (165, b"none", b"/mnt", b"tmpfs", 0, 0),
                 "umount2": (166, b"/proc", 2), "fsopen": (430, b"tmpfs", 0),
                 "open_tree": (428, -100, b"/", 1), "move_mount": (429, -100, b"/", -100, b"/mnt", 0),
                 "mount_setattr": (442, -100, b"/", 0, empty, 32), "pivot_root": (155, b"/", b"/"),
                 "setns": (308, 0, 0), "open_by_handle_at": (304, -100, empty, 0),
                 "reboot": (169, 0xfee1dead, 672274793, 0, 0), "swapon": (167, b"/x", 0),
                 "sethostname": (170, b"x", 1), "settimeofday": (164, empty, 0),
                 "clock_settime": (227, 0, empty), "acct": (163, 0), "quotactl": (179, 0, 0, 0, 0),
                 "iopl": (172, 3), "ioperm": (173, 0, 1, 1), "syslog": (103, 3, empty, 1),
                 "memfd_secret": (447, 0)}
        for name, args in CALLS.items():
            attempt(name, lambda: syscall(*args))
    """)
    assert len(report) == 31
    assert {k: v for k, v in report.items() if v not in DENIED} == {}


def test_sockets_are_unix_inet_and_route_netlink_only(attack):
    """Sockets of rare families and protocols (AF_ALG, packet, vsock, netfilter, raw and others) are refused."""
    report = attack("""
        KINDS = {"alg": (38, 5, 0), "packet": (17, 3, 0), "packet dgram": (17, 2, 0), "vsock": (40, 1, 0),
                 "raw": (2, 3, 1), "raw6": (10, 3, 58), "netlink audit": (16, 3, 9),
                 "netlink netfilter": (16, 3, 12), "netlink kobject": (16, 3, 15),
                 "netlink generic": (16, 3, 16), "netlink xfrm": (16, 3, 6), "bluetooth": (31, 3, 0),
                 "can": (29, 3, 1), "tipc": (30, 1, 0), "key": (15, 3, 2), "xdp": (44, 3, 0),
                 "mptcp": (2, 1, 262)}
        for name, (family, kind, protocol) in KINDS.items():
            attempt(name, lambda: syscall(41, family, kind, protocol))
        for name, args in {"unix": (1, 1, 0), "inet": (2, 1, 0), "inet6": (10, 1, 0), "route": (16, 3, 0)}.items():
            attempt("ok " + name, lambda: syscall(41, *args) >= 0)
    """)
    allowed = {k: v for k, v in report.items() if k.startswith("ok ")}
    assert all(v is True for v in allowed.values()) and len(allowed) == 4, allowed
    assert {k: v for k, v in report.items() if k not in allowed and v not in DENIED} == {}


def test_protocols_of_sockets_are_tcp_and_udp_only(attack):
    """Each of these is a kernel module of its own, with a history of holes; some load when asked for."""
    report = attack("""
        PROTOCOLS = {"sctp": (1, 132), "sctp seqpacket": (5, 132), "sctp one to many": (5, 0), "dccp": (6, 33),
                     "mptcp": (1, 262), "smc": (1, 256), "udp-lite": (2, 136), "l2tp": (2, 115), "ping": (2, 1),
                     "ping6": (2, 58), "raw": (3, 255), "packet": (10, 3), "rdm": (4, 0), "tcp as datagrams": (2, 6),
                     "udp as stream": (1, 17)}
        FLAGS = {"": 0, " cloexec": 0o2000000, " nonblock": 0o4000, " both": 0o2004000}
        for family in (2, 10):
            for name, (kind, protocol) in PROTOCOLS.items():
                for text, flag in FLAGS.items():
                    attempt(f"{family} {name}{text}", lambda: syscall(41, family, kind | flag, protocol))
                attempt(f"{family} {name} pair", lambda: syscall(53, family, kind, protocol, struct.pack("ii", 0, 0)))
                attempt(f"{family} {name} high bits", lambda: syscall(41, family | 1 << 32, kind | 1 << 32,
                                                                      protocol | 1 << 32))
            for kind, protocol in ((1, 0), (1, 6), (2, 0), (2, 17)):
                for text, flag in FLAGS.items():
                    attempt(f"ok {family} {kind} {protocol}{text}",
                            lambda: os.close(syscall(41, family, kind | flag, protocol)) is None)
        attempt("smc family", lambda: syscall(41, 43, 1, 0))
        attempt("ok unix", lambda: [s.close() for s in socket.socketpair()] == [None, None])
    """)
    allowed = {k: v for k, v in report.items() if k.startswith("ok ")}
    assert len(allowed) == 33 and all(v is True for v in allowed.values()), allowed
    refused = DENIED | {"EOPNOTSUPP", "ENOTSUP"}  # two names of one number
    assert {k: v for k, v in report.items() if k not in allowed and v not in refused} == {}


def test_sockets_cannot_be_turned_into_tunnels(attack):
    report = attack("""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for kind in range(1, 8):
                attempt(f"encapsulation {kind}", lambda: s.setsockopt(17, 100, kind) or 0)
        with socket.socket() as s:
            attempt("ulp", lambda: s.setsockopt(6, 31, b"espintcp") or 0)
            attempt("ok", lambda: s.setsockopt(6, 1, 1) is None)
    """)
    assert report.pop("ok") is True
    assert len(report) == 8 and set(report.values()) == {"ENOPROTOOPT"}, report


def test_line_disciplines_cannot_be_loaded(attack):
    """CVE-2023-6546 (n_gsm) and others: opened by TIOCSETD on any terminal."""
    report = attack("""
        import fcntl
        master, slave = os.openpty()
        for number in (1, 3, 13, 21, 24, 27):
            attempt(f"discipline {number}", lambda: fcntl.ioctl(slave, 0x5423, struct.pack("i", number)) and 0)
    """)
    assert len(report) == 6 and set(report.values()) == {"EPERM"}, report


def test_route_netlink_can_look_but_not_change(attack):
    """A change of the loopback device over route netlink is refused."""
    report = attack("""
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        # RTM_NEWLINK with IFF_UP cleared on lo (index 1), asking for an acknowledgement
        body = struct.pack("BxHiII", 0, 0, 1, 0, 1)
        s.send(struct.pack("IHHII", 16 + len(body), 16, 5, 1, 0) + body)
        answer = s.recv(4096)
        report["newlink"] = errno.errorcode.get(-struct.unpack_from("i", answer, 16)[0], 0)
    """)
    assert report["newlink"] == "EPERM"


def test_foreign_system_call_tables_are_shut(attack):
    """The x32 system call table, which a filter may overlook, is shut."""
    # x32: number | 0x40000000. getpid there would reach the second, less watched table.
    report = attack('attempt("x32 getpid", lambda: syscall(0x40000000 | 39))')
    assert report["x32 getpid"] == "ENOSYS"


def test_a_tcp_socket_cannot_load_protocols(attack):
    """An upper layer protocol of TCP, which loads a kernel module, cannot be attached to a socket."""
    report = attack("""
        s = socket.socket()
        attempt("ulp", lambda: s.setsockopt(6, 31, b"tls"))
    """)
    assert report["ulp"] in DENIED | {"ENOENT", "ENOTCONN", "ENOPROTOOPT"}


def test_keystrokes_cannot_be_pushed_into_a_terminal(attack):
    """CVE-2017-5226: keystrokes pushed into a terminal with TIOCSTI or TIOCLINUX are refused."""
    report = attack("""
        import fcntl
        master, slave = os.openpty()
        attempt("sti", lambda: fcntl.ioctl(slave, 0x5412, b"x") and 0)
        attempt("linux", lambda: fcntl.ioctl(slave, 0x541c, b"\\x02") and 0)
    """)
    assert report["sti"] in DENIED | {"EIO"} and report["linux"] in DENIED | {"ENOTTY", "EIO"}
