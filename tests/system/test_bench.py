"""The measurements: their statistics, their plots, and whether they run at all, with the smallest counts."""

import json
import os
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from lib import page, results, stats, svg  # noqa: E402

BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()


def test_percentiles_lie_between_the_nearest_ranks():
    samples = [40, 10, 30, 20]
    assert stats.percentile(samples, 0) == 10
    assert stats.percentile(samples, 0.5) == 25
    assert stats.percentile(samples, 1) == 40
    assert stats.percentile([7], 0.99) == 7


def test_trimming_takes_five_percent_off_each_end():
    assert stats.trim(range(100)) == list(range(5, 95))
    assert stats.trim([3, 1, 2]) == [1, 2, 3]
    summary = stats.summary([1000.0] * 5 + [1.0] * 95, trimmed=True)
    assert summary["max"] == 1.0 and summary["n"] == 100


def test_noise_is_the_range_of_the_rounds_medians():
    assert stats.noise([10] * 50) == 0
    assert stats.noise([10] * 40 + [15] * 10) == pytest.approx(0.5)
    assert stats.noise([1, 2]) is None


def row(table, name, median, **more):
    return {"kind": "row", "part": "tti", "table": table, "name": name, "median": median, "p95": 2 * median, **more}


def found():
    lines = [
        row("T", "bwrap: create + true + destroy", 4.0, key=results.BWRAP, unit="ms"),
        row("T", "atoll: echo", 6.0, key=results.ECHO, of="bwrap: create + true + destroy", unit="ms"),
        row("G", "create, beside 10", 1.0, size=10, what="create"),
        row("G", "create, beside 100", 3.0, size=100, what="create", of="create, beside 10"),
        {"kind": "row", "part": "tti", "table": "T", "name": "a <peer>: not installed"},
        {"kind": "part", "name": "files", "seconds": 1, "failed": "took longer than 1 s"},
        {"kind": "note", "part": "growth", "text": "no room"},
        {"kind": "extra", "name": "breakdown", "value": {"a": 1.0, "b": 3.0}},
        {"kind": "extra", "name": "breakdown-node", "value": {"a": 1.0, "b": 9.0}},
    ]
    return results.gather(lines, "tiny", 0)


def test_ratios_and_aims_follow_from_the_rows():
    gathered = found()
    by_name = {one["name"]: one for one in gathered["rows"]}
    assert by_name["atoll: echo"]["ratio"] == 1.5
    assert "ratio" not in by_name["bwrap: create + true + destroy"]
    aims = {aim["name"]: aim for aim in gathered["aims"]}
    assert aims["time to interactive with echo, p50"]["met"] is False
    assert aims["the same, as a multiple of bwrap's create + true + destroy"]["got"] == 1.5


def test_an_aim_says_whether_it_was_met_missed_or_not_measured(tmp_path):
    page.write(found(), tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "| time to interactive with echo, p50 | ≤ 5 ms | 6.00 ms | **missed** |" in text
    assert "| create rate | ≥ 275 /s |  | **not measured** |" in text
    rows = [row("R", "rate", 300.0, key="rate", unit="/s"),
            row("D", "each", 20480, key="density.code-interpreter-v1.host", unit="kB")]
    aims = {aim["name"]: aim for aim in results.aims(rows)}
    assert aims["create rate"]["met"] is True
    assert (aims["memory of an idle interpreter, at 100 of them"]["got"], aims["create rate"]["got"]) == (20, 300)


def test_every_aim_and_every_public_figure_has_a_row_of_some_part():
    """A key that no part writes could never be measured."""
    written = "".join(path.read_text() for path in (ROOT / "bench" / "parts").glob("*.py"))
    fixed = {key for _, _, _, key, _, over in results.AIMS for key in (key, over) if key} | set(page.BESIDE.values())
    made = {"tti.": "tti.", "exec.": "exec.", "files.": "files.", "growth.": "growth.", "density.": "density",
            "clones.": "clones."}
    for key in fixed:
        begin = next((found for start, found in made.items() if key.startswith(start)), f'"{key}"')
        assert begin in written, key
    assert {name for name, *_ in results.PUBLIC} == set(page.BESIDE)


def test_what_others_publish_of_node_stands_beside_our_node(tmp_path):
    lines = [row("T", "atoll: echo", 3.0, key=results.ECHO, unit="ms"),
             row("T", "atoll: node -v, JS SDK", 25.6, key=results.NODE, unit="ms")]
    page.write(results.gather(lines, "tiny", 0), tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert f"| {results.INTERACTIVE} | fastest hosted service | 12.80 ms | 25.60 ms | 2.00 |" in text


def test_the_page_and_its_plots_are_written(tmp_path):
    page.write(found(), tmp_path)
    assert json.loads((tmp_path / "latest.json").read_text())["mode"] == "tiny"
    text = (tmp_path / "README.md").read_text()
    assert "files: took longer than 1 s" in text and "growth: no room" in text and "1.50x" in text
    for name in page.PLOTS:
        drawn = xml.dom.minidom.parse(str(tmp_path / name))
        assert drawn.documentElement.tagName == "svg"
        assert "prefers-color-scheme: dark" in (tmp_path / name).read_text()


def test_names_cannot_break_a_plot():
    xml.dom.minidom.parseString(svg.bars("<&>", [("a & b <c>", 1.0, None, "a")], "ms"))


def test_parts_run_and_one_that_fails_stops_no_other(tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench-hand").symlink_to(BUILD / "bench" / "bench-hand")
    (tmp_path / "bench" / "bench-list").symlink_to("/bin/false")
    environment = os.environ | {"BENCH_BUILD": str(tmp_path), "BUILD": str(BUILD)}
    done = subprocess.run([ROOT / "bench" / "run", "--mode", "tiny", "--out", "-", "lists", "rate", "growth"], text=True,
                          capture_output=True, env=environment, timeout=120)
    assert "failed: lists: " in done.stdout, done.stderr
    assert "atoll: create + destroy" in done.stdout and "create, beside 4" in done.stdout, done.stderr
    assert "100 %" in done.stdout
    assert done.returncode == 1
