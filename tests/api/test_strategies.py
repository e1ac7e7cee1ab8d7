"""Strategies of all kinds, with any object."""

import copy
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.group import HUB
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.metadata_validation import validate_new, validate_updated
from kapiserver.api.types import Message
from tests.objects import (
    AUTOSCALER,
    DEPLOYMENT,
    POD,
    SCHEME,
    SERVICE,
    changed,
    defaulted,
    resource,
    strategy,
)
from tests.trees import objects

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RESOURCES = [resource for group in SCHEME.groups for resource in SCHEME.resources(group.name)]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.qualified_name)
def test_tables_are_complete(resource):
    """Every resource and subresource has a strategy, an extractor and columns."""
    assert SCHEME.strategy(resource)
    for subresource in resource.subresources:
        assert SCHEME.strategy(resource, subresource.name)
    assert set(SCHEME.storage_resource(resource).selectable_fields) < set(
        SCHEME.field_extractor(resource)({})
    )
    assert SCHEME.columns(resource.group, resource.kind).columns


def _ordered(type_, tree):
    reordered = dict(tree)
    reorder_keys(reordered, type_)
    assert list(reordered) == list(tree), type_.__name__
    for flat in type_.flat_fields():
        value = tree.get(flat.field.name)
        if isinstance(flat.field.shape, Message) and isinstance(value, dict):
            _ordered(flat.field.shape.type, value)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.qualified_name)
@settings(max_examples=5)
@given(data=st.data())
def test_any_object(resource, data):
    """For any object, validation, warnings, cells and fields do not raise, defaulting is
    idempotent, and keys stay in declared order."""
    hub = SCHEME.hub_version(resource.group, resource.kind)
    if hub.version == HUB:
        hub = hub._replace(version=resource.storage_version)
    kind = hub.with_kind(resource.kind)
    obj, old = data.draw(objects(SCHEME, kind)), data.draw(objects(SCHEME, kind))
    for tree in (obj, old):
        SCHEME.default(tree)
    prepared = copy.deepcopy(obj)
    SCHEME.default(obj)
    assert obj == prepared
    for name in ("", *(subresource.name for subresource in resource.subresources)):
        resource_strategy = SCHEME.strategy(resource, name)
        new = copy.deepcopy(obj)
        if not name:
            resource_strategy.prepare_for_create(new)
            resource_strategy.validate(new)
            validate_new(new, namespaced=resource.namespaced, check=resource_strategy.check_name)
            resource_strategy.warnings(new, None)
        old_text = copy.deepcopy(old)
        resource_strategy.prepare_for_update(new, old)
        resource_strategy.validate_update(new, old)
        validate_updated(new, old, namespaced=resource.namespaced)
        resource_strategy.warnings(new, old)
        resource_strategy.canonicalize(new)
        resource_strategy.grace_period(new, None)
        resource_strategy.pending_finalizers(new)
        assert old == old_text
        reorder_keys(new.get("metadata") or {}, ObjectMeta)  # as the store does at the end
        _ordered(SCHEME.type_of(kind), new)
    columns = SCHEME.columns(resource.group, resource.kind)
    assert len(columns.cells(obj, NOW)) == len(columns.definitions())
    assert all(isinstance(value, str) for value in SCHEME.field_extractor(resource)(obj).values())


STATUSES = [
    ("pods", POD, "status/phase", "Running"),
    ("deployments", DEPLOYMENT, "status/replicas", 3),
    ("services", SERVICE, "status/loadBalancer", {"ingress": [{"ip": "1.2.3.4"}]}),
    ("horizontalpodautoscalers", AUTOSCALER, "status/currentReplicas", 3),
]


