"""run_code of the official package: state, streams, results, errors, environment."""

import pytest


def text_of(messages):
    return "".join(messages)


def test_state_lasts_from_cell_to_cell(interpreter):
    interpreter.run_code("x = 41")
    execution = interpreter.run_code("x += 1; x")
    assert execution.text == "42"
    assert execution.error is None


def test_cells_are_counted(new_interpreter):
    sandbox = new_interpreter()
    counts = [sandbox.run_code("1").execution_count for _ in range(3)]
    assert counts == [1, 2, 3]


def test_streams_come_apart(interpreter):
    execution = interpreter.run_code(
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('more')"
    )
    assert text_of(execution.logs.stdout) == "out\nmore\n"
    assert text_of(execution.logs.stderr) == "err\n"
    assert execution.results == []


def test_what_subprocesses_print_is_output_too(interpreter):
    execution = interpreter.run_code("import os\ncode = os.system('echo from below')")
    assert "from below\n" in text_of(execution.logs.stdout)


def test_callbacks_come_while_the_cell_runs(interpreter):
    """The cell waits for a file that only the callback makes: without streaming it never ends."""
    out, err, results, errors = [], [], [], []

    def on_stdout(message):
        out.append(message)
        if message.line.startswith("first"):
            interpreter.files.write("/tmp/go-on", "")

    execution = interpreter.run_code(
        "import os, sys, time\n"
        "print('first', flush=True)\n"
        "while not os.path.exists('/tmp/go-on'): time.sleep(0.01)\n"
        "print('second', file=sys.stderr)\n"
        "display(1)\n"
        "1 / 0",
        on_stdout=on_stdout,
        on_stderr=err.append,
        on_result=results.append,
        on_error=errors.append,
    )
    assert "".join(message.line for message in out) == "first\n"
    assert "".join(message.line for message in err) == "second\n"
    assert all(message.timestamp for message in out + err)
    assert [result.text for result in results] == ["1"]
    assert [error.name for error in errors] == ["ZeroDivisionError"]
    assert execution.error.name == "ZeroDivisionError"


def test_an_exception_is_an_error_with_its_trace(interpreter):
    execution = interpreter.run_code("def f():\n    return missing\nf()")
    assert execution.error.name == "NameError"
    assert execution.error.value == "name 'missing' is not defined"
    assert "return missing" in execution.error.traceback
    assert "\x1b" not in execution.error.traceback
    assert interpreter.run_code("'goes on'").text == "goes on"


def test_code_that_is_no_python(interpreter):
    execution = interpreter.run_code("def (:")
    assert execution.error.name == "SyntaxError"


def test_top_level_await(interpreter):
    assert interpreter.run_code("import asyncio\nawait asyncio.sleep(0, 'slept')").text == "slept"


def test_an_empty_cell(interpreter):
    execution = interpreter.run_code("")
    assert execution.error is None and execution.results == []


def test_magics_and_shell_lines(interpreter):
    assert "magic" in text_of(interpreter.run_code("!echo magic").logs.stdout)
    assert interpreter.run_code("%%time\n7").error is None


# ---- results ----

