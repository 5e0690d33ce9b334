"""GET /sandboxes/{id}/lineage: forks, snapshots, and what was made of them."""

import pytest
from e2b import Sandbox


def lineage(api, sandbox_id):
    answer = api.get(f"/sandboxes/{sandbox_id}/lineage")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["truncated"] is False
    nodes = {node["id"]: node for node in body["nodes"]}
    assert len(nodes) == len(body["nodes"]), "each node is there once"
    return nodes


@pytest.fixture
def family(new_sandbox):
    """root -> fork -> snapshot -> made -> grandchild (a fork)."""
    made = []
    root = new_sandbox()
    fork = root.fork()[0]
    made.append(fork)
    snapshot = fork.create_snapshot()
    child = new_sandbox(template=snapshot.snapshot_id)
    grandchild = child.fork()[0]
    made.append(grandchild)
    yield root, fork, snapshot, child, grandchild
    for sandbox in made:
        sandbox.kill()
    Sandbox.delete_snapshot(snapshot.snapshot_id)


def test_the_whole_tree_from_every_place(api, family):
    root, fork, snapshot, child, grandchild = (getattr(one, "sandbox_id", None) for one in family)
    for place in (root, fork, child, grandchild):
        nodes = lineage(api, place)
        (of_snapshot,) = [node["id"] for node in nodes.values() if node["kind"] == "snapshot"]
        parents = {node["id"]: node["parentID"] for node in nodes.values()}
        assert parents == {root: None, fork: root, of_snapshot: fork, child: of_snapshot, grandchild: child}
    assert nodes[root]["state"] == "running" and nodes[root]["name"] == "base"
    assert nodes[of_snapshot]["state"] == "ready" and nodes[of_snapshot]["at"].endswith("Z")


def test_killed_ones_remain(api, family):
    root, fork, *_ = family
    root.kill()
    nodes = lineage(api, fork.sandbox_id)
    assert nodes[root.sandbox_id]["state"] == "killed" and nodes[root.sandbox_id]["reason"] == "request"
    assert nodes[root.sandbox_id]["endedAt"].endswith("Z")
    assert lineage(api, root.sandbox_id).keys() == nodes.keys()


def test_a_snapshot_made_again_from_its_own_child(api, new_sandbox):
    first = new_sandbox()
    name = f"circle-{first.sandbox_id}"
    snapshot = first.create_snapshot(name=name)
    child = new_sandbox(template=snapshot.snapshot_id)
    again = child.create_snapshot(name=name)
    try:
        nodes = lineage(api, child.sandbox_id)
        assert child.sandbox_id in nodes and len(nodes) <= 3
    finally:
        Sandbox.delete_snapshot(again.snapshot_id)


def test_alone(api, own_sandbox):
    own_sandbox.pause()
    (node,) = lineage(api, own_sandbox.sandbox_id).values()
    assert node["kind"] == "sandbox" and node["state"] == "paused" and node["parentID"] is None


def test_another_team_finds_nothing(others_api, anonymous, own_sandbox):
    for sandbox_id in (own_sandbox.sandbox_id, "inothing0000000000000", "x", "%00", "a" * 300):
        assert others_api.get(f"/sandboxes/{sandbox_id}/lineage").status_code in (400, 404), sandbox_id
    assert others_api.get(f"/sandboxes/{own_sandbox.sandbox_id}/lineage").status_code == 404
    assert anonymous.get(f"/sandboxes/{own_sandbox.sandbox_id}/lineage").status_code == 401


def test_connections_are_the_team_s_own(api, others_api, own_sandbox):
    answer = api.get(f"/sandboxes/{own_sandbox.sandbox_id}/connections")
    assert answer.status_code == 200 and answer.json()["connections"] == []
    assert others_api.get(f"/sandboxes/{own_sandbox.sandbox_id}/connections").status_code == 404
