"""Validation of stateful sets: volume claim templates, mutable fields, order of errors."""

from tests.api.test_apps import CLAIM, OBJECTS, STS, UNSELECTED
from tests.objects import changed, defaulted, strategy, texts


def test_claims_are_mounted():
    """Pods of a stateful set may mount its volume claim templates."""
    mounts = [{"name": "data", "mountPath": "/d"}]
    obj = changed(OBJECTS[STS], "spec/template/spec/containers/0/volumeMounts", mounts)
    obj = defaulted(changed(obj, "spec/volumeClaimTemplates", [CLAIM]))
    assert texts(strategy(STS).validate(obj)) == []


def test_order_of_errors():
    """Errors have the order of kube-apiserver."""
    obj = changed(OBJECTS[STS], "spec/template/spec/restartPolicy", "Never")
    obj["spec"] |= {
        "serviceName": "No",
        "replicas": -1,
        "volumeClaimTemplates": [changed(CLAIM, "spec/accessModes", [])],
        "updateStrategy": {"type": "Odd"},
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"},
    }
    errors = [str(error.path) for error in strategy(STS).validate(defaulted(obj))]
    assert errors == [
        "spec.updateStrategy",
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
        "spec.volumeClaimTemplates[0].spec.accessModes",
        "spec.replicas",
        "spec.serviceName",
        "spec.template.spec.restartPolicy",
    ]


def test_mutable_fields():
    """Template, replicas and update strategy are mutable, and invalid old pod specs may stay."""
    old = defaulted(OBJECTS[STS])
    for path, value in (
        ("spec/replicas", 3),
        ("spec/template/spec/containers/0/image", "x:2"),
        ("spec/ordinals", {"start": 1}),
        ("spec/revisionHistoryLimit", 1),
    ):
        assert not strategy(STS).validate_update(changed(old, path, value), old)
    for name, value in (("serviceName", "t"), ("podManagementPolicy", "Parallel")):
        errors = strategy(STS).validate_update(changed(old, f"spec/{name}", value), old)
        assert texts(errors) == [f'spec.{name}: Invalid value: "{value}": field is immutable']
    claimed = changed(old, "spec/volumeClaimTemplates", [CLAIM])
    errors = strategy(STS).validate_update(
        changed(claimed, "spec/volumeClaimTemplates", []), claimed
    )
    assert texts(errors) == ["spec.volumeClaimTemplates: Invalid value: []: field is immutable"]
    wrong = changed(old, "spec/template/spec/containers/0/image", "")
    assert not strategy(STS).validate_update(changed(wrong, "spec/replicas", 2), wrong)
    assert strategy(STS).validate_update(wrong, old)
    unfit = changed(wrong, "spec/template/metadata/labels/a", "c")
    assert texts(strategy(STS).validate_update(unfit, wrong)) == [UNSELECTED]
    odd = changed(old, "spec/serviceName", "No")
    odd["spec"]["volumeClaimTemplates"] = [changed(CLAIM, "spec/accessModes", [])]
    assert not strategy(STS).validate_update(changed(odd, "spec/replicas", 2), odd)
