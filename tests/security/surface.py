"""The API as a fuzzer sees it: every route of the server's own table, a good body for each, and what
can be done to a good request so that it becomes a bad one.

Routes, fields and query names are read out of the source, so a new one is asked for without a word
here; a route that takes a body and has no example below ends the run."""

import base64
import json
import re
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
ROUTE = re.compile(
    r'\{"(GET|POST|PUT|PATCH|DELETE)",\s*"(/[^"]*)",\s*\w+,\s*(ACCESS_\w+),\s*(BODY_\w+)', re.S
)
FIELD = re.compile(r'\bfield_(?:bool|int|string|object|array|string_map)\(\s*\w+,\s*"(\w+)"')
QUERY = re.compile(r'\bquery_(?:text|int)\(\s*\w+,\s*"(\w+)"')
SEGMENT_KIND = {  # the segment before a {} tells what stands there
    "sandboxes": "sandbox", "templates": "template", "builds": "build", "files": "hash", "aliases": "alias",
    "webhooks": "webhook", "secrets": "secret", "shells": "shell", "teams": "team", "api-keys": "key",
    "volumes": "volume", "volumecontent": "volume", "nodes": "node", "keys": "admin-key",
}
HEAVY = {"/sandboxes/{}/fork", "/sandboxes/{}/snapshots", "/sandboxes/{}/pause", "/sandboxes/{}/resume"}
MANY_BYTES = 1 << 16
LIST_MAX = 2000
TOO_MANY_BYTES = 3 << 20


def read_sources():
    return "\n".join(path.read_text() for path in sorted(SOURCES.rglob("*.c")))


class Surface:
    """What there is to ask for. `tools` is the document of /tools/openapi.json."""

    def __init__(self, tools):
        text = read_sources()
        self.routes = [
            (method, path, body, access)
            for method, path, access, body in ROUTE.findall(text)
            if access != "ACCESS_INTERNAL"  # only on the daemon's internal socket
        ]
        self.fields = sorted(set(FIELD.findall(text)))
        self.queries = sorted(set(QUERY.findall(text)) | {"path", "depth", "types", "metadata", "state", "force"})
        self.tools = {
            path: method["post"]["requestBody"]["content"]["application/json"]["schema"]
            for path, method in tools["paths"].items()
            if "post" in method
        }
        assert len(self.routes) > 60 and len(self.fields) > 20 and len(self.tools) > 10, "the source reads otherwise"
        missing = [
            f"{method} {path}"
            for method, path, body, _ in self.routes
            if body == "BODY_REQUIRED" and (method, path) not in EXAMPLES
        ]
        assert not missing, f"surface.py has no example of a body for {', '.join(missing)}"


def kinds_of(path):
    parts = path.split("/")
    return [SEGMENT_KIND.get(parts[i - 1], "name") for i, part in enumerate(parts) if part == "{}"]


# ---- good bodies; g is the Maker below ----


def network(g):
    rule = {"transform": {"headers": {"X-Word": "${e2b.secrets.%s}" % g.pick("secret"), "X-Plain": g.word()}}}
    whole = {
        "allowOut": g.some(["198.51.100.0/24", "*.example.com", "192.0.2.7", "example.com", "2001:db8::/32"]),
        "denyOut": ["0.0.0.0/0"],
        "rules": {"api.example.com": [rule]},
        "egressProxy": {"address": "198.51.100.1:1080", "username": g.word(), "password": g.secret()},
        "dnsServers": ["192.0.2.53"],
        "httpsPorts": [8443],
        "maskRequestHost": "localhost:${PORT}",
        "allowPublicTraffic": g.flip(),
    }
    return g.part(whole)


def create(g):
    whole = {
        "timeout": g.random.choice([1, 5, 60]),
        "metadata": {g.word(): g.text()},
        "envVars": {"WORD": g.text()},
        "secure": g.flip(),
        "autoPause": g.flip(),
        "autoPauseMemory": g.flip(),
        "autoResume": {"enabled": g.flip()},
        "allow_internet_access": g.flip(),
        "network": network(g),
        "volumeMounts": [{"name": g.pick("volume-name"), "path": "/v"}],
        "shells": [g.pick("shell")],
        "iam": {"tokens": {"one": {"audience": "https://example.com", "tokenType": "jwt"}}},
        "mcp": {"server": {}},
    }
    return {"templateID": g.random.choice(["base", "base", g.pick("template"), g.pick("alias")]), **g.part(whole, 3)}


