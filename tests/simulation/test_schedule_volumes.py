"""Where pods with volumes may run: binding, zones, limits and exclusive claims."""

from __future__ import annotations

import pytest

from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.schedule import schedule
from tests.controllers.volumes.storage import (
    BOUND,
    a_bound_claim,
    a_claim,
    a_class,
    a_volume,
    reference,
)
from tests.simulation.scheduling import a_node, a_pod, a_snapshot, decide, on

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
NO_VOLUME = "1 node(s) didn't find available persistent volumes to bind"
DRIVER = "disk.example.com"


def with_claims(*names, name="web", **spec):
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names]
    return a_pod(name, volumes=volumes, **spec)


def with_ephemeral():
    return a_pod(volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}])


def in_zone(zone):
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def with_storage(nodes, claims=(), volumes=(), classes=(), pods=(), csi_nodes=(), drivers=()):
    snapshot = a_snapshot(nodes, pods)
    for each in drivers:
        snapshot.csi_drivers[each["metadata"]["name"]] = each
    for claim in claims:
        snapshot.set_claim(claim)
    for volume in volumes:
        snapshot.set_volume(volume)
    for each in classes:
        snapshot.storage_classes[each["metadata"]["name"]] = each
    for each in csi_nodes:
        snapshot.csi_nodes[each["metadata"]["name"]] = each
    return snapshot


def waiting_class(**fields):
    return a_class("wait", volumeBindingMode="WaitForFirstConsumer", **fields)


def deleted(claim):
    return claim | {"metadata": claim["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("pod", "claim", "volume", "answer"),
    [
        (with_claims("data"), None, None, 'persistentvolumeclaim "data" not found'),
        (
            with_ephemeral(),
            None,
            None,
            "waiting for ephemeral volume controller to create the persistentvolumeclaim "
            '"web-data"',
        ),
        (
            with_ephemeral(),
            a_bound_claim("disk", name="web-data"),
            a_volume(),
            "PVC shop/web-data was not created for pod shop/web (pod is not owner)",
        ),
        (
            with_claims("data"),
            deleted(a_bound_claim("disk")),
            None,
            'persistentvolumeclaim "data" is being deleted',
        ),
        (
            with_claims("data"),
            a_bound_claim("disk", phase="Lost"),
            None,
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "disk"',
        ),
        (
            with_claims("data"),
            a_claim(),
            None,
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            with_claims("data"),
            a_claim(volumeName="disk"),
            a_volume(),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            with_claims("data"),
            a_bound_claim("disk"),
            None,
            "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        ),
        (with_claims("data"), a_bound_claim("disk"), a_volume(), ""),
        (with_claims("data"), a_bound_claim("disk"), a_volume(nodeAffinity=in_zone("a")), ""),
        (
            with_claims("data"),
            a_bound_claim("disk"),
            a_volume(nodeAffinity=in_zone("b")),
            "1 node(s) didn't match PersistentVolume's node affinity",
        ),
        (with_claims("data"), a_bound_claim("disk"), a_volume(labels={ZONE: "a"}), ""),
        (with_claims("data"), a_bound_claim("disk"), a_volume(labels={ZONE: "b__a"}), ""),
        (with_claims("data"), a_bound_claim("disk"), a_volume(labels={BETA_ZONE: "a"}), ""),
        (
            with_claims("data"),
            a_bound_claim("disk"),
            a_volume(labels={ZONE: "b"}),
            "1 node(s) had no available volume zone",
        ),
    ],
)
def test_claims_and_volumes(pod, claim, volume, answer):
    """Claims must exist and be bound, and the volumes must be reachable."""
    snapshot = with_storage(
        [a_node("one", labels={ZONE: "a"})], [claim] if claim else (), [volume] if volume else ()
    )
    message = f"0/1 nodes are available: {answer}. {NOT_HELPFUL}" if answer else "one"
    assert decide(pod, snapshot) == message


@pytest.mark.parametrize(
    ("volumes", "storage_class", "selected", "answer"),
    [
        ([a_volume(class_="wait")], {}, "", "disk"),
        ([a_volume(class_="wait", nodeAffinity=in_zone("b"))], {}, "", "provisioned"),
        ([], {}, "", "provisioned"),
        ([], {}, "one", "provisioned"),
        ([a_volume(class_="wait")], {}, "one", "provisioned"),
        ([a_volume(class_="wait")], {}, "two", NO_VOLUME),
        ([], {"provisioner": "kubernetes.io/no-provisioner"}, "", NO_VOLUME),
        ([a_volume(class_="wait", size="1Mi")], {"provisioner": "kubernetes.io/no-provisioner"},
         "", NO_VOLUME),
        ([], {"allowedTopologies": [
            {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]},
            {"matchLabelExpressions": [{"key": ZONE, "values": ["c", "a"]}]},
        ]}, "", "provisioned"),
        ([], {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]},
         "", NO_VOLUME),
    ],
)  # fmt: skip
def test_claims_that_wait_for_a_consumer(volumes, storage_class, selected, answer):
    """Such a claim gets a volume that the node reaches, or one that is provisioned there."""
    annotations = {"volume.kubernetes.io/selected-node": selected} if selected else None
    claim = a_claim(class_="wait", annotations=annotations)
    snapshot = with_storage(
        [a_node("one", labels={ZONE: "a"})], [claim], volumes, [waiting_class(**storage_class)]
    )
    decision = schedule(PodInfo(with_claims("data")), snapshot)
    if answer == NO_VOLUME:
        assert decision.message == f"0/1 nodes are available: {answer}. {NOT_HELPFUL}"
        return
    ((claim_to_bind, volume),) = decision.volume_claims
    assert claim_to_bind is claim
    assert (volume["metadata"]["name"] if volume else "provisioned") == answer