@pytest.mark.parametrize(("name", "obj", "path", "value"), STATUSES)
def test_status_and_spec_are_separate(name, obj, path, value):
    """An update of the object keeps the status, an update of the status keeps the spec."""
    old = defaulted(obj)
    new = changed(changed(old, path, value), "spec/changed", True)
    spec = new["spec"]
    through_status = copy.deepcopy(new)
    strategy(name).prepare_for_update(new, old)
    assert new["status"] == old["status"]
    assert new["spec"] == spec
    strategy(f"{name}/status").prepare_for_update(through_status, old)
    assert through_status["spec"] == old["spec"]
    assert changed(through_status, "spec/x", 1)["status"] != old["status"]


GENERATIONS = [
    ("pods", POD, "spec/nodeName", "n", 2),
    ("pods", POD, "metadata/labels", {"a": "b"}, 1),
    ("deployments", DEPLOYMENT, "spec/replicas", 3, 2),
    ("deployments", DEPLOYMENT, "metadata/annotations", {"a": "b"}, 2),
    ("deployments", DEPLOYMENT, "metadata/labels", {"a": "b"}, 1),
    ("horizontalpodautoscalers", AUTOSCALER, "spec/maxReplicas", 9, 2),
]


@pytest.mark.parametrize(("name", "obj", "path", "value", "generation"), GENERATIONS)
def test_generations(name, obj, path, value, generation):
    """The generation begins at 1 and counts the changes of the spec."""
    old = defaulted(obj)
    strategy(name).prepare_for_create(old)
    assert old["metadata"]["generation"] == 1
    new = changed(old, path, value)
    strategy(name).prepare_for_update(new, old)
    assert new["metadata"]["generation"] == generation


def test_status_of_a_new_object():
    """Clients cannot set the status on create, except the kubelet for its node."""
    for name, obj, path, value in STATUSES:
        changed_object = changed(defaulted(obj), path, value)
        strategy(name).prepare_for_create(changed_object)
        assert changed_object["status"] != changed(defaulted(obj), path, value)["status"]
    node = {"metadata": {"name": "n"}, "spec": {}, "status": {"phase": "x"}}
    strategy("nodes").prepare_for_create(node)
    assert node["status"] == {"phase": "x"}


