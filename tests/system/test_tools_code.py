"""Code in one call, code artifacts and the guard, over REST, in sandboxes of `base`."""

import base64
import hashlib
import http.client
import json
import threading
import urllib.parse

import httpx
import pytest
from daemon import ROOT, running, until

KEY = "sk-live-4f9Q+shell/key-for-guarding"


@pytest.fixture(scope="module")
def daemon():
    with running("--code-timeout-s", "120") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def api(daemon):
    with httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=180) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_is_left(api):
    yield
    until(lambda: api.get("/sandboxes").json() == [], "every sandbox is gone")


def tool(api, name, **fields):
    answer = api.post(f"/tools/{name}", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(api, name, **fields):
    answer = api.post(f"/tools/{name}", json=fields)
    return answer.status_code, answer.json()["message"]


def execute(api, **fields):
    answer = api.post("/api/code/execute", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


# ---- /api/code/execute ----


def test_each_language_runs(api):
    for language, code in {
        "python": "import os; print(os.environ['WORD'], open('data/in.txt').read())",
        "node": "console.log(process.env.WORD, require('fs').readFileSync('data/in.txt', 'utf8'))",
        "javascript": "console.log(process.env.WORD, require('fs').readFileSync('data/in.txt', 'utf8'))",
        "typescript": "import * as fs from 'fs'\nconst word: string = process.env.WORD!\n"
                      "console.log(word, fs.readFileSync('data/in.txt', 'utf8'))",
        "bash": 'echo "$WORD" "$(cat data/in.txt)"',
    }.items():
        out = execute(api, code=code, language=language, envs={"WORD": "hello"}, files={"data/in.txt": "file"})
        assert out["stdout"] == "hello file\n" and out["success"] and out["exitCode"] == 0, out
        assert out["error"] is None and out["results"] == [] and out["durationMs"] >= 0
        assert out["template"] == "base"


def test_typescript_is_a_program(api):
    files = {"lib/twice.ts": "export const twice = (x: number): number => 2 * x"}
    code = ("import { twice } from './lib/twice'\nconst later = await Promise.resolve<number>(twice(21))\n"
            "if (require.main === module) console.log(later, process.argv[1])")
    out = execute(api, code=code, language="typescript", files=files)
    assert out["stdout"] == "42 /home/user/main.ts\n" and out["success"], out
    out = execute(api, code="let x: string\nawait 1\nthrow new Error('failed')", language="typescript")
    assert out["exitCode"] == 1 and "main.ts:3" in out["stderr"], out


def test_failing_code_is_an_answer(api):
    out = execute(api, code="import sys; print('so far'); sys.exit(3)", language="python")
    assert (out["stdout"], out["exitCode"], out["success"]) == ("so far\n", 3, False)
    out = execute(api, code="no_such_name", language="python")
    assert out["exitCode"] == 1 and "NameError" in out["stderr"] and not out["success"]


def test_code_that_outlives_its_timeout_is_stopped(api):
    out = execute(api, code="print('begun', flush=True)\nwhile True: pass", language="python", timeout_seconds=2)
    assert out["exitCode"] == 124 and out["stdout"] == "begun\n" and not out["success"]
    assert "the code ran longer than 2 seconds and was stopped" in out["error"]


def test_the_end_of_a_long_output_is_kept(api):
    out = execute(api, code="head -c 3000000 /dev/zero | tr '\\0' x; echo the end", language="bash")
    assert out["truncated"] and out["success"] and out["stdout"].endswith("xthe end\n") and len(out["stdout"]) == 1 << 20
    assert execute(api, code="echo", language="bash")["truncated"] is False


def test_secrets_with_a_variable_are_in_every_sandbox(api):
    kept = {"name": "stored-key", "value": "kept-by-the-team", "metadata": {"env": "STORED_KEY"}}
    assert api.post("/secrets", json=kept).status_code == 201
    try:
        said = execute(api, code="echo $STORED_KEY $WORD", language="bash", envs={"WORD": "w"})
        assert said["stdout"] == "kept-by-the-team w\n"
        assert execute(api, code="echo $STORED_KEY", language="bash", envs={"STORED_KEY": "mine"})["stdout"] == "mine\n"
        out = tool(api, "run_code", code="import os; print(os.environ['STORED_KEY'])")
        assert out["logs"]["stdout"] == ["kept-by-the-team\n"] and out["truncated"] is False
        tool(api, "write_code_artifact", codePath="secret.sh", content="echo $STORED_KEY")
        out = tool(api, "run_code_artifact", codePath="secret.sh")
        assert out["stdout"] == "kept-by-the-team\n" and out["truncated"] is False
    finally:
        assert api.delete("/secrets/stored-key").status_code in (200, 204)


def test_files_are_below_the_home(api):
    out = execute(api, code="cat '/home/user/a b/ü.txt' c", language="bash", files={"a b/ü.txt": "1", "/home/user/c": "2"})
    assert out["stdout"] == "12", out
    for path, why in [("/etc/passwd", "absolute"), ("/home/user/../x", "leads out"), ("../x", "leads out"),
                      ("a/../../x", "leads out"), ("~/x", "absolute"), ("a/", "empty"), ("/home/user/", "empty"),
                      ("/home/user//etc/x", "absolute"), ("/home/userx/y", "absolute"),
                      ("main.sh", "where the code is placed"), ("/home/user/main.sh", "where the code is placed")]:
        answer = api.post("/api/code/execute", json={"code": "1", "language": "bash", "files": {path: "x"}})
        said = answer.json()["message"]
        assert answer.status_code == 400 and f'files: "{path}"' in said and why in said, said


def test_packages_that_do_not_exist_are_told_with_the_log(api):
    for language, installer in (("python", "pip"), ("node", "npm"), ("bash", "apt")):
        out = execute(api, code="1", language=language, packages=["no-such-package-4f9q2z7"])
        assert not out["success"] and f"{installer} could not install no-such-package-4f9q2z7;" in out["error"], out
        assert "no-such-package-4f9q2z7" in out["stderr"], out


def test_packages_are_installed(api):
    out = execute(api, code="console.log(require('is-number')(3))", language="node", packages=["is-number@7.0.0"])
    assert out["stdout"] == "true\n", out


def test_a_client_that_leaves_takes_the_sandbox_along(daemon, api):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(daemon.url).netloc)
    connection.request("POST", "/api/code/execute", json.dumps({"code": "while True: pass", "language": "python"}),
                       {"X-API-Key": daemon.key, "Content-Type": "application/json"})
    until(lambda: len(api.get("/sandboxes").json()) == 1, "the sandbox runs")
    connection.close()
    until(lambda: api.get("/sandboxes").json() == [], "the sandbox is gone")


def test_bad_requests_are_refused_with_the_path(api, daemon):
    good = {"code": "1", "language": "python"}
    for change, said in [({"language": "cobol"}, "language"), ({"code": ""}, "code"), ({"code": None}, "code"),
                         ({"packages": ["--index-url=x"]}, "packages[0]"), ({"packages": ["a;b"]}, "packages[0]"),
                         ({"packages": 1}, "packages"), ({"timeout_seconds": 121}, "timeout_seconds"),
                         ({"timeout_seconds": 0}, "timeout_seconds"), ({"envs": {"A": [1]}}, "envs"),
                         ({"files": {"": "x"}}, "files"), ({"extra": 1}, "extra")]:
        answer = api.post("/api/code/execute", json=good | change)
        assert answer.status_code == 400 and said in answer.json()["message"], answer.text
    assert api.get("/api/code/execute").status_code == 405
    answer = httpx.post(f"{daemon.url}/api/code/execute", json=good)
    assert answer.status_code == 401 and answer.json()["message"].startswith("authorization header is missing")


# ---- run_code ----


def test_run_code_has_the_fields_of_workflow_builders(api):
    out = tool(api, "run_code", code="print(6 * 7)")
    assert out["logs"] == {"stdout": ["42\n"], "stderr": []} and out["error"] is None and out["results"] == []
    code = base64.b64encode(b"console.error('quote \"\\'')").decode()
    out = tool(api, "run_code", code=code, inputFormat="base64", execLanguage="javascript", timeoutSeconds=30)
    assert out["logs"]["stderr"] == ["quote \"'\n"]
    assert refused(api, "run_code", code="%%%", inputFormat="base64") == (400, "code: is not base64")
    status, said = refused(api, "run_code", code="1", execLanguage="bash")
    assert status == 400 and "execLanguage" in said


def test_run_code_installs_what_it_depends_on(api):
    out = tool(api, "run_code", code="import inflection; print(inflection.pluralize('box'))", dependencies=["inflection"])
    assert out["logs"]["stdout"] == ["boxes\n"], out
    out = tool(api, "run_code", execLanguage="javascript", code="console.log(require('is-number')(3))", dependencies="is-number")
    assert out["logs"]["stdout"] == ["true\n"], out


# ---- artifacts ----

CALC = "import json, sys\ndef add(value):\n    return {'sum': value['a'] + value['b']}\n" \
       "if __name__ == '__main__':\n    print(json.load(sys.stdin) == json.load(open('input.json')))\n"


@pytest.fixture(scope="module")
def calc(api):
    return tool(api, "write_code_artifact", codePath="tools/calc.py", content=CALC, description="adds a and b")


def test_an_artifact_is_kept_with_version_and_hash(api, calc, daemon):
    assert (calc["version"], calc["language"], calc["size"]) == (1, "python", len(CALC))
    assert calc["sha256"] == hashlib.sha256(CALC.encode()).hexdigest()
    read = tool(api, "read_code_artifact", codePath="tools/calc.py")
    assert read["content"] == CALC and read["description"] == "adds a and b"
    listed = tool(api, "list_code_artifacts", prefix="tools/")["artifacts"]
    assert [a["codePath"] for a in listed] == ["tools/calc.py"] and "content" not in listed[0]
    assert tool(api, "list_code_artifacts", prefix="other/")["artifacts"] == []


def test_overwriting_needs_a_word(api):
    tool(api, "write_code_artifact", codePath="once.sh", content="echo one")
    status, said = refused(api, "write_code_artifact", codePath="once.sh", content="echo two")
    assert status == 409 and "exists already, as version 1" in said and "confirm: true" in said
    assert tool(api, "write_code_artifact", codePath="once.sh", content="echo two", confirm=True)["version"] == 2
    assert tool(api, "run_code_artifact", codePath="once.sh")["stdout"] == "two\n"
    assert tool(api, "delete_code_artifact", codePath="once.sh") == {"codePath": "once.sh", "version": 2}
    assert refused(api, "delete_code_artifact", codePath="once.sh")[0] == 404
    assert refused(api, "run_code_artifact", codePath="once.sh")[0] == 404


def test_an_artifact_runs_with_its_input(api, calc):
    out = tool(api, "run_code_artifact", codePath="tools/calc.py", input={"a": 1, "b": [2, "ü"]})
    assert out["stdout"] == "True\n" and out["success"] and out["mode"] == "run" and out["version"] == 1
    out = tool(api, "run_code_artifact", codePath="tools/calc.py", entrypoint="add", input={"a": 1, "b": 2})
    assert out["result"] == {"sum": 3} and out["stdout"] == "" and out["entrypoint"] == "add"
    out = tool(api, "run_code_artifact", codePath="tools/calc.py", entrypoint="nothing", input={})
    assert not out["success"] and "result" not in out
    assert out["error"] == "there is no function nothing in tools/calc.py" and "Traceback" not in out["stderr"]


def test_an_artifact_runs_in_another_language_when_asked(api):
    tool(api, "write_code_artifact", codePath="either", content="true # print(1)", language="bash")
    assert tool(api, "run_code_artifact", codePath="either")["success"]
    out = tool(api, "run_code_artifact", codePath="either", language="python")
    assert out["language"] == "python" and "NameError" in out["stderr"]


def test_entry_points_of_other_languages(api):
    tool(api, "write_code_artifact", codePath="js/a.mjs", content="export const f = async (x) => x * 2", entrypoint="f")
    assert tool(api, "run_code_artifact", codePath="js/a.mjs", input=21)["result"] == 42
    tool(api, "write_code_artifact", codePath="a.ts", content="export function f(x: number): number { return x + 1 }")
    assert tool(api, "run_code_artifact", codePath="a.ts", input=1, entrypoint="f")["result"] == 2
    assert tool(api, "run_code_artifact", codePath="a.ts", mode="dry_run")["success"]
    tool(api, "write_code_artifact", codePath="sh/a.sh", content="f() { cat; }", entrypoint="f")
    assert tool(api, "run_code_artifact", codePath="sh/a.sh", input={"k": 1})["stdout"] == '{"k":1}'
    for path in ("js/a.mjs", "a.ts", "sh/a.sh"):
        out = tool(api, "run_code_artifact", codePath=path, input=1, entrypoint="g")
        assert out["error"] == f"there is no function g in {path}" and out["exitCode"] == 1, out


def test_a_dry_run_runs_nothing(api, calc):
    out = tool(api, "run_code_artifact", codePath="tools/calc.py", mode="dry_run", input={"a": 1})
    assert out["success"] and out["stdout"] == "" and out["mode"] == "dry_run"
    tool(api, "write_code_artifact", codePath="broken.py", content="def f(:")
    out = tool(api, "run_code_artifact", codePath="broken.py", mode="dry_run")
    assert not out["success"] and "SyntaxError" in out["stderr"]


def test_an_artifact_that_outlives_its_timeout_is_stopped(api):
    tool(api, "write_code_artifact", codePath="slow.py", content="import time; time.sleep(100)")
    out = tool(api, "run_code_artifact", codePath="slow.py", timeoutMs=1500)
    assert out["exitCode"] == 124 and "longer than 1500 ms" in out["error"]


def test_hostile_paths_are_refused_with_a_reason(api):
    for path, why in [("../x.py", "leads out"), ("a/../../x.py", "leads out"), ("./x.py", "leads out"), ("/etc/x.py", "absolute"),
                      ("~/x.py", "absolute"), ("a//x.py", "empty"), ("a/", "empty"), ("a\\b.py", "backslash"),
                      ("-rf.py", "dash"), ("a b.py", "characters"), ("x%2e.py", "characters"), ("ä.py", "characters"),
                      ("a/b/c/d/e/f/g/h/i.py", "folders"), ("input.json", "taken")]:
        for name in ("write_code_artifact", "read_code_artifact", "run_code_artifact", "delete_code_artifact"):
            fields = {"codePath": path} | ({"content": "1"} if name.startswith("write") else {})
            status, said = refused(api, name, **fields)
            assert status == 400 and why in said, (name, path, said)
    status, said = refused(api, "write_code_artifact", codePath="x.unknown", content="1")
    assert status == 400 and "say which it is" in said
    assert refused(api, "write_code_artifact", codePath="big.py", content="x" * (1 << 20) + "x")[0] == 413


def test_artifacts_survive_a_restart(api, daemon, calc):
    daemon.kill_child("serve")
    assert tool(api, "read_code_artifact", codePath="tools/calc.py")["sha256"] == calc["sha256"]


# ---- the guard ----


@pytest.fixture(scope="module")
def secret(api):
    assert api.post("/secrets", json={"name": "live", "value": KEY}).status_code == 201


def test_the_guard_finds_stored_and_passed_secrets(api, secret):
    encoded = base64.b64encode(f"user:{KEY}".encode()).decode()
    text = f"a {KEY} b {urllib.parse.quote(KEY)} c {encoded} d hunter2"
    out = tool(api, "guard_output", text=text, mode="redact", secrets=["hunter2"])
    assert out["found"] and out["count"] == 4 and KEY not in out["text"]
    assert out["text"].startswith("a [REDACTED] b [REDACTED] c ") and out["text"].endswith(" d [REDACTED]")
    out = tool(api, "guard_output", text=text)
    assert out["found"] and out["text"].startswith("[BLOCKED]") and out["mode"] == "block"
    out = tool(api, "guard_output", text="nothing here")
    assert out == {"found": False, "count": 0, "text": "nothing here", "mode": "block", "kinds": [], "known": out["known"]}
    out = tool(api, "guard_output", text=text, secrets=["hunter2"])
    assert out["kinds"] == ['the secret "live" of this team', "a secret that was passed"]


# Made up, and put together here so that nobody takes this file for a leak.
BODY = "9fQ2zL7bX4vK1mR8wT5yH3nJ6pD0sGcAeBuC"
LOOKS = {
    f"sk-proj-{BODY}": "an API key of the kind sk-...",
    f"sk-ant-api03-{BODY}": "an Anthropic key",
    f"ghp_{BODY}": "a GitHub token",
    f"glpat-{BODY[:20]}": "a GitLab token",
    "AKIA" + "QZ7T2M4XK9WB3LPC": "an AWS access key",
    "xoxb-" + "2917403586-9fQ2zL7bX4vK": "a Slack token",
    f"AIza{BODY[:35]}": "a Google API key",
    "e2b_" + "0f1e2d3c4b5a69788796a5b4c3d2e1f00918273a": "an E2B API key",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI3NTA5In0.{BODY}": "a JSON web token",
    f"-----BEGIN PRIVATE KEY-----\n{BODY}{BODY}\n-----END PRIVATE KEY-----": "a private key",
}


@pytest.fixture(scope="module")
def second_key(api):
    """An API key of the team that no call of these tests is made with: the daemon has its hash alone."""
    made = api.post("/api-keys", json={"name": "second"}).json()
    yield made["key"]
    assert api.delete(f"/api-keys/{made['id']}").status_code == 204


def spellings(key):
    return [key, base64.b64encode(f"user:{key}".encode()).decode(), "".join(f"%{byte:02X}" for byte in key.encode())]


@pytest.mark.attack
def test_the_guard_knows_the_team_s_api_keys(api, daemon, second_key):
    """A text holds an API key of the team, of which the daemon has the hash alone, plain or encoded: guard_output finds it and says what it is."""
    for key in (daemon.key, second_key):
        for text in spellings(key):
            out = tool(api, "guard_output", text=f"a {text} b", mode="redact")
            assert out["found"] and out["kinds"] == ["an API key of this team"] and text[8:] not in out["text"], out
            assert out["text"].startswith("a ") and out["text"].endswith(" b")
    assert tool(api, "guard_output", text=f"e2b_{'0' * 40} e2b_ {second_key[:-1]}")["count"] == 0


@pytest.mark.attack
@pytest.mark.parametrize("key", LOOKS, ids=LOOKS.values())
def test_the_guard_knows_keys_by_their_looks(api, key):
    """A text holds a key of a widespread service that nobody told the guard of, plain or encoded: guard_output finds it."""
    for text in spellings(key):
        out = tool(api, "guard_output", text=f"a {text} b", mode="redact")
        assert out["found"] and LOOKS[key] in out["kinds"] and BODY[8:20] not in out["text"], out


# ---- keys in artifacts ----


@pytest.fixture(scope="module")
def sealed(api):
    shell = {"baseUrl": "https://api.test", "header": {"name": "Authorization", "value": "Bearer sealed-in-a-shell-5521"}}
    assert api.put("/shells/account", json=shell).status_code == 200


@pytest.mark.attack
def test_an_artifact_with_a_key_is_refused_with_its_line_and_a_better_way(api, daemon, secret, sealed, second_key):
    """Code with a live key of the team, or with one of a widespread service, is written as an artifact: it is refused with the line and the better way, and stored nowhere."""
    known = {KEY: 'the secret "live" of this team', "sealed-in-a-shell-5521": 'the key of the API shell "account"',
             daemon.key: "an API key of this team", second_key: "an API key of this team", **LOOKS}
    for key, what in known.items():
        for text in spellings(key):
            content = f"import os\n\nKEY = '''{text}'''\nprint(1)\n"
            status, said = refused(api, "write_code_artifact", codePath="leaky.py", content=content, confirm=True)
            assert status == 400 and said.startswith(f"content: line 3 holds {what}; "), (said, text)
            assert "API shell" in said and "env name" in said and text not in said
    status, said = refused(api, "write_code_artifact", codePath="leaky.py", content="1", description=f"with {second_key}")
    assert status == 400 and said.startswith("description: line 1 holds an API key of this team")
    assert refused(api, "read_code_artifact", codePath="leaky.py")[0] == 404
    assert second_key.encode() not in b"".join(path.read_bytes() for path in (daemon.data / "state").glob("atoll.db*"))


def test_code_that_names_keys_without_holding_one_is_kept(api, secret):
    content = ("import os\nkey = os.environ['OPENAI_API_KEY']  # sk-... from https://example.com/keys\n"
               "assert key.startswith('sk-') and not key.startswith('ghp_')\nHEAD = '-----BEGIN PRIVATE KEY-----'\n"
               "AWS = 'AKIAIOSFODNN7EXAMPLE'\nSHA = '" + "0f1e2d3c" * 8 + "'\n"
               "print('http://shell.atoll.internal/account/user')\n")
    assert tool(api, "write_code_artifact", codePath="clean.py", content=content)["version"] == 1
    assert api.post("/secrets", json={"name": "short", "value": "import"}).status_code == 201
    assert tool(api, "write_code_artifact", codePath="clean.py", content=content, confirm=True)["version"] == 2
    assert api.delete("/secrets/short").status_code == 204


def test_the_guard_and_secrets_that_overlap(api):
    out = tool(api, "guard_output", text="xabcdefx cd", mode="redact", secrets=["abcd", "cdef", "cd", ""])
    assert out["text"] == "x[REDACTED]x [REDACTED]" and out["count"] == 2


def test_huge_texts_are_refused_and_large_ones_searched(api, secret):
    text = "x" * (4 << 20)
    assert refused(api, "guard_output", text=text + "x") == (413, "text: is larger than 4194304 bytes")
    out = tool(api, "guard_output", text=text[len(KEY):] + KEY, mode="redact")
    assert out["count"] == 1 and out["text"].endswith("x[REDACTED]")


def test_guard_before_reply(api, secret):
    """What a sandbox prints of the keys it was given is searched before it is shown."""
    token = "ghp_given-to-this-sandbox-7f1c"
    made = tool(api, "create_sandbox", github_token=token)
    other = tool(api, "create_sandbox")
    try:
        said = tool(api, "send_sandbox_input", sandbox_id=made["sandbox_id"], action="shell_command",
                    input="env | sort | base64 -w0; echo; env | grep GITHUB_TOKEN")
        assert token in said["stdout"]
        out = tool(api, "guard_output", text=said["stdout"], mode="redact", sandbox_id=made["sandbox_id"])
        assert out["count"] == 2 and token not in out["text"]
        assert tool(api, "guard_output", text=token, sandbox_id=other["sandbox_id"])["count"] == 0
        assert tool(api, "guard_output", text=token)["count"] == 1
        assert refused(api, "guard_output", text="x", sandbox_id="i" + "a" * 20)[0] == 404
    finally:
        for box in (made, other):
            tool(api, "kill_sandbox", sandbox_id=box["sandbox_id"])


def test_the_workflow_for_n8n_works_as_its_nodes_send_it(daemon):
    workflow = json.loads((ROOT / "docs" / "integrations" / "n8n-run-code.json").read_text())
    run, guard = (node["parameters"] for node in workflow["nodes"] if node["type"].endswith("httpRequest"))

    def send(parameters, body):
        url = parameters["url"].removeprefix("=").replace("{{ $env.ATOLL_URL }}", daemon.url)
        header, = parameters["headerParameters"]["parameters"]
        value = header["value"].removeprefix("=").replace("{{ $env.ATOLL_API_KEY }}", daemon.key)
        answer = httpx.request(parameters["method"], url, headers={header["name"]: value}, json=body, timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.json()

    said = send(run, json.loads(run["jsonBody"]))
    assert said["stdout"] == "45\n" and said["success"]
    assert send(guard, {"text": said["stdout"], "mode": "redact"})["text"] == "45\n"


def test_builders_may_send_the_key_as_a_bearer(daemon):
    answer = httpx.post(f"{daemon.url}/tools/run_code", headers={"Authorization": f"Bearer {daemon.key}"},
                        json={"code": "print(6 * 7)"}, timeout=120)
    assert answer.json()["logs"]["stdout"] == ["42\n"]
    document = httpx.get(f"{daemon.url}/tools/openapi.json").json()
    assert document["servers"][0]["url"] == daemon.url and "/tools/run_code" in document["paths"]


def test_calls_at_once_do_not_meet(api):
    answers = {}

    def run(n):
        answers[n] = execute(api, code=f"open('x', 'x').write('1'); print({n})", language="python")["stdout"]

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: f"{n}\n" for n in range(4)}
