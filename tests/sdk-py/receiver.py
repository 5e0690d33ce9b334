"""An endpoint for webhooks on loopback, that keeps what it got and answers as it is told."""

import base64
import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAIT_S = 60


def signature(secret, body):
    digest = hashlib.sha256(secret.encode() + body).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Receiver:
    """`got` holds (event, headers, body) in the order of arrival. `answer(handler, event)` may be
    set to answer something else than 204; an event that `takes(event)` refuses is not kept."""

    def __init__(self, port=0):
        self.got = []
        self.changed = threading.Condition()
        self.answer = None
        self.takes = lambda event: True
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                event = json.loads(body)
                if receiver.takes(event):  # before the answer: the next one may come right behind it
                    with receiver.changed:
                        receiver.got.append((event, dict(self.headers), body))
                        receiver.changed.notify_all()
                if receiver.answer:
                    receiver.answer(self, event)
                else:
                    self.send_response(204)
                    self.end_headers()

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # a client that was killed in the middle

        self.server = Server(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def of(self, sandbox_id):
        return [event for event, _, _ in self.got if event.get("sandboxId") == sandbox_id]

    def types(self, sandbox_id):
        return [event["type"].rpartition(".")[2] for event in self.of(sandbox_id)]

    def until(self, check, what):
        deadline = time.monotonic() + WAIT_S
        with self.changed:
            while not check():
                left = deadline - time.monotonic()
                assert left > 0, f"still not so after {WAIT_S} s: {what}"
                self.changed.wait(min(left, 0.2))

    def close(self):
        self.server.shutdown()
        self.server.server_close()