QUALITIES = [
    ({}, "BestEffort"),
    ({"requests": {"cpu": "1"}}, "Burstable"),
    ({"limits": {"cpu": "1"}}, "Burstable"),
    ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ({"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "1"}}, "Guaranteed"),
    ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
]


@pytest.mark.parametrize(("resources", "quality"), QUALITIES)
def test_quality_of_service(resources, quality):
    """A new pod is Pending; requests and limits determine its QoS class."""
    pod = defaulted(changed(POD, "spec/containers/0/resources", resources))
    strategy("pods").prepare_for_create(pod)
    assert pod["status"] == {"phase": "Pending", "qosClass": quality}


def test_gated_pod():
    """A new pod with scheduling gates has the condition PodScheduled=False."""
    pod = defaulted(changed(POD, "spec/schedulingGates", [{"name": "a.b/c"}]))
    strategy("pods").prepare_for_create(pod)
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


GRACE = [
    ({}, {}, None, 0),
    ({"nodeName": "n"}, {}, None, 30),
    ({"nodeName": "n"}, {}, 5, 5),
    ({"nodeName": "n"}, {"phase": "Succeeded"}, 5, 0),
    ({"nodeName": "n", "terminationGracePeriodSeconds": -3}, {}, None, 1),
]


@pytest.mark.parametrize(("spec", "status", "requested", "period"), GRACE)
def test_grace_period(spec, status, requested, period):
    """A pod on a node has a grace period; one without a node, or a completed one, is deleted at
    once."""
    pod = defaulted(POD)
    pod["spec"].update(spec)
    pod["status"].update(status)
    assert strategy("pods").grace_period(pod, requested) == period


def test_namespace_life():
    """A namespace is Active, labelled with its name, and has its own finalizer."""
    kind_strategy = strategy("namespaces")
    namespace = {"metadata": {"name": "n"}}
    kind_strategy.prepare_for_create(namespace)
    kind_strategy.canonicalize(namespace)
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert kind_strategy.pending_finalizers(namespace) == ["kubernetes"]
    kind_strategy.begin_deletion(namespace, {})
    assert namespace["status"] == {"phase": "Terminating"}
    without_finalizers = changed(namespace, "spec", {})
    strategy("namespaces/finalize").prepare_for_update(without_finalizers, namespace)
    assert kind_strategy.pending_finalizers(without_finalizers) == []
    updated = changed(namespace, "spec", {})
    kind_strategy.prepare_for_update(updated, namespace)
    assert updated["spec"] == {"finalizers": ["kubernetes"]}


def test_service_keeps_its_addresses():
    """An update that omits allocated fields keeps them."""
    old = defaulted(changed(SERVICE, "spec/type", "NodePort"))
    old["spec"].update(clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"])
    old["spec"]["ports"][0]["nodePort"] = 30000
    new = defaulted(changed(SERVICE, "spec/type", "NodePort"))
    strategy("services").prepare_for_update(new, old)
    assert new["spec"]["clusterIP"] == "10.0.0.1"
    assert new["spec"]["clusterIPs"] == ["10.0.0.1"]
    assert new["spec"]["ports"][0]["nodePort"] == 30000
    headless = defaulted(changed(SERVICE, "spec/clusterIP", "None"))
    strategy("services").prepare_for_create(headless)
    assert headless["spec"]["clusterIPs"] == ["None"]
    assert strategy("services").validate(headless) == []


def test_ephemeral_containers():
    """The subresource changes only the list of ephemeral containers."""
    old = defaulted(POD)
    new = changed(old, "spec/ephemeralContainers", [{"name": "e", "image": "x"}])
    new["spec"]["nodeName"] = "elsewhere"
    kind_strategy = strategy("pods/ephemeralcontainers")
    kind_strategy.prepare_for_update(new, old)
    assert "nodeName" not in new["spec"]
    assert [container["name"] for container in new["spec"]["ephemeralContainers"]] == ["e"]
    removed = changed(new, "spec/ephemeralContainers")
    (error,) = kind_strategy.validate_update(removed, new)
    assert error.detail == 'existing ephemeral containers "e" may not be removed\n'


def test_writes_without_a_version():
    """A lease requires a resourceVersion; leases, events and services are created by PUT."""
    lease = strategy("leases")
    assert (lease.allow_unconditional_update, lease.allow_create_on_update) == (False, True)
    assert strategy("events").allow_create_on_update
    assert strategy("services").allow_create_on_update
    assert not strategy("pods").allow_create_on_update


NAMES = [
    ("namespaces", "a.b", False),
    ("services", "0a", True),
    ("services", "a.b", False),
    ("pods", "a.b", True),
    ("leases", "a.b", True),
]


@pytest.mark.parametrize(("name", "value", "fine"), NAMES)
def test_names(name, value, fine):
    """Each kind validates its names by its own rule."""
    assert (strategy(name).check_name(value) == []) is fine


FIELDS = [
    ("pods", {"spec": {"hostNetwork": True}}, "spec.hostNetwork", "true"),
    ("pods", {}, "spec.hostNetwork", "false"),
    ("pods", {"status": {"podIPs": [{"ip": "a"}, {"ip": "b"}]}}, "status.podIP", "a"),
    ("pods", {"status": {"podIPs": [{"ip": "a"}, {"ip": "b"}]}}, "status.podIPs", "a,b"),
    ("nodes", {"spec": {"unschedulable": True}}, "spec.unschedulable", "true"),
    ("events", {"source": {"component": "c"}, "reportingComponent": "r"}, "source", "c"),
    ("events", {"source": {}, "reportingComponent": "r"}, "source", "r"),
    ("namespaces", {"status": {"phase": "Active"}}, "status.phase", "Active"),
    ("secrets", {"type": "Opaque"}, "type", "Opaque"),
]


@pytest.mark.parametrize(("name", "obj", "field", "value"), FIELDS)
def test_fields(name, obj, field, value):
    """Selectable fields have the values that kube-apiserver gives them."""
    assert SCHEME.field_extractor(resource(name))(obj)[field] == value
