"""Templates are built step by step, from the cache where they can be; whatever goes wrong ends in
`error` with a reason that names the step, and leaves nothing on disk."""

import tarfile
import uuid

import httpx
import pytest
from builder import Builder, archive, run
from daemon import until
from e2b import Sandbox
from teams import two_teams


@pytest.fixture(scope="module")
def daemon():
    with two_teams("--builds-max", "2") as daemon:
        yield daemon


@pytest.fixture
def builder(daemon):
    return Builder(daemon)


def fresh():
    """A word that no earlier build has seen, so that no step is cached."""
    return uuid.uuid4().hex


def saved(daemon):
    """What the keeper has kept, by name."""
    return {path.name for path in (daemon.data / "pool" / "saved").iterdir()}


def in_sandbox(daemon, template, command, user=None):
    with Sandbox.create(template, timeout=60, **daemon.sdk) as sandbox:
        return sandbox.commands.run(command, user=user).stdout


# ---- what steps do ----


def test_steps_leave_user_directory_and_variables_to_the_sandbox(daemon, builder):
    steps = [
        {"type": "USER", "args": ["someone", "true"]},
        {"type": "WORKDIR", "args": ["/srv/one"]},
        {"type": "WORKDIR", "args": ["two"]},
        {"type": "ENV", "args": ["A", "1", "B", "${A}:${NONE:-none}:$(id)`id`"]},
        run("echo $PWD $(whoami) $A $B > here"),
    ]
    ids, status = builder.build(steps, name="context")
    assert status["status"] == "ready", builder.log(ids)
    out = in_sandbox(daemon, "context", "cat here; pwd; whoami; echo $A; sudo whoami; stat -c %U .")
    assert out.splitlines() == [
        "/srv/one/two someone 1 1:none:$(id)`id`",
        "/srv/one/two",
        "someone",
        "1",
        "root",
        "someone",
    ]


def test_a_run_step_may_name_its_user(daemon, builder):
    ids, status = builder.build([run("whoami > /tmp/who", "root")], name="asroot")
    assert status["status"] == "ready"
    assert in_sandbox(daemon, "asroot", "cat /tmp/who") == "root\n"


def test_the_output_of_a_step_is_in_the_log(builder):
    ids, _ = builder.build([run(f"echo {fresh()} out; echo err >&2; printf 'a\\rb\\n'")])
    log = builder.log(ids)
    assert any(line.startswith("[builder 1/1] [stdout]: ") and "out" in line for line in log)
    assert "[builder 1/1] [stderr]: err" in log
    assert "[builder 1/1] [stdout]: b" in log


def test_a_template_builds_on_another(daemon, builder):
    name = f"below-{fresh()[:8]}"
    builder.build([run("echo lower > /tmp/below"), {"type": "ENV", "args": ["L", "1"]}], name=name)
    _, status = builder.build(
        [run("echo $L > /tmp/above")], name="above", base={"fromTemplate": name}
    )
    assert status["status"] == "ready"
    assert in_sandbox(daemon, "above", "cat /tmp/below /tmp/above") == "lower\n1\n"


def test_a_template_without_steps_is_its_base(daemon, builder):
    ids, status = builder.build(name="same", base={"fromImage": "debian:13"})
    assert status["status"] == "ready"
    assert "STAND-IN: debian:13 is not fetched; the template base" in builder.log(ids)[0]
    assert in_sandbox(daemon, "same", "whoami") == "user\n"


# ---- the cache ----


def test_the_second_build_is_cached_up_to_what_changed(builder):
    word = fresh()
    steps = [run(f"echo {word} > /tmp/one"), run("date +%N > /tmp/two"), run("cat /tmp/one")]
    builder.build(steps)
    ids, _ = builder.build(steps)
    assert [line.startswith("CACHED [builder ") for line in builder.log(ids)][1:4] == [True] * 3

    steps[1]["args"] = ["date +%N%N > /tmp/two"]
    ids, _ = builder.build(steps)
    log = [line for line in builder.log(ids) if "RUN" in line]
    assert [line.startswith("CACHED") for line in log] == [True, False, False]


