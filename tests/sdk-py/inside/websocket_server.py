"""A WebSocket server on 127.0.0.1 with nothing but the standard library: it echoes every message,
and closes when the client does (RFC 6455; whole messages only)."""

import base64
import hashlib
import socketserver
import struct
import sys

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CLOSE, PING, PONG = 8, 9, 10


class Handler(socketserver.StreamRequestHandler):
    def shake_hands(self):
        key = b""
        while (line := self.rfile.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"sec-websocket-key":
                key = value.strip()
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        self.wfile.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )

    def receive(self):
        first, second = self.rfile.read(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", self.rfile.read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self.rfile.read(8))
        mask = self.rfile.read(4)
        data = self.rfile.read(length)
        pad = (mask * (length // 4 + 1))[:length]
        plain = int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")
        return first & 0x0F, plain.to_bytes(length, "big")

    def send(self, opcode, data):
        if len(data) < 126:
            head = struct.pack(">BB", 0x80 | opcode, len(data))
        elif len(data) < 1 << 16:
            head = struct.pack(">BBH", 0x80 | opcode, 126, len(data))
        else:
            head = struct.pack(">BBQ", 0x80 | opcode, 127, len(data))
        self.wfile.write(head + data)

    def handle(self):
        self.shake_hands()
        while True:
            opcode, data = self.receive()
            self.send(PONG if opcode == PING else opcode, data)
            if opcode == CLOSE:
                return


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
