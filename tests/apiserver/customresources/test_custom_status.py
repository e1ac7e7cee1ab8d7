"""Errors of writes of a custom object's status, which kube-apiserver checks by itself."""

from typing import Any

import pytest

from tests.apiserver.conftest import Api
from tests.apiserver.customresources.customkit import definition, establish, version, widget

_PART = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {"type": "string"},
        "n": {"type": "integer", "maximum": 5},
        "ip": {"type": "string", "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
        "names": {
            "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
        },
        "free": {"x-kubernetes-preserve-unknown-fields": True},
    },
}  # fmt: skip
SCHEMA = {"type": "object", "properties": {"spec": _PART, "status": _PART}}
SCALE = {
    "specReplicasPath": ".spec.free.replicas",
    "statusReplicasPath": ".status.free.replicas",
    "labelSelectorPath": ".status.free.selector",
}

CASES = [
    ({"n": 9}, "n", "Invalid value: 9: {}n in body should be less than or equal to 5"),
    ({"n": "x"}, "n", 'Invalid value: "string": {}n in body must be of type integer: "string"'),
    (
        {"ip": "x"},
        None,
        'Invalid value: "": "{}ip" must validate one and only one schema (oneOf). Found none valid',
    ),
    ({"a": None}, "a", "Required value"),
    ({"names": ["x", "x"]}, "names[1]", 'Duplicate value: "x"'),
    (
        {"free": {"replicas": "x"}},
        "free.replicas",
        "Invalid value: 0: .{}free.replicas accessor error: x is of the type string, expected "
        "int64",
    ),
    ({"free": {"replicas": -1}}, "free.replicas", "should be a non-negative integer"),
    (
        {"free": {"replicas": None}},
        "free.replicas",
        ".{}free.replicas accessor error: <nil> is of the type <nil>, expected int64",
    ),
    (
        {"free": "x"},
        "free.replicas",
        ".{}free.replicas accessor error: x is of the type string, expected "
        "map[string]interface{{}}",
    ),
]


def _causes(response: Any) -> list[tuple[str, str]]:
    assert response.status == 422, response.body
    return [(cause["field"], cause["message"]) for cause in response.json["details"]["causes"]]


@pytest.mark.parametrize(("changes", "field", "message"), CASES)
def test_fields_of_status(api: Api, changes: Any, field: str | None, message: str) -> None:
    """A write of /status names fields in messages relative to the status, and reports what has no
    field for `status`; a write of the object names them in full, or no field."""
    crd = definition(version(schema=SCHEMA, subresources={"status": {}, "scale": SCALE}))
    path = establish(api, crd)
    part = {"a": "x", **changes}
    if part["a"] is None:
        del part["a"]
    refused = _causes(api.post(path, widget(crd, "w", spec=part)))
    in_object = "<nil>" if field is None else f"spec.{field}"
    expected_field, actual = next(
        cause for cause in refused if cause[0].removeprefix(".") == in_object
    )
    assert message.format("spec.") in actual, expected_field
    created = api.post(path, widget(crd, "w", spec={"a": "x"}))
    assert created.status == 201
    in_status = "status" if field is None else f"status.{field}"
    # Paths of scale are those of the whole object, with the dot of the definition.
    in_message = "status." if "accessor" in message else ""
    causes = _causes(api.put(f"{path}/w/status", {**created.json, "status": part}))
    assert any(
        name.removeprefix(".") == in_status and message.format(in_message) in text
        for name, text in causes
    ), causes


def test_status_of_another_type(api: Api) -> None:
    """A status that is no object is an error of the field `status`, in a message without a name."""
    path = establish(api, crd := definition(version(schema=SCHEMA, subresources={"status": {}})))
    created = api.post(path, widget(crd, "w", spec={"a": "x"})).json
    assert _causes(api.put(f"{path}/w/status", {**created, "status": "x"})) == [
        ("status", 'Invalid value: "string":  in body must be of type object: "string"'),
    ]


def test_label_selector_of_scale(api: Api) -> None:
    """The label selector of a scale must be a string."""
    scale = version(schema=SCHEMA, subresources={"status": {}, "scale": SCALE})
    path = establish(api, crd := definition(scale))
    created = api.post(path, widget(crd, "w", spec={"a": "x"})).json
    status = {"a": "x", "free": {"selector": {"app": "x"}}}
    assert _causes(api.put(f"{path}/w/status", {**created, "status": status})) == [
        (
            ".status.free.selector",
            'Invalid value: "": .status.free.selector accessor error: map[app:x] is of the type '
            "map[string]interface {}, expected string",
        )
    ]


def test_status_of_an_object_that_is_invalid(api: Api) -> None:
    """The status can be written although the rest of the object does not fit its schema, which has
    changed since."""
    crd = definition(version(schema=SCHEMA, subresources={"status": {}}))
    path = establish(api, crd)
    created = api.post(path, widget(crd, "w", spec={"a": "x"})).json
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {**SCHEMA, "required": ["other"]}
    schema["properties"] = {**SCHEMA["properties"], "other": {"type": "string"}}
    change = {"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}
    assert api.patch(f"{definitions}/{crd['metadata']['name']}", [change], "json").status == 200
    for number in range(100):
        refused = api.put(f"{path}/w", {**created, "spec": {"a": f"y{number}"}})
        if refused.status == 422:  # the new schema is in force
            break
        created = refused.json
    assert api.put(f"{path}/w/status", {**created, "status": {"a": "x"}}).status == 200
