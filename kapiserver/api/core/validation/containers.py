"""Validation of containers: regular, init and ephemeral."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kapiserver.api import names
from kapiserver.api.core.v1 import PodResourceClaim
from kapiserver.api.core.validation.common import (
    PROTOCOLS,
    validate_enum,
    validate_format,
    validate_required,
    validate_required_format,
)
from kapiserver.api.core.validation.environment import validate_env, validate_env_from
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.core.validation.mounts import (
    Volumes,
    validate_volume_devices,
    validate_volume_mounts,
)
from kapiserver.api.core.validation.probes import validate_probes
from kapiserver.api.core.validation.resources import claim_names, validate_resource_requirements
from kapiserver.api.core.validation.security import validate_container_security_context
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    not_supported_in_order,
    required,
    too_long,
)
from kapiserver.api.types import Tree

_NOT_IN_EPHEMERAL = (
    # in the order of their declaration in EphemeralContainerCommon
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_RULES_MAX = 20
_EXIT_CODES_MAX = 255
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_SIDECARS_ONLY = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


class _PodContext(Struct, frozen=True):
    """The parts of a pod that the validation of its containers reads."""

    spec: Tree
    volumes: Volumes
    claims: frozenset[str]


def _pod_context(spec: Tree, volumes: Volumes) -> _PodContext:
    return _PodContext(spec, volumes, claim_names(spec))


def validate_containers(spec: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """Validate the regular containers of the pod spec at `path`."""
    containers, containers_path = spec.get("containers") or [], path / "containers"
    if not containers:
        yield required(containers_path)
        return
    pod_context = _pod_context(spec, volumes)
    seen: set[str] = set()
    for index, container in enumerate(containers):
        yield from _validate_common_fields(container, pod_context, containers_path[index])
        name = container.get("name") or ""
        if name in seen:
            yield duplicate(containers_path[index] / "name", name)
        seen.add(name)
        yield from validate_probes(container, containers_path[index], spec)
        yield from validate_restart_rules(container, containers_path[index])
    yield from validate_host_port_conflicts(containers, containers_path)


def validate_init_containers(spec: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """Validate the init containers. Those with restartPolicy Always are sidecars and may have
    probes and lifecycle hooks."""
    init_containers_path, pod_context = path / "initContainers", _pod_context(spec, volumes)
    seen = {container.get("name") for container in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        yield from _validate_common_fields(container, pod_context, init_containers_path[index])
        yield from validate_restart_rules(container, init_containers_path[index])
        name = container.get("name") or ""
        if name in seen:
            yield duplicate(init_containers_path[index] / "name", name)
        elif name:
            seen.add(name)
        yield from validate_host_port_conflicts([container], init_containers_path)
        if container.get("restartPolicy") == "Always":
            yield from validate_probes(container, init_containers_path[index], spec)
            continue
        detail = "may not be set for init containers without restartPolicy=Always"
        for forbidden_name in _SIDECARS_ONLY:
            if container.get(forbidden_name) is not None:
                yield forbidden(init_containers_path[index] / forbidden_name, detail)


def validate_ephemeral_containers(spec: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """Validate the containers that are added to a running pod."""
    ephemeral_containers_path = path / "ephemeralContainers"
    container_names = {
        container.get("name")
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    }
    seen, pod_context = set(container_names), _pod_context(spec, volumes)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        container_path, name = ephemeral_containers_path[index], container.get("name") or ""
        yield from _validate_common_fields(container, pod_context, container_path)
        yield from validate_image_whitespace(container, container_path)
        if name in seen:
            yield duplicate(container_path / "name", name)
        seen.add(name)
        target = container.get("targetContainerName")
        if target and target not in container_names:
            yield not_found(container_path / "targetContainerName", target)
        for field in _NOT_IN_EPHEMERAL:
            value = container.get(field)
            if value or (value is not None and field != "resources"):
                yield forbidden(container_path / field, "cannot be set for an Ephemeral Container")
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    field_path = (container_path / "volumeMounts")[number] / field
                    yield forbidden(field_path, "cannot be set for an Ephemeral Container")


def validate_restart_rules(container: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the restart policy of a container and its restart rules."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            detail = "must specify restartPolicy when restart rules are used"
            yield required(path / "restartPolicy", detail)
        return
    if policy not in _RESTART_POLICIES:
        yield not_supported(path / "restartPolicy", policy, _RESTART_POLICIES)
    rules_path = path / "restartPolicyRules"
    if len(rules) > _RULES_MAX:
        yield too_long(rules_path, _RULES_MAX)
    for index, rule in enumerate(rules):
        action, codes = rule.get("action") or "", rule.get("exitCodes")
        if action not in _RESTART_ACTIONS:
            yield not_supported(rules_path[index] / "action", action, _RESTART_ACTIONS)
        if codes is None:
            yield required(rules_path[index] / "exitCodes", "must be specified")
            continue
        operator = codes.get("operator") or ""
        if operator not in ("In", "NotIn"):
            operator_path = rules_path[index] / "exitCodes" / "operator"
            yield not_supported(operator_path, operator, ("In", "NotIn"))
        if len(codes.get("values") or ()) > _EXIT_CODES_MAX:
            yield too_long(rules_path[index] / "exitCodes" / "values", _EXIT_CODES_MAX)


def validate_image_whitespace(container: Tree, path: Path) -> Iterator[FieldError]:
    """Validate that an image name has no whitespace around it. Pod templates are not checked."""
    image = container.get("image") or ""
    if image.strip() != image:
        yield invalid(path / "image", image, "must not have leading or trailing whitespace")


def _validate_common_fields(
    container: Tree, pod_context: _PodContext, path: Path
) -> Iterator[FieldError]:
    volumes = pod_context.volumes
    yield from validate_required_format(names.dns1123_label, container.get("name"), path / "name")
    yield from validate_required(container, "image", path)
    policy = container.get("terminationMessagePolicy")
    if not policy:
        yield required(path / "terminationMessagePolicy")
    elif policy not in _MESSAGE_POLICIES:
        yield not_supported_in_order(path / "terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    yield from _validate_ports(container.get("ports"), path / "ports")
    yield from validate_env(container.get("env"), path / "env")
    yield from validate_env_from(container.get("envFrom"), path / "envFrom")
    yield from validate_volume_mounts(container, volumes, path / "volumeMounts")
    yield from validate_volume_devices(container, volumes, path / "volumeDevices")
    yield from validate_enum(
        container.get("imagePullPolicy"),
        ("Always", "IfNotPresent", "Never"),
        path / "imagePullPolicy",
    )
    yield from validate_resource_requirements(
        container.get("resources"), path / "resources", pod_context.claims
    )
    yield from _validate_resize_policy(container, pod_context.spec, path / "resizePolicy")
    has_user_namespace = pod_context.spec.get("hostUsers") is False
    context = container.get("securityContext")
    yield from validate_container_security_context(
        context, path / "securityContext", has_user_namespace=has_user_namespace
    )


def _validate_resize_policy(container: Tree, spec: Tree, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, rule in enumerate(container.get("resizePolicy") or ()):
        name, policy = rule.get("resourceName") or "", rule.get("restartPolicy") or ""
        if name in seen:
            yield duplicate(path[index], name)
        seen.add(name)
        yield from validate_enum(name, ("cpu", "memory"), path)
        yield from validate_enum(policy, ("NotRequired", "RestartContainer"), path)
        if spec.get("restartPolicy") == "Never" and policy != "NotRequired":
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            yield invalid(path, policy, detail)


def _validate_ports(ports: list[Tree] | None, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(ports or ()):
        port_path, name = path[index], port.get("name") or ""
        if name:
            messages = names.port_name(name)
            for message in messages:
                yield invalid(port_path / "name", name, message)
            if not messages and name in seen:
                yield duplicate(port_path / "name", name)
            seen.add(name)
        number = port.get("containerPort") or 0
        if not number:
            yield required(port_path / "containerPort")
        else:
            for message in names.port_number(number):
                yield invalid(port_path / "containerPort", number, message)
        if port.get("hostPort"):
            for message in names.port_number(port["hostPort"]):
                yield invalid(port_path / "hostPort", port["hostPort"], message)
        yield from validate_enum(port.get("protocol"), PROTOCOLS, port_path / "protocol")


def validate_host_port_conflicts(containers: list[Tree], path: Path) -> Iterator[FieldError]:
    """Validate that no two containers use the same host port, protocol and host IP."""
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if key in seen:
                yield duplicate((path[index] / "ports")[number] / "hostPort", key)
            seen.add(key)


def validate_host_network_ports(spec: Tree, path: Path, *, template: bool) -> Iterator[FieldError]:
    """Validate the host ports of a pod on the host network: each must equal its container port. In
    templates they may be unset."""
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        ports_path = (path / "containers")[index] / "ports"
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if host != (port.get("containerPort") or 0) and (host or not template):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(ports_path[number] / "hostPort", host, detail)


def validate_resource_claims(spec: Tree, path: Path, *, static: bool) -> Iterator[FieldError]:
    """Validate the resource claims of a pod: unique names, and one source each. Static pods have
    none."""
    seen: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        if static:
            yield forbidden(Path("[]"), "static pods do not support resource claims")
            continue
        claim_path, name = (path / "resourceClaims")[index], claim.get("name") or ""
        if not name:
            yield required(claim_path / "name")
        elif name in seen:
            yield duplicate(claim_path / "name", name)
        else:
            yield from validate_format(names.dns1123_label, name, claim_path / "name")
            seen.add(name)
        sources = [name for name in _CLAIM_FIELDS if claim.get(name) is not None]
        if len(sources) != 1:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            if sources:
                detail = (
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be "
                    "specified"
                )
            yield invalid(claim_path, as_go_struct(claim, PodResourceClaim), detail)
        for field_name in sources:
            yield from validate_format(
                names.dns1123_subdomain, claim[field_name], claim_path / field_name
            )


_CLAIM_FIELDS = ("resourceClaimName", "resourceClaimTemplateName")
