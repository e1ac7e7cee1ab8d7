"""Validation of pods, pod specs and pod templates."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import addresses, names
from kapiserver.api.accessors import annotations_of, name_of
from kapiserver.api.core.validation.common import (
    INT32_MAX,
    all_containers,
    validate_format,
    validate_range,
)
from kapiserver.api.core.validation.containers import (
    validate_containers,
    validate_ephemeral_containers,
    validate_host_network_ports,
    validate_image_whitespace,
    validate_init_containers,
    validate_resource_claims,
)
from kapiserver.api.core.validation.environment import validate_env_file_volumes
from kapiserver.api.core.validation.pod_annotations import (
    MIRROR,
    validate_pod_annotations,
    validate_profile_annotations_match,
)
from kapiserver.api.core.validation.resources import (
    validate_pod_level_resources,
    validate_resource_requirements,
)
from kapiserver.api.core.validation.scheduling import (
    validate_affinity,
    validate_readiness_gates,
    validate_scheduling_gates,
    validate_tolerations,
    validate_topology_spread_constraints,
)
from kapiserver.api.core.validation.security import (
    validate_host_users,
    validate_pod_security_context,
)
from kapiserver.api.core.validation.volumes import validate_volumes
from kapiserver.api.core.validation.windows import validate_os, validate_windows_host_process
from kapiserver.api.errors import (
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported_in_order,
    required,
    too_long,
)
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata_validation import validate_annotations
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_HOST_NAME_MAX = 64
_NAMESERVERS_MAX = 3
_SEARCHES_MAX = 32
_SEARCH_CHARACTERS_MAX = 2048


def validate_pod_create(pod: Tree) -> Iterator[FieldError]:
    """Validate a pod that is to be created."""
    spec = pod.get("spec") or {}
    yield from validate_pod_metadata_and_spec(pod)
    if spec.get("ephemeralContainers"):
        yield forbidden(_SPEC / "ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        yield forbidden(_SPEC / "nodeName", detail)
    yield from validate_profile_annotations_match(pod, _SPEC)


def validate_pod_metadata_and_spec(pod: Tree) -> Iterator[FieldError]:
    """Validate the annotations and the spec of a pod. Some of these rules do not apply to
    templates."""
    spec = pod.get("spec") or {}
    yield from validate_pod_annotations(pod, Path("metadata") / "annotations")
    yield from validate_pod_spec(spec, _SPEC, pod)
    yield from _validate_token_sources(spec)
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield from validate_image_whitespace(container, (_SPEC / kind)[index])


def _validate_token_sources(spec: Tree) -> Iterator[FieldError]:
    if spec.get("serviceAccountName"):
        return
    for index, volume in enumerate(spec.get("volumes") or ()):
        sources_path = (_SPEC / "volumes")[index] / "projected" / "sources"
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                detail = "must not be specified when serviceAccountName is not set"
                yield forbidden(sources_path[number] / "serviceAccountToken", detail)


def validate_pod_template(template: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a pod template of a controller."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    # kube-apiserver reports labels and annotations without `metadata` in their paths.
    yield from validate_labels(meta.get("labels"), path / "labels")
    if meta.get("annotations"):
        yield from validate_annotations(meta["annotations"], path / "annotations")
        yield from validate_pod_annotations(template, path / "annotations")
    yield from validate_pod_spec(spec, path / "spec")
    yield from validate_profile_annotations_match(template, path / "spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield forbidden(path / "spec" / "ephemeralContainers", detail)


def validate_pod_spec(spec: Tree, path: Path, pod: Tree | None = None) -> Iterator[FieldError]:
    """Validate the spec of a pod or of a template. `pod` is the pod, or None for a template."""
    if spec.get("terminationGracePeriodSeconds") is None:
        yield required(path / "terminationGracePeriodSeconds")
    mountable, errors = validate_volumes(spec, path, None if pod is None else name_of(pod))
    yield from errors
    is_static = pod is not None and MIRROR in annotations_of(pod)
    yield from validate_resource_claims(spec, path, static=is_static)
    yield from validate_containers(spec, mountable, path)
    yield from validate_init_containers(spec, mountable, path)
    yield from validate_ephemeral_containers(spec, mountable, path)
    if spec.get("resources") is not None:
        yield from validate_pod_level_resources(spec, path / "resources")
    yield from validate_host_network_ports(spec, path, template=pod is None)
    yield from _validate_required_enum(spec, "restartPolicy", _RESTART_POLICIES, path)
    yield from _validate_required_enum(spec, "dnsPolicy", _DNS_POLICIES, path)
    yield from validate_labels(spec.get("nodeSelector"), path / "nodeSelector")
    yield from validate_pod_security_context(spec, path)
    yield from validate_affinity(spec.get("affinity"), path / "affinity")
    yield from _validate_dns_config(spec, path / "dnsConfig")
    yield from validate_readiness_gates(spec.get("readinessGates"), path / "readinessGates")
    yield from validate_scheduling_gates(spec.get("schedulingGates"), path / "schedulingGates")
    field_name = "topologySpreadConstraints"
    yield from validate_topology_spread_constraints(spec.get(field_name), path / field_name)
    yield from validate_windows_host_process(spec, path)
    yield from validate_host_users(spec, path)
    yield from _validate_host_name(spec, path / "hostnameOverride")
    yield from _validate_optional_names(
        spec, path, ("serviceAccountName", "nodeName"), names.dns1123_subdomain
    )
    deadline = spec.get("activeDeadlineSeconds")
    yield from validate_range(deadline, 1, INT32_MAX, path / "activeDeadlineSeconds")
    yield from _validate_optional_names(spec, path, ("hostname", "subdomain"), names.dns1123_label)
    yield from validate_tolerations(spec.get("tolerations"), path / "tolerations")
    yield from _validate_host_aliases(spec, path / "hostAliases")
    yield from _validate_optional_names(spec, path, ("priorityClassName",), names.dns1123_subdomain)
    if spec.get("runtimeClassName") is not None:
        class_name = spec["runtimeClassName"]
        yield from validate_format(names.dns1123_subdomain, class_name, path / "runtimeClassName")
    if spec.get("preemptionPolicy") is not None:
        yield from _validate_required_enum(spec, "preemptionPolicy", _PREEMPTION_POLICIES, path)
    if spec.get("overhead") is not None:
        yield from validate_resource_requirements({"limits": spec["overhead"]}, path / "overhead")
    if spec.get("os") is not None:
        yield from validate_os(spec, path)
    yield from validate_env_file_volumes(all_containers(spec, path), spec.get("volumes") or ())


_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


def _validate_required_enum(
    spec: Tree, name: str, allowed: tuple[str, ...], path: Path
) -> Iterator[FieldError]:
    value = spec.get(name)
    if not value:
        yield required(path / name)
    elif value not in allowed:
        yield not_supported_in_order(path / name, value, allowed)


def _validate_optional_names(
    spec: Tree, path: Path, fields: tuple[str, ...], check: names.Check
) -> Iterator[FieldError]:
    for name in fields:
        if spec.get(name):
            yield from validate_format(check, spec[name], path / name)


def _validate_host_name(spec: Tree, path: Path) -> Iterator[FieldError]:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    for field_name in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field_name):
            yield forbidden(path, f"may not be specified when {field_name} is true")
    if len(name.encode()) > _HOST_NAME_MAX:
        yield too_long(path, _HOST_NAME_MAX)
    yield from validate_format(names.dns1123_subdomain, name, path)


def _validate_dns_config(spec: Tree, path: Path) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or ()
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not servers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(path / "nameservers", detail)
            return
    if config is None:
        return
    if len(servers) > _NAMESERVERS_MAX:
        detail = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        yield invalid(path / "nameservers", list(servers), detail)
    for index, server in enumerate(servers):
        yield from validate_format(addresses.ip, server, (path / "nameservers")[index])
    searches = config.get("searches") or ()
    if len(searches) > _SEARCHES_MAX:
        detail = f"must not have more than {_SEARCHES_MAX} search paths"
        yield invalid(path / "searches", list(searches), detail)
    if len(" ".join(searches)) > _SEARCH_CHARACTERS_MAX:
        detail = (
            f"must not have more than {_SEARCH_CHARACTERS_MAX} characters (including spaces) in "
            "the search list"
        )
        yield invalid(path / "searches", list(searches), detail)
    for index, search in enumerate(searches):
        if search != ".":
            domain = search.removesuffix(".")
            yield from validate_format(names.search_domain, domain, (path / "searches")[index])
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required((path / "options")[index], "must not be empty")


def _validate_host_aliases(spec: Tree, path: Path) -> Iterator[FieldError]:
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from validate_format(addresses.ip, alias.get("ip") or "", path[index] / "ip")
        for number, hostname in enumerate(alias.get("hostnames") or ()):
            hostname_path = (path[index] / "hostnames")[number]
            yield from validate_format(names.dns1123_subdomain, hostname, hostname_path)
