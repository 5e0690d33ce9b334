"""Traces, metrics and logs by OTLP, read with OpenTelemetry's own messages; and collectors that hang, refuse or are away."""

import base64
import json
import os
import socket
import struct
import time

import httpx
import pytest
from daemon import running, until
from e2b import Sandbox, Template
from otlp import Collector
from teams import client

SECRET_HEADER = "Bearer collector-secret-5e1f"


def trace_id():
    return os.urandom(16).hex()


def parent_of(trace, sampled=True):
    return f"00-{trace}-{os.urandom(8).hex()}-{'01' if sampled else '00'}"


@pytest.fixture(scope="module")
def collector():
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="module")
def daemon(collector):
    settings = ["--otlp-endpoint", collector.url + "/", "--otlp-metrics", "true", "--otlp-logs", "true", "--otlp-sample", "0"]
    with running(*settings, environment={"ATOLL_OTLP_HEADERS": f"Authorization={SECRET_HEADER.replace(' ', '%20')},X-Scope=a"}) as daemon:
        yield daemon


@pytest.fixture
def api(daemon):
    with client(daemon, daemon.key) as api:
        yield api


def spans_until(collector, trace, names):
    """All spans of a trace, once those of these names are there."""
    until(lambda: {span.name for span in collector.of_trace(trace)} >= set(names), f"{names} of {trace}: {[s.name for s in collector.of_trace(trace)]}", 20)
    return {span.name: span for span in collector.of_trace(trace)}


