"""Code in one HTTP call where the interpreter's template is there: what cells show comes back."""

import base64
import time

import pytest

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.show()\n"


@pytest.fixture(autouse=True)
def interpreter_is_there(interpreter_template):
    pass


def execute(api, **fields):
    answer = api.post("/api/code/execute", json=fields, timeout=180)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_results_have_charts_and_tables(api):
    out = execute(api, language="python", code=PLOT + "import pandas\npandas.DataFrame({'a': [1, 2]})")
    assert out["success"] and out["template"] == "code-interpreter-v1" and out["exitCode"] == 0, out
    figure, table = out["results"]
    assert base64.b64decode(figure["png"]).startswith(b"\x89PNG") and figure["chart"]["type"] == "line"
    assert "<table" in table["html"] and table["is_main_result"]


def test_languages_errors_and_variables(api):
    out = execute(api, language="typescript", code="const x: number = 20; console.log(x + 1, process.env.WORD)",
                  envs={"WORD": "w"})
    assert out["stdout"] == "21 w\n" and out["success"], out
    out = execute(api, language="python", code="print('so far')\nno_such_name")
    assert out["error"].startswith("NameError: name 'no_such_name' is not defined") and out["exitCode"] == 1
    assert out["stdout"] == "so far\n" and not out["success"]
    assert execute(api, language="python", code="import sys; sys.exit(3)")["exitCode"] == 3
    assert execute(api, language="bash", code="echo $((40 + 2)); exit 4")["exitCode"] == 4


def test_code_that_outlives_its_timeout_is_stopped(api):
    out = execute(api, language="python", code="print('begun', flush=True)\nwhile True: pass", timeout_seconds=3)
    assert out["exitCode"] == 124 and "longer than 3 seconds" in out["error"] and out["stdout"] == "begun\n"


def test_run_code_has_the_shape_of_the_interpreter(api):
    answer = api.post("/tools/run_code", json={"code": "print('out')\n6 * 7"}, timeout=180).json()
    assert answer["logs"] == {"stdout": ["out\n"], "stderr": []} and answer["error"] is None
    assert answer["results"][0]["text"] == "42" and answer["template"] == "code-interpreter-v1"
    answer = api.post("/tools/run_code", json={"code": "1 / 0"}, timeout=180).json()
    assert answer["error"]["name"] == "ZeroDivisionError" and "Traceback" in answer["error"]["traceback"]


def test_nothing_is_left(api):
    deadline = time.monotonic() + 60
    before = {row["sandboxID"] for row in api.get("/sandboxes").json()}
    execute(api, language="python", code="1")
    while {row["sandboxID"] for row in api.get("/sandboxes").json()} - before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
