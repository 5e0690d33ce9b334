"""GET /dashboard/overview: the machine and what runs on it."""

import json
import os
from pathlib import Path


def overview(api, **headers):
    answer = api.get("/dashboard/overview", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def test_what_a_team_is_shown(api, new_sandbox):
    before = overview(api)
    sandbox = new_sandbox()
    shown = overview(api)
    assert shown["sandboxes"]["running"] == before["sandboxes"]["running"] + 1
    assert shown["creates"]["requests"] == before["creates"]["requests"] + 1
    assert 0 < shown["creates"]["p50Ms"] <= shown["creates"]["p95Ms"] <= shown["creates"]["p99Ms"]
    machine = shown["machine"]
    assert machine["cpuCount"] == os.cpu_count() and len(machine["load"]) == 3 and machine["keeper"] is True
    assert 0 < machine["memoryUsed"] < machine["memoryTotal"] and 0 < machine["diskUsed"] < machine["diskTotal"]
    assert shown["version"] and shown["uptimeSeconds"] >= 0 and shown["startedAt"].endswith("Z")
    assert any(row.get("alias") == "base" and row["parked"] >= 0 for row in shown["pool"])
    assert shown["operator"] is False and "advice" not in shown and "allSandboxes" not in shown
    sandbox.pause()
    assert overview(api)["sandboxes"]["paused"] == before["sandboxes"]["paused"] + 1


def test_what_the_operator_is_shown(api, admin, others_api, other_team, new_sandbox):
    new_sandbox()
    shown = overview(admin, **{"X-Team-ID": other_team["id"]})
    assert shown["operator"] is True
    assert shown["allSandboxes"]["running"] >= 1 and shown["allSandboxes"]["created"] >= 1
    findings = json.loads((Path(os.environ["ATOLL_DATA"]) / "run" / "findings.json").read_text())
    assert shown["advice"] == findings
    assert all(row["verdict"] in ("degraded", "missing") and row["sentence"] for row in findings)
    assert shown["sandboxes"] == {"running": 0, "paused": 0}, "of the team that was named"
    assert overview(others_api)["sandboxes"] == {"running": 0, "paused": 0}


def test_a_wrong_admin_key_shows_no_more(api, anonymous):
    assert overview(api, **{"X-Admin-Token": "wrong"})["operator"] is False
    assert anonymous.get("/dashboard/overview").status_code == 401
