"""A daemon with two teams, the second made by its operator, and calls with the operator's token."""

import subprocess
from contextlib import contextmanager

import httpx
from daemon import PROGRAM, running


def atoll(daemon, *words, check=True):
    """Runs a command of the operator against the daemon."""
    return subprocess.run([PROGRAM, *words, "--data", str(daemon.data)], check=check, capture_output=True, text=True)


def add_team(daemon, name, *limits):
    """Returns a key of the new team."""
    return atoll(daemon, "team", "create", name, *limits).stdout.strip()


def admin(daemon):
    """A client with the token that lies in the data directory."""
    token = (daemon.data / "state" / "admin.token").read_text().strip()
    return httpx.Client(base_url=daemon.url, headers={"X-Admin-Token": token}, timeout=60)


def client(daemon, key, **headers):
    return httpx.Client(base_url=daemon.url, headers={"X-API-Key": key, **headers}, timeout=120)


@contextmanager
def two_teams(*settings):
    """As running(), with a key of the other team in other_key; its sandboxes go with it as well."""
    with running(*settings) as daemon:
        daemon.other_key = add_team(daemon, "another")
        yield daemon