KINDS = {
    "text": ("'plain'", "plain"),
    "html": ("from IPython.display import HTML; HTML('<b>x</b>')", "<b>x</b>"),
    "markdown": ("from IPython.display import Markdown; Markdown('# x')", "# x"),
    "svg": ("from IPython.display import SVG; SVG('<svg></svg>')", "<svg"),
    "latex": ("from IPython.display import Latex; Latex('$x$')", "$x$"),
    "javascript": ("from IPython.display import Javascript; Javascript('x()')", "x()"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_as_results(interpreter, kind):
    code, want = KINDS[kind]
    result = interpreter.run_code(code).results[0]
    assert want in getattr(result, kind)
    assert kind in result.formats()
    assert result.is_main_result


def test_json_of_lists_and_dicts(interpreter):
    assert interpreter.run_code("{'a': [1, None, 'x']}").results[0].json == {"a": [1, None, "x"]}
    assert interpreter.run_code("[1.5, {'b': True}]").results[0].json == [1.5, {"b": True}]
    assert interpreter.run_code("{'f': print}").results[0].json is None


def test_pictures(interpreter):
    code = "from PIL import Image\npicture = Image.new('RGB', (4, 4), 'red')\n"
    for last in ("picture", "picture.show()", "picture.save('/tmp/x.png')"):
        results = interpreter.run_code(code + last).results
        assert [result.png is not None for result in results] == [True], last
        assert results[0].png.startswith("iVBORw0KGgo")
        assert results[0].jpeg.startswith("/9j/")


def test_pdf(interpreter):
    result = interpreter.run_code(
        "from IPython.display import display\n"
        "display({'application/pdf': 'JVBERi0='}, raw=True)"
    ).results[0]
    assert result.pdf == "JVBERi0=" and not result.is_main_result


def test_what_has_no_name_is_extra(interpreter):
    result = interpreter.run_code(
        "from IPython.display import display\n"
        "display({'application/x-mine': {'a': 1}, 'text/plain': 'mine'}, raw=True)"
    ).results[0]
    assert result.extra == {"application/x-mine": {"a": 1}}
    assert result.text == "mine"


def test_several_results_of_one_cell(interpreter):
    results = interpreter.run_code("display(1)\ndisplay('two')\n3").results
    assert [(r.text, r.is_main_result) for r in results] == [
        ("1", False),
        ("two", False),
        ("3", True),
    ]


def test_a_table_is_data_too(interpreter):
    result = interpreter.run_code(
        "import pandas as pd\n"
        "pd.DataFrame({'n': [1, 2], 'f': [0.5, None], 's': ['a', 'b'],\n"
        "              't': pd.to_datetime(['2024-01-02', '2024-01-03'])})"
    ).results[0]
    assert result.data == {
        "n": [1, 2],
        "f": [0.5, None],
        "s": ["a", "b"],
        "t": ["2024-01-02T00:00:00", "2024-01-03T00:00:00"],
    }
    assert "<table" in result.html
    assert "data" in result.formats()


def test_a_table_with_odd_columns(interpreter):
    result = interpreter.run_code(
        "import pandas as pd\npd.DataFrame([[1, object], [2, (3, 4)]], columns=[7, ('a', 'b')])"
    ).results[0]
    assert result.data == {"7": [1, 2], "('a', 'b')": ["<class 'object'>", "(3, 4)"]}


def test_a_table_that_is_too_large_for_data(interpreter):
    result = interpreter.run_code(
        "import numpy as np, pandas as pd\npd.DataFrame(np.zeros((1001, 1000)))"
    ).results[0]
    assert result.data is None and "<table" in result.html


def test_algebra(interpreter):
    result = interpreter.run_code("import sympy\nsympy.sqrt(sympy.Symbol('x'))").results[0]
    assert result.latex is not None and result.text == "sqrt(x)"


# ---- environment and place ----


def test_variables_of_one_run_are_gone_afterwards(interpreter):
    code = "import os\nprint(os.environ.get('SECRET'))"
    assert "".join(interpreter.run_code(code, envs={"SECRET": "s"}).logs.stdout) == "s\n"
    assert "".join(interpreter.run_code(code).logs.stdout) == "None\n"


def test_a_cell_knows_where_it_is(interpreter, api):
    code = "import os\nprint(os.environ['E2B_SANDBOX_ID'], os.environ['E2B_TEAM_ID'])"
    (team,) = api.get("/teams").json()
    assert "".join(interpreter.run_code(code).logs.stdout) == f"{interpreter.sandbox_id} {team['teamID']}\n"


def test_variables_of_the_sandbox(new_interpreter):
    sandbox = new_interpreter(envs={"GLOBAL": "g"})
    code = "import os\nprint(os.environ.get('GLOBAL'))"
    assert "".join(sandbox.run_code(code).logs.stdout) == "g\n"
    assert "".join(sandbox.run_code(code, envs={"GLOBAL": "mine"}).logs.stdout) == "mine\n"
    assert "".join(sandbox.run_code(code).logs.stdout) == "g\n"


def test_variables_that_are_restored_after_an_error(interpreter):
    interpreter.run_code("1 / 0", envs={"SECRET": "s"})
    assert interpreter.run_code("import os\nos.environ.get('SECRET')").results == []


def test_the_place_and_the_user(interpreter):
    assert interpreter.run_code("import os\nos.getcwd()").text == "/home/user"
    assert interpreter.run_code("import os\nos.getuid()").text == "0"


def test_files_are_shared_with_the_file_api(interpreter):
    interpreter.files.write("/home/user/data.csv", "a,b\n1,2\n")
    assert interpreter.run_code("open('data.csv').read()").text == "a,b\\n1,2\\n"
    interpreter.run_code("open('made.txt', 'w').write('by a cell')")
    assert interpreter.files.read("/home/user/made.txt") == "by a cell"


def test_packages_that_people_expect(interpreter):
    names = (
        "numpy pandas scipy sklearn matplotlib seaborn sympy requests bs4 openpyxl PIL plotly "
        "xarray lxml docx aiohttp nltk pydantic pytest"
    )
    code = f"import importlib\nfor name in '{names}'.split(): importlib.import_module(name)"
    assert interpreter.run_code(code).error is None


def test_programs_that_people_expect(interpreter):
    code = "!for p in git node npm pip apt-get java R; do command -v $p >/dev/null || echo $p; done"
    assert interpreter.run_code(code).logs.stdout == []
