"""What sandboxes, teams and the daemon itself use."""

import os
import re
import time
from datetime import datetime, timedelta, timezone

import pytest
from conftest import until

FIELDS = {
    "timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "memCache", "diskUsed", "diskTotal", "networkSent",
    "networkReceived",
}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def team(api):
    return api.get("/teams").json()[0]["teamID"]


def test_the_first_sample_comes_soon(own_sandbox):
    metric = until(own_sandbox.get_metrics, "there is a sample")[0]
    info = own_sandbox.get_info()
    assert metric.cpu_count == info.cpu_count
    assert metric.mem_total == info.memory_mb * MIB
    assert 0 <= metric.cpu_used_pct <= 100
    assert 0 < metric.mem_used < metric.mem_total
    assert metric.disk_total > 0
    assert abs(metric.timestamp - datetime.now(timezone.utc)) < timedelta(minutes=1)


def test_all_fields_are_there(api, sandbox):
    path = f"/sandboxes/{sandbox.sandbox_id}/metrics"
    metric = until(lambda: api.get(path).json(), "there is a sample")[0]
    assert set(metric) == FIELDS
    stamp = datetime.fromisoformat(metric["timestamp"].replace("Z", "+00:00"))
    assert stamp.timestamp() == metric["timestampUnix"]


def test_use_shows(own_sandbox):
    """Memory that is held, a disk that is written and a busy cpu are all seen."""
    own_sandbox.commands.run("head -c 60000000 /dev/urandom > /home/user/big; sync")
    busy = own_sandbox.commands.run(
        "python3 -c 'x = bytearray(150 << 20)\nwhile True: pass'", background=True, timeout=0
    )

    def seen():
        for metric in own_sandbox.get_metrics()[-1:]:
            return metric.mem_used > 150 * MIB and metric.cpu_used_pct > 5 and metric.disk_used > 55 * MIB

    until(seen, "memory, cpu and disk show")
    busy.kill()


def test_samples_go_on(own_sandbox):
    metrics = until(lambda: len(m := own_sandbox.get_metrics()) >= 3 and m, "there are three samples")
    stamps = [metric.timestamp for metric in metrics]
    assert stamps == sorted(stamps)


def test_ranges(sandbox):
    now = datetime.now(timezone.utc)
    until(sandbox.get_metrics, "there is a sample")
    hour = timedelta(hours=1)
    assert sandbox.get_metrics(start=now - 3 * hour, end=now - 2 * hour) == []
    assert sandbox.get_metrics(start=now + hour, end=now + 2 * hour) == []
    assert sandbox.get_metrics(start=now - hour, end=now + hour) != []
    assert sandbox.get_metrics(start=now - hour) != []


BAD_RANGES = ["start=9&end=8", "start=-1", "start=x", "end=1.5", "start=%zz", "end=", "start=1%00", "end=" + "9" * 30]


@pytest.mark.parametrize("query", BAD_RANGES)
def test_a_bad_range(api, sandbox, team, query):
    for path in (f"/sandboxes/{sandbox.sandbox_id}/metrics", f"/teams/{team}/metrics"):
        answer = api.get(f"{path}?{query}")
        assert answer.status_code == 400 and answer.json()["code"] == 400
        assert answer.json()["message"].startswith("validation error: ")


def test_a_sandbox_that_is_not_there(api):
    answer = api.get("/sandboxes/inothing0000000000000/metrics")
    assert answer.status_code == 404 and answer.json()["code"] == 404


def test_many_at_once(api, new_sandbox):
    ids = [new_sandbox().sandbox_id for _ in range(2)]
    wanted = ",".join([*ids, "inothing0000000000000"])

    def latest():
        found = api.get("/sandboxes/metrics", params={"sandbox_ids": wanted}).json()["sandboxes"]
        return len(found) == 2 and found

    found = until(latest, "both have a sample")
    assert set(found) == set(ids)
    assert set(found[ids[0]]) == FIELDS


