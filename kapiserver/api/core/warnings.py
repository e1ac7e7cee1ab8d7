"""What a client should be told about a valid object: things deprecated, hidden or without effect.

Mirrors pkg/api/service/warnings.go and the strategies of pods and nodes of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.addresses import cidr_warnings, ip_warnings
from kapiserver.api.errors import Path
from kapiserver.api.objects import annotations_of, name_of
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_OLD_HINTS = "service.kubernetes.io/topology-aware-hints"
_TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
_SECRETS_LIMIT = "kubernetes.io/enforce-mountable-secrets"
OLD_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
}


def pod_name(pod: Tree) -> Iterator[str]:
    """A pod's name is its host name."""
    messages = names.dns1123_label(name_of(pod))
    if messages:
        yield (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising "
            f"behavior; a DNS label is recommended: [{' '.join(messages)}]"
        )


def template_owner_name(obj: Tree) -> Iterator[str]:
    """The name of a controller begins those of its pods."""
    messages = names.dns1123_label(name_of(obj))
    if messages:
        yield (
            "metadata.name: this is used in Pod names and hostnames, which can result in "
            f"surprising behavior; a DNS label is recommended: [{' '.join(messages)}]"
        )


def node(obj: Tree) -> Iterator[str]:
    """A node."""
    spec = obj.get("spec") or {}
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    yield from _networks(spec, "podCIDRs")


def service_account(new: Tree, old: Tree | None) -> Iterator[str]:
    """A service account, where it limits secrets as it did not before."""
    if _SECRETS_LIMIT in annotations_of(new) and _SECRETS_LIMIT not in annotations_of(old or {}):
        yield (
            f"metadata.annotations[{_SECRETS_LIMIT}]: deprecated in v1.32+; prefer separate "
            "namespaces to isolate access to mounted secrets"
        )


def service(obj: Tree) -> Iterator[str]:
    """A service."""
    spec = obj.get("spec") or {}
    type_, first = spec.get("type"), spec.get("clusterIP") or ""
    headless = type_ == "ClusterIP" and first == "None"
    outside = spec.get("externalIPs") or ()
    if _OLD_HINTS in annotations_of(obj):
        yield f"annotation {_OLD_HINTS} is deprecated, please use {_TOPOLOGY_MODE} instead"
    if first not in ("", "None"):
        yield from _addresses(spec, "clusterIPs")
    if headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if outside:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    yield from _addresses(spec, "externalIPs")
    if outside and not headless and type_ != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    yield from ip_warnings(spec.get("loadBalancerIP") or "", _SPEC / "loadBalancerIP")
    yield from _networks(spec, "loadBalancerSourceRanges")
    if type_ == "ExternalName":
        if outside:
            yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    elif spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _addresses(spec: Tree, name: str) -> Iterator[str]:
    for index, text in enumerate(spec.get(name) or ()):
        yield from ip_warnings(text, (_SPEC / name)[index])


def _networks(spec: Tree, name: str) -> Iterator[str]:
    for index, text in enumerate(spec.get(name) or ()):
        yield from cidr_warnings(text, (_SPEC / name)[index])
