"""Reaching a sandbox's ports through the edge, and the servers that answer there."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

API_URL = os.environ["E2B_API_URL"]
API_KEY = os.environ["E2B_API_KEY"]
SANDBOX_URL = os.environ["E2B_SANDBOX_URL"]
INSIDE = Path(__file__).parent / "inside"

AGENT_PORT = 49983
STARTUP_S = 30


def routing(sandbox_id, port):
    """The headers by which the edge finds a port of a sandbox."""
    return {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": str(port)}


def client(sandbox_id, port, **options):
    headers = {**routing(sandbox_id, port), **options.pop("headers", {})}
    options.setdefault("timeout", 60)
    return httpx.Client(base_url=SANDBOX_URL, headers=headers, **options)


def token(sandbox):
    """The access token of a secure sandbox, as its owner is told it."""
    path = f"{API_URL}/sandboxes/{sandbox.sandbox_id}"
    return httpx.get(path, headers={"X-API-Key": API_KEY}).json()["envdAccessToken"]


def agent(sandbox):
    """The agent's own port, with the sandbox's token."""
    return client(sandbox.sandbox_id, AGENT_PORT, headers={"X-Access-Token": token(sandbox)})


def wait_until_open(sandbox, port):
    probe = f"import socket; socket.create_connection(('127.0.0.1', {port})).close()"
    deadline = time.monotonic() + STARTUP_S
    while sandbox.commands.run(f'python3 -c "{probe}" 2>/dev/null; echo $?').stdout != "0\n":
        assert time.monotonic() < deadline, f"nothing listens on port {port} in the sandbox"
        time.sleep(0.1)


@contextmanager
def serving(sandbox, script, port):
    """Runs inside/<script> in the sandbox, listening on 127.0.0.1:<port>, while the block runs."""
    path = f"/tmp/{script}"
    sandbox.files.write(path, (INSIDE / script).read_text())
    server = sandbox.commands.run(f"exec python3 {path} {port}", background=True, timeout=0)
    try:
        wait_until_open(sandbox, port)
        yield
    finally:
        if sandbox.is_running():
            sandbox.commands.kill(server.pid)
