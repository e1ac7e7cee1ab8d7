"""Binding: a scheduler's decision about the node of a pod."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field


class Binding(Kind):
    """Assigns a pod to a node. Schedulers post it to the binding subresource of the pod."""

    listed = False

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name is that of the pod to bind; labels and "
            "annotations are copied to it."
        ),
    )
    target: ObjectReference = field(
        2,
        required=True,
        doc="Node to run the pod. Its name is required; its kind must be Node or empty.",
    )
