"""node.k8s.io/v1alpha1: the types of v1beta1, but for the differences below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.node import v1beta1
from kapiserver.api.types import Kind, Type, field, inherit_types

if TYPE_CHECKING:
    from kapiserver.api.node.v1 import Overhead, Scheduling

inherit_types(__name__, v1beta1)


class RuntimeClass(Kind):
    """A way to run containers."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: RuntimeClassSpec = field(2, required=True, doc="The desired state.")


class RuntimeClassSpec(Type):
    """Which handler, at which cost and where."""

    runtimeHandler: str = field(1, always=True, required=True)
    overhead: Overhead | None = field(2)
    scheduling: Scheduling | None = field(3)
