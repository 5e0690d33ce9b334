"""Sandboxes that begin with kernels which were started once, for all of them, and kept."""

import pathlib
import time

import pytest
from e2b_code_interpreter import Sandbox

KEPT_WAIT_S = 300


@pytest.fixture(scope="module", autouse=True)
def kept(interpreter_template):
    """Waits for a sandbox whose kernel was started to be kept: that one has imported more."""
    deadline = time.monotonic() + KEPT_WAIT_S
    while True:
        with Sandbox.create(timeout=60) as sandbox:
            if sandbox.run_code("import sys; 'pandas' in sys.modules").text == "True":
                return
        assert time.monotonic() < deadline, "its kernels have not been kept"
        time.sleep(1)


def texts(sandbox, *cells, language=None):
    return [sandbox.run_code(cell, language=language).text for cell in cells]


def test_nothing_random_is_shared(new_interpreter):
    python = "import random, numpy, uuid; random.random(), numpy.random.rand(), uuid.uuid4().hex"
    one, other = new_interpreter(), new_interpreter()
    assert one.run_code(python).text != other.run_code(python).text
    for cell in "random.random()", "numpy.random.rand()", "__import__('socket').gethostname()":
        assert texts(one, cell) != texts(other, cell)
    assert texts(one, "Math.random()", language="js") != texts(other, "Math.random()", language="js")
    named = one.run_code("import os; print(os.uname().nodename)")
    assert "".join(named.logs.stdout) == f"{one.sandbox_id}\n"


def test_variables_are_its_own(new_interpreter):
    one, other = new_interpreter(envs={"WORD": "one"}), new_interpreter(envs={"WORD": "other"})
    for sandbox, word in ((one, "one"), (other, "other")):
        cells = "import os; os.environ['WORD']", "!echo $WORD", "os.environ.get('ATOLL_KEPT', 'none')"
        runs = [sandbox.run_code(cell) for cell in cells]
        assert word in runs[0].text and word in "".join(runs[1].logs.stdout) and "none" in runs[2].text
        assert sandbox.run_code("process.env.WORD", language="js").text.strip("'") == word
        assert sandbox.run_code("String(process.env.ATOLL_KEPT)", language="js").text.strip("'") == "undefined"
        assert sandbox.commands.run("echo $WORD-$ATOLL_KEPT").stdout == f"{word}-\n"


def test_it_begins_as_if_it_were_new(new_interpreter):
    sandbox = new_interpreter()
    first = sandbox.run_code("sorted(name for name in globals() if name in ('numpy', 'pandas', 'plt'))")
    assert first.execution_count == 1 and first.text == "[]"
    plot = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert plot.results[0].png and plot.results[0].chart
    assert sandbox.run_code("import pandas as pd; pd.DataFrame({'a': [1]})").results[0].data == {"a": [1]}


def test_a_context_of_its_own_is_a_new_kernel(new_interpreter):
    sandbox = new_interpreter()
    context = sandbox.create_code_context()
    run = sandbox.run_code("import sys, os; 'pandas' in sys.modules, 'ATOLL_KEPT' in os.environ", context=context)
    assert run.text == "(False, False)"


def test_it_is_paused_and_copied(new_interpreter):
    sandbox = new_interpreter(envs={"WORD": "first"})
    sandbox.run_code("import os, random; x = 41; random.seed(7)")
    sandbox.run_code("let y = 41", language="js")
    sandbox.pause()
    sandbox = Sandbox.connect(sandbox.sandbox_id)
    assert texts(sandbox, "x + 1", "os.environ['WORD'].upper()")[0] == "42"
    snapshot = sandbox.create_snapshot()
    try:
        copy = new_interpreter(template=snapshot.snapshot_id, envs={"WORD": "second"})
        assert texts(copy, "x + 1") == ["42"] and texts(copy, "y + 1", language="js") == ["42"]
        assert "".join(copy.run_code("print(os.environ['WORD'])").logs.stdout) == "second\n"
        assert texts(copy, "random.random()") != texts(sandbox, "random.random()")
    finally:
        Sandbox.delete_snapshot(snapshot.snapshot_id)


def is_clone(sandbox):
    """Whether the first process of the sandbox is a child of a zygote (docs/internals/clones.md)."""
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and f"/{sandbox.sandbox_id}\n" in (process / "cgroup").read_text():
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                if pathlib.Path(f"/proc/{parent}/comm").read_text() == "criu-zygote\n":
                    return True
        except OSError:
            continue  # it has ended
    return False


def test_interpreters_that_share_memory_have_kernels_of_their_own(new_interpreter):
    sandboxes = [new_interpreter() for _ in range(8)]
    assert any(is_clone(sandbox) for sandbox in sandboxes), "none shares memory"
    for number, sandbox in enumerate(sandboxes):
        sandbox.run_code(f"x = [{number}] * 1000")
        sandbox.run_code(f"let x = {number}", language="js")
    for number, sandbox in enumerate(sandboxes):
        assert texts(sandbox, "sum(x)") == [str(number * 1000)]
        assert texts(sandbox, "x + 1", language="js") == [str(number + 1)]


def waiting(api):
    """How many interpreters lie parked, of those that nobody has asked for yet."""
    template = api.get("/templates/aliases/code-interpreter-v1").json()["templateID"]
    start = f'atoll_template_parked_jails{{template="{template}"'
    return sum(int(line.split()[-1]) for line in api.get("/metrics").text.splitlines() if line.startswith(start))


def test_several_wait_in_quiet_times(api, new_interpreter):
    """A thirty-second part of the host's memory, and at most eight: on hosts of 12 GiB and more, two at the least."""
    with open("/proc/meminfo") as text:
        host_bytes = int(text.readline().split()[1]) << 10
    least = min(2, max(1, host_bytes // (6 << 30)))
    deadline = time.monotonic() + KEPT_WAIT_S
    while waiting(api) < least:
        assert time.monotonic() < deadline, f"{waiting(api)} wait"
        time.sleep(0.5)
