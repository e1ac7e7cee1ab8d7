"""Warnings about valid pods and pod templates: deprecated fields, hidden and ambiguous definitions.

Mirrors pkg/api/pod/warnings.go of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import addresses, names
from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.core.path_overlaps import path_overlaps
from kapiserver.api.core.pods.app_armor import DEPRECATED
from kapiserver.api.core.validation.common import all_containers
from kapiserver.api.core.validation.pod_annotations import APP_ARMOR
from kapiserver.api.core.volume_warnings import (
    DEPRECATED_VOLUMES,
    warnings_for_claim_spec,
    warnings_for_node_selector_term,
)
from kapiserver.api.core.warnings import DEPRECATED_NODE_LABELS
from kapiserver.api.errors import Path
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree

_BYTES = ("memory", "ephemeral-storage")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_DEPRECATED_VOLUMES = {
    **DEPRECATED_VOLUMES,
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
}
_NAMES_IN_WARNINGS = {"storageos": "storageOS"}


def warnings_for_pod(obj: Tree, path: Path) -> Iterator[str]:
    """Yield the warnings about a pod (`path` is empty) or a pod template."""
    spec, spec_path = obj.get("spec") or {}, path / "spec"
    yield from _scheduling_constraints(spec, spec_path)
    yield from _annotations(obj, path)
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume(volume, (spec_path / "volumes")[index])
    yield from path_overlaps(spec.get("volumes") or ())
    yield from _duplicates(spec.get("hostAliases") or (), "ip", spec_path / "hostAliases")
    secrets = spec.get("imagePullSecrets") or ()
    yield from _duplicates(secrets, "name", spec_path / "imagePullSecrets")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{(spec_path / "imagePullSecrets")[index] / "name"}: invalid empty name ""'
    yield from _fractional_bytes(spec.get("overhead") or {}, spec_path / "overhead")
    yield from _containers(obj, path)
    yield from _ports(spec, spec_path)
    yield from _port_names(spec, spec_path)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        field_path = spec_path / "terminationGracePeriodSeconds"
        yield f"{field_path}: must be >= 0; negative values are invalid and will be treated as 1"
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(
            value_at(spec, "affinity", kind) or {}, spec_path / "affinity" / kind
        )
    for index, server in enumerate(value_at(spec, "dnsConfig", "nameservers") or ()):
        field_path = (spec_path / "dnsConfig" / "nameservers")[index]
        yield from addresses.ip_warnings(server, field_path)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        field_path = (spec_path / "hostAliases")[index] / "ip"
        yield from addresses.ip_warnings(alias.get("ip") or "", field_path)


def _scheduling_constraints(spec: Tree, path: Path) -> Iterator[str]:
    for label in spec.get("nodeSelector") or ():
        if label in DEPRECATED_NODE_LABELS:
            yield f"{(path / 'nodeSelector')[label]}: {DEPRECATED_NODE_LABELS[label]}"
    node_affinity_path = path / "affinity" / "nodeAffinity"
    node_affinity = value_at(spec, "affinity", "nodeAffinity") or {}
    for index, term in enumerate(value_at(node_affinity, _REQUIRED, "nodeSelectorTerms") or ()):
        yield from warnings_for_node_selector_term(
            term, (node_affinity_path / _REQUIRED / "nodeSelectorTerms")[index]
        )
    for index, term in enumerate(node_affinity.get(_PREFERRED) or ()):
        yield from _preferred_node_term(
            term.get("preference") or {}, (node_affinity_path / _PREFERRED)[index]
        )
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        spread_path = (path / "topologySpreadConstraints")[index]
        key = constraint.get("topologyKey") or ""
        if key in DEPRECATED_NODE_LABELS:
            yield f"{spread_path / 'topologyKey'}: {key} is {DEPRECATED_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield _matches_nothing(spread_path)


def _preferred_node_term(term: Tree, path: Path) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        single_term = {"matchExpressions": [expression]}
        match_expressions_path = path / "preference" / "matchExpressions"
        for text in warnings_for_node_selector_term(single_term, path / "preference"):
            yield text.replace("matchExpressions[0]", f"matchExpressions[{index}]", 1)
        for number, value in enumerate(expression.get("values") or ()):
            for message in names.label_value(value):
                value_path = (match_expressions_path[index] / "values")[number]
                yield f"{value_path}: {value} is invalid, {message}"


def _matches_nothing(path: Path) -> str:
    return f"{path / 'labelSelector'}: a null labelSelector results in matching no pod"


def _pod_affinity(affinity: Tree, path: Path) -> Iterator[str]:
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        if term.get("labelSelector") is None:
            yield _matches_nothing((path / _REQUIRED)[index])
    for index, term in enumerate(affinity.get(_PREFERRED) or ()):
        if value_at(term, "podAffinityTerm", "labelSelector") is None:
            yield _matches_nothing((path / _PREFERRED)[index] / "podAffinityTerm")


def _annotations(obj: Tree, path: Path) -> Iterator[str]:
    annotations, annotations_path = annotations_of(obj), path / "metadata" / "annotations"
    for name, words in _ANNOTATIONS.items():
        if name in annotations:
            yield f"{annotations_path[name]}: {words}"


def _volume(volume: Tree, path: Path) -> Iterator[str]:
    for name, words in _DEPRECATED_VOLUMES.items():
        if volume.get(name) is not None:
            yield f"{path / _NAMES_IN_WARNINGS.get(name, name)}: {words}"
    claim = value_at(volume, "ephemeral", "volumeClaimTemplate")
    if claim is not None:
        spec_path = path / "ephemeral" / "volumeClaimTemplate" / "spec"
        yield from warnings_for_claim_spec(claim.get("spec") or {}, spec_path)


def _duplicates(items: Sequence[Tree], field: str, path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(field) or ""
        if value in seen:
            yield f'{path[index] / field}: duplicate {field} "{value}"'
        seen.add(value)


def _containers(obj: Tree, path: Path) -> Iterator[str]:
    annotations, annotations_path = annotations_of(obj), path / "metadata" / "annotations"
    spec = obj.get("spec") or {}
    pod_context = spec.get("securityContext") or {}
    pod_seccomp_key = "seccomp.security.alpha.kubernetes.io/pod"
    if pod_context.get("seccompProfile") is None and pod_seccomp_key in annotations:
        yield f"{annotations_path[pod_seccomp_key]}: {_SECCOMP}"
    for container, container_path in all_containers(spec, path / "spec"):
        context, name = container.get("securityContext") or {}, container.get("name") or ""
        seccomp_key = f"container.seccomp.security.alpha.kubernetes.io/{name}"
        if context.get("seccompProfile") is None and seccomp_key in annotations:
            yield f"{annotations_path[seccomp_key]}: {_SECCOMP}"
        app_armor_key = f"{APP_ARMOR}{name}"
        fields = (pod_context.get("appArmorProfile"), context.get("appArmorProfile"))
        # For pods, app_armor.warnings_for_app_armor reports this.
        if str(path) and fields == (None, None) and app_armor_key in annotations:
            yield f"{annotations_path[app_armor_key]}: {DEPRECATED}"
        for resource_map in ("limits", "requests"):
            quantities = value_at(container, "resources", resource_map) or {}
            yield from _fractional_bytes(quantities, container_path / "resources" / resource_map)
        yield from _environment(container, container_path)


def _fractional_bytes(quantities: Tree, path: Path) -> Iterator[str]:
    for name in _BYTES:
        quantity = quantities.get(name)
        if quantity is not None and not parse(quantity).is_integer:
            yield f'{path[name]}: fractional byte value "{quantity}" is invalid, must be an integer'


def _environment(container: Tree, path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        extends = reference in value and value != reference
        if name in seen and (variable.get("valueFrom") is not None or not extends):
            yield (
                f'{(path / "env")[index]}: hides previous definition of "{name}", which may be '
                "dropped when using apply"
            )
        seen.add(name)


def _ports(spec: Tree, path: Path) -> Iterator[str]:
    seen: dict[tuple[int, str], list[tuple[Path, Tree]]] = {}
    for port, port_path in _all_ports(spec, path):
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{port_path}: hostIP set without hostPort: {_go_port(port)}"
        key = (port.get("containerPort") or 0, port.get("protocol") or "")
        for other_path, other_port in seen.get(key, ()):
            conflict = _port_conflict(port, other_port)
            if conflict:
                yield f"{port_path}: {conflict} port definition with {other_path}"
        seen.setdefault(key, []).append((port_path, port))


def _all_ports(spec: Tree, path: Path) -> Iterator[tuple[Tree, Path]]:
    for container, container_path in all_containers(spec, path):
        for index, port in enumerate(container.get("ports") or ()):
            yield port, (container_path / "ports")[index]


def _port_names(spec: Tree, path: Path) -> Iterator[str]:
    seen: dict[str, Path] = {}
    for port, port_path in _all_ports(spec, path):
        name = port.get("name")
        if name and name in seen:
            yield (
                f'{port_path}: duplicate port name "{name}" with {seen[name]}, services and probes '
                f"that select ports by name will use {seen[name]}"
            )
        elif name:
            seen[name] = port_path


def _port_conflict(port: Tree, other_port: Tree) -> str:
    host_ports = [candidate.get("hostPort") or 0 for candidate in (port, other_port)]
    host_ips = [candidate.get("hostIP") or "" for candidate in (port, other_port)]
    same_port = host_ports[0] == host_ports[1]
    if same_port and host_ips[0] == host_ips[1]:
        return "duplicate"
    if 0 in host_ports:
        return "overlapping"
    return "dangerously ambiguous" if same_port and "" in host_ips else ""


def _go_port(port: Tree) -> str:
    # The port as Go prints the struct.
    return (
        f"{{Name:{port.get('name') or ''} HostPort:{port.get('hostPort') or 0} "
        f"ContainerPort:{port.get('containerPort') or 0} Protocol:{port.get('protocol') or ''} "
        f"HostIP:{port.get('hostIP') or ''}}}"
    )
