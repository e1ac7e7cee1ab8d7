"""JSON patch (RFC 6902) on trees: operations, limits, messages."""

import copy

import pytest

from kapiserver.api.errors import BadObject, PatchFailed, PatchTestFailed, PatchTooLong
from kapiserver.api.patches import json_patch

DOC = {"list": [1, 2], "map": {"a/b": "slash", "m~n": "tilde"}, "text": "x", "yes": True}

APPLIES = [
    ([{"op": "add", "path": "/list/-", "value": 3}], "list", [1, 2, 3]),
    ([{"op": "add", "path": "/list/0", "value": 0}], "list", [0, 1, 2]),
    ([{"op": "replace", "path": "/map/a~1b", "value": 1}], "map", {"a/b": 1, "m~n": "tilde"}),
    ([{"op": "remove", "path": "/map/m~0n"}], "map", {"a/b": "slash"}),
    ([{"op": "move", "from": "/text", "path": "/moved"}], "moved", "x"),
    ([{"op": "copy", "from": "/map", "path": "/copied"},
      {"op": "remove", "path": "/copied/m~0n"}], "copied", {"a/b": "slash"}),
    ([{"op": "test", "path": "/text", "value": "x"}], "text", "x"),
    ([{"op": "test", "path": "/missing", "value": None}], "text", "x"),
    ([{"op": "test", "path": "/missing"}], "text", "x"),
    ([{"op": "replace", "path": "/missing", "value": 1}], "missing", 1),
    ([{"op": "replace", "path": "/text"}], "text", None),
    ([{"op": "add", "path": "/missing"}], "missing", None),
    ([{"op": "copy", "from": "/missing", "path": "/text"}], "text", None),
    ([{"op": "replace", "path": "/list/-1", "value": 3}], "list", [1, 3]),
    ([{"op": "remove", "path": "/list/-2"}], "list", [2]),
    ([{"op": "add", "path": "/list/-1", "value": 3}], "list", [1, 2, 3]),
    ([{"op": "add", "path": "/list/-3", "value": 3}], "list", [3, 1, 2]),
    ([{"op": "test", "path": "/list/-1", "value": 2}], "text", "x"),
    ([{"op": "replace", "path": "", "value": {"text": "y"}}], "text", "y"),
    ([{"op": "test", "path": "", "value": DOC}], "text", "x"),
    ([{"op": "add", "path": "/list/+01", "value": 3}], "list", [1, 3, 2]),
    ([{"op": "move", "from": "/list/0", "path": "/list/-"}], "list", [2, 1]),
]  # fmt: skip

