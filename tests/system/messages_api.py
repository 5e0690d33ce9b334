"""A stand-in for the Messages API on loopback, so that the real Claude Code command line can be asked
without a model. Each answer says which turn of the conversation it is, and the last thing that was said."""

import http.server
import json
import threading


def words(content):
    """The text that a person typed: what the command line adds in reminders is left out."""
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in content if part.get("type") == "text"]
    return "\n".join(text for text in texts if not text.startswith("<system-reminder>"))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        if self.path.partition("?")[0] == "/v1/messages":
            self.server.keys.append(self.headers["X-Api-Key"])
            self.answer_message(body)
        else:
            self.send_text("application/json", json.dumps({"input_tokens": 1}))

    def do_GET(self):
        self.send_text("application/json", "{}")

    do_HEAD = do_GET

    def answer_message(self, body):
        said = [words(m["content"]) for m in body["messages"] if m["role"] == "user"]
        self.server.said += said
        text = self.server.reply(said)
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
                   "stop_reason": "end_turn", "stop_sequence": None,
                   "usage": {"input_tokens": 1, "output_tokens": 1}}
        if not body.get("stream"):
            self.send_text("application/json", json.dumps({**message, "content": [{"type": "text", "text": text}]}))
            return
        events = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
             "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        self.send_text("text/event-stream",
                       "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events))

    def send_text(self, kind, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


def turn(said):
    return f"turn {len(said)}: {said[-1]}"


class MessagesApi(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, reply=turn):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply = reply
        self.keys = []  # every key that came
        self.said = []  # every word of a user's, with each question anew
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass
