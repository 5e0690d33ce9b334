"""Code that does what it should not: an error that says so, and the interpreter lives."""

import socket
import threading

import httpx
import pytest
from conftest import SANDBOX_URL
from e2b import TimeoutException

PORT = 49999


def text_of(messages):
    return "".join(messages)


def raw(sandbox, method, path, **options):
    """Without the SDK in between."""
    headers = {
        "E2b-Sandbox-Id": sandbox.sandbox_id,
        "E2b-Sandbox-Port": str(PORT),
        "Host": f"{PORT}-{sandbox.sandbox_id}.localhost",
        "X-Access-Token": sandbox._envd_access_token,
        **options.pop("headers", {}),
    }
    return httpx.request(method, SANDBOX_URL + path, headers=headers, timeout=60, **options)


def lives(sandbox, language="python"):
    code = {"python": "print(6 * 7)", "javascript": "console.log(6 * 7)", "bash": "echo 42",
            "r": 'cat(6 * 7, "\\n", sep = "")', "java": "System.out.println(6 * 7);"}
    execution = sandbox.run_code(code[language], language=language)
    return text_of(execution.logs.stdout) == "42\n" and execution.error is None


# ---- requests ----


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"code": 1}',
        b'{"code": null}',
        b'{"code": "1", "context_id": 5}',
        b'{"code": "1", "language": []}',
        b'{"code": "1", "env_vars": "x"}',
        b'{"code": "1", "env_vars": {"A": 1}}',
        b'{"code": "1", "env_vars": {"A=B": "x"}}',
        b"[" * 100_000,
    ],
)
def test_bodies_that_are_no_request(interpreter, body):
    answer = raw(interpreter, "POST", "/execute", content=body)
    assert 400 <= answer.status_code < 500
    assert answer.text.strip()
    assert lives(interpreter)


def test_a_body_of_no_text(interpreter):
    answer = raw(interpreter, "POST", "/execute", content=b'{"code": "\xff\xfe"}')
    assert answer.status_code == 400 or '"error"' in answer.text
    assert lives(interpreter)


def test_both_a_context_and_a_language(interpreter):
    context = interpreter.list_code_contexts()[0]
    body = {"code": "1", "context_id": context.id, "language": "python"}
    assert raw(interpreter, "POST", "/execute", json=body).status_code == 400


def test_paths_and_methods_that_are_not_there(interpreter):
    assert raw(interpreter, "GET", "/health").text.strip("\"\n") == "OK"
    assert raw(interpreter, "GET", "/nothing").status_code == 404
    assert raw(interpreter, "GET", "/execute").status_code in (404, 405)
    assert raw(interpreter, "DELETE", "/contexts").status_code in (404, 405)


def test_a_megabyte_of_code(interpreter):
    code = "x = 0\n" + "x += 1\n" * 20_000 + "print(x)"
    assert text_of(interpreter.run_code(code).logs.stdout) == "20000\n"
    long = "len('" + "x" * 1_000_000 + "')"
    assert interpreter.run_code(long).text == "1000000"


def test_code_that_is_too_much(interpreter):
    answer = raw(interpreter, "POST", "/execute", json={"code": "#" * (80 << 20)})
    assert answer.status_code == 413
    assert lives(interpreter)


def test_a_client_that_stops_in_the_middle(interpreter):
    url = httpx.URL(SANDBOX_URL)
    for _ in range(5):
        with socket.create_connection((url.host, url.port)) as client:
            client.sendall(
                b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
                + f"X-Access-Token: {interpreter._envd_access_token}\r\n"
                f"E2b-Sandbox-Id: {interpreter.sandbox_id}\r\nE2b-Sandbox-Port: {PORT}\r\n\r\n{{".encode()
            )
    assert lives(interpreter)


# ---- loops and floods ----

LOOPS = {
    "python": "while True: pass",
    "javascript": "while (true) {}",
    "bash": "while true; do :; done",
    "r": "while (TRUE) {}",
    "java": "while (true) {}",
}


@pytest.mark.parametrize("language", LOOPS)
def test_an_endless_loop_ends_with_its_client(interpreter, language):
    assert lives(interpreter, language)  # a kernel that starts now would take up the time
    with pytest.raises(TimeoutException):
        interpreter.run_code(LOOPS[language], language=language, timeout=2)
    assert lives(interpreter, language)