FAILS = [
    ({"op": "test", "path": "/yes", "value": 1}, "testing value /yes failed: test failed"),
    ({"op": "test", "path": "/list/0", "value": 1.0}, "testing value /list/0 failed: test failed"),
    ({"op": "test", "path": "/text", "value": None}, "testing value /text failed: test failed"),
    ({"op": "test", "path": "/missing", "value": 1},
     "testing value /missing failed: test failed"),
    ({"op": "test", "path": "/list/x", "value": 1},
     "error in test for path: '/list/x': strconv.Atoi: parsing \"x\": invalid syntax"),
    ({"op": "test", "path": "/missing/below"},
     "test operation does not apply: is missing path: /missing/below: missing value"),
    ({"op": "replace", "path": "/missing/below", "value": 1},
     "replace operation does not apply: doc is missing path: /missing/below: missing value"),
    ({"op": "replace", "path": "/list/2", "value": 1},
     "replace operation does not apply: doc is missing key: /list/2: missing value"),
    ({"op": "replace", "path": "", "value": 1},
     "replace operation value must be object or array"),
    ({"op": "remove", "path": "/missing"},
     "error in remove for path: '/missing': Unable to remove nonexistent key: missing: missing "
     "value"),
    ({"op": "remove", "path": "/list/-3"},
     "error in remove for path: '/list/-3': Unable to access invalid index: -3: invalid index "
     "referenced"),
    ({"op": "remove", "path": ""},
     'remove operation does not apply: doc is missing path: "": missing value'),
    ({"op": "remove"}, "remove operation failed to decode path: missing value"),
    ({"op": "replace"},
     "replace operation failed to decode path: operation missing path field: missing value"),
    ({"op": "add", "path": "", "value": {}},
     'add operation does not apply: doc is missing path: "": missing value'),
    ({"op": "add", "path": "/missing/below", "value": 1},
     'add operation does not apply: doc is missing path: "/missing/below": missing value'),
    ({"op": "add", "path": "/list/9", "value": 1},
     "error in add for path: '/list/9': Unable to access invalid index: 9: invalid index "
     "referenced"),
    ({"op": "add", "path": "/list/x", "value": 1},
     "error in add for path: '/list/x': value was not a proper array index: 'x': strconv.Atoi: "
     'parsing "x": invalid syntax'),
    ({"op": "add", "path": "/list/1_0", "value": 1}, "error in add for path: '/list/1_0': "
     "value was not a proper array index: '1_0': strconv.Atoi: parsing \"1_0\": invalid syntax"),
    ({"op": "add", "path": "/text/x", "value": 1},
     'add operation does not apply: doc is missing path: "/text/x": missing value'),
    ({"op": "add", "path": "no-slash", "value": 1},
     'add operation does not apply: doc is missing path: "no-slash": missing value'),
    ({"op": "copy", "from": "", "path": "/copied"},
     "copy operation does not apply: doc is missing from path: : missing value"),
    ({"op": "copy", "from": "/text", "path": "/missing/below"},
     "copy operation does not apply: doc is missing destination path: /missing/below: missing "
     "value"),
    ({"op": "copy", "path": "/no-from"},
     "copy operation failed to decode from: operation, missing from field: missing value"),
    ({"op": "move", "from": "/missing", "path": "/text"},
     "error in move for path: 'missing': Unable to remove nonexistent key: missing: missing value"),
    ({"op": "move", "from": "/map", "path": "/map/below"},
     "move operation does not apply: doc is missing destination path: /map/below: missing value"),
    ({"op": "grow", "path": "/map"}, "Unexpected kind: grow"),
    ({"path": "/map"}, "Unexpected kind: unknown"),
    ({}, "Unexpected kind: unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("operations", "member", "expected"), APPLIES)
def test_applies(operations, member, expected):
    """Each operation follows RFC 6902, or kube-apiserver where that is more lenient, and changes no
    argument."""
    document, patch = copy.deepcopy(DOC), copy.deepcopy(operations)
    assert json_patch.apply(document, json_patch.read(patch))[member] == expected
    assert document == DOC
    assert patch == operations


@pytest.mark.parametrize(("operation", "message"), FAILS)
def test_fails(operation, message):
    """An operation that does not apply to the document fails with the message of
    kube-apiserver's library, and with it the patch."""
    with pytest.raises(PatchFailed) as caught:
        json_patch.apply(DOC, json_patch.read([operation]))
    assert str(caught.value) == message
    assert isinstance(caught.value, PatchTestFailed) == message.endswith("test failed")


def test_nested_too_deeply():
    """A patch whose result is nested more deeply than a body may be fails."""
    deep = [{"op": "add", "path": "/map" + "/a" * n, "value": {}} for n in range(1, 2000)]
    assert json_patch.apply(DOC, deep[:248])
    copies = {"op": "copy", "from": "/map", "path": "/text"}
    for operations in (deep, deep[:252], [*deep, copies]):
        with pytest.raises(PatchFailed):
            json_patch.apply(DOC, operations)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({}, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (["x"], "cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}],
         "cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ],
)  # fmt: skip
def test_refuses(patch, message):
    """A body that is not a list of operations is refused with Go's message."""
    with pytest.raises(BadObject, match=r"^error decoding patch: json: ") as caught:
        json_patch.read(patch)
    assert str(caught.value).endswith(message)


def test_many_operations():
    """10,000 operations are accepted, one more is refused."""
    operation = {"op": "add", "path": "/text", "value": "y"}
    assert json_patch.read([operation] * 10_000)
    with pytest.raises(PatchTooLong) as caught:
        json_patch.read([operation] * 10_001)
    assert str(caught.value) == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, "
        "got 10001"
    )


def test_copies_are_bounded():
    """Copy operations that double the document fail beyond 3 MiB."""
    bomb = [{"op": "copy", "from": "/map", "path": f"/map/{n}"} for n in range(40)]
    with pytest.raises(PatchFailed, match="exceeding the limit"):
        json_patch.apply(DOC, bomb)


def test_unknown_members():
    """Members that the RFC does not define are strict errors with their index."""
    operations = [{"op": "test", "path": "", "oops": 1}]
    assert json_patch.unknown_fields(operations) == ['unknown field "[0].oops"']
