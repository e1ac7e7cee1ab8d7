"""Field management and server-side apply on trees: owners and results of writes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.apply import fieldsets, merge_schema, structured_merge
from kapiserver.api.apply.managed_fields import SERVER_FIELDS, UNOWNED
from kapiserver.api.apply.managed_fields_entries import decode_managers, encode_managers
from kapiserver.api.apply.merge_schema import ANY, ListNode, MapNode
from kapiserver.api.apply.typed_values import SchemaMismatch, check
from kapiserver.api.errors import BadObject, FieldConflicts, NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.types import Tree
from tests.ownership import (
    CONFIG_MAP,
    DEPLOYMENT,
    LATER,
    NOW,
    SCHEME,
    OwnedObject,
    canonical,
    config_map,
    field_manager,
)


def test_apply_creates() -> None:
    """Applying to no object creates it; the applier owns the fields that it set."""
    obj = OwnedObject("v1", "ConfigMap")
    assert obj.apply(CONFIG_MAP, "me")["data"] == {"a": "1"}
    assert obj.tree is not None
    assert obj.tree["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        }
    ]


def test_update_owns_what_it_changed() -> None:
    """An update owns the fields that it added or changed, including new parent objects."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.update(config_map(a="1"), "creator")
    assert obj.owned() == {("creator", "Update"): {"f:data": {".": {}, "f:a": {}}}}
    obj.update(config_map(a="1", b="2"), "other", now=LATER)
    assert obj.owned() == {
        ("creator", "Update"): {"f:data": {".": {}, "f:a": {}}},
        ("other", "Update"): {"f:data": {"f:b": {}}},
    }
    obj.update(config_map(a="3", b="2"), "other", now=LATER)
    assert obj.owned() == {
        ("creator", "Update"): {"f:data": {}},
        ("other", "Update"): {"f:data": {"f:a": {}, "f:b": {}}},
    }
    obj.update(config_map(b="2"), "third", now=LATER)
    assert obj.owned()[("other", "Update")] == {"f:data": {"f:b": {}}}


def test_dropped_fields_are_removed() -> None:
    """A field that its only owner stops to apply is removed; one with another owner stays."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.apply(config_map(a="1", b="2", c="3"), "me")
    obj.apply(config_map(b="2"), "you")
    assert obj.apply(config_map(a="1"), "me")["data"] == {"a": "1", "b": "2"}
    assert obj.owned() == {
        ("me", "Apply"): {"f:data": {"f:a": {}}},
        ("you", "Apply"): {"f:data": {"f:b": {}}},
    }


def test_conflict_and_force() -> None:
    """Changing another manager's field is refused with its name and path; force takes it over."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.apply(config_map(a="1", b="2"), "me")
    obj.update(config_map(a="1", b="5"), "editor")
    with pytest.raises(FieldConflicts) as caught:
        obj.apply(config_map(a="9", b="9"), "you")
    assert str(caught.value) == (
        'Apply failed with 2 conflicts: conflicts with "editor" using v1:\n- .data.b\n'
        'conflicts with "me":\n- .data.a'
    )
    with pytest.raises(FieldConflicts) as caught:
        obj.apply(config_map(a="9"), "you")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "me": .data.a'
    assert obj.apply(config_map(a="9"), "you", force=True)["data"] == {"a": "9", "b": "5"}
    assert obj.owned() == {
        ("editor", "Update"): {"f:data": {"f:b": {}}},
        ("you", "Apply"): {"f:data": {"f:a": {}}},
    }


def test_same_value_is_shared() -> None:
    """Applying the current value is no conflict: both managers own it."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.apply(config_map(a="1"), "me")
    obj.apply(config_map(a="1"), "you")
    assert set(obj.owned()) == {("me", "Apply"), ("you", "Apply")}


def test_first_apply_of_an_old_object() -> None:
    """Fields of an object without managedFields belong to before-first-apply."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.tree = canonical(config_map(a="1", b="2"))
    obj.tree["metadata"]["uid"] = "1"
    assert "managedFields" not in obj.update(config_map(a="1", b="2"), "editor")["metadata"]
    with pytest.raises(FieldConflicts, match='conflict with "before-first-apply" using v1'):
        obj.apply(config_map(a="2"), "me")
    obj.apply(config_map(a="1"), "me")
    assert obj.owned() == {
        ("before-first-apply", "Update"): {"f:data": {".": {}, "f:a": {}, "f:b": {}}},
        ("me", "Apply"): {"f:data": {"f:a": {}}},
    }