def build(g):
    steps = [
        {"type": "RUN", "args": ["true"], "force": g.flip()},
        {"type": "ENV", "args": ["A", g.text()]},
        {"type": "WORKDIR", "args": ["/srv"]},
        {"type": "USER", "args": ["user"]},
        {"type": "COPY", "args": ["a", "/b", "", ""], "filesHash": g.pick("hash")},
    ]
    base = g.random.choice([
        {"fromTemplate": "base"},
        {"fromTemplate": g.pick("template")},
        {"fromImage": "127.0.0.1:1/a/b:c", "fromImageRegistry": {"type": "registry", "username": "u", "password": g.secret()}},
    ])
    return {**base, "steps": g.some(steps), **g.part({"startCmd": "sleep 1", "readyCmd": "true", "force": g.flip()})}


def webhook(g):
    return {
        "name": g.text(),
        "url": "http://127.0.0.1:9/hook",
        "enabled": g.flip(),
        "events": g.random.choice([["sandbox.lifecycle.created"], ["sandbox.lifecycle.killed", "sandbox.lifecycle.paused"]]),
        "signatureSecret": g.secret(),
    }


def shell(g):
    field = g.random.choice(["header", "query"])
    value = g.random.choice([g.secret(), "${e2b.secrets.%s}" % g.pick("secret")])
    whole = {"methods": ["GET"], "paths": ["/v1/*"], "description": g.text()}
    return {"baseUrl": "https://api.example.com", field: {"name": "X-Key", "value": value}, **g.part(whole)}


def secret(g):
    return {"name": g.name(), "value": g.secret(), "metadata": {g.word(): g.text()}}


def template(g):
    whole = {"tags": ["one"], "cpuCount": 1, "memoryMB": 512, "alias": g.name()}
    return {"name": g.name(), **g.part(whole)}


def limits(g):
    return g.part({"sandboxes": 5, "cpus": 8, "memoryMB": 4096, "diskMB": 8192, "builds": 2})


EXAMPLES = {
    ("POST", "/v2/sandboxes"): create,
    ("POST", "/sandboxes"): create,
    ("POST", "/sandboxes/{}/timeout"): lambda g: {"timeout": g.random.choice([1, 30, 300])},
    ("POST", "/sandboxes/{}/refreshes"): lambda g: {"duration": g.random.choice([0, 30, 3600])},
    ("PUT", "/sandboxes/{}/network"): lambda g: {**network(g), "allow_internet_access": g.flip()},
    ("POST", "/sandboxes/{}/pause"): lambda g: {"memory": g.flip()},
    ("POST", "/sandboxes/{}/resume"): lambda g: {"timeout": 30, "autoPause": g.flip()},
    ("POST", "/sandboxes/{}/fork"): lambda g: {"timeout": 10, "count": g.random.choice([1, 2])},
    ("POST", "/sandboxes/{}/snapshots"): lambda g: {"name": g.name()},
    ("POST", "/sandboxes/{}/connect"): lambda g: {"timeout": 30},
    ("POST", "/v2/sandboxes/{}/connect"): lambda g: {"timeout": 30, "memory": g.flip()},
    ("POST", "/v3/templates"): template,
    ("POST", "/v2/templates"): lambda g: {"alias": g.name(), "cpuCount": 1, "memoryMB": 512},
    ("POST", "/templates/tags"): lambda g: {"target": f"{g.pick('template')}:default", "tags": [g.word()]},
    ("DELETE", "/templates/tags"): lambda g: {"name": g.pick("template"), "tags": [g.word()]},
    ("POST", "/templates/prune"): lambda g: {"unusedSeconds": 1 << 30},
    ("PATCH", "/templates/{}"): lambda g: {"public": g.flip()},
    ("PATCH", "/v2/templates/{}"): lambda g: {"public": g.flip()},
    ("POST", "/v2/templates/{}/builds/{}"): build,
    ("POST", "/events/webhooks"): webhook,
    ("PATCH", "/events/webhooks/{}"): lambda g: g.part(webhook(g)),
    ("POST", "/secrets"): secret,
    ("POST", "/secrets/{}"): lambda g: g.part(secret(g)),
    ("PUT", "/shells/{}"): shell,
    ("POST", "/dashboard/session"): lambda g: {"apiKey": g.text()},
    ("POST", "/api-keys"): lambda g: {"name": g.text(), **g.part({"limits": limits(g), "readOnly": False})},
    ("PATCH", "/api-keys/{}"): lambda g: {"name": g.text(), **g.part({"limits": limits(g)})},
    ("POST", "/access-tokens"): lambda g: {"name": g.text()},
    ("POST", "/templates"): lambda g: {"dockerfile": "FROM base", "alias": g.name()},
    ("POST", "/templates/{}"): lambda g: {"dockerfile": "FROM base"},
    # The operator's: a key of a team is refused, whatever it sends. A node that drains takes no sandboxes.
    ("POST", "/nodes/{}"): lambda g: {"status": g.random.choice(["ready"] * 7 + ["draining"])},
    ("POST", "/admin/keys"): lambda g: {"name": g.text()},
    ("POST", "/admin/teams"): lambda g: {"name": g.name(), "limits": limits(g)},
    ("PATCH", "/admin/teams/{}"): lambda g: {"limits": limits(g)},
    ("POST", "/admin/teams/{}/api-keys"): lambda g: {"name": g.text(), "limits": limits(g)},
    ("PATCH", "/admin/teams/{}/api-keys/{}"): lambda g: {"limits": limits(g)},
    ("POST", "/volumes"): lambda g: {"name": g.name()},
    ("PATCH", "/volumecontent/{}/path"): lambda g: {"uid": 0, "gid": 0, "mode": 0o644},
}


