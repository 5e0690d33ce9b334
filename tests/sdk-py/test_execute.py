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
    assert out["stdout"] == "so far\n" and not out["success"] and "NameError" in out["stderr"]
    assert execute(api, language="bash", code="echo $((40 + 2)); exit 4")["exitCode"] == 4


def test_kernels_import_what_calls_shells(api):
    """A path that the shell does not allow is refused before anybody is asked."""
    shell = {"baseUrl": "http://198.51.100.9", "paths": ["/only"], "header": {"name": "Authorization", "value": "kept-outside-1"}}
    assert api.put("/shells/kernels", json=shell).status_code == 200
    for language, code in {
        "python": "import make_api_shell as make\ntry:\n    make.call('kernels', '/other')\n"
                  "except make.ShellError as error:\n    print(error.status)",
        "javascript": "const make = require('make_api_shell')\n"
                      "try { await make.call('kernels', '/other') } catch (error) { console.log(error.status) }",
    }.items():
        answer = api.post("/tools/run_code", timeout=180, json={"execLanguage": language, "code": code, "shells": ["kernels"]})
        out = answer.json()
        assert out["template"] == "code-interpreter-v1" and "".join(out["logs"]["stdout"]) == "403\n", out
    assert api.delete("/shells/kernels").status_code in (200, 204)


def test_packages_come_before_those_of_the_image(api):
    code = "import requests, six; print(requests.__version__, six.__name__)"
    out = execute(api, language="python", code=code, packages=["requests==2.31.0", "six"])
    assert out["stdout"] == "2.31.0 six\n" and out["template"] == "code-interpreter-v1", out
    # One that the kernel which is kept has imported already.
    answer = api.post("/tools/run_code", timeout=180, json={
        "code": "import cycler; print(cycler.__file__)", "dependencies": ["cycler==0.11.0"]}).json()
    assert answer["logs"]["stdout"][0].startswith("/home/user/"), answer


def test_what_pip_installs_beside_a_kernel_is_found(new_interpreter):
    sandbox = new_interpreter()
    assert sandbox.run_code("import first").error.name == "ModuleNotFoundError"
    sandbox.commands.run("pip install --quiet first requests==2.31.0", timeout=120)
    run = sandbox.run_code("import first, requests; print(requests.__version__)")
    assert run.error is None and "".join(run.logs.stdout) == "2.31.0\n", run


def test_a_cell_installs_another_version_of_a_package_of_the_image(new_interpreter):
    """Cells run as root."""
    sandbox = new_interpreter()
    sandbox.run_code("!pip install --quiet requests==2.31.0", timeout=120)
    run = sandbox.run_code("!python3 -c 'import requests; print(requests.__version__, requests.__file__)'")
    version, file = "".join(run.logs.stdout).split()
    assert version == "2.31.0" and file.startswith("/usr/local/lib/"), run


def test_javascript_and_typescript_are_programs(api):
    main = "async function main() { await new Promise((r) => setTimeout(r, 50)); console.log('late') }\nmain()"
    for language in ("javascript", "typescript"):
        out = execute(api, language=language, code=main)
        assert out["stdout"] == "late\n" and out["success"] and out["template"] == "code-interpreter-v1", out
        out = execute(api, language=language, code="setTimeout(() => { process.exit(4) }, 10)")
        assert out["exitCode"] == 4 and not out["success"], out
        out = execute(api, language=language, code="setTimeout(() => { throw new Error('much later') }, 10)")
        assert out["exitCode"] == 1 and "much later" in out["stderr"] and not out["success"], out


def test_es_modules_leave_no_warning(api):
    module = "import { sep } from 'node:path'\nimport { word } from './other.js'\nconsole.log(sep, word, await 42)\n"
    files = {"other.js": "export const word = 'exported'\n", "package.json": "{}"}  # which npm leaves as well
    for language in ("javascript", "node", "typescript"):
        out = execute(api, language=language, code=module, files=files)
        assert (out["stdout"], out["stderr"], out["success"]) == ("/ exported 42\n", "", True), out
    answer = api.post("/tools/run_code", timeout=180, json={
        "code": "import { sep } from 'node:path'\nconsole.log(sep, await 42)", "execLanguage": "javascript"}).json()
    assert answer["logs"] == {"stdout": ["/ 42\n"], "stderr": []}, answer


def test_a_promise_is_waited_for(api):
    code = "async function main() { await new Promise((r) => setTimeout(r, 50)); console.log('late'); return 42 }\nmain()"
    answer = api.post("/tools/run_code", json={"code": code, "execLanguage": "javascript"}, timeout=180).json()
    assert answer["logs"]["stdout"] == ["late\n"] and answer["results"][0]["text"] == "42", answer
    code = "(async () => { throw new TypeError('no') })()"
    answer = api.post("/tools/run_code", json={"code": code, "execLanguage": "javascript"}, timeout=180).json()
    assert answer["error"]["name"] == "TypeError" and answer["logs"]["stderr"] == [], answer


def test_ends_of_programs_have_their_status(api):
    for code, status in {"import sys; sys.exit(3)": 3, "import sys; sys.exit(0)": 0, "import sys; sys.exit()": 0, "import sys; sys.exit('last words')": 1}.items():
        out = execute(api, language="python", code=f"print('so far')\n{code}")
        assert out["exitCode"] == status and out["success"] == (status == 0) and out["stdout"] == "so far\n", out
        assert out["stderr"] == ("last words\n" if "last" in code else ""), out
        assert (out["error"] is None) == (status == 0), out
    out = execute(api, language="python", code="import os; os._exit(4)")
    assert out["exitCode"] == 4 and "status 4" in out["error"] and "started again" not in str(out), out


def test_secrets_with_a_variable_reach_kernels(api):
    kept = {"name": "execute-key", "value": "kept-by-the-team", "metadata": {"env": "EXECUTE_KEY"}}
    assert api.post("/secrets", json=kept).status_code == 201
    try:
        out = execute(api, language="python", code="import os; print(os.environ['EXECUTE_KEY'])")
        assert out["stdout"] == "kept-by-the-team\n" and out["template"] == "code-interpreter-v1", out
    finally:
        api.delete("/secrets/execute-key")


def test_the_end_of_a_long_output_is_kept(api):
    out = execute(api, language="python", code="for i in range(50): print('ü' * (1 << 19))\nprint('the end')")
    assert out["success"] and out["truncated"] and out["stdout"].endswith("ü\nthe end\n"), out["error"]
    assert (1 << 20) - 8 < len(out["stdout"].encode()) <= 1 << 20
    out = execute(api, language="python", code="import sys; print('x' * (1 << 20), file=sys.stderr); no_such_name")
    assert out["truncated"] and "NameError" in out["stderr"] and not out["success"]
    assert execute(api, language="python", code="1")["truncated"] is False


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
