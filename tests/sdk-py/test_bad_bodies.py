"""Requests whose body is wrong: each gets its status and a sentence, and leaves nothing behind."""

import pytest

pytestmark = pytest.mark.usefixtures("none_left_behind")

JSON = {"Content-Type": "application/json"}
PATHS = ["/v2/sandboxes", "/sandboxes"]


def refused(answer, status):
    assert answer.status_code == status, answer.text
    error = answer.json()
    assert error["code"] == status
    assert error["message"].strip()
    return error["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"[]",
        b"null",
        b'"base"',
        b"{}",
        b'{"templateID": "base"} trailing',
        b'{"templateID": "base",}',
        b'{"templateID": "ba\xff\xfese"}',
        b'{"templateID": "base\\u0000"}',
        b'{"templateID": "base", "metadata": {"a": "\\ud800"}}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
    ],
    ids=[
        "empty", "cut", "nonsense", "array", "null", "string", "no-template", "trailing", "comma",
        "not-utf8", "nul", "surrogate", "deep-arrays", "deep-objects",
    ],
)  # fmt: skip
def test_malformed(api, path, body):
    refused(api.post(path, content=body, headers=JSON), 400)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "field, value",
    [
        ("templateID", 5),
        ("templateID", None),
        ("templateID", ["base"]),
        ("timeout", "60"),
        ("timeout", 1.5),
        ("timeout", []),
        ("timeout", True),
        ("metadata", "text"),
        ("metadata", ["a"]),
        ("metadata", {"a": 1}),
        ("metadata", {"a": {"b": "c"}}),
        ("envVars", "A=1"),
        ("envVars", {"A": 1}),
        ("envVars", {"A=B": "c"}),
        ("envVars", {"": "c"}),
        ("autoPause", "yes"),
        ("allow_internet_access", "yes"),
        ("network", "all"),
    ],
)
def test_wrong_types(api, path, field, value):
    body = {"templateID": "base", "timeout": 60, field: value}
    assert field in refused(api.post(path, json=body), 400)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "timeout, sentence",
    [
        (0, "Timeout must be greater than 0"),
        (24 * 3600 + 1, "Timeout cannot be greater than 24 hours"),
        (2**31 - 1, "Timeout cannot be greater than 24 hours"),
        (-1, "timeout"),
        (-(2**63), "timeout"),
        (2**31, "Timeout cannot be greater than 24 hours"),
        (2**63 - 1, "Timeout cannot be greater than 24 hours"),
    ],
)
def test_timeouts_out_of_range(api, path, timeout, sentence):
    message = refused(api.post(path, json={"templateID": "base", "timeout": timeout}), 400)
    assert sentence in message


@pytest.mark.parametrize("number", [b"1e400", b"9" * 400, b"18446744073709551616"])
def test_timeouts_that_are_no_integer_of_ours(api, number):
    body = b'{"templateID": "base", "timeout": %s}' % number
    refused(api.post("/v2/sandboxes", content=body, headers=JSON), 400)


@pytest.mark.parametrize("template", ["nope", "ns/base", "base0", "0" * 20])
def test_unknown_templates(api, template):
    message = refused(api.post("/v2/sandboxes", json={"templateID": template}), 404)
    assert message == f"template '{template}' not found"


def test_an_unknown_tag(api):
    message = refused(api.post("/v2/sandboxes", json={"templateID": "base:nope"}), 404)
    assert message == "tag 'nope' does not exist for template 'base'"


@pytest.mark.parametrize("template", ["", " ", "base\n", "base/../base", "a:b:c", "x" * 5000])
def test_templates_that_cannot_be(api, template):
    message = refused(api.post("/v2/sandboxes", json={"templateID": template}), 400)
    assert "template" in message


@pytest.mark.parametrize(
    "flags",
    [
        {"autoPauseMemory": False},
        {"autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}},
        {"network": {"denyOut": ["not an address"]}},
        {"network": {"allowOut": ["example.com"]}},
    ],
    ids=["memory-without-pause", "memory-with-resume", "deny-a-name", "allow-a-name"],
)
def test_combinations_that_make_no_sense(api, flags):
    refused(api.post("/v2/sandboxes", json={"templateID": "base", **flags}), 400)


def test_a_private_edge_needs_a_secure_sandbox(api):
    body = {"templateID": "base", "secure": False, "network": {"allowPublicTraffic": False}}
    refused(api.post("/sandboxes", json=body), 400)


def test_ten_megabytes_of_metadata(api):
    body = {"templateID": "base", "metadata": {"a": "x" * 10_000_000}}
    assert refused(api.post("/v2/sandboxes", json=body), 413)


def test_ten_megabytes_of_tiny_metadata(api):
    body = {"templateID": "base", "metadata": {f"key{i}": "v" for i in range(700_000)}}
    assert refused(api.post("/v2/sandboxes", json=body), 413)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=-1", "limit=101", "limit=x", "limit=99999999999999999999",
        "nextToken=garbage", "nextToken=%00", "state=asleep", "order=sideways",
        "startedAfter=yesterday", "metadata=%ff%fe", "metadata=%zz",
    ],
)  # fmt: skip
def test_queries_of_the_list(api, query):
    refused(api.get(f"/v2/sandboxes?{query}"), 400)


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'{"timeout": "1"}', b'{"timeout": -1}', b"[]"])
def test_bodies_of_set_timeout(api, sandbox_of_this_file, body):
    path = f"/sandboxes/{sandbox_of_this_file}/timeout"
    before = api.get(f"/sandboxes/{sandbox_of_this_file}").json()["endAt"]
    refused(api.post(path, content=body, headers=JSON), 400)
    assert api.get(f"/sandboxes/{sandbox_of_this_file}").json()["endAt"] == before


@pytest.mark.parametrize("duration", [-1, 3601, "60", 1.5])
def test_bodies_of_refreshes(api, sandbox_of_this_file, duration):
    path = f"/sandboxes/{sandbox_of_this_file}/refreshes"
    refused(api.post(path, json={"duration": duration}), 400)


@pytest.mark.parametrize(
    "sandbox_id", ["nothing", "%00", "%2e%2e%2f", "i" * 3000, "\u6d77", "i0-1-2-3"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_ids_that_are_none(api, method, sandbox_id):
    answer = api.request(method, f"/sandboxes/{sandbox_id}")
    assert answer.status_code in (400, 404)
    refused(answer, answer.status_code)


def test_the_sentence_for_an_unknown_sandbox(api):
    nobody = "i" + "0" * 20
    message = refused(api.get(f"/sandboxes/{nobody}"), 404)
    assert message == f"Sandbox \"{nobody}\" doesn't exist or you don't have access to it"


@pytest.fixture(scope="module")
def sandbox_of_this_file(api):
    made = api.post("/v2/sandboxes", json={"templateID": "base", "timeout": 300}).json()
    yield made["sandboxID"]
    api.delete(f"/sandboxes/{made['sandboxID']}")
