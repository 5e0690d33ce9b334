"""Dockerfiles of several stages, built by `atoll template build`."""

import os
import subprocess

import httpx
from daemon import PROGRAM
from e2b import Sandbox

STAGES = """ARG RELEASE=13
FROM debian:$RELEASE AS tools
RUN mkdir -p /out/lib && echo one >/out/lib/one.txt && echo two >/out/lib/two.txt && ln -s one.txt /out/lib/link
RUN printf '#!/bin/sh\\necho built by $0\\n' >'/out/a program' && chmod 755 '/out/a program' && echo no >/out/left-out
COPY note.txt /out/note.txt

FROM tools AS more
RUN echo three >>/out/lib/one.txt
USER user

FROM more AS unused
RUN exit 9

FROM debian:13
WORKDIR /app
COPY --from=tools ["/out/a program", "/app/program"]
COPY --from=0 /out/lib /app/lib
COPY --from=more --chown=user /out/lib/*.txt /app/more/
COPY --from=tools out/note.txt .
RUN test ! -e /out
"""


def template_build(daemon, directory, name):
    environment = {**os.environ, "E2B_API_URL": daemon.url, "E2B_API_KEY": daemon.key}
    command = [PROGRAM, "template", "build", name, directory]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def names(daemon, path):
    rows = httpx.get(f"{daemon.url}{path}", headers={"X-API-Key": daemon.key}).json()
    return [name for row in rows for name in row.get("aliases", [row.get("sandboxID")])]


def test_files_of_earlier_stages_are_copied(daemon, tmp_path):
    """A stage that no other needs is not built; of those that were, nothing is left."""
    (tmp_path / "Dockerfile").write_text(STAGES)
    (tmp_path / "note.txt").write_text("from the directory\n")
    done = template_build(daemon, tmp_path, "staged")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in names(daemon, "/templates") if name.startswith("staged")] == ["staged"]
    assert names(daemon, "/sandboxes") == []
    with Sandbox.create("staged", **daemon.sdk) as sandbox:
        said = sandbox.commands.run("cd /app; ./program; cat lib/one.txt lib/two.txt; readlink lib/link; cat more/one.txt note.txt")
        assert said.stdout == "built by ./program\none\ntwo\none.txt\none\nthree\nfrom the directory\n"
        assert sandbox.commands.run("stat -c %U /app/more/one.txt; ls -A / | grep atoll-stage || true").stdout == "user\n"


def test_a_stage_that_fails_is_named(daemon, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian:13 AS broken\nRUN exit 5\nFROM debian:13\nCOPY --from=broken /x /y\n")
    done = template_build(daemon, tmp_path, "failing")
    assert done.returncode == 1
    assert "stage broken" in done.stderr and "exit status 5" in done.stderr, done.stderr
    assert [name for name in names(daemon, "/templates") if name.startswith("failing")] == []


def test_a_file_that_a_stage_lacks_fails_the_build(daemon, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian:13 AS empty\nFROM debian:13\nCOPY --from=empty /no/such /y\n")
    done = template_build(daemon, tmp_path, "lacking")
    assert done.returncode == 1
    assert "no/such" in done.stdout + done.stderr
