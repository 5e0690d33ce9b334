"""The Grafana dashboard: a valid model, whose every expression names metrics that a live daemon has."""

import json
import re
from pathlib import Path

import httpx
import pytest
from daemon import running

DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana" / "atoll.json"
WORDS = {"sum", "min", "max", "rate", "by", "le", "topk", "histogram_quantile", "label_values", "instance"}  # of PromQL


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(DASHBOARD.read_text())


@pytest.fixture(scope="module")
def families():
    """The type of each, by name."""
    with running() as daemon:
        page = httpx.get(f"{daemon.url}/metrics", headers={"X-API-Key": daemon.key}).text
    return dict(line.split()[2:4] for line in page.splitlines() if line.startswith("# TYPE"))


def graphs(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def names(expression):
    """Metrics that an expression names: what is left without strings, ranges, groups and functions."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)", " ", expression)
    return {word for word in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare) if word not in WORDS}


def known(families):
    found = set()
    for name, kind in families.items():
        found |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}
    return found


def test_every_expression_names_metrics_that_are_there(dashboard, families):
    for panel in graphs(dashboard):
        for target in panel["targets"]:
            assert names(target["expr"]), target["expr"]
            assert names(target["expr"]) <= known(families), f"{panel['title']}: {names(target['expr']) - known(families)}"
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            assert names(variable["definition"]) <= known(families)


def test_a_name_that_is_not_there_would_be_found(families):
    assert not names("sum by (x) (rate(atoll_nothing_total{a=\"b\"}[5m]))") <= known(families)
    assert names("histogram_quantile(0.95, sum by (le, step) (rate(atoll_x_bucket{i=~\"$i\"}[$__rate_interval])))") == {"atoll_x_bucket"}


def test_counters_are_shown_as_rates_and_gauges_are_not(dashboard, families):
    for panel in graphs(dashboard):
        for target in panel["targets"]:
            for name in re.findall(r"rate\((\w+)", target["expr"]):
                kind = families.get(name) or families.get(re.sub(r"_(bucket|sum|count)$", "", name))
                assert kind in ("counter", "histogram"), f"rate of {name}, which is a {kind}"


def test_labels_are_those_of_the_metrics(dashboard, families):
    """A legend that names a label groups by it."""
    for panel in graphs(dashboard):
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), f"{panel['title']}: {label}"


def test_the_model_is_whole(dashboard):
    assert dashboard["title"] and dashboard["uid"] and dashboard["schemaVersion"] >= 36 and not dashboard.get("id")
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    places = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert 0 <= place["x"] and place["x"] + place["w"] <= 24
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & places, f"{panel['title']} lies on another panel"
        places |= cells
    for panel in graphs(dashboard):
        assert panel["datasource"]["uid"] == "${datasource}" and panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_every_family_of_the_daemon_is_shown_or_left_out_on_purpose(dashboard, families):
    shown = set().union(*(names(target["expr"]) for panel in graphs(dashboard) for target in panel["targets"]))
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) if name not in families else name for name in shown}
    rarely = {"atoll_template_parked_jails", "atoll_http_requests_total", "atoll_metrics_samples_total", "atoll_metrics_series", "atoll_loop_stalls_total"}
    assert set(families) - shown == rarely
