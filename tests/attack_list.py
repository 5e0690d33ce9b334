"""Which tests are attacks, by what their sources say, and what their last runs came to.

Every test of tests/security is an attack, and so is a test elsewhere with `@pytest.mark.attack`; the
marker's arguments are further names (CVE numbers) beside those in the docstring. The docstring's first
paragraph is one sentence: the attack, and what must hold. A test without one is listed by its name.

tools/security-page makes docs/SECURITY-TESTS.md of it."""

import ast
import hashlib
import json
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CVE = re.compile(r"CVE-\d{4}-\d{4,}")
SUITES = {"tests/security": True, "tests/system": False, "tests/sdk-py": False}  # True: all of its tests
ATTACKS_ALL = {"test_root_files.py"}  # whole files outside of tests/security
NO_ATTACKS = {"test_page.py"}


def results_dir():
    build = os.environ.get("ATOLL_BUILD") or os.environ.get("BUILD") or ROOT / "build"
    return Path(build) / "security-results"


def sentence_of(name):
    """A test's name is a sentence that is true when it passes."""
    words = name.removeprefix("test_").replace("_s_", "'s ").replace("_", " ")
    return f"{words[0].upper()}{words[1:]}."


class Attack:
    """A test function that is one, as its source says."""

    def __init__(self, file, function, lines):
        self.file = file
        self.name = function.name
        self.sentence = " ".join((ast.get_docstring(function) or "").split("\n\n")[0].split()) or sentence_of(function.name)
        names = CVE.findall(self.sentence)
        self.names = list(dict.fromkeys(names + marked_names(function)))
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        source = "\n".join(lines[first - 1 : function.end_lineno])
        self.digest = hashlib.sha256(source.encode()).hexdigest()[:16]

    @property
    def key(self):
        return f"{self.file}::{self.name}"


def attack_marks(function):
    for decorator in function.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        if ast.unparse(call.func if call else decorator) == "pytest.mark.attack":
            yield call.args if call else []


def marked_names(function):
    return [argument.value for arguments in attack_marks(function) for argument in arguments]


def attacks_of(path, every):
    text = path.read_text()
    file = str(path.relative_to(ROOT))
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            if every or any(True for _ in attack_marks(node)):
                yield Attack(file, node, text.splitlines())


def all_attacks():
    """By file, each with what its module says of itself."""
    found = {}
    for suite, every in SUITES.items():
        for path in sorted((ROOT / suite).glob("test_*.py")):
            attacks = [] if path.name in NO_ATTACKS else list(attacks_of(path, every or path.name in ATTACKS_ALL))
            if attacks:
                text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
                found[str(path.relative_to(ROOT))] = (text, attacks)
    return found


def result_path(attack):
    return results_dir() / (attack.key.replace("/", "-").replace("::", "-") + ".json")


def result_of(attack):
    """{"held": n, "failed": n}, or None when the test has not run since it was last changed."""
    path = result_path(attack)
    if not path.exists():
        return None
    result = json.loads(path.read_text())
    return result if result["digest"] == attack.digest else None
