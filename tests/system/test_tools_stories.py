"""Stories of people who build with the tools: an application that is changed and served, a private
repository, a template that is built once and used three times."""

import base64
import threading

import httpx
import pytest
from catalogue import Refused
from daemon import running, until
from test_transform import repository
from world import Quiet, Web, certificate

GIT = "198.51.100.5"
OPEN_GIT = "198.51.100.6"  # the same repository, for everybody
TOKEN = "ghp_token_that_opens_the_repository"


class Private(Quiet):
    """A repository that opens to one token alone."""

    def do_GET(self):
        wanted = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
        if self.headers["Authorization"] == f"Basic {wanted}":
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="private"')
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture(scope="module")
def git(tmp_path_factory):
    path = tmp_path_factory.mktemp("git")
    web = Web("git", certificate(f"{path}/git.pem", "github.com"))
    web.RequestHandlerClass = Private
    web.files = repository(path)
    return web


@pytest.fixture(scope="module")
def open_git(git):
    web = Web("git")
    web.files = git.files
    return web


@pytest.fixture(scope="module")
def daemon(git, open_git):
    with running("--egress-map", f"{GIT}:443=127.0.0.1:{git.server_port},{OPEN_GIT}:80=127.0.0.1:{open_git.server_port}") as daemon:
        yield daemon


def shell(tools, box, command, **fields):
    return tools.send_sandbox_input(sandbox_id=box, action="shell_command", input=command, **fields)


# ---- a private repository ----


@pytest.mark.parametrize("injection", ["sandbox", "command"])
def test_a_private_repository_is_cloned_with_the_token(tools, injection):
    clone = f"echo {GIT} github.com | sudo tee -a /etc/hosts >/dev/null; git clone -q https://github.com/repo/ got && cat got/file"
    envs = {"GIT_SSL_NO_VERIFY": "1"}
    box = tools.create_sandbox(github_token=TOKEN, env_injection=injection, envs=envs)["sandbox_id"]
    assert shell(tools, box, clone)["stdout"] == "cloned\n"
    assert shell(tools, box, f"grep -r {TOKEN} got; grep -rs {TOKEN} ~/.git*")["stdout"] == ""
    tools.kill_sandbox(sandbox_id=box)

    without = tools.create_sandbox(envs=envs)["sandbox_id"]
    assert not shell(tools, without, clone)["success"]
    tools.kill_sandbox(sandbox_id=without)


# ---- templates ----


def test_a_template_is_built_once_and_used_three_times(daemon, tools):
    recipe = dict(alias="story", pip=["six"], npm=["is-odd"], commands=["echo ready > ~/marker"],
                  start_cmd="python3 -m http.server 8000", ready_cmd="curl -sf localhost:8000/marker")
    built = tools.build_template(**recipe)
    assert built["success"] and built["status"] == "ready", built
    assert any("pip install" in line for line in built["log"])
    for _ in range(3):
        made = tools.create_sandbox(template_alias="story", ports=[8000])
        answer = httpx.get(f"{daemon.url}/marker", headers=made["urls"][0]["headers"])
        assert answer.text == "ready\n"
        assert shell(tools, made["sandbox_id"], "python3 -c 'import six' && ls $(npm root -g)")["stdout"].find("is-odd") >= 0
        tools.kill_sandbox(sandbox_id=made["sandbox_id"])
    again = tools.build_template(**recipe)
    steps = [line for line in again["log"] if "RUN" in line]
    assert len(steps) >= 3 and all(line.startswith("CACHED") for line in steps), again["log"]


def test_a_template_has_packages_repositories_and_a_size(tools):
    built = tools.build_template(alias="project", apt="sl", git_urls=[f"http://{OPEN_GIT}/repo/"], cpu_count=1, memory_mb=512,
                                 commands="cat ~/repo/file > ~/read")
    assert built["success"], built["log"]
    box = tools.create_sandbox(template_alias="project")["sandbox_id"]
    assert shell(tools, box, "cat read /home/user/repo/file; test -x /usr/games/sl && nproc")["stdout"] == "cloned\ncloned\n1\n"
    [row] = tools.list_sandboxes(ids=[box])["sandboxes"]
    assert (row["cpu_count"], row["memory_mb"]) == (1, 512)
    again = tools.build_template(alias="grown", base="template", **{"from": "project"}, commands=["true"])
    assert again["success"], again
    tools.kill_sandbox(sandbox_id=box)