def test_reset() -> None:
    """A single empty entry removes all owners."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.apply(config_map(a="1"), "me")
    reset = config_map(a="1")
    reset["metadata"] |= {"uid": "1", "managedFields": [{}]}
    assert "managedFields" not in obj.update(reset, "editor")["metadata"]


def test_client_may_edit_managed_fields() -> None:
    """Entries that a client sends replace the stored ones; malformed ones are ignored."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.apply(config_map(a="1"), "me")
    assert obj.tree is not None
    edited = copy.deepcopy(obj.tree)
    edited["metadata"]["managedFields"][0]["manager"] = "renamed"
    obj.update(edited, "editor")
    assert obj.owned() == {("renamed", "Apply"): {"f:data": {"f:a": {}}}}
    edited = copy.deepcopy(obj.tree)
    edited["metadata"]["managedFields"][0]["fieldsV1"] = {"nonsense": {}}
    obj.update(edited, "editor")
    assert obj.owned() == {("renamed", "Apply"): {"f:data": {"f:a": {}}}}


def test_lists_merge_by_key() -> None:
    """Items of a list with keys are merged one by one, in the applier's order."""
    obj = OwnedObject("apps/v1", "Deployment")
    obj.apply(DEPLOYMENT, "me")
    sidecar = yaml.safe_load(DEPLOYMENT)
    sidecar["spec"]["template"]["spec"]["containers"] = [
        {"name": "proxy", "image": "proxy:1"},
        {"name": "nginx", "env": [{"name": "C", "value": "c"}]},
    ]
    tree = obj.apply(sidecar, "mesh")
    containers = tree["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["proxy", "nginx"]
    assert containers[1]["image"] == "nginx:1"
    assert [container["name"] for container in containers[1]["env"]] == ["B", "A", "C"]
    owned_containers = obj.owned()[("me", "Apply")]["f:spec"]["f:template"]["f:spec"][
        "f:containers"
    ]
    ports = owned_containers['k:{"name":"nginx"}']["f:ports"]
    assert list(ports) == [
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":443,"protocol":"TCP"}',
    ]


def test_atomic_parts_are_owned_whole() -> None:
    """A selector is atomic: its applier owns it as a whole."""
    obj = OwnedObject("apps/v1", "Deployment")
    obj.apply(DEPLOYMENT, "me")
    assert obj.owned()[("me", "Apply")]["f:spec"]["f:selector"] == {}


def test_scaler_keeps_replicas() -> None:
    """An applier that does not set replicas keeps those that another manager set."""
    obj = OwnedObject("apps/v1", "Deployment")
    tree = obj.apply(DEPLOYMENT, "me")
    scaled = copy.deepcopy(tree)
    scaled["spec"]["replicas"] = 7
    obj.update(scaled, "hpa")
    assert obj.apply(DEPLOYMENT, "me")["spec"]["replicas"] == 7
    greedy = yaml.safe_load(DEPLOYMENT)
    greedy["spec"]["replicas"] = 1
    with pytest.raises(FieldConflicts, match=r'with "hpa" using apps/v1: \.spec\.replicas'):
        obj.apply(greedy, "me")


def test_status_is_not_owned_through_the_object() -> None:
    """A write does not own fields that it cannot change."""
    obj = OwnedObject("apps/v1", "Deployment")
    config = yaml.safe_load(DEPLOYMENT)
    config["status"] = {"replicas": 3}
    obj.apply(config, "me")
    assert "f:status" not in obj.owned()[("me", "Apply")]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("spec", "nonsense"), 1, ".spec.nonsense: field not declared in schema"),
        (
            ("spec", "replicas"),
            "three",
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (("spec", "paused"), "x", ".spec.paused: expected boolean, got &{x}"),
        (
            ("spec", "template", "spec", "restartPolicy"),
            {"a": [1, None, "b"]},
            ".spec.template.spec.restartPolicy: expected string, got "
            "&value.valueUnstructured{Value:"
            'map[string]interface {}{"a":[]interface {}{1, interface {}(nil), "b"}}}',
        ),
        (("metadata", "labels"), [], ".metadata.labels: expected map"),
        (("spec", "template", "spec", "containers"), {}, "containers: expected list"),
        (
            ("spec", "template", "spec", "containers"),
            [{"name": "a"}, {"name": "a"}],
            '.spec.template.spec.containers: duplicate entries for key [name="a"]',
        ),
        (
            ("spec", "template", "spec", "containers"),
            [{"image": "a"}, {"image": "b"}],
            '.spec.template.spec.containers: duplicate entries for key [name=""]',
        ),
    ],
)
def test_invalid_configurations(path: tuple[str, ...], value: Any, words: str) -> None:
    """A configuration that does not match the schema is refused with the path."""
    config = yaml.safe_load(DEPLOYMENT)
    at = config
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    obj = OwnedObject("apps/v1", "Deployment")
    with pytest.raises(BadObject) as caught:
        obj.apply(config, "me")
    assert words in str(caught.value)


