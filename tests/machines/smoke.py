"""Every capability once, through the Python SDK, against the daemon of a machine. The machine may be slow:
nothing here is timed, and every wait is long.

A name of a function is a line of docs/MACHINES.md. Each makes what it needs and leaves nothing."""

import contextlib
import threading
import time
import uuid
from urllib.parse import urlsplit

import httpx
from e2b import CommandExitException, Sandbox, SandboxQuery, Secret, Template, Volume
from e2b_code_interpreter import Sandbox as Interpreter

WAIT_S = 600
LIFE_S = 3600
EMPTY_MB = 100  # more than the disk of a new sandbox takes; templates take more
SECRET = "s3cr3t-value-that-must-never-enter"
NO_WAY = {"deny_out": ["0.0.0.0/0"]}

# Counts requests in memory.
COUNTER = """
import http.server, itertools
count = itertools.count(1)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(next(count)).encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""

MCP_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "own", "version": "1"}},
        "tools/list": {"tools": [{"name": "answer", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "forty-two"}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"""


def until(check, what, limit_s=WAIT_S):
    deadline = time.monotonic() + limit_s
    while not (result := check()):
        assert time.monotonic() < deadline, f"still not so after {limit_s} s: {what}"
        time.sleep(0.5)
    return result


class Smoke:
    """The capabilities. `world` is what sandboxes of the machine can reach outside of it."""

    def __init__(self, url, key, world=None):
        self.url, self.key, self.world = url, key, world
        self.sdk = {"api_url": url, "sandbox_url": url, "api_key": key, "request_timeout": WAIT_S}

    def api(self, method, path, **arguments):
        headers = {"X-API-Key": self.key}
        return httpx.request(method, self.url + path, headers=headers, timeout=WAIT_S, **arguments)

    @contextlib.contextmanager
    def sandbox(self, template=None, kind=Sandbox, **options):
        made = kind.create(template, timeout=LIFE_S, **options, **self.sdk)
        try:
            yield made
        finally:
            Sandbox.kill(made.sandbox_id, **self.sdk)

    def run(self, sandbox, command, **options):
        return sandbox.commands.run(command, timeout=WAIT_S, request_timeout=WAIT_S, **options).stdout

    def count(self, sandbox_id):
        headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "8000"}
        try:
            answer = httpx.get(self.url, headers=headers, timeout=WAIT_S)
        except httpx.TransportError:
            return None
        return int(answer.text) if answer.status_code == 200 else None

    def start_counter(self, sandbox):
        sandbox.files.write("/home/user/counter.py", COUNTER)
        sandbox.commands.run("python3 counter.py", background=True, timeout=0)
        assert until(lambda: self.count(sandbox.sandbox_id), "the counter counts") == 1

    def ready(self, template):
        """Built-in templates are made in the background."""
        path = f"/templates/aliases/{template}"
        until(lambda: self.api("GET", path).status_code != 503, f"{template} is there", 3600)
        assert self.api("GET", path).status_code == 200, self.api("GET", path).text

    # ---- the capabilities, in the order in which they are tried ----

    def create_list_and_kill(self):
        word = uuid.uuid4().hex
        with self.sandbox(metadata={"word": word}) as sandbox:
            [found] = Sandbox.list(query=SandboxQuery(metadata={"word": word}), **self.sdk).next_items()
            assert found.sandbox_id == sandbox.sandbox_id and sandbox.is_running()
            sandbox.set_timeout(LIFE_S // 2)
        assert self.api("GET", f"/sandboxes/{sandbox.sandbox_id}").status_code == 404

    def commands(self):
        with self.sandbox(envs={"WORD": "inside"}) as sandbox:
            assert self.run(sandbox, "echo $WORD; whoami; sudo id -u") == "inside\nuser\n0\n"
            try:
                self.run(sandbox, "echo bad >&2; exit 3")
                raise AssertionError("a command that fails is told")
            except CommandExitException as failed:
                assert (failed.exit_code, failed.stderr) == (3, "bad\n")
            handle = sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
            sandbox.commands.send_stdin(handle.pid, "typed\n")
            assert sandbox.commands.kill(handle.pid)

    def files(self):
        with self.sandbox() as sandbox:
            big = bytes(range(256)) * 8192
            sandbox.files.write("/home/user/big", big)
            assert sandbox.files.read("/home/user/big", format="bytes") == big
            sandbox.files.make_dir("/home/user/folder")
            sandbox.files.rename("/home/user/big", "/home/user/folder/moved")
            assert [entry.name for entry in sandbox.files.list("/home/user/folder")] == ["moved"]
            sandbox.files.remove("/home/user/folder")
            assert not sandbox.files.exists("/home/user/folder")

    def watches(self):
        with self.sandbox() as sandbox:
            watch = sandbox.files.watch_dir("/home/user", recursive=True)
            sandbox.files.write("/home/user/a/b", "text")
            told = [f"{event.type.value} {event.name}" for event in watch.get_new_events()]
            assert "create a" in told and "create a/b" in told, told
            watch.stop()

    def terminals(self):
        from e2b import PtySize

        with self.sandbox() as sandbox:
            handle = sandbox.pty.create(PtySize(rows=24, cols=77), timeout=WAIT_S)
            sandbox.pty.send_stdin(handle.pid, b"stty size; exit\n")
            seen = b""
            for _, _, data in handle:
                seen += data or b""
            assert b"24 77" in seen, seen

    def ports(self):
        with self.sandbox() as sandbox:
            self.start_counter(sandbox)
            label = sandbox.get_host(8000).split(".")[0]
            answer = httpx.get(self.url, headers={"Host": f"{label}.localhost"}, timeout=WAIT_S)
            assert answer.text == "2", answer.text

    def limits(self):
        with self.sandbox() as sandbox:
            hog = "python3 -c 'x = bytearray(4 << 30); x[::4096] = b\"1\" * len(x[::4096])'"
            try:
                self.run(sandbox, hog)
                raise AssertionError("a process took more memory than its sandbox has")
            except CommandExitException as failed:
                assert failed.exit_code, failed
            assert self.run(sandbox, "echo well") == "well\n"
            # Threads, which count as processes do: as many processes would reach the limit of memory first.
            threads = (
                "import threading\nthreading.stack_size(65536)\nstay = threading.Event()\ntry:\n"
                "  for n in range(99999): threading.Thread(target=stay.wait, daemon=True).start()\n"
                "except RuntimeError: print('refused', flush=True)\nstay.wait()"
            )
            handle = sandbox.commands.run(f"ulimit -u unlimited; python3 -c \"{threads}\"", background=True, timeout=0)
            refused = threading.Event()
            threading.Thread(target=self._look_for, args=(handle, "refused", refused), daemon=True).start()
            assert refused.wait(WAIT_S), "a sandbox has as many processes as it likes"

    def own_size(self):
        """Stock kernels allow what makes `df` and sysinfo() tell a sandbox its own limits. The pool of a machine may
        be smaller than a sandbox's limit, but what is used of it is more than an empty sandbox uses."""
        pages = "import os; print(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 20)"
        with self.sandbox() as sandbox:
            info = self.api("GET", f"/sandboxes/{sandbox.sandbox_id}").json()
            size, used = self.run(sandbox, "df -B1M --output=size,used / | tail -n 1").split()
            assert int(size) <= info["diskSizeMB"] and int(used) < EMPTY_MB, (size, used)
            assert int(self.run(sandbox, f'python3 -c "{pages}"')) == info["memoryMB"]
            assert int(self.run(sandbox, "free -m | awk '/Mem/ {print $2}'")) == info["memoryMB"]
            assert int(self.run(sandbox, "nproc")) == info["cpuCount"]

    @staticmethod
    def _look_for(handle, word, found):
        for out, _, _ in handle:
            if word in (out or ""):
                found.set()
                return

    def pause_and_resume(self):
        with self.sandbox() as sandbox:
            self.start_counter(sandbox)
            sandbox.pause()
            assert sandbox.get_info().state == "paused"
            Sandbox.connect(sandbox.sandbox_id, timeout=LIFE_S, **self.sdk)
            assert self.count(sandbox.sandbox_id) == 2

    def snapshots(self):
        with self.sandbox() as sandbox:
            self.start_counter(sandbox)
            snapshot = sandbox.create_snapshot()
            assert self.count(sandbox.sandbox_id) == 2
            with self.sandbox(snapshot.snapshot_id) as copy:
                assert self.count(copy.sandbox_id) == 2
            Sandbox.delete_snapshot(snapshot.snapshot_id, **self.sdk)

    def forks(self):
        with self.sandbox() as sandbox:
            self.start_counter(sandbox)
            answer = self.api("POST", f"/sandboxes/{sandbox.sandbox_id}/fork", json={"count": 2, "timeout": LIFE_S})
            assert answer.status_code in (200, 201), answer.text
            for fork in answer.json():
                made = fork["sandbox"]["sandboxID"]
                assert self.count(made) == 2
                Sandbox.kill(made, **self.sdk)

    def volumes(self):
        volume = Volume.create(f"v-{uuid.uuid4().hex[:12]}", api_url=self.url, api_key=self.key)
        try:
            with self.sandbox(volume_mounts={"/data": volume.name}) as first:
                self.run(first, "echo kept > /data/file")
            with self.sandbox(volume_mounts={"/data": volume.name}) as second:
                assert second.files.read("/data/file") == "kept\n"
            assert volume.read_file("/file") == "kept\n"
        finally:
            Volume.destroy(volume.volume_id, api_url=self.url, api_key=self.key)

    def egress_on_and_off(self):
        ask = "curl -s -m 60 http://plain.test/ || echo no way"
        with self.sandbox() as sandbox:
            assert self.run(sandbox, ask).startswith("plain "), "names and servers outside are reached"
            assert self.run(sandbox, "curl -s -m 60 http://10.0.2.15:3000/health || echo no way") == "no way\n"
        with self.sandbox(allow_internet_access=False) as sandbox:
            assert self.run(sandbox, ask) == "no way\n"
        with self.sandbox(network={**NO_WAY, "allow_out": ["plain.test"]}) as sandbox:
            assert self.run(sandbox, ask).startswith("plain ")
            assert self.run(sandbox, "curl -sk -m 60 https://api.test/ || echo no way") == "no way\n"

    def secrets(self):
        name = f"s-{uuid.uuid4().hex[:12]}"
        Secret.create(name, SECRET, api_url=self.url, api_key=self.key)
        try:
            header = {"Authorization": f"Bearer ${{e2b.secrets.{name}}}"}
            rules = {"api.test": [{"transform": {"headers": header}}]}
            with self.sandbox(network={**NO_WAY, "allow_out": ["api.test"], "rules": rules}) as sandbox:
                said = self.run(sandbox, "curl -s -m 120 https://api.test/; env; cat /proc/1/environ 2>/dev/null; true")
                assert "api " in said and SECRET not in said, said
            assert f"Bearer {SECRET}" in self.world.api.seen, "the server got the key"
        finally:
            Secret.destroy(name, api_url=self.url, api_key=self.key)

    def template_builds(self):
        name = f"t-{uuid.uuid4().hex[:12]}"
        template = Template().from_template("base").run_cmd("echo built > /home/user/built")
        Template.build(template, name, api_url=self.url, api_key=self.key, request_timeout=WAIT_S)
        with self.sandbox(name) as sandbox:
            assert sandbox.files.read("/home/user/built") == "built\n"
        self.api("DELETE", f"/templates/{name}")

    def code_interpreter(self):
        self.ready("code-interpreter-v1")
        with self.sandbox(kind=Interpreter) as sandbox:
            code = {"timeout": WAIT_S, "request_timeout": WAIT_S}
            sandbox.run_code("x = 41", **code)
            assert sandbox.run_code("x + 1", **code).text == "42"
            said = sandbox.run_code("console.log(6 * 7)", language="js", **code)
            assert "".join(said.logs.stdout) == "42\n", said

    def mcp_gateway(self):
        self.ready("mcp-gateway")
        server = {"own": {"command": "python3", "args": ["-c", MCP_SERVER]}}
        with self.sandbox(mcp=server) as sandbox:
            label = urlsplit(sandbox.get_mcp_url()).netloc.split(".")[0]
            headers = {
                "Host": f"{label}.localhost", "Authorization": f"Bearer {sandbox.get_mcp_token()}",
                "Accept": "application/json, text/event-stream",
            }  # fmt: skip
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            answer = self.rpc(headers, "initialize", hello)
            headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
            call = self.rpc(headers, "tools/call", {"name": "own-answer", "arguments": {}})
            assert "forty-two" in call.text, call.text

    def rpc(self, headers, method, params):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx.post(f"{self.url}/mcp", headers=headers, json=body, timeout=WAIT_S)
        assert answer.status_code == 200, answer.text
        return answer

    def tools_for_agents(self):
        answer = self.api("POST", "/tools/create_sandbox", json={})
        assert answer.status_code == 200, answer.text
        made = answer.json()["sandbox_id"]
        told = self.api("POST", "/tools/send_sandbox_input", json={"sandbox_id": made, "action": "shell_command", "input": "echo $((6*7))"})
        assert "42" in told.text, told.text
        Sandbox.kill(made, **self.sdk)

    def metrics(self):
        with self.sandbox() as sandbox:
            sample = until(sandbox.get_metrics, "there is a sample")[0]
            assert sample.cpu_count == 2 and 0 < sample.mem_used < sample.mem_total
        assert "atoll_" in self.api("GET", "/metrics").text

    def logs_and_events(self):
        with self.sandbox() as sandbox:
            self.run(sandbox, "echo logged")
            path = f"/v2/sandboxes/{sandbox.sandbox_id}/logs"
            until(lambda: self.api("GET", path).json()["logs"], "there are lines")
        events = self.api("GET", f"/events/sandboxes/{sandbox.sandbox_id}").text
        assert "sandbox.lifecycle.created" in events, events


CAPABILITIES = [
    name for name, value in vars(Smoke).items()
    if callable(value) and not name.startswith("_") and name not in ("api", "sandbox", "run", "count", "start_counter", "ready", "rpc")
]
