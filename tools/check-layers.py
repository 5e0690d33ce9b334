#!/usr/bin/env python3
"""Fails when a source file includes a header it may not.

MAY_USE is the architecture: a layer may use itself and what is listed. Two doors are narrower:
internal.h belongs to its own layer alone, and of a layer in DOORS only those headers are for others."""
import pathlib
import re
import sys

MAY_USE = {
    "base": [],
    "mcp": ["base"],
    "guard": ["base"],
    "http": ["base"],
    "pki": ["base"],
    "rpc": ["base", "http"],
    "web": ["base", "guard"],
    "unpack": ["base"],
    "stow": ["base"],
    "agent": ["base", "http", "rpc", "stow", "unpack"],
    "child": ["base"],
    "interpreter": ["base", "http", "child"],
    "gateway": ["base", "mcp", "http", "child"],
    "keeper": ["base", "stow", "agent"],
    "store": ["base"],
    "template": ["base", "store"],
    "image": ["base", "guard", "keeper", "web"],
    "secret": ["base", "pki", "store"],
    "egress": ["base", "guard", "http", "pki"],
    "shell": ["base", "egress", "secret", "store"],
    "sandbox": ["base", "http", "rpc", "agent", "keeper", "store", "template", "egress"],
    "volume": ["base", "http", "keeper", "store", "sandbox"],
    "build": ["base", "agent", "keeper", "store", "template", "sandbox", "image"],
    "telemetry": ["base", "guard", "http", "keeper", "store", "sandbox", "web"],
    "edge": ["base", "http", "agent", "sandbox"],
    "api": ["base", "http", "keeper", "secret", "shell", "store", "template", "sandbox", "build", "volume",
            "telemetry"],
    "tools": ["base", "guard", "mcp", "http", "rpc", "store", "secret", "shell", "api"],
    "daemon": ["base", "http", "pki", "keeper", "secret", "shell", "store", "template", "egress", "sandbox", "volume",
               "telemetry", "edge", "api", "build", "image", "tools"],
    "cli": ["base", "mcp", "web", "keeper", "store", "daemon", "tools"],
}

# channel.h is the wire between daemon and agent, and names no function of the agent's.
DOORS = {"agent": ["channel.h"], "keeper": ["keeper.h", "client.h", "pool.h", "probe.h"],
         "egress": ["egress.h", "shell.h"], "tools": ["tool.h", "tools.h"]}

bad = 0
root = pathlib.Path("src")
for path in sorted(root.rglob("*.[ch]")):
    layer = path.relative_to(root).parts[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'#include "([a-z]+)/([a-z0-9_-]+\.h)"', line)
        if not found or found[1] == layer:
            continue
        owner, header = found[1], found[2]
        private = header == "internal.h" or header not in DOORS.get(owner, [header])
        if owner not in MAY_USE[layer] or private:
            print(f"{path}:{number}: {layer} may not include {owner}/{header}")
            bad += 1
sys.exit(bad > 0)
