"""Validation that claims, classes and slices share: lists, names, opaque parameters, taints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from kapiserver.api import names
from kapiserver.api.core.validation.common import (
    validate_enum,
    validate_format,
    validate_required_format,
)
from kapiserver.api.core.validation.volume_plugins import DRIVER_MAX, validate_driver_name
from kapiserver.api.declarative_validation import check_unique
from kapiserver.api.errors import (
    FieldError,
    Path,
    invalid,
    required,
    too_long,
    too_many,
)
from kapiserver.api.label_selectors import validate_label_key
from kapiserver.api.types import Tree, Value

REQUESTS_MAX = 32
PARAMETERS_MAX = 10 * 1024
_IDENTIFIER_MAX = 32
_POOL_MAX = 253
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")

ItemRule = Callable[[Any, Path], Iterator[FieldError]]
"""Validates an item of a list at its path."""
ItemKey = Callable[[Any], Any]
"""Returns the part of an item that must be unique."""


def validate_items(
    items: Sequence[Any] | None,
    maximum: int,
    check: ItemRule,
    path: Path,
    *,
    key: ItemKey | None = None,
) -> Iterator[FieldError]:
    """Validate a list: its length, each item with `check`, and the uniqueness of `key`, if there is
    one."""
    entries = items or ()
    if len(entries) > maximum:
        yield too_many(path, len(entries), maximum)
        return
    for index, item in enumerate(entries):
        yield from check(item, path[index])
    if key is not None:
        yield from check_unique(entries, key, path)


def name_of_item(item: Tree) -> str:
    """Return the name of an item, or ""."""
    return item.get("name") or ""


def validate_label(item: Tree, name: str, path: Path) -> Iterator[FieldError]:
    """Validate that the field `name` is a DNS label. An empty field is invalid."""
    return validate_format(names.dns1123_label, item.get(name) or "", path / name)


def validate_pool_name(name: str, path: Path) -> Iterator[FieldError]:
    """Validate a pool name: DNS subdomains separated by slashes."""
    if not name:
        yield required(path)
        return
    if len(name) > _POOL_MAX:
        yield too_long(path, _POOL_MAX)
    for part in name.split("/"):
        yield from validate_format(names.dns1123_subdomain, part, path)


def validate_declared_pool_name(name: str, path: Path) -> Iterator[FieldError]:
    """Validate a pool name with the messages of declarative validation."""
    if len(name) > _POOL_MAX:
        yield too_long(path, _POOL_MAX)
    for index, part in enumerate(name.split("/")):
        if not part:
            yield invalid(path, name, f"segment {index}: must not be empty")
        for message in names.dns1123_subdomain(part) if part else ():
            yield invalid(path, part, f"segment {index}: {message}")


def validate_qualified_name(name: str, path: Path) -> Iterator[FieldError]:
    """Validate the name of an attribute or of a capacity: an identifier, with or without a
    domain."""
    domain, slash, identifier = name.rpartition("/")
    if "/" in domain:
        yield invalid(path, name, "must not contain more than one slash")
        return
    if slash and not domain:
        yield invalid(path, "", "the domain must not be empty")
    elif slash:
        yield from validate_driver_name(domain, path)
    if slash and not identifier:
        yield invalid(path, "", "the name must not be empty")
    else:
        yield from _validate_identifier(identifier, path)


def validate_fully_qualified_name(name: str, path: Path) -> Iterator[FieldError]:
    """Validate the name of an attribute with its domain, with the messages of declarative
    validation."""
    domain, slash, identifier = name.rpartition("/")
    if "/" in domain:
        yield invalid(path, name, "must not contain more than one slash")
        return
    if not slash:
        yield from _validate_identifier(identifier, path)
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid(path, name, detail)
        return
    if not domain:
        yield invalid(path, "", "prefix must not be empty")
    elif len(domain) > DRIVER_MAX:
        yield too_long(path, DRIVER_MAX)
    for message in names.dns1123_subdomain(domain) if domain else ():
        yield invalid(path, domain, f"prefix: {message}")
    if not identifier:
        yield invalid(path, "", "name must not be empty")
    else:
        yield from _validate_identifier(identifier, path)


def _validate_identifier(name: str, path: Path) -> Iterator[FieldError]:
    if len(name) > _IDENTIFIER_MAX:
        yield too_long(path, _IDENTIFIER_MAX)
    yield from validate_format(names.c_identifier, name, path)


def validate_opaque_config(config: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the opaque parameters for a driver."""
    return _validate_opaque_config(config, path, PARAMETERS_MAX)


def validate_stored_opaque_config(config: Tree, path: Path) -> Iterator[FieldError]:
    """Validate opaque parameters that were stored before. Their length is not limited."""
    return _validate_opaque_config(config, path, None)


def _validate_opaque_config(config: Tree, path: Path, maximum: int | None) -> Iterator[FieldError]:
    opaque, opaque_path = config.get("opaque"), path / "opaque"
    if opaque is None:
        yield required(opaque_path)
        return
    yield from validate_raw_object(opaque.get("parameters"), maximum, opaque_path / "parameters")


def validate_raw_object(value: Value, maximum: int | None, path: Path) -> Iterator[FieldError]:
    """Validate a JSON object of at most `maximum` bytes."""
    if value is None:
        yield required(path)
    elif maximum is not None and len(orjson.dumps(value)) > maximum:
        yield too_long(path, maximum)
    elif not isinstance(value, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")


def validate_taint(
    taint: Tree, path: Path, *, old_effect: str | None = None
) -> Iterator[FieldError]:
    """Validate a taint of a device. The effect `old_effect` need not be valid."""
    yield from validate_label_key(taint.get("key") or "", path / "key")
    yield from validate_format(names.label_value, taint.get("value") or "", path / "value")
    effect = taint.get("effect") or ""
    if effect != old_effect:
        yield from validate_enum(effect, _EFFECTS, path / "effect")


def validate_toleration(toleration: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a toleration of device taints."""
    key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
    if key:
        yield from validate_label_key(key, path / "key")
    if operator == "Exists":
        if value:
            yield invalid(path / "value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from validate_format(names.label_value, value, path / "value")
    else:
        yield from validate_enum(operator, _OPERATORS, path / "operator")
    yield from validate_enum(toleration.get("effect"), _EFFECTS, path / "effect", optional=True)


def validate_tolerations(tolerations: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Validate tolerations of device taints."""
    for index, toleration in enumerate(tolerations or ()):
        yield from validate_toleration(toleration, path[index])


def validate_class_name(request: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the name of the device class of a request."""
    name_path = path / "deviceClassName"
    yield from validate_required_format(
        names.dns1123_subdomain, request.get("deviceClassName"), name_path
    )
