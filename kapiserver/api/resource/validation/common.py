"""Rules that claims, classes and slices share: names, lists, settings, taints."""

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
SETTINGS_MAX = 10 * 1024
_IDENTIFIER_MAX = 32
_POOL_MAX = 253
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")

Item = Callable[[Any, Path], Iterator[FieldError]]
"""Checks one item of a list at its path."""
Key = Callable[[Any], Any]
"""What must be unique of an item."""


def items(
    items: Sequence[Any] | None, maximum: int, check: Item, path: Path, *, key: Key | None = None
) -> Iterator[FieldError]:
    """A list of no more than so many items, unique by their key where there is one."""
    listed = items or ()
    if len(listed) > maximum:
        yield too_many(path, len(listed), maximum)
        return
    for index, item in enumerate(listed):
        yield from check(item, path[index])
    if key is not None:
        yield from check_unique(listed, key, path)


def named(item: Tree) -> str:
    """The name of an item."""
    return item.get("name") or ""


def validate_label(item: Tree, name: str, path: Path) -> Iterator[FieldError]:
    """A field that is a DNS label; nothing is none."""
    return validate_format(names.dns1123_label, item.get(name) or "", path / name)


def validate_pool_name(name: str, path: Path) -> Iterator[FieldError]:
    """Subdomains with slashes between them."""
    if not name:
        yield required(path)
        return
    if len(name) > _POOL_MAX:
        yield too_long(path, _POOL_MAX)
    for part in name.split("/"):
        yield from validate_format(names.dns1123_subdomain, part, path)


def declared_pool_name(name: str, path: Path) -> Iterator[FieldError]:
    """The same by the rules that types declare."""
    if len(name) > _POOL_MAX:
        yield too_long(path, _POOL_MAX)
    for index, part in enumerate(name.split("/")):
        if not part:
            yield invalid(path, name, f"segment {index}: must not be empty")
        for message in names.dns1123_subdomain(part) if part else ():
            yield invalid(path, part, f"segment {index}: {message}")


def validate_qualified_name(name: str, path: Path) -> Iterator[FieldError]:
    """The name of an attribute or a capacity: an identifier, with a domain or not."""
    domain, slash, own = name.rpartition("/")
    if "/" in domain:
        yield invalid(path, name, "must not contain more than one slash")
        return
    if slash and not domain:
        yield invalid(path, "", "the domain must not be empty")
    elif slash:
        yield from validate_driver_name(domain, path)
    if slash and not own:
        yield invalid(path, "", "the name must not be empty")
    else:
        yield from _validate_identifier(own, path)


def validate_fully_qualified_name(name: str, path: Path) -> Iterator[FieldError]:
    """The name of an attribute with its domain, by the rules that types declare."""
    domain, slash, own = name.rpartition("/")
    if "/" in domain:
        yield invalid(path, name, "must not contain more than one slash")
        return
    if not slash:
        yield from _validate_identifier(own, path)
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid(path, name, detail)
        return
    if not domain:
        yield invalid(path, "", "prefix must not be empty")
    elif len(domain) > DRIVER_MAX:
        yield too_long(path, DRIVER_MAX)
    for message in names.dns1123_subdomain(domain) if domain else ():
        yield invalid(path, domain, f"prefix: {message}")
    if not own:
        yield invalid(path, "", "name must not be empty")
    else:
        yield from _validate_identifier(own, path)


def _validate_identifier(name: str, path: Path) -> Iterator[FieldError]:
    if len(name) > _IDENTIFIER_MAX:
        yield too_long(path, _IDENTIFIER_MAX)
    yield from validate_format(names.c_identifier, name, path)


def settings(config: Tree, path: Path) -> Iterator[FieldError]:
    """Settings that only the driver understands."""
    return _settings(config, path, SETTINGS_MAX)


def kept_settings(config: Tree, path: Path) -> Iterator[FieldError]:
    """Settings that were there before: they may be longer than new ones."""
    return _settings(config, path, None)


def _settings(config: Tree, path: Path, maximum: int | None) -> Iterator[FieldError]:
    opaque, opaque_path = config.get("opaque"), path / "opaque"
    if opaque is None:
        yield required(opaque_path)
        return
    yield from free_object(opaque.get("parameters"), maximum, opaque_path / "parameters")


def free_object(value: Value, maximum: int | None, path: Path) -> Iterator[FieldError]:
    """An object of any content, so many bytes long."""
    if value is None:
        yield required(path)
    elif maximum is not None and len(orjson.dumps(value)) > maximum:
        yield too_long(path, maximum)
    elif not isinstance(value, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")


def validate_taint(
    taint: Tree, path: Path, *, effect_before: str | None = None
) -> Iterator[FieldError]:
    """A mark that keeps claims off a device. An effect that was there before may be any."""
    yield from validate_label_key(taint.get("key") or "", path / "key")
    yield from validate_format(names.label_value, taint.get("value") or "", path / "value")
    effect = taint.get("effect") or ""
    if effect != effect_before:
        yield from validate_enum(effect, _EFFECTS, path / "effect")


def validate_toleration(toleration: Tree, path: Path) -> Iterator[FieldError]:
    """A taint that does not matter."""
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
    """Taints that do not matter."""
    for index, one in enumerate(tolerations or ()):
        yield from validate_toleration(one, path[index])


def validate_class_name(holder: Tree, path: Path) -> Iterator[FieldError]:
    """The class of the devices that are asked for."""
    name_path = path / "deviceClassName"
    yield from validate_required_format(
        names.dns1123_subdomain, holder.get("deviceClassName"), name_path
    )