def test_a_forced_step_and_all_behind_it_are_run(daemon, builder):
    steps = [run(f"echo {fresh()}"), run("date +%s%N > /tmp/when"), run("cp /tmp/when /tmp/then")]
    builder.build(steps, name="forced")
    first = in_sandbox(daemon, "forced", "cat /tmp/then")
    steps[1]["force"] = True
    ids, _ = builder.build(steps, name="forced")
    log = [line for line in builder.log(ids) if "RUN" in line]
    assert [line.startswith("CACHED") for line in log] == [True, False, False]
    assert in_sandbox(daemon, "forced", "cat /tmp/then") != first

    ids, _ = builder.build(steps, name="forced", force=True)
    assert not any(line.startswith("CACHED") for line in builder.log(ids))


def test_what_was_cached_and_lost_is_built_again(daemon, builder):
    steps = [run(f"echo {fresh()} > /tmp/kept")]
    builder.build(steps, name="lost")
    before = builder.call("POST", "/templates/prune", json={"unusedSeconds": 0}).json()
    assert before["layers"] > 0
    ids, status = builder.build(steps, name="lost")
    assert status["status"] == "ready"
    assert not any(line.startswith("CACHED") for line in builder.log(ids))


def test_another_team_does_not_get_our_cache(daemon, builder):
    steps = [run(f"echo {fresh()}")]
    builder.build(steps)
    other = Builder(daemon, daemon.other_key)
    ids, status = other.build(steps, name="theirs")
    assert status["status"] == "ready"
    assert not any(line.startswith("CACHED") for line in other.log(ids))
    assert builder.create("theirs").status_code == 404


# ---- COPY ----


def copy(builder, name, entries, source, target, owner="", mode="", then="true"):
    ids = builder.request(name)
    files = builder.upload(ids[0], archive(*entries))
    steps = [
        {"type": "COPY", "args": [source, target, owner, mode], "filesHash": files},
        run(then),
    ]
    builder.start(ids, steps)
    return ids, builder.wait(ids)


def test_copy_follows_docker_s_rules(daemon, builder):
    tree = [
        ("dir/a", b"a"),
        ("dir/sub/b", b"b"),
        ("dir/link", tarfile.SYMTYPE, "/absolute/target"),
    ]
    cases = {
        "dir/*": ("into", "cat into/a into/sub/b; readlink into/link"),
        "./dir": ("/opt/into/", "cat /opt/into/a /opt/into/sub/b; readlink /opt/into/link"),
    }
    for source, (target, check) in cases.items():
        ids, status = copy(builder, "copied", tree, source, target, then=check)
        assert status["status"] == "ready", builder.log(ids)
        out = [line for line in builder.log(ids) if "[builder 2/2] [stdout]" in line]
        assert out == [
            "[builder 2/2] [stdout]: ab/absolute/target",
        ], (source, out)


def test_copy_of_one_file_takes_owner_and_mode(builder):
    for target, where in (("/opt/x/name", "/opt/x/name"), ("/opt/y/", "/opt/y/file")):
        ids, status = copy(
            builder,
            "onefile",
            [("file", b"text\n")],
            "file",
            target,
            owner="root",
            mode="0640",
            then=f"stat -c '%U:%G %a' {where}; sudo cat {where}",
        )
        assert status["status"] == "ready", builder.log(ids)
        assert "[builder 2/2] [stdout]: root:root 640" in builder.log(ids)
        assert "[builder 2/2] [stdout]: text" in builder.log(ids)


def test_equal_archives_lie_on_disk_once(daemon, builder):
    template, _ = builder.request("files")
    data = archive(("f", fresh().encode()))
    builder.upload(template, data)
    before = len(list((daemon.data / "state" / "files").iterdir()))
    other = builder.call("GET", f"/templates/{template}/files/{'0' * 64}").json()
    assert other["present"] is False
    assert httpx.put(other["url"], content=data).status_code == 200
    assert builder.call("GET", f"/templates/{template}/files/{'0' * 64}").json()["present"] is True
    assert len(list((daemon.data / "state" / "files").iterdir())) == before


