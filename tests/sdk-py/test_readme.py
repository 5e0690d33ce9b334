"""What the README shows a new user."""

from e2b import Sandbox


def test_the_six_lines():
    sandbox = Sandbox.create()
    try:
        name = sandbox.commands.run("hostname").stdout
        assert sandbox.commands.run("echo hello from $(hostname)").stdout == f"hello from {name}"
        sandbox.files.write("/home/user/note.txt", "kept")
        assert sandbox.files.read("/home/user/note.txt") == "kept"
    finally:
        assert sandbox.kill()


def test_as_a_context_manager():
    with Sandbox.create() as sandbox:
        assert sandbox.is_running()
    assert not sandbox.is_running()
