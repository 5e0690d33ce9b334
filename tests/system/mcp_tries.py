"""Starts each MCP server of the catalogue in a sandbox, with made-up values, and notes what comes of it.

A gateway with that one server is started as the SDK does it; it is up when the server has answered `initialize` and
`tools/list`. What is noted is a fact of this machine and this day: packages change, and what they reach does too."""

import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "templates/mcp-gateway/catalogue.json"
AT_ONCE = 4
WAIT_S = 300  # for what hangs; an installation may take a minute or two
PORT = 51000

# A value that a server may look at before it starts, by how its field's name ends. The address is this machine's,
# with a port that nobody listens on.
VALUES = [
    (r"mdbMcpConnectionString", "mongodb://127.0.0.1:9/test"),
    (r"cbConnectionString", "couchbase://127.0.0.1"),
    (r"oracleConnectionString", "127.0.0.1:9/test"),
    (r"databaseUrl", "sqlite:////tmp/test.db"),
    (r"(?i)^postgres", "postgres://127.0.0.1:9/test"),
    (r"(?i)neo4j.*(url|uri)$|^(uri)$", "bolt://127.0.0.1:9"),
    (r"(?i)(url|endpoint|instance|domain)$", "http://127.0.0.1:9"),
    (r"(?i)host$", "127.0.0.1"),
    (r"(?i)transport$", "stdio"),
    (r"(?i)logLevel$", "INFO"),
    (r"^stripe\.", "sk_test_made_up"),
    (r"(?i)port$", "9"),
    (r"(?i)region$", "us-east-1"),
    (r"(?i)(kubeconfig|configPath|credentialsPath)$", "/home/user/no-such-file"),
    (r"(?i)(path|dir|directory|data)$", "/home/user"),
    (r"(?i)email", "nobody@example.com"),
    (r"(?i)(secure|verify|ssl)$", "false"),
    (r"(?i)nodeenv", "production"),
]
OF_TYPE = {"strings": ["/home/user"], "integer": 1, "number": 1, "boolean": False}


def value(server, field, kind):
    if kind in OF_TYPE:
        return OF_TYPE[kind]
    for pattern, text in VALUES:
        if re.search(pattern, field) or re.search(pattern, f"{server}.{field}"):
            return text
    return "made-up"


def is_given(field, kind):
    """Those that must be given, and keys: the types let some be left out that no server does without."""
    return not kind.endswith("?") or re.search(r"(?i)(key|token|secret|password)$", field)


def config(server, entry):
    fields = entry.get("fields", {}).items()
    return {name: value(server, name, kind.rstrip("?")) for name, kind in fields if is_given(name, kind)}


def servers():
    """Those that have a package, by name."""
    catalogue = json.loads(CATALOGUE.read_text())
    return {name: entry for name, entry in catalogue.items() if "npm" in entry or "pypi" in entry}


# $1: the configuration, $2: a port, $3: the server's name. Packages that were not there before are removed again:
# all of them together would not fit. The gateway is in a session of its own, and so its servers with it.
SCRIPT = r"""
dir=$(mktemp -d) && chmod 755 "$dir"
root=/var/lib/mcp-gateway
GATEWAY_ACCESS_TOKEN=t mcp-gateway --config "$1" --listen "127.0.0.1:$2" --token-file "$dir/token" --log "$dir/log" \
    --wait "$4" 2>"$dir/said"
code=$?
pid=$(pgrep -f -- "--listen 127.0.0.1:$2 --token-file")
[ -z "$pid" ] || kill $pid
grep -h "up, with" "$dir/log" | head -n 1
head -n 1 "$dir/said"
tail -n +2 "$dir/said" | tail -c 500
installed=$(sed -n 's/.*: installing \(.*\)/\1/p' "$dir/log" | head -n 1)
if [ -n "$installed" ]; then
    made=$(ls -d $root/*/"$(echo "$installed" | tr -c 'A-Za-z0-9.@\n-' _)"* | grep -v '\.lock$' | head -n 1)
    echo "installed $installed, $(du -sm "$made" | cut -f 1) MB"
    rm -rf "$made"
fi
rm -rf "$dir"
exit $code
"""


def outcome(code, said):
    """What is kept of a try: how many tools the server has, or how it failed."""
    up = re.search(r"up, with (\d+) tools", said)
    if code == 0 and up:
        return {"tools": int(up[1])}
    if "could not be installed" in said:
        return {"failed": "its package cannot be installed"}
    if "were not up" in said:
        return {"failed": "it does not answer"}
    ended = re.search(r"ended with status (\d+)|ended with signal (\d+)", said)
    return {"failed": "it ends at once" if ended else "it cannot be started"}


def try_all(run, names=None, log=print):
    """`run(command, timeout)` gives the status and the output of a command of root's. Returns an outcome by name."""
    chosen = {name: entry for name, entry in servers().items() if names is None or name in names}

    def one(item):
        number, (name, entry) = item
        words = [json.dumps({name: config(name, entry)}), str(PORT + number), name, str(WAIT_S)]
        code, said = run(f"bash -c {shlex.quote(SCRIPT)} try {shlex.join(words)}", WAIT_S + 60)
        result = outcome(code, said)
        log(f"{name}: {result}\n    {said[-700:].strip()}")
        return name, result

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(pool.map(one, enumerate(chosen.items())))