def test_an_upload_needs_the_address_it_was_given(builder):
    template, _ = builder.request("files")
    url = builder.call("GET", f"/templates/{template}/files/{'1' * 64}").json()["url"]
    assert httpx.put(url[:-4] + "0000", content=b"x").status_code == 403
    assert httpx.put(url.replace("1" * 64, "2" * 64), content=b"x").status_code == 403
    assert httpx.put(url.partition("?")[0], content=b"x").status_code == 403


def test_an_upload_that_is_cut_off_leaves_nothing(daemon, builder):
    template, _ = builder.request("files")
    hash_ = fresh() * 2
    url = builder.call("GET", f"/templates/{template}/files/{hash_}").json()["url"]
    before = set((daemon.data / "state" / "files").iterdir())

    def half():
        yield b"x" * 300000
        raise OSError("the client goes")

    with pytest.raises(OSError):
        httpx.put(url, content=half(), headers={"Content-Length": "900000"})
    until(
        lambda: set((daemon.data / "state" / "files").iterdir()) == before, "the part is removed"
    )
    assert builder.call("GET", f"/templates/{template}/files/{hash_}").json()["present"] is False


# ---- bad input: each ends in error, names the step, and leaves nothing ----

BAD_STEPS = {
    "unknown": ({"type": "VOLUME", "args": ["/x"]}, "unknown step 'VOLUME'"),
    "no command": ({"type": "RUN", "args": []}, "RUN requires command argument"),
    "odd": ({"type": "ENV", "args": ["A"]}, "requires both a key and value"),
    "no user": ({"type": "USER", "args": ["a b"]}, "cannot be a user's name"),
    "no path": ({"type": "WORKDIR", "args": [""]}, "WORKDIR requires a path"),
    "no files": ({"type": "COPY", "args": ["a", "b"]}, "requires files hash"),
    "not uploaded": (
        {"type": "COPY", "args": ["a", "b"], "filesHash": "f" * 64},
        "were not uploaded",
    ),
    "outside": (
        {"type": "COPY", "args": ["../a", "b"], "filesHash": "f" * 64},
        "leads out of the context",
    ),
    "mode": (
        {"type": "COPY", "args": ["a", "b", "", "rwx"], "filesHash": "f" * 64},
        "no octal mode",
    ),
    "fails": (run("exit 7"), "failed to run command 'exit 7': exit status 7"),
    "nobody": (
        run("whoami", "root123"),
        "failed to run command 'whoami': command failed: unauthenticated: "
        "invalid username: 'root123'",
    ),
    "killed": (run("kill -9 $$"), "signal: killed"),
    "disk": (run("fallocate -l 20G /var/tmp/big", "root"), "exit status 1"),
    "brace": ({"type": "ENV", "args": ["A", "${B"]}, "closing brace"),
}


@pytest.mark.parametrize("case", BAD_STEPS)
def test_a_bad_step_is_named(daemon, builder, case):
    step, reason = BAD_STEPS[case]
    ids, status = builder.build([run("true"), step], name="bad")
    assert status["status"] == "error"
    assert reason in status["reason"]["message"]
    assert status["reason"]["step"] == "2"
    assert any("Build failed" in line for line in builder.log(ids))
    until(lambda: daemon.jails() == {}, "the build's jail is gone")
    assert builder.create("bad").status_code == 404


