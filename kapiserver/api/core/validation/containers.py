"""Rules for containers: regular, init and ephemeral."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from kapiserver.api import names
from kapiserver.api.core.validation.common import (
    PROTOCOLS,
    checked,
    checked_name,
    chosen,
    descending,
    needed,
    no_backsteps,
)
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
    not_found,
    not_supported,
    required,
)
from kapiserver.api.types import Tree

_NOT_EPHEMERAL = (
    "ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
    "resizePolicy",
)  # fmt: skip
_SIDECARS_ONLY = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")

Volumes: TypeAlias = Mapping[str, Tree]
"""The volumes of a pod that can be mounted, by name."""


def containers(spec: Tree, volumes: Volumes, path: Path, grace: int) -> Iterator[FieldError]:
    """The regular containers of a pod's spec at `path`."""
    found, at = spec.get("containers") or [], path / "containers"
    if not found:
        yield required(at)
        return
    seen: set[str] = set()
    for index, container in enumerate(found):
        yield from _common(container, volumes, at[index])
        name = container.get("name") or ""
        if name in seen:
            yield duplicate(at[index] / "name", name)
        seen.add(name)
        yield from probes(container, at[index], grace)
        yield from _restart_policy(container, ("Always", "Never", "OnFailure"), at[index])
    yield from host_port_conflicts(found, at)


def init_containers(spec: Tree, volumes: Volumes, path: Path, grace: int) -> Iterator[FieldError]:
    """The init containers; those that restart always are sidecars, with probes of their own."""
    at = path / "initContainers"
    seen = {container.get("name") for container in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        yield from _common(container, volumes, at[index])
        yield from _restart_policy(container, ("Always", "Never", "OnFailure"), at[index])
        name = container.get("name") or ""
        if name in seen:
            yield duplicate(at[index] / "name", name)
        elif name:
            seen.add(name)
        yield from host_port_conflicts([container], at)
        if container.get("restartPolicy") == "Always":
            yield from probes(container, at[index], grace)
            continue
        detail = "may not be set for init containers without restartPolicy=Always"
        for forbidden_name in _SIDECARS_ONLY:
            if container.get(forbidden_name) is not None:
                yield forbidden(at[index] / forbidden_name, detail)
        if container.get("resizePolicy"):
            yield forbidden(at[index] / "resizePolicy", detail)


def ephemeral_containers(spec: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """The containers that are added to a running pod."""
    at = path / "ephemeralContainers"
    others = {
        container.get("name")
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    }
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        here, name = at[index], container.get("name") or ""
        yield from _common(container, volumes, here)
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


def _restart_policy(container: Tree, allowed: Collection[str], path: Path) -> Iterator[FieldError]:
    policy = container.get("restartPolicy")
    if policy is not None and policy not in allowed:
        yield not_supported(path / "restartPolicy", policy, sorted(allowed))
    elif container.get("restartPolicyRules") and not policy:
        yield required(path / "restartPolicy", "must specify restartPolicy when rules are used")


def _common(container: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    yield from checked_name(names.dns1123_label, container.get("name"), path / "name")
    image = container.get("image") or ""
    if not image:
        yield required(path / "image")
    elif image.strip() != image:
        yield invalid(path / "image", image, "must not have leading or trailing whitespace")
    yield from chosen(
        container.get("terminationMessagePolicy"),
        ("FallbackToLogsOnError", "File"),
        path / "terminationMessagePolicy",
    )
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
    yield from requirements(container.get("resources"), path / "resources")
    yield from container_security(container.get("securityContext"), path / "securityContext")


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
        yield from _propagation(mount, container, at)


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
        if where in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            yield invalid(at / "devicePath", where, detail)
        if name in mount_names:
            yield invalid(at / "name", name, "must not already exist in volumeMounts")
        seen_names.add(name)
        seen_paths.add(where)


def host_network_ports(spec: Tree, path: Path) -> Iterator[FieldError]:
    """On the node's network a container's port is the node's port."""
    if not spec.get("hostNetwork"):
        return
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            at = (path / kind)[index] / "ports"
            for number, port in enumerate(container.get("ports") or ()):
                host = port.get("hostPort")
                if host and host != port.get("containerPort"):
                    yield invalid(
                        at[number] / "containerPort",
                        port.get("containerPort") or 0,
                        "must match `hostPort` when `hostNetwork` is true",
                    )


def claim_names(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Resource claims have names, each once."""
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
        given = [
            one for one in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(one)
        ]
        if len(given) != 1:
            detail = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield invalid(at, claim, detail)
