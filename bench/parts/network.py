"""The network in and out, beside nginx as a reverse proxy and beside the bare transfer. Clients are curl, on the host and
in the sandbox; the service is bench-service, on the host and in the sandbox. BENCH_OUT is the address that leads to
port BENCH_OUT_PORT of the host by egress_map."""

import asyncio
import os
import pathlib
import resource
import shutil
import subprocess

from lib import client, memory
from parts import files

LIMIT_S = {"tiny": 90, "short": 40, "full": 80}
PORT, PER_SANDBOX, AT_ONCE = 8123, 1000, 100
CONF = """daemon off; user root; worker_processes 1; pid {{where}}/pid; error_log {{where}}/log;
events {{{{ worker_connections 16384; }}}}
http {{{{ access_log off; upstream s {{{{ server 127.0.0.1:{to}; keepalive 16; }}}}
  server {{{{ listen 127.0.0.1:{{port}}; location / {{{{ proxy_pass http://s; proxy_http_version 1.1;
    proxy_set_header Connection ""; proxy_buffering off; }}}} }}}} }}}}
"""


def serving():
    """A sandbox with the service in it."""
    box = client.Box()
    box.upload("/tmp/service", pathlib.Path(service()).read_bytes())
    box.run(f"chmod +x /tmp/service; setsid /tmp/service {PORT} >/dev/null 2>&1 &")
    return box


def service():
    return f"{os.environ['BENCH_BUILD']}/bench/bench-service"


def curl(url, *words):
    return ["curl", "-sSf", "-o", "/dev/null", "-w", "%{time_total}\\n", *words, url]


def on_host(url, *words):
    done = subprocess.run(curl(url, *words), check=True, capture_output=True, text=True)
    return [float(took) * 1000 for took in done.stdout.split()]


def in_box(box, url):
    return [float(took) * 1000 for took in box.run(" ".join(f"'{word}'" for word in curl(url))).split()]


def compare(part, title, path, ways, count):
    part.heading(title)
    rows = {name: [] for name in ways}
    for _ in range(count):
        for name, way in ways.items():
            rows[name] += way(path)
    first = next(iter(rows))
    for name, samples in rows.items():
        part.samples(name, samples, of=first)


# ---- WebSockets ----


async def websocket(box):
    host, port = os.environ["E2B_SANDBOX_URL"].partition("//")[2].rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    head = "".join(f"{name}: {value}\r\n" for name, value in box.route(PORT).items())
    writer.write(f"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{head}\r\n".encode())
    line = await reader.readline()
    if b"101" not in line:
        raise RuntimeError(f"a WebSocket was refused: {line}")
    return writer


async def idle_websockets(part, wanted):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    boxes = [serving() for _ in range(-(-wanted // PER_SANDBOX))]
    before, opened = memory.serve_kb(), []
    for box in boxes:
        for _ in range(0, min(PER_SANDBOX, wanted), AT_ONCE):
            opened += await asyncio.gather(*(websocket(box) for _ in range(AT_ONCE)))
    after = memory.serve_kb()
    part.heading(f"Idle WebSockets, {len(opened):,}")
    part.value("server, resident, before", before, "kB")
    part.value("server, resident, with them", after, "kB")
    part.value("of it for each", (after - before) / len(opened), "kB")
    for writer in opened:
        writer.close()
    for box in boxes:
        box.kill()


def measure(part):
    out_port, proxied = int(os.environ["BENCH_OUT_PORT"]), client.free_port()
    box = serving()
    part.start([service(), str(out_port)])
    client.until(lambda: client.listens(out_port), "the service listens")
    words = [word for name, value in box.route(PORT).items() for word in ("-H", f"{name}: {value}")]
    bare = {"bare service": lambda path: on_host(f"http://127.0.0.1:{out_port}{path}")}
    ways = dict(bare)
    if shutil.which("nginx"):
        files.nginx(part, CONF.format(to=out_port), proxied)
        ways["nginx as a reverse proxy"] = lambda path: on_host(f"http://127.0.0.1:{proxied}{path}")
    ways["atoll: to a service in a sandbox"] = lambda path: on_host(f"{os.environ['E2B_SANDBOX_URL']}{path}", *words)
    small, large = f"/100?[1-{part.count(5, 200, 300)}]", part.count(1 << 20, 256 << 20, 1 << 30)
    rounds = part.count(1, 3, 5)
    compare(part, "In: small requests on one connection", small, ways, rounds)
    compare(part, f"In: download of {large >> 20} MB", f"/{large}", ways, part.count(1, 2, 3))
    there = f"http://{os.environ['BENCH_OUT']}"
    ways = bare | {"atoll: from within a sandbox": lambda path: in_box(box, f"{there}{path}")}
    compare(part, "Out: small requests on one connection", small, ways, rounds)
    compare(part, f"Out: download of {large >> 20} MB", f"/{large}", ways, part.count(1, 2, 3))
    box.kill()
    asyncio.run(idle_websockets(part, part.count(100, 1000, 5000)))
