"""Writes of objects that the server refuses: malformed, invalid, in conflict, not allowed.

Each body has a long text. `test_refused_bodies.py` sends them to a server without a garbage
collector, and finds the text in memory if something keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.config import BODY_LIMIT
from kapiserver.codecs import cbor
from kapiserver.codecs.protobuf.serializer import ProtobufSerializer
from tests.apiserver.customresources.customkit import CRDS, definition, path_of, version

JSON, YAML, PROTOBUF, CBOR = (
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
    "application/cbor",
)  # fmt: skip
JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, STRATEGIC_CBOR, APPLY, APPLY_CBOR = (
    "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json", "application/strategic-merge-patch+cbor",
    "application/apply-patch+yaml", "application/apply-patch+cbor",
)  # fmt: skip
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, STRATEGIC_CBOR, APPLY, APPLY_CBOR)
CORE = "/api/v1/namespaces/default"
MAPS = f"{CORE}/configmaps"
JANE = {"Impersonate-User": "jane"}
"""A user without rights."""

Tree = dict[str, Any]
Change = Callable[[Tree], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request that is refused. `body` returns its bytes around a text."""

    name: str
    method: str
    path: str
    body: Callable[[str], bytes]
    type: str
    headers: dict[str, str] = field(default_factory=dict)


