"""Validation that many kinds share: name formats, ports, file modes, paths, enumerations."""

from __future__ import annotations

import string
from collections.abc import Container, Iterator, Sequence
from typing import Any

from kapiserver.api import names
from kapiserver.api.errors import FieldError, Path, invalid, not_supported, required
from kapiserver.api.types import Tree

INT32_MAX = 2**31 - 1
_MODE_MAX = 0o777
_BAD_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
PROTOCOLS = ("SCTP", "TCP", "UDP")
_HTTP_PATH = frozenset(string.ascii_letters + string.digits + "/-._~%!$&'()*+,;=:")
_BAD_HTTP_PATH = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"


def validate_format(
    check: names.Check, value: str, path: Path, *, old_values: Container[str] = ()
) -> Iterator[FieldError]:
    """Validate a string with a format check. Values in `old_values` were accepted under older rules
    and stay valid."""
    messages = () if value in old_values else check(value)
    return iter([invalid(path, value, message) for message in messages] if messages else ())


def validate_required_format(
    check: names.Check, value: str | None, path: Path
) -> Iterator[FieldError]:
    """Validate a required string with a format check."""
    if value:
        yield from validate_format(check, value, path)
    else:
        yield required(path)


def validate_required(obj: Tree, name: str, path: Path) -> Iterator[FieldError]:
    """Validate that the field `name` of `obj` is set and not empty."""
    if not obj.get(name):
        yield required(path / name)


def validate_enum(
    value: str | None, allowed: Sequence[str], path: Path, *, optional: bool = False
) -> Iterator[FieldError]:
    """Validate that a value is one of `allowed`. A required value must not be empty; an optional
    value may be missing (None), but not empty."""
    if value is None and optional:
        return
    if not value and not optional:
        yield required(path)
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def validate_optional_enum(
    value: str | None, allowed: Sequence[str], path: Path
) -> Iterator[FieldError]:
    """Validate that a value, if it is set, is one of `allowed`. The empty string counts as set."""
    if value is not None and value not in allowed:
        yield not_supported(path, value, allowed)


def all_containers(spec: Tree, path: Path) -> Iterator[tuple[Tree, Path]]:
    """Yield each container of the pod spec at `path` with its path: init, regular, ephemeral."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield container, (path / kind)[index]


def validate_nonnegative_field(obj: Tree, name: str, path: Path) -> Iterator[FieldError]:
    """Validate that the number in the field `name`, if it is set, is not negative."""
    value = obj.get(name) or 0
    if value < 0:
        yield invalid(path / name, value, "must be greater than or equal to 0")


def validate_range(value: int | None, low: int, high: int, path: Path) -> Iterator[FieldError]:
    """Validate that a number, if it is set, is between `low` and `high`, both included."""
    if value is not None and not low <= value <= high:
        yield invalid(path, value, names.inclusive_range(low, high))


def validate_domain_prefixed_path(value: str, path: Path) -> Iterator[FieldError]:
    """Validate a domain, a slash and a path: `example.com/thing`."""
    domain, _, url_path = value.partition("/")
    if not value:
        yield required(path)
    elif not (domain and url_path):
        yield invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from validate_format(names.dns1123_subdomain, domain, path)
        if not _HTTP_PATH.issuperset(url_path):
            yield invalid(path, url_path, _BAD_HTTP_PATH)


def validate_port_number_or_name(value: Any, path: Path) -> Iterator[FieldError]:
    """Validate a port that is given as a number or as a name."""
    messages = names.port_name(value) if isinstance(value, str) else names.port_number(value or 0)
    return (invalid(path, value or 0, message) for message in messages)


def validate_file_mode(obj: Tree, name: str, path: Path) -> Iterator[FieldError]:
    """Validate the permission bits in the field `name`, if it is set."""
    value = obj.get(name)
    if value is not None and not 0 <= value <= _MODE_MAX:
        yield invalid(path / name, value, _BAD_MODE)


def validate_local_descending_path(value: str, path: Path) -> Iterator[FieldError]:
    """Validate a relative path without `..` segments."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from validate_path_no_backsteps(value, path)


def validate_path_no_backsteps(value: str, path: Path) -> Iterator[FieldError]:
    """Validate that a path has no `..` segment."""
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def validate_local_non_reserved_path(value: str, path: Path) -> Iterator[FieldError]:
    """Validate the path of a file in a volume. The kubelet reserves names that begin with `..`."""
    yield from validate_local_descending_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")
