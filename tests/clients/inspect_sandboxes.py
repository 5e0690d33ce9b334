"""Inspect (UK AISI): its E2B sandbox provider, with Inspect's own conformance checks for providers, and an
evaluation in a sandbox from a Dockerfile."""

import inspect
import os
import tempfile
import traceback
from pathlib import Path

from e2b import SandboxQuery
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import solver
from inspect_ai.util import sandbox
from inspect_ai.util._sandbox import self_check
from inspect_sandboxes.e2b._e2b import AsyncSandbox, E2BSandboxEnvironment
from steps import async_step, run

# The provider's own tests expect these to fail at E2B: it works as root, passes on what the SDK raises, and
# E2B says -1 of a process that a signal ended. They must fail here as well.
FAIL_AT_E2B = {
    "test_exec_as_nonexistent_user", "test_exec_large_command", "test_exec_permission_error",
    "test_exec_timeout_not_raised_on_fast_signal_death", "test_read_file_not_allowed",
    "test_write_binary_file_without_permissions", "test_write_text_file_without_permissions"}

DOCKERFILE = """FROM python:3.13
RUN echo secret-42 > /srv/answer
"""


async def conformance():
    await E2BSandboxEnvironment.task_init("conformance", None)
    made = await E2BSandboxEnvironment.sample_init("conformance", None, {})
    checks = [check for name, check in inspect.getmembers(self_check, inspect.iscoroutinefunction)
              if name.startswith("test_")]
    assert len(checks) > 40, checks
    broken = set()
    try:
        for check in checks:
            try:
                await check(made["default"])
            except Exception:  # noqa: BLE001 a check must not end the others
                traceback.print_exc()
                broken.add(check.__name__)
    finally:
        await E2BSandboxEnvironment.sample_cleanup("conformance", None, made, False)
        await E2BSandboxEnvironment.task_cleanup("conformance", None, True)
    assert broken == FAIL_AT_E2B, sorted(broken ^ FAIL_AT_E2B)


@solver
def look():
    """What a file of the task's image says is the answer."""

    async def solve(state, _generate):
        result = await sandbox().exec(["cat", "/srv/answer"])
        state.output = ModelOutput.from_content("mockllm/model", result.stdout)
        return state

    return solve


async def evaluation():
    """One sample at a time: the provider builds the template for each, and a later build of a name cancels
    the earlier one, at E2B too."""
    with tempfile.TemporaryDirectory() as place:
        dockerfile = Path(place, "Dockerfile")
        dockerfile.write_text(f"{DOCKERFILE}ENV RUN_BY={os.environ['CLIENT_NAME']}\n")
        task = Task(dataset=[Sample(input="What is it?", target="secret-42") for _ in range(3)],
                    solver=look(), scorer=includes(), sandbox=("e2b", str(dockerfile)))
        [log] = await eval_async(task, model="mockllm/model", log_dir=place, max_samples=1)
        assert log.status == "success", log.error
        assert log.results.scores[0].metrics["accuracy"].value == 1, log.results
    left = AsyncSandbox.list(query=SandboxQuery(metadata={"created_by": "inspect-ai"}))
    assert not await left.next_items(), "sandboxes of the evaluation are left"


async def main():
    await async_step("Inspect's conformance checks", conformance)
    await async_step("evaluation of three samples, template from a Dockerfile", evaluation)


if __name__ == "__main__":
    run(main)
