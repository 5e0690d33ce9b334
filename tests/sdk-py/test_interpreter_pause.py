"""Kernels go on over pauses, in forks and from snapshots; on a sandbox that starts anew they are fresh."""

import threading

import pytest
from e2b import SandboxException

# Says that it runs, and runs until it is let go.
WAITS = """
import os, time
print("begun", flush=True)
while not os.path.exists("/home/user/go"):
    time.sleep(0.05)
late = 7
"""


def text(sandbox, code, **options):
    execution = sandbox.run_code(code, **options)
    assert execution.error is None, execution.error
    return execution.text


@pytest.fixture
def interpreter_with_state(new_interpreter):
    sandbox = new_interpreter()
    assert text(sandbox, "import random; random.seed(5); kept = 41; kept") == "41"
    assert text(sandbox, "kept = 6; kept", language="javascript") == "6"
    return sandbox


def goes_on(sandbox):
    assert text(sandbox, "kept + 1") == "42"
    assert text(sandbox, "kept + 1", language="javascript") == "7"
    context = sandbox.create_code_context(language="python")
    assert text(sandbox, "'kept' in globals()", context=context) == "False"


def test_variables_are_there_after_a_resume(interpreter_with_state):
    for _ in range(2):
        interpreter_with_state.pause()
        interpreter_with_state.connect(timeout=300)
        goes_on(interpreter_with_state)


def test_a_cell_goes_on_over_a_pause_and_in_a_fork(interpreter_with_state):
    sandbox, begun, ends = interpreter_with_state, threading.Event(), []

    def run(code, **options):
        with pytest.raises(SandboxException) as end:
            sandbox.run_code(code, **options)
        ends.append(end)

    cells = [threading.Thread(target=run, args=[WAITS], kwargs={"on_stdout": lambda _: begun.set()}),
             threading.Thread(target=run, args=["later = late + 1"])]  # fmt: skip
    cells[0].start()
    begun.wait()
    cells[1].start()
    sandbox.pause()
    for cell in cells:
        cell.join()
    assert len(ends) == 2  # both clients were told

    sandbox.connect(timeout=300)
    fork = sandbox.fork(timeout=300)[0]
    try:
        for copy in (sandbox, fork):
            copy.files.write("/home/user/go", "")
            assert text(copy, "late") == "7"
    finally:
        fork.kill()


def test_forks_go_on_each_for_itself_and_draw_other_numbers(interpreter_with_state):
    forks = interpreter_with_state.fork(count=2, timeout=300)
    everyone = [interpreter_with_state, *forks]
    try:
        drawn = {text(sandbox, "random.random()") for sandbox in everyone}
        assert len(drawn) == 3
        for sandbox in everyone:
            goes_on(sandbox)
        text(forks[0], "kept = 0; kept")
        assert text(forks[1], "kept") == text(interpreter_with_state, "kept") == "41"
    finally:
        for fork in forks:
            fork.kill()


def test_a_snapshot_has_the_kernels_running(interpreter_with_state, new_interpreter):
    snapshot = interpreter_with_state.create_snapshot().snapshot_id
    copy = new_interpreter(template=snapshot)
    goes_on(copy)
    copy.pause()
    copy.connect(timeout=300)
    goes_on(copy)
    assert type(copy).delete_snapshot(snapshot)


def test_who_starts_anew_has_fresh_kernels_and_the_files(interpreter_with_state):
    text(interpreter_with_state, "open('/home/user/file', 'w').write('mine')")
    interpreter_with_state.pause(keep_memory=False)
    interpreter_with_state.connect(timeout=300)
    assert text(interpreter_with_state, "'kept' in globals()") == "False"
    assert text(interpreter_with_state, "open('/home/user/file').read()") == "mine"


# ---- the client that asked ----

COUNTS = """
import time
for i in range(100):
    print(i, flush=True)
    time.sleep(0.03)
'the result'
"""


def over_a_pause(api, sandbox):
    path = f"/sandboxes/{sandbox.sandbox_id}"
    assert api.post(f"{path}/pause").status_code == 204
    assert api.post(f"{path}/connect", json={"timeout": 300}).status_code == 201


@pytest.mark.parametrize("code", [COUNTS, "for i in range(200000): print(i)\n'the result'"])
def test_a_cell_over_a_pause_gives_its_result_to_the_client_that_asked(new_interpreter, api, code):
    sandbox, begun, results = new_interpreter(), threading.Event(), {}
    assert text(sandbox, "times = 0; times") == "0"

    def run(code, **options):
        results["first"] = sandbox.run_code(code, **options)

    def run_next():
        """A cell whose request meets the pause on its way is refused; then it has not run."""
        while "next" not in results:
            try:
                results["next"] = sandbox.run_code("print('next'); times += 1; f'the next, {times}'")
            except SandboxException as refused:
                assert "being paused" in str(refused) or "it is paused" in str(refused)

    cells = [threading.Thread(target=run, args=[code], kwargs={"on_stdout": lambda _: begun.set()}),
             threading.Thread(target=run_next)]  # fmt: skip
    cells[0].start()
    begun.wait()
    cells[1].start()
    for _ in range(2):
        over_a_pause(api, sandbox)
    for cell in cells:
        cell.join()
    assert results["first"].text == "the result"
    assert results["next"].text == "the next, 1"
    said = [int(line) for line in "".join(results["first"].logs.stdout).split("\n") if line]
    assert said == list(range(len(said))) and len(said) in (100, 200000)
    assert results["next"].logs.stdout == ["next\n"]


def test_a_cell_whose_client_leaves_after_a_pause_is_interrupted(new_interpreter, api):
    sandbox, begun, ends = new_interpreter(), threading.Event(), []

    def run():
        try:
            sandbox.run_code(
                "import time\nprint(1, flush=True)\nwhile True: time.sleep(0.1)",
                timeout=6,
                on_stdout=lambda _: begun.set(),
            )
        except Exception as end:
            ends.append(end)

    cell = threading.Thread(target=run)
    cell.start()
    begun.wait()
    over_a_pause(api, sandbox)
    cell.join()
    assert len(ends) == 1  # its own time limit
    assert text(sandbox, "1 + 1") == "2"