HOSTILE = {
    "dots": ([("../escape", b"x")], "escape"),
    "absolute hard link": ([("l", tarfile.LNKTYPE, "../../etc/shadow")], "l"),
    "device": ([("f/null", tarfile.CHRTYPE)], "null"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused(daemon, builder, case):
    entries, named = HOSTILE[case]
    ids, status = copy(builder, "hostile", entries, ".", "/opt/in/")
    assert status["status"] == "error"
    assert status["reason"]["step"] == "1"
    assert named in status["reason"]["message"]
    assert daemon.jails() == {}


def test_no_archive_at_all_is_refused(builder):
    ids = builder.request("hostile")
    files = builder.upload(ids[0], b"this is no archive" * 100)
    builder.start(ids, [{"type": "COPY", "args": ["a", "b"], "filesHash": files}])
    status = builder.wait(ids)
    assert (status["status"], status["reason"]["step"]) == ("error", "1")


@pytest.mark.parametrize(
    "base, reason",
    [
        ({"fromTemplate": "nowhere"}, "template 'nowhere' not found"),
        ({"fromTemplate": "base:none"}, "tag 'none' does not exist for template 'base'"),
        ({"fromTemplate": "a b"}, "Invalid template reference"),
    ],
)
def test_a_bad_base_is_named(builder, base, reason):
    ids, status = builder.build(name="badbase", base=base)
    assert status["status"] == "error"
    assert reason in status["reason"]["message"]
    assert status["reason"]["step"] == "base"


@pytest.mark.parametrize(
    "body, reason",
    [
        ({"name": ""}, "Name is required"),
        ({"name": "a b"}, "Invalid name"),
        ({"name": ":x"}, "Invalid name"),
        ({"name": "x:"}, "Invalid name"),
        ({"name": "x" * 129}, "Invalid name"),
        ({"name": "ok", "tags": ["no good"]}, "Invalid tag"),
        ({"name": "ok", "tags": "v1"}, "tags"),
        ({"name": "base"}, "'base' is a built-in template"),
        ({"name": "base:v2"}, "'base' is a built-in template"),
        ({"name": "ok", "cpuCount": 3}, "CPU count must be 1 or an even number"),
        ({"name": "ok", "cpuCount": 64}, "CPU count must be at most 32"),
        ({"name": "ok", "cpuCount": 0}, "CPU count"),
        ({"name": "ok", "memoryMB": 513}, "Memory must be divisible by 2"),
        ({"name": "ok", "memoryMB": 64}, "Memory must be at least"),
        ({"name": "ok", "memoryMB": 1 << 30}, "Memory can't be higher than"),
    ],
)
def test_a_bad_request_is_refused(builder, body, reason):
    answer = builder.call("POST", "/v3/templates", json=body)
    assert answer.status_code == 400
    assert reason in answer.json()["message"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"fromImage": "a", "fromTemplate": "b"},
        {"fromImage": 7},
        {"fromTemplate": "base", "steps": "RUN"},
        {"fromTemplate": "base", "steps": ["RUN"]},
        {"fromTemplate": "base", "steps": [{"type": "RUN", "args": [1]}]},
        {"fromTemplate": "base", "steps": [{"args": []}]},
        {"fromTemplate": "base", "steps": [run("true")] * 501},
        {"fromTemplate": "base", "force": "yes"},
    ],
)
def test_a_bad_start_is_refused_and_may_be_repeated(builder, body):
    ids = builder.request("again")
    answer = builder.call("POST", f"/v2/templates/{ids[0]}/builds/{ids[1]}", json=body)
    assert answer.status_code == 400, answer.text
    assert builder.status(ids)["status"] == "waiting"
    builder.start(ids)
    assert builder.wait(ids)["status"] == "ready"


def test_a_build_is_started_once(builder):
    ids, _ = builder.build()
    answer = builder.call(
        "POST", f"/v2/templates/{ids[0]}/builds/{ids[1]}", json={"fromTemplate": "base"}
    )
    assert (answer.status_code, answer.json()["message"]) == (400, "build is not in waiting state")


# ---- start and ready ----


def test_a_start_command_that_fails_fails_the_build(daemon, builder):
    _, status = builder.build(name="nostart", startCmd="echo broken >&2; exit 9", readyCmd="false")
    assert status["status"] == "error"
    assert "the start command 'echo broken" in status["reason"]["message"]
    assert "exit status 9" in status["reason"]["message"]
    assert status["reason"]["step"] == "finalize"
    assert daemon.jails() == {}


def test_the_service_of_a_template_is_up_in_its_sandboxes(daemon, builder):
    ids, status = builder.build(
        name="service",
        startCmd="cd /tmp && exec python3 -m http.server 8123",
        readyCmd="curl -sf localhost:8123",
    )
    assert status["status"] == "ready"
    kept = next(row for row in builder.call("GET", "/templates").json() if row["templateID"] == ids[0])
    assert kept["diskUsedBytes"] > 1 << 20  # what was kept running of it; its files are next to nothing
    assert "listing" in in_sandbox(daemon, "service", "curl -s localhost:8123")
    builder.build(name="inherits", base={"fromTemplate": "service"})
    assert "listing" in in_sandbox(daemon, "inherits", "curl -s localhost:8123")


