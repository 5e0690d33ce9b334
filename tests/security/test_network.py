"""From inside, nothing of the host's network is there: the only way out is the daemon's, and it leads
neither to the host nor to private networks. A connection may be taken before it is refused, so what
counts is whether anybody answers."""
import os
from urllib.parse import urlparse


def test_the_hosts_ports_are_not_reachable(attack):
    """The daemon's own port, asked for by every address that leads to the host, does not answer a jail."""
    port = urlparse(os.environ["E2B_API_URL"]).port
    own = [line.split()[3].partition("/")[0] for line in os.popen("ip -o addr")]
    report = attack(f"""
        def ask(host):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family) as s:
                s.settimeout(10)
                s.connect((host, {port}))
                s.sendall(b"GET /health HTTP/1.0\\r\\n\\r\\n")
                return "answered" if s.recv(1) else "closed"
        for host in ["127.0.0.1", "127.1", "0.0.0.0", "169.254.169.254", "169.254.0.1", "10.0.0.1", "::1",
                     "::ffff:127.0.0.1", "fd00:a701::1", *{own!r}]:
            attempt(host, lambda: ask(host))
    """)
    assert len(report) >= 9 and "answered" not in report.values(), report


def test_the_way_out_cannot_be_changed(attack):
    """Addresses, routes, links and packet rules of the jail's network cannot be changed by its root."""
    report = attack("""
        import subprocess
        for command in ["ip addr add 10.9.9.9/32 dev lo", "ip route del local default table local",
                        "ip link set lo down", "ip route add 10.0.0.0/8 dev lo"]:
            done = subprocess.run(command.split(), capture_output=True, text=True)
            report[command] = "done" if done.returncode == 0 else done.stderr
        attempt("netfilter", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close() or "opened")
    """)
    assert report.pop("netfilter") in ("EPERM", "EAFNOSUPPORT", "EACCES", "EPROTONOSUPPORT"), report
    assert len(report) == 4 and all("Operation not permitted" in said for said in report.values()), report


def test_the_hosts_abstract_sockets_are_not_reachable(attack):
    """CVE-2020-15257: an abstract unix socket of the host, as the shim of containerd had, is not reachable."""
    import socket

    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0atoll-test-abstract")
    listener.listen()
    try:
        report = attack("""
            s = socket.socket(socket.AF_UNIX)
            attempt("abstract", lambda: s.connect("\\0atoll-test-abstract") or "connected")
        """)
    finally:
        listener.close()
    assert report["abstract"] == "ECONNREFUSED"


def test_only_loopback_exists(sandbox):
    """No network device of the host, nor a virtual one, is in the jail."""
    done = sandbox.commands.run("ls /proc/sys/net/ipv4/conf; ip -o link | wc -l", user="root")
    assert sorted(done.stdout.split()) == ["1", "all", "default", "lo"]


def test_the_channel_takes_no_peer_from_inside(attack, sandbox):
    """A tenant that connects to the agent's channel and poses as the daemon is given no control socket."""
    report = attack("""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(5)
        def ask():
            s.connect("\\0atoll-agent")
            s.send(struct.pack("IIiI", 1, 0, 0, 1))
            s.send(struct.pack("IIiI", 2, 1, 0, 0))
            data, fds, flags, address = socket.recv_fds(s, 64, 4)
            while data:
                if fds:
                    return "a socket"
                data, fds, flags, address = socket.recv_fds(s, 64, 4)
            return "closed"
        attempt("channel", ask)
    """)
    assert report["channel"] in ("closed", "ECONNRESET", "EPIPE")
    assert sandbox.commands.run("echo ok").stdout == "ok\n"


def test_the_channels_name_cannot_be_taken(attack, sandbox):
    """Root in a jail binds the channel's name, and a socket at its path of earlier releases, and waits for the daemon to
    attach anew after a snapshot: the name is in use, and nobody connects to the path."""
    report = attack("""
        import subprocess
        taken = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        attempt("name", lambda: taken.bind("\\0atoll-agent") or "taken")
        os.makedirs("/run/atoll", exist_ok=True)
        impostor = \"\"\"if True:
            import os, socket
            os.path.exists("/run/atoll/agent.sock") and os.rename("/run/atoll/agent.sock", "/run/atoll/old.sock")
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.bind("/run/atoll/agent.sock")
            s.listen(8)
            open("/tmp/listens", "w").close()
            s.accept()
            open("/tmp/taken-over", "w").close()
        \"\"\"
        subprocess.Popen([sys.executable, "-c", impostor], start_new_session=True)
    """)
    assert report["name"] == "EADDRINUSE"
    sandbox.commands.run("until [ -e /tmp/listens ]; do sleep 0.1; done", timeout=60)
    snapshot = sandbox.create_snapshot()
    try:
        assert sandbox.commands.run("ls /tmp/taken-over || echo held", user="root").stdout == "held\n"
    finally:
        type(sandbox).delete_snapshot(snapshot.snapshot_id)


def test_init_is_for_the_daemon_alone(attack):
    """The agent's /init, asked for from inside in several spellings, is refused to everybody but the daemon."""
    report = attack("""
        import urllib.request, urllib.error
        for url in ["http://127.0.0.1:49983/init", "http://127.0.0.1:49983//init",
                    "http://127.0.0.1:49983/%69nit", "http://127.0.0.1:49983/x/../init"]:
            try:
                r = urllib.request.urlopen(urllib.request.Request(url, b"{}", {"Content-Type": "application/json"}))
                report[url] = r.status
            except urllib.error.HTTPError as e:
                report[url] = e.code
    """)
    assert len(report) == 4 and all(400 <= v < 500 for v in report.values()), report
