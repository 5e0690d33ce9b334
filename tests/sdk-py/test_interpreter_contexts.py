"""Contexts: apart from each other, side by side, in every language."""

import threading
import uuid

import pytest
from e2b import InvalidArgumentException, NotFoundException
from e2b_code_interpreter import AsyncSandbox, Sandbox
from e2b_code_interpreter.models import Context


def text_of(messages):
    return "".join(messages)


def test_python_and_javascript_are_there_from_the_start(new_interpreter):
    contexts = new_interpreter().list_code_contexts()
    assert [context.language for context in contexts] == ["python", "javascript"]
    assert {context.cwd for context in contexts} == {"/home/user"}


def test_contexts_do_not_see_each_other(interpreter):
    first, second = interpreter.create_code_context(), interpreter.create_code_context()
    interpreter.run_code("x = 1", context=first)
    execution = interpreter.run_code("x", context=second)
    assert execution.error.value == "name 'x' is not defined"
    interpreter.remove_code_context(first)
    interpreter.remove_code_context(second)


def test_a_context_somewhere_else(interpreter):
    context = interpreter.create_code_context(cwd="/tmp")
    assert context.cwd == "/tmp" and context.language == "python"
    assert interpreter.run_code("import os\nos.getcwd()", context=context).text == "/tmp"
    interpreter.remove_code_context(context)


def test_a_place_that_is_not_there(interpreter):
    with pytest.raises(Exception, match="/no/such/place"):
        interpreter.create_code_context(cwd="/no/such/place")


def test_a_removed_context_is_gone(interpreter):
    context = interpreter.create_code_context()
    assert context.id in [c.id for c in interpreter.list_code_contexts()]
    interpreter.remove_code_context(context)
    assert context.id not in [c.id for c in interpreter.list_code_contexts()]
    with pytest.raises(NotFoundException, match=context.id):
        interpreter.run_code("1", context=context)


def test_a_restarted_context_has_forgotten(interpreter):
    context = interpreter.create_code_context()
    interpreter.run_code("x = 1", context=context)
    interpreter.restart_code_context(context)
    assert interpreter.run_code("x", context=context).error.name == "NameError"
    assert interpreter.run_code("'lives'", context=context).text == "lives"
    interpreter.remove_code_context(context)


def test_an_unknown_context(interpreter):
    unknown = str(uuid.uuid4())
    with pytest.raises(NotFoundException, match=unknown):
        interpreter.run_code("1", context=Context(unknown, "python", "/"))
    for ask in (interpreter.remove_code_context, interpreter.restart_code_context):
        with pytest.raises(Exception, match=unknown):
            ask(unknown)


def test_a_language_and_a_context(interpreter):
    context = interpreter.list_code_contexts()[0]
    with pytest.raises(InvalidArgumentException):
        interpreter.run_code("1", language="python", context=context)


def test_an_unknown_language(interpreter):
    with pytest.raises(Exception, match="(?i)klingon"):
        interpreter.run_code("1", language="klingon")
    with pytest.raises(Exception, match="(?i)klingon"):
        interpreter.create_code_context(language="klingon")


@pytest.mark.parametrize("language", ["../../etc", "a/b", "x" * 5000, "\n"])
def test_a_language_that_no_kernel_can_have(interpreter, language):
    with pytest.raises(Exception):
        interpreter.run_code("1", language=language)
    assert interpreter.run_code("'lives'").text == "lives"


