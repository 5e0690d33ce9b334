"""Inspect (UK AISI): its E2B sandbox provider, with Inspect's own conformance checks for providers, and an
evaluation from a Dockerfile with Inspect's mock model."""

import inspect
import os
import tempfile
from pathlib import Path

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util._sandbox import self_check
from inspect_sandboxes.e2b._e2b import E2BSandboxEnvironment
from steps import async_step, run

# What the provider documents as not possible: it writes and reads as root.
AS_ROOT = {"test_read_file_not_allowed", "test_write_text_file_without_permissions",
           "test_write_binary_file_without_permissions"}

DOCKERFILE = """FROM python:3.12
RUN echo secret-42 > /srv/answer
"""


async def conformance():
    await E2BSandboxEnvironment.task_init("conformance", None)
    made = await E2BSandboxEnvironment.sample_init("conformance", None, {})
    checks = [check for name, check in inspect.getmembers(self_check, inspect.iscoroutinefunction)
              if name.startswith("test_") and name not in AS_ROOT]
    try:
        for check in checks:
            await async_step(check.__name__.removeprefix("test_"), check, made["default"])
    finally:
        await E2BSandboxEnvironment.sample_cleanup("conformance", None, made, False)
        await E2BSandboxEnvironment.task_cleanup("conformance", None, True)


async def evaluation():
    """A model that looks into a file of the task's image, and says what it has."""
    call = ModelOutput.for_tool_call("mockllm/model", "bash", {"cmd": "cat /srv/answer"})
    answer = ModelOutput.from_content("mockllm/model", "It is secret-42.")
    with tempfile.TemporaryDirectory() as place:
        dockerfile = Path(place, "Dockerfile")
        dockerfile.write_text(DOCKERFILE + f"ENV RUN_BY={os.environ['CLIENT_NAME']}\n")
        task = Task(dataset=[Sample(input="What is it?", target="secret-42")],
                    solver=[use_tools(bash()), generate()], scorer=includes(),
                    sandbox=("e2b", str(dockerfile)))
        [log] = await eval_async(task, model=get_model("mockllm/model", custom_outputs=[call, answer]),
                                 log_dir=place)
        assert log.status == "success", log.error
        said = [message.text for message in log.samples[0].messages if message.role == "tool"]
        assert said == ["secret-42\n"], said
        assert log.results.scores[0].metrics["accuracy"].value == 1, log.results


async def main():
    await conformance()
    await async_step("evaluation with a template from a Dockerfile", evaluation)


if __name__ == "__main__":
    run(main)
