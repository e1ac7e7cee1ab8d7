"""Rules for containers: regular, init and ephemeral."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kapiserver.api import names
from kapiserver.api.core.v1 import PodResourceClaim
from kapiserver.api.core.validation.common import (
    PROTOCOLS,
    checked,
    checked_name,
    chosen,
    descending,
    needed,
    no_backsteps,
)
from kapiserver.api.core.validation.difference import as_go
from kapiserver.api.core.validation.environment import env, env_from
from kapiserver.api.core.validation.probes import probes
from kapiserver.api.core.validation.resources import requirements
from kapiserver.api.core.validation.security import container_security
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_among,
    not_found,
    not_supported,
    required,
    too_many,
)
from kapiserver.api.types import Tree

_NOT_EPHEMERAL = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip
_RESTARTS = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_RULES_MAX = 20
_CODES_MAX = 255
_MESSAGES = ("File", "FallbackToLogsOnError")
_SIDECARS_ONLY = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")

Volumes: TypeAlias = Mapping[str, Tree]
"""The volumes of a pod that can be mounted, by name."""


@dataclass(frozen=True, slots=True)
class _Around:
    """What the rules of a container ask of its pod."""

    spec: Tree
    volumes: Volumes
    claims: frozenset[str]


def _around(spec: Tree, volumes: Volumes) -> _Around:
    claims = (claim.get("name") for claim in spec.get("resourceClaims") or ())
    return _Around(spec, volumes, frozenset(name for name in claims if name))


def containers(spec: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """The regular containers of a pod's spec at `path`."""
    found, at = spec.get("containers") or [], path / "containers"
    if not found:
        yield required(at)
        return
    around = _around(spec, volumes)
    seen: set[str] = set()
    for index, container in enumerate(found):
        yield from _common(container, around, at[index])
        name = container.get("name") or ""
        if name in seen:
            yield duplicate(at[index] / "name", name)
        seen.add(name)
        yield from probes(container, at[index], spec)
        yield from restart_rules(container, at[index])
    yield from host_port_conflicts(found, at)


