"""The envelope around every Protobuf object: `k8s\\0`, then an Unknown.

Declared for the IDL that clients of other languages compile; codecs write it by hand. Mirrors
k8s.io/apimachinery/pkg/runtime.
"""

from __future__ import annotations

from kapiserver.api.types import Type, field


class TypeMeta(Type):
    """What the object says it is; the object's own message does not."""

    package = "k8s.io.apimachinery.pkg.runtime"

    apiVersion: str = field(1)
    kind: str = field(2)


class Unknown(Type):
    """An object with its kind, as bytes."""

    package = "k8s.io.apimachinery.pkg.runtime"

    typeMeta: TypeMeta = field(1)
    raw: bytes = field(2, doc="The object's message.")
    contentEncoding: str = field(3, doc="How raw is encoded on top; empty for not at all.")
    contentType: str = field(4, doc="What raw is; empty for Protobuf.")
