"""What the binder does about a claim."""

from __future__ import annotations

import pytest

from kapiserver.controllers.volumes.claim_plan import ClaimState, plan_claim
from tests.controllers.volumes.storage import (
    BOUND,
    BY_CONTROLLER,
    a_bound_claim,
    a_claim,
    a_class,
    a_volume,
    reference,
)

WAIT = {"volumeBindingMode": "WaitForFirstConsumer"}
PROVISIONER = "volume.kubernetes.io/storage-provisioner"


def plan(claim, **state):
    return plan_claim(ClaimState(claim=claim, **state))


def event_of(plan):
    return (plan.event.type, plan.event.reason, plan.event.message) if plan.event else None


def is_bound(plan, volume):
    """Both sides refer to each other."""
    claim = plan.claim
    return (
        claim["spec"]["volumeName"] == volume == plan.volume["metadata"]["name"]
        and plan.volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        and claim["status"]["phase"] == plan.volume["status"]["phase"] == "Bound"
        and "pv.kubernetes.io/bind-completed" in claim["metadata"]["annotations"]
    )


def test_binding():
    result = plan(a_claim(), candidates=[a_volume(size="2Gi")])
    assert is_bound(result, "disk")
    assert result.event is None
    assert result.claim["metadata"]["annotations"] == BOUND | BY_CONTROLLER
    assert result.claim["status"] == {
        "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"},
    }  # fmt: skip
    assert result.volume["metadata"]["annotations"] == BY_CONTROLLER
    assert result.volume["spec"]["claimRef"] == {
        "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "uid-data",
        "apiVersion": "v1", "resourceVersion": "",
    }  # fmt: skip


def test_a_volume_that_a_user_reserved():
    """Only the claim is marked as bound by the controller, and the volume gets the uid."""
    result = plan(a_claim(), candidates=[a_volume(claimRef=reference(uid=None))])
    assert is_bound(result, "disk")
    assert "annotations" not in result.volume["metadata"]
    assert result.claim["metadata"]["annotations"] == BOUND | BY_CONTROLLER


def test_a_claim_that_names_its_volume():
    """Only the volume is marked as bound by the controller."""
    result = plan(a_claim(volumeName="disk"), volume=a_volume())
    assert is_bound(result, "disk")
    assert result.claim["metadata"]["annotations"] == BOUND
    assert result.volume["metadata"]["annotations"] == BY_CONTROLLER


def test_both_name_each_other():
    volume = a_volume(claimRef=reference(uid=None))
    result = plan(a_claim(volumeName="disk"), volume=volume)
    assert is_bound(result, "disk")
    assert result.claim["metadata"]["annotations"] == BOUND
    assert "annotations" not in result.volume["metadata"]


def test_attributes_class():
    """The class of attributes is current when the claim gets bound, and later the resizer's."""
    gold = {"volumeAttributesClassName": "gold"}
    first = plan(a_claim(**gold), candidates=[a_volume(**gold)])
    assert first.claim["status"]["currentVolumeAttributesClassName"] == "gold"
    silver = a_volume(volumeAttributesClassName="silver", claimRef=reference())
    later = plan(first.claim, volume=silver)
    assert later.claim["status"]["currentVolumeAttributesClassName"] == "gold"


@pytest.mark.parametrize(
    ("claim", "state", "event"),
    [
        (
            a_claim(),
            {},
            (
                "Normal",
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            ),
        ),
        (
            a_claim(class_="fast"),
            {"storage_class": a_class(**WAIT)},
            (
                "Normal",
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding",
            ),
        ),
        (
            a_claim(class_="fast"),
            {"storage_class": a_class(**WAIT), "waiting_pods": ["web"]},
            ("Normal", "WaitForPodScheduled", "waiting for pod web to be scheduled"),
        ),
        (
            a_claim(class_="fast"),
            {"storage_class": a_class(**WAIT), "waiting_pods": ["web", "db"]},
            ("Normal", "WaitForPodScheduled", "waiting for pods web,db to be scheduled"),
        ),
        (
            a_claim(volumeName="disk"),
            {"volume": a_volume(claimRef=reference("other", "uid-other"))},
            ("Warning", "FailedBinding", 'volume "disk" already bound to a different claim.'),
        ),
        (
            a_claim(volumeName="disk", size="9Gi"),
            {"volume": a_volume()},
            (
                "Warning",
                "VolumeMismatch",
                'Cannot bind to requested volume "disk": requested PV is too small',
            ),
        ),
        (a_claim(volumeName="disk"), {}, None),
    ],
)
def test_pending_claims(claim, state, event):
    """A claim that waits is Pending, keeps nothing of a volume, and says why."""
    claim["status"] = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    result = plan(claim, **state)
    assert event_of(result) == event
    assert result.claim == claim | {"status": {"phase": "Pending"}}
    assert result.volume is None