# ---- several at once ----


def test_builds_queue_and_show_their_place(daemon, builder):
    waits = [builder.request(f"queue{i}") for i in range(4)]
    for ids in waits:
        builder.start(ids, [run(f"sleep 2; echo {fresh()}")])
    assert all(builder.status(ids)["status"] == "building" for ids in waits)
    assert [builder.status(ids).get("queuePosition") for ids in waits] == [None, None, 1, 2]
    assert any("number 1 in the queue" in line for line in builder.log(waits[2]))
    assert [builder.wait(ids)["status"] for ids in waits] == ["ready"] * 4


def test_the_later_of_two_builds_of_one_name_counts(daemon, builder):
    first, second = builder.request("twice"), builder.request("twice")
    builder.start(first, [run("sleep 100; echo first > /tmp/which")])
    builder.start(second, [run(f"echo {fresh()}; echo second > /tmp/which")])
    assert builder.wait(second)["status"] == "ready"
    ended = builder.wait(first)
    assert ended["status"] == "error"
    assert "a later one of the same name" in ended["reason"]["message"]
    assert in_sandbox(daemon, "twice", "cat /tmp/which") == "second\n"


def test_two_tags_of_one_name_are_built_beside_each_other(daemon, builder):
    ids = [builder.request(f"tagged:{tag}") for tag in ("one", "two")]
    for i, build in enumerate(ids):
        builder.start(build, [run(f"sleep 1; echo {i} > /tmp/which")])
    assert [builder.wait(build)["status"] for build in ids] == ["ready", "ready"]
    assert in_sandbox(daemon, "tagged:one", "cat /tmp/which") == "0\n"
    assert in_sandbox(daemon, "tagged:two", "cat /tmp/which") == "1\n"
    assert builder.create("tagged").status_code == 404


def test_a_build_is_cancelled(daemon, builder):
    ids = builder.request("cancelled")
    builder.start(ids, [run(f"echo {fresh()}; sleep 300")])
    until(lambda: daemon.jails(), "its jail runs")
    path = f"/templates/{ids[0]}/builds/{ids[1]}"
    assert builder.call("DELETE", path).status_code == 204
    status = builder.wait(ids)
    assert "cancelled" in status["reason"]["message"]
    until(lambda: daemon.jails() == {}, "its jail is gone")
    assert builder.call("DELETE", path).status_code == 409


# ---- the log ----


def test_the_log_comes_in_pieces_of_a_hundred(builder):
    ids, _ = builder.build([run(f"echo x{fresh()}; seq 1000 1300")])
    first = builder.status(ids)["logEntries"]
    assert len(first) == 100
    numbers = [line.rpartition(" ")[2] for line in builder.log(ids) if "[stdout]: 1" in line]
    assert numbers == [str(n) for n in range(1000, 1301)]
    assert builder.status(ids, limit=3)["logEntries"] == first[:3]
    assert builder.status(ids, level="error")["logEntries"] == []
    answer = builder.call(
        "GET", f"/templates/{ids[0]}/builds/{ids[1]}/status", params={"limit": 101}
    )
    assert answer.status_code == 400


@pytest.mark.parametrize("line, size", [("a" * 48, 9000000), ("", 3000000)])
def test_endless_output_is_cut_and_the_step_goes_on(builder, line, size):
    ids, status = builder.build([run(f"echo {fresh()}; yes '{line}' | head -c {size}")])
    assert status["status"] == "ready"
    backward = builder.call(
        "GET", f"/templates/{ids[0]}/builds/{ids[1]}/logs", params={"direction": "backward"}
    ).json()["logs"]
    assert any("the rest is not kept" in entry["message"] for entry in backward)


# ---- names ----