@pytest.mark.parametrize("query", ["", "?sandbox_ids=", "?sandbox_ids=a,,b", "?sandbox_ids=" + "a," * 100 + "a"])
def test_many_want_ids(api, query):
    answer = api.get("/sandboxes/metrics" + query)
    assert answer.status_code == 400 and "sandbox_ids" in answer.json()["message"]


def test_the_team(api, own_sandbox, team):
    def counted():
        return [p for p in api.get(f"/teams/{team}/metrics").json() if p["concurrentSandboxes"] > 0]

    points = until(counted, "a sandbox is counted")
    assert set(points[0]) == {"timestamp", "timestampUnix", "concurrentSandboxes", "sandboxStartRate"}
    for name in ("concurrent_sandboxes", "sandbox_start_rate"):
        peak = api.get(f"/teams/{team}/metrics/max", params={"metric": name}).json()
        assert set(peak) == {"timestamp", "timestampUnix", "value"}
        assert peak["value"] > 0


def test_the_team_and_bad_questions(api, team):
    assert api.get(f"/teams/{team}/metrics/max").status_code == 400
    assert api.get(f"/teams/{team}/metrics/max?metric=love").status_code == 400
    assert api.get("/teams/00000000-0000-4000-8000-000000000000/metrics").status_code == 403


# ---- the daemon's own ----


def figures(text):
    """Every line is a comment or a sample; the samples by name and labels."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line), line
            continue
        found = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z]+="[^"]*",?)+\})?) (-?[0-9.]+)', line)
        assert found, line
        assert found[1] not in samples, f"{found[1]} is there twice"
        samples[found[1]] = float(found[2])
    return samples


def test_prometheus(api, own_sandbox):
    own_sandbox.commands.run("true")
    answer = api.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    before = figures(answer.text)
    assert before['atoll_sandboxes{state="running"}'] >= 1
    assert before["atoll_keeper_connected"] == 1
    assert before["atoll_pool_total_bytes"] > before["atoll_pool_used_bytes"] > 0
    assert before["process_resident_memory_bytes"] > 0 and before["process_open_fds"] > 0
    assert before['atoll_edge_requests_total{outcome="passed"}'] >= 1
    assert before["atoll_store_commit_seconds_count"] >= 1

    own_sandbox.kill()
    assert api.get("/sandboxes/inothing0000000000000").status_code == 404
    after = figures(api.get("/metrics").text)
    killed = 'atoll_sandboxes_killed_total{reason="request"}'
    assert after[killed] == before[killed] + 1
    missed = 'atoll_api_requests_total{method="GET",route="/sandboxes/{}",code="4xx"}'
    assert after[missed] >= before.get(missed, 0) + 1


def test_histograms_are_cumulative(api):
    samples = figures(api.get("/metrics").text)
    buckets = [v for k, v in samples.items() if k.startswith("atoll_keeper_request_seconds_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == samples["atoll_keeper_request_seconds_count"] > 0


def test_prometheus_wants_a_key(anonymous, api, own_sandbox):
    """From this machine, too: a browser on it comes from here as well."""
    bearer = {"Authorization": f"Bearer {os.environ['E2B_API_KEY']}"}
    assert anonymous.get("/metrics").status_code == 401
    assert own_sandbox.sandbox_id not in anonymous.get("/metrics").text
    assert anonymous.get("/metrics", headers=bearer).status_code == 200
    own_sandbox.commands.run("getent hosts nowhere.invalid || true")
    assert own_sandbox.sandbox_id in api.get("/metrics").text
    assert "access-control-allow-origin" not in api.get("/metrics").headers


@pytest.mark.parametrize("which", ["start", "end"])
def test_a_time_that_no_metrics_can_have(api, team, which):
    for seconds in (10413791999 + 1, 99999999999999):
        answer = api.get(f"/teams/{team}/metrics?{which}={seconds}")
        assert answer.status_code == 400 and f"{which} time cannot be after" in answer.json()["message"]
    assert api.get(f"/teams/{team}/metrics?start={int(time.time())}&end=10413791999").status_code == 200
