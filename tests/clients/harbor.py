"""Harbor, the harness of Terminal-Bench: its E2B environment, from a task's Dockerfile to a trial's files
and the network's policy, and a job of two tasks by its command line."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harbor.environments.e2b import E2BEnvironment
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths
from steps import async_step, run

DOCKERFILE = """FROM debian:13
WORKDIR /app
ENV TASK=hello
COPY data.txt /app/data.txt
RUN echo built > /app/built.txt && mkdir -p /app/out
"""

TASK = """schema_version = "1.4"
[verifier]
timeout_sec = 120.0
[agent]
timeout_sec = 120.0
[environment]
build_timeout_sec = 300.0
cpus = 1
memory_mb = 512
"""

VERIFIER = """#!/bin/bash
grep -qx hello out.txt; echo $((1 - $?)) > /logs/verifier/reward.txt
"""


def environment_of(place):
    definition = place / "environment"
    definition.mkdir()
    (definition / "Dockerfile").write_text(DOCKERFILE)
    (definition / "data.txt").write_text("given\n")
    paths = TrialPaths(trial_dir=place / "trial")
    paths.mkdir()
    return E2BEnvironment(
        environment_dir=definition, environment_name=os.environ["CLIENT_NAME"], session_id="trial__env",
        trial_paths=paths, task_env_config=EnvironmentConfig(cpus=1, memory_mb=512),
        sandbox_timeout_secs=300)


async def execute(environment):
    result = await environment.exec("pwd; echo $TASK; cat built.txt data.txt; whoami; echo err >&2; exit 3")
    assert result.stdout == "/app\nhello\nbuilt\ngiven\nroot\n", result
    assert (result.stderr, result.return_code) == ("err\n", 3), result
    result = await environment.exec("echo $GIVEN; pwd; whoami", cwd="/tmp", env={"GIVEN": "too"}, user="user")
    assert result.stdout == "too\n/tmp\nuser\n", result


async def files(environment, place):
    source = place / "up"
    (source / "deep" / "er").mkdir(parents=True)
    for number in range(45):  # more than a batch
        (source / "deep" / f"{number}.txt").write_text(str(number))
    (source / "deep" / "er" / "bytes").write_bytes(bytes(range(256)))
    await environment.upload_dir(source, "/app/out")
    await environment.upload_file(source / "deep" / "7.txt", "/app/out/seven")
    assert await environment.is_dir("/app/out/deep") and await environment.is_file("/app/out/seven")
    await environment.exec("echo solved > /app/out/deep/er/answer")
    target = place / "down"
    await environment.download_dir("/app/out", target)
    assert (target / "deep" / "er" / "answer").read_text() == "solved\n"
    assert (target / "deep" / "er" / "bytes").read_bytes() == bytes(range(256))
    assert len(list((target / "deep").glob("*.txt"))) == 45


async def long(environment):
    """A verifier's output: long, and only at the end."""
    result = await environment.exec("seq 200000; sleep 2; echo end", timeout_sec=60)
    assert result.stdout.count("\n") == 200001 and result.stdout.endswith("200000\nend\n")


async def network(environment):
    reach = "curl -sS -m 5 -o /dev/null https://203.0.113.7/; echo $?"
    await environment._apply_network_policy(NetworkPolicy(network_mode=NetworkMode.NO_NETWORK))
    assert (await environment._sandbox.get_info()).allow_internet_access is False
    refused = await environment.exec(reach)
    assert refused.stdout.strip() in ("7", "35", "56"), refused  # at once, not the 28 of a time-out
    await environment._apply_network_policy(
        NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["example.org", "*.example.com"]))
    rules = {"allow_out": ["example.org", "*.example.com"], "deny_out": ["0.0.0.0/0"]}
    assert (await environment._sandbox.get_info()).network == rules
    assert (await environment.exec(reach)).stdout.strip() in ("7", "35", "56")
    await environment._apply_network_policy(NetworkPolicy(network_mode=NetworkMode.PUBLIC))


async def again(environment):
    """The template is there: a second start builds nothing."""
    assert await environment._does_template_exist()
    await environment.start(force_build=False)
    assert (await environment.exec("cat built.txt")).stdout == "built\n"
    await environment.stop(delete=True)


def write_task(place, name, solution):
    files = {
        "task.toml": TASK, "instruction.md": "Write hello into /app/out.txt.\n",
        "environment/Dockerfile": f"FROM debian:13\nWORKDIR /app\nENV RUN_BY={os.environ['CLIENT_NAME']}\n",
        "solution/solve.sh": f"#!/bin/bash\n{solution}\n", "tests/test.sh": VERIFIER}
    for path, text in files.items():
        target = place / "tasks" / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


async def job(place):
    """Two trials at once, by the agent that runs a task's own solution: one is right, one is not."""
    write_task(place, "good", "echo hello > /app/out.txt")
    write_task(place, "bad", "echo wrong > /app/out.txt")
    harbor = Path(sys.executable).with_name("harbor")
    subprocess.run([harbor, "run", "-p", place / "tasks", "-a", "oracle", "-e", "e2b", "-n", "2", "-o", place / "jobs",
                    "--job-name", "job", "-q", "-y"], check=True, stdout=sys.stderr)
    stats = json.loads((place / "jobs" / "job" / "result.json").read_text())["stats"]
    assert (stats["n_completed_trials"], stats["n_errored_trials"]) == (2, 0), stats
    rewards = {path.parts[-3].split("__")[0]: path.read_text() for path in place.glob("jobs/job/*/verifier/reward.txt")}
    assert rewards == {"good": "1\n", "bad": "0\n"}, rewards


async def main():
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        environment = environment_of(place)
        if await async_step("template from a Dockerfile, start", environment.start, True):
            await async_step("commands as users, directories, environment", execute, environment)
            await async_step("directories up and down", files, environment, place)
            await async_step("long output", long, environment)
            await async_step("network policy of a running sandbox", network, environment)
            await async_step("stop", environment.stop, True)
            await async_step("start from the template that is there", again, environment)
        await async_step("a job of two tasks: build, solve, verify", job, place)


if __name__ == "__main__":
    run(main)
