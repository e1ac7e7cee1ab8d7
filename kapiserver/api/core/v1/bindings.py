"""Binding: the answer of a scheduler."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field


class Binding(Kind):
    """Puts one object onto another: a pod onto a node."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    target: ObjectReference = field(2, required=True, doc="The node.")