def test_item_without_a_key() -> None:
    """An item of a list of a custom resource must have a key."""
    node = ListNode(MapNode(element=ANY), relation="map", keys=("name",), defaults={})
    with pytest.raises(SchemaMismatch, match="omits all key fields"):
        check(node, [{"image": "a"}], ".spec.list")
    check(node, [{"name": None}], ".spec.list")


def test_owners_across_versions() -> None:
    """A manager keeps its fields when others write in another version."""
    obj = OwnedObject("autoscaling/v2", "HorizontalPodAutoscaler")
    base: Tree = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "x"}, "maxReplicas": 3},
    }
    obj.apply({"apiVersion": "autoscaling/v2", **base}, "two")
    v1 = field_manager("autoscaling/v1", "HorizontalPodAutoscaler")
    assert obj.tree is not None
    live = SCHEME.convert(obj.tree, GroupVersion("autoscaling", "v1"))
    config = {"apiVersion": "autoscaling/v1", **copy.deepcopy(base)}
    config["spec"]["maxReplicas"] = 5
    with pytest.raises(FieldConflicts, match=r'conflict with "two": \.spec\.maxReplicas'):
        v1.apply(live, config, manager="one", now=NOW)
    _, entries = v1.apply(live, config, manager="one", now=NOW, force=True)
    owned = {entry["manager"]: entry for entry in entries}
    assert owned["one"]["apiVersion"] == "autoscaling/v1"
    assert "f:maxReplicas" not in owned["two"]["fieldsV1"]["f:spec"]
    assert "f:scaleTargetRef" in owned["two"]["fieldsV1"]["f:spec"]


