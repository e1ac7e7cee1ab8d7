"""Validation of structural schemas."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from kapiserver.api.apiextensions.schema import format_warnings, structural, structural_rules
from kapiserver.api.errors import Path
from tests.api.test_pruning import schemas

AT = "spec.versions[0].schema.openAPIV3Schema"
STRING = {"type": "string"}
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def obj(**properties):
    return {"type": "object", "properties": properties}


def listing(items, **rest):
    return {"type": "array", "items": items, **rest}


def check(schema):
    """The messages for a schema, without the path at their start."""
    return [str(error).replace(AT, "@") for error in structural_rules.check(schema, Path(AT))]


FINE = {
    "empty object": {"type": "object"},
    "metadata without constraints": obj(metadata={"type": "object"}, spec=obj(a=STRING)),
    "name of metadata": obj(metadata=obj(name={**STRING, "maxLength": 4})),
    "int or string": obj(a={"x-kubernetes-int-or-string": True}),
    "int or string, told": obj(a={"x-kubernetes-int-or-string": True, "anyOf": INT_OR_STRING}),
    "int or string, told in allOf": obj(
        a={"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": INT_OR_STRING}, {"minimum": 1}]}
    ),
    "anything": obj(a={"x-kubernetes-preserve-unknown-fields": True}),
    "embedded": obj(
        a={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
    "map": obj(a={"type": "object", "additionalProperties": STRING}),
    "restricted": {**obj(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "list map": obj(
        a=listing(
            {**obj(k=STRING), "required": ["k"]},
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        )
    ),
    "defaults": obj(
        a={**STRING, "default": "x"}, b={**obj(c={"type": "integer"}), "default": {"c": 3}}
    ),
    "default null": obj(a={**STRING, "default": None}),
}
WRONG = {
    "no type at the root": ({}, ["@.type: Required value: must not be empty at the root"]),
    "no object at the root": (
        {"type": "string"},
        ['@.type: Invalid value: "string": must be object at the root'],
    ),
    "no type of a field": (
        obj(a={}),
        ["@.properties[a].type: Required value: must not be empty for specified object fields"],
    ),
    "no type of items": (
        obj(a=listing({})),
        [
            "@.properties[a].items.type: Required value: must not be empty for specified array "
            "items"
        ],
    ),
    "no items": (
        obj(a={"type": "array"}),
        ["@.properties[a].items: Required value: must be specified"],
    ),
    "no such type": (
        obj(a={"type": "text"}),
        [
            '@.properties[a].type: Unsupported value: "text": supported values: "array", '
            '"boolean", "integer", "number", "object", "string"'
        ],
    ),
    "nullable root": (
        {"type": "object", "nullable": True},
        ["@.nullable: Forbidden: nullable cannot be true at the root"],
    ),
    "map at the root": (
        {"type": "object", "additionalProperties": STRING},
        ["@.additionalProperties: Forbidden: must not be used at the root"],
    ),
    "unique items": (
        obj(a=listing(STRING, uniqueItems=True)),
        [
            "@.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the "
            "runtime complexity becomes quadratic"
        ],
    ),
    "fields and any fields": (
        obj(a={**obj(b=STRING), "additionalProperties": STRING}),
        [
            "@.properties[a].additionalProperties: Forbidden: additionalProperties and properties "
            "are mutual exclusive"
        ],
    ),
    "reference": (
        obj(a={**STRING, "$ref": "#/x"}),
        ["@.properties[a].$ref: Forbidden: $ref is not supported"],
    ),
    "definitions": (
        {"type": "object", "definitions": {"a": STRING}},
        ["@.definitions: Forbidden: definitions is not supported"],
    ),
    "several items": (
        obj(a=listing([STRING])),
        ["@.properties[a].items: Forbidden: items must be a schema object and not an array"],
    ),
    "unknown fields not preserved": (
        obj(a={**STRING, "x-kubernetes-preserve-unknown-fields": False}),
        [
            "@.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be "
            "true or undefined"
        ],
    ),
    "constraints of metadata": (
        obj(metadata=obj(labels={"type": "object"})),
        [
            "@.properties[metadata]: Forbidden: must not specify anything other than name and "
            "generateName, but metadata is implicitly specified"
        ],
    ),
    "kind of another type": (
        obj(kind={"type": "integer"}),
        ['@.properties[kind].type: Invalid value: "integer": must be string'],
    ),
    "type in an alternative": (
        {**obj(a=STRING), "anyOf": [{"properties": {"a": STRING}}]},
        ["@.anyOf[0].properties[a].type: Forbidden: must be empty to be structural"],
    ),
    "description in not": (
        {**obj(a=STRING), "not": {"description": "x"}},
        ["@.not.description: Forbidden: must be empty to be structural"],
    ),
    "rules in an alternative": (
        {**obj(a=STRING), "allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]},
        ["@.allOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural"],
    ),
    "metadata in an alternative": (
        {**obj(metadata={"type": "object"}), "anyOf": [{"properties": {"metadata": {}}}]},
        [
            "@.anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"
        ],
    ),
    "restricted but not declared": (
        {"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]},
        [
            "@.properties[a]: Required value: because it is defined in "
            "@.anyOf[0].properties[a]"
        ],
    ),
    "int or string in the wrong place": (
        obj(a={**STRING, "anyOf": [{"type": "string"}]}),
        ["@.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
    ),
    "int or string and anything": (
        obj(a={"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}),
        [
            "@.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be "
            "false if x-kubernetes-int-or-string is true"
        ],
    ),
    "embedded without type": (
        obj(
            a={
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        ),
        [
            "@.properties[a].type: Required value: must be object if "
            "x-kubernetes-embedded-resource is true"
        ],
    ),
    "embedded without fields": (
        obj(a={"type": "object", "x-kubernetes-embedded-resource": True}),
        [
            "@.properties[a].properties: Required value: must not be empty if "
            "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        ],
    ),
    "list map without keys": (
        obj(a=listing(obj(k=STRING), **{"x-kubernetes-list-type": "map"})),
        [
            "@.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if "
            "x-kubernetes-list-type is map"
        ],
    ),
    "list map with a key that may be missing": (
        obj(
            a=listing(
                obj(k=STRING),
                **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            )
        ),
        [
            "@.properties[a].items.properties[k].default: Required value: this property is in "
            "x-kubernetes-list-map-keys, so it must have a default or be a required property"
        ],
    ),
    "list map of texts": (
        obj(
            a=listing(
                STRING, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
            )
        ),
        [
            '@.properties[a].items.type: Invalid value: "string": must be object if parent '
            "array's x-kubernetes-list-type is map"
        ],
    ),
    "set of objects": (
        obj(a=listing(obj(b=STRING), **{"x-kubernetes-list-type": "set"})),
        [
            "@.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as "
            "item of a list with x-kubernetes-list-type=set"
        ],
    ),
    "no such list type": (
        obj(a=listing(STRING, **{"x-kubernetes-list-type": "bag"})),
        [
            '@.properties[a].x-kubernetes-list-type: Unsupported value: "bag": supported values: '
            '"atomic", "set", "map"'
        ],
    ),
    "list type of a text": (
        obj(a={**STRING, "x-kubernetes-list-type": "atomic"}),
        [
            '@.properties[a].type: Invalid value: "string": must be array if '
            "x-kubernetes-list-type is specified"
        ],
    ),
    "pattern": (
        obj(a={**STRING, "pattern": "a("}),
        [
            '@.properties[a].pattern: Invalid value: "a(": must be a valid regular expression, '
            "but isn't: error parsing regexp: missing closing ): `a(`"
        ],
    ),
    "default of another type": (
        obj(a={**STRING, "default": 3}),
        [
            '@.properties[a].default: Invalid value: "integer":  in body must be of type string: '
            '"integer"'
        ],
    ),
    "default out of bounds": (
        obj(a={**obj(b={"type": "integer", "maximum": 2}), "default": {"b": 3}}),
        [
            "@.properties[a].default.b: Invalid value: 3: b in body should be less than or equal "
            "to 2"
        ],
    ),
    "default with unknown fields": (
        obj(a={**obj(b=STRING), "default": {"c": 3}}),
        ['@.properties[a].default: Invalid value: {"c":3}: must not have unknown fields'],
    ),
    "default of top-level metadata": (
        obj(metadata={"type": "object", "default": {}}),
        ["@.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_structural_schemas(name):
    """A structural schema has no errors."""
    assert check(FINE[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_schemas_that_are_not_structural(name):
    """The errors of other schemas have kube-apiserver's messages."""
    schema, messages = WRONG[name]
    assert check(schema) == messages


