"""Rules that claims, classes and slices share: names, sets, selectors, settings, taints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kapiserver.api import names
from kapiserver.api.core.validation.common import checked, checked_name, chosen
from kapiserver.api.core.validation.volume_plugins import driver_name
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
)
from kapiserver.api.label_selectors import validate_label_key
from kapiserver.api.types import Tree

REQUESTS_MAX = 32
_SELECTORS_MAX = 32
_EXPRESSION_MAX = 10 * 1024
_IDENTIFIER_MAX = 32
_POOL_MAX = 253
_CONDITIONS_MAX = 4
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")

Item = Callable[[Any, Path], Iterator[FieldError]]
"""Checks one item of a list at its path."""
Key = Callable[[Any], Any]
"""What must be unique of an item."""


def items(
    found: Sequence[Any] | None, most: int, check: Item, path: Path, *, key: Key | None = None
) -> Iterator[FieldError]:
    """A list of no more than so many items, unique by their key where there is one."""
    listed = found or ()
    if len(listed) > most:
        yield too_many(path, len(listed), most)
        return
    for index, item in enumerate(listed):
        yield from check(item, path[index])
    seen: set[Any] = set()
    for index, item in enumerate(listed):
        if key is None:
            return
        if key(item) in seen:
            yield duplicate(path[index], key(item))
        seen.add(key(item))


def named(item: Tree) -> str:
    """The name of an item."""
    return item.get("name") or ""


def label(item: Tree, name: str, path: Path) -> Iterator[FieldError]:
    """A field that is a DNS label."""
    return checked_name(names.dns1123_label, item.get(name), path / name)


def pool_name(name: str, path: Path) -> Iterator[FieldError]:
    """Subdomains with slashes between them."""
    if not name:
        yield required(path)
        return
    if len(name) > _POOL_MAX:
        yield too_long(path, _POOL_MAX)
    for part in name.split("/"):
        for message in names.dns1123_subdomain(part):
            yield invalid(path, part, message)


def qualified_name(name: str, path: Path) -> Iterator[FieldError]:
    """The name of an attribute or a capacity: an identifier, with a domain or not."""
    domain, slash, own = name.rpartition("/")
    if not name:
        yield required(path, "name required")
        return
    if slash:
        if not domain:
            yield required(path, "the domain must not be empty")
        elif "/" in domain:
            detail = "a qualified name must be of the form <domain>/<name> or <name>"
            yield invalid(path, name, detail)
            return
        else:
            yield from driver_name(domain, path)
    if not own:
        yield required(path, "the name must not be empty")
        return
    if len(own) > _IDENTIFIER_MAX:
        yield too_long(path, _IDENTIFIER_MAX)
    yield from checked(names.c_identifier, own, path)


def fully_qualified_name(name: str, path: Path) -> Iterator[FieldError]:
    """The same with a domain."""
    yield from qualified_name(name, path)
    if name and "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid(path, name, detail)


def selectors(found: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Which devices fit. What expressions say is not looked into."""
    return items(found, _SELECTORS_MAX, _selector, path)


def _selector(selector: Tree, path: Path) -> Iterator[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        yield required(path / "cel")
        return
    expression = cel.get("expression") or ""
    if len(expression) > _EXPRESSION_MAX:
        yield too_long(path / "cel" / "expression", _EXPRESSION_MAX)
    if not expression.strip():
        yield required(path / "cel" / "expression")


def settings(config: Tree, path: Path) -> Iterator[FieldError]:
    """Settings that only the driver understands."""
    opaque, at = config.get("opaque"), path / "opaque"
    if opaque is None:
        yield required(at)
        return
    yield from driver_name(opaque.get("driver") or "", at / "driver")
    parameters = opaque.get("parameters")
    if parameters is None:
        yield required(at / "parameters")
    elif not isinstance(parameters, dict):
        yield invalid(at / "parameters", "<value omitted>", "must be a valid JSON object")


def taint(found: Tree, path: Path) -> Iterator[FieldError]:
    """A mark that keeps claims off a device."""
    yield from validate_label_key(found.get("key") or "", path / "key")
    yield from checked(names.label_value, found.get("value") or "", path / "value")
    yield from chosen(found.get("effect"), _EFFECTS, path / "effect")


def toleration(found: Tree, path: Path) -> Iterator[FieldError]:
    """A taint that does not matter."""
    key, operator, value = (found.get(name) or "" for name in ("key", "operator", "value"))
    if key:
        yield from validate_label_key(key, path / "key")
    if operator == "Exists":
        if value:
            yield invalid(path / "value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from checked(names.label_value, value, path / "value")
    else:
        yield from chosen(operator, _OPERATORS, path / "operator")
    yield from chosen(found.get("effect"), _EFFECTS, path / "effect", optional=True)


def binding_conditions(holder: Tree, path: Path) -> Iterator[FieldError]:
    """Conditions that tell when a device is ready for its claim, and when it never will be."""
    kinds = ("bindingConditions", "bindingFailureConditions")
    for kind in kinds:
        yield from items(holder.get(kind), _CONDITIONS_MAX, _condition, path / kind, key=str)
    ready, at = holder.get(kinds[0]) or (), path / kinds[1]
    for index, condition in enumerate(holder.get(kinds[1]) or ()):
        if condition in ready:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(at[index], condition, detail)


def _condition(condition: str, path: Path) -> Iterator[FieldError]:
    yield from validate_label_key(condition, path)
