"""Proxies of the tests' own: SOCKS5 and HTTP CONNECT, which resolve by a table and keep what they
were asked. Some behave, others lie."""

import base64
import socket
import socketserver
import ssl
import struct
import threading


def copy(a, b):
    def one(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.unwrap() if isinstance(sink, ssl.SSLSocket) else sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    thread = threading.Thread(target=one, args=(b, a), daemon=True)
    thread.start()
    one(a, b)
    thread.join()


class Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, table, login=None, lie=None, tls=None):
        """`table`: (name or address, port) to a place of ours; `login`: (user, password);
        `lie`: the bytes that are said to the request instead of an answer; `tls`: (certificate,
        key), and all of it goes through TLS."""
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.table, self.login, self.lie = table, login, lie
        self.named = []  # by clients of TLS
        self.tls = tls and ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if tls:
            self.tls.load_cert_chain(*tls)
            self.tls.sni_callback = lambda _, name, __: self.named.append(name)
        self.asked = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def finish_request(self, request, address):
        if self.tls:
            request = self.tls.wrap_socket(request, server_side=True, suppress_ragged_eofs=False)
        super().finish_request(request, address)

    def handle_error(self, *_):
        pass

    def connect(self, host, port):
        self.asked.append((host, port))
        place = self.table.get((host, port)) or self.table.get(host)
        return place and socket.create_connection(place)


class Socks(Proxy):
    class Handler(socketserver.BaseRequestHandler):
        def take(self, n):
            data = b""
            while len(data) < n:
                part = self.request.recv(n - len(data))
                assert part
                data += part
            return data

        def admit(self):
            _, n = self.take(2)
            methods = self.take(n)
            if not self.server.login:
                self.request.sendall(b"\x05\x00")
                return True
            if 2 not in methods:
                self.request.sendall(b"\x05\xff")
                return False
            self.request.sendall(b"\x05\x02")
            user = self.take(self.take(2)[1]).decode()
            password = self.take(self.take(1)[0]).decode()
            good = (user, password) == self.server.login
            self.request.sendall(b"\x01\x00" if good else b"\x01\x01")
            return good

        def handle(self):
            if not self.admit():
                return
            kind = self.take(4)[3]
            if kind == 3:
                host = self.take(self.take(1)[0]).decode()
            else:
                family, size = ((socket.AF_INET, 4), (socket.AF_INET6, 16))[kind == 4]
                host = socket.inet_ntop(family, self.take(size))
            port = struct.unpack(">H", self.take(2))[0]
            if self.server.lie is not None:
                self.request.sendall(self.server.lie)
                return
            out = self.server.connect(host, port)
            if not out:
                self.request.sendall(b"\x05\x04\x00\x01" + bytes(6))
                return
            self.request.sendall(b"\x05\x00\x00\x03\x05proxy\x00\x01")
            copy(self.request, out)


class Connect(Proxy):
    class Handler(socketserver.StreamRequestHandler):
        rbufsize = 0

        def handle(self):
            head = b""
            while b"\r\n\r\n" not in head:
                head += self.request.recv(1)
            lines = head.decode().split("\r\n")
            method, place, _ = lines[0].split(" ")
            fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            word = ":".join(self.server.login or ("", ""))
            wanted = "basic " + base64.b64encode(word.encode()).decode().lower()
            if self.server.login and fields.get("proxy-authorization") != wanted:
                self.request.sendall(b"HTTP/1.1 407 Who?\r\nContent-Length: 0\r\n\r\n")
                return
            if self.server.lie is not None:
                self.request.sendall(self.server.lie)
                return
            host, _, port = place.rpartition(":")
            out = method == "CONNECT" and self.server.connect(host.strip("[]"), int(port))
            if not out:
                self.request.sendall(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n")
                return
            self.request.sendall(b"HTTP/1.1 200 Good\r\nX-From: test\r\n\r\n")
            copy(self.request, out)
