"""A large file up and down, and output of a command, beside nginx on the same disk and beside a pipe."""

import pathlib
import shutil

from lib import client
from lib.part import alternate

LIMIT_S = {"tiny": 90, "short": 60, "full": 120}
CONF = """daemon off; user root; worker_processes 1; pid {where}/pid; error_log {where}/log;
events {{ worker_connections 64; }}
http {{ access_log off; sendfile on; client_max_body_size 0; client_body_temp_path {where}/body;
  server {{ listen 127.0.0.1:{port}; root {where}/www; location / {{ dav_methods PUT; }} }} }}
"""


def nginx(part, conf, port):
    """nginx with that configuration, in which {where} and {port} are filled in; where it serves from."""
    where = pathlib.Path(part.scratch) / f"nginx-{port}"
    (where / "www").mkdir(parents=True)
    (where / "conf").write_text(conf.format(where=where, port=port))
    with open(where / "log", "a") as log:
        part.start(["nginx", "-c", str(where / "conf")], stderr=log)
    client.until(lambda: client.listens(port), "nginx listens")


def measure(part):
    plain = part.client()
    plain.flows("create")
    size = part.count(1 << 20, 256 << 20, 1 << 30)
    mb = size >> 20
    ways = {}
    if shutil.which("nginx"):
        port = client.free_port()
        nginx(part, CONF, port)
        url = f"http://127.0.0.1:{port}/big"
        ways["nginx: upload"] = lambda: plain.once("put", url=url, bytes=size)
        ways["nginx: download"] = lambda: plain.once("get", url=url, bytes=size)
    ways["atoll: upload"] = lambda: plain.once("upload", bytes=size)
    ways["atoll: upload as a form"] = lambda: plain.once("upload-form", bytes=size)
    ways["atoll: download"] = lambda: plain.once("download", bytes=size)
    ways["output over a pipe"] = lambda: plain.once("pipe", bytes=size)
    ways["atoll: output over HTTP"] = lambda: plain.once("print", bytes=size)
    ways["atoll: output in binary messages"] = lambda: plain.once("print-binary", bytes=size)
    part.heading(f"Files and output, {mb} MB")
    part.absent("nginx")
    taken, failed, why = alternate(ways, part.count(1, 5, 5))
    of = {"atoll: upload": "nginx: upload", "atoll: upload as a form": "atoll: upload", "atoll: download": "nginx: download",
          "atoll: output over HTTP": "output over a pipe", "atoll: output in binary messages": "output over a pipe"}
    for name, samples in taken.items():
        part.samples(name, samples, of=of.get(name), failed=failed[name], why=why.get(name), key=f"files.{name}")
    plain.kill_held()
