"""The code-interpreter package is a sandbox too: on the base template its core works."""

from e2b_code_interpreter import Sandbox


def test_its_sandbox_runs_commands_and_keeps_files():
    sandbox = Sandbox.create(template="base", timeout=120)
    try:
        sandbox.files.write("program.py", "print(6 * 7)")
        assert sandbox.commands.run("python3 program.py").stdout == "42\n"
    finally:
        assert sandbox.kill()