# ---- bad values ----

NUMBERS = [0, -1, 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**400, 0.5, -0.0, 1e308]
WORDS = ["", " ", "\0", "a\0b", "..", "../../etc/passwd", "/", "//", "%00", "%2e%2e%2f", "'\"`$(id)", "${e2b.secrets.x}",
         "\u202e", "\ud7ff", "\U0001f600" * 40, "a" * 513, "A" * MANY_BYTES, "-1", "null", "true", "\r\nX-Evil: 1", "é" * 300,
         "x:y:z", "a/b:c", "__proto__", "{}", "%n%s%s%n", "e2b_" + "0" * 40]
RAW = [b"", b"{", b"}", b"[]", b"null", b"1", b'"x"', b"{}{}", b"\xef\xbb\xbf{}", b"\xff\xfe{", b'{"a":"\xc3\x28"}',
       b'{"a":"\\ud800"}', b'{"a":"\\u0000"}', b'{"a":1,"a":2}', b"{" * 50_000, b"[" * 100_000, b'{"a":' * 30_000,
       b'{"a":1e999}', b'{"a":' + b"9" * 100_000 + b"}", b'{"a":NaN}', b"{'a':1}", b'{"":""}']


class Maker:
    """Good and bad values for one team, from one seeded source of chance."""

    def __init__(self, random, team, other):
        self.random, self.team, self.other = random, team, other

    def flip(self):
        return self.random.random() < 0.5

    def word(self):
        return f"w{self.random.randrange(1000)}"

    def name(self):
        return f"n-{self.random.randrange(10**6)}"

    def text(self):
        """Free text that is the team's own: no other team may ever read it."""
        return f"{self.team.marker} {self.word()}"

    def secret(self):
        """A value that nobody may ever read again."""
        return f"{self.team.secret_marker}{self.random.randrange(10**6)}"

    def some(self, values):
        return self.random.sample(values, self.random.randint(1, len(values)))

    def part(self, whole, most=None):
        names = self.random.sample(sorted(whole), self.random.randint(0, min(len(whole), most or len(whole))))
        return {name: whole[name] for name in names}

    def unheard(self, kind):
        if kind in ("sandbox", "template"):
            length = 21 if kind == "sandbox" else 20
            return "i" * (length - 20) + "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20))
        if kind == "hash":
            return "".join(self.random.choices("0123456789abcdef", k=64))
        return str(uuid.UUID(int=self.random.getrandbits(128)))

    def pick(self, kind):
        """Mostly an id of the team's own; also one of the other team's, of a dead object, of none."""
        chance = self.random.random()
        own, others = self.team.ids(kind), self.other.ids(kind)
        if chance < 0.62 and own:
            return self.random.choice(own)
        if chance < 0.8 and others:
            return self.random.choice(others)
        if chance < 0.86 and self.team.dead.get(kind):
            return self.random.choice(self.team.dead[kind])
        if chance < 0.95:
            return self.random.choice([self.unheard(kind), str(uuid.UUID(int=0))])
        return self.random.choice(WORDS)

    def bad(self, depth=0):
        chance = self.random.random()
        if chance < 0.3:
            return self.random.choice(NUMBERS)
        if chance < 0.65:
            return self.random.choice(WORDS)
        if chance < 0.75:
            return self.random.choice([None, True, False])
        if chance < 0.85 or depth > 2:
            return [self.bad(depth + 1) for _ in range(self.random.randrange(4))] if depth < 3 else []
        if chance < 0.9:
            nest = self.word()
            for _ in range(self.random.choice([5, 100, 300])):
                nest = {"a": nest} if self.flip() else [nest]
            return nest if depth == 0 else []
        return {self.random.choice(WORDS): self.bad(depth + 1) for _ in range(self.random.randrange(4))}

    def spoil(self, value):
        """Changes one place of a value, somewhere in it."""
        if isinstance(value, dict) and value and self.random.random() < 0.8:
            name = self.random.choice(sorted(value))
            if self.random.random() < 0.2:
                return {key: inner for key, inner in value.items() if key != name}
            return {**value, name: self.spoil(value[name])}
        if isinstance(value, list) and value and self.random.random() < 0.7:
            i = self.random.randrange(len(value))
            if self.random.random() < 0.2:
                return (value * self.random.choice([2, 50, 2000]))[:LIST_MAX]
            return [*value[:i], self.spoil(value[i]), *value[i + 1:]]
        return self.bad()

    def body(self, value, fields):
        """The bytes of a body: as it should be, with fields of other routes, spoiled, or no JSON at all."""
        chance = self.random.random()
        if chance < 0.35:
            return dump(value)
        if chance < 0.5:
            return dump({**value, self.random.choice(fields): self.bad()})
        if chance < 0.85:
            for _ in range(self.random.randint(1, 3)):
                value = self.spoil(value)
            return dump(value)
        if chance < 0.9:  # twins
            text = dump(value)
            return text[:-1] + b"," + text[1:] if len(text) > 2 else text
        if chance < 0.97:
            return self.random.choice(RAW)
        if chance < 0.99:
            return dump(value)[: self.random.randrange(1, 40)]
        return b'{"name":"' + b"x" * TOO_MANY_BYTES + b'"}'

    def from_schema(self, schema, depth=0):
        """An input that a tool's schema takes."""
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self.from_schema(self.random.choice(schema[union]), depth)
        kind = schema.get("type")
        kind = self.random.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            inner = schema.get("properties", {})
            asked = set(schema.get("required", []))
            return {
                name: self.tool_value(name, field, depth)
                for name, field in inner.items()
                if name in asked or self.random.random() < 0.3
            }
        if kind == "array":
            return [self.from_schema(schema.get("items", {}), depth + 1)] if depth < 4 else []
        if kind in ("integer", "number"):
            return self.random.choice([schema.get("minimum", 1), schema.get("default", 1), 5])
        return {"boolean": self.flip(), "null": None}.get(kind, self.text())

    def tool_value(self, name, field, depth):
        if name in ("sandbox_id", "sandboxId"):
            return self.pick("sandbox")
        if name in ("template", "template_id"):
            return self.random.choice(["base", self.pick("template")])
        if name in ("code", "command", "cmd"):
            return "echo 1"
        if name == "data" and self.flip():
            return base64.b64encode(self.text().encode()).decode()
        return self.from_schema(field, depth + 1)

    def query(self, names):
        pairs = []
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 5])):
            name = self.random.choice(names)
            value = self.random.choice(["1", "100", "true", "asc", "running,paused", "/", *map(str, NUMBERS), *WORDS])
            pairs.append(f"{name}={escape(str(value)[:3000], self.flip())}")
        return "?" + "&".join(pairs) if pairs else ""


def dump(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def escape(text, well):
    """Percent-encoded; `well` or only as far as a request line needs it."""
    keep = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~" + (b"" if well else b"/:%&=+;,@!*'()$")
    return "".join(chr(b) if b in keep else f"%{b:02x}" for b in text.encode("utf-8", "surrogatepass"))
