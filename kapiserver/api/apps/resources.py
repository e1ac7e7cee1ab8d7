"""The resources of the apps group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import GroupVersionKind, Resource, Subresource

_apps = partial(Resource, group="apps", namespaced=True, versions=("v1",), storage_version="v1")
_SCALE = Subresource(name="scale", kind=GroupVersionKind("autoscaling", "v1", "Scale"))
_STATUS = Subresource(name="status")

RESOURCES = (
    _apps(name="controllerrevisions", kind="ControllerRevision"),
    _apps(
        name="daemonsets",
        kind="DaemonSet",
        short_names=("ds",),
        categories=("all",),
        subresources=(_STATUS,),
    ),
    _apps(
        name="deployments",
        kind="Deployment",
        short_names=("deploy",),
        categories=("all",),
        subresources=(_SCALE, _STATUS),
    ),
    _apps(
        name="replicasets",
        kind="ReplicaSet",
        short_names=("rs",),
        categories=("all",),
        subresources=(_SCALE, _STATUS),
    ),
    _apps(
        name="statefulsets",
        kind="StatefulSet",
        short_names=("sts",),
        categories=("all",),
        subresources=(_SCALE, _STATUS),
    ),
)
