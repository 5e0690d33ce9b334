"""GET /dashboard/sandboxes: all that a live list shows, in one request."""


import pytest
from conftest import until
from e2b import CommandExitException, Sandbox



def rows(api, **params):
    answer = api.get("/dashboard/sandboxes", params=params)
    assert answer.status_code == 200, answer.text
    return {row["sandboxID"]: row for row in answer.json()["sandboxes"]}


def test_a_row(api, new_sandbox):
    sandbox = new_sandbox(metadata={"who": "A Row"})
    row = rows(api)[sandbox.sandbox_id]
    detail = api.get(f"/sandboxes/{sandbox.sandbox_id}").json()
    for name in ("templateID", "alias", "state", "startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "metadata"):
        assert row[name] == detail[name], name
    assert "lastError" not in row and "parentID" not in row
    row = until(lambda: (r := rows(api)[sandbox.sandbox_id]) and "cpuUsedPct" in r and r, "its figures come")
    assert row["memUsed"] > 0 and row["figuresAt"].endswith("Z") and row["diskUsed"] >= 0


def test_filters(api, new_sandbox):
    one, other = new_sandbox(metadata={"who": "filters", "n": "One"}), new_sandbox(metadata={"who": "filters", "n": "Two"})
    ours = {one.sandbox_id, other.sandbox_id}
    assert ours <= rows(api).keys()
    assert set(rows(api, metadata="who=filters")) == ours
    assert set(rows(api, metadata="who=filters&n=Two")) == {other.sandbox_id}
    assert set(rows(api, text="filters", state="running")) == ours
    assert set(rows(api, text="oNE")) & ours == {one.sandbox_id}
    assert set(rows(api, text=one.sandbox_id[3:].upper())) == {one.sandbox_id}
    assert ours <= rows(api, template="base").keys() and rows(api, template="nothing-here") == {}
    assert rows(api, text="nobody has written this") == {}
    other.pause()
    assert set(rows(api, metadata="who=filters", state="paused")) == {other.sandbox_id}
    row = rows(api, state="paused")[other.sandbox_id]
    assert row["state"] == "paused" and "cpuUsedPct" not in row


def test_pages(api, new_sandbox):
    made = [new_sandbox(metadata={"who": "pages"}).sandbox_id for _ in range(5)]
    for order, expected in (("asc", made), ("desc", made[::-1])):
        seen, cursor = [], ""
        while cursor is not None:
            page = api.get("/dashboard/sandboxes", params={
                "limit": 2, "order": order, "metadata": "who=pages", "cursor": cursor}).json()
            assert len(page["sandboxes"]) <= 2
            seen += [row["sandboxID"] for row in page["sandboxes"]]
            cursor = page["nextCursor"]
        assert seen == expected
    assert page["running"] >= 5 and page["paused"] >= 0


def test_more_rows_than_a_slice(api, new_sandbox):
    """Rows are made in slices of 50; a page has them all, each once."""
    made = [new_sandbox(metadata={"who": "slices"}).sandbox_id for _ in range(60)]
    page = api.get("/dashboard/sandboxes", params={"metadata": "who=slices", "order": "asc"}).json()
    assert [row["sandboxID"] for row in page["sandboxes"]] == made and page["nextCursor"] is None


def test_parents(api, new_sandbox):
    parent = new_sandbox()
    fork = parent.fork()[0]
    snapshot = parent.create_snapshot()
    made = new_sandbox(template=snapshot.snapshot_id)
    try:
        all_rows = rows(api)
        row = all_rows[fork.sandbox_id]
        assert (row["parentID"], row["parentKind"]) == (parent.sandbox_id, "sandbox")
        row = all_rows[made.sandbox_id]
        assert row["parentKind"] == "snapshot" and row["parentID"] == row["templateID"]
        assert "parentID" not in all_rows[parent.sandbox_id]
    finally:
        fork.kill()
        made.kill()
        Sandbox.delete_snapshot(snapshot.snapshot_id)


def test_the_last_error(api, new_sandbox):
    sandbox = new_sandbox()
    megabytes = sandbox.get_info().memory_mb + 64
    hog = f"b = bytearray(); [b.extend(b'x' * 1048576) for _ in range({megabytes})]"
    with pytest.raises(CommandExitException):
        sandbox.commands.run(f'exec python3 -c "{hog}"', timeout=0)
    row = until(lambda: (r := rows(api)[sandbox.sandbox_id]) and "lastError" in r and r, "it is told")
    assert "out of memory" in row["lastError"]["message"] and row["lastError"]["at"].endswith("Z")


@pytest.mark.parametrize("query", [
    "limit=0", "limit=1001", "limit=x", "cursor=x", "state=killed", "order=up", "text=" + "a" * 257, "text=%00", "text=%zz",
    "metadata=x", "template=a:b",
])
def test_wrong_queries(api, query):
    answer = api.get(f"/dashboard/sandboxes?{query}")
    assert answer.status_code == 400 and answer.json()["message"], answer.text


def test_a_team_sees_its_own(api, others_api, anonymous, new_sandbox):
    sandbox = new_sandbox(metadata={"who": "isolation"})
    assert rows(others_api) == {} and rows(others_api, text=sandbox.sandbox_id) == {}
    assert anonymous.get("/dashboard/sandboxes").status_code == 401
