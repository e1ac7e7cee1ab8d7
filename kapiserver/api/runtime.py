"""The envelope around every Protobuf object: `k8s\\0`, then an Unknown.

Declared for the IDL that clients of other languages compile, and for the few fields that hold one;
around objects, codecs write it by hand. Mirrors k8s.io/apimachinery/pkg/runtime.
"""

from __future__ import annotations

from kapiserver.api.leaves import json_from_bytes, json_to_bytes
from kapiserver.api.types import Leaf, Tree, Type, Value, field


class TypeMeta(Type):
    """What the object says it is; the object's own message does not."""

    package = "k8s.io.apimachinery.pkg.runtime"

    apiVersion: str = field(1)
    kind: str = field(2)


class Unknown(Leaf):
    """An object with its kind, as bytes; in a field, JSON that is kept as it came."""

    package = "k8s.io.apimachinery.pkg.runtime"

    typeMeta: TypeMeta = field(1)
    raw: bytes = field(2, doc="The object's message.")
    contentEncoding: str = field(3, doc="How raw is encoded on top; empty for not at all.")
    contentType: str = field(4, doc="What raw is; empty for Protobuf.")

    @classmethod
    def canonical(cls, value: Value) -> Value:
        return value

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        if value is None:
            return {}
        return {"raw": json_to_bytes(value), "contentType": "application/json"}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return json_from_bytes(message.get("raw") or "")
