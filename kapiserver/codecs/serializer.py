"""The contract of a serializer, and what every layer passes between them.

A serializer turns bytes into a tree of one declared type and back. It does no conversion, no
defaulting and no admission; it knows the Scheme only to find the type of a kind. Mirrors
runtime.Serializer of k8s.io/apimachinery (see ../shared proposals: "Codec", "CodecFactory").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree


@dataclass(frozen=True, slots=True)
class Decoded:
    """One object read from bytes.

    object          canonical tree of its type: keys in declared order, zero values as Go's
                    encoder would write them, `kind` and `apiVersion` filled in
    kind            what the bytes said, completed from the defaults given
    strict_errors   unknown and duplicate fields with their paths, worded as kube-apiserver words
                    them ('unknown field "spec.foo"', 'duplicate field "spec.foo"')
    """

    object: Tree
    kind: GroupVersionKind
    strict_errors: tuple[str, ...] = ()


class Serializer(Protocol):
    """One media type's encoding of one object."""

    identifier: str
    """Two serializers with the same identifier write the same bytes for the same tree."""

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Read one object; `defaults` completes what the bytes leave out. Raises CodecError."""

    def encode(self, obj: Tree) -> bytes:
        """Write one object, which names its kind. Raises CodecError."""

    def recognizes(self, data: bytes) -> bool:
        """Whether the bytes look like this encoding (by prefix; cheap)."""