def test_a_build_that_fails_says_where_and_why(tools):
    failed = tools.build_template(alias="fails", commands=["echo first", "echo why it fails >&2; exit 9"])
    assert not failed["success"] and failed["status"] == "error"
    assert failed["failed_step"] == "2" and "exit status 9" in failed["error"]
    assert any("why it fails" in line for line in failed["log"])
    with pytest.raises(Refused, match="no build that succeeded"):
        tools.create_sandbox(template_alias="fails")


def test_a_build_need_not_be_waited_for(tools):
    begun = tools.build_template(alias="later", commands=["sleep 1; echo done"], wait=False)
    assert begun["status"] in ("waiting", "building")

    def status():
        return {alias: row["build_status"] for row in tools.list_templates()["templates"] for alias in row["aliases"]}

    until(lambda: status().get("later") == "ready", "the build is listed as ready")


@pytest.mark.parametrize("fields, words", [
    ({}, "alias"),
    ({"alias": "Not a name"}, "Invalid name"),
    ({"alias": "x", "base": "image"}, "from: is required"),
    ({"alias": "x", "from": "python:3"}, "from: needs"),
    ({"alias": "x", "apt": ["--allow-downgrades"]}, "apt[0]:"),
    ({"alias": "x", "git_urls": ["--upload-pack=/bin/false"]}, "git_urls[0]:"),
    ({"alias": "x", "pip": 6}, "pip:"),
    ({"alias": "x", "cpu_count": 3}, "CPU count"),
    ({"alias": "x", "base": "template", "from": "no-such"}, "no-such"),
])
def test_a_template_that_cannot_be_is_refused_with_the_reason(tools, fields, words):
    try:
        answer = tools.build_template(**fields)
        assert not answer["success"] and words in answer["error"], answer
    except Refused as failure:
        assert failure.status < 500 and words in failure.message


# ---- presets ----


@pytest.mark.long
@pytest.mark.parametrize("preset, program", [("claude_code_latest", "claude --version"), ("openclaw", "openclaw --version"),
                                             ("remotion", "remotion --help"), ("pnpm", "pnpm --version"), ("bun", "bun --version")])
def test_a_preset_is_installed_and_works(tools, preset, program):
    box = tools.create_sandbox()["sandbox_id"]
    done = tools.install_packages(sandbox_id=box, preset=preset)
    assert done["success"] and done["results"][0]["name"] == preset, done
    assert shell(tools, box, program)["success"]
    tools.kill_sandbox(sandbox_id=box)


def test_presets_come_before_commands_as_the_sandbox_s_user(tools):
    box = tools.create_sandbox()["sandbox_id"]
    done = tools.install_packages(sandbox_id=box, preset="pnpm", presets="bun", commands="whoami; pnpm --version")
    assert [one["name"] for one in done["results"]] == ["pnpm", "bun", "whoami", "pnpm --version"] and done["success"], done
    assert done["results"][2]["output"] == "user\n"
    tools.kill_sandbox(sandbox_id=box)


# ---- Next.js ----


def page(daemon, made):
    return httpx.get(f"{daemon.url}/", headers=made["urls"][0]["headers"], timeout=60)


def changed_and_served(daemon, tools, made):
    """The application answers, and what is written into it is shown."""
    assert made["success"], made
    assert [step["name"] for step in made["steps"] if "shadcn" in step["name"]]
    assert page(daemon, made).status_code == 200
    tools.write_sandbox_file(sandbox_id=made["sandbox_id"], path=f"{made['project_dir']}/src/app/page.tsx",
                             content="export default function Page() { return <h1>Changed by a tool</h1>; }\n")
    until(lambda: "Changed by a tool" in page(daemon, made).text, "the changed page is served")
    tools.kill_sandbox(sandbox_id=made["sandbox_id"])