def test_claims_share_no_volume():
    """The smallest claim chooses first, and each volume is given once."""
    claims = [a_claim("big", "2Gi", class_="wait"), a_claim("small", "1Gi", class_="wait")]
    volumes = [a_volume(name, "2Gi", class_="wait") for name in ("a", "b")]
    snapshot = with_storage([a_node()], claims, volumes, [waiting_class()])
    decision = schedule(PodInfo(with_claims("big", "small")), snapshot)
    chosen = [
        (claim["metadata"]["name"], volume["metadata"]["name"])
        for claim, volume in decision.volume_claims
    ]
    assert chosen == [("small", "a"), ("big", "b")]


def test_reserved_volume():
    """A volume that is reserved for the claim leads the pod to its node, if nothing can be
    provisioned elsewhere."""
    local = waiting_class(provisioner="kubernetes.io/no-provisioner")
    volume = a_volume(class_="wait", claimRef=reference(), nodeAffinity=in_zone("b"))
    nodes = [a_node(name, labels={ZONE: name}) for name in ("a", "b")]
    snapshot = with_storage(nodes, [a_claim(class_="wait")], [volume], [local])
    decision = schedule(PodInfo(with_claims("data")), snapshot)
    assert (decision.node, decision.volume_claims[0].volume) == ("b", volume)


def test_exclusive_claims():
    """Another pod uses the claim, on any node; pods of lower priority make room."""
    claim = a_bound_claim("disk", accessModes=["ReadWriteOncePod"])
    user = on("one", with_claims("data", name="user"))
    snapshot = with_storage([a_node("one"), a_node("two")], [claim], [a_volume()], pods=[user])
    decision = schedule(PodInfo(with_claims("data")), snapshot)
    assert decision.message.startswith(
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with "
        "ReadWriteOncePod access mode already in-use by another pod. "
    )
    decision = schedule(PodInfo(with_claims("data", priority=10)), snapshot)
    assert (decision.nominated_node, [each.name for each in decision.victims]) == ("one", ["user"])
    snapshot.remove_pod("shop/user")
    assert decide(with_claims("data"), snapshot) == "one"


def limited(count, driver=DRIVER):
    drivers = [{"name": driver, "nodeID": "one", "allocatable": {"count": count}}]
    return {"metadata": {"name": "one"}, "spec": {"drivers": drivers}}


