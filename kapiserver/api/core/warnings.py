"""Warnings about valid objects of the core group: deprecated fields, and fields without effect.

Mirrors pkg/api/service/warnings.go and the strategies of pods and nodes of Kubernetes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import annotations_of, name_of
from kapiserver.api.addresses import cidr_warnings, ip_warnings
from kapiserver.api.core.services import EXTERNAL_NAME, HEADLESS
from kapiserver.api.errors import Path
from kapiserver.api.go_format import go_value
from kapiserver.api.types import Tree, Value

_SPEC = Path("spec")
_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
_MODE_ANNOTATION = "service.kubernetes.io/topology-mode"
_MOUNTABLE_SECRETS_ANNOTATION = "kubernetes.io/enforce-mountable-secrets"
DEPRECATED_NODE_LABELS = {
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


def warnings_for_pod_name(pod: Tree) -> Iterator[str]:
    """Warn about a pod name that is not a valid host name."""
    messages = names.dns1123_label(name_of(pod))
    if messages:
        yield (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising "
            f"behavior; a DNS label is recommended: [{' '.join(messages)}]"
        )


def warnings_for_controller_name(obj: Tree) -> Iterator[str]:
    """Warn about the name of a controller, which its pods' names begin with."""
    messages = names.dns1123_label(name_of(obj))
    if messages:
        yield (
            "metadata.name: this is used in Pod names and hostnames, which can result in "
            f"surprising behavior; a DNS label is recommended: [{' '.join(messages)}]"
        )


def warnings_for_node(obj: Tree) -> Iterator[str]:
    """Yield the warnings about a node."""
    spec = obj.get("spec") or {}
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    yield from _networks(spec, "podCIDRs")


def warnings_for_service_account(new: Tree, old: Tree | None) -> Iterator[str]:
    """Warn about a service account that starts to restrict mountable secrets."""
    if _MOUNTABLE_SECRETS_ANNOTATION in annotations_of(
        new
    ) and _MOUNTABLE_SECRETS_ANNOTATION not in annotations_of(old or {}):
        yield (
            f"metadata.annotations[{_MOUNTABLE_SECRETS_ANNOTATION}]: deprecated in v1.32+; "
            "prefer separate namespaces to isolate access to mounted secrets"
        )


def warnings_for_secret(secret: Tree) -> Iterator[str]:
    """Warn about a TLS secret whose certificate or key has no PEM block of its kind. Whether the
    blocks can be parsed, and belong together, is not looked into. Mirrors tls.X509KeyPair."""
    if secret.get("type") != "kubernetes.io/tls":
        return
    data = secret.get("data") or {}
    certificates, keys = (_block_types(data.get(name) or "") for name in ("tls.crt", "tls.key"))
    if not certificates:
        yield "tls: failed to find any PEM data in certificate input"
    elif "CERTIFICATE" not in certificates:
        if len(certificates) == 1 and certificates[0].endswith("PRIVATE KEY"):
            yield (
                "tls: failed to find certificate PEM data in certificate input, but did find a "
                "private key; PEM inputs may have been switched"
            )
        else:
            yield (
                'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping '
                f"PEM blocks of the following types: {go_value(certificates)}"
            )
    elif not keys:
        yield "tls: failed to find any PEM data in key input"
    elif keys == ["CERTIFICATE"]:
        yield "tls: found a certificate rather than a key in the PEM for the private key"
    elif not any(name.endswith("PRIVATE KEY") for name in keys):
        yield (
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
            f"skipping PEM blocks of the following types: {go_value(keys)}"
        )


_BLOCK = re.compile(rb"-----BEGIN ([^-\n]+)-----\r?\n[^-]*-----END \1-----")


def _block_types(text: str) -> list[Value]:
    """Return the types of the PEM blocks of a value of a secret, in order."""
    return [name.decode("latin-1") for name in _BLOCK.findall(base64.b64decode(text))]


def warnings_for_service(obj: Tree) -> Iterator[str]:
    """Yield the warnings about a service."""
    spec = obj.get("spec") or {}
    type_, cluster_ip = spec.get("type"), spec.get("clusterIP") or ""
    is_headless_cluster_ip = type_ == "ClusterIP" and cluster_ip == HEADLESS
    external_ips = spec.get("externalIPs") or ()
    if _HINTS_ANNOTATION in annotations_of(obj):
        yield f"annotation {_HINTS_ANNOTATION} is deprecated, please use {_MODE_ANNOTATION} instead"
    if cluster_ip not in ("", HEADLESS):
        yield from _addresses(spec, "clusterIPs")
    if is_headless_cluster_ip:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if external_ips:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    yield from _addresses(spec, "externalIPs")
    if external_ips and not is_headless_cluster_ip and type_ != EXTERNAL_NAME:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    yield from ip_warnings(spec.get("loadBalancerIP") or "", _SPEC / "loadBalancerIP")
    yield from _networks(spec, "loadBalancerSourceRanges")
    if type_ == EXTERNAL_NAME:
        if external_ips:
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
