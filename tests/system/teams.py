"""A daemon with two teams: no call of the API makes the second."""

import hashlib
import secrets
import sqlite3
import uuid
from contextlib import contextmanager

from daemon import running


def add_team(database, name):
    """Returns a key of the new team."""
    key = f"e2b_{secrets.token_hex(20)}"
    team_id = str(uuid.uuid4())
    digest = hashlib.sha256(key.encode()).hexdigest()
    masked = f"{key[:6]}...{key[-4:]}"
    with sqlite3.connect(database) as db:
        db.execute("INSERT INTO teams VALUES (?, ?, 0)", (team_id, name))
        db.execute(
            "INSERT INTO keys VALUES (?, ?, 'first', ?, 'e2b_', ?, 0, 0)",
            (str(uuid.uuid4()), team_id, digest, masked),
        )
    db.close()
    return key


@contextmanager
def two_teams(*settings):
    """As running(), with a key of the other team in other_key; its sandboxes go with it as well."""
    with running(*settings) as daemon:
        daemon.stop()
        daemon.other_key = add_team(daemon.data / "state" / "atoll.db", "another")
        daemon.start()
        try:
            yield daemon
        finally:
            if daemon.process.poll() is None:
                daemon.remove_sandboxes(daemon.other_key)
