"""A small world on loopback for sandboxes to reach: web servers, and a DNS server that knows a few
names. Public addresses lead here by the daemon's setting egress_map, names by egress_dns."""

import http.server
import pathlib
import socket
import socketserver
import ssl
import struct
import subprocess
import threading

PORT_TRIES = 20  # a port that one kind of socket got may be taken for the other


class Quiet(http.server.BaseHTTPRequestHandler):
    """Says which server it is, and which Host it was asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body, status = f"{self.server.word} {self.headers['Host']}\n".encode(), 200
        self.server.seen.add(self.headers["Authorization"])
        if self.server.files and self.path.startswith("/repo/"):
            try:
                name = self.path[6:].partition("?")[0]
                name += "index.html" if name.endswith("/") else ""
                body = (self.server.files / name).read_bytes()
            except OSError:
                status = 404
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if self.path.endswith("/"):
            self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Web(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, word, tls=None):
        super().__init__(("127.0.0.1", 0), Quiet)
        self.word = word
        self.files = None  # a directory, served as /repo/
        self.seen = set()  # every Authorization that came
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


class Echo(socketserver.ThreadingTCPServer):
    """Returns what it gets; at the end of it says how many bytes there were."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            total = 0
            try:
                while data := self.request.recv(65536):
                    total += len(data)
                    self.request.sendall(data)
                self.request.sendall(f"end {total}\n".encode())
            except OSError:
                pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def same_port():
    """A listening socket and one for datagrams on a port of loopback that is free for both."""
    for _ in range(PORT_TRIES):
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp.bind(tcp.getsockname())
            return tcp, udp
        except OSError:
            tcp.close()
            udp.close()
    raise OSError(f"no port is free for both in {PORT_TRIES} tries")


class Names:
    """A DNS server over UDP and TCP. `table`: name to a list of addresses; anything else is unknown.
    `asked` keeps every name that came."""

    def __init__(self, table):
        self.table = table
        self.asked = []
        self.tcp, self.udp = same_port()
        self.port = self.tcp.getsockname()[1]
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    def answer(self, message):
        at, labels = 12, []
        while message[at]:
            labels.append(message[at + 1 : at + 1 + message[at]].decode())
            at += 1 + message[at]
        kind = struct.unpack(">H", message[at + 1 : at + 3])[0]
        name = ".".join(labels).lower()
        self.asked.append(name)
        found = self.table.get(name)
        records = [a for a in found or [] if kind == 1]
        flags = 0x8180 if found is not None else 0x8183
        out = message[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + message[12 : at + 5]
        for address in records:
            out += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton(address)
        return out

    def serve_udp(self):
        while True:
            message, peer = self.udp.recvfrom(4096)
            answer = self.answer(message)
            if len(answer) > 512:
                answer = answer[:2] + struct.pack(">H", 0x8380) + answer[4:6] + bytes(6) + message[12:]
            self.udp.sendto(answer, peer)

    def serve_tcp(self):
        while True:
            connection, _ = self.tcp.accept()
            with connection:
                size = struct.unpack(">H", connection.recv(2, socket.MSG_WAITALL))[0]
                answer = self.answer(connection.recv(size, socket.MSG_WAITALL))
                connection.sendall(struct.pack(">H", len(answer)) + answer)


def certificate(path, *names):
    """A self-signed certificate and its key in one file."""
    key = f"{path}.key"
    alternatives = ",".join(f"DNS:{name}" for name in names)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={alternatives}", "-days", "2",
         "-keyout", key, "-out", path],
        check=True, capture_output=True,
    )
    with open(path, "ab") as out, open(key, "rb") as part:
        out.write(part.read())
    return path


class Authority:
    """A certificate authority of the world's, and servers that it vouches for."""

    def __init__(self, path, name="world"):
        self.path, self.name = path, name
        self.cert, self.key = f"{path}/{name}-ca.pem", f"{path}/{name}-ca.key"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-subj", f"/CN={name} authority", "-days", "2",
                     "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", self.key, "-out", self.cert)

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    def leaf(self, *names, days="2"):
        """(certificate file, key file) for these names."""
        stem = f"{self.path}/{self.name}-{names[0].replace('*', 'any')}"
        with open(f"{stem}.ext", "w") as ext:
            ext.write("subjectAltName=" + ",".join(f"DNS:{name}" for name in names) + "\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-subj", "/CN=origin", "-keyout", f"{stem}.key", "-out", f"{stem}.csr")
        self.openssl("x509", "-req", "-in", f"{stem}.csr", "-CA", self.cert, "-CAkey", self.key,
                     "-CAcreateserial", "-days", days, "-extfile", f"{stem}.ext", "-out", f"{stem}.pem")
        return f"{stem}.pem", f"{stem}.key"


class Origin:
    """origin.cjs: an HTTPS server that says what it was asked."""

    def __init__(self, cert, key, *words):
        script = pathlib.Path(__file__).with_name("origin.cjs")
        self.process = subprocess.Popen(["node", str(script), cert, key, *words],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
