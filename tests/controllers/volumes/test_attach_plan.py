"""To which nodes volumes are attached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.controllers.volumes.attach_plan import (
    AttachState,
    attached_volumes,
    attachment_of,
    needs_attachment,
    plan_attachments,
    unique_name,
)
from tests.controllers.volumes.storage import a_volume, reference

NOW = 1000.0
CSI = {"driver": "disk.example.com", "volumeHandle": "vol-1"}
NAME = "kubernetes.io/csi/disk.example.com^vol-1"
VOLUME = a_volume(csi=CSI, claimRef=reference())
SHARED = a_volume(csi=CSI, claimRef=reference(), accessModes=["ReadWriteMany"])


def a_node(name, *, uses=False, ready=True, taints=()):
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
    status |= {"volumesInUse": [NAME]} if uses else {}
    return {"metadata": {"name": name}, "spec": {"taints": list(taints)}, "status": status}


def a_pod(name, node):
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": {"nodeName": node},
    }  # fmt: skip


def an_attachment(node, **metadata):
    attachment = attachment_of(VOLUME, node) | {"status": {"attached": True}}
    return attachment | {"metadata": attachment["metadata"] | metadata}


def plan(pods=(), attached=(), nodes=(), volume=VOLUME, unneeded=None):
    state = AttachState(
        volume=volume,
        pods=pods,
        attachments=attached,
        nodes={node["metadata"]["name"]: node for node in nodes},
        unneeded=unneeded or {},
    )
    return plan_attachments(state, NOW)


def name_of(node):
    return an_attachment(node)["metadata"]["name"]


def test_names():
    assert unique_name(VOLUME) == NAME
    attachment = attachment_of(VOLUME, "one")
    digest = "a509581e44ef7c663d02aa9842eb83f33f670a8003621ed016d809a7ef302ec2"
    assert attachment["metadata"]["name"] == f"csi-{digest}"  # of handle, driver and node
    assert attachment["spec"] == {
        "attacher": "disk.example.com", "nodeName": "one",
        "source": {"persistentVolumeName": "disk"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("volume", "driver", "needed"),
    [
        (VOLUME, None, True),
        (VOLUME, {"spec": {"attachRequired": True}}, True),
        (VOLUME, {"spec": {"attachRequired": False}}, False),
        (a_volume(), None, False),
    ],
)
def test_which_volumes(volume, driver, needed):
    assert needs_attachment(volume, driver) is needed


def test_attaching():
    """A volume is attached once to each node with a pod that uses it."""
    nodes = [a_node("one"), a_node("two")]
    pods = [a_pod("a", "one"), a_pod("b", "one"), a_pod("c", "two")]
    assert plan(pods[:2], nodes=nodes).attach == ["one"]
    assert plan(pods, nodes=nodes, volume=SHARED).attach == ["one", "two"]
    attached = [an_attachment("one")]
    assert plan(pods, attached, nodes, SHARED).attach == ["two"]
    assert plan([a_pod("a", "gone")]).attach == []


OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("node", "seconds", "detached", "wait"),
    [
        (a_node("one"), 0, True, None),
        (a_node("one", uses=True), 900, False, None),
        (a_node("one", uses=True, ready=False), 0, False, 360),
        (a_node("one", uses=True, ready=False), 100, False, 260),
        (a_node("one", uses=True, ready=False), 360, True, None),
        (a_node("one", uses=True, taints=[OUT_OF_SERVICE]), 0, True, None),
        (None, 0, True, None),
    ],
)
def test_detaching(node, seconds, detached, wait):
    """A volume stays attached while the node uses it."""
    unneeded = {name_of("one"): NOW - seconds}
    result = plan(attached=[an_attachment("one")], nodes=[node] if node else [], unneeded=unneeded)
    assert result.detach == ([name_of("one")] if detached else [])
    assert result.wait == wait


def test_detaching_in_progress():
    terminating = an_attachment("one", deletionTimestamp="2030-01-01T00:00:00Z")
    assert plan(attached=[terminating], nodes=[a_node("one")]).detach == []


def messages(result):
    return [(pod["metadata"]["name"], event.reason, event.message) for pod, event in result.events]


def test_a_volume_for_one_node():
    """The second node waits, and its pods say why."""
    nodes = [a_node("one", uses=True), a_node("two")]
    pods = [a_pod("a", "one"), a_pod("b", "two")]
    result = plan(pods, [an_attachment("one")], nodes)
    assert (result.attach, result.detach) == ([], [])
    assert messages(result) == [
        (
            "b",
            "FailedAttachVolume",
            'Waiting for detach for volume "disk" Volume is already used by pod(s) a',
        )
    ]
    result = plan(pods[1:], [an_attachment("one")], nodes)
    assert messages(result) == [
        (
            "b",
            "FailedAttachVolume",
            'Waiting for detach for volume "disk" Volume is already exclusively attached to one '
            "node, waiting on detach before it can be attached to another node",
        )
    ]


def test_a_volume_that_moves():
    """The volume is detached first; no event says so."""
    result = plan([a_pod("b", "two")], [an_attachment("one")], [a_node("one"), a_node("two")])
    assert (result.attach, result.detach, result.events) == ([], [name_of("one")], [])
    assert plan([a_pod("b", "two")], [], [a_node("two")]).attach == ["two"]


NODES = ("one", "two", "three")


@given(
    st.lists(st.sampled_from(NODES), max_size=4),
    st.sets(st.sampled_from(NODES), max_size=1),
    st.sets(st.sampled_from(NODES)),
    st.booleans(),
)
def test_never_on_two_nodes(placed, attached, using, ready):
    """Whatever pods and nodes do, a volume for one node is attached to one node at most."""
    nodes = [a_node(name, uses=name in using, ready=ready) for name in NODES]
    pods = [a_pod(f"pod-{index}", node) for index, node in enumerate(placed)]
    held = set(attached)
    for _ in range(4):
        result = plan(pods, [an_attachment(each) for each in sorted(held)], nodes)
        held = {each for each in held if name_of(each) not in result.detach} | set(result.attach)
        assert len(held) <= 1


def test_status_of_a_node():
    attached = an_attachment("one")
    other = attached | {"status": {"attached": False}}
    ending = an_attachment("one", deletionTimestamp="2030-01-01T00:00:00Z")
    assert attached_volumes([attached], {"disk": VOLUME}) == [{"name": NAME, "devicePath": ""}]
    assert attached_volumes([other, ending], {"disk": VOLUME}) == []
    assert attached_volumes([attached], {}) == []