def test_contexts_run_side_by_side(interpreter):
    """Each waits for what the other one writes."""
    code = (
        "import os, time\n"
        "open('/tmp/met-{me}', 'w').close()\n"
        "while not os.path.exists('/tmp/met-{other}'): time.sleep(0.01)\n"
        "'met'"
    )
    contexts = [interpreter.create_code_context() for _ in range(2)]
    texts = {}

    def run(me):
        source = code.format(me=me, other=1 - me)
        texts[me] = interpreter.run_code(source, context=contexts[me]).text

    threads = [threading.Thread(target=run, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {0: "met", 1: "met"}
    for context in contexts:
        interpreter.remove_code_context(context)


def test_cells_of_one_context_queue(interpreter):
    """None of them sees the work of another one half done."""
    interpreter.run_code("busy = False")
    code = (
        "assert not busy\nbusy = True\nimport time\ntime.sleep(0.05)\nbusy = False\n'alone'"
    )
    texts = []
    threads = [
        threading.Thread(target=lambda: texts.append(interpreter.run_code(code).text))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["alone"] * 8


# ---- languages ----

LANGUAGES = {
    "python": ("print('hello')", "hello\n"),
    "javascript": ("console.log('hello')", "hello\n"),
    "js": ("console.log('hello')", "hello\n"),
    "typescript": ("const n: number = 2; console.log('hello')", "hello\n"),
    "ts": ("interface A { a: number }\nconst t: A = { a: 1 }; console.log('hello')", "hello\n"),
    "bash": ("echo hello", "hello\n"),
    "r": ('cat("hello\\n")', "hello\n"),
    "java": ('System.out.println("hello");', "hello\n"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_prints(interpreter, language):
    code, want = LANGUAGES[language]
    execution = interpreter.run_code(code, language=language)
    assert execution.error is None
    assert text_of(execution.logs.stdout) == want


STATE = {
    "javascript": ("let kept = 40; var more = 2", "kept + more", "42"),
    "typescript": ("const sum = (a: number, b: number): number => a + b", "sum(40, 2)", "42"),
    "r": ("kept <- 40", "kept + 2", "42"),
    "java": ("int kept = 40;", "kept + 2", "42"),
}


@pytest.mark.parametrize("language", STATE)
def test_every_language_remembers(interpreter, language):
    first, second, want = STATE[language]
    assert interpreter.run_code(first, language=language).error is None
    execution = interpreter.run_code(second, language=language)
    assert execution.error is None
    assert want in execution.results[-1].text


def test_bash_remembers(interpreter):
    interpreter.run_code("cd /tmp; kept=42; f() { echo \"f $1\"; }", language="bash")
    execution = interpreter.run_code("echo $kept; pwd; f x", language="bash")
    assert text_of(execution.logs.stdout) == "42\n/tmp\nf x\n"
    interpreter.run_code("cd", language="bash")


ERRORS = {
    "javascript": ("throw new TypeError('odd')", "TypeError", "odd"),
    "typescript": ("throw new RangeError('odd')", "RangeError", "odd"),
    "r": ('stop("odd")', None, "odd"),
    "java": ('throw new IllegalStateException("odd");', None, "odd"),
    "bash": ("false; (exit 3)", None, "3"),
}


@pytest.mark.parametrize("language", ERRORS)
def test_every_language_fails_with_an_error(interpreter, language):
    code, name, value = ERRORS[language]
    execution = interpreter.run_code(code, language=language)
    assert execution.error is not None
    assert value in execution.error.value + execution.error.traceback
    if name:
        assert name in execution.error.name
    code, want = LANGUAGES[language]
    assert text_of(interpreter.run_code(code, language=language).logs.stdout) == want


ENVIRONMENT = {
    "javascript": "console.log(process.env.ONE_RUN)",
    "typescript": "console.log(process.env.ONE_RUN)",
    "bash": "echo ${ONE_RUN:-undefined}",
    "r": 'cat(Sys.getenv("ONE_RUN", "undefined"), "\\n", sep = "")',
    "java": 'System.out.println(System.getProperty("ONE_RUN", "undefined"));',
}


@pytest.mark.parametrize("language", ENVIRONMENT)
def test_every_language_has_an_environment(interpreter, language):
    code = ENVIRONMENT[language]
    execution = interpreter.run_code(code, language=language, envs={"ONE_RUN": "value"})
    assert text_of(execution.logs.stdout) == "value\n"
    execution = interpreter.run_code(code, language=language)
    assert text_of(execution.logs.stdout) == "undefined\n"


def test_javascript_awaits_requires_and_imports(interpreter):
    code = (
        "import { join } from 'node:path'\n"
        "const os = require('os')\n"
        "const later = await new Promise((done) => setTimeout(() => done('later'), 10))\n"
        "console.log(join('a', 'b'), later, typeof os.cpus)"
    )
    execution = interpreter.run_code(code, language="javascript")
    assert execution.error is None
    assert text_of(execution.logs.stdout) == "a/b later function\n"
    execution = interpreter.run_code("await Promise.resolve(6 * 7)", language="js")
    assert execution.text == "42"


def test_java_runs_several_snippets_of_a_cell(interpreter):
    code = "class A { int v = 3; }\nint square(int n) { return n * n; }\nvar a = new A();\nsquare(a.v)"
    assert interpreter.run_code(code, language="java").text == "9"
    thrown = interpreter.run_code("int[] none = {}; none[5]", language="java")
    assert thrown.error.name == "java.lang.ArrayIndexOutOfBoundsException"


def test_r_draws(interpreter):
    results = interpreter.run_code("plot(1:3)", language="r").results
    assert any(result.png for result in results)


def test_the_language_of_an_installed_kernel(new_interpreter):
    """Whatever kernelspec is installed at run time is a language of that name."""
    sandbox = new_interpreter()
    sandbox.commands.run(
        "mkdir -p /usr/local/share/jupyter/kernels/mine && cat > "
        "/usr/local/share/jupyter/kernels/mine/kernel.json <<'END'\n"
        '{"argv": ["python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"],'
        ' "display_name": "Mine", "language": "python"}\nEND',
        user="root",
    )
    assert sandbox.run_code("6 * 7", language="mine").text == "42"


async def test_the_same_without_threads(interpreter_template):
    sandbox = await AsyncSandbox.create(timeout=120)
    try:
        context = await sandbox.create_code_context(language="javascript")
        lines = []
        execution = await sandbox.run_code(
            "console.log('a'); 1 + 1", context=context, on_stdout=lambda m: lines.append(m.line)
        )
        assert execution.text == "2" and "".join(lines) == "a\n"
    finally:
        await sandbox.kill()


def test_a_sandbox_that_was_found_again(interpreter):
    interpreter.run_code("left_behind = 'still here'")
    again = Sandbox.connect(interpreter.sandbox_id)
    assert again.run_code("left_behind").text == "still here"
