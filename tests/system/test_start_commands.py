"""What a template starts in every sandbox: up before create answers, or a create that says why not."""

import json
import shutil

import httpx
import pytest
from daemon import ROOT, Daemon, until
from e2b import Sandbox
from e2b.exceptions import SandboxException


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    templates = tmp_path_factory.mktemp("templates")
    shutil.copytree(ROOT / "templates" / "base", templates / "base")
    shutil.copy(ROOT / "templates" / "recipe.sh", templates)
    daemon = Daemon("--templates", str(templates))
    daemon.settings_of_base = templates / "base" / "settings.json"
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.remove()


def starts_with(daemon, start_cmd, ready_cmd, env=None):
    """Gives the base template its commands, for the next start."""
    daemon.stop()
    settings = {"cpuCount": 2, "memoryMB": 1024, "diskSizeMB": 10240, "startCmd": start_cmd}
    settings["env"] = env or {}
    if ready_cmd:
        settings["readyCmd"] = ready_cmd
    daemon.settings_of_base.write_text(json.dumps(settings))
    daemon.start()


def create_refused(daemon):
    with pytest.raises(SandboxException) as refused:
        Sandbox.create(**daemon.sdk)
    assert Sandbox.list(**daemon.sdk).next_items() == []
    return str(refused.value)


def test_the_service_answers_when_create_does(daemon):
    starts_with(
        daemon,
        "cd /tmp && sleep 1 && exec python3 -m http.server 8000",
        "curl -sf localhost:8000",
    )
    with Sandbox.create(**daemon.sdk) as sandbox:
        assert "Directory listing" in sandbox.commands.run("curl -s localhost:8000").stdout


def test_the_template_s_variables_and_user_are_the_command_s(daemon):
    starts_with(
        daemon,
        'echo "$(whoami) $PWD $WORD" > /tmp/who; sleep 600',
        "test -s /tmp/who",
        {"WORD": "given"},
    )
    with Sandbox.create(**daemon.sdk) as sandbox:
        assert sandbox.files.read("/tmp/who") == "user /home/user given\n"


def test_a_start_command_that_fails_fails_the_create(daemon):
    starts_with(daemon, "echo no such thing >&2; exit 3", "false")
    said = create_refused(daemon)
    assert "the start command 'echo no such thing" in said
    assert "exit status 3: no such thing" in said
    until(lambda: daemon.jails() == {}, "nothing is left of it")


def test_a_start_command_without_a_check_that_fails_at_once_is_seen(daemon):
    starts_with(daemon, "exit 4", None)
    assert "exit status 4" in create_refused(daemon)


def test_a_start_command_that_leaves_its_service_behind_is_fine(daemon):
    starts_with(daemon, "setsid sleep 777 & exit 0", "pgrep -f 'sleep 777'")
    with Sandbox.create(**daemon.sdk) as sandbox:
        assert sandbox.commands.run("pgrep -fc 'sleep 77[7]'").exit_code == 0


def test_a_ready_command_that_never_succeeds_is_named(daemon):
    daemon.settings += ["--start-ready-s", "5"]
    starts_with(daemon, "sleep 600", "test -e /nowhere")
    answer = httpx.post(
        f"{daemon.url}/v2/sandboxes",
        json={"templateID": "base"},
        headers={"X-API-Key": daemon.key},
        timeout=120,
    )
    assert answer.status_code == 504
    assert "the ready command 'test -e /nowhere' did not succeed within 5 s" in answer.text
    until(lambda: daemon.jails() == {}, "nothing is left of it")
