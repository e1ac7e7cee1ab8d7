"""Validation of custom objects by their schemas."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api import formats
from kapiserver.api.apiextensions.schema import list_types, object_validation, structural
from kapiserver.api.apiextensions.schema.ratcheting import ABSENT
from tests.api.test_pruning import TREES, schemas

STRING = {"type": "string"}
INT = {"type": "integer"}


def obj(**properties):
    return {"type": "object", "properties": properties}


def check(value, schema, old=None):
    """The messages for `{"f": value}` where the field has the schema."""
    before = None if old is None else {"f": old}
    node = structural.compile(obj(f=schema))
    errors = object_validation.validate({"f": value}, node, ABSENT if before is None else before)
    duplicates = list_types.check_update({"f": value}, before, node)
    return [str(error) for error in (*errors, *duplicates)]


def invalid(text):
    return [f"f: Invalid value: {text}"]


FINE = [
    (STRING, ""),
    (INT, 3),
    (INT, 3.0),
    ({"type": "number"}, 3),
    ({"type": "boolean"}, False),
    ({"type": "array", "items": INT, "minItems": 1}, [1]),
    ({**STRING, "nullable": True}, None),
    ({"x-kubernetes-int-or-string": True}, "1"),
    ({"x-kubernetes-int-or-string": True, "anyOf": [INT, STRING]}, 1),
    ({**STRING, "enum": ["a", "b"]}, "b"),
    ({**INT, "enum": [1, 2]}, 2),
    ({**STRING, "maxLength": 2, "minLength": 2}, "éé"),
    ({**STRING, "pattern": "^a+$"}, "aa"),
    ({**STRING, "format": "no-such-format"}, "x"),
    ({**INT, "multipleOf": 3, "minimum": 3, "maximum": 9}, 9),
    ({"type": "number", "multipleOf": 0.1}, 0.3),
    ({"type": "number", "exclusiveMaximum": True, "maximum": 1}, 0.99),
    ({**obj(a=STRING), "required": ["a"], "maxProperties": 1}, {"a": ""}),
    ({"type": "object", "additionalProperties": INT}, {"a": 1}),
    ({"x-kubernetes-preserve-unknown-fields": True}, {"a": [1]}),
    ({"oneOf": [{"minimum": 5}, {"maximum": 3}], **INT}, 7),
    ({"not": {"enum": ["a"]}, **STRING}, "b"),
]
WRONG = [
    (STRING, 3, invalid('"integer": f in body must be of type string: "integer"')),
    (STRING, True, invalid('"boolean": f in body must be of type string: "boolean"')),
    (INT, "3", invalid('"string": f in body must be of type integer: "string"')),
    (INT, None, invalid('"null": f in body must be of type integer: "null"')),
    (INT, 1.5, [*invalid('"number": f in body must be of type integer: "number"'),
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) '
                "in f"]),
    (obj(a=STRING), [1], invalid('"array": f in body must be of type object: "array"')),
    ({"x-kubernetes-int-or-string": True}, 1.5,
     invalid('"number": f in body must be of type integer,string: "number"')),
    ({**STRING, "enum": ["a", 'b"']}, "c",
     ['f: Unsupported value: "c": supported values: "a", "b\\""']),
    ({"enum": [{"b": 1, "a": "<"}]}, {"d": {"z": 1.0, "y": "&"}, "c": []},
     [r'f: Unsupported value: {"c":[],"d":{"y":"\u0026","z":1}}: supported values: '
      r'"{\"a\":\"\\u003c\",\"b\":1}"']),
    ({**INT, "enum": [1, 2]}, True,
     [*invalid('"boolean": f in body must be of type integer: "boolean"'),
      'f: Unsupported value: true: supported values: "1", "2"']),
    ({**STRING, "maxLength": 2}, "abc", ["f: Too long: may not be more than 2 bytes"]),
    ({**STRING, "minLength": 2}, "a", invalid('"a": f in body should be at least 2 chars long')),
    ({**STRING, "pattern": "^a+$"}, "b", invalid("\"b\": f in body should match '^a+$'")),
    ({**STRING, "format": "ipv4"}, "1.2.3",
     invalid('"1.2.3": f in body must be of type ipv4: "1.2.3"')),
    ({**STRING, "format": "date-time"}, 5,
     invalid('"int64": f in body must be of type date-time: "int64"')),
    ({**INT, "minimum": 1}, 0, invalid("0: f in body should be greater than or equal to 1")),
    ({**INT, "minimum": 1, "exclusiveMinimum": True}, 1,
     invalid("1: f in body should be greater than 1")),
    ({**INT, "maximum": 1}, 2, invalid("2: f in body should be less than or equal to 1")),
    ({**INT, "maximum": 1, "exclusiveMaximum": True}, 1,
     invalid("1: f in body should be less than 1")),
    ({"type": "number", "maximum": 1.5}, 2.5,
     invalid("2.5: f in body should be less than or equal to 1.5")),
    ({**INT, "multipleOf": 3}, 4, invalid("4: f in body should be a multiple of 3")),
    ({**INT, "format": "int32"}, 3_000_000_000,
     ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in f']),
    ({"type": "array", "items": INT, "minItems": 2}, [1],
     invalid("1: f in body should have at least 2 items")),
    ({"type": "array", "items": INT, "maxItems": 1}, [1, 2],
     ["f: Too many: 2: must have at most 1 item"]),
    ({"type": "array", "items": INT}, [1, "x"],
     ['f[1]: Invalid value: "string": f[1] in body must be of type integer: "string"']),
    ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2},
     ["f: Too many: 2: must have at most 1 item"]),
    ({"type": "object", "minProperties": 1}, {},
     invalid("0: f in body should have at least 1 properties")),
    ({"type": "object", "additionalProperties": INT}, {"a.b": "x"},
     ['f.a.b: Invalid value: "string": f.a.b in body must be of type integer: "string"']),
    ({**obj(a=STRING), "required": ["a"]}, {}, ["f.a: Required value"]),
    ({**STRING, "anyOf": [{"maxLength": 1}, {"pattern": "^a"}]}, "bc",
     ['<nil>: Invalid value: "": "f" must validate at least one schema (anyOf)',
      "f: Too long: may not be more than 1 byte"]),
    ({**obj(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
     {"a": "", "b": ""},
     ['<nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). '
      "Found 2 valid alternatives"]),
    ({**obj(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {},
     ['<nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). '
      "Found none valid", "f.a: Required value"]),
    ({**INT, "allOf": [{"minimum": 3}, {"maximum": 1}]}, 2,
     ["f: Invalid value: 2: f in body should be greater than or equal to 3",
      "f: Invalid value: 2: f in body should be less than or equal to 1",
      '<nil>: Invalid value: "": "f" must validate all the schemas (allOf). None validated']),
    ({**STRING, "not": {"pattern": "a"}}, "a",
     ['<nil>: Invalid value: "": "f" must not validate the schema (not)']),
    ({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}, ["a", "b", "a", "a"],
     ['f[2]: Duplicate value: "a"']),
    ({"type": "array", "items": obj(k=STRING, v=INT), "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["k"]}, [{"k": "a", "v": 1}, {"k": "a", "v": 2}],
     ['f[1]: Duplicate value: {"k":"a"}']),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), FINE)
def test_valid_values(schema, value):
    """A valid value has no errors."""
    assert check(value, schema) == []


@pytest.mark.parametrize(("schema", "value", "messages"), WRONG)
def test_invalid_values(schema, value, messages):
    """The errors of an invalid value have kube-openapi's messages."""
    assert check(value, schema) == messages