@settings(max_examples=100)
@given(schemas(), schemas())
def test_any_schema_can_be_checked(schema, second):
    """Any schema can be validated."""
    for name in ("allOf", "anyOf", "oneOf"):
        assert isinstance(check({**schema, name: [second]}), list)
    assert isinstance(check({**schema, "not": second, "items": [second]}), list)


def test_unknown_formats():
    """An unknown format gets one warning, which an update does not repeat."""

    def definition(*names):
        fields = {name: {**STRING, "format": name} for name in names}
        return {"spec": {"versions": [{"schema": {"openAPIV3Schema": obj(**fields)}}]}}

    old = definition("date-time", "k8s-short-name")
    assert format_warnings.warnings(old, None) == []
    assert format_warnings.warnings(definition("x"), old) == ['unrecognized format "x"']
    assert format_warnings.warnings(definition("x", "int32"), definition("x")) == [
        'unrecognized format "int32"'
    ]
    number = obj(a={"type": "integer", "format": "int32"}, b={"type": "number", "format": "int32"})
    warnings = {"spec": {"versions": [{"schema": {"openAPIV3Schema": number}}]}}
    assert format_warnings.warnings(warnings, None) == ['unrecognized format "int32"']


def test_nothing_is_compiled_before_it_is_used():
    """A node of a schema is compiled on first use."""
    node = structural.compile(obj(spec=obj(a=STRING)))
    assert "properties" not in vars(node)
    assert node.properties["spec"].properties["a"].type == "string"
    assert node.properties["spec"] is node.properties["spec"]
