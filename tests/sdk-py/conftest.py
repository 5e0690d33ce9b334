"""Fixtures: sandboxes that are always killed, and plain HTTP to the API and to the edge."""

import os
import time
from pathlib import Path

import httpx
import pytest
from e2b import Sandbox
from e2b_code_interpreter import Sandbox as Interpreter

API_URL = os.environ["E2B_API_URL"]
SANDBOX_URL = os.environ["E2B_SANDBOX_URL"]
API_KEY = os.environ["E2B_API_KEY"]

INTERPRETER_TEMPLATE = "code-interpreter-v1"
GATEWAY_TEMPLATE = "mcp-gateway"
TEMPLATE_WAIT_S = 1200  # on a machine that has never made it

TIMEOUT_S = 300  # a sandbox outlives its test only when the test's process is killed


def until(check, what, limit_s=60):
    """The value of check() once it is true; fails when that takes too long."""
    deadline = time.monotonic() + limit_s
    while not (value := check()):
        assert time.monotonic() < deadline, f"still not so after {limit_s} s: {what}"
        time.sleep(0.05)
    return value


@pytest.fixture
def new_sandbox():
    """A factory: `new_sandbox(**what Sandbox.create takes)`. Kills what it made."""
    made = []

    def make(**options):
        options.setdefault("timeout", TIMEOUT_S)
        sandbox = Sandbox.create(**options)
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        sandbox.kill()


@pytest.fixture(scope="module")
def sandbox():
    """One sandbox for all tests of a file that leave it as they found it."""
    sandbox = Sandbox.create(timeout=TIMEOUT_S)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def own_sandbox(new_sandbox):
    """A sandbox that this test may spoil."""
    return new_sandbox()


@pytest.fixture(scope="session")
def api():
    """The control plane without an SDK in between, with the right key."""
    with httpx.Client(base_url=API_URL, headers={"X-API-Key": API_KEY}, timeout=60) as client:
        yield client


def template_await(api, name):
    """The template's name, once it is there: the daemon makes it while other tests run."""
    deadline = time.monotonic() + TEMPLATE_WAIT_S
    while (answer := api.get(f"/templates/aliases/{name}")).status_code == 503:
        assert time.monotonic() < deadline, answer.text
        time.sleep(1)
    assert answer.status_code == 200, answer.text
    return name


@pytest.fixture(scope="session")
def interpreter_template(api):
    return template_await(api, INTERPRETER_TEMPLATE)


@pytest.fixture(scope="session")
def gateway_template(api):
    return template_await(api, GATEWAY_TEMPLATE)


@pytest.fixture(scope="module")
def interpreter(interpreter_template):
    """One code interpreter for all tests of a file that leave it as they found it."""
    sandbox = Interpreter.create(timeout=TIMEOUT_S)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def new_interpreter(interpreter_template):
    """A factory, as new_sandbox()."""
    made = []

    def make(**options):
        options.setdefault("timeout", TIMEOUT_S)
        made.append(Interpreter.create(**options))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.kill()


@pytest.fixture(scope="session")
def anonymous():
    """The control plane without any key."""
    with httpx.Client(base_url=API_URL, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def admin():
    """The operator: with the key that the daemon leaves in its data directory."""
    token = (Path(os.environ["ATOLL_DATA"]) / "state" / "admin.token").read_text().strip()
    with httpx.Client(base_url=API_URL, headers={"X-Admin-Token": token}, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def other_team(admin):
    """A second team: its id, and a key of it."""
    team = admin.post("/admin/teams", json={"name": "another"}).json()
    team_id = team.get("teamID") or team["id"]
    key = admin.post(f"/admin/teams/{team_id}/api-keys", json={"name": "another's"}).json()
    return {"id": team_id, "key": key["key"]}


@pytest.fixture(scope="session")
def others_api(other_team):
    """The control plane with the key of the other team."""
    with httpx.Client(base_url=API_URL, headers={"X-API-Key": other_team["key"]}, timeout=60) as client:
        yield client


@pytest.fixture
def none_left_behind(api):
    """Fails the test when it leaves a sandbox that was not there before."""

    def running():
        return {row["sandboxID"] for row in api.get("/v2/sandboxes").json()}

    before = running()
    yield
    assert running() - before == set()