SHORT = {**STRING, "maxLength": 2}
KEYED = {
    "type": "array",
    "items": obj(k=STRING, v=SHORT),
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}
SET = {"type": "array", "items": SHORT, "x-kubernetes-list-type": "set"}
RATCHETED = [
    (SHORT, "long", "long", 0),
    (SHORT, "long", "longer", 1),
    (obj(a=SHORT, b=STRING), {"a": "long", "b": "x"}, {"a": "long", "b": "y"}, 0),
    (obj(a=SHORT), {}, {"a": "long"}, 1),
    (KEYED, [{"k": "a", "v": "long"}, {"k": "b"}], [{"k": "b"}, {"k": "a", "v": "long"}], 0),
    (KEYED, [{"k": "a", "v": "long"}], [{"k": "b", "v": "long"}], 1),
    ({"type": "array", "items": SHORT}, ["long"], ["long", "x"], 0),
    ({"type": "array", "items": SHORT}, ["long"], ["x", "long"], 1),
    (SET, ["long"], ["x", "long"], 1),
    (SET, ["long"], ["long"], 0),
    ({"type": "array", "items": SHORT, "x-kubernetes-list-type": "atomic"}, ["long"], ["long"], 0),
    ({**obj(a=STRING), "required": ["b"]}, {"a": "x"}, {"a": "x"}, 0),
    ({**obj(a=STRING), "required": ["b"]}, {"a": "x"}, {"a": "y"}, 1),
    ({**SET, "items": STRING}, ["a", "a"], ["a", "a"], 0),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "old", "new", "count"), RATCHETED)
