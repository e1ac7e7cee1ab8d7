"""Rules for claims of devices, templates of claims, and classes."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import checked, checked_name, chosen, needed
from kapiserver.api.core.validation.conditions import conditions
from kapiserver.api.core.validation.resources import is_native
from kapiserver.api.core.validation.scheduling import node_selector
from kapiserver.api.core.validation.volume_plugins import driver_name
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.metadata import immutable
from kapiserver.api.objects import is_terminating, value_at
from kapiserver.api.resource.validation.common import (
    REQUESTS_MAX,
    binding_conditions,
    fully_qualified_name,
    items,
    label,
    named,
    pool_name,
    selectors,
    settings,
    toleration,
)
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUS = Path("status")
_ALTERNATIVES_MAX = 8
_TOLERATIONS_MAX = 16
_CONSUMERS_MAX = 256
_DEVICES_MAX = 256
_MODES = ("All", "ExactCount")
_SOURCES = ("FromClaim", "FromClass")
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_NOT_A_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def claim(obj: Tree) -> Iterator[FieldError]:
    """A new claim."""
    return _claim_spec(obj.get("spec") or {}, _SPEC)


def claim_template(obj: Tree) -> Iterator[FieldError]:
    """A new template of claims."""
    return _claim_spec(value_at(obj, "spec", "spec") or {}, _SPEC / "spec")


def kept_spec(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What was asked for stays."""
    yield from immutable(new.get("spec"), old.get("spec"), _SPEC)


def _claim_spec(spec: Tree, path: Path) -> Iterator[FieldError]:
    devices, at = spec.get("devices") or {}, path / "devices"
    known = _request_names(devices)

    def constraint(one: Tree, where: Path) -> Iterator[FieldError]:
        yield from _references(one, known, where)
        if one.get("matchAttribute") is not None:
            yield from fully_qualified_name(one["matchAttribute"], where / "matchAttribute")
        elif one.get("distinctAttribute") is not None:
            yield from fully_qualified_name(one["distinctAttribute"], where / "distinctAttribute")
        else:
            yield required(where / "matchAttribute")

    def config(one: Tree, where: Path) -> Iterator[FieldError]:
        yield from _references(one, known, where)
        yield from settings(one, where)

    yield from items(devices.get("requests"), REQUESTS_MAX, _request, at / "requests", key=named)
    yield from items(devices.get("constraints"), REQUESTS_MAX, constraint, at / "constraints")
    yield from items(devices.get("config"), REQUESTS_MAX, config, at / "config")


def _request_names(devices: Tree) -> set[str]:
    found = set()
    for request in devices.get("requests") or ():
        found.add(named(request))
        found.update(
            f"{named(request)}/{named(one)}" for one in request.get("firstAvailable") or ()
        )
    return found


def _references(holder: Tree, known: set[str], path: Path) -> Iterator[FieldError]:
    def check(name: str, where: Path) -> Iterator[FieldError]:
        return _reference(name, known, where)

    found, at = holder.get("requests"), path / "requests"
    yield from items(found, REQUESTS_MAX, check, at, key=lambda name: name)


def _reference(name: str, known: set[str], path: Path) -> Iterator[FieldError]:
    parts = name.split("/")
    if len(parts) <= 2:
        for part in parts:
            yield from checked_name(names.dns1123_label, part, path)
    if name not in known:
        yield invalid(path, name, _NOT_A_REQUEST)


def _request(request: Tree, path: Path) -> Iterator[FieldError]:
    yield from label(request, "name", path)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is None and not alternatives:
        yield required(path, _ONE_OF)
    elif exactly is not None and alternatives:
        yield invalid(path, None, f"{_ONE_OF}, but multiple fields are set")
    elif exactly is not None:
        yield from _exact(exactly, path / "exactly")
    else:
        at = path / "firstAvailable"
        yield from items(alternatives, _ALTERNATIVES_MAX, _alternative, at, key=named)


def _alternative(request: Tree, path: Path) -> Iterator[FieldError]:
    yield from label(request, "name", path)
    yield from _exact(request, path)


