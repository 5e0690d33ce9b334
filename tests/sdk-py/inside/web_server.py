"""A web server on 127.0.0.1 that a test talks to through the edge.

    GET  /hello       a fixed text
    GET  /request     what arrived: the path and the headers, as JSON
    GET  /bytes?N     N zero bytes
    GET  /events      a stream: one event, then another after each GET /next; it ends at /end
    POST /digest      length and SHA-256 of the body, whatever its framing
"""

import hashlib
import http.server
import json
import queue
import sys

turns = queue.Queue()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, kind="text/plain"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        number = 0
        while True:
            self.chunk(b"data: %d\n\n" % number)
            if turns.get() == "end":
                break
            number += 1
        self.chunk(b"")

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/hello":
            self.answer(b"hello from inside")
        elif path == "/request":
            seen = {"path": self.path, "headers": dict(self.headers.items())}
            self.answer(json.dumps(seen).encode(), "application/json")
        elif path == "/bytes":
            self.answer(bytes(int(query)))
        elif path == "/events":
            self.events()
        elif path in ("/next", "/end"):
            turns.put(path[1:])
            self.answer(b"")
        else:
            self.send_error(404)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield self.rfile.read(int(self.headers.get("Content-Length", "0")))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def do_POST(self):
        digest, length = hashlib.sha256(), 0
        for part in self.body():
            digest.update(part)
            length += len(part)
        answer = {"length": length, "sha256": digest.hexdigest()}
        self.answer(json.dumps(answer).encode(), "application/json")


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
