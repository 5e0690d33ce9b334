"""Sandbox.list: filters, order and pages."""

import uuid
from datetime import timedelta

import pytest
from e2b import Sandbox, SandboxQuery, SandboxState


@pytest.fixture(scope="module")
def crowd():
    """Five sandboxes with a metadata value of their own, in the order they were made."""
    tag = f"crowd-{uuid.uuid4()}"
    made = []
    try:
        for i in range(5):
            metadata = {"crowd": tag, "number": str(i), "odd & key=": "a/b?c d\u00e9"}
            made.append(Sandbox.create(metadata=metadata, timeout=300))
        yield tag, [sandbox.sandbox_id for sandbox in made]
    finally:
        for sandbox in made:
            sandbox.kill()


def listed(query=None, **options):
    """The ids of every page, one list per page."""
    paginator = Sandbox.list(query=query, **options)
    pages = []
    while paginator.has_next:
        pages.append([info.sandbox_id for info in paginator.next_items()])
    return pages


def test_newest_first(crowd):
    tag, ids = crowd
    assert listed(SandboxQuery(metadata={"crowd": tag})) == [ids[::-1]]


def test_oldest_first(crowd):
    tag, ids = crowd
    assert listed(SandboxQuery(metadata={"crowd": tag}), order="asc") == [ids]


def test_metadata_must_match_in_full(crowd):
    tag, ids = crowd
    assert listed(SandboxQuery(metadata={"crowd": tag, "number": "3"})) == [[ids[3]]]
    assert listed(SandboxQuery(metadata={"crowd": tag, "number": "9"})) == [[]]
    assert listed(SandboxQuery(metadata={"crowd": tag + "x"})) == [[]]


def test_metadata_with_odd_characters(crowd):
    tag, ids = crowd
    query = SandboxQuery(metadata={"crowd": tag, "odd & key=": "a/b?c d\u00e9"})
    assert listed(query) == [ids[::-1]]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages(crowd, size, order):
    tag, ids = crowd
    pages = listed(SandboxQuery(metadata={"crowd": tag}), limit=size, order=order)
    expected = ids if order == "asc" else ids[::-1]
    assert [one for page in pages for one in page] == expected
    assert all(len(page) <= size for page in pages)


def test_a_page_survives_the_end_of_its_last_sandbox(new_sandbox):
    tag = f"page-{uuid.uuid4()}"
    made = [new_sandbox(metadata={"page": tag}) for _ in range(3)]
    paginator = Sandbox.list(query=SandboxQuery(metadata={"page": tag}), limit=1)
    (newest,) = paginator.next_items()
    assert newest.sandbox_id == made[2].sandbox_id
    made[2].kill()
    rest = []
    while paginator.has_next:
        rest += [info.sandbox_id for info in paginator.next_items()]
    assert rest == [made[1].sandbox_id, made[0].sandbox_id]


def test_by_state(crowd):
    tag, ids = crowd
    metadata = {"crowd": tag}
    assert listed(SandboxQuery(metadata=metadata, state=[SandboxState.RUNNING])) == [ids[::-1]]
    assert listed(SandboxQuery(metadata=metadata, state=[SandboxState.PAUSED])) == [[]]


def test_by_template(crowd):
    tag, ids = crowd
    assert listed(SandboxQuery(metadata={"crowd": tag}, template="base")) == [ids[::-1]]
    assert listed(SandboxQuery(metadata={"crowd": tag}, template="no-such-template")) == [[]]


def test_by_start(crowd):
    tag, ids = crowd
    third = Sandbox.get_info(ids[2]).started_at
    metadata = {"crowd": tag}
    assert listed(SandboxQuery(metadata=metadata, started_after=third)) == [ids[:1:-1]]
    later = third + timedelta(days=1)
    assert listed(SandboxQuery(metadata=metadata, started_after=later)) == [[]]


def test_list_and_info_agree(crowd):
    tag, ids = crowd
    rows = Sandbox.list(query=SandboxQuery(metadata={"crowd": tag})).next_items()
    assert {info.sandbox_id for info in rows} == set(ids)
    for info in rows:
        detail = Sandbox.get_info(info.sandbox_id)
        for field in (
            "template_id",
            "name",
            "metadata",
            "started_at",
            "end_at",
            "state",
            "memory_mb",
        ):
            assert getattr(info, field) == getattr(detail, field)


def test_a_killed_one_is_not_listed(new_sandbox):
    tag = f"killed-{uuid.uuid4()}"
    sandbox = new_sandbox(metadata={"tag": tag})
    assert listed(SandboxQuery(metadata={"tag": tag})) == [[sandbox.sandbox_id]]
    sandbox.kill()
    assert listed(SandboxQuery(metadata={"tag": tag})) == [[]]


def test_templates_count_what_is_made_of_them(api, new_sandbox):
    def base():
        (row,) = [row for row in api.get("/templates").json() if "base" in row["aliases"]]
        return row

    before = base()["spawnCount"]
    made = new_sandbox()
    after = base()
    assert after["spawnCount"] == before + 1
    assert after["lastSpawnedAt"] == api.get(f"/sandboxes/{made.sandbox_id}").json()["startedAt"]
