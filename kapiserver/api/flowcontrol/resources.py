"""The resources of the flowcontrol group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Resource, Subresource

_flowcontrol = partial(
    Resource, group="flowcontrol.apiserver.k8s.io", versions=("v1",), storage_version="v1"
)
_STATUS = Subresource(name="status")

RESOURCES = (
    _flowcontrol(name="flowschemas", kind="FlowSchema", namespaced=False, subresources=(_STATUS,)),
    _flowcontrol(
        name="prioritylevelconfigurations",
        kind="PriorityLevelConfiguration",
        namespaced=False,
        subresources=(_STATUS,),
    ),
)
