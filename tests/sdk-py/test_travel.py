"""A kernel of the code interpreter lives on in a sandbox that was made of an exported file."""

import httpx
from conftest import API_KEY, API_URL
from e2b_code_interpreter import Sandbox


def test_a_kernel_goes_along_with_a_file(new_interpreter):
    source = new_interpreter()
    source.run_code("import pandas; frame = pandas.DataFrame({'a': [40, 2]}); handle = open('/tmp/open', 'w+')")
    source.run_code("let word = 'of JavaScript'", language="js")
    snapshot = source.create_snapshot().snapshot_id
    with httpx.Client(base_url=API_URL, headers={"X-API-Key": API_KEY}, timeout=300) as api:
        file = api.post(f"/snapshots/{snapshot.replace('/', '%2F')}/export")
        assert file.status_code == 200 and file.content[:8] == b"ATOLLSAV"
        made = api.post("/snapshots/import", content=file.content)
        assert made.status_code == 201, made.text
    name = made.json()["snapshotID"]
    assert name != snapshot
    with Sandbox.create(name, timeout=300) as copy:
        assert copy.run_code("int(frame.a.sum())").text == "42"
        assert copy.run_code("handle.write('still'), handle.flush(), open('/tmp/open').read()").text == "(5, None, 'still')"
        assert copy.run_code("word", language="js").text == "of JavaScript"
    Sandbox.delete_snapshot(name)
    Sandbox.delete_snapshot(snapshot)
