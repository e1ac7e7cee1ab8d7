"""Names that Kubernetes truncates when it derives other names from them."""

from __future__ import annotations

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.checking.rules.values import text_at

POD_PREFIX = 58
"""The longest prefix of a generated name; five random characters follow. A controller's pods have
its name and a dash as their prefix."""
HOST_NAME = 63
"""The longest host name; the kubelet truncates the name of a pod."""

_CONTROLLERS = ("Deployment", "ReplicaSet", "DaemonSet", "Job", "ReplicationController")


class DerivedName(Struct, frozen=True):
    """A name that is derived from that of an object, as Kubernetes truncates it.

    of      what has the name, in the plural
    text    the truncated name
    """

    of: str
    text: str


def truncated_name(tree: Tree) -> DerivedName | None:
    """Return the name that Kubernetes derives from that of an object, if it is truncated."""
    name = text_at(tree, "metadata", "name")
    if tree["kind"] in _CONTROLLERS and len(f"{name}-") > POD_PREFIX:
        return DerivedName("pods", f"{name}-"[:POD_PREFIX])
    if tree["kind"] == "StatefulSet" and len(f"{name}-0") > HOST_NAME:
        return DerivedName("host names", f"{name}-0"[:HOST_NAME])
    return None
