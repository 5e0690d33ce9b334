"""A pytest plugin that keeps what each attack came to, for docs/SECURITY-TESTS.md.

What a run came to goes to security-results/ in the build directory, a file for each test function, so
that runs of a part add up."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from attack_list import ROOT, all_attacks, result_path


def pytest_configure(config):
    config.addinivalue_line("markers", "attack(*names): an attack, for docs/SECURITY-TESTS.md")
    config.pluginmanager.register(Recorder(), "attack-results")


class Recorder:
    def __init__(self):
        self.came_to = defaultdict(Counter)
        self.whole = {}

    @pytest.hookimpl(tryfirst=True)  # before -k takes some away
    def pytest_collection_modifyitems(self, items):
        self.whole = Counter(self.key_of(item.nodeid, item.path) for item in items)

    @staticmethod
    def key_of(nodeid, path):
        return f"{Path(path).resolve().relative_to(ROOT)}::{nodeid.split('::', 1)[1].partition('[')[0]}"

    def pytest_runtest_makereport(self, item, call):
        key = self.key_of(item.nodeid, item.path)
        if call.excinfo is not None:
            self.came_to[key]["failed"] += 1
        elif call.when == "call":
            self.came_to[key]["held"] += 1

    def pytest_sessionfinish(self):
        known = {attack.key: attack for _, attacks in all_attacks().values() for attack in attacks}
        for key, counts in self.came_to.items():
            if key in known and sum(counts.values()) >= self.whole[key]:
                result = {"digest": known[key].digest, **counts}
                path = result_path(known[key])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(result))
