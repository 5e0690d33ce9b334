"""The interface of Dify's own sandbox: what Dify's code nodes send, and how they read the answer."""

import base64
import json

import httpx
import pytest
from daemon import running
from world import Web

OUTSIDE = "198.51.100.1"


@pytest.fixture(scope="module")
def web():
    return Web("from outside")


@pytest.fixture(scope="module")
def daemon(web):
    with running("--code-timeout-s", "20", "--egress-map", f"{OUTSIDE}:80=127.0.0.1:{web.server_port}") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def dify(daemon):
    with httpx.Client(base_url=f"{daemon.url}/v1/sandbox", headers={"X-Api-Key": daemon.key}, timeout=300) as client:
        yield client


def run(dify, language, code, **fields):
    answer = dify.post("/run", json={"language": language, "code": code, "preload": "", "enable_network": True} | fields)
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert (said["code"], said["message"]) == (0, "success"), said
    assert set(said["data"]) == {"stdout", "stderr", "error", "exit_code"}
    return said["data"]


def test_a_code_node_gets_its_result_between_marks(dify):
    """A node encodes its inputs, calls main() and looks for the result between two marks."""
    inputs = base64.b64encode(json.dumps({"a": 20, "b": 22}).encode()).decode()
    python = ("def main(a, b):\n    return {'sum': a + b}\n"
              "import json, base64\n"
              f"inputs = json.loads(base64.b64decode('{inputs}'))\n"
              "print('<<RESULT>>' + json.dumps(main(**inputs)) + '<<RESULT>>')")
    data = run(dify, "python3", python)
    assert json.loads(data["stdout"].split("<<RESULT>>")[1]) == {"sum": 42}
    assert (data["error"], data["exit_code"]) == ("", 0)
    node = (f"const inputs = JSON.parse(Buffer.from('{inputs}', 'base64').toString('utf8'))\n"
            "function main({a, b}) { return {sum: a + b} }\n"
            "console.log('<<RESULT>>' + JSON.stringify(main(inputs)) + '<<RESULT>>')")
    assert json.loads(run(dify, "nodejs", node)["stdout"].split("<<RESULT>>")[1]) == {"sum": 42}


def test_what_a_program_logs_is_no_error(dify):
    data = run(dify, "python3", "import sys; print('out'); print('a warning', file=sys.stderr)")
    assert (data["stdout"], data["stderr"], data["error"]) == ("out\n", "a warning\n", "")


def test_code_that_fails_is_told_with_its_code_and_its_words(dify):
    data = run(dify, "python3", "print('before'); 1 / 0")
    assert data["stdout"] == "before\n" and data["exit_code"] == 1
    assert data["error"].startswith("process exited with code 1\n") and "ZeroDivisionError" in data["error"]
    data = run(dify, "nodejs", "process.exit(7)")
    assert data["exit_code"] == 7 and data["error"].startswith("process exited with code 7")


def test_code_that_takes_too_long_is_ended(dify):
    data = run(dify, "python3", "print('begun', flush=True)\nimport time\ntime.sleep(300)")
    assert data["stdout"] == "begun\n" and data["exit_code"] == -1
    assert data["error"].startswith("process exited with code -1\nerror: timeout\n")


def test_the_network_is_off_unless_it_is_asked_for(dify):
    code = f"import urllib.request as r; print(r.urlopen('http://{OUTSIDE}/', timeout=10).read().decode())"
    assert run(dify, "python3", code)["stdout"].startswith("from outside")
    for fields in ({"enable_network": False}, {"enable_network": None}):
        data = run(dify, "python3", code, **fields)
        assert data["stdout"] == "" and "urllib" in data["error"]
    assert run(dify, "python3", "print(1)", enable_network=False)["stdout"] == "1\n"


def test_the_network_is_off_also_for_code_with_dependencies(dify):
    """They are fetched from the internet, and the code runs without it."""
    code = (f"import inflection, urllib.request as r\nprint(inflection.__version__, flush=True)\n"
            f"print(r.urlopen('http://{OUTSIDE}/', timeout=10).read().decode())")
    wanted = [{"name": "inflection", "version": "0.5.1"}]
    data = run(dify, "python3", code, dependencies=wanted, enable_network=False)
    assert data["stdout"] == "0.5.1\n" and "urllib" in data["error"], data
    data = run(dify, "python3", code, dependencies=wanted)
    assert data["stdout"].startswith("0.5.1\nfrom outside"), data
    node = f"require('is-number'); fetch('http://{OUTSIDE}/').then(() => console.log('reached'), () => console.log('cut off'))"
    data = run(dify, "nodejs", node, dependencies=[{"name": "is-number", "version": "7.0.0"}], enable_network=False)
    assert data["stdout"] == "cut off\n", data


def test_dependencies_are_installed_and_listed(dify):
    code = "import inflection, importlib.metadata as m; print(m.version('inflection'))"
    data = run(dify, "python3", code, dependencies=[{"name": "inflection", "version": "0.5.1"}])
    assert data["stdout"] == "0.5.1\n", data
    for path in ("/dependencies", "/dependencies/refresh"):
        said = dify.get(path, params={"language": "python3"}).json()
        names = {one["name"]: one["version"] for one in said["data"]["dependencies"]}
        assert said["code"] == 0 and "pip" in names and all(names.values())
    assert dify.post("/dependencies/update", json={"language": "python3"}).json() == {
        "code": 0, "message": "success", "data": {}}


@pytest.mark.parametrize("body, words", [
    ({"language": "ruby", "code": "puts 1"}, "unsupported language"),
    ({"code": "print(1)"}, "language: is required"),
    ({"language": "python3"}, "code: is required"),
    ({"language": "python3", "code": ""}, "code: is required"),
    ({"language": "python3", "code": "1", "dependencies": [{"version": "1"}]}, "dependencies[0].name"),
    ({"language": "python3", "code": "1", "dependencies": [{"name": "--help"}]}, "packages[0]"),
])
def test_a_request_that_cannot_be_is_refused_in_difys_form(dify, body, words):
    answer = dify.post("/run", json=body)
    assert answer.status_code == 400
    said = answer.json()
    assert said["code"] == -400 and words in said["message"] and said["data"] is None


def test_the_key_is_the_teams(daemon):
    for headers in ({}, {"X-Api-Key": "dify-sandbox"}):
        answer = httpx.post(f"{daemon.url}/v1/sandbox/run", json={"language": "python3", "code": "1"}, headers=headers)
        assert answer.status_code == 401 and answer.json()["code"] == -401
