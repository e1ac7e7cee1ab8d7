"""Validation of environment variables and of their sources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import (
    validate_format,
    validate_path_no_backsteps,
    validate_required,
    validate_required_format,
)
from kapiserver.api.core.validation.resources import amount
from kapiserver.api.errors import FieldError, Path, invalid, not_found, not_supported, required
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations",
    "metadata.uid",
)  # fmt: skip
_KNOWN_FIELDS = frozenset(
    (*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_RESOURCES = tuple(
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGEPAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_UNITS = (
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
)  # fmt: skip
_BYTE_WORDS = {
    "memory": "memory resource",
    "ephemeral-storage": "local ephemeral storage resource",
}
_BYTE_DIVISOR = f"only divisor's values {', '.join(_BYTE_UNITS)} are supported with the "


def validate_env(variables: list[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Validate the `env` of a container."""
    for index, variable in enumerate(variables or ()):
        variable_path = path[index]
        yield from validate_required_format(
            names.env_name, variable.get("name"), variable_path / "name"
        )
        if variable.get("valueFrom") is not None:
            yield from _validate_value_from(variable, variable_path / "valueFrom")


def _validate_value_from(variable: Tree, path: Path) -> Iterator[FieldError]:
    source = variable["valueFrom"]
    sources = [name for name in _SOURCES if source.get(name) is not None]
    for name in sources:
        yield from _SOURCES[name](source[name], path / name)
    if not sources:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )
        yield invalid(path, "", detail)
    if variable.get("value"):
        if sources:
            yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _validate_env_field_selector(selector: Tree, path: Path) -> Iterator[FieldError]:
    return validate_field_selector(selector, ENV_FIELDS, path)


def validate_field_selector(
    selector: Tree, allowed: Collection[str], path: Path
) -> Iterator[FieldError]:
    """Validate a reference to a field of the pod. `allowed` are the field paths that this use
    accepts."""
    for name in ("apiVersion", "fieldPath"):
        if not selector.get(name):
            yield required(path / name)
            return
    version, text = selector["apiVersion"], selector["fieldPath"]
    name, subscript = _split_subscript(text)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif subscript is not None:
        if name not in ("metadata.annotations", "metadata.labels"):
            problem = f"field label does not support subscript: {text}"
    elif text == "spec.host":  # the name that old clients use
        text = "spec.nodeName"
    elif text not in _KNOWN_FIELDS:
        problem = f"field label not supported: {text}"
    if problem:
        detail = f"error converting fieldPath: {problem}"
        yield invalid(path / "fieldPath", selector["fieldPath"], detail)
    elif subscript is not None:
        key = subscript.lower() if name == "metadata.annotations" else subscript
        yield from validate_format(names.qualified_name, key, path)
    elif text not in allowed:
        yield not_supported(path / "fieldPath", text, sorted(allowed))


def _split_subscript(text: str) -> tuple[str, str | None]:
    if text.endswith("']"):
        name, bracket, subscript = text[:-2].partition("['")
        if bracket and name:
            return name, subscript
    return text, None


def _validate_env_resource_selector(selector: Tree, path: Path) -> Iterator[FieldError]:
    return validate_resource_selector(selector, path)


def validate_resource_selector(selector: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a reference to a request or limit of a container."""
    name = selector.get("resource") or ""
    if not name:
        yield required(path / "resource")
    elif name not in _RESOURCES and not name.startswith(_HUGEPAGES):
        yield not_supported(path / "resource", name, sorted(_RESOURCES))
    yield from _validate_divisor(name, selector.get("divisor"), path / "divisor")


def validate_volume_resource_selector(selector: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a reference to a request or limit in a volume, which must name the container."""
    if selector.get("containerName"):
        yield from validate_resource_selector(selector, path)
    else:
        yield required(path / "containerName")
        name = selector.get("resource") or ""
        yield from _validate_divisor(name, selector.get("divisor"), path / "divisor")


def _validate_divisor(resource: str, divisor: str | None, path: Path) -> Iterator[FieldError]:
    is_known = resource in _RESOURCES or resource.startswith(_HUGEPAGES)
    if not is_known or not divisor or not amount(divisor):
        return
    value, kind = parse(divisor), resource.partition(".")[2]
    if kind == "cpu":
        if value.decimal not in (amount("1m"), amount("1")):
            detail = "only divisor's values 1m and 1 are supported with the cpu resource"
            yield invalid(path, resource, detail)
    elif divisor not in _BYTE_UNITS:
        words = _BYTE_WORDS.get(kind, "hugepages resource")
        yield invalid(path, resource, _BYTE_DIVISOR + words)


def _validate_key_selector(selector: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_format(names.dns1123_subdomain, selector.get("name") or "", path / "name")
    yield from validate_required_format(names.config_key, selector.get("key"), path / "key")


def _validate_file_key_selector(selector: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_required_format(names.env_name, selector.get("key"), path / "key")
    volume = selector.get("volumeName")
    yield from validate_required_format(names.dns1123_label, volume, path / "volumeName")
    yield from validate_required(selector, "path", path)
    yield from validate_path_no_backsteps(selector.get("path") or "", path / "path")


_SOURCES: dict[str, Callable[[Tree, Path], Iterator[FieldError]]] = {
    "fieldRef": _validate_env_field_selector,
    "resourceFieldRef": _validate_env_resource_selector,
    "configMapKeyRef": _validate_key_selector,
    "secretKeyRef": _validate_key_selector,
    "fileKeyRef": _validate_file_key_selector,
}


_PREFIX = names.without_generate_suffix(names.dns1123_subdomain)
"""kube-apiserver checks the names of config maps and secrets in `envFrom` like a generateName
prefix."""


def validate_env_from(sources: list[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Validate the `envFrom` of a container."""
    for index, source in enumerate(sources or ()):
        source_path = path[index]
        if source.get("prefix"):
            yield from validate_format(names.env_name, source["prefix"], source_path / "prefix")
        members = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in members:
            reference = source[name].get("name")
            yield from validate_required_format(_PREFIX, reference, source_path / name / "name")
        if not members:  # at the path of the list, as kube-apiserver does
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(members) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")


def validate_env_file_volumes(
    containers: Iterable[tuple[Tree, Path]], volumes: Iterable[Tree]
) -> Iterator[FieldError]:
    """Validate that each file with variables is in an emptyDir volume of the pod."""
    sources: dict[str, Tree] = {}
    for container, path in containers:
        for index, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            sources = sources or {volume.get("name") or "": volume for volume in volumes}
            name = reference.get("volumeName") or ""
            volume_name_path = (path / "env")[index] / "valueFrom" / "fileKeyRef" / "volumeName"
            if name not in sources:
                yield not_found(volume_name_path, name)
            elif sources[name].get("emptyDir") is None:
                yield invalid(volume_name_path, name, "referenced volume must be of type emptyDir")
