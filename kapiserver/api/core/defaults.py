"""Defaulting of the core group, besides the defaults that its types declare.

There is one function for each type, which `api/defaulting.py` calls for each object of the type in
a tree.
Mirrors pkg/apis/core/v1/defaults.go and the normalization in its conversion.go.
"""

from __future__ import annotations

from typing import Any

from kapiserver.api.core import v1
from kapiserver.api.core.pods.images import tag_of
from kapiserver.api.core.pods.requests import (
    HUGEPAGES_PREFIX,
    amounts_of,
    container_resources,
    is_pod_level,
)
from kapiserver.api.defaulting import DefaultFunction, fill_missing
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.quantity import Amount, parse
from kapiserver.api.types import Tree, Type

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_MILLI = -3
_MODE = 0o644
_DROPPED_ANNOTATIONS = frozenset(
    f"pod.{stage}.kubernetes.io/init-container{suffix}"
    for stage in ("alpha", "beta")
    for suffix in ("s", "-statuses")
)
_VOLUME_SOURCES = frozenset(flat.field.name for flat in v1.VolumeSource.flat_fields())


def _fill_zero(obj: Tree, **values: Any) -> None:
    # For fields that are not pointers in Go: zero counts as missing.
    for name, value in values.items():
        if not obj.get(name):
            obj[name] = value


def _round_up(resources: Tree | None) -> None:
    # Quantities are rounded up to thousandths.
    for name, text in (resources or {}).items():
        try:
            amount = parse(text)
        except ValueError:
            continue
        if amount.scale < _MILLI and resources is not None:
            unit = 10 ** (_MILLI - amount.scale)
            sign = -1 if amount.mantissa < 0 else 1
            quotient, remainder = divmod(abs(amount.mantissa), unit)
            if remainder:
                rounded = Amount(sign * (quotient + 1), _MILLI, amount.format)
                resources[name] = str(rounded)


def _default_pod(pod: Tree) -> None:
    _drop_annotations(pod)
    spec = pod.get("spec") or {}
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            requests = resources.get("requests") or {}
            filled = dict(sorted({**resources["limits"], **requests}.items()))
            resources["requests"] = filled
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                _fill_zero(port, hostPort=port.get("containerPort") or 0)
                reorder_keys(port, v1.ContainerPort)
    if spec.get("resources"):
        _default_pod_level_resources(spec)
    fill_missing(spec, enableServiceLinks=True)


def _default_pod_level_resources(spec: Tree) -> None:
    """Default the pod-level requests and limits from those of the containers, if the pod has
    any."""
    resources = spec["resources"]
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if (limits or requests) and not any(name.startswith(HUGEPAGES_PREFIX) for name in requests):
        hugepages = {
            name: str(amount)
            for name, amount in container_resources(spec, "limits").items()
            if name.startswith(HUGEPAGES_PREFIX)
        }
        limits = {**hugepages, **limits}
    if limits:
        resources["limits"] = dict(sorted(limits.items()))
        container_requests = {
            name: str(amount)
            for name, amount in container_resources(spec, "requests").items()
            if is_pod_level(name) and not name.startswith(HUGEPAGES_PREFIX)
        }
        # Invalid quantities are not copied: validation reports them.
        valid_limits = {name: text for name, text in limits.items() if name in amounts_of(limits)}
        resources["requests"] = dict(
            sorted({**valid_limits, **container_requests, **requests}.items())
        )
    reorder_keys(resources, v1.ResourceRequirements)


def _drop_annotations(obj: Tree) -> None:
    """Drop the annotations that described init containers before they were fields."""
    annotations = (obj.get("metadata") or {}).get("annotations")
    if annotations and not _DROPPED_ANNOTATIONS.isdisjoint(annotations):
        remaining = {
            name: text for name, text in annotations.items() if name not in _DROPPED_ANNOTATIONS
        }
        if remaining:
            obj["metadata"]["annotations"] = remaining
        else:
            del obj["metadata"]["annotations"]


def _default_pod_spec(spec: Tree) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    _fill_zero(
        spec,
        dnsPolicy="ClusterFirst",
        restartPolicy="Always",
        schedulerName="default-scheduler",
    )
    fill_missing(spec, securityContext={}, terminationGracePeriodSeconds=30)
    _round_up(spec.get("overhead"))


def _default_pod_status(status: Tree) -> None:
    # Old clients know podIP only. It is the first of podIPs.
    pod_ip, pod_ips = status.get("podIP"), status.get("podIPs")
    if pod_ip and not pod_ips:
        status["podIPs"] = [{"ip": pod_ip}]
    elif pod_ips and not pod_ip:
        status["podIP"] = pod_ips[0].get("ip") or ""


def _default_container(container: Tree) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image"))
    _fill_zero(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )


def _pull_policy(image: str | None) -> str:
    return "Always" if tag_of(image or "") == "latest" else "IfNotPresent"


def _default_image_volume(source: Tree) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = _pull_policy(source.get("reference"))


def _default_resources(requirements: Tree) -> None:
    _round_up(requirements.get("limits"))
    _round_up(requirements.get("requests"))


def _default_volume(volume: Tree) -> None:
    if all(value is None or name not in _VOLUME_SOURCES for name, value in volume.items()):
        volume["emptyDir"] = {}


def _default_probe(probe: Tree) -> None:
    _fill_zero(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)


def _default_http_get(action: Tree) -> None:
    _fill_zero(action, path="/", scheme="HTTP")


def _default_mode(source: Tree) -> None:
    fill_missing(source, defaultMode=_MODE)