def init_containers(spec: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """The init containers; those that restart always are sidecars, with probes of their own."""
    at, around = path / "initContainers", _around(spec, volumes)
    seen = {container.get("name") for container in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        yield from _common(container, around, at[index])
        yield from restart_rules(container, at[index])
        name = container.get("name") or ""
        if name in seen:
            yield duplicate(at[index] / "name", name)
        elif name:
            seen.add(name)
        yield from host_port_conflicts([container], at)
        if container.get("restartPolicy") == "Always":
            yield from probes(container, at[index], spec)
            continue
        detail = "may not be set for init containers without restartPolicy=Always"
        for forbidden_name in _SIDECARS_ONLY:
            if container.get(forbidden_name) is not None:
                yield forbidden(at[index] / forbidden_name, detail)


def ephemeral_containers(spec: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """The containers that are added to a running pod."""
    at = path / "ephemeralContainers"
    others = {
        container.get("name")
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    }
    seen, around = set(others), _around(spec, volumes)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        here, name = at[index], container.get("name") or ""
        yield from _common(container, around, here)
        yield from padded_image(container, here)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                yield forbidden(here / field, "cannot be set for an Ephemeral Container")
        if name in seen:
            yield duplicate(here / "name", name)
        seen.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            yield not_found(here / "targetContainerName", target)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    where = (here / "volumeMounts")[number] / field
                    yield forbidden(where, "cannot be set for an Ephemeral Container")


def restart_rules(container: Tree, path: Path) -> Iterator[FieldError]:
    """When a container starts again, where it says so itself."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            detail = "must specify restartPolicy when restart rules are used"
            yield required(path / "restartPolicy", detail)
        return
    if policy not in _RESTARTS:
        yield not_supported(path / "restartPolicy", policy, _RESTARTS)
    at = path / "restartPolicyRules"
    if len(rules) > _RULES_MAX:
        yield too_many(at, len(rules), _RULES_MAX)
    for index, rule in enumerate(rules):
        action, codes = rule.get("action") or "", rule.get("exitCodes")
        if action not in _ACTIONS:
            yield not_supported(at[index] / "action", action, _ACTIONS)
        if codes is None:
            yield required(at[index] / "exitCodes", "must be specified")
            continue
        operator = codes.get("operator") or ""
        if operator not in ("In", "NotIn"):
            where = at[index] / "exitCodes" / "operator"
            yield not_supported(where, operator, ("In", "NotIn"))
        count = len(codes.get("values") or ())
        if count > _CODES_MAX:
            yield too_many(at[index] / "exitCodes" / "values", count, _CODES_MAX)


def padded_image(container: Tree, path: Path) -> Iterator[FieldError]:
    """The name of an image has no space around it; templates may."""
    image = container.get("image") or ""
    if image.strip() != image:
        yield invalid(path / "image", image, "must not have leading or trailing whitespace")


def _common(container: Tree, around: _Around, path: Path) -> Iterator[FieldError]:
    volumes = around.volumes
    yield from checked_name(names.dns1123_label, container.get("name"), path / "name")
    yield from needed(container, "image", path)
    policy = container.get("terminationMessagePolicy")
    if not policy:
        yield required(path / "terminationMessagePolicy")
    elif policy not in _MESSAGES:
        yield not_among(path / "terminationMessagePolicy", policy, _MESSAGES)
    yield from _ports(container.get("ports"), path / "ports")
    yield from env(container.get("env"), path / "env")
    yield from env_from(container.get("envFrom"), path / "envFrom")
    yield from _mounts(container, volumes, path / "volumeMounts")
    yield from _devices(container, volumes, path / "volumeDevices")
    yield from chosen(
        container.get("imagePullPolicy"),
        ("Always", "IfNotPresent", "Never"),
        path / "imagePullPolicy",
    )
    resources = container.get("resources")
    yield from requirements(resources, path / "resources")
    if resources and resources.get("claims"):
        yield from _claims(resources["claims"], around.claims, path / "resources" / "claims")
    yield from _resize_policy(container, around.spec, path / "resizePolicy")
    own_users = around.spec.get("hostUsers") is False
    context = container.get("securityContext")
    yield from container_security(context, path / "securityContext", own_users=own_users)


def _claims(claims: list[Tree], known: Collection[str], path: Path) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate(claims):
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield required(path[index])
            continue
        if (name, request) in seen:
            yield duplicate(path[index], f"{name}/{request}" if request else name)
        seen.add((name, request))
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield FieldError("not found", path[index], detail, name)


def _resize_policy(container: Tree, spec: Tree, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, one in enumerate(container.get("resizePolicy") or ()):
        name, policy = one.get("resourceName") or "", one.get("restartPolicy") or ""
        if name in seen:
            yield duplicate(path[index], name)
        seen.add(name)
        yield from chosen(name, ("cpu", "memory"), path)
        yield from chosen(policy, ("NotRequired", "RestartContainer"), path)
        if spec.get("restartPolicy") == "Never" and policy != "NotRequired":
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            yield invalid(path, policy, detail)


def _ports(ports: list[Tree] | None, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(ports or ()):
        at, name = path[index], port.get("name") or ""
        if name:
            messages = names.port_name(name)
            for message in messages:
                yield invalid(at / "name", name, message)
            if not messages and name in seen:
                yield duplicate(at / "name", name)
            seen.add(name)
        number = port.get("containerPort") or 0
        if not number:
            yield required(at / "containerPort")
        else:
            for message in names.port_number(number):
                yield invalid(at / "containerPort", number, message)
        if port.get("hostPort"):
            for message in names.port_number(port["hostPort"]):
                yield invalid(at / "hostPort", port["hostPort"], message)
        yield from chosen(port.get("protocol"), PROTOCOLS, at / "protocol")


def host_port_conflicts(found: list[Tree], path: Path) -> Iterator[FieldError]:
    """Two ports of a pod cannot be the same port of its node."""
    seen: set[str] = set()
    for index, container in enumerate(found):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if key in seen:
                yield duplicate((path[index] / "ports")[number] / "hostPort", key)
            seen.add(key)


def _mounts(container: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    devices = container.get("volumeDevices") or ()
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = path[index]
        name, where = mount.get("name") or "", mount.get("mountPath") or ""
        yield from needed(mount, "name", at)
        if name not in volumes:
            yield not_found(at / "name", name)
        yield from needed(mount, "mountPath", at)
        if where in seen:
            yield invalid(at / "mountPath", where, "must be unique")
        seen.add(where)
        if name in device_names:
            yield invalid(at / "name", name, "must not already exist in volumeDevices")
        if where in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            yield invalid(at / "mountPath", where, detail)
        yield from _sub_path(mount, at, path)
        yield from _propagation(mount, container, path)
        yield from _recursive(mount, path / "recursiveReadOnly")


def _sub_path(mount: Tree, path: Path, mounts: Path) -> Iterator[FieldError]:
    plain, expression = mount.get("subPath"), mount.get("subPathExpr")
    if plain:
        yield from descending(plain, mounts / "subPath")
    if expression:
        if plain:
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid(path / "subPathExpr", expression, detail)
        yield from descending(expression, mounts / "subPathExpr")


def _propagation(mount: Tree, container: Tree, path: Path) -> Iterator[FieldError]:
    found = mount.get("mountPropagation")
    if found is None:
        return
    modes = ("Bidirectional", "HostToContainer", "None")
    if found not in modes:
        yield not_supported(path / "mountPropagation", found, modes)
    privileged = (container.get("securityContext") or {}).get("privileged")
    if found == "Bidirectional" and not privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(path / "mountPropagation", detail)


def _recursive(mount: Tree, path: Path) -> Iterator[FieldError]:
    mode = mount.get("recursiveReadOnly")
    if mode in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden(path, "may only be specified when readOnly is true")
        if mount.get("mountPropagation") not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(path, detail)
    elif mode not in (None, "Disabled"):
        yield not_supported(path, mode, ("Disabled", "Enabled", "IfPossible"))


def _devices(container: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    mounts = container.get("volumeMounts") or ()
    mount_names = {mount.get("name") for mount in mounts}
    mount_paths = {mount.get("mountPath") for mount in mounts}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at = path[index]
        name, where = device.get("name") or "", device.get("devicePath") or ""
        volume = volumes.get(name)
        yield from needed(device, "name", at)
        if name in seen_names:
            yield invalid(at / "name", name, "must be unique")
        if volume is None:
            yield not_found(at / "name", name)
        elif not {"persistentVolumeClaim", "ephemeral"}.intersection(volume):
            detail = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral "
                "for block mode"
            )
            yield invalid(at / "name", name, detail)
        yield from needed(device, "devicePath", at)
        if where in seen_paths:
            yield invalid(at / "devicePath", where, "must be unique")
        if any(no_backsteps(where, at)):
            yield invalid(at / "devicePath", where, "can not contain backsteps ('..')")
        else:
            seen_paths.add(where)
        if where in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            yield invalid(at / "devicePath", where, detail)
        if name in mount_names:
            yield invalid(at / "name", name, "must not already exist in volumeMounts")
        if name:
            seen_names.add(name)


def host_network_ports(spec: Tree, path: Path, *, template: bool) -> Iterator[FieldError]:
    """On the node's network a container's port is the node's port; a template may leave it out."""
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        at = (path / "containers")[index] / "ports"
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if host != (port.get("containerPort") or 0) and (host or not template):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(at[number] / "hostPort", host, detail)


def resource_claims(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Resource claims have names, each once, and are taken from one place."""
    seen: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        at, name = (path / "resourceClaims")[index], claim.get("name") or ""
        if not name:
            yield required(at / "name")
        elif name in seen:
            yield duplicate(at / "name", name)
        else:
            yield from checked(names.dns1123_label, name, at / "name")
            seen.add(name)
        given = [one for one in _CLAIMED if claim.get(one) is not None]
        if len(given) != 1:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            if given:
                detail = (
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be "
                    "specified"
                )
            yield invalid(at, as_go(claim, PodResourceClaim), detail)
        for one in given:
            yield from checked(names.dns1123_subdomain, claim[one], at / one)


_CLAIMED = ("resourceClaimName", "resourceClaimTemplateName")