def test_ratcheting(schema, old, new, count):
    """An update reports errors of changed values only."""
    assert len(check(new, schema, old)) == count


FORMATS = {
    "date": (["2024-02-29"], ["2023-02-29", "2024-1-1", "20240101"]),
    "date-time": (["2024-01-01T10:00:00Z", "2024-01-01t10:00:00.5+02:00"], ["2024-01-01", "x"]),
    "duration": (["1h30m", "22 ns", "3 days", "0"], ["", "h", "5 parsecs"]),
    "byte": (["YWJj", "YQ=="], ["Y", "YQ", "!!!!"]),
    "ipv4": (["1.2.3.4"], ["1.2.3", "01.2.3.4", "::1"]),
    "ipv6": (["::1"], ["1.2.3.4", "::g"]),
    "cidr": (["10.0.0.0/8", "10.1.1.1/8", "::/0"], ["10.0.0.0", "10.0.0.0/33"]),
    "mac": (["01:23:45:67:89:ab", "0123.4567.89ab"], ["01:23", "xx:23:45:67:89:ab"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567", ""]),
    "uuid4": (["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
    "hostname": (["example.com", "a", "example.co.uk"], ["-a.com", "a..b", ""]),
    "uri": (["http://a/b", "/path", "mailto:x"], ["", "a b", "x", "http://a b/"]),
    "email": (["a@b.c", "Name <a@b.c>"], ["a", "@b", "a@", "a b@c"]),
    "password": (["anything"], []),
    "isbn": (["0321751043", "978-0321751041"], ["0321751044"]),
    "creditcard": (["4111 1111 1111 1111"], ["4111 1111 1111 1112"]),
    "ssn": (["111-22-3333"], ["11-22-3333"]),
    "hexcolor": (["#fff", "FFFFFF"], ["#ff"]),
    "rgbcolor": (["rgb(1,2,255)"], ["rgb(1,2,256)"]),
    "k8s-short-name": (["a-b"], ["A", "-a", "a.b"]),
    "k8s-long-name": (["a-b.c"], ["A", "a..b"]),
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f"]),
    "quantity": (["10Gi", "1.5"], ["x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name):
    """A text either matches a format or does not."""
    right, invalid = FORMATS[name]
    assert [text for text in right if not formats.has_format(name, text)] == []
    assert [text for text in invalid if formats.has_format(name, text)] == []


@given(st.sampled_from(sorted(formats.FORMATS)), st.text(max_size=30))
def test_formats_never_raise(name, text):
    """Any text can be checked for any format."""
    assert formats.has_format(name, text) in (True, False)


@settings(max_examples=100)
@given(schemas(), TREES, TREES)
def test_validating_never_raises(schema, value, old):
    """Any value can be validated by any schema, and unchanged values have no errors."""
    node = structural.compile(schema)
    assert isinstance(object_validation.validate(value, node), list)
    assert isinstance(object_validation.validate(value, node, old), list)
    assert object_validation.validate(value, node, value) == []


@pytest.mark.parametrize("junction", ["", "anyOf", "oneOf", "allOf", "not"])
def test_deep_schemas_take_linear_time(junction):
    """Errors in deep schemas take time linear in the depth."""
    schema, value = {**INT, "maximum": 1}, 2
    for _ in range(40):
        below = {"properties": {"a": schema}}
        nested = below if junction == "not" else [below, {"required": ["b"]}]
        schema = {"type": "object", junction: nested} if junction else obj(a=schema)
        value = {"a": value}
    calls = []
    node = structural.compile(schema)
    object_validation.validate(value, node)

    def count(frame, event, arg):
        calls.append(1)

    sys.setprofile(count)
    object_validation.validate(value, node)
    sys.setprofile(None)
    assert len(calls) < 100_000


def test_reported_errors_are_limited():
    """The number of reported errors is limited."""
    for schema, value in (
        ({"type": "array", "items": STRING}, [1] * 10_000),
        ({"type": "array", "items": INT, "x-kubernetes-list-type": "set"}, [*range(5000)] * 2),
        (
            {"type": "object", "additionalProperties": STRING},
            dict.fromkeys(map(str, range(10_000)), 1),
        ),
    ):
        assert 1000 <= len(check(value, schema)) <= 1010


def test_patterns_take_linear_time():
    """A pattern that backtracks exponentially in other engines takes linear time."""
    assert check("a" * 100_000 + "!", {**STRING, "pattern": "^(a+)+$"})
    assert check("x" * 50_000, {**STRING, "pattern": "(x+x+)+y"})
