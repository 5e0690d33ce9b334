"""OpenAI Agents SDK: its E2B sandbox client, from a manifest to a session that is resumed."""

import io
import os
from pathlib import Path

import httpx
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.sandbox import Dir, Manifest
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecTimeoutError, WorkspaceReadNotFoundError
from steps import async_step, run

CLIENT = E2BSandboxClient()
PORT = 8000


def options(**more):
    return E2BSandboxClientOptions("e2b", timeout=120, envs={"MADE": "yes"}, **more)


def manifest():
    return Manifest(entries={"given.txt": File(content=b"given\n"), "sub": Dir(children={"deep.txt": File(content=b"deep")})})


async def commands(session):
    result = await session.exec("echo $MADE; pwd; cat given.txt sub/deep.txt; echo err >&2; exit 3", shell=True)
    assert result.stdout == b"yes\n/workspace\ngiven\ndeep", result
    assert (result.stderr, result.exit_code) == (b"err\n", 3), result
    try:
        await session.exec("sleep 30", timeout=1)
    except ExecTimeoutError:
        pass
    else:
        raise AssertionError("a command had no time limit")


async def files(session):
    await session.mkdir("dir", parents=True)
    await session.write(Path("dir/bytes"), io.BytesIO(bytes(range(256))))
    assert (await session.read(Path("dir/bytes"))).read() == bytes(range(256))
    assert await session.read_bounded(Path("dir/bytes"), max_bytes=1000) == bytes(range(256))
    assert [Path(entry.path).name for entry in await session.ls("dir") if not entry.is_dir()] == ["bytes"]
    try:
        await session.read(Path("nowhere"))
    except WorkspaceReadNotFoundError:
        pass
    else:
        raise AssertionError("a missing file was read")
    await session.mv("dir/bytes", "dir/moved")
    await session.rm("dir", recursive=True)


async def terminal(session):
    update = await session.pty_exec_start("python3 -q", tty=True, yield_time_s=3)
    assert update.process_id is not None, update
    update = await session.pty_write_stdin(session_id=update.process_id, chars="print(6 * 7)\n", yield_time_s=3)
    assert b"42" in update.output, update
    await session.pty_terminate_all()


async def port(session):
    await session.exec(f"nohup python3 -m http.server {PORT} >/dev/null 2>&1 &")
    await session.exec(f"until curl -s localhost:{PORT} >/dev/null; do sleep 0.1; done", timeout=60)
    endpoint = await session.resolve_exposed_port(PORT)
    if os.environ.get("E2B_DOMAIN"):  # by URLs there is no name for a port
        url = f"https://{endpoint.host}:{endpoint.port}/given.txt"
        assert httpx.get(url, verify=os.environ["SSL_CERT_FILE"]).text == "given\n"


async def paused():
    """A session whose sandbox is paused at its end, and goes on where it was."""
    session = await CLIENT.create(manifest=manifest(), options=options(pause_on_exit=True))
    async with session:
        await session.exec("echo kept > note; nohup sleep 600 >/dev/null 2>&1 & echo $! > pid")
    state = CLIENT.deserialize_session_state(CLIENT.serialize_session_state(session.state))
    again = await CLIENT.resume(state)
    again.state.pause_on_exit = False
    async with again:
        assert again.state.sandbox_id == session.state.sandbox_id
        assert (await again.exec("cat note; kill -0 $(cat pid) && echo alive")).stdout == b"kept\nalive\n"


async def persisted(how):
    """The workspace of one sandbox in another."""
    first = await CLIENT.create(options=options(workspace_persistence=how))
    async with first:
        await first.exec("mkdir -p a/b; echo kept > a/b/note")
        archive = await first.persist_workspace()
        second = await CLIENT.create(options=options(workspace_persistence=how))
        async with second:
            await second.hydrate_workspace(archive)
            result = await second.exec("cat /workspace/a/b/note")
            assert result.stdout == b"kept\n", result


async def main():
    made = []

    async def create():
        made.append(await CLIENT.create(manifest=manifest(), options=options(exposed_ports=(PORT,))))
        await made[0].start()
        assert await made[0].running()

    if await async_step("create, manifest", create):
        session = made[0]
        await async_step("commands, exit code, timeout", commands, session)
        await async_step("files", files, session)
        await async_step("terminal", terminal, session)
        await async_step("port", port, session)
        await async_step("close", session.aclose)
    await async_step("pause at the end, resume", paused)
    await async_step("workspace as an archive", persisted, "tar")
    await async_step("workspace as a snapshot", persisted, "snapshot")


if __name__ == "__main__":
    run(main)
