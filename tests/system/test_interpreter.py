"""The code interpreter's program: languages, contexts, bad input, floods, kernels that die.

The kernels are those of this machine, of the languages that tools/deps installs for the tests. R and Java are
tried where they live, in the template, by tests/sdk-py."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from daemon import until
from interpreter import TEMPLATE, Interpreter

# Per language: print, value, its text, set a variable, an error's name, read FOO, loop, sleep.
LANGUAGES = {
    "python": {
        "print": "print('Hello')", "set": "x = 41", "get": "x + 1", "text": "42",
        "error": "nowhere", "name": "NameError", "env": "import os; os.environ.get('FOO', 'none')",
        "loop": "print('on')\nwhile True: pass", "sleep": "import time\nprint('on'); time.sleep(1000)",
    },
    "javascript": {
        "print": "console.log('Hello')", "set": "const x = 41", "get": "x + 1", "text": "42",
        "error": "nowhere", "name": "ReferenceError", "env": "process.env.FOO || 'none'",
        "loop": "console.log('on'); while (true) {}",
        "sleep": "console.log('on'); await new Promise(() => setTimeout(() => {}, 1e6))",
    },
    "typescript": {
        "print": "const t: string = 'Hello'; console.log(t)", "set": "let x: number = 41",
        "get": "x + 1", "text": "42", "error": "nowhere", "name": "ReferenceError",
        "env": "process.env.FOO || 'none'", "loop": "console.log('on'); while (true) {}",
        "sleep": "console.log('on'); new Promise<void>(() => setTimeout(() => {}, 1e6))",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory):
    it = Interpreter(tmp_path_factory.mktemp("interpreter"))
    yield it
    it.stop()


every_language = pytest.mark.parametrize("language", LANGUAGES)


# ---- languages ----


@every_language
def test_a_language_prints_keeps_state_and_names_its_errors(interpreter, language):
    code = LANGUAGES[language]
    assert interpreter.run(code["print"], language=language).stdout == "Hello\n"
    assert not interpreter.run(code["set"], language=language).error
    assert interpreter.run(code["get"], language=language).text == code["text"]
    assert interpreter.run(code["error"], language=language).error["name"] == code["name"]
    assert interpreter.run(code["get"], language=language).text == code["text"]


@every_language
def test_variables_of_a_run_are_gone_after_it(interpreter, language):
    code = LANGUAGES[language]["env"]
    odd = "a 'b' \"c\" $d `e`"
    assert interpreter.run(code, language=language, env_vars={"FOO": "bar"}).text == "bar"
    assert interpreter.run(code, language=language).text == "none"
    shown = interpreter.run(code, language=language, env_vars={"FOO": odd})
    assert shown.error is None and "$d `e`" in shown.text
    assert interpreter.run(code, language=language).text == "none"


@every_language
@pytest.mark.parametrize("what", ["loop", "sleep"])
def test_a_client_that_leaves_interrupts_its_cell_and_the_state_stays(interpreter, language, what):
    code = LANGUAGES[language]
    interpreter.run(code["set"], language=language)
    stream = interpreter.start(code[what], language=language)
    stream.until("stdout")
    stream.leave()
    after = interpreter.run(code["get"], language=language)
    assert after.text == code["text"]
    assert not after.stderr


def test_bash_runs_cells_at_its_top_level(interpreter):
    interpreter.run("declare a=1; f() { echo \"f $1\"; }; cd /usr", language="bash")
    answer = interpreter.run("f $a; pwd; echo oops >&2", language="bash")
    assert (answer.stdout, answer.stderr, answer.error) == ("f 1\n/usr\n", "oops\n", None)
    assert interpreter.run("echo $FOO", language="bash", env_vars={"FOO": "a 'b'\nc"}).stdout == "a 'b' c\n"
    assert interpreter.run("echo ${FOO:-none}", language="bash").stdout == "none\n"
    assert interpreter.run("exit_with() { return 7; }; exit_with", language="bash").error["value"] == "7"
    assert "syntax error" in interpreter.run("if then", language="bash").stderr
    assert interpreter.run("read x; echo \"<$x>\"", language="bash").stdout == "<>\n"
    stream = interpreter.start("echo on; sleep 1000; echo after", language="bash")
    stream.until("stdout")
    stream.leave()
    assert interpreter.run("f $a", language="bash").stdout == "f 1\n"


def test_javascript_has_imports_await_and_cells_that_run_twice(interpreter):
    run = lambda code: interpreter.run(code, language="js")
    assert not run("import { join } from 'path'\nimport fs, * as all from 'node:fs'").error
    assert run("join('a', 'b')").text == "a/b"
    assert run("typeof fs.readFileSync + typeof all.default").text == "functionobject"
    for _ in range(2):
        assert run("const once = 1\nlet two = 2\nclass Three { n = 3 }\n[once, two, new Three().n]").text == "[ 1, 2, 3 ]"
    assert run("await Promise.resolve('later')").text == "later"
    assert run("await Promise.reject(new TypeError('no'))").error["name"] == "TypeError"
    late = run("const f = async () => { await new Promise(r => setTimeout(r, 20)); console.log('on'); return 7 }; f()")
    assert late.text == "7" and late.stdout == "on\n"
    rejected = run("Promise.reject(new TypeError('no'))")
    assert rejected.error["name"] == "TypeError" and rejected.stderr == ""
    assert run("require('os').EOL.length").text == "1"
    assert run("throw { odd: 1 }").error["value"] == "Thrown: { odd: 1 }"
    assert run("let = =").error["name"] == "SyntaxError"
    stray = run("setTimeout(() => { throw new Error('stray') }, 1); await new Promise(r => setTimeout(r, 50)); 5")
    assert stray.text == "5" and "stray" in stray.stderr
    shown = run("display({'text/html': '<b>'}, {raw: true}); undefined").results
    assert shown == [{"type": "result", "html": "<b>", "is_main_result": False}]


# ---- results ----


def test_results_have_their_formats_and_the_rest_is_extra(interpreter):
    bundle = {
        "text/plain": "'quoted'", "text/html": "<i>", "text/markdown": "*", "image/svg+xml": "<svg>",
        "image/png": "cG5n", "image/jpeg": "anBn", "application/pdf": "cGRm", "text/latex": "$x$",
        "application/json": {"a": [1]}, "application/javascript": "1", "e2b/data": {"c": [1]},
        "e2b/chart": {"type": "line"}, "application/x-other": {"deep": [1, None]},
    }  # fmt: skip
    answer = interpreter.run(f"from IPython.display import display\ndisplay({bundle!r}, raw=True)\n'last'")
    assert answer.results[0] == {
        "type": "result", "text": "quoted", "html": "<i>", "markdown": "*", "svg": "<svg>", "png": "cG5n",
        "jpeg": "anBn", "pdf": "cGRm", "latex": "$x$", "json": {"a": [1]}, "javascript": "1",
        "data": {"c": [1]}, "chart": {"type": "line"}, "extra": {"application/x-other": {"deep": [1, None]}},
        "is_main_result": False,
    }  # fmt: skip
    assert answer.results[1] == {"type": "result", "text": "last", "is_main_result": True}


def test_what_is_written_past_print_belongs_to_its_cell(interpreter):
    answer = interpreter.run(
        "import os, subprocess\nsubprocess.run('echo out; echo err >&2', shell=True)\nos.write(1, b'\\xff\\xe2\\x82')\n"
        "os.write(1, b'\\xac\\n'); None"
    )
    assert answer.stdout == "out\n\ufffd€\n"
    assert answer.stderr == "err\n"
    assert interpreter.run("None").stdout == ""


def test_debugger_and_completion_are_there_for_cells_that_import_them_alone(interpreter):
    loaded = "import sys; {'debugpy', 'jedi'} & set(sys.modules)"
    assert interpreter.run(loaded).text == "set()"
    assert interpreter.run("import jedi; jedi.__name__").text == "jedi"


def test_counts_go_up_with_each_cell_of_a_context(interpreter):
    context = interpreter.json("POST", "/contexts", {})
    counts = [interpreter.run(code, context_id=context["id"]).count for code in ("1", "1/0", "import os")]
    assert counts == [1, 2, 3]
    interpreter.json("DELETE", f"/contexts/{context['id']}")


def test_silence_is_filled_with_keepalives(interpreter):
    answer = interpreter.run("import time; time.sleep(6)")
    assert {"type": "keepalive"} in answer.lines


# ---- contexts ----


def test_contexts_are_made_listed_restarted_and_removed(interpreter, tmp_path):
    made = interpreter.json("POST", "/contexts", {"language": "python", "cwd": str(tmp_path)})
    assert made == {"id": made["id"], "language": "python", "cwd": str(tmp_path)}
    assert interpreter.json("GET", "/contexts")[-1] == made
    assert interpreter.run("import os; x = 1; os.getcwd()", context_id=made["id"]).text == str(tmp_path)
    assert interpreter.run("del x", context_id=interpreter.json("POST", "/contexts", {})["id"]).error
    assert interpreter.json("POST", f"/contexts/{made['id']}/restart") is None
    after = interpreter.run("x", context_id=made["id"])
    assert after.error["value"] == "name 'x' is not defined"
    assert interpreter.json("DELETE", f"/contexts/{made['id']}") is None
    assert made not in interpreter.json("GET", "/contexts")
    assert interpreter.ask("POST", "/execute", {"code": "1", "context_id": made["id"]}) == (
        404,
        f"Context {made['id']} not found",
    )


def test_a_restart_is_told_to_the_cell_under_way(interpreter):
    context = interpreter.json("POST", "/contexts", {})["id"]
    stream = interpreter.start("print('on'); import time; time.sleep(1000)", context_id=context)
    stream.until("stdout")
    waiting = interpreter.start("'in the new kernel'", context_id=context)
    interpreter.json("POST", f"/contexts/{context}/restart")
    assert stream.until("error")["name"] == "ContextRestarting"
    assert stream.line() == {"type": "end_of_execution"}
    assert waiting.until("result")["text"] == "in the new kernel"
    interpreter.json("DELETE", f"/contexts/{context}")


def test_a_removal_is_told_to_the_cell_under_way(interpreter):
    context = interpreter.json("POST", "/contexts", {})["id"]
    stream = interpreter.start("print('on'); import time; time.sleep(1000)", context_id=context)
    stream.until("stdout")
    waiting = interpreter.start("1", context_id=context)
    interpreter.json("DELETE", f"/contexts/{context}")
    for told in (stream, waiting):
        assert told.until("error")["name"] == "UnexpectedEndOfExecution"
        assert told.line() == {"type": "end_of_execution"}


def test_cells_of_a_context_wait_for_each_other_and_contexts_do_not(interpreter, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first = interpreter.start(f"print('on', flush=True); open({str(gate)!r}).read(); order = ['first']")
    first.until("stdout")
    second = interpreter.start("order.append('second'); str(order)")
    other = interpreter.json("POST", "/contexts", {})["id"]
    # It opens the gate that the first waits at: only a context that runs beside it can.
    assert not interpreter.run(f"open({str(gate)!r}, 'w').close()", context_id=other).error
    first.until("end_of_execution")
    assert second.until("result")["text"] == "['first', 'second']"
    interpreter.json("DELETE", f"/contexts/{other}")


# ---- bad input ----


@pytest.mark.parametrize(
    "body, status, words",
    [
        ("", 400, "JSON object"),
        ("[]", 400, "JSON object"),
        ("{", 400, "JSON object"),
        ({}, 400, "code must be a string"),
        ({"code": 5}, 400, "code must be a string"),
        ({"code": "1", "env_vars": {"A": 1}}, 400, "env_vars"),
        ({"code": "1", "env_vars": ["A"]}, 400, "env_vars"),
        ({"code": "1", "env_vars": {"A=B": "1"}}, 400, "env_vars"),
        ({"code": "1", "env_vars": {"": "1"}}, 400, "env_vars"),
        ({"code": "1", "env_vars": {"A": "x\0y"}}, 400, "env_vars"),
        ({"code": "1", "language": 5}, 400, "language must be a string"),
        ({"code": "1", "language": "klingon"}, 400, "no kernel for the language klingon"),
        ({"code": "1", "language": "../../etc"}, 400, "no name of a kernel"),
        ({"code": "1", "context_id": "nope"}, 404, "Context nope not found"),
        ({"code": "1", "context_id": "a", "language": "python"}, 400,
         "Only one of context_id or language can be provided"),
        ({"code": "x" * (17 << 20)}, 413, "16 MiB"),
    ],
)  # fmt: skip
def test_a_bad_request_gets_a_sentence(interpreter, body, status, words):
    got, text = interpreter.ask("POST", "/execute", body)
    assert got == status
    assert words in text


@pytest.mark.parametrize(
    "body, words",
    [
        ("[]", "JSON object"),
        ({"cwd": 5}, "cwd must be a string"),
        ({"cwd": "relative"}, "absolute path"),
        ({"cwd": "/no/such/place"}, "/no/such/place"),
        ({"cwd": "/a\0b"}, "cwd is no path"),
        ({"language": "klingon"}, "klingon"),
    ],
)
def test_a_context_that_cannot_be_gets_a_sentence(interpreter, body, words):
    before = interpreter.json("GET", "/contexts")
    status, text = interpreter.ask("POST", "/contexts", body)
    assert status == 400
    assert words in text
    assert interpreter.json("GET", "/contexts") == before


def test_routes_that_are_not_there(interpreter):
    assert interpreter.ask("GET", "/nowhere")[0] == 404
    assert interpreter.ask("GET", "/execute")[0] == 405
    assert interpreter.ask("GET", "/contexts/x")[0] == 405
    assert interpreter.ask("DELETE", "/contexts/x") == (404, "Context x not found")
    assert interpreter.ask("POST", "/contexts/x/restart") == (404, "Context x not found")
    assert interpreter.ask("POST", "/contexts/x/other")[0] == 404
    assert interpreter.ask("OPTIONS", "/execute")[0] == 200


def test_long_code_runs(interpreter):
    assert interpreter.run("len('" + "x" * (4 << 20) + "')").text == str(4 << 20)


def test_input_is_refused_with_a_clear_error(interpreter):
    error = interpreter.run("input('name? ')").error
    assert error["name"] == "StdinNotImplementedError"
    assert "does not support input requests" in error["value"]


def test_odd_exceptions_and_representations_end_their_cell(interpreter):
    assert interpreter.run("class E(Exception):\n    def __str__(self): raise ValueError('odd')\nraise E()").error
    assert interpreter.run("class R:\n    def __repr__(self): raise ValueError('odd')\nR()").error
    assert interpreter.run("raise SystemExit(3)").error["name"] == "SystemExit"
    assert interpreter.run("1 + 1").text == "2"


def test_a_forked_child_that_keeps_printing_does_not_keep_the_cell(interpreter):
    code = "import os, time\nif os.fork() == 0:\n    while True:\n        os.write(1, b'child\\n'); time.sleep(0.01)\n'parent'"
    assert interpreter.run(code).text == "parent"
    assert interpreter.run("1 + 1").text == "2"
    context = interpreter.json("GET", "/contexts")[0]
    interpreter.json("POST", f"/contexts/{context['id']}/restart")
    assert interpreter.run("1").stdout == ""


# ---- kernels that die ----


def test_a_kernel_that_exits_is_started_again(interpreter):
    interpreter.run("x = 1")
    assert interpreter.run("exit()").error is None
    assert interpreter.run("x").error["name"] == "NameError"


def test_a_kernel_that_is_killed_is_reported_and_started_again(interpreter):
    error = interpreter.run("import os; os.kill(os.getpid(), 9)").error
    assert error["name"] == "ContextRestarting"
    assert "signal 9" in error["value"] and "without its variables" in error["value"]
    assert interpreter.run("1 + 1").text == "2"


def test_a_crash_is_reported_with_the_last_output(interpreter):
    answer = interpreter.run("import ctypes, time\nprint('last words', flush=True); time.sleep(0.2); ctypes.string_at(0)")
    assert answer.stdout == "last words\n"
    assert "Segmentation fault" in answer.error["value"]
    assert "string_at" in answer.error["traceback"]
    ended = interpreter.run("echo bye; exit 3", language="bash")
    assert "bye\n" in ended.stdout
    assert "status 3" in ended.error["value"]
    assert interpreter.run("echo back", language="bash").stdout == "back\n"


def test_a_cell_that_does_not_stop_is_ended_when_another_waits(interpreter):
    interpreter.run("x = 1")
    stream = interpreter.start(
        "import time\nprint('on')\nwhile True:\n    try: time.sleep(1000)\n    except KeyboardInterrupt: pass"
    )
    stream.until("stdout")
    stream.leave()
    answer = interpreter.run("x")
    assert "started again" in answer.stderr
    assert answer.error["name"] == "NameError"


def test_nothing_is_left_of_an_interpreter_that_ends(tmp_path):
    it = Interpreter(tmp_path)
    pids = [int(it.run("import os; os.getpid()").text), int(it.run("echo $$", language="bash").stdout)]
    it.run("import subprocess; p = subprocess.Popen(['sleep', '1000']); p.pid")
    pids.append(int(it.run("p.pid").text))
    it.stop()
    for pid in pids:
        assert not is_running(pid)
    assert not list((tmp_path / "run").iterdir())


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def slow_kernel(directory, name):
    """The bash kernel, which gets ready when somebody has opened its gate. Returns the gate."""
    gate = directory / f"{name}-gate"
    os.mkfifo(gate)
    spec = json.loads((TEMPLATE / "kernels/bash/kernel.json").read_text())
    start = spec["argv"][2].replace("exec ", f"read -r line <{gate}; exec ", 1)
    spec["argv"] = ["bash", "-c", start, str(TEMPLATE / "kernels/bash/kernel.bash")]
    place = directory / "kernels" / name
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(spec))
    return gate


def test_a_start_has_a_limit_only_when_somebody_waits_for_it(tmp_path):
    """A warm kernel on a slow machine is not given up as long as nobody needs it."""
    gate = slow_kernel(tmp_path, "slow")
    slow_kernel(tmp_path, "never")
    it = Interpreter(
        tmp_path, warm="slow", words=("--start-limit", "1"), env={"JUPYTER_PATH": str(tmp_path)}, stderr=subprocess.PIPE
    )
    for _ in range(2):
        while "has more time" not in (line := it.process.stderr.readline()):
            assert line, "the interpreter ended"
    assert it.ask("GET", "/health")[0] == 503
    gate.write_text("open\n")
    until(lambda: it.ask("GET", "/health")[0] == 200, "the kernel is up")
    assert it.run("echo 1", language="slow").stdout == "1\n"
    status, text = it.ask("POST", "/contexts", {"language": "never"})
    assert (status, "not ready after 1 s" in text) == (500, True)
    it.stop()


# ---- floods ----


def resident_mb(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def is_waiting(pid):
    """Whether a process neither runs nor grows over many looks."""
    usage = lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    before = usage()
    time.sleep(1)
    return usage() == before


FLOODS = {
    "python": ("import os; os.getpid()", "while True: print('x' * 1000)"),
    "javascript": ("process.pid", "while (true) console.log('x'.repeat(1000))"),
    "bash": ("echo $$", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"),
}


@pytest.mark.parametrize("language", FLOODS)
def test_a_kernel_whose_output_is_not_read_waits(interpreter, language):
    who, flood = FLOODS[language]
    answer = interpreter.run(who, language=language)
    pid = int(answer.text or answer.stdout)
    before = resident_mb(pid), resident_mb(interpreter.pid)
    stream = interpreter.start(flood, language=language)
    stream.until("stdout")
    deadline = time.monotonic() + 60
    while not is_waiting(pid):
        assert time.monotonic() < deadline, "the kernel goes on writing"
    if "san" not in os.environ.get("BUILD", ""):
        assert resident_mb(pid) < before[0] + 64
        assert resident_mb(interpreter.pid) < before[1] + 64
    stream.leave()
    assert interpreter.run(who, language=language).error is None


def test_a_flood_that_is_read_is_whole(interpreter):
    answer = interpreter.run("for i in range(200000): print(i)")
    assert answer.stdout == "".join(f"{i}\n" for i in range(200000))
    answer = interpreter.run("for (let i = 0; i < 200000; i++) console.log(i)", language="js")
    assert not answer.error
    assert answer.stdout == "".join(f"{i}\n" for i in range(200000))


# ---- the sandbox around it ----


def test_a_clone_draws_other_numbers_and_a_seed_is_kept(interpreter):
    draw = "import random; random.seed(7); first = random.random()"
    interpreter.run(draw)
    kept = interpreter.run("random.random()").text
    interpreter.run(draw)
    assert interpreter.run("random.random()").text == kept
    interpreter.run(draw)
    interpreter.boot_id.write_text("second\n")
    assert interpreter.run("random.random()").text != kept


def test_variables_of_the_sandbox_are_set_in_every_kernel(tmp_path):
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT], stdout=subprocess.PIPE, text=True
    )
    port = int(agent.stdout.readline())
    it = Interpreter(tmp_path, agent_port=port)
    try:
        assert it.run("import os; os.environ['BOX']").error  # the agent wants its token
        it.headers = {"X-Access-Token": "key"}
        run = it.run
        assert run("import os; os.environ['BOX']").text == "é 'x'"
        assert run("os.environ['BOX']", env_vars={"BOX": "mine"}).text == "mine"
        assert run("os.environ['BOX']").text == "é 'x'"
        assert run("echo $BOX", language="bash").stdout == "é 'x'\n"
    finally:
        it.stop()
        agent.kill()
        agent.wait()


# Answers /envs as the agent of a secured sandbox does.
AGENT = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        good = self.path == '/envs' and self.headers['X-Access-Token'] == 'key'
        body = '{"BOX": "\\u00e9 \\'x\\'"}'.encode() if good else b'{}'
        self.send_response(200 if good else 401)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_health_says_when_kernels_are_up(tmp_path):
    it = Interpreter(tmp_path)
    deadline = time.monotonic() + 60
    while it.ask("GET", "/health")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert it.ask("GET", "/health") == (200, '"OK"')
    it.stop()


def test_another_kernelspec_runs_by_its_name(tmp_path, monkeypatch):
    home = tmp_path / "jupyter/kernels/parrot"
    home.mkdir(parents=True)
    spec = {"argv": ["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "language": "parrot", "display_name": "Parrot"}  # fmt: skip
    (home / "kernel.json").write_text(json.dumps(spec))
    broken = tmp_path / "jupyter/kernels/broken"
    broken.mkdir()
    (broken / "kernel.json").write_text('{"argv": ["/no/such/program"]}')
    ends = tmp_path / "jupyter/kernels/ends"
    ends.mkdir()
    (ends / "kernel.json").write_text('{"argv": ["sh", "-c", "echo cannot >&2; exit 5"]}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    it = Interpreter(tmp_path)
    assert it.run("1 + 1", language="Parrot").text == "2"  # over tcp
    status, text = it.ask("POST", "/execute", {"code": "1", "language": "parrot", "env_vars": {"A": "1"}})
    assert (status, "env_vars cannot be set" in text) == (400, True)
    broken = it.run("1", language="broken").error
    assert (broken["name"], "/no/such/program" in broken["value"]) == ("KernelStartFailed", True)
    failed = it.run("1", language="ends").error
    assert "status 5" in failed["value"] and failed["traceback"] == "cannot\n"
    status, text = it.ask("POST", "/contexts", {"language": "ends"})
    assert (status, "status 5" in text) == (500, True)
    it.stop()