@pytest.mark.parametrize(
    ("provisioner", "asked"),
    [
        ("example.com/disk", "example.com/disk"),
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ],
)
def test_provisioning(provisioner, asked):
    """The binder asks a provisioner by annotations."""
    result = plan(a_claim(class_="fast"), storage_class=a_class(provisioner=provisioner))
    assert result.claim["metadata"]["annotations"] == {
        "volume.beta.kubernetes.io/storage-provisioner": asked,
        PROVISIONER: asked,
    }
    assert event_of(result) == (
        "Normal",
        "ExternalProvisioning",
        f"Waiting for a volume to be created either by the external provisioner '{asked}' or "
        "manually by the system administrator. If volume creation is delayed, please verify that "
        "the provisioner is running and correctly registered.",
    )
    assert plan(result.claim, storage_class=a_class(provisioner=provisioner)).claim == result.claim


def test_provisioning_for_the_selected_node():
    claim = a_claim(class_="fast", annotations={"volume.kubernetes.io/selected-node": "one"})
    result = plan(claim, storage_class=a_class(**WAIT))
    assert result.claim["metadata"]["annotations"][PROVISIONER] == "example.com/disk"


@pytest.mark.parametrize(
    ("storage_class", "message"),
    [
        (None, 'storageclass.storage.k8s.io "fast" not found'),
        (
            a_class(provisioner="kubernetes.io/no-provisioner"),
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
    ],
)
def test_provisioning_that_fails(storage_class, message):
    claim = a_claim(class_="fast")
    result = plan(claim, storage_class=storage_class)
    assert event_of(result) == ("Warning", "ProvisioningFailed", message)
    assert result.claim is claim


def test_default_class():
    """A claim without a class gets the default one; one that wants none does not."""
    result = plan(a_claim(class_=None), default_class="standard")
    assert result.claim["spec"]["storageClassName"] == "standard"
    assert result.event is None
    none = plan(a_claim(class_=""), default_class="standard")
    assert none.event.reason == "FailedBinding"


def test_a_bound_claim_stays():
    bound = plan(a_claim(), candidates=[a_volume()])
    again = plan(bound.claim, volume=bound.volume)
    assert (again.claim, again.volume, again.event) == (bound.claim, bound.volume, None)


def test_a_binding_that_was_interrupted():
    """The volume was written, the claim was not."""
    half = plan(a_claim(), candidates=[a_volume()]).volume
    result = plan(a_claim(), candidates=[a_volume("small", "1Gi"), half])
    assert is_bound(result, "disk")
    assert result.volume == half


def test_a_volume_that_lost_its_claim():
    """A bound claim takes its volume back."""
    result = plan(a_bound_claim("disk"), volume=a_volume())
    assert is_bound(result, "disk")


@pytest.mark.parametrize(
    ("claim", "volume", "reason", "message"),
    [
        (
            a_bound_claim(""),
            None,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        (
            a_bound_claim("disk"),
            None,
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        ),
        (
            a_bound_claim("disk"),
            a_volume(claimRef=reference("other", "uid-other")),
            "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly",
        ),
    ],
)
def test_lost_claims(claim, volume, reason, message):
    """A claim is lost once, with one event."""
    result = plan(claim, volume=volume)
    assert event_of(result) == ("Warning", reason, message)
    assert result.claim["status"] == {"phase": "Lost"}
    again = plan(result.claim, volume=volume)
    assert (again.claim, again.event) == (result.claim, None)
