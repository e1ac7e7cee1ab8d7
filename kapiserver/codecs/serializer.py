"""The interface of serializers and the result of decoding.

A serializer decodes bytes into the tree of one kind and encodes it. It neither converts nor
defaults; it uses the Scheme only to look up the type of a kind. Mirrors runtime.Serializer of
k8s.io/apimachinery.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree


class Decoded(Struct, frozen=True):
    """One decoded object.

    object          the canonical tree of its type: keys in declared order, zero values as Go's
                    encoder writes them, with `kind` and `apiVersion`
    kind            the kind that the bytes name, completed from the defaults
    strict_errors   unknown and duplicate fields with their paths, in the words of kube-apiserver
                    ('unknown field "spec.foo"', 'duplicate field "spec.foo"')
    """

    object: Tree
    kind: GroupVersionKind
    strict_errors: tuple[str, ...] = ()


class Serializer(Protocol):
    """Encodes and decodes objects in one media type."""

    identifier: str
    """Serializers with the same identifier encode equal trees as equal bytes."""

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Decode one object. `defaults` fills in a missing kind or version. Raises CodecError."""

    def encode(self, obj: Tree) -> bytes:
        """Encode one object, which has `kind` and `apiVersion`. Raises CodecError."""

    def recognizes(self, data: bytes) -> bool:
        """Whether the first bytes look like this encoding."""