def test_owner_of_a_removed_version() -> None:
    """The next write drops an entry of a version that no longer exists."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.apply(config_map(a="1"), "me")
    assert obj.tree is not None
    entry = dict(obj.tree["metadata"]["managedFields"][0], apiVersion="v0", manager="old")
    obj.tree["metadata"]["managedFields"].append(entry)
    with pytest.raises(NotRegistered):
        obj.fields.schemas.node("v0")
    obj.apply(config_map(a="1", b="2"), "me")
    assert set(obj.owned()) == {("me", "Apply")}


def test_updaters_are_capped() -> None:
    """Beyond ten updaters, the oldest are merged into one."""
    obj = OwnedObject("v1", "ConfigMap")
    data = {}
    for index in range(15):
        data[f"k{index:02}"] = "x"
        obj.update(config_map(**data), f"m{index:02}", now=f"2026-01-{index + 1:02}T00:00:00Z")
    owned = obj.owned()
    assert len(owned) == 10
    ancient = owned[("ancient-changes", "Update")]
    assert set(ancient["f:data"]) == {".", *(f"f:k{index:02}" for index in range(6))}
    assert ("m14", "Update") in owned


def test_unchanged_apply_changes_nothing() -> None:
    """Applying the same configuration again keeps the object and its times."""
    obj = OwnedObject("apps/v1", "Deployment")
    before = copy.deepcopy(obj.apply(DEPLOYMENT, "me"))
    assert obj.apply(DEPLOYMENT, "me", now=LATER) == before


def test_entries_survive_reading() -> None:
    """Decoding and encoding managedFields does not change them."""
    obj = OwnedObject("apps/v1", "Deployment")
    entries = obj.apply(DEPLOYMENT, "me")["metadata"]["managedFields"]
    assert encode_managers(decode_managers(entries)) == entries


# Properties.

_NAMES = st.sampled_from(["a", "b", "c", "d"])
_VALUES = st.sampled_from(["1", "2", "3"])
_DATA = st.recursive(_VALUES, lambda values: st.dictionaries(_NAMES, values, max_size=3))


@st.composite
def _pods(draw: st.DrawFn, names: st.SearchStrategy[str] = _NAMES) -> Tree:
    """A strategy for pods as one manager applies them: labels, containers, env, finalizers; without
    empty values, which the store does not keep."""
    pairs = st.dictionaries(names, _VALUES, max_size=3)
    finalizers = [
        f"x/{container_name}" for container_name in draw(st.lists(names, unique=True, max_size=2))
    ]
    containers = []
    for name in draw(st.lists(names, unique=True, max_size=3)):
        env = [{"name": key, "value": value} for key, value in draw(pairs).items()]
        containers.append({"name": name, **({"env": env} if env else {})})
    labels = draw(pairs)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "x",
            "namespace": "default",
            **({"labels": labels} if labels else {}),
            **({"finalizers": finalizers} if finalizers else {}),
        },
        **({"spec": {"containers": containers}} if containers else {}),
    }


@given(_pods(), _pods())
@settings(max_examples=150)
def test_apply_is_idempotent(first: Tree, second: Tree) -> None:
    """Applying the same configuration twice is the same as applying it once."""
    obj = OwnedObject("v1", "Pod")
    obj.apply(first, "me")
    obj.apply(second, "you", force=True)
    first_tree = copy.deepcopy(obj.tree)
    obj.apply(second, "you", force=True, now=LATER)
    assert obj.tree == first_tree


_FIRST_NAMES, _SECOND_NAMES = st.sampled_from(["a", "b"]), st.sampled_from(["c", "d"])


@given(_pods(_FIRST_NAMES), _pods(_SECOND_NAMES))
@settings(max_examples=150)
def test_disjoint_managers_never_conflict(first: Tree, second: Tree) -> None:
    """Managers of disjoint fields have no conflicts."""
    obj = OwnedObject("v1", "Pod")
    obj.apply(first, "me")
    obj.apply(second, "you")
    obj.apply(first, "me")
    assert (("me", "Apply") in obj.owned()) == (
        set(first["metadata"]) > {"name", "namespace"} or "spec" in first
    )


@given(_pods(_FIRST_NAMES), _pods(_SECOND_NAMES))
@settings(max_examples=150)
def test_applying_nothing_keeps_other_fields(first: Tree, second: Tree) -> None:
    """When a manager applies nothing any more, the fields of the others remain."""
    first["metadata"]["annotations"] = {"mine": ""}
    alone = OwnedObject("v1", "Pod")
    alone.apply(first, "me")
    owned = OwnedObject("v1", "Pod")
    owned.apply(first, "me")
    owned.apply(second, "you")
    empty_config = {part: copy.deepcopy(second[part]) for part in ("apiVersion", "kind")}
    empty_config["metadata"] = {"name": "x", "namespace": "default"}
    owned.apply(empty_config, "you")
    assert owned.plain() == alone.plain()
    assert owned.owned() == alone.owned()


@given(_pods(), _pods())
@settings(max_examples=150)
def test_comparison_turns_old_into_new(old: Tree, new: Tree) -> None:
    """Removing the removed fields and merging the new ones turns the old object into the new
    one."""
    node = merge_schema.schema_of(SCHEME.type_of(GroupVersionKind("", "v1", "Pod")))
    diff = structured_merge.compare(node, old, new)
    cut = structured_merge.remove(node, old, diff.removed)
    merged = structured_merge.merge(node, cut, new)
    assert _unordered(canonical(merged)) == _unordered(canonical(new))


@given(_pods(), _pods())
@settings(max_examples=50)
def test_comparison_without_the_fields_of_the_server(old: Tree, new: Tree) -> None:
    """What has no owners is left out, whether one object has it or both."""
    node = merge_schema.schema_of(SCHEME.type_of(GroupVersionKind("", "v1", "Pod")))
    server_names = UNOWNED["metadata"] or {}
    owned = [
        pod | {"metadata": {k: v for k, v in pod["metadata"].items() if k not in server_names}}
        for pod in (old, new)
    ]
    stored = old | {"metadata": old["metadata"] | {"uid": "1", "managedFields": [{}]}}
    expected = structured_merge.compare(node, *owned)
    assert structured_merge.compare(node, stored, new, UNOWNED) == expected


@given(_pods(), st.dictionaries(st.sampled_from(["a", "spec", "b"]), _DATA, max_size=3))
@settings(max_examples=150)
def test_creator_owns_what_is_not_in_an_empty_object(pod: Tree, data: Tree) -> None:
    """The fields of a new object are those by which it differs from an empty one, without the
    server's, and are in serialized order."""
    deployment = yaml.safe_load(DEPLOYMENT)
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": data}
    for new in (pod, canonical(deployment), revision | {"metadata": pod["metadata"]}):
        schemas = field_manager(new["apiVersion"], new["kind"]).schemas
        node, empty = schemas.node(new["apiVersion"]), schemas.empty(new["apiVersion"])
        for old in (empty, empty | {"metadata": {"labels": {"a": "1"}}, "data": {"a": {}}}):
            diff = structured_merge.compare(node, old, new)
            changed = fieldsets.union(diff.added, diff.modified)
            fields = structured_merge.fields_of_new(node, old, new, UNOWNED)
            expected = fieldsets.sort_steps(fieldsets.difference(changed, SERVER_FIELDS))
            assert json.dumps(fields) == json.dumps(expected)


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unordered(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted((_unordered(inner) for inner in value), key=repr)
    return value


def test_a_list_that_became_atomic() -> None:
    """Owners of parts of a list that became atomic own all of it."""
    obj = OwnedObject("apps/v1", "Deployment")
    obj.apply(DEPLOYMENT, "me")
    assert obj.tree is not None
    (entry,) = obj.tree["metadata"]["managedFields"]
    entry["fieldsV1"]["f:spec"]["f:selector"] = {"f:matchLabels": {"f:app": {}}}
    obj.apply(DEPLOYMENT, "you")
    assert obj.owned()[("me", "Apply")]["f:spec"]["f:selector"] == {}
    changed = yaml.safe_load(DEPLOYMENT)
    changed["spec"]["selector"]["matchLabels"]["tier"] = "one"
    with pytest.raises(FieldConflicts, match=r'conflicts with "me":\n- \.spec\.selector'):
        obj.apply(changed, "third")


def test_shared_fields_do_not_change_the_time() -> None:
    """An entry of an applier that changes nothing has no time; an existing entry keeps its time."""
    obj = OwnedObject("v1", "ConfigMap")
    obj.apply(config_map(a="1", b="1"), "me")
    tree = obj.apply(config_map(a="1"), "you", now=LATER)
    times = {entry["manager"]: entry.get("time") for entry in tree["metadata"]["managedFields"]}
    assert times == {"me": NOW, "you": None}
    obj.apply(config_map(a="2"), "you", force=True, now=LATER)
    tree = obj.apply(config_map(a="2", b="1"), "you", now="2026-01-03T00:00:00Z")
    times = {entry["manager"]: entry.get("time") for entry in tree["metadata"]["managedFields"]}
    assert times == {"me": NOW, "you": LATER}


def test_data_without_a_schema_is_atomic() -> None:
    """Data without a schema is owned as a whole."""
    obj = OwnedObject("apps/v1", "ControllerRevision")
    revision: Tree = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "x", "namespace": "default"},
        "revision": 1,
        "data": {"spec": {"a": [1], "b": "2"}},
    }
    obj.apply(revision, "me")
    assert obj.owned() == {("me", "Apply"): {"f:data": {}, "f:revision": {}}}
    assert obj.apply({**revision, "data": {"spec": {}}}, "me")["data"] == {"spec": {}}
