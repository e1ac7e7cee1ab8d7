"""What a client should be told about a valid object: things deprecated, hidden or without effect.

Mirrors pkg/api/pod/warnings.go and pkg/api/service/warnings.go of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.errors import Path
from kapiserver.api.objects import name_of
from kapiserver.api.quantity import parse
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
_BYTES = ("memory", "ephemeral-storage")


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


def pod_spec(spec: Tree, path: Path) -> Iterator[str]:
    """A pod's spec, or a template's."""
    for label in spec.get("nodeSelector") or ():
        if label in OLD_NODE_LABELS:
            yield f"{(path / 'nodeSelector')[label]}: {OLD_NODE_LABELS[label]}"
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("gitRepo") is not None:
            at = (path / "volumes")[index] / "gitRepo"
            yield f"{at}: deprecated in v1.11, and disabled by default in v1.33+"
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{(path / "imagePullSecrets")[index] / "name"}: invalid empty name ""'
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            at = (path / kind)[index]
            yield from _env(container, at)
            yield from _fractions(container, at)
            yield from _ports(container, at)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        at = path / "terminationGracePeriodSeconds"
        yield f"{at}: must be >= 0; negative values are invalid and will be treated as 1"


def _env(container: Tree, path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name") or ""
        if name in seen and not _refers_to(variable, name):
            yield (
                f'{(path / "env")[index]}: hides previous definition of "{name}", which may be '
                "dropped when using apply"
            )
        seen.add(name)


def _refers_to(variable: Tree, name: str) -> bool:
    return f"$({name})" in (variable.get("value") or "")


def _fractions(container: Tree, path: Path) -> Iterator[str]:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        for name in _BYTES:
            text = (resources.get(kind) or {}).get(name)
            if text and parse(text).scale < 0 and parse(text).decimal % 1:
                at = (path / "resources" / kind)[name]
                yield f'{at}: fractional byte value "{text}" is invalid, must be an integer'


def _ports(container: Tree, path: Path) -> Iterator[str]:
    seen: dict[tuple[str, int, int, str], Path] = {}
    for index, port in enumerate(container.get("ports") or ()):
        at = (path / "ports")[index]
        key = (
            port.get("protocol") or "",
            port.get("containerPort") or 0,
            port.get("hostPort") or 0,
            port.get("hostIP") or "",
        )
        if key in seen:
            yield f"{at}: duplicate port definition with {seen[key]}"
        else:
            seen[key] = at


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
