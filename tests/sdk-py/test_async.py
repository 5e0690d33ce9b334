"""The asynchronous twin of the SDK: many sandboxes at once."""

import asyncio

from e2b import AsyncSandbox


async def life(number):
    sandbox = await AsyncSandbox.create(timeout=120)
    try:
        await sandbox.files.write("number", str(number))
        assert await sandbox.is_running()
        return (await sandbox.commands.run("cat number")).stdout
    finally:
        assert await sandbox.kill()
        assert not await sandbox.is_running()


async def test_twenty_lives_at_once():
    assert await asyncio.gather(*(life(i) for i in range(20))) == [str(i) for i in range(20)]


async def test_a_background_command():
    sandbox = await AsyncSandbox.create(timeout=120)
    try:
        handle = await sandbox.commands.run("read x; echo got $x", background=True, stdin=True)
        await sandbox.commands.send_stdin(handle.pid, "it\n")
        assert (await handle.wait()).stdout == "got it\n"
    finally:
        await sandbox.kill()
