"""CEL validation rules of custom kinds over HTTP."""

from typing import Any

import pytest

from kapiserver.codecs import yaml
from tests.apiserver.conftest import Api, api_of_new_server
from tests.apiserver.customresources.customkit import CRDS, definition, establish, version, widget

api = pytest.fixture(scope="module")(api_of_new_server)


def schema(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """A schema whose `spec` has these fields and rules."""
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return {"type": "object", "properties": {"spec": spec}}


INT = {"type": "integer"}


def test_rule_that_does_not_compile(api: Api) -> None:
    """The error names the position in the schema and in the rule."""
    response = api.post(CRDS, definition(version(schema=schema({"rule": "self.b > 0"}, a=INT))))
    assert response.status == 422
    [cause] = response.json["details"]["causes"]
    at = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert cause["field"] in (at, at.replace("validation", "versions[0].schema"))
    assert "compilation failed: ERROR: <input>:1:5: undefined field 'b'\n" in cause["message"]


def test_validation_rules(api: Api) -> None:
    """An object that breaks a rule is a 422 with the rule's message, reason and field."""
    rules = (
        {"rule": "self.low <= self.high", "message": "low is too high"},
        {
            "rule": "self.low >= oldSelf.low",
            "messageExpression": "'was %d'.format([oldSelf.low])",
            "reason": "FieldValueForbidden",
            "fieldPath": ".low",
        },
    )
    crd = definition(version(schema=schema(*rules, low=INT, high=INT)))
    path = establish(api, crd)
    response = api.post(path, widget(crd, "a", spec={"low": 2, "high": 1}))
    assert response.status == 422
    assert response.json["message"].endswith("is invalid: spec: Invalid value: low is too high")
    assert api.post(path, widget(crd, "a", spec={"low": 2, "high": 3})).status == 201
    response = api.patch(f"{path}/a", {"spec": {"low": 1}})
    assert response.status == 422
    assert response.json["details"]["causes"] == [
        {"reason": "FieldValueForbidden", "message": "Forbidden: was 2", "field": "spec.low"}
    ]
    assert api.patch(f"{path}/a", {"spec": {"low": 3}}).status == 200


def test_rule_ratcheting(api: Api) -> None:
    """A new rule is an error only for changed fields; for unchanged fields it is a warning."""
    crd = definition(version(schema=schema(a=INT, b=INT)))
    path = establish(api, crd)
    assert api.post(path, widget(crd, "a", spec={"a": 1})).status == 201
    crd_update = api.get(f"{CRDS}/{crd['metadata']['name']}").json
    stricter = schema({"rule": "self.a > 5"}, a={**INT, "minimum": 5}, b=INT)
    crd_update["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = stricter
    assert api.put(f"{CRDS}/{crd['metadata']['name']}", crd_update).status == 200
    assert api.post(path, widget(crd, "b", spec={"a": 1})).status == 422
    labelled = api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
    assert (labelled.status, labelled.warnings) == (
        200,
        ['299 - "spec: Invalid value: failed rule: self.a > 5"'],
    )
    assert api.patch(f"{path}/a", {"spec": {"a": 2}}).status == 422


def test_rules_are_skipped_after_type_errors(api: Api) -> None:
    """An object with a type error is a 422 that says that rules were not evaluated."""
    crd = definition(version(schema=schema({"rule": "self.a > 5"}, a=INT)))
    path = establish(api, crd)
    response = api.post(path, widget(crd, "a", spec={"a": "x"}))
    assert response.status == 422
    messages = [cause["message"] for cause in response.json["details"]["causes"]]
    assert messages[0] == (
        'Invalid value: "string": spec.a in body must be of type integer: "string"'
    )
    assert messages[1].endswith("correct the existing errors to complete validation")
    assert len(messages) == 2


LONG = {"rule": "self.list.all(a, self.list.exists(b, b <= a))", "message": "one is lower"}
MANY = list(range(300, 0, -1))


def test_expensive_rules(api: Api) -> None:
    """Rules with a long evaluation are evaluated on create, on update and on updates of the status,
    up to the cost limit."""
    numbers = {"type": "array", "items": INT, "maxItems": 1000}
    long_schema = schema(LONG, list=numbers)
    long_schema["properties"]["status"] = long_schema["properties"]["spec"]
    crd = definition(version(schema=long_schema, subresources={"status": {}}))
    path = establish(api, crd)
    assert api.post(path, widget(crd, "a", spec={"list": MANY})).status == 201
    assert api.patch(f"{path}/a", {"spec": {"list": [*MANY, 0]}}).status == 200
    assert api.patch(f"{path}/a/status", {"status": {"list": [*MANY, 0]}}).status == 200
    too_long = api.patch(f"{path}/a/status", {"status": {"list": list(range(900, 0, -1))}})
    assert too_long.status == 422
    assert "call cost exceeds limit for rule: one is lower" in too_long.message


def test_large_objects_and_definitions(api: Api) -> None:
    """Large objects are validated by the same rules, with the same messages."""
    fields = {f"field{number}": {"type": "string", "maxLength": 5} for number in range(1500)}
    large_schema = schema({"rule": "self.field0 != self.field1", "message": "twins"}, **fields)
    crd = definition(version(schema=large_schema))
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "d" * 300_000
    path = establish(api, crd)
    spec = {f"field{number}": str(number) for number in range(1500)}
    labels = {"annotations": {"a": "a" * 250_000}}
    large = widget(crd, "a", spec=spec)
    large["metadata"] |= labels
    assert api.post(path, large).status == 201
    assert api.patch(f"{path}/a", {"spec": {"field0": "0"}}).status == 200
    decoded = yaml.decode_value(api.get(f"{path}/a", accept="application/yaml").body)
    assert decoded == api.get(f"{path}/a").json
    for change, message in (
        ({"field0": "1"}, "twins"),
        ({"field1": "123456"}, "Too long: may not be more than 5 bytes"),
    ):
        response = api.patch(f"{path}/a", {"spec": change})
        assert response.status == 422
        assert message in response.message
    crd_path = f"{CRDS}/{crd['metadata']['name']}"
    wrong = {"spec": {"versions": [{**crd["spec"]["versions"][0], "served": False, "name": "V"}]}}
    assert api.patch(crd_path, wrong).status == 422
    assert (
        api.patch(crd_path, {"metadata": {"labels": {"a": "b"}}}).json["metadata"]["generation"]
        == 1
    )


def test_cel_rules(api: Api) -> None:
    """CEL rules are evaluated on create and update."""
    rules = [
        {"rule": "self.low <= self.high", "message": "low must not be above high"},
        {
            "rule": "self.high >= oldSelf.high",
            "messageExpression": "'not below %d'.format([oldSelf.high])",
        },
    ]
    spec = {"type": "object", "x-kubernetes-validations": rules,
            "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}}}  # fmt: skip
    crd = definition(version(schema={"type": "object", "properties": {"spec": spec}}))
    path = establish(api, crd)
    wrong = api.post(path, widget(crd, "a", spec={"low": 3, "high": 2}))
    assert wrong.status == 422
    assert wrong.message.endswith("spec: Invalid value: low must not be above high")
    assert api.post(path, widget(crd, "a", spec={"low": 1, "high": 5})).status == 201
    lower = api.patch(f"{path}/a", {"spec": {"high": 4}})
    assert lower.message.endswith("spec: Invalid value: not below 5")
    spec["x-kubernetes-validations"] = [{"rule": "self.nothing > 1"}]
    bad = definition(version(schema={"type": "object", "properties": {"spec": spec}}))
    response = api.post(CRDS, bad)
    assert response.status == 422
    assert "undefined field 'nothing'" in response.message
