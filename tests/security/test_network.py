"""From inside, nothing of the host's network is there."""
import os
from urllib.parse import urlparse


def test_the_hosts_ports_are_not_reachable(attack):
    port = urlparse(os.environ["E2B_API_URL"]).port
    report = attack(f"""
        for host in ["127.0.0.1", "127.1", "0.0.0.0", "169.254.169.254"]:
            s = socket.socket()
            s.settimeout(3)
            attempt(host, lambda: s.connect((host, {port})) or "connected")
            s.close()
    """)
    assert "connected" not in report.values(), report


def test_the_hosts_abstract_sockets_are_not_reachable(attack):
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
    done = sandbox.commands.run("ls /proc/sys/net/ipv4/conf; ip -o link | wc -l", user="root")
    assert set(done.stdout.split()) <= {"all", "default", "lo", "1"}


def test_the_channel_takes_no_peer_from_inside(attack, sandbox):
    """Who speaks on the channel is the daemon; a tenant on it would be given control sockets."""
    report = attack("""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(5)
        def ask():
            s.connect("/run/atoll/agent.sock")
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
    assert report["channel"] != "a socket"
    assert sandbox.commands.run("echo ok").stdout == "ok\n"


def test_init_is_for_the_daemon_alone(attack):
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
