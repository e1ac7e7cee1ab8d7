"""Rules for claims of devices, templates of claims, and classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata_validation import immutable, validate_annotations
from kapiserver.api.resource.validation.common import (
    REQUESTS_MAX,
    items,
    kept_settings,
    named,
    settings,
    validate_class_name,
    validate_fully_qualified_name,
    validate_label,
    validate_tolerations,
)
from kapiserver.api.resource.validation.expressions import Check, check_for, selectors, trusted
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_ALTERNATIVES_MAX = 8
_MODES = ("All", "ExactCount")
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_NO_ATTRIBUTE = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are '
    "set"
)
_NOT_A_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def validate_claim(obj: Tree) -> Iterator[FieldError]:
    """A new claim."""
    return _validate_claim_spec(obj.get("spec") or {}, _SPEC)


def validate_claim_template(obj: Tree) -> Iterator[FieldError]:
    """A new template of claims."""
    spec = obj.get("spec") or {}
    metadata, metadata_path = spec.get("metadata") or {}, _SPEC / "metadata"
    yield from validate_annotations(metadata.get("annotations"), metadata_path / "annotations")
    yield from validate_labels(metadata.get("labels"), metadata_path / "labels")
    for name, value in metadata.items():
        if value and name not in ("annotations", "labels"):
            yield forbidden(metadata_path / name, "cannot be set")
    yield from _validate_claim_spec(spec.get("spec") or {}, _SPEC / "spec")


def kept_spec(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What was asked for stays."""
    yield from immutable(new.get("spec"), old.get("spec"), _SPEC)


def _validate_claim_spec(spec: Tree, path: Path) -> Iterator[FieldError]:
    devices, devices_path = spec.get("devices") or {}, path / "devices"
    known = request_names(devices)
    check = check_for(_all_selectors(devices))

    def request(request: Tree, where: Path) -> Iterator[FieldError]:
        return _validate_request(request, check, where)

    def constraint(constraint: Tree, where: Path) -> Iterator[FieldError]:
        return _validate_constraint(constraint, known, where)

    def config(config: Tree, where: Path) -> Iterator[FieldError]:
        yield from references(config, known, where)
        yield from settings(config, where)

    yield from items(
        devices.get("requests"), REQUESTS_MAX, request, devices_path / "requests", key=named
    )
    yield from items(
        devices.get("constraints"), REQUESTS_MAX, constraint, devices_path / "constraints"
    )
    yield from items(devices.get("config"), REQUESTS_MAX, config, devices_path / "config")


def _all_selectors(devices: Tree) -> Iterable[Tree]:
    for request in devices.get("requests") or ():
        for one in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            yield from one.get("selectors") or ()


def request_names(devices: Tree) -> set[str]:
    """What constraints, settings and results can refer to: requests, and their alternatives."""
    found = set()
    for request in devices.get("requests") or ():
        found.add(named(request))
        found.update(
            f"{named(request)}/{named(one)}" for one in request.get("firstAvailable") or ()
        )
    return found


def references(holder: Tree, known: set[str], path: Path) -> Iterator[FieldError]:
    """The requests that something is about."""

    def check(name: str, where: Path) -> Iterator[FieldError]:
        return reference(name, known, where)

    requests, requests_path = holder.get("requests"), path / "requests"
    yield from items(requests, REQUESTS_MAX, check, requests_path, key=str)


def reference(name: str, known: set[str], path: Path) -> Iterator[FieldError]:
    """The name of a request, or of an alternative of one."""
    parts = name.split("/")
    for part in parts if len(parts) <= 2 else ():
        yield from validate_format(names.dns1123_label, part, path)
    if name not in known:
        yield invalid(path, name, _NOT_A_REQUEST)


def _validate_request(request: Tree, check: Check, path: Path) -> Iterator[FieldError]:
    yield from validate_label(request, "name", path)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is None and not alternatives:
        yield required(path, _ONE_OF)
    elif exactly is not None and alternatives:
        yield invalid(path, None, f"{_ONE_OF}, but multiple fields are set")
    elif exactly is not None:
        yield from _exact(exactly, check, path / "exactly")
    else:

        def alternative(alternative: Tree, where: Path) -> Iterator[FieldError]:
            yield from validate_label(alternative, "name", where)
            yield from _exact(alternative, check, where)

        first_available_path = path / "firstAvailable"
        yield from items(
            alternatives, _ALTERNATIVES_MAX, alternative, first_available_path, key=named
        )


def _exact(request: Tree, check: Check, path: Path) -> Iterator[FieldError]:
    yield from validate_class_name(request, path)
    yield from selectors(request.get("selectors"), check, path / "selectors")
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        yield invalid(path / "count", count, detail)
    elif mode == "ExactCount" and count <= 0:
        yield invalid(path / "count", count, "must be greater than zero")
    elif mode not in _MODES:
        yield not_supported(path / "allocationMode", mode, _MODES)
    yield from validate_tolerations(request.get("tolerations"), path / "tolerations")


def _validate_constraint(constraint: Tree, known: set[str], path: Path) -> Iterator[FieldError]:
    yield from references(constraint, known, path)
    fields = ("matchAttribute", "distinctAttribute")
    members = [name for name in fields if constraint.get(name) is not None]
    for name in members:
        yield from validate_fully_qualified_name(constraint[name], path / name)
    if not members:
        yield required(path, _NO_ATTRIBUTE)


# Classes.


def validate_device_class(obj: Tree) -> Iterator[FieldError]:
    """A new class."""
    return validate_device_class_update(obj, {})


def validate_device_class_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A class that is to be changed: selectors and settings that stay are trusted."""
    spec, old_spec = new.get("spec") or {}, old.get("spec")
    found, config = spec.get("selectors"), spec.get("config")
    check, rule = check_for(found or ()), settings
    if old_spec is not None and found == old_spec.get("selectors"):
        check = trusted
    if old_spec is not None and config == old_spec.get("config"):
        rule = kept_settings
    yield from selectors(found, check, _SPEC / "selectors")
    yield from items(config, REQUESTS_MAX, rule, _SPEC / "config")


def extended_resource(name: str) -> list[str]:
    """The messages against the name by which pods ask for devices of a class."""
    found = []
    if "/" not in name:
        found.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        found.append('must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        found.append('must not have "requests." prefix')
    return [*found, *names.qualified_name(f"requests.{name}")]
