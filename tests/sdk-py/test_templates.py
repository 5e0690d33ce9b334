"""Templates built with the official SDK: what a builder says is what the next sandbox has."""

import asyncio
import uuid

import pytest
from e2b import AsyncTemplate, CopyItem, Sandbox, Template, wait_for_file, wait_for_port
from e2b.exceptions import BuildException, TemplateException


@pytest.fixture
def name():
    """A name of this test's own."""
    return f"t-{uuid.uuid4().hex[:12]}"


def build(template, name, **options):
    lines = []
    info = Template.build(template, name, on_build_logs=lambda e: lines.append(e.message), **options)
    return info, lines


def test_a_builder_s_steps_are_in_the_sandbox(name, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print('copied')\n")
    (tmp_path / "note").write_text("noted\n")
    template = (
        Template(file_context_path=tmp_path)
        .from_base_image()
        .set_envs({"STAGE": "test", "WHERE": "$STAGE/here"})
        .set_workdir("/app")
        .copy_items([CopyItem(src="src/*", dest="code/")])
        .copy("note", "note.txt", mode=0o600)
        .make_dir("made/deep")
        .make_symlink("/app/code/main.py", "/app/link.py")
        .run_cmd(["echo one > out", "echo two >> out"])
        .rename("/app/out", "/app/result")
        .remove("/app/made/deep", recursive=True)
    )
    build(template, name)
    with Sandbox.create(name) as sandbox:
        assert sandbox.commands.run("python3 link.py && cat result && echo $WHERE && pwd").stdout == (
            "copied\none\ntwo\ntest/here\n/app\n"
        )
        assert sandbox.commands.run("stat -c '%U %a' note.txt; ls made").stdout == "user 600\n"


def test_a_service_is_up_when_the_sandbox_is(name):
    template = (
        Template()
        .from_template("base")
        .set_start_cmd("python3 -m http.server 8765 -d /usr/share", wait_for_port(8765))
    )
    build(template, name)
    for _ in range(2):
        with Sandbox.create(name) as sandbox:
            assert sandbox.commands.run("curl -sf localhost:8765 | head -1").exit_code == 0


def test_a_failure_tells_what_failed(name):
    with pytest.raises(BuildException) as failed:
        build(Template().from_base_image().run_cmd("echo before; exit 5"), name)
    assert "exit status 5" in str(failed.value)


def test_a_service_that_never_gets_ready_because_it_ends_is_named(name):
    template = Template().from_base_image().set_start_cmd("exit 6", wait_for_file("/nowhere"))
    with pytest.raises(BuildException) as failed:
        build(template, name)
    assert "the start command 'exit 6'" in str(failed.value)


@pytest.mark.parametrize("bad", ["no good", "x:", ":x", "UPPER/../x"])
def test_a_bad_name_is_refused(bad):
    with pytest.raises((BuildException, TemplateException)):
        build(Template().from_base_image(), bad)


@pytest.mark.parametrize("size", [{"cpu_count": 3}, {"memory_mb": 129}, {"cpu_count": 64}])
def test_a_bad_size_is_refused(name, size):
    with pytest.raises(BuildException):
        build(Template().from_base_image(), name, **size)


def test_the_second_build_is_cached_unless_it_is_told_not_to_be(name):
    template = Template().from_base_image().run_cmd(f"echo {name}")
    build(template, name)
    _, lines = build(template, name)
    assert any(line.startswith("CACHED [builder 1/1] RUN") for line in lines)
    _, lines = build(template, name, skip_cache=True)
    assert not any(line.startswith("CACHED") for line in lines)


def test_tags_and_names(name):
    info, _ = build(Template().from_base_image().run_cmd("echo 1 > /tmp/v"), f"{name}:v1")
    assert info.tags == ["v1"]
    assert Template.exists(name)
    assert not Template.exists(f"{name}x")
    Template.assign_tags(f"{name}:v1", ["stable", "default"])
    assert {tag.tag for tag in Template.get_tags(name)} == {"v1", "stable", "default"}
    with Sandbox.create(f"{name}:stable") as sandbox:
        assert sandbox.files.read("/tmp/v") == "1\n"
    Template.remove_tags(name, "stable")
    with pytest.raises(Exception, match="does not exist"):
        Sandbox.create(f"{name}:stable")


def test_builds_run_beside_each_other(name):
    async def all_at_once():
        builds = [
            AsyncTemplate.build(
                AsyncTemplate().from_base_image().run_cmd(f"echo {i} > /tmp/i"), f"{name}-{i}"
            )
            for i in range(5)
        ]
        return await asyncio.gather(*builds)

    assert len(asyncio.run(all_at_once())) == 5
    for i in range(5):
        with Sandbox.create(f"{name}-{i}") as sandbox:
            assert sandbox.files.read("/tmp/i") == f"{i}\n"


def test_the_second_version_of_a_build_request_answers_with_a_template(api):
    """SDKs 2.1 to 2.5 read all of these."""
    answer = api.post("/v2/templates", json={"alias": "of-version-two", "cpuCount": 2, "memoryMB": 512})
    assert answer.status_code == 202, answer.text
    made = answer.json()
    try:
        assert {"aliases", "buildCount", "buildID", "cpuCount", "createdAt", "createdBy", "diskSizeMB", "envdVersion",
                "lastSpawnedAt", "memoryMB", "public", "spawnCount", "templateID", "updatedAt"} <= set(made)
        assert api.get(f"/templates/{made['templateID']}/builds/{made['buildID']}/status").status_code == 200
    finally:
        api.delete(f"/templates/{made['templateID']}")
