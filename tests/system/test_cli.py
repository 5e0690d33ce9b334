"""The commands that list sandboxes and act on them: for people at a terminal, for pipes and for programs."""

import json
import os
import re
import signal
import subprocess
import time

import pytest
from daemon import PROGRAM, ROOT, Daemon, end_sandboxes, until
from e2b import Sandbox
from terminal import Terminal, shown

import httpx

# A name that moves the cursor, renames the window, ends a line and turns the direction of writing around.
HOSTILE = "a\x1b[31mred\x1b]0;owned\x07\nnext\u202eback\x9b31m\tend"
WIDE = "日本語のとても長い名前"


def environment(daemon, **more):
    """Nothing of this machine's: the daemon is the one that is named."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {"TERM": "xterm", "E2B_API_URL": daemon.url, "E2B_API_KEY": daemon.key} | more


@pytest.fixture(scope="module")
def atoll(daemon):
    def run(*words, code=0, env=None, **options):
        done = subprocess.run([PROGRAM, *words], env=environment(daemon) if env is None else env, capture_output=True,
                              text=True, timeout=120, **options)
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    return run


@pytest.fixture(scope="module")
def api(daemon):
    with httpx.Client(base_url=daemon.url, headers={"X-API-Key": daemon.key}, timeout=60) as client:
        yield client


@pytest.fixture
def make(daemon, api):
    """Makes sandboxes, which are gone after the test."""

    def one(**options):
        return Sandbox.create(timeout=600, **options, **daemon.sdk).sandbox_id

    yield one
    end_sandboxes(api)


def state_of(api, sandbox_id):
    return api.get(f"/sandboxes/{sandbox_id}").json()["state"]


# ---- lists ----


def test_ps_in_its_three_forms(atoll, make, api):
    first, second = make(metadata={"job": "one"}), make(metadata={"job": "two"})
    rows = [line.split("\t") for line in atoll("ps").stdout.splitlines()]
    assert [row[0] for row in rows] == [second, first]
    assert rows[0][1:3] == ["base", "running"] and rows[0][8] == "job=two" and len(rows[0]) == 9
    assert atoll("ps", "-q").stdout.split() == [second, first]
    listed = json.loads(atoll("ps", "--json").stdout)
    assert listed == api.get("/v2/sandboxes", params={"state": "running"}).json()


def test_ps_filters(atoll, make):
    first, second = make(metadata={"job": "a & b=c"}), make()
    atoll("pause", second)
    assert atoll("ps", "-q").stdout.split() == [first]
    assert set(atoll("ps", "-aq").stdout.split()) == {first, second}
    assert atoll("ps", "-q", "--state", "paused").stdout.split() == [second]
    assert atoll("ps", "-aq", "-m", "job=a & b=c").stdout.split() == [first]
    assert atoll("ps", "-aq", "--metadata=job=other").stdout == ""
    assert set(atoll("ps", "-aq", "--template", "base").stdout.split()) == {first, second}
    assert atoll("ps", "-aq", "--template", "nothing", code=None).stdout == ""
    assert "is one of running|paused, not 'odd'" in atoll("ps", "--state", "odd", code=2).stderr


def test_colours_and_titles_are_for_terminals(atoll, daemon, make):
    make()
    text, code = shown([PROGRAM, "ps"], environment(daemon))
    assert code == 0 and "\x1b[32mrunning" in text and "TEMPLATE" in text
    plain, code = shown([PROGRAM, "ps"], environment(daemon, NO_COLOR="1"))
    assert "\x1b" not in plain and "TEMPLATE" in plain
    dumb, code = shown([PROGRAM, "ps"], environment(daemon, TERM="dumb"))
    assert "\x1b" not in dumb
    piped = atoll("ps").stdout
    assert "\x1b" not in piped and "TEMPLATE" not in piped
    indented, code = shown([PROGRAM, "ps", "--json"], environment(daemon))
    assert indented.startswith("[\n  {") and json.loads(indented)


def columns_of(text):
    """Where a text ends, as terminals count: characters of Asia take two columns."""
    return sum(2 if ord(c) > 0x1100 and c != "…" else 1 for c in text)


def test_rows_fit_the_terminal(daemon, make):
    make(metadata={"name": WIDE, "more": "x" * 100})
    make()
    for columns in (200, 110, 90):
        text, code = shown([PROGRAM, "ps"], environment(daemon, NO_COLOR="1"), columns=columns)
        lines = text.splitlines()
        assert code == 0 and len(lines) == 3
        assert all(columns_of(line) <= columns for line in lines), lines
        at = columns_of(lines[0][:lines[0].index("METADATA")])
        assert all(columns_of(line[:line.index(start)]) == at for line, start in ((lines[2], "name="),)), lines
    assert "…" in text


def has_controls(text):
    return re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text.replace("\r\n", "\n"))


@pytest.mark.parametrize("words", [["ps"], ["inspect", "ID"], ["events"], ["events", "ID"], ["top", "--once"], ["stats"],
                                   ["logs", "ID"], ["ps", "--json"], ["inspect", "ID", "--json"], ["doctor", "ID"]], ids=" ".join)
def test_metadata_cannot_write_to_the_terminal(daemon, make, words):
    sandbox_id = make(metadata={"name": HOSTILE, HOSTILE: "x"})
    Sandbox.connect(sandbox_id, **daemon.sdk).commands.run(f"printf '%s' '{HOSTILE}'")
    words = [PROGRAM, *(word.replace("ID", sandbox_id) for word in words)]
    text, code = shown(words, environment(daemon, NO_COLOR="1"))
    assert code == 0 and sandbox_id[:8] in text or "logs" in words
    assert not has_controls(text), ascii(text)


def test_json_is_the_data_as_it_is(atoll, make):
    sandbox_id = make(metadata={"name": HOSTILE})
    assert json.loads(atoll("ps", "--json").stdout)[0]["metadata"]["name"] == HOSTILE
    assert json.loads(atoll("inspect", sandbox_id, "--json").stdout)["metadata"]["name"] == HOSTILE


def test_stats_and_inspect(atoll, make):
    sandbox_id, other = make(), make()
    until(lambda: json.loads(atoll("stats", "--json").stdout)[sandbox_id], "the sandbox has figures")
    (row,) = [line.split("\t") for line in atoll("stats", sandbox_id[:10]).stdout.splitlines()]
    assert row[0] == sandbox_id and row[1].endswith("%") and row[4] == "1.1 GB"
    figures = json.loads(atoll("stats", other, "--json").stdout)
    assert list(figures) == [other]
    facts = dict(line.split("\t") for line in atoll("inspect", sandbox_id).stdout.splitlines())
    assert facts["sandboxID"] == sandbox_id and facts["lifecycle.onTimeout"] == "kill" and "metrics.memUsed" in facts
    assert atoll("stats", "inothing", code=3).stdout == ""
    assert atoll("inspect", "i" + "0" * 20, code=3).stdout == ""


# ---- top ----


def test_top_is_live_at_a_terminal_and_leaves_it_as_it_was(daemon, make):
    sandbox_id = make()
    terminal = Terminal([PROGRAM, "top", "--interval", "1"], environment(daemon))
    try:
        terminal.until(sandbox_id)
        terminal.until("by CPU")
        terminal.type("m")
        terminal.until("by memory")
        later = make()
        terminal.until(later)
        terminal.type("q")
        assert terminal.end() == 0
        assert "\x1b[?7l" in terminal.text and "\x1b[?7h" in terminal.text  # lines are cut, not wrapped
        assert terminal.text.startswith("\x1b[?1049h") and terminal.text.rstrip().endswith("\x1b[?1049l")
    finally:
        terminal.close()


def test_top_ends_at_an_interrupt(daemon, make):
    sandbox_id = make()
    terminal = Terminal([PROGRAM, "top"], environment(daemon))
    try:
        terminal.until(sandbox_id)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert "\x1b[?1049l" in terminal.text
    finally:
        terminal.close()


def test_top_prints_once_in_a_pipe(atoll, make):
    sandbox_id = make()
    assert atoll("top").stdout.split("\t")[0] == sandbox_id
    assert "\x1b" not in atoll("top", "--once", "--sort", "memory").stdout


# ---- actions ----


def test_pause_resume_and_timeout(atoll, api, make):
    ids = [make(), make()]
    assert atoll("pause", *ids).stdout == "".join(f"Paused {sandbox_id}\n" for sandbox_id in ids)
    assert {state_of(api, sandbox_id) for sandbox_id in ids} == {"paused"}
    assert atoll("resume", ids[0], "--timeout", "1h", "-q").stdout == f"{ids[0]}\n"
    assert state_of(api, ids[0]) == "running"
    answer = json.loads(atoll("resume", ids[1], "--json").stdout)
    assert answer[0]["sandboxID"] == ids[1] == answer[0]["answer"]["sandboxID"] and answer[0]["error"] is None
    before = api.get(f"/sandboxes/{ids[0]}").json()["endAt"]
    atoll("timeout", ids[0], "2d", code=1)  # longer than sandboxes may live
    atoll("timeout", ids[0], "3h")
    assert api.get(f"/sandboxes/{ids[0]}").json()["endAt"] > before
    assert "is not a time" in atoll("timeout", ids[0], "soon", code=2).stderr


def test_all_are_tried_and_each_failure_has_its_id(atoll, api, make):
    sandbox_id, missing = make(), "i" + "0" * 20
    done = atoll("kill", missing, sandbox_id, "not-an-id", code=1)
    assert done.stdout == f"Killed {sandbox_id}\n"
    assert f"{missing}: " in done.stderr and "not-an-id: 'not-an-id' is not the id of a sandbox" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert api.get(f"/sandboxes/{sandbox_id}").status_code == 404
    assert atoll("kill", missing, code=3).stdout == ""


def test_ids_may_be_cut_short_where_they_are_unique(atoll, make):
    ids = [make() for _ in range(3)]
    ambiguous = atoll("pause", "i", code=1)
    assert "3 sandboxes have ids that begin with 'i': " in ambiguous.stderr and ids[0] in ambiguous.stderr
    short = next(ids[0][:n] for n in range(2, 21) if sum(other.startswith(ids[0][:n]) for other in ids) == 1)
    assert atoll("pause", short).stdout == f"Paused {ids[0]}\n"
    assert "no sandbox has an id that begins with 'izzzzzz'" in atoll("pause", "izzzzzz", code=3).stderr


def test_kill_all_ends_those_that_the_filters_choose(atoll, make):
    kept, first, second = make(metadata={"keep": "yes"}), make(metadata={"job": "x"}), make(metadata={"job": "x"})
    atoll("pause", second)
    assert set(atoll("kill", "--all", "-m", "job=x", "-q").stdout.split()) == {first, second}
    assert atoll("ps", "-aq").stdout.split() == [kept]
    more = {make() for _ in range(20)}
    assert set(atoll("kill", "--all", "-q").stdout.split()) == more | {kept}
    assert atoll("ps", "-a").stdout == ""
    assert atoll("kill", code=2) and atoll("kill", kept, "--all", code=2) and atoll("kill", kept, "-m", "a=b", code=2)


def test_kill_all_asks_at_a_terminal(daemon, atoll, make):
    sandbox_id = make()
    for answer, code in (("n\n", 1), ("y\n", 0)):
        assert atoll("ps", "-q").stdout.split() == [sandbox_id]
        terminal = Terminal([PROGRAM, "kill", "--all"], environment(daemon))
        try:
            terminal.until("Kill 1 sandbox? [y/N]")
            terminal.type(answer)
            assert terminal.end() == code
        finally:
            terminal.close()
    assert atoll("ps", "-q").stdout == ""


def test_fork(atoll, make, daemon):
    sandbox_id = make()
    Sandbox.connect(sandbox_id, **daemon.sdk).files.write("/home/user/note", "kept")
    copies = atoll("fork", sandbox_id, "-n", "2").stdout.split()
    assert len(set(copies) | {sandbox_id}) == 3
    for copy in copies:
        assert Sandbox.connect(copy, **daemon.sdk).files.read("/home/user/note") == "kept"
    assert json.loads(atoll("fork", sandbox_id, "--json").stdout)[0]["sandbox"]["sandboxID"]
    assert "is not a number from 1 to 100" in atoll("fork", sandbox_id, "-n", "many", code=2).stderr


def test_snapshots(atoll, make, daemon):
    sandbox_id = make()
    name = atoll("snapshot", sandbox_id, "cli-saved:v1").stdout.strip()
    assert name.endswith("cli-saved:v1")
    assert name in atoll("snapshot", "list", "-q").stdout.split()
    assert name in [row["snapshotID"] for row in json.loads(atoll("snapshot", "list", "--json").stdout)]
    assert atoll("snapshot", "list").stdout.split("\t")[0] == name
    made = make(template=name)
    assert made != sandbox_id
    atoll("kill", made)
    assert atoll("snapshot", "rm", name).stdout == f"Removed {name}\n"
    assert "not found" in atoll("snapshot", "rm", name, code=3).stderr
    assert atoll("snapshot", "list").stdout == ""
    assert "did you mean 'list'?" not in atoll("snapshot", code=2).stderr


# ---- events and logs ----


def test_events(atoll, make):
    sandbox_id = make()
    atoll("pause", sandbox_id)
    lines = atoll("events", sandbox_id).stdout.splitlines()
    assert [line.split()[1:3] for line in lines] == [[sandbox_id, "created"], [sandbox_id, "paused"]]
    types = [json.loads(line)["type"] for line in atoll("events", sandbox_id, "--json").stdout.splitlines()]
    assert types == ["sandbox.lifecycle.created", "sandbox.lifecycle.paused"]
    assert len(atoll("events", sandbox_id, "--type", "paused").stdout.splitlines()) == 1
    assert atoll("events", "-n", "1").stdout == lines[1] + "\n"


def test_events_are_followed(atoll, daemon, make):
    first = make()
    following = subprocess.Popen([PROGRAM, "events", "--follow", "--json", "-n", "1"], stdout=subprocess.PIPE, text=True,
                                 env=environment(daemon))
    try:
        assert json.loads(following.stdout.readline())["sandboxId"] == first
        second = make()
        event = json.loads(following.stdout.readline())
        assert (event["sandboxId"], event["type"]) == (second, "sandbox.lifecycle.created")
        atoll("kill", first)
        event = json.loads(following.stdout.readline())
        assert (event["sandboxId"], event["type"]) == (first, "sandbox.lifecycle.killed")
    finally:
        following.kill()
        following.wait()


def test_logs(atoll, daemon, make):
    sandbox_id = make()
    Sandbox.connect(sandbox_id, **daemon.sdk).commands.run("echo needle")
    everything = until(lambda: "echo needle" in (text := atoll("logs", sandbox_id[:12]).stdout) and text, "the log has the command")
    entries = [json.loads(line) for line in atoll("logs", sandbox_id, "--json").stdout.splitlines()]
    assert len(entries) == len(everything.splitlines()) and {"timestamp", "level", "message"} <= set(entries[0])
    found = atoll("logs", sandbox_id, "--search", "started").stdout
    assert found and set(found.splitlines()) < set(everything.splitlines())
    assert atoll("logs", sandbox_id, "--search", "nothing like it").stdout == ""
    assert atoll("logs", sandbox_id, "--level", "error").stdout == ""
    assert atoll("logs", sandbox_id, "--since", "1h").stdout == everything
    assert atoll("logs", sandbox_id, "--since", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))).stdout == ""
    assert "neither a time" in atoll("logs", sandbox_id, "--since", "lately", code=1).stderr


# ---- which daemon ----


def test_a_remote_daemon_over_tls_with_its_own_authority(atoll, daemon, make, tmp_path):
    sandbox_id = make()
    ca = tmp_path / "ca.pem"
    ca.write_text(atoll("ca", "--data", str(daemon.data)).stdout)
    domain = (daemon.data / "run/domain").read_text().strip()
    elsewhere = {"PATH": os.environ["PATH"], "ATOLL_DATA": str(tmp_path)}
    named = ["--url", f"https://api.{domain}/", "--key", daemon.key]
    assert atoll("ps", "-q", *named, "--ca", str(ca), env=elsewhere).stdout == f"{sandbox_id}\n"
    assert atoll("kill", sandbox_id, *named, env=elsewhere | {"SSL_CERT_FILE": str(ca)}).stdout == f"Killed {sandbox_id}\n"
    untrusted = atoll("ps", *named, env=elsewhere | {"SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt"}, code=1)
    assert "name it with --ca" in untrusted.stderr


def test_exit_codes_of_daemons_that_do_not_answer(atoll, daemon, tmp_path):
    elsewhere = {"PATH": os.environ["PATH"], "ATOLL_DATA": str(tmp_path)}
    assert "no daemon serves" in atoll("ps", env=elsewhere, code=4).stderr
    assert "Connection refused" in atoll("ps", "--url", "http://127.0.0.1:1", "--key", "x", env=elsewhere, code=4).stderr
    assert "there is no key for it" in atoll("ps", "--url", daemon.url, env=elsewhere, code=1).stderr
    assert "status 401" in atoll("ps", "--url", daemon.url, "--key", "e2b_" + "0" * 40, env=elsewhere, code=1).stderr
    assert "of the form http://HOST" in atoll("ps", "--url", "host", "--key", "x", env=elsewhere, code=1).stderr
    assert "resolve host" in atoll("ps", "--url", "http://nosuch.invalid", "--key", "x", env=elsewhere, code=4).stderr
    secure = daemon.url.replace("http:", "https:")
    assert "is that the port for TLS?" in atoll("ps", "--url", secure, "--key", "x", env=elsewhere, code=4).stderr


def test_the_operators_commands_say_which_key_they_miss(atoll, daemon, tmp_path):
    shell = environment(daemon, ATOLL_DATA=str(tmp_path))  # as after `eval "$(atoll env --data DIR)"`
    refused = atoll("team", "list", env=shell, code=4).stderr
    assert daemon.url in refused and "ATOLL_ADMIN_KEY" in refused and "--data" in refused
    assert "default" in atoll("team", "list", "--data", str(daemon.data)).stdout


def test_a_read_only_key_is_told_that_it_may_not_enter(atoll, daemon, make):
    sandbox_id = make()
    key = json.loads(atoll("key", "create", "looks", "--read-only", "--json").stdout)
    env = environment(daemon, E2B_API_KEY=key["key"])
    try:
        for words in (["exec", sandbox_id, "true"], ["cp", f"{sandbox_id}:/etc/hosts", "-"]):
            assert "a read-only key looks from outside" in atoll(*words, env=env, code=1).stderr
        assert sandbox_id in atoll("inspect", sandbox_id, env=env).stdout
    finally:
        atoll("key", "revoke", key["id"])


def test_a_missing_file_leaves_no_template_behind(atoll, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian:13\nCOPY nosuch /\n")
    assert "there is no such file" in atoll("template", "build", "lacks-a-file", str(tmp_path), code=1).stderr
    assert "lacks-a-file" not in atoll("template", "list").stdout


def test_a_build_prints_its_id_alone_for_programs(atoll, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian:13\nCOPY note /\n")
    (tmp_path / "note").write_text(os.urandom(8).hex())
    try:
        assert len(atoll("template", "build", "sends-a-file", str(tmp_path), "-q").stdout.split()) == 1
        (tmp_path / "note").write_text(os.urandom(8).hex())
        lines = atoll("template", "build", "sends-a-file", str(tmp_path), "--json").stdout.splitlines()
        assert json.loads(lines[-1])["name"] == "sends-a-file" and all(json.loads(line) for line in lines)
    finally:
        atoll("template", "delete", "sends-a-file", code=None)


def test_help_fits_a_terminal_of_80_columns(daemon, atoll):
    for words in (["help"], ["help", "options"]):
        assert max(map(len, atoll(*words).stdout.splitlines())) <= 80
    text, code = shown([PROGRAM, "help", "settings"], environment(daemon), columns=80)
    assert code == 0 and "--tls-listen" in text and max(map(len, text.splitlines())) <= 80
    assert atoll("tool", "list", "-q").stdout == atoll("tool", "-q").stdout


def test_serve_tells_a_newcomer_at_a_terminal_what_to_do_next():
    daemon = Daemon()
    daemon.pool_copy()
    words = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data", str(daemon.data), *daemon.settings]
    terminal = Terminal(words, os.environ | {"TERM": "xterm"}, columns=200)
    daemon.process = terminal.process
    try:
        said = terminal.until("Run a first command:")
        said = terminal.until(" echo hello").replace("\r\n", "\n")
        lines = said.splitlines()
        assert len(lines) == len(set(lines)) or {line for line in lines if lines.count(line) > 1} == {""}, said
        data = f"--data {daemon.data}"
        assert f"Open the dashboard:   {PROGRAM} open {data}   (or {daemon.url} in a browser)" in said
        assert f'Set the environment:  eval "$({PROGRAM} env {data})"' in said
        assert f"{PROGRAM} run {data} echo hello" in said and daemon.key not in said
        assert f"ready on {daemon.url}" not in said, "it is told once where it serves"
        first = subprocess.run(["bash", "-c", f'eval "$({PROGRAM} env {data})" && {PROGRAM} run echo hello'],
                               capture_output=True, text=True, timeout=120)
        assert (first.returncode, first.stdout) == (0, "hello\n"), first.stderr
    finally:
        daemon.stop()
        terminal.close()
        daemon.remove()


# ---- arguments ----


@pytest.mark.parametrize("words, says", [
    (["kil"], "there is no command 'kil'; did you mean 'kill'?"),
    (["inspetc", "x"], "did you mean 'inspect'?"),
    (["key", "lsit"], "key has no sub-command 'lsit'; did you mean 'list'?"),
    (["logs", "iabc", "--folow"], "there is no flag '--folow'; did you mean '--follow'?"),
    (["ps", "--jsno"], "did you mean '--json'?"),
    (["serve", "--listn", "127.0.0.1:0"], "did you mean '--listen'?"),
    (["help", "tempalte"], "did you mean 'template'?"),
    (["tool", "list_templats"], "did you mean 'list_templates'?"),
    (["zzzzzzzzz"], "there is no command 'zzzzzzzzz' (`atoll help` lists them)"),
    (["serve", "--json"], "`serve` has nothing to print as JSON"),
    (["top", "-q"], "`top` has no shorter output"),
    (["ps", "--json", "-q"], "exclude each other"),
    (["ps", "extra"], "ps does not take 'extra'"),
    (["logs"], "logs needs more arguments"),
    (["template", "list", "--cpus", "2"], "template list does not take '--cpus'"),
    (["pause", "i1", "--no-memory=yes"], "--no-memory takes no value"),
    (["logs", "i1", "--level"], "--level needs a value"),
    (["logs", "i1", "--level", "info", "--level", "warn"], "--level was given twice"),
    (["version", "--", "x"], "version does not take 'x'"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_arguments_are_refused_with_a_sentence(atoll, words, says):
    assert says in atoll(*words, code=2).stderr


# All that has no --json, and why.
NO_JSON = {
    "connect": "the terminal is the shell's",
    "top": "it draws a screen; `stats --json` has the figures",
    "mcp": "it speaks JSON with the client that started it",
    "serve": "it is the daemon",
    "keeper": "it is a part of the daemon",
    "prepare": "it is a part of the daemon's start",
    "store copy": "it is run once, by a person",
    "ca": "it prints a certificate, in the one form that programs read",
    "help": "it is for people",
}
# All that has no -q, and why. The others print ids, names, messages or ports alone, or show no progress.
NO_QUIET = {
    "connect": "the terminal is the shell's",
    "exec": "the output is the command's; with -d it is the pid alone",
    "top": "it draws a screen",
    "stats": "its figures are all that it has; `ps -q` prints the ids",
    "mcp": "it speaks with the client that started it",
    "env": "every line of it is needed",
    "serve": "it is the daemon",
    "keeper": "it is a part of the daemon",
    "prepare": "it is a part of the daemon's start",
    "store copy": "it is run once, by a person",
    "ca": "it prints a certificate",
    "help": "it is for people",
    "template logs": "its lines are messages already",
    "template prune": "it prints one line of figures",
    "team usage": "its figures are all that it has",
}


def test_json_and_quiet_are_everywhere_but_where_nothing_is_to_be_said(atoll):
    """Every command and sub-command, against the lists above; help, completions and the check of arguments agree."""

    def offered(*words):
        return [line.split("\t")[0] for line in atoll("complete", "--", *words).stdout.splitlines()]

    commands = re.findall(r"^  ([a-z-]+)", atoll("help").stdout, re.M)
    assert len(commands) > 30
    nothing = {"--json": set(), "--quiet": set()}
    for command in commands:
        usage = re.findall(rf"^(?:usage:|      ) atoll {command}(?: (\S+))?", atoll("help", command).stdout, re.M)
        for words in [[command, word] if re.fullmatch("[a-z-]+", word) else [command] for word in usage]:
            flags = offered(*words, "--")
            for flag, found in nothing.items():
                found |= set() if flag in flags else {" ".join(words)}
    assert nothing["--json"] == set(NO_JSON) and nothing["--quiet"] == set(NO_QUIET)
    for name in NO_JSON.keys() - {"top", "connect"}:
        assert f"`{name}` has nothing to print as JSON" in atoll(*name.split(), "--json", code=2).stderr


def test_options_may_stand_before_the_command(atoll, daemon, make, tmp_path):
    sandbox_id = make()
    elsewhere = {"PATH": os.environ["PATH"], "ATOLL_DATA": str(tmp_path)}
    assert atoll("--url", daemon.url, f"--key={daemon.key}", "-q", "ps", env=elsewhere).stdout == f"{sandbox_id}\n"
    assert atoll("--data", str(daemon.data), "ps", "-q", env=elsewhere).stdout == f"{sandbox_id}\n"
    assert atoll("--version").stdout == atoll("version").stdout
    assert atoll("--help").stdout == atoll("help").stdout == atoll("-h").stdout


def test_output_that_cannot_be_written_is_a_failure(daemon):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "ps", "--json"], env=environment(daemon), stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "atoll: the output could not be written\n")


def test_programs_get_json_of_keys_teams_templates_and_the_rest(atoll, daemon, api):
    made = json.loads(atoll("key", "create", "cli", "--json").stdout)
    listed = json.loads(atoll("key", "list", "--json").stdout)
    assert made["id"] in [key["id"] for key in listed] and atoll("key", "list", "-q").stdout.split() == [key["id"] for key in listed]
    assert json.loads(atoll("key", "revoke", made["id"], "--json").stdout) == {"name": made["id"]}
    assert json.loads(atoll("template", "list", "--json").stdout) == api.get("/templates").json()
    assert "base" in atoll("template", "list", "-q").stdout.split()
    operator = ["--data", str(daemon.data)]
    (team,) = json.loads(atoll("team", "list", "--json", *operator).stdout)
    assert team["name"] == "default" and atoll("team", "list", "-q", *operator).stdout == f"{team['teamID']}\n"
    assert json.loads(atoll("team", "usage", "default", "--json", *operator).stdout)["total"]
    assert atoll("admin-key", "list", "--json", *operator).stdout == "[]\n" == atoll("shell", "list", "--json").stdout
    assert isinstance(json.loads(atoll("disk", "--json").stdout), list)
    assert json.loads(atoll("env", "--json", *operator).stdout)["E2B_API_KEY"] == daemon.key
    assert {row["verdict"] for row in json.loads(atoll("doctor", "--json", code=None).stdout)} <= {"ok", "degraded", "missing"}
    assert json.loads(atoll("version", "--json").stdout)["version"] in atoll("version").stdout
    assert "list_templates" in [tool["name"] for tool in json.loads(atoll("tool", "--json").stdout)]


def test_quiet_prints_what_a_script_goes_on_with(atoll, daemon, make, api):
    sandbox_id = make()
    assert atoll("inspect", sandbox_id[:6], "-q").stdout == f"{sandbox_id}\n"
    assert sandbox_id in atoll("audit", "--action", "sandbox.create", "-q").stdout.splitlines()
    assert atoll("exec", sandbox_id, "true", stdin=subprocess.DEVNULL).returncode == 0
    lines = until(lambda: atoll("logs", sandbox_id, "-q").stdout.splitlines(), "the log has lines")
    entries = [json.loads(line) for line in atoll("logs", sandbox_id, "--json").stdout.splitlines()]
    assert [entry["message"] for entry in entries][:len(lines)] == lines
    operator = ["--data", str(daemon.data)]
    (team,) = json.loads(atoll("team", "list", "--json", *operator).stdout)
    assert atoll("team", "limit", "default", "sandboxes=none", "-q", *operator).stdout == f"{team['teamID']}\n"


# ---- the dashboard ----


def browser(daemon, tmp_path, body):
    """`atoll open` at a terminal with a display, where xdg-open is that script. What the terminal shows."""
    program = tmp_path / "xdg-open"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    at = Terminal([PROGRAM, "open"], environment(daemon, PATH=f"{tmp_path}:/usr/bin:/bin", DISPLAY=":9"), columns=200)
    try:
        assert at.end() == 0
        return at.text
    finally:
        at.close()


def test_open_gives_the_link_to_the_browser(daemon, tmp_path):
    said = browser(daemon, tmp_path, f"printf '%s' \"$*\" >{tmp_path}/got; echo rubbish; echo rubbish >&2")
    link = (tmp_path / "got").read_text()
    assert re.fullmatch(re.escape(daemon.url) + r"/#login=[\w-]+", link)
    assert link in said and "works once" in said and "No browser" not in said and "rubbish" not in said
    answer = httpx.post(f"{daemon.url}/dashboard/session", json={"link": link.partition("#login=")[2]}, timeout=60)
    assert answer.status_code == 201, "it is a link that logs in"


@pytest.mark.parametrize("body", ["exit 3", "kill -9 $$"])
def test_open_says_when_there_is_no_browser(daemon, tmp_path, body):
    said = browser(daemon, tmp_path, body)
    assert "/#login=" in said and "No browser could be opened: open the link yourself." in said


# ---- completions ----


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A directory with `atoll`, for the path."""
    directory = tmp_path_factory.mktemp("bin")
    (directory / "atoll").symlink_to(PROGRAM)
    return directory