def test_tags_are_assigned_listed_and_removed(daemon, builder):
    ids, _ = builder.build([run(f"echo {fresh()} > /tmp/v1")], name="names")
    answer = builder.call(
        "POST", "/templates/tags", json={"target": "names", "tags": ["v1", "stable"]}
    )
    assert (answer.status_code, answer.json()) == (
        201,
        {"buildID": ids[1], "tags": ["v1", "stable"]},
    )
    builder.build([run("rm -f /tmp/v1")], name="names")
    assert in_sandbox(daemon, "names:v1", "ls /tmp/v1") == "/tmp/v1\n"
    tags = builder.call("GET", f"/templates/{ids[0]}/tags").json()
    assert {tag["tag"] for tag in tags} == {"default", "v1", "stable"}
    gone = builder.call("DELETE", "/templates/tags", json={"name": "names", "tags": ["v1"]})
    assert gone.status_code == 204
    assert builder.create("names:v1").status_code == 404
    refused = builder.call("DELETE", "/templates/tags", json={"name": "names", "tags": ["default"]})
    assert refused.status_code == 400


def test_a_template_in_use_is_not_deleted(daemon, builder):
    ids, _ = builder.build([run(f"echo {fresh()}")], name="inuse")
    with Sandbox.create("inuse", timeout=60, **daemon.sdk) as sandbox:
        refused = builder.call("DELETE", "/templates/inuse")
        assert refused.status_code == 400
        assert "running sandboxes using it" in refused.json()["message"]
        assert sandbox.commands.run("true").exit_code == 0
    assert builder.call("DELETE", "/templates/inuse").status_code == 204
    assert builder.call("GET", "/templates/aliases/inuse").status_code == 404
    assert builder.call("DELETE", "/templates/inuse").status_code == 404
    final = f"saved-build-f{ids[1].replace('-', '')}"
    until(lambda: final not in saved(daemon), "its layer is gone")


def test_what_others_are_built_on_stays(daemon, builder):
    builder.build([run(f"echo {fresh()} > /tmp/below")], name="ground")
    builder.build(name="house", base={"fromTemplate": "ground"})
    assert builder.call("DELETE", "/templates/ground").status_code == 204
    builder.call("POST", "/templates/prune", json={})
    assert in_sandbox(daemon, "house", "ls /tmp/below") == "/tmp/below\n"


def test_a_sandbox_keeps_the_build_it_runs_on(daemon, builder):
    builder.build([run(f"echo {fresh()} > /tmp/old")], name="replaced")
    with Sandbox.create("replaced", timeout=60, **daemon.sdk) as sandbox:
        builder.build([run(f"echo {fresh()} > /tmp/new")], name="replaced")
        builder.call("POST", "/templates/prune", json={})
        assert sandbox.commands.run("cat /tmp/old && ls /usr/bin | wc -l").exit_code == 0


def test_only_what_is_public_is_for_others(daemon, builder):
    builder.build([run(f"echo {fresh()}")], name="shared")
    space = builder.call("GET", "/templates/shared").json()["names"][0].partition("/")[0]
    other = Builder(daemon, daemon.other_key)
    assert other.create(f"{space}/shared").status_code == 403
    assert other.call("GET", f"/templates/aliases/{space}%2Fshared").status_code == 403
    changed = builder.call("PATCH", "/v2/templates/shared", json={"public": True})
    assert (changed.status_code, changed.json()["names"]) == (200, [f"{space}/shared"])
    created = other.create(f"{space}/shared")
    assert created.status_code == 201
    other.call("DELETE", f"/sandboxes/{created.json()['sandboxID']}")
    _, status = other.build(name="onshared", base={"fromTemplate": f"{space}/shared"})
    assert status["status"] == "ready"
    assert other.call("DELETE", f"/templates/{space}%2Fshared").status_code == 403


def test_templates_are_listed_page_by_page(builder):
    builder.build(name="pagea")
    builder.build(name="pageb")
    all_ids = {row["templateID"] for row in builder.call("GET", "/templates").json()}
    seen, token = [], None
    while True:
        query = {"limit": 2, **({"nextToken": token} if token else {})}
        page = builder.call("GET", "/v2/templates", params=query)
        seen += [row["templateID"] for row in page.json()]
        token = page.headers.get("x-next-token")
        if not token:
            break
    assert sorted(seen) == sorted(all_ids)