def test_a_next_js_application_is_made_changed_and_served(daemon, tools):
    made = tools.create_nextjs_sandbox(project_name="shop", port=4000, ports="8080,4000", envs={"STAGE": "test"},
                                       vercel_token="vt", vercel_project_id="vp", github_user="octocat", timeout_seconds=2400)
    assert made["project_dir"] == "/home/user/shop" and [one["port"] for one in made["urls"]] == [4000, 8080]
    assert made["log_path"] == "/tmp/nextjs-dev.log" and made["template_alias"] == "base"
    words = shell(tools, made["sandbox_id"], "echo $STAGE $VERCEL_TOKEN $VERCEL_PROJECT_ID $GITHUB_USER; ls shop/src/app/page.tsx shop/eslint*")
    assert words["stdout"].startswith("test vt vp octocat\nshop/eslint.config.mjs\nshop/src/app/page.tsx"), words
    changed_and_served(daemon, tools, made)


@pytest.mark.long
def test_all_components_are_added_when_they_are_asked_for(tools):
    """They come from shadcn's own registry: where that cannot be reached, the application runs and the note says so."""
    made = tools.create_nextjs_sandbox(shadcn_add_all=True)
    steps = {step["name"]: step["success"] for step in made["steps"]}
    assert made["success"] and "shadcn init" in steps, made
    if steps["shadcn init"] and steps["shadcn add --all"]:
        assert int(shell(tools, made["sandbox_id"], "ls nextjs-app/src/components/ui | wc -l")["stdout"]) > 20
    else:
        assert "shadcn could not be set up" in made["note"]
    tools.kill_sandbox(sandbox_id=made["sandbox_id"])


@pytest.mark.long
def test_a_next_js_application_runs_with_bun(daemon, tools):
    made = tools.create_nextjs_bun_sandbox(github_token="ghp_story", vercel_team_id="team_story")
    assert made["steps"][0]["name"] == "bun"
    assert made["project_dir"] == "/home/user/nextjs-app" and made["log_path"] == "/tmp/nextjs-bun-dev.log"
    assert shell(tools, made["sandbox_id"], "echo $GITHUB_TOKEN $VERCEL_ORG_ID")["stdout"] == "ghp_story team_story\n"
    changed_and_served(daemon, tools, made)


def test_a_development_server_that_does_not_come_up_is_told_with_its_log(tools):
    answers = []
    making = threading.Thread(target=lambda: answers.append(
        tools.create_nextjs_bun_sandbox(project_name="broken", metadata={"story": "broken"})))
    making.start()
    box = until(lambda: tools.list_sandboxes(metadata={"story": "broken"})["sandboxes"], "the sandbox is there")[0]["sandbox_id"]
    until(lambda: shell(tools, box, "test -f broken/next.config.ts")["success"], "its configuration is written")
    tools.write_sandbox_file(sandbox_id=box, path="broken/next.config.ts", content="throw new Error('broken on purpose');\n")
    making.join()
    assert answers[0]["success"] is False
    assert "broken on purpose" in answers[0]["log"]
    tools.kill_sandbox(sandbox_id=box)


def test_a_client_that_leaves_in_the_middle_leaves_no_sandbox(daemon, tools):
    mine = {"story": "left"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{daemon.url}/tools/create_nextjs_sandbox", json={"metadata": mine}, timeout=3,
                   headers={"X-API-Key": daemon.key})
    until(lambda: not tools.list_sandboxes(metadata=mine)["sandboxes"], "its sandbox is gone")


def test_a_name_that_npm_would_not_take_is_refused(tools):
    for name in ("../up", "--help", "Shop", "a b"):
        with pytest.raises(Refused, match="project_name"):
            tools.create_nextjs_sandbox(project_name=name)
