"""Prime Intellect's verifiers: the E2B runtime that rollouts of environments run in."""

import os

import httpx
from steps import async_step, run
from verifiers.v1.errors import SandboxError
from verifiers.v1.runtimes.e2b import E2BConfig, E2BRuntime


async def programs(runtime):
    result = await runtime.run(["sh", "-c", "echo $GIVEN; pwd; whoami; echo err >&2; exit 3"], {"GIVEN": "too"})
    assert (result.stdout, result.stderr, result.exit_code) == ("too\n/app\nroot\n", "err\n", 3), result
    result = await runtime.run_program(["sh", "-c", "seq 100000; sleep 1; exit 4"], {})
    assert result.exit_code == 4 and result.stdout.endswith("100000\n") and len(result.stdout) > 500_000


async def live(runtime):
    """Bytes in and out of a process, as they are."""
    process = await runtime.open_process(["cat"], {})
    data = bytes(range(256))
    await process.write(data)
    seen = b""
    async for chunk in process.stdout:
        seen += chunk
        if len(seen) >= len(data):
            break
    assert seen == data, seen
    assert await process.poll() is None
    await process.terminate()
    assert await process.wait() != 0


async def files(runtime):
    await runtime.write("deep/er/bytes", bytes(range(256)))
    assert await runtime.read("/app/deep/er/bytes") == bytes(range(256))
    try:
        await runtime.read("nowhere")
    except SandboxError as error:
        assert "nowhere" in str(error), error
    else:
        raise AssertionError("a missing file was read")


async def service(runtime):
    await runtime.write("www/note.txt", b"served")
    await runtime.run_background(["python3", "-m", "http.server", "8000", "--directory", "www"], {}, "/tmp/log")
    await runtime.run(["sh", "-c", "until curl -s localhost:8000 >/dev/null; do sleep 0.1; done"], {})
    url = await runtime.expose(8000)
    if os.environ.get("E2B_DOMAIN"):  # by URLs there is no name for a port
        async with httpx.AsyncClient(verify=os.environ["SSL_CERT_FILE"]) as client:
            assert (await client.get(f"{url}/note.txt")).text == "served"


async def policy(runtime):
    """Rules for the way out, once the setup is done."""
    reach = ["sh", "-c", "curl -sS -m 5 -o /dev/null https://203.0.113.7/; echo $?"]
    await runtime.prepare_execution(["https://tunnel.example.org/x"])
    rules = {"allow_out": ["tunnel.example.org", "example.com"], "deny_out": ["0.0.0.0/0"]}
    assert (await runtime._sandbox.get_info()).network == rules
    assert (await runtime.run(reach, {})).stdout.strip() in ("7", "35", "56")
    await runtime.prepare_execution([])
    assert (await runtime.run(reach, {})).stdout.strip() in ("7", "35", "56")


async def main():
    config = E2BConfig(image="python:3.13-slim", cpu=1, memory=0.5, creates_per_sec=None, allow=["example.com"])
    runtime = E2BRuntime(config, name=os.environ["CLIENT_NAME"])
    if not await async_step("template from an image, start for a day", runtime.start):
        return
    await async_step("programs, exit codes, long output", programs, runtime)
    await async_step("a live process, bytes both ways", live, runtime)
    await async_step("files", files, runtime)
    await async_step("service on a port", service, runtime)
    await async_step("rules for the way out while it runs", policy, runtime)
    await async_step("stop", runtime.stop)
    other = E2BRuntime(config, name="second")
    await async_step("start from the template that is there", other.start)
    other.cleanup()  # what happens at the end of the process


if __name__ == "__main__":
    run(main)