def shell_environment(daemon, programs, tmp_path):
    return environment(daemon, PATH=f"{programs}:/usr/bin:/bin", HOME=str(tmp_path))


def test_candidates_come_from_the_table_and_from_the_daemon(atoll, make):
    sandbox_id = make()

    def candidates(*words):
        return [line.split("\t")[0] for line in atoll("complete", "--", *words).stdout.splitlines()]

    assert candidates("pau") == ["pause"] and "complete" not in candidates("c")
    assert candidates("kill", sandbox_id[:4]) == [sandbox_id] == candidates("logs", "--level", "info", sandbox_id[:4])
    assert candidates("ps", "--template", "b") == ["base"] and candidates("ps", "--state", "") == ["running", "paused"]
    assert candidates("key", "") == ["create", "list", "revoke"] and candidates("key", "list", "--j") == ["--json"]
    assert candidates("template", "build", "x", "-f", "") == [":file"]
    assert candidates("serve", "--j") == [] and candidates("nothing", "") == []
    assert set(candidates("snapshot", "")) == {"list", "rm", sandbox_id}
    assert "base" not in candidates("snapshot", "rm", "")
    atoll("volume", "create", "shelf")
    assert candidates("volume", "ls", "sh") == ["shelf"] == candidates("volume", "rm", "sh")
    atoll("volume", "rm", "shelf")


