"""Details in which E2B's own integration tests see a difference: what is inside a built template,
how its start command runs, and what names a template or a snapshot."""

import io
import json
import uuid
import zipfile

import pytest
from builder import Builder, run
from daemon import until
from e2b import Sandbox

ENV_PATH = {"type": "ENV", "args": ["PATH", "${PATH}:/my/path"]}
# Python's modules stay root's. The certificate of a sandbox's own authority is put there by the daemon.
NOT_WRITABLE = (
    "find /usr/local -path '*/dist-packages' -prune -o ! -type l ! -writable ! -name atoll-sandbox.crt -print"
)
CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=mine -keyout /dev/null"
    " -out /usr/local/share/ca-certificates/mine.crt"
)


@pytest.fixture
def builder(daemon):
    return Builder(daemon)


@pytest.fixture
def name():
    return f"made-{uuid.uuid4().hex[:8]}"


def built(builder, *arguments, **named):
    ids, status = builder.build(*arguments, **named)
    assert status["status"] == "ready", builder.log(ids)
    return ids


def in_sandbox(daemon, template, command):
    with Sandbox.create(template, timeout=60, **daemon.sdk) as sandbox:
        return sandbox.commands.run(command).stdout


# ---- what is inside ----


def test_usr_local_of_base_is_the_user_s(daemon):
    package = json.dumps({"name": "mine", "version": "1.0.0", "bin": {"mine": "mine.sh"}})
    script = f"""mkdir /tmp/mine && cd /tmp/mine && echo '{package}' > package.json
        printf '#!/bin/sh\\necho it runs\\n' > mine.sh && chmod +x mine.sh
        npm install -g --offline . >&2 && mine"""
    assert in_sandbox(daemon, "base", NOT_WRITABLE) == ""
    assert in_sandbox(daemon, "base", script) == "it runs\n"


def test_usr_local_of_a_built_template_is_the_user_s(daemon, builder, name):
    built(builder, [run("mkdir -p /usr/local/lib/a/b && echo x > /usr/local/lib/a/b/c", "root")], name)
    assert in_sandbox(daemon, name, f"{NOT_WRITABLE}; echo more >> /usr/local/lib/a/b/c") == ""


