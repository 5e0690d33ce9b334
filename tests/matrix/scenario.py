"""One scenario for any Python SDK from 1.5 on.

A call that this SDK does not have makes its step "absent". What it is reached by is in the
environment: E2B_DOMAIN, or E2B_API_URL and E2B_SANDBOX_URL."""

import inspect
import os
import tempfile
import time
from pathlib import Path

import e2b
from e2b import Sandbox
from e2b_code_interpreter import Sandbox as Interpreter
from steps import Absent, interpreter_is_reached, is_reached, step, tell

NAME = os.environ["MATRIX_NAME"]
TIMEOUT_S = 120
WAIT_S = 60


def create(kind, *arguments, **options):
    """Before 2.0 the constructor creates."""
    make = kind.create if hasattr(kind, "create") else kind
    return make(*arguments, timeout=TIMEOUT_S, **options)


def commands(sandbox):
    result = sandbox.commands.run("echo out; echo err >&2; echo $NAME", envs={"NAME": "named"})
    assert (result.stdout, result.stderr, result.exit_code) == ("out\nnamed\n", "err\n", 0), result
    try:
        sandbox.commands.run("exit 3")
        raise AssertionError("a failed command raised nothing")
    except e2b.CommandExitException as error:
        assert error.exit_code == 3, error
    handle = sandbox.commands.run("read line; echo got $line", background=True,
                                  **({"stdin": True} if has(sandbox.commands.run, "stdin") else {}))
    sandbox.commands.send_stdin(handle.pid, "typed\n")
    assert handle.wait().stdout == "got typed\n"


def has(function, name):
    return name in inspect.signature(function).parameters


def files(sandbox):
    path = "/home/user/dir/note.txt"
    sandbox.files.write(path, "kept \u00e9\n")
    assert sandbox.files.read(path) == "kept \u00e9\n"
    sandbox.files.write("/home/user/dir/bytes", bytes(range(256)))
    assert bytes(sandbox.files.read("/home/user/dir/bytes", format="bytes")) == bytes(range(256))
    sandbox.commands.run("ln -s note.txt /home/user/dir/link")
    names = sorted(entry.name for entry in sandbox.files.list("/home/user/dir"))
    assert names == ["bytes", "link", "note.txt"], names
    sandbox.files.rename(path, "/home/user/dir/moved.txt")
    assert sandbox.files.exists("/home/user/dir/moved.txt") and not sandbox.files.exists(path)
    watch = sandbox.files.watch_dir("/home/user/dir")
    sandbox.files.write("/home/user/dir/new.txt", "new")
    deadline = time.monotonic() + WAIT_S
    while not any(event.name == "new.txt" for event in watch.get_new_events()):
        assert time.monotonic() < deadline, "the watch saw no new file"
        time.sleep(0.1)
    watch.stop()
    sandbox.files.remove("/home/user/dir")
    assert not sandbox.files.exists("/home/user/dir")


def pty(sandbox):
    from e2b.sandbox.commands.command_handle import PtySize

    seen = []
    terminal = sandbox.pty.create(PtySize(rows=24, cols=100))
    sandbox.pty.resize(terminal.pid, PtySize(rows=30, cols=120))
    sandbox.pty.send_stdin(terminal.pid, b"echo $((40 + 2)) $(tput cols)\nexit\n")
    result = terminal.wait(on_pty=seen.append)
    assert b"42 120" in b"".join(seen), seen
    assert result.exit_code == 0, result


def pause(sandbox):
    call = getattr(sandbox, "pause", None) or getattr(sandbox, "beta_pause", None)
    if not call:
        raise Absent
    call()


def connect(sandbox):
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.commands.run("cat /tmp/state; kill -0 $(cat /tmp/pid) && echo alive").stdout == "41\nalive\n"
    assert again.is_running()


def get_info(sandbox):
    info = sandbox.get_info()
    assert info.sandbox_id.split("-")[0] == sandbox.sandbox_id.split("-")[0], info
    listed = Sandbox.list()
    rows = listed.next_items() if hasattr(listed, "next_items") else listed
    assert any(row.sandbox_id.split("-")[0] == sandbox.sandbox_id.split("-")[0] for row in rows), rows


def run_code(**options):
    if not interpreter_is_reached(inspect.getmodule(Interpreter)):
        raise Absent
    interpreter = create(Interpreter, **options)
    try:
        interpreter.run_code("x = 41")
        execution = interpreter.run_code("print('printed'); x + 1")
        assert execution.error is None and execution.text == "42", execution
        assert "".join(execution.logs.stdout) == "printed\n", execution.logs
        assert interpreter.run_code("1 / 0").error.name == "ZeroDivisionError"
    finally:
        interpreter.kill()


def run_code_secure():
    """Explicit `secure`: the interpreters before 2.0 send no token with run_code."""
    parameters = inspect.signature(Interpreter.__init__).parameters
    if hasattr(Interpreter, "create") or "secure" not in parameters:
        raise Absent
    run_code(secure=True)


def build():
    if not hasattr(e2b, "Template"):
        raise Absent
    with tempfile.TemporaryDirectory() as context:
        Path(context, "copied.txt").write_text(NAME)
        template = e2b.Template(file_context_path=context).from_base_image()
        template = template.copy("copied.txt", "/srv/").run_cmd("cat /srv/copied.txt > /tmp/built")
        name = {"alias": NAME} if has(e2b.Template.build, "alias") else {"name": NAME}
        e2b.Template.build(template, **name, cpu_count=1, memory_mb=512)
    sandbox = create(Sandbox, NAME)
    try:
        assert sandbox.files.read("/tmp/built") == NAME
    finally:
        sandbox.kill()


def in_one_sandbox():
    made = []
    if not step("create", lambda: made.append(create(Sandbox, "base", envs={"MADE": "yes"}, metadata={"matrix": NAME}))):
        return
    sandbox = made[0]
    try:
        step("command", commands, sandbox)
        step("files", files, sandbox)
        step("pty", pty, sandbox)
        step("info", get_info, sandbox)
        sandbox.commands.run("echo 41 > /tmp/state; nohup sleep 600 >/dev/null 2>&1 & echo $! > /tmp/pid")
        step("pause", pause, sandbox)
        step("connect", connect, sandbox)
    finally:
        sandbox.kill()


def main():
    if not is_reached():
        tell("create", "absent")
        return
    in_one_sandbox()
    step("run_code", run_code)
    step("secure", run_code_secure)
    step("build", build)


if __name__ == "__main__":
    main()