def _exact(request: Tree, path: Path) -> Iterator[FieldError]:
    at = path / "deviceClassName"
    yield from checked_name(names.dns1123_subdomain, request.get("deviceClassName"), at)
    yield from selectors(request.get("selectors"), path / "selectors")
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        yield invalid(path / "count", count, detail)
    elif mode == "ExactCount" and count <= 0:
        yield invalid(path / "count", count, "must be greater than zero")
    elif mode not in _MODES:
        yield not_supported(path / "allocationMode", mode, _MODES)
    borne, at = request.get("tolerations"), path / "tolerations"
    yield from items(borne, _TOLERATIONS_MAX, toleration, at)


# What claims got.


def changed_claim_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What a claim got and who uses it: what it got stays until it is given back."""
    status, before = new.get("status") or {}, old.get("status") or {}
    at, consumers = _STATUS / "reservedFor", status.get("reservedFor") or []
    yield from items(consumers, _CONSUMERS_MAX, _consumer, at, key=lambda one: one.get("uid"))
    allocation, kept = status.get("allocation"), before.get("allocation")
    given = {_device(one) for one in value_at(status, "allocation", "devices", "results") or ()}

    def reported(one: Tree, where: Path) -> Iterator[FieldError]:
        yield from driver_name(one.get("driver") or "", where / "driver")
        yield from pool_name(one.get("pool") or "", where / "pool")
        yield from label(one, "device", where)
        if _device(one) not in given:
            detail = "must be an allocated device in the claim"
            yield invalid(where, "/".join(_device(one)[:3]), detail)
        yield from conditions(one.get("conditions"), where / "conditions")

    yield from items(status.get("devices"), _DEVICES_MAX, reported, _STATUS / "devices")
    if consumers and allocation is None:
        yield forbidden(at, "may not be specified when `allocated` is not set")
    elif is_terminating(new):
        users = before.get("reservedFor") or []
        if any(one not in users for one in consumers):
            detail = (
                "new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set"
            )
            yield forbidden(at, detail)
    if allocation is not None and kept is not None:
        yield from immutable(allocation, kept, _STATUS / "allocation")
    elif allocation is not None:
        known = _request_names(value_at(new, "spec", "devices") or {})
        yield from _allocation(allocation, known, _STATUS / "allocation")


def _device(one: Tree) -> tuple[str, ...]:
    return tuple(one.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _consumer(consumer: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("resource", "name", "uid"):
        yield from needed(consumer, name, path)


def _allocation(allocation: Tree, known: set[str], path: Path) -> Iterator[FieldError]:
    def result(one: Tree, where: Path) -> Iterator[FieldError]:
        yield from _reference(one.get("request") or "", known, where / "request")
        yield from driver_name(one.get("driver") or "", where / "driver")
        yield from pool_name(one.get("pool") or "", where / "pool")
        yield from label(one, "device", where)
        yield from binding_conditions(one, where)

    def config(one: Tree, where: Path) -> Iterator[FieldError]:
        yield from chosen(one.get("source"), _SOURCES, where / "source")
        yield from _references(one, known, where)
        yield from settings(one, where)

    devices, at = allocation.get("devices") or {}, path / "devices"
    yield from items(devices.get("results"), REQUESTS_MAX, result, at / "results")
    yield from items(devices.get("config"), 2 * REQUESTS_MAX, config, at / "config")
    if allocation.get("nodeSelector") is not None:
        yield from node_selector(allocation["nodeSelector"], path / "nodeSelector")


# Classes.


def device_class(obj: Tree) -> Iterator[FieldError]:
    """A class, new or changed."""
    spec = obj.get("spec") or {}
    yield from selectors(spec.get("selectors"), _SPEC / "selectors")
    yield from items(spec.get("config"), REQUESTS_MAX, settings, _SPEC / "config")
    name = spec.get("extendedResourceName")
    if name is not None and (is_native(name) or any(checked(names.qualified_name, name, _SPEC))):
        at = _SPEC / "extendedResourceName"
        yield invalid(at, name, "must be a valid extended resource name")
