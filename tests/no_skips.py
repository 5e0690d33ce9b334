"""A pytest plugin: a test that skips itself has failed.

What the tests need is installed before they run (tools/deps), so a skip hides that something is missing."""

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} did not run: {why}"
    return report
