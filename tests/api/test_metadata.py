"""Validation of metadata on create and on update."""

import pytest

from kapiserver.api import names
from kapiserver.api.metadata_validation import validate_new, validate_updated
from tests.objects import GONE, changed, texts

OBJ = {"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5"}}
SUBDOMAIN = names.dns1123_subdomain("_")[0]
LABEL = names.dns1123_label("_")[0]

NEW = [
    ("", GONE, []),
    ("metadata/name", "", ["metadata.name: Required value: name or generateName is required"]),
    ("metadata/name", "_", [f'metadata.name: Invalid value: "_": {SUBDOMAIN}']),
    ("metadata/generateName", "a-", []),
    ("metadata/generateName", "_", [f'metadata.generateName: Invalid value: "_": {SUBDOMAIN}']),
    ("metadata/namespace", "", ["metadata.namespace: Required value"]),
    ("metadata/namespace", "_", [f'metadata.namespace: Invalid value: "_": {LABEL}']),
    (
        "metadata/generation",
        -1,
        ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
    ),
    (
        "metadata/labels",
        {"a": "-"},
        [f'metadata.labels: Invalid value: "-": {names.label_value("-")[0]}'],
    ),
    (
        "metadata/labels",
        {"-": ""},
        [f'metadata.labels: Invalid value: "-": {names.qualified_name("-")[0]}'],
    ),
    ("metadata/annotations", {"A/B": "anything ☃"}, []),
    (
        "metadata/annotations",
        {"a": "x" * 262144},
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
    ),
    ("metadata/annotations", {"a": "x" * 262143}, []),
    ("metadata/finalizers", ["a.b/c", "orphan"], []),
    (
        "metadata/finalizers",
        ["mine"],
        [
            'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer '
            "name nor is it fully qualified"
        ],
    ),
    (
        "metadata/finalizers",
        ["orphan", "foregroundDeletion"],
        [
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan '
            "and foregroundDeletion cannot be both set"
        ],
    ),
    (
        "metadata/ownerReferences",
        [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}],
        ["metadata.ownerReferences[0].uid: Required value: must not be empty"],
    ),
    (
        "metadata/ownerReferences",
        [{"apiVersion": "", "kind": "Pod", "name": "p", "uid": "u"}],
        ["metadata.ownerReferences[0].apiVersion: Required value: must not be empty"],
    ),
    (
        "metadata/managedFields",
        [{"operation": "Guess", "fieldsType": "FieldsV2"}],
        [
            'metadata.managedFields[0].operation: Invalid value: "Guess": must be `Apply` or '
            "`Update`",
            'metadata.managedFields[0].fieldsType: Invalid value: "FieldsV2": must be `FieldsV1`',
        ],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), NEW)
def test_new(path, value, messages):
    """Each invalid field gives exactly its messages."""
    obj = changed(OBJ, path, value)
    errors = validate_new(obj, namespaced=True, check=names.dns1123_subdomain)
    assert texts(errors) == messages


def test_two_controllers():
    """At most one owner is the controller."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    obj = changed(OBJ, "metadata/ownerReferences", [owner, {**owner, "name": "q"}])
    (error,) = validate_new(obj, namespaced=True, check=names.dns1123_subdomain)
    assert error.detail == (
        'Only one reference can have Controller set to true. Found "true" in references for '
        "Pod/p and Pod/q"
    )


def test_cluster_scoped():
    """A cluster-scoped object has no namespace."""
    errors = validate_new(OBJ, namespaced=False, check=names.dns1123_subdomain)
    assert texts(errors) == ["metadata.namespace: Forbidden: not allowed on this type"]


CHANGED = [
    ("metadata/labels", {"a": "b"}, []),
    ("metadata/name", "b", ['metadata.name: Invalid value: "b": field is immutable']),
    ("metadata/uid", "w", ['metadata.uid: Invalid value: "w": field is immutable']),
    (
        "metadata/resourceVersion",
        GONE,
        ['metadata.resourceVersion: Invalid value: "": must be specified for an update'],
    ),
    ("metadata/generateName", "..", []),
    (
        "metadata/generateName",
        "a/",
        ["metadata.generateName: Invalid value: \"a/\": may not contain '/'"],
    ),
    (
        "metadata/deletionTimestamp",
        "2026-01-01T00:00:00Z",
        ['metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable'],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), CHANGED)
def test_changed(path, value, messages):
    """The identity of an object is immutable."""
    assert texts(validate_updated(changed(OBJ, path, value), OBJ, namespaced=True)) == messages


def test_finalizers_of_terminating_objects():
    """An object that is being deleted gets no new finalizers."""
    old = changed(OBJ, "metadata/deletionTimestamp", "2026-01-01T00:00:00Z")
    new = changed(old, "metadata/finalizers", ["a.b/d", "a.b/c"])
    assert texts(validate_updated(new, old, namespaced=True)) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
        'deleted, found new finalizers []string{"a.b/c", "a.b/d"}'
    ]


def test_finalizers_last():
    """Errors of standard finalizers come after all other errors of an update."""
    new = changed(changed(OBJ, "metadata/finalizers", ["mine"]), "metadata/uid", "w")
    errors = validate_updated(new, OBJ, namespaced=True)
    assert [str(error.path) for error in errors] == ["metadata.uid", "metadata.finalizers[0]"]


def test_generation_never_decreases():
    """The generation never decreases."""
    old = changed(OBJ, "metadata/generation", 3)
    new = changed(OBJ, "metadata/generation", 2)
    assert texts(validate_updated(new, old, namespaced=True)) == [
        "metadata.generation: Invalid value: 2: must not be decremented"
    ]