def test_completion_waits_for_no_daemon(atoll, tmp_path):
    elsewhere = {"PATH": os.environ["PATH"], "ATOLL_DATA": str(tmp_path)}
    assert atoll("complete", "--", "kill", "", env=elsewhere).stdout == ""


def test_bash_completes_ids(daemon, programs, make, tmp_path):
    sandbox_id = make()
    terminal = Terminal(["bash", "--norc", "-i"], shell_environment(daemon, programs, tmp_path), cwd=tmp_path)
    try:
        terminal.type(f". {ROOT}/completions/atoll.bash; PS1='ready''> '\n")
        terminal.until("ready> ")
        terminal.type(f"atoll kill {sandbox_id[:6]}\t")
        terminal.until(f"atoll kill {sandbox_id}")
    finally:
        terminal.close()


def test_zsh_completes_commands_and_ids(daemon, programs, make, tmp_path):
    sandbox_id = make()
    terminal = Terminal(["zsh", "-f", "-i"], shell_environment(daemon, programs, tmp_path), cwd=tmp_path)
    try:
        terminal.type(f"fpath=({ROOT}/completions $fpath); autoload -U compinit; compinit -u -d {tmp_path}/dump; PS1='ready''> '\n")
        terminal.until("ready> ")
        terminal.type("atoll insp\t")
        terminal.until("atoll inspect")
        terminal.type(f"{sandbox_id[:6]}\t")
        terminal.until(sandbox_id[6:])
    finally:
        terminal.close()


def test_fish_completes_commands_and_ids(daemon, programs, make, tmp_path):
    sandbox_id = make()

    def candidates(line):
        script = f"source {ROOT}/completions/atoll.fish; complete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, timeout=60,
                              env=shell_environment(daemon, programs, tmp_path), cwd=tmp_path, check=True)
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    (tmp_path / "file").touch()
    assert candidates("atoll insp") == ["inspect"]
    assert candidates(f"atoll kill {sandbox_id[:6]}") == [sandbox_id]
    assert "file" in candidates("atoll template build x -f ")