def create(api, **headers):
    answer = api.post("/sandboxes", json={"templateID": "base", "timeout": 300, "secure": False}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["sandboxID"]


def run(daemon, sandbox, words, **headers):
    """A command by plain HTTP, for the SDKs add no headers to it; the answer's messages."""
    message = json.dumps({"process": {"cmd": words[0], "args": words[1:]}}).encode()
    answer = httpx.post(
        f"{daemon.url}/process.Process/Start",
        content=b"\0" + struct.pack(">I", len(message)) + message,
        headers={"content-type": "application/connect+json", "connect-protocol-version": "1", "E2b-Sandbox-Id": sandbox,
                 "E2b-Sandbox-Port": "49983", "authorization": "Basic " + base64.b64encode(b"user:").decode(), **headers},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    return answer.content


def inside(outer, inner):
    """To the microsecond, by which both are measured, with some room for two readings of two clocks."""
    assert outer.begun - 5_000_000 <= inner.begun <= inner.ended <= outer.ended + 5_000_000


def test_the_callers_trace_goes_through_create_and_command(daemon, api, collector):
    trace = trace_id()
    parent = parent_of(trace)
    sandbox = create(api, traceparent=parent, tracestate="vendor=value")
    spans = spans_until(collector, trace, ["POST /sandboxes", "start.jail", "start.dial", "start.init", "start.record"])
    server = spans["POST /sandboxes"]
    assert server.kind == 2 and server.parent == parent.split("-")[2] and server.state == "vendor=value" and not server.failed
    assert server.attributes["http.request.method"] == "POST" and server.attributes["http.route"] == "/sandboxes"
    assert server.attributes["http.response.status_code"] == 201 and server.attributes["sandbox.id"] == sandbox
    assert server.attributes["atoll.team.id"] and server.attributes["atoll.key.id"] and server.attributes["client.address"] == "127.0.0.1"
    assert server.resource["service.name"] == "atoll" and server.resource["service.version"]
    for name in ("start.jail", "start.init", "start.record"):
        assert spans[name].parent == server.id and spans[name].attributes["sandbox.id"] == sandbox
        inside(server, spans[name])
    command = trace_id()
    parent = parent_of(command)
    assert b'"exited":true' in run(daemon, sandbox, ["/bin/echo", "hello"], traceparent=parent)
    spans = spans_until(collector, command, ["process.Process/Start", "edge.answer"])
    start = spans["process.Process/Start"]
    assert start.parent == parent.split("-")[2] and start.attributes["sandbox.id"] == sandbox
    answers = [span for span in collector.of_trace(command) if span.name == "edge.answer"]
    assert start.id in {span.parent for span in answers}
    api.delete(f"/sandboxes/{sandbox}")


def test_pause_resume_and_fork_have_their_steps(api, collector):
    sandbox = create(api)
    trace = trace_id()
    assert api.post(f"/sandboxes/{sandbox}/pause", headers={"traceparent": parent_of(trace)}).status_code == 204
    spans = spans_until(collector, trace, ["POST /sandboxes/{}/pause", "save.freeze", "save.dump", "save.record"])
    assert all(spans[name].parent == spans["POST /sandboxes/{}/pause"].id for name in ("save.freeze", "save.dump", "save.record"))
    trace = trace_id()
    answer = api.post(f"/sandboxes/{sandbox}/resume", json={}, headers={"traceparent": parent_of(trace)})
    assert answer.status_code == 201, answer.text
    spans = spans_until(collector, trace, ["POST /sandboxes/{}/resume", "start.jail", "start.record"])
    assert spans["start.jail"].parent == spans["POST /sandboxes/{}/resume"].id
    trace = trace_id()
    forks = api.post(f"/sandboxes/{sandbox}/fork", json={"count": 2}, headers={"traceparent": parent_of(trace)}).json()
    spans_until(collector, trace, ["POST /sandboxes/{}/fork", "save.dump", "start.jail"])
    assert len([span for span in collector.of_trace(trace) if span.name == "start.jail"]) == 2
    for each in [sandbox, *(fork["sandbox"]["sandboxID"] for fork in forks)]:
        api.delete(f"/sandboxes/{each}")


def test_a_build_has_a_span_for_each_step(daemon, collector):
    trace = trace_id()
    template = Template().from_template("base").run_cmd("true # one").run_cmd(f"true # {trace}")
    Template.build(template, f"traced-{trace[:8]}", **daemon.sdk, headers={"traceparent": parent_of(trace)})
    spans_until(collector, trace, ["build", "build.base", "build.step", "build.finalize"])
    spans = collector.of_trace(trace)
    whole = next(span for span in spans if span.name == "build")
    steps = [span for span in spans if span.name == "build.step"]
    assert len(steps) >= 2 and all(step.parent == whole.id for step in steps)
    assert whole.attributes["atoll.build.id"] and not whole.failed
    assert whole.parent in {span.id for span in spans if span.kind == 2}


def test_a_caller_that_does_not_sample_is_left_alone(api, collector):
    unsampled, sampled = trace_id(), trace_id()
    api.get("/sandboxes", headers={"traceparent": parent_of(unsampled, sampled=False)})
    api.get("/sandboxes")  # a trace of ours, of which none are exported here
    api.get("/sandboxes", headers={"traceparent": parent_of(sampled)})
    spans_until(collector, sampled, ["GET /sandboxes"])
    assert not collector.of_trace(unsampled)


@pytest.mark.parametrize("header", ["", "x", "00-" + "0" * 32 + "-" + "1" * 16 + "-01", "00-" + "A" * 32 + "-" + "1" * 16 + "-01",
                                    "ff-" + "1" * 32 + "-" + "1" * 16 + "-01", "00-" + "1" * 32 + "-" + "1" * 16 + "-01-more"])
def test_a_bad_traceparent_begins_a_new_trace(api, header, collector):
    before = len(collector.spans)
    assert api.get("/sandboxes", headers={"traceparent": header}).status_code == 200
    time.sleep(1.5)
    assert not [span for span in collector.spans[before:] if span.name == "GET /sandboxes"]


def test_headers_reach_the_collector_and_nobody_else(daemon, api, collector):
    trace = trace_id()
    api.get("/sandboxes", headers={"traceparent": parent_of(trace)})
    spans_until(collector, trace, ["GET /sandboxes"])
    headers = {name.lower(): value for name, value in collector.headers[-1].items()}
    assert headers["authorization"] == SECRET_HEADER and headers["x-scope"] == "a" and headers["content-type"] == "application/json"
    assert "collector-secret" not in daemon.said()
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                assert b"collector-secret" not in open(f"/proc/{pid}/cmdline", "rb").read(), pid
            except (FileNotFoundError, ProcessLookupError):
                pass


def test_metrics_of_sandboxes_and_of_the_daemon(api, collector):
    sandbox = create(api)

    def values():
        return {metric.name: (resource, metric) for resource, metric in collector.metrics if resource.get("sandbox.id") == sandbox}

    until(lambda: len(values()) == 4, "metrics of the sandbox", 45)
    resource, memory = values()["sandbox.memory.usage"]
    assert resource["template"] and resource["team"] == api.get("/teams").json()[0]["teamID"]
    assert memory.unit == "By" and memory.gauge.data_points[0].as_double > 0
    own = {metric.name: metric for resource, metric in collector.metrics if "sandbox.id" not in resource}
    assert own["atoll_sandboxes_created_total"].sum.is_monotonic and own["atoll_sandboxes"].gauge.data_points
    points = own["atoll_create_step_seconds"].histogram.data_points
    assert points and all(len(p.bucket_counts) == len(p.explicit_bounds) + 1 and sum(p.bucket_counts) == p.count for p in points)
    assert {a.key for p in points for a in p.attributes} == {"step"}
    page = {line.split()[2] for line in api.get("/metrics").text.splitlines() if line.startswith("# TYPE")}
    assert page - set(own) <= {"atoll_api_request_seconds"}, "every family of GET /metrics is exported"
    api.delete(f"/sandboxes/{sandbox}")


def test_log_lines_of_sandboxes(daemon, api, collector):
    sandbox = create(api)
    Sandbox.connect(sandbox, **daemon.sdk).commands.run("true")
    found = until(lambda: [each for each in collector.logs if each[0].get("sandbox.id") == sandbox], "a line of the sandbox", 30)
    resource, record = found[0]
    assert resource["team"] and resource["template"] and record.body.string_value.startswith("{") and record.severity_number > 0
    api.delete(f"/sandboxes/{sandbox}")


def test_everything_was_well_formed(collector):
    assert collector.posts > 0 and collector.faults == []


# ---- collectors that fail ----


@pytest.fixture
def failing():
    collector = Collector()
    yield collector
    collector.close()


def sampled_calls(api, n):
    for _ in range(n):
        assert api.get("/sandboxes").status_code == 200


def test_a_collector_that_hangs_or_is_away_slows_nothing(failing):
    with running("--otlp-endpoint", failing.url) as daemon, client(daemon, daemon.key) as api:
        failing.hangs.clear()
        sampled_calls(api, 6000)  # more than the queue takes
        until(lambda: daemon.figures()['atoll_otlp_dropped_total{signal="traces"}'] > 0, "spans are dropped", 30)
        assert api.get("/health").status_code == 200
        failing.hangs.set()
        until(lambda: daemon.figures()['atoll_otlp_sent_total{signal="traces"}'] > 4000, "the queue is sent in the end", 60)
        assert failing.faults == []


@pytest.mark.parametrize("status, retried", [(429, True), (503, True), (500, False), (400, False)])
def test_refusals_for_the_moment_are_tried_again(failing, status, retried):
    with running("--otlp-endpoint", failing.url) as daemon, client(daemon, daemon.key) as api:
        failing.status = status
        sampled_calls(api, 3)
        until(lambda: failing.posts >= (2 if retried else 1), "the collector is asked", 30)
        failing.status = 200
        if retried:
            until(lambda: len([s for s in failing.spans if s.name == "GET /sandboxes"]) >= 3, "the same spans come again", 30)
        else:
            until(lambda: daemon.figures()['atoll_otlp_dropped_total{signal="traces"}'] >= 1, "they are dropped", 30)


def test_no_collector_at_all():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with running("--otlp-endpoint", f"http://127.0.0.1:{port}") as daemon, client(daemon, daemon.key) as api:
        sampled_calls(api, 10)
        until(lambda: "otlp" in daemon.said(), "the log says so", 30)
        assert httpx.get(f"{daemon.url}/health").status_code == 200


@pytest.mark.parametrize("settings", [["--otlp-endpoint", "ftp://x"], ["--otlp-sample", "2"], ["--otlp-sample", "x"]])
def test_a_bad_setting_is_refused(settings):
    with pytest.raises(AssertionError, match="otlp_"):
        with running(*settings):
            pass