def test_state_survives_an_interrupt(interpreter):
    interpreter.run_code("kept = 'kept'")
    with pytest.raises(TimeoutException):
        interpreter.run_code("import time\ntime.sleep(600)", timeout=2)
    assert interpreter.run_code("kept").text == "kept"


def test_a_loop_that_swallows_interrupts_is_restarted_by_hand(interpreter):
    context = interpreter.create_code_context()
    with pytest.raises(TimeoutException):
        interpreter.run_code(
            "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
            context=context,
            timeout=2,
        )
    assert lives(interpreter)
    interpreter.restart_code_context(context)
    assert interpreter.run_code("'lives'", context=context).text == "lives"
    interpreter.remove_code_context(context)


FLOODS = {
    "python": "for i in range(300_000): print('x' * 99)",
    "javascript": "for (let i = 0; i < 300_000; i++) console.log('x'.repeat(99))",
    "bash": "yes " + "x" * 99 + " | head -n 300000",
}


@pytest.mark.parametrize("language", FLOODS)
def test_a_flood_comes_whole(interpreter, language):
    total = 0

    def on_stdout(message):
        nonlocal total
        total += len(message.line)

    execution = interpreter.run_code(FLOODS[language], language=language, on_stdout=on_stdout)
    assert execution.error is None
    assert total == 300_000 * 100
    assert lives(interpreter, language)


def test_a_line_of_many_megabytes(interpreter):
    execution = interpreter.run_code("print('x' * (16 << 20))")
    assert len(text_of(execution.logs.stdout)) == (16 << 20) + 1


def test_a_reader_that_does_not_read(new_interpreter):
    """Nothing is lost, and nothing is kept in memory for it."""
    sandbox = new_interpreter()
    body = {"code": "for i in range(2_000_000): print('y' * 99)"}
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(PORT),
               "X-Access-Token": sandbox._envd_access_token}
    with httpx.stream("POST", SANDBOX_URL + "/execute", json=body, headers=headers, timeout=60) as r:
        assert r.status_code == 200
        memory = "ps -o rss= -C atoll-interpreter"
        sandbox.commands.run("sleep 3")
        assert int(sandbox.commands.run(memory).stdout.split()[0]) < 128 * 1024
    assert lives(sandbox)


# ---- ends of a kernel ----

