"""The resources of the core group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import ALL_VERBS, Deprecation, GroupVersionKind, Resource, Subresource

_core = partial(Resource, group="", versions=("v1",), storage_version="v1")
_STATUS = Subresource(name="status")
_CONNECT_VERBS = ("create", "get")
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")


def _core_kind(kind: str) -> GroupVersionKind:
    return GroupVersionKind("", "v1", kind)


RESOURCES = (
    _core(name="bindings", kind="Binding", namespaced=True, verbs=("create",), stored=False),
    _core(
        name="componentstatuses",
        kind="ComponentStatus",
        deprecations=(Deprecation(version="v1", since=19),),
        namespaced=False,
        short_names=("cs",),
        verbs=("get", "list"),
        stored=False,
    ),
    _core(
        name="configmaps",
        kind="ConfigMap",
        namespaced=True,
        short_names=("cm",),
    ),
    _core(
        name="endpoints",
        kind="Endpoints",
        deprecations=(
            Deprecation(
                version="v1",
                since=33,
                replacement=GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice"),
            ),
        ),
        namespaced=True,
        storage_prefix="services/endpoints",
        short_names=("ep",),
    ),
    _core(
        name="events",
        kind="Event",
        namespaced=True,
        short_names=("ev",),
        selectable_fields=(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ),
    ),
    _core(name="limitranges", kind="LimitRange", namespaced=True, short_names=("limits",)),
    _core(
        name="namespaces",
        kind="Namespace",
        namespaced=False,
        short_names=("ns",),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources=(Subresource(name="finalize", verbs=("update",)), _STATUS),
        selectable_fields=("status.phase",),
        field_aliases=(("name", "metadata.name"),),
    ),
    _core(
        name="nodes",
        kind="Node",
        namespaced=False,
        storage_prefix="minions",
        short_names=("no",),
        subresources=(
            Subresource(name="proxy", verbs=_PROXY_VERBS, kind=_core_kind("NodeProxyOptions")),
            _STATUS,
        ),
        selectable_fields=("spec.unschedulable",),
    ),
    _core(
        name="persistentvolumeclaims",
        kind="PersistentVolumeClaim",
        namespaced=True,
        short_names=("pvc",),
        subresources=(_STATUS,),
        returns_deleted_object=True,
    ),
    _core(
        name="persistentvolumes",
        kind="PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        subresources=(_STATUS,),
        returns_deleted_object=True,
    ),
    _core(
        name="pods",
        kind="Pod",
        namespaced=True,
        returns_deleted_object=True,
        short_names=("po",),
        categories=("all",),
        subresources=(
            Subresource(name="attach", verbs=_CONNECT_VERBS, kind=_core_kind("PodAttachOptions")),
            Subresource(name="binding", verbs=("create",), kind=_core_kind("Binding")),
            Subresource(name="ephemeralcontainers"),
            Subresource(
                name="eviction",
                verbs=("create",),
                kind=GroupVersionKind("policy", "v1", "Eviction"),
            ),
            Subresource(name="exec", verbs=_CONNECT_VERBS, kind=_core_kind("PodExecOptions")),
            Subresource(name="log", verbs=("get",)),
            Subresource(
                name="portforward", verbs=_CONNECT_VERBS, kind=_core_kind("PodPortForwardOptions")
            ),
            Subresource(name="proxy", verbs=_PROXY_VERBS, kind=_core_kind("PodProxyOptions")),
            Subresource(name="resize"),
            _STATUS,
        ),
        selectable_fields=(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ),
        field_aliases=(("spec.host", "spec.nodeName"),),
    ),
    _core(name="podtemplates", kind="PodTemplate", namespaced=True, returns_deleted_object=True),
    _core(
        name="replicationcontrollers",
        kind="ReplicationController",
        namespaced=True,
        storage_prefix="controllers",
        short_names=("rc",),
        categories=("all",),
        subresources=(
            Subresource(name="scale", kind=GroupVersionKind("autoscaling", "v1", "Scale")),
            _STATUS,
        ),
        selectable_fields=("status.replicas",),
    ),
    _core(
        name="resourcequotas",
        kind="ResourceQuota",
        namespaced=True,
        short_names=("quota",),
        subresources=(_STATUS,),
        returns_deleted_object=True,
    ),
    _core(
        name="secrets",
        kind="Secret",
        namespaced=True,
        selectable_fields=("type",),
    ),
    _core(
        name="serviceaccounts",
        kind="ServiceAccount",
        namespaced=True,
        returns_deleted_object=True,
        short_names=("sa",),
        subresources=(
            Subresource(
                name="token",
                verbs=("create",),
                kind=GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"),
            ),
        ),
    ),
    _core(
        name="services",
        kind="Service",
        namespaced=True,
        returns_deleted_object=True,
        storage_prefix="services/specs",
        current_marker=b"\x9a\x01\x04IPv",  # ipFamilies
        short_names=("svc",),
        categories=("all",),
        subresources=(
            Subresource(name="proxy", verbs=_PROXY_VERBS, kind=_core_kind("ServiceProxyOptions")),
            _STATUS,
        ),
        selectable_fields=("spec.clusterIP", "spec.type"),
    ),
)