def wheel():
    """Version 99 of `wheel`, which Debian's pip brings along, with a program `says-wheel`."""
    info = "wheel-99.dist-info"
    files = {
        "wheel/__init__.py": "def says():\n    print('wheel 99')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: wheel\nVersion: 99\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nsays-wheel = wheel:says\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return packed.getvalue()


WHERE = "python3 -c 'import wheel; print(wheel.__file__)'"
PIP_INSTALL = "pip install --no-index /tmp/wheel-99-py3-none-any.whl >&2"


@pytest.mark.parametrize("user, place", [("user", "/home/user/.local/lib/"), ("root", "/usr/local/lib/")])
def test_pip_installs_another_version_of_a_module_of_debian_s(daemon, builder, name, user, place):
    """In one command with the program that it brings, in base and in a template that is built on it."""
    built(builder, [run("true")], name)
    for template in ("base", name):
        with Sandbox.create(template, timeout=60, **daemon.sdk) as sandbox:
            sandbox.files.write("/tmp/wheel-99-py3-none-any.whl", wheel(), user=user)
            before = sandbox.commands.run(WHERE, user=user).stdout
            assert before.startswith("/usr/lib/python3/dist-packages/"), before
            assert sandbox.commands.run(f"{PIP_INSTALL} && says-wheel", user=user).stdout == "wheel 99\n"
            assert sandbox.commands.run(WHERE, user=user).stdout.startswith(place)
            # Debian's files are where they were.
            sandbox.commands.run(f"dpkg -V python3-wheel && test -e {before}", user=user)


def test_a_module_that_apt_changes_is_pip_s_to_replace_as_well(daemon):
    """The hook of apt: a module that came later, and one that is gone."""
    infos = "/usr/lib/python3/dist-packages"
    script = f"""cd {infos} && rm wheel-*.dist-info/RECORD && mkdir gone-1.dist-info && touch gone-1.dist-info/RECORD
        $(apt-config dump DPkg::Post-Invoke | sed -n 's/.*|| \\(.*\\)";$/\\1/p') && ls -d gone* wheel-*/RECORD"""
    with Sandbox.create("base", timeout=60, **daemon.sdk) as sandbox:
        shown = sandbox.commands.run(f"{script}; true", user="root").stdout
    assert shown.startswith("wheel-") and shown.endswith(".dist-info/RECORD\n"), shown


def test_authorities_that_a_build_adds_are_trusted(daemon, builder, name):
    built(builder, [run(CERTIFICATE, "root")], name)
    out = in_sandbox(daemon, name, "openssl verify /usr/local/share/ca-certificates/mine.crt")
    assert out.endswith("mine.crt: OK\n")


def test_authorities_are_gathered_when_a_build_changes_them_and_not_else(daemon, builder, name):
    """To gather them takes minutes on a slow machine."""
    ask = "stat -c %Y /etc/ssl/certs/ca-certificates.crt; openssl verify /usr/local/share/ca-certificates/mine.crt 2>&1; true"
    built(builder, [run(CERTIFICATE, "root")], f"{name}-with")
    gathered = in_sandbox(daemon, f"{name}-with", ask)
    built(builder, [run("echo 1 >/one", "root")], f"{name}-same", base={"fromTemplate": f"{name}-with"})
    assert in_sandbox(daemon, f"{name}-same", ask) == gathered
    moved = "mv /usr/local/share/ca-certificates/mine.crt /root"
    built(builder, [run(moved, "root")], f"{name}-without", base={"fromTemplate": f"{name}-with"})
    out = in_sandbox(daemon, f"{name}-without", "sudo openssl verify /root/mine.crt 2>&1; true")
    assert "mine.crt: OK" not in out and "self-signed" in out, out


def test_path_of_a_template_survives_a_login_shell(daemon, builder, name):
    built(builder, [ENV_PATH, run('[[ "$PATH" == *:/my/path* ]] || exit 1')], name)
    assert in_sandbox(daemon, name, "echo $PATH").endswith(":/my/path\n")
    for shell in ("env -i bash -l -c", "sudo -i bash -c", "sudo su - user -c"):  # they bring a PATH of their own, or none
        assert in_sandbox(daemon, name, f"{shell} whoami") in ("user\n", "root\n")


@pytest.mark.parametrize("program", ["socat", "fusermount3", "sshd"])
def test_base_has_what_e2b_s_templates_have(daemon, program):
    assert program in in_sandbox(daemon, "base", f"command -v {program}")


def test_sshd_can_be_started(daemon):
    """As docs/DIFFERENCES.md says."""
    start = "sudo ssh-keygen -A && sudo mkdir -p /run/sshd && sudo /usr/sbin/sshd"
    login = (
        "ssh-keygen -q -N '' -f ~/.ssh/id && cp ~/.ssh/id.pub ~/.ssh/authorized_keys &&"
        " ssh -i ~/.ssh/id -o StrictHostKeyChecking=no localhost whoami"
    )
    assert in_sandbox(daemon, "base", f"(mkdir -m 700 ~/.ssh && {start}) >&2 && {login}") == "user\n"


def test_templates_over_templates_with_authorities(daemon, builder, name):
    """The same work over a template that did it leaves files that look like one file: mv refuses to replace them."""
    built(builder, [run(CERTIFICATE, "root")], f"{name}-0")
    for level in range(1, 4):
        steps = [{"type": "ENV", "args": ["LEVEL", str(level)]}]
        built(builder, steps, f"{name}-{level}", base={"fromTemplate": f"{name}-{level - 1}"})
    out = in_sandbox(daemon, f"{name}-3", "openssl verify /usr/local/share/ca-certificates/mine.crt; echo $LEVEL")
    assert out.endswith("mine.crt: OK\n3\n")


def test_mounts_and_fuse_stay_refused(daemon):
    """Known differences: docs/DIFFERENCES.md."""
    tries = "sudo mount -t tmpfs none /mnt; echo $?; sudo test -e /dev/fuse; echo $?"
    mounted, fuse = in_sandbox(daemon, "base", tries).split()
    assert mounted != "0" and fuse == "1"


# ---- the start command of a base ----


def test_an_inherited_start_command_runs_as_in_its_base(daemon, builder, name):
    """Also in a template that is built on that one."""
    said = 'echo "$(whoami) $PWD $WHERE" > /tmp/said'
    below = [
        {"type": "USER", "args": ["someone"]},
        {"type": "WORKDIR", "args": ["/srv/below"]},
        {"type": "ENV", "args": ["WHERE", "below"]},
    ]
    above = [
        {"type": "USER", "args": ["user"]},
        {"type": "WORKDIR", "args": ["/srv/above"]},
        {"type": "ENV", "args": ["WHERE", "above"]},
    ]
    built(builder, below, name, startCmd=f"{said}; exec sleep 600", readyCmd="test -s /tmp/said")
    built(builder, above, f"{name}-2", base={"fromTemplate": name})
    built(builder, name=f"{name}-3", base={"fromTemplate": f"{name}-2"})
    for template in (f"{name}-2", f"{name}-3"):
        shown = in_sandbox(daemon, template, "cat /tmp/said; whoami; pwd; echo $WHERE").splitlines()
        assert shown == ["someone /srv/below below", "user", "/srv/above", "above"]


def test_an_inherited_start_command_that_is_run_anew(daemon, builder, name):
    said = 'echo "$(whoami) $PWD $WHERE" >> /tmp/said'
    below = [{"type": "USER", "args": ["someone"]}, {"type": "ENV", "args": ["WHERE", "below"]}]
    above = [{"type": "USER", "args": ["user"]}, {"type": "ENV", "args": ["WHERE", "above"]}]
    built(builder, below, name, startCmd=f"{said}; exec sleep 600", readyCmd="test -s /tmp/said")
    built(builder, above, f"{name}-2", base={"fromTemplate": name})
    with Sandbox.create(f"{name}-2", timeout=60, **daemon.sdk) as sandbox:
        sandbox.commands.run("sudo rm /tmp/said")
        paused = builder.call("POST", f"/sandboxes/{sandbox.sandbox_id}/pause", json={"memory": False})
        assert paused.status_code == 204, paused.text
        again = Sandbox.connect(sandbox.sandbox_id, timeout=60, **daemon.sdk)
        assert again.commands.run("cat /tmp/said").stdout == "someone /home/someone below\n"


# ---- names ----


def test_the_id_of_a_build_is_as_good_as_its_tag(daemon, builder, name):
    template_id, build_id = built(builder, [run("echo one > /tmp/which")], name)
    target = {"target": f"{template_id}:{build_id}", "tags": ["v1"]}
    answer = builder.call("POST", "/templates/tags", json=target)
    assert (answer.status_code, answer.json()) == (201, {"buildID": build_id, "tags": ["v1"]})
    built(builder, [run("echo two > /tmp/which")], name)
    assert in_sandbox(daemon, f"{name}:{build_id}", "cat /tmp/which") == "one\n"
    unknown = str(uuid.uuid4())
    assert builder.create(f"{name}:{unknown}").status_code == 404
    for tag in (unknown, build_id):
        answer = builder.call("POST", "/templates/tags", json={"target": name, "tags": [tag]})
        assert answer.status_code == 400 and "UUID" in answer.json()["message"]


def test_a_slash_in_a_name_needs_no_escape(daemon, builder, name):
    template_id, _ = built(builder, [], name)
    full = builder.call("GET", f"/templates/{name}").json()["names"][0]
    assert "/" in full
    assert builder.call("GET", f"/templates/{full}").json()["templateID"] == template_id
    assert builder.call("GET", f"/templates/{full}/tags").json()[0]["tag"] == "default"
    assert builder.call("GET", f"/templates/aliases/{full}").json()["templateID"] == template_id
    assert builder.call("DELETE", f"/templates/{full}:default").status_code == 204
    assert builder.call("GET", f"/templates/{full}").status_code == 404
    assert builder.call("GET", "/templates/a/b/c").status_code == 404


def snapshot(builder, sandbox, name=None):
    answer = builder.call("POST", f"/sandboxes/{sandbox.sandbox_id}/snapshots", json={"name": name} if name else {})
    assert answer.status_code == 201, answer.text
    return answer.json()


def listed(builder, name):
    return [row["snapshotID"] for row in builder.call("GET", "/snapshots", params={"name": name}).json()]


def tags(builder, name):
    rows = builder.call("GET", f"/templates/{name}/tags").json()
    return {row["tag"]: row["buildID"] for row in rows}


def saved(daemon):
    return {path.name for path in (daemon.data / "pool" / "saved").iterdir()}


def test_snapshots_have_tags(daemon, builder, name):
    before = saved(daemon)
    with Sandbox.create("base", timeout=120, **daemon.sdk) as sandbox:
        sandbox.files.write("/tmp/which", "v1")
        first = snapshot(builder, sandbox, f"{name}:v1")
        assert first["snapshotID"] == f"{first['names'][0]}:v1" and first["names"][0].endswith(name)
        assert builder.create(name).status_code == 404  # nothing has the tag `default` yet
        sandbox.files.write("/tmp/which", "default")
        second = snapshot(builder, sandbox, name)
        sandbox.files.write("/tmp/which", "v2")
        third = snapshot(builder, sandbox, f"{name}:v2")
        assert snapshot(builder, sandbox)["snapshotID"].endswith(":default")
        refused = builder.call(
            "POST", f"/sandboxes/{sandbox.sandbox_id}/snapshots", json={"name": f"{name}:{uuid.uuid4()}"}
        )
        assert refused.status_code == 400

    assert set(tags(builder, name)) == set(tags(builder, first["snapshotID"])) == {"v1", "v2", "default"}
    assert listed(builder, name) == [third["snapshotID"]]
    assert listed(builder, f"{name}:v1") == [first["snapshotID"]]
    assert listed(builder, f"{name}:default") == [second["snapshotID"]]
    assert listed(builder, f"{name}:none") == []

    assigned = builder.call("POST", "/templates/tags", json={"target": f"{name}:v1", "tags": ["v3"]})
    assert assigned.status_code == 201 and assigned.json()["buildID"] == tags(builder, name)["v1"]
    gone = builder.call("DELETE", "/templates/tags", json={"name": name, "tags": ["v1"]})
    assert gone.status_code == 204
    daemon.stop()
    daemon.start()
    builds = tags(builder, name)
    for tag, which in {"v2": "v2", "v3": "v1", "default": "default", builds["v3"]: "v1"}.items():
        assert in_sandbox(daemon, f"{name}:{tag}", "cat /tmp/which") == which

    assert builder.call("DELETE", f"/templates/{second['snapshotID']}").status_code == 204
    assert builder.create(f"{name}:v2").status_code == 404
    until(lambda: len(saved(daemon) - before) == 1, "only the snapshot without a name is kept")


def test_a_snapshot_that_lost_its_tag_goes(daemon, builder, name):
    with Sandbox.create("base", timeout=120, **daemon.sdk) as sandbox:
        snapshot(builder, sandbox, name)
        before = saved(daemon)
        old = tags(builder, name)["default"]
        snapshot(builder, sandbox, name)
        assert tags(builder, name)["default"] != old
        until(lambda: len(saved(daemon)) == len(before), "the replaced one is gone")
        snapshot(builder, sandbox, f"{name}:v1")
        builder.call("DELETE", "/templates/tags", json={"name": name, "tags": ["v1"]})
        until(lambda: len(saved(daemon)) == len(before), "the one without a tag is gone", 60)
    assert in_sandbox(daemon, name, "echo up") == "up\n"


def test_a_snapshot_may_be_a_tag_of_a_template(daemon, builder, name):
    built(builder, [run("echo built > /tmp/which")], name)
    with Sandbox.create(name, timeout=120, **daemon.sdk) as sandbox:
        sandbox.files.write("/tmp/which", "taken")
        snapshot(builder, sandbox, f"{name}:later")
    assert in_sandbox(daemon, name, "cat /tmp/which") == "built\n"
    assert in_sandbox(daemon, f"{name}:later", "cat /tmp/which") == "taken"
    assert any(name in row["aliases"] for row in builder.call("GET", "/templates").json())
