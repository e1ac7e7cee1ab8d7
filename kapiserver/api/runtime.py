"""The envelope around every Protobuf object: `k8s\\0`, then an Unknown.

Declared for the IDL that clients of other languages compile, and for the few fields that contain
one; codecs write the envelope of an object by hand. Mirrors k8s.io/apimachinery/pkg/runtime.
"""

from __future__ import annotations

from kapiserver.api.scalar_types import json_from_bytes, json_to_bytes
from kapiserver.api.types import ScalarType, Tree, Type, Value, field


class TypeMeta(Type):
    """The apiVersion and kind of an object, which its own message does not carry."""

    package = "k8s.io.apimachinery.pkg.runtime"

    apiVersion: str = field(
        1, doc="Group and version of the object, such as apps/v1, or v1 for the core group."
    )
    kind: str = field(2, doc="Kind of the object in CamelCase, such as Deployment.")


class Unknown(ScalarType):
    """An encoded object with its apiVersion and kind. In a field, arbitrary JSON."""

    package = "k8s.io.apimachinery.pkg.runtime"

    typeMeta: TypeMeta = field(1, doc="The apiVersion and kind of the encoded object.")
    raw: bytes = field(2, doc="The encoded object, in the form that contentType names.")
    contentEncoding: str = field(
        3, doc="Compression or other encoding of raw; empty if there is none."
    )
    contentType: str = field(4, doc="Media type of raw; empty for a Protobuf message.")

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
