"""What a client should be told about a valid object: things deprecated, hidden or without effect.

Mirrors pkg/api/service/warnings.go and the strategies of pods and nodes of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.objects import name_of
from kapiserver.api.types import Tree

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


def service(obj: Tree) -> Iterator[str]:
    """A service."""
    spec = obj.get("spec") or {}
    if spec.get("clusterIP") == "None":
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if spec.get("externalIPs"):
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") not in (None, "", "None"):
            yield "spec.SessionAffinity is ignored for headless services"
    if spec.get("externalName") and spec.get("type") != "ExternalName":
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
