"""Google ADK: E2BEnvironment, with the toolset that an agent has over it."""

from google.adk.integrations.e2b import E2BEnvironment
from steps import async_step, run


async def commands(environment):
    result = await environment.execute("echo $MADE; echo err >&2; pwd; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("yes\n/home/user\n", "err\n", 3), result
    result = await environment.execute("sleep 30", timeout=1)
    assert result.timed_out, result


async def files(environment):
    await environment.write_file("dir/note.txt", "kept \u00e9")
    assert await environment.read_file("/home/user/dir/note.txt") == "kept \u00e9".encode()
    await environment.write_file("bytes", bytes(range(256)))
    assert await environment.read_file("bytes") == bytes(range(256))
    try:
        await environment.read_file("nowhere")
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("a missing file was read")


async def expired(environment):
    """A sandbox that is gone is replaced by a new one at the next call."""
    old = environment._sandbox.sandbox_id
    await environment._sandbox.kill()
    assert (await environment.execute("echo again")).stdout == "again\n"
    assert environment._sandbox.sandbox_id != old


async def main():
    environment = E2BEnvironment(timeout=120, env_vars={"MADE": "yes"})
    await async_step("create", environment.initialize)
    await async_step("commands, exit code, timeout", commands, environment)
    await async_step("files", files, environment)
    await async_step("a sandbox that ended is made anew", expired, environment)
    await async_step("close", environment.close)


if __name__ == "__main__":
    run(main)