@pytest.mark.parametrize(
    ("csi_node", "claim", "fits"),
    [
        (limited(2), "new", True),
        (limited(1), "new", False),
        (limited(1), "used", True),
        (limited(1, "other.example.com"), "new", True),
        (limited(1), "unbound", False),
    ],
)
def test_volume_limits(csi_node, claim, fits):
    """A volume counts once for each node; one to be provisioned counts for its driver."""
    claims = [
        a_bound_claim("used", name="used", annotations=BOUND),
        a_bound_claim("new", name="new", annotations=BOUND),
        a_claim("unbound", class_="wait"),
    ]
    volumes = [
        a_volume(name, csi={"driver": DRIVER, "volumeHandle": name}) for name in ("used", "new")
    ]
    snapshot = with_storage(
        [a_node("one")], claims, volumes, [waiting_class(provisioner=DRIVER)],
        [on("one", with_claims("used", name="user"))], [csi_node],
    )  # fmt: skip
    decision = decide(with_claims(claim), snapshot)
    assert (decision == "one") is fits
    if not fits:
        assert "1 node(s) exceed max volume count" in decision


def a_driver(**spec):
    return {"metadata": {"name": DRIVER}, "spec": spec}


def test_attached_volumes_count():
    """A volume that no pod uses any more counts until it is detached."""
    volumes = [
        a_volume(name, csi={"driver": DRIVER, "volumeHandle": name}) for name in ("left", "disk")
    ]
    snapshot = with_storage(
        [a_node("one")], [a_bound_claim("disk")], volumes, csi_nodes=[limited(1)]
    )
    source = {"persistentVolumeName": "left"}
    spec = {"attacher": DRIVER, "nodeName": "one", "source": source}
    snapshot.attachments["a"] = {"metadata": {"name": "a"}, "spec": spec}
    assert "1 node(s) exceed max volume count" in decide(with_claims("data"), snapshot)
    del snapshot.attachments["a"]
    assert decide(with_claims("data"), snapshot) == "one"


@pytest.mark.parametrize(
    ("driver", "csi_nodes", "fits"),
    [
        (a_driver(preventPodSchedulingIfMissing=True), [], False),
        (a_driver(preventPodSchedulingIfMissing=True), [limited(9, "other.example.com")], False),
        (a_driver(preventPodSchedulingIfMissing=True), [limited(9)], True),
        (a_driver(preventPodSchedulingIfMissing=False), [], True),
    ],
)
def test_missing_driver(driver, csi_nodes, fits):
    """A driver may keep pods from nodes where it is not installed."""
    volume = a_volume(csi={"driver": DRIVER, "volumeHandle": "disk"})
    snapshot = with_storage(
        [a_node("one")], [a_bound_claim("disk")], [volume], csi_nodes=csi_nodes, drivers=[driver]
    )
    decision = decide(with_claims("data"), snapshot)
    assert (decision == "one") is fits
    if not fits:
        assert f"1 {DRIVER} CSI driver is not installed on the node" in decision


def a_capacity(capacity, **fields):
    selector = {"matchLabels": {ZONE: "a"}}
    return {"storageClassName": "wait", "nodeTopology": selector, "capacity": capacity} | fields


@pytest.mark.parametrize(
    ("tracks", "capacities", "fits"),
    [
        (False, [], True),
        (True, [], False),
        (True, [a_capacity("1Gi")], True),
        (True, [a_capacity("1023Mi")], False),
        (True, [a_capacity("1023Mi"), a_capacity("1Ti")], True),
        (True, [a_capacity("1Ti", maximumVolumeSize="1Mi")], False),
        (True, [a_capacity(None)], False),
        (True, [a_capacity("1Ti", storageClassName="other")], False),
        (True, [a_capacity("1Ti", nodeTopology={"matchLabels": {ZONE: "b"}})], False),
        (True, [a_capacity("1Ti", nodeTopology={})], True),
        (True, [a_capacity("1Ti", nodeTopology=None)], False),
    ],
)
def test_storage_capacity(tracks, capacities, fits):
    """A volume to be provisioned needs room on the node, if its driver publishes capacities."""
    snapshot = with_storage(
        [a_node("one", labels={ZONE: "a"})], [a_claim(class_="wait")],
        classes=[waiting_class(provisioner=DRIVER)], drivers=[a_driver(storageCapacity=tracks)],
    )  # fmt: skip
    snapshot.storage_capacities.update({str(key): each for key, each in enumerate(capacities)})
    decision = decide(with_claims("data"), snapshot)
    assert (decision == "one") is fits
    if not fits:
        reason = "1 node(s) did not have enough free storage"
        assert decision == f"0/1 nodes are available: {reason}. {NOT_HELPFUL}"
