"""commands.run in the foreground: output, exit codes, where and as whom a command runs."""

import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    TimeoutException,
)


def test_stdout_and_stderr_stay_apart(sandbox):
    result = sandbox.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)


def test_a_failure_carries_everything(sandbox):
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("echo before; echo why >&2; exit 42")
    assert caught.value.exit_code == 42
    assert (caught.value.stdout, caught.value.stderr) == ("before\n", "why\n")
    assert caught.value.error == "exit status 42"


def test_an_unknown_command(sandbox):
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("no-such-program")
    assert caught.value.exit_code == 127
    assert "no-such-program" in caught.value.stderr


def test_a_signal_is_not_an_exit_code(sandbox):
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("kill -KILL $$")
    assert caught.value.exit_code == -1
    assert caught.value.error == "signal: killed"


def test_output_is_delivered_as_it_comes(sandbox):
    out, err = [], []
    result = sandbox.commands.run(
        "for i in 1 2 3; do echo out $i; echo err $i >&2; done",
        on_stdout=out.append,
        on_stderr=err.append,
    )
    assert "".join(out) == result.stdout == "out 1\nout 2\nout 3\n"
    assert "".join(err) == result.stderr == "err 1\nerr 2\nerr 3\n"


def test_a_long_output_arrives_whole_and_in_order(sandbox):
    result = sandbox.commands.run("seq 1 300000")
    assert result.stdout == "".join(f"{i}\n" for i in range(1, 300001))


def test_multibyte_characters_survive_chunk_borders(sandbox):
    result = sandbox.commands.run("python3 -c \"print('a' + '\u6d77\U0001f41f' * 40000)\"")
    assert result.stdout == "a" + "\u6d77\U0001f41f" * 40000 + "\n"


def test_bytes_that_are_not_text_do_not_break_the_stream(sandbox):
    result = sandbox.commands.run(r"printf 'a\xff\xfeb'")
    assert result.stdout == "a\ufffd\ufffdb"


def test_no_output_at_all(sandbox):
    result = sandbox.commands.run("true")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "", 0)


def test_the_default_user_and_directory(sandbox):
    result = sandbox.commands.run("whoami; pwd; echo $HOME $USER $LOGNAME; id -u")
    assert result.stdout == "user\n/home/user\n/home/user user user\n1000\n"


def test_root(sandbox):
    result = sandbox.commands.run("whoami; pwd; id -u", user="root")
    assert result.stdout == "root\n/root\n0\n"


def test_sudo_needs_no_password(sandbox):
    assert sandbox.commands.run("sudo -n whoami").stdout == "root\n"


def test_an_unknown_user(sandbox):
    with pytest.raises(AuthenticationException, match="nobody-here"):
        sandbox.commands.run("true", user="nobody-here")


def test_cwd(sandbox):
    assert sandbox.commands.run("pwd", cwd="/usr/share").stdout == "/usr/share\n"


def test_a_cwd_that_is_not_there(sandbox):
    with pytest.raises(InvalidArgumentException, match="/not/there"):
        sandbox.commands.run("pwd", cwd="/not/there")


def test_environment_of_one_command(sandbox):
    result = sandbox.commands.run('echo "$GREETING"', envs={"GREETING": "h\u00e9llo 'w\"orld\n2"})
    assert result.stdout == "h\u00e9llo 'w\"orld\n2\n"
    assert sandbox.commands.run('echo "[$GREETING]"').stdout == "[]\n"


def test_environment_of_the_sandbox(new_sandbox):
    sandbox = new_sandbox(envs={"FOR_ALL": "everyone", "PLACE": "create"})
    result = sandbox.commands.run("echo $FOR_ALL $PLACE", envs={"PLACE": "command"})
    assert result.stdout == "everyone command\n"
    assert sandbox.commands.run("echo $FOR_ALL", user="root").stdout == "everyone\n"


def test_a_command_knows_where_it_is(sandbox, api):
    result = sandbox.commands.run("echo $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID $E2B_TEAM_ID")
    (team,) = api.get("/teams").json()
    assert result.stdout == f"true {sandbox.sandbox_id} {sandbox.get_info().template_id} {team['teamID']}\n"


def test_nothing_of_the_host_is_in_the_environment(sandbox):
    names = sandbox.commands.run("env -0 | tr '\\0' '\\n' | cut -d= -f1").stdout.split()
    assert not [name for name in names if name.startswith(("ATOLL", "SSH", "XDG"))]
    assert "E2B_API_KEY" not in names


def test_stdin_is_empty_unless_asked_for(sandbox):
    assert sandbox.commands.run("cat | wc -c").stdout == "0\n"


def test_a_timeout_ends_the_command(sandbox):
    with pytest.raises(TimeoutException):
        sandbox.commands.run("exec -a timed-out-sleep sleep 1000", timeout=1)
    result = sandbox.commands.run(
        "for i in $(seq 100); do pgrep -f '^timed-out-slee[p]' >/dev/null || exit 0; sleep 0.1; done;"
        " exit 1"
    )
    assert result.exit_code == 0


def test_many_commands_at_once(sandbox):
    handles = [sandbox.commands.run(f"sleep 0.2; echo {i}", background=True) for i in range(20)]
    assert [handle.wait().stdout for handle in handles] == [f"{i}\n" for i in range(20)]