_SCHEMA = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "data": {"type": "object", "additionalProperties": {"type": "string"}},
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [{"rule": "self.size < 3"}],
            "properties": {
                "size": {"type": "integer"},
                "color": {"type": "string", "enum": ["red"]},
            },
        },
    },
}
DEFINITION = definition(
    version("v1", _SCHEMA, subresources={"status": {}}), group="refused.example.com"
)
WIDGETS = path_of(DEFINITION)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of object, its collection, and whether its objects have a Protobuf encoding."""

    api_version: str
    kind: str
    path: str
    is_typed: bool = True

    def object(self, name: str, text: str) -> Tree:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": name},
            "data": {"text": text},
        }


CONFIG_MAP = _Kind("v1", "ConfigMap", MAPS)
WIDGET = _Kind("refused.example.com/v1", "Widget", WIDGETS, is_typed=False)
KINDS = (CONFIG_MAP, WIDGET)


def before() -> Iterator[tuple[str, str, Any, str]]:
    """Yield the method, path, body and media type of the requests that make the objects which the
    refused requests name, the definition first."""
    yield "POST", CRDS, DEFINITION, JSON
    for kind in KINDS:
        yield "POST", kind.path, kind.object("there", ""), JSON
        applied = kind.object("there", "") | {"data": {"owned": "a"}}
        yield "PATCH", f"{kind.path}/there?fieldManager=owner&force=true", applied, APPLY
    yield "POST", "/api/v1/namespaces", {"metadata": {"name": "full"}}, JSON
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "0"}}}
    yield "POST", "/api/v1/namespaces/full/resourcequotas", quota, JSON
    status = {"status": {"hard": {"count/configmaps": "0"}, "used": {"count/configmaps": "0"}}}
    yield "PATCH", "/api/v1/namespaces/full/resourcequotas/q/status", status, MERGE_PATCH
    service = {"metadata": {"name": "there"}, "spec": {"ports": [{"port": 80}]}}
    yield "POST", f"{CORE}/services", service, JSON


def requests() -> Iterator[Refused]:
    """Yield the refused writes of each kind."""
    for kind in KINDS:
        yield from _malformed(kind)
        yield from _wrong_values(kind)
        yield from _wrong_patches(kind)
        yield from _conflicts(kind)
        yield from _refused_before_decoding(kind)
        yield from _wrong_options(kind)


# Encodings.


def _protobuf(tree: Tree) -> bytes:
    return ProtobufSerializer(Scheme()).encode(tree)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    JSON: lambda tree: json.dumps(tree).encode(),
    YAML: lambda tree: yaml.dump(tree, Dumper=yaml.CSafeDumper, width=1 << 30).encode(),
    PROTOBUF: _protobuf,
    CBOR: lambda tree: cbor.SELF_DESCRIBED_TAG + cbor.encode_value(tree),
}
_ENCODING_OF_PATCHES = {
    JSON_PATCH: JSON,
    MERGE_PATCH: JSON,
    STRATEGIC_PATCH: JSON,
    STRATEGIC_CBOR: CBOR,
    APPLY: YAML,
    APPLY_CBOR: CBOR,
}


def encode(tree: Any, media: str) -> bytes:
    """Return the tree in the encoding of a media type, which may be that of a patch."""
    return _ENCODERS[_ENCODING_OF_PATCHES.get(media, media)](tree)


def _writes(kind: _Kind) -> Iterator[tuple[str, str, str, str]]:
    """Yield the method, the path, the media type and the object's name of each way to write an
    object of the kind: creating it, updating it, each type of patch. These are dry runs: some
    bodies are accepted, and the watch cache keeps what is written."""
    for media in _ENCODERS:
        if media != PROTOBUF or kind.is_typed:
            yield "POST", f"{kind.path}?dryRun=All", media, "new"
            yield "PUT", f"{kind.path}/there?dryRun=All", media, "there"
    for media in PATCHES:
        if "strategic" not in media or kind.is_typed:
            query = "&fieldManager=m" if "apply" in media else ""
            yield "PATCH", f"{kind.path}/there?dryRun=All{query}", media, "there"


# Malformed bodies.

_DEFECTS: dict[str, Callable[[bytes], bytes]] = {
    "without its last byte": lambda data: data[:-1],
    "without its end": lambda data: data[:-40],
    "with more after its end": lambda data: data + b"}]a",
    "with a wrong start": lambda data: b"\xff[" + data,
    "with a NUL": lambda data: data.replace(b"metadata", b"\x00etadata"),
    "with a changed length": lambda data: data.replace(b"\x04text", b"\x7ftext"),
    "not UTF-8": lambda data: data[:-40] + b"\xff\xfe" + data[-38:],
    "of another syntax": lambda data: b"{a: [" + data,
    "in a string": lambda data: json.dumps(data.decode("latin-1")).encode(),
    "in a list": lambda data: b"[" + data + b"]",
    "in a deep list": lambda data: b"[" * 20_000 + data,
}
_CBOR_ITEMS = {
    "bignum": b"\xc2\x49" + b"\x01" * 9,
    "negative bignum": b"\xc3\x49" + b"\x01" * 9,
    "large integer": b"\x1b" + b"\xff" * 8,
    "NaN": b"\xf9\x7e\x00",
    "infinity": b"\xf9\x7c\x00",
    "undefined": b"\xf7",
    "simple value": b"\xf8\xff",
    "time of a number": b"\xc0\x01",
    "epoch of a text": b"\xc1\x61a",
    "epoch out of range": b"\xc1\x1b\x7f" + b"\xff" * 7,
    "bytes that are not UTF-8": b"\x41\xff",
    "text that is not UTF-8": b"\x61\xff",
    "map with a list as key": b"\xa1\x80\x01",
    "map with a number as key": b"\xa1\x01\x01",
    "map with a key twice": b"\xa2\x41a\x01\x41a\x01",
    "map with a key as bytes and text": b"\xa2\x41a\x01\x61a\x01",
    "deep list": b"\x81" * 20_000,
    "reserved head": b"\xfc",
    "end of nothing": b"\xff",
    "list without an end": b"\x9f",
    "bytes of 2 GB": b"\x5a\x7f\xff\xff\xff",
    "list of 2 billion": b"\x9a\x7f\xff\xff\xff",
    "shared value": b"\xd8\x1c\x81\xd8\x1d\x00",
    "regular expression": b"\xd8\x23\x61[",
    "decimal": b"\xc4\x82\x01\xc2\x41\x01",
}
_JSON_ITEMS = {
    "large integer": b"123456789012345678901234567890",
    "large float": b"1e999",
    "half of a pair": b'"\\ud800"',
    "bad escape": b'"\\x"',
    "bad literal": b"nul",
    "deep list": b"[" * 20_000,
    "control character": b'"\x01"',
    "member twice": b'{"a":1,"a":2}',
    "text without an end": b'"a',
}
_YAML_ITEMS = {
    "unknown alias": b"*nothing",
    "aliases of aliases": b"[&a [1,2], &b [*a,*a], *b]",
    "recursive alias": b"&a [*a]",
    "unknown tag": b"!!python/object/apply:os.system ['true']",
    "bad binary": b"!!binary '%'",
    "bad number": b"!!int a",
    "bad escape": b'"\\q"',
    "bad list": b"[a",
    "bad map": b"{a: b",
    "tab": b"\n\t- a",
    "member twice": b"{a: 1, a: 2}",
    "large integer": b"123456789012345678901234567890",
    "complex key": b"{[a]: b}",
    "merge of a text": b"{<<: a}",
}
_ITEMS = {CBOR: _CBOR_ITEMS, JSON: _JSON_ITEMS, YAML: _YAML_ITEMS}
_PLACEHOLDER = 77777


def _malformed(kind: _Kind) -> Iterator[Refused]:
    for method, path, media, name in _writes(kind):
        for defect, change in _DEFECTS.items():
            yield Refused(
                name=f"{kind.kind} {defect}",
                method=method,
                path=path,
                body=lambda text, change=change, name=name, media=media: change(
                    encode(kind.object(name, text), media)
                ),
                type=media,
            )
        encoding = _ENCODING_OF_PATCHES.get(media, media)
        for title, item in _ITEMS.get(encoding, {}).items():
            for field_name in ("data", "other"):
                yield Refused(
                    name=f"{kind.kind}, {title} in {field_name}",
                    method=method,
                    path=path,
                    body=lambda text, name=name, item=item, where=field_name, encoding=encoding: (
                        _with_item(kind.object(name, text), where, item, encoding)
                    ),
                    type=media,
                )


def _with_item(obj: Tree, where: str, item: bytes, encoding: str) -> bytes:
    """Return an encoded object whose field `where`.item is an item that no encoder makes."""
    if where == "data":
        obj["data"]["z"] = _PLACEHOLDER
    else:
        obj[where] = {"z": _PLACEHOLDER}
    return encode(obj, encoding).replace(encode(_PLACEHOLDER, encoding)
        .removeprefix(cbor.SELF_DESCRIBED_TAG).removesuffix(b"\n...\n"), item)  # fmt: skip


# Values that do not fit.


def _put(*path: str, value: Any) -> Change:
    def change(obj: Tree) -> Tree:
        parent = obj
        for step in path[:-1]:
            parent = parent.setdefault(step, {})
        parent[path[-1]] = value
        return obj

    return change


_WRONG_VALUES: dict[str, Change] = {
    "a list for text": _put("data", "a", value=["b"]),
    "a number for text": _put("data", "a", value=1),
    "a text for a map": lambda obj: obj | {"data": obj["data"]["text"]},
    "a list for a map": lambda obj: obj | {"data": [obj["data"]["text"]]},
    "a list for metadata": lambda obj: obj | {"metadata": [obj["data"]["text"]]},
    "a map for a name": _put("metadata", "name", value={"a": "b"}),
    "a number for labels": _put("metadata", "labels", value=1),
    "labels that are invalid": _put("metadata", "labels", value={"-": "/"}),
    "annotations that are invalid": _put("metadata", "annotations", value={"-/-": ""}),
    "owners that are invalid": _put("metadata", "ownerReferences", value=[{"kind": "A"}]),
    "a time that is none": _put("metadata", "creationTimestamp", value="yesterday"),
    "managed fields that are invalid": _put("metadata", "managedFields", value=[{"a": 1}]),
    "a kind that is unknown": _put("kind", value="Nothing"),
    "a kind that is another": lambda obj: obj | {"kind": "Secret", "apiVersion": "v1"},
    "a kind that is a number": _put("kind", value=1),
    "no kind": lambda obj: {key: value for key, value in obj.items() if key != "kind"},
    "a version that is unknown": _put("apiVersion", value="v9"),
    "a version that is malformed": _put("apiVersion", value="a/b/c"),
    "another namespace": _put("metadata", "namespace", value="other"),
    "another name": _put("metadata", "name", value="another"),
    "a name that is invalid": _put("metadata", "name", value="-A-"),
    "another uid": _put("metadata", "uid", value="00000000-0000-0000-0000-000000000000"),
    "an old version": _put("metadata", "resourceVersion", value="1"),
    "a version that is no number": _put("metadata", "resourceVersion", value="a"),
    "spec that breaks a rule": _put("spec", "size", value=4),
    "spec that breaks an enum": _put("spec", "color", value="blue"),
    "spec of another type": _put("spec", "size", value="a"),
    "data with a bad key": _put("data", "/", value="a"),
    "a field that is unknown": _put("unknown", value=1),
    "a text for everything": lambda obj: obj["data"]["text"],
    "null for everything": lambda obj: [obj["data"]["text"], None],
    "very many values": lambda obj: obj | {"metadata": obj["metadata"] | {"finalizers": [{}] * 9}},
}


def _wrong_values(kind: _Kind) -> Iterator[Refused]:
    for method, path, media, name in _writes(kind):
        for title, change in _WRONG_VALUES.items():
            if media == PROTOBUF and title not in _ENCODABLE:
                continue
            yield Refused(
                name=f"{kind.kind}, {title}",
                method=method,
                path=f"{path}&fieldValidation=Strict",
                body=lambda text, change=change, name=name, media=media: encode(
                    change(kind.object(name, text)), media
                ),
                type=media,
            )


_ENCODABLE = frozenset((
    "labels that are invalid", "annotations that are invalid", "owners that are invalid",
    "another namespace", "another name", "a name that is invalid", "another uid",
    "an old version", "a version that is no number", "data with a bad key",
))  # fmt: skip


def _wrong_patches(kind: _Kind) -> Iterator[Refused]:
    path = f"{kind.path}/there"
    operations: dict[str, Callable[[str], Any]] = {
        "test that fails": lambda text: [{"op": "test", "path": "/data", "value": text}],
        "path that is missing": lambda text: [
            {"op": "add", "path": "/a/b/c", "value": text}
        ],
        "removal of nothing": lambda text: [
            {"op": "add", "path": "/data/a", "value": text}, {"op": "remove", "path": "/data/none"}
        ],
        "operation that is unknown": lambda text: [{"op": text, "path": "/data"}],
        "path that is none": lambda text: [{"op": "add", "path": text, "value": 1}],
        "value of another type": lambda text: [{"op": "add", "path": "/data", "value": text}],
        "whole object": lambda text: [{"op": "add", "path": "", "value": text}],
        "index": lambda text: [
            {"op": "add", "path": "/metadata/finalizers", "value": [text]},
            {"op": "add", "path": "/metadata/finalizers/9", "value": "a"},
        ],
        "no list": lambda text: {"a": text},
        "no operations": lambda text: [text],
    }  # fmt: skip
    for title, patch in operations.items():
        yield Refused(
            name=f"JSON patch of a {kind.kind}: {title}",
            method="PATCH",
            path=path,
            body=lambda text, patch=patch: encode(patch(text), JSON),
            type=JSON_PATCH,
        )
    directives: dict[str, Callable[[str], Any]] = {
        "wrong directive": lambda text: {"data": {"$patch": text}},
        "wrong list": lambda text: {"metadata": {"$setElementOrder/ownerReferences": text}},
        "deletion of no list": lambda text: {"metadata": {"$deleteFromPrimitiveList/labels": text}},
        "keys that are kept": lambda text: {"data": {"$retainKeys": text, "a": "b"}},
        "no merge key": lambda text: {"metadata": {"ownerReferences": [{"name": text}]}},
    }
    if kind.is_typed:
        for media in (STRATEGIC_PATCH, STRATEGIC_CBOR):
            for title, patch in directives.items():
                yield Refused(
                    name=f"strategic patch of a {kind.kind}: {title}",
                    method="PATCH",
                    path=path,
                    body=lambda text, patch=patch, media=media: encode(patch(text), media),
                    type=media,
                )


# Objects that are in the way.


def _conflicts(kind: _Kind) -> Iterator[Refused]:
    for media in (JSON, YAML, CBOR):
        yield Refused(
            name=f"{kind.kind} that exists",
            method="POST",
            path=kind.path,
            body=lambda text, media=media: encode(kind.object("there", text), media),
            type=media,
        )
    for media in (APPLY, APPLY_CBOR):
        yield Refused(
            name=f"{kind.kind} whose field has another manager",
            method="PATCH",
            path=f"{kind.path}/there?fieldManager=other",
            body=lambda text, media=media: encode(
                kind.object("there", text) | {"data": {"owned": text}}, media
            ),
            type=media,
        )
    for media in PATCHES:
        if "apply" not in media and (kind.is_typed or "strategic" not in media):
            yield Refused(
                name=f"{kind.kind} that does not exist",
                method="PATCH",
                path=f"{kind.path}/none",
                body=lambda text, media=media: encode({"data": {"a": text}}, media),
                type=media,
            )


# Requests that are refused before their body is decoded.


def _refused_before_decoding(kind: _Kind) -> Iterator[Refused]:
    for method, path, media, name in _writes(kind):
        base = Refused(
            name=kind.kind,
            method=method,
            path=path,
            body=lambda text, name=name, media=media: encode(kind.object(name, text), media),
            type=media,
        )
        if media == PROTOBUF:
            base = replace(base, body=lambda text: text.encode())
        yield replace(base, name=f"{kind.kind} by a user without rights", headers=JANE)
        yield replace(base, name=f"{kind.kind} as no media type", type="text/plain")
        yield replace(base, name=f"{kind.kind} for no media type", headers={"Accept": "text/plain"})
        for option in ("dryRun=Some", "fieldValidation=Some", "timeout=a", "fieldManager=%00"):
            yield replace(base, name=f"{kind.kind} with an option", path=f"{path}&{option}")
        nothing = path.replace("configmaps", "nothing").replace("widgets", "nothing")
        yield replace(base, name=f"{kind.kind} of no resource", path=nothing)
        yield replace(base, name=f"{kind.kind} of no subresource", path=f"{kind.path}/there/none")
        yield replace(base, name=f"{kind.kind} by no method", path=kind.path, method="PATCH")
        if media in (JSON, APPLY):
            yield replace(base, name=f"{kind.kind} too large", body=_too_large)


def _too_large(text: str) -> bytes:
    return text.encode() * (BODY_LIMIT // len(text) + 1)


def _wrong_options(kind: _Kind) -> Iterator[Refused]:
    wrong: dict[str, Callable[[str], Any]] = {
        "another kind": lambda text: {"kind": "Pod", "apiVersion": "v1", "a": text},
        "a policy that is unknown": lambda text: {"propagationPolicy": text},
        "a uid that is another": lambda text: {"preconditions": {"uid": text}},
        "preconditions of another type": lambda text: {"preconditions": [text]},
        "a dry run that is unknown": lambda text: {"dryRun": [text]},
    }
    for path in (f"{kind.path}/there", f"{kind.path}?labelSelector=none"):
        for title, body in wrong.items():
            for media in (JSON, YAML, CBOR):
                yield Refused(
                    name=f"deletion with {title}",
                    method="DELETE",
                    path=path,
                    body=lambda text, body=body, media=media: encode(
                        {"kind": "DeleteOptions", "apiVersion": "v1"} | body(text), media
                    ),
                    type=media,
                )
        for defect, change in _DEFECTS.items():
            yield Refused(
                name=f"deletion with options {defect}",
                method="DELETE",
                path=path,
                body=lambda text, change=change: change(encode({"metadata": text}, JSON)),
                type=JSON,
            )
