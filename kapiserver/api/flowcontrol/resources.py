"""The resources of the flowcontrol group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Deprecation, GroupVersionKind, Resource, Subresource


def _beta_deprecation(kind: str) -> Deprecation:
    use = GroupVersionKind("flowcontrol.apiserver.k8s.io", "v1", kind)
    return Deprecation(version="v1beta3", since=29, removed_in=32, replacement=use)


_flowcontrol = partial(
    Resource, group="flowcontrol.apiserver.k8s.io", versions=("v1",), storage_version="v1"
)
_STATUS = Subresource(name="status")

RESOURCES = (
    _flowcontrol(
        name="flowschemas",
        kind="FlowSchema",
        namespaced=False,
        deprecations=(_beta_deprecation("FlowSchema"),),
        subresources=(_STATUS,),
    ),
    _flowcontrol(
        name="prioritylevelconfigurations",
        kind="PriorityLevelConfiguration",
        namespaced=False,
        deprecations=(_beta_deprecation("PriorityLevelConfiguration"),),
        subresources=(_STATUS,),
    ),
)