DEATHS = {
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "segmentation fault": "import ctypes\nctypes.string_at(0)",
    "_exit": "import os\nos._exit(3)",
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_kernel_that_dies_is_reported_and_replaced(interpreter, death):
    # ZeroMQ sends from a thread of its own, which dies as well: it is given the time to.
    code = "import time\nprint('last words', flush=True)\ntime.sleep(0.5)\n"
    execution = interpreter.run_code(code + DEATHS[death])
    assert execution.error is not None
    assert execution.error.value
    assert "last words" in text_of(execution.logs.stdout) + execution.error.traceback
    assert lives(interpreter)


def test_exit_is_no_end(interpreter):
    for code in ("exit()", "quit()", "import sys\nsys.exit(3)", "raise SystemExit"):
        interpreter.run_code(code)
        assert lives(interpreter), code


def test_javascript_that_exits(interpreter):
    execution = interpreter.run_code("process.exit(3)", language="javascript")
    assert execution.error is not None
    assert lives(interpreter, "javascript")


def test_bash_that_exits(interpreter):
    execution = interpreter.run_code("exit 3", language="bash")
    assert execution.error is not None
    assert lives(interpreter, "bash")


def test_out_of_memory(new_interpreter):
    sandbox = new_interpreter()
    execution = sandbox.run_code(
        "parts = []\nwhile True: parts.append(bytearray(64 << 20)); parts[-1][::4096] = b'x' * 16384"
    )
    assert execution.error is not None
    assert "memory" in (execution.error.name + execution.error.value).lower()
    assert lives(sandbox)
    assert sandbox.commands.run("echo lives").stdout == "lives\n"


def test_every_kernel_killed_at_once(new_interpreter):
    sandbox = new_interpreter()
    sandbox.run_code("x = 1")
    sandbox.commands.run("pkill -9 -f ipykernel_[l]auncher; pkill -9 node; true", user="root")
    told = sandbox.run_code("'first after it'").error
    assert told is None or "without its variables" in told.value
    assert lives(sandbox)
    assert lives(sandbox, "javascript")


def test_the_sandbox_ends_in_the_middle(new_interpreter):
    sandbox = new_interpreter()

    def on_stdout(message):
        threading.Thread(target=sandbox.kill).start()

    with pytest.raises(TimeoutException, match="(?i)sandbox"):
        sandbox.run_code("import time\nprint('begun')\ntime.sleep(600)", on_stdout=on_stdout)


# ---- odd output ----


def test_bytes_that_are_no_text(interpreter):
    # print() writes its newline apart, and the kernel may put what came by the descriptor in between.
    execution = interpreter.run_code(
        "import os, sys\nos.write(1, b'\\xff\\xfe\\x00bin\\n')\nsys.stdout.write('after\\n')"
    )
    assert execution.error is None
    assert "after\n" in text_of(execution.logs.stdout)
    execution = interpreter.run_code("printf '\\377\\376bin\\n'", language="bash")
    assert "bin\n" in text_of(execution.logs.stdout)


def test_odd_exceptions(interpreter):
    code = (
        "class Odd(Exception):\n"
        "    def __str__(self): raise RuntimeError('no text')\n"
        "raise Odd()"
    )
    assert interpreter.run_code(code).error.name in ("Odd", "RuntimeError")
    assert lives(interpreter)
    execution = interpreter.run_code("raise ExceptionGroup('many', [ValueError(1), TypeError(2)])")
    assert execution.error.name == "ExceptionGroup"
    execution = interpreter.run_code("class R:\n    def __repr__(self): raise KeyError('r')\nR()")
    assert lives(interpreter)
    execution = interpreter.run_code("raise Exception('\\ud800 \\x00 odd')")
    assert execution.error is not None
    assert lives(interpreter)


def test_recursion_without_end(interpreter):
    execution = interpreter.run_code("def f(): return f()\nf()")
    assert execution.error.name == "RecursionError"
    assert lives(interpreter)


def test_nobody_answers_input(interpreter):
    execution = interpreter.run_code("name = input('who? ')")
    assert execution.error.name == "StdinNotImplementedError"
    assert "input" in execution.error.value
    execution = interpreter.run_code("read -r line; echo \"got '$line'\"", language="bash")
    assert "got ''" in text_of(execution.logs.stdout)
    assert lives(interpreter)


def test_children_that_go_on_printing(interpreter):
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    for i in range(50):\n"
        "        os.write(1, b'child\\n'); time.sleep(0.02)\n"
        "    os._exit(0)\n"
        "print('parent')"
    )
    execution = interpreter.run_code(code)
    assert "parent" in text_of(execution.logs.stdout)
    assert interpreter.run_code("1 + 1").text == "2"
    # What a child still prints appears in the cell under way, as on a terminal.
    assert "42\n" in text_of(interpreter.run_code("print(6 * 7)").logs.stdout)
    execution = interpreter.run_code("(sleep 0.2; echo late) & echo now", language="bash")
    assert "now\n" in text_of(execution.logs.stdout)
    assert "42\n" in text_of(interpreter.run_code("echo 42", language="bash").logs.stdout)
    # The tests that follow share the kernels.
    assert interpreter.run_code("os.wait()").error is None
    assert interpreter.run_code("wait", language="bash").error is None


def test_deep_and_wide_values(interpreter):
    execution = interpreter.run_code("x = []\nfor _ in range(500): x = [x]\nx")
    assert execution.error is None
    assert len(interpreter.run_code("list(range(100_000))").results[0].json) == 100_000
    assert interpreter.run_code("{'n': float('inf'), 'big': 10 ** 400}").error is None
    assert lives(interpreter)


# ---- secure sandboxes ----


@pytest.mark.parametrize("version, status", [("1.11.1", 200), ("0.17.2", 200), ("2.0.0", 401), ("", 401)])
def test_only_what_an_old_sdk_made_takes_code_without_a_token(api, interpreter_template, version, status):
    """SDKs before version 2 send no access token with run_code."""
    body = {"templateID": interpreter_template, "secure": True, "timeout": 60}
    made = api.post("/sandboxes", json=body, headers={"package_version": version}).json()
    try:
        headers = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": str(PORT)}
        answer = httpx.post(f"{SANDBOX_URL}/execute", headers=headers, json={"code": "6 * 7"}, timeout=60)
        assert answer.status_code == status, answer.text
        headers["E2b-Sandbox-Port"] = "49983"
        listing = httpx.post(f"{SANDBOX_URL}/process.Process/List", headers=headers, json={})
        assert listing.status_code == 401  # the agent compares the token all the same
    finally:
        api.delete(f"/sandboxes/{made['sandboxID']}")