def _default_service(service: Tree) -> None:
    spec = service.setdefault("spec", {})
    _fill_zero(spec, sessionAffinity="None", type="ClusterIP")
    type_ = spec["type"]
    _default_session_affinity(spec)
    for port in spec.get("ports") or ():
        _fill_zero(port, protocol="TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port") or 0
        reorder_keys(port, v1.ServicePort)
    is_external = type_ in ("LoadBalancer", "NodePort") or (
        type_ == "ClusterIP" and spec.get("externalIPs")
    )
    if is_external:
        _fill_zero(spec, externalTrafficPolicy="Cluster")
    if type_ in ("ClusterIP", "LoadBalancer", "NodePort"):
        fill_missing(spec, internalTrafficPolicy="Cluster")
    if type_ == "LoadBalancer":
        fill_missing(spec, allocateLoadBalancerNodePorts=True)
        _default_load_balancer((service.get("status") or {}).get("loadBalancer") or {})
    reorder_keys(spec, v1.ServiceSpec)


def _default_load_balancer(status: Tree) -> None:
    for ingress in status.get("ingress") or ():
        if ingress.get("ip"):
            fill_missing(ingress, ipMode="VIP")
            reorder_keys(ingress, v1.LoadBalancerIngress)


def _default_session_affinity(spec: Tree) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}


def _default_secret(secret: Tree) -> None:
    _fill_zero(secret, type="Opaque")
    string_data = secret.pop("stringData", None)
    if string_data:
        encoded = {key: _base64(value) for key, value in string_data.items()}
        secret["data"] = dict(sorted({**(secret.get("data") or {}), **encoded}.items()))


def _base64(text: str) -> str:
    from base64 import b64encode  # imported late: needed for secrets only

    return b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _default_namespace(namespace: Tree) -> None:
    metadata = namespace.get("metadata") or {}
    name, labels = metadata.get("name"), metadata.get("labels") or {}
    if name and NAMESPACE_LABEL not in labels:
        metadata["labels"] = dict(sorted({**labels, NAMESPACE_LABEL: name}.items()))


def _default_node_spec(spec: Tree) -> None:
    # Old clients know podCIDR only. It is the first of podCIDRs, and wins if they differ.
    cidr, cidrs = spec.get("podCIDR"), spec.get("podCIDRs")
    if cidr and (not cidrs or cidrs[0] != cidr):
        spec["podCIDRs"] = [cidr]
    elif cidrs and not cidr:
        spec["podCIDR"] = cidrs[0]


def _default_node_status(status: Tree) -> None:
    if status.get("allocatable") is None and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])
    _round_up(status.get("capacity"))
    _round_up(status.get("allocatable"))


def _default_limit_range_item(item: Tree) -> None:
    if item.get("type") == "Container":
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        for name, quantities in (("default", limits), ("defaultRequest", requests)):
            if quantities:
                item[name] = dict(sorted(quantities.items()))
    for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        _round_up(item.get(name))


def _default_persistent_volume_spec(spec: Tree) -> None:
    _fill_zero(spec, persistentVolumeReclaimPolicy="Retain")
    fill_missing(spec, volumeMode="Filesystem")


def _default_replication_controller(controller: Tree) -> None:
    spec = controller.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        _fill_zero(spec, selector=dict(labels))
        _fill_zero(controller.setdefault("metadata", {}), labels=dict(labels))
    reorder_keys(spec, v1.ReplicationControllerSpec)


def _defaults(**values: Any) -> DefaultFunction:
    return lambda obj: _fill_zero(obj, **values)


def _missing_defaults(**values: Any) -> DefaultFunction:
    return lambda obj: fill_missing(obj, **values)


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.ConfigMapVolumeSource: _default_mode,
    v1.Container: _default_container,
    v1.DownwardAPIVolumeSource: _default_mode,
    v1.EphemeralContainerCommon: _default_container,
    v1.EndpointPort: _defaults(protocol="TCP"),
    v1.HTTPGetAction: _default_http_get,
    v1.HostPathVolumeSource: _missing_defaults(type=""),
    v1.ImageVolumeSource: _default_image_volume,
    v1.LimitRangeItem: _default_limit_range_item,
    v1.Namespace: _default_namespace,
    v1.NamespaceStatus: _defaults(phase="Active"),
    v1.NodeSpec: _default_node_spec,
    v1.NodeStatus: _default_node_status,
    v1.ObjectFieldSelector: _defaults(apiVersion="v1"),
    v1.PersistentVolumeClaimSpec: _missing_defaults(volumeMode="Filesystem"),
    v1.PersistentVolumeClaimStatus: _defaults(phase="Pending"),
    v1.PersistentVolumeSpec: _default_persistent_volume_spec,
    v1.PersistentVolumeStatus: _defaults(phase="Pending"),
    v1.Pod: _default_pod,
    v1.PodSpec: _default_pod_spec,
    v1.PodStatus: _default_pod_status,
    v1.PodTemplateSpec: _drop_annotations,
    v1.Probe: _default_probe,
    v1.ProjectedVolumeSource: _default_mode,
    v1.ReplicationController: _default_replication_controller,
    v1.ResourceRequirements: _default_resources,
    v1.Secret: _default_secret,
    v1.SecretVolumeSource: _default_mode,
    v1.Service: _default_service,
    v1.ServiceAccountTokenProjection: _missing_defaults(expirationSeconds=3600),
    v1.Volume: _default_volume,
    v1.VolumeResourceRequirements: _default_resources,
}
