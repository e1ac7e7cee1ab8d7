"""CEL expressions that select devices: their environment, and the variable `device`.

The CEL modules are loaded with the first expression. Mirrors
k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kapiserver.api.types import Tree

if TYPE_CHECKING:
    from kapiserver.api.cel.cel_types import CelType
    from kapiserver.api.cel.program import Program

MAX_COST = 1_000_000
"""The maximum cost of an expression."""


@functools.lru_cache(256)
def compile_selector(expression: str) -> Program:
    """Compile an expression over the variable `device`. Raises CompileError."""
    from kapiserver.api.cel.extensions import DEVICES
    from kapiserver.api.cel.program import compile_expression

    return compile_expression(expression, {"device": _device_kind()}, DEVICES)


@functools.cache
def _device_kind() -> CelType:
    from kapiserver.api.cel import cel_types as kinds_

    def string_kind(maximum: int) -> CelType:
        return replace(kinds_.STRING, size=maximum)

    def attribute_map(values: CelType) -> CelType:
        return kinds_.map_of(string_kind(63), kinds_.map_of(string_kind(32), values, 32), 32)

    fields = {
        "driver": string_kind(63),
        "attributes": attribute_map(replace(kinds_.DYN, size=64)),
        "capacity": attribute_map(kinds_.CelType("quantity")),
        "allowMultipleAllocations": kinds_.BOOL,
    }
    return kinds_.CelType("object", (), 1, fields=fields, names={name: name for name in fields})


class _Domains(dict[str, dict[str, Any]]):
    """Values by domain, then by name; a domain that the device does not have is empty."""

    def get(self, key: Any, _default: Any = None) -> Any:
        return super().get(key, {})


def device_variable(driver: str, device: Tree) -> dict[str, Any]:
    """Return the value of the variable `device`. Names without a domain are in that of the driver.
    Raises EvaluationError for an attribute without a value."""
    from kapiserver.api.cel.libraries.kubernetes import quantity_of

    attributes, capacity = _Domains(), _Domains()
    for name, attribute in (device.get("attributes") or {}).items():
        _set(attributes, driver, name, _attribute_value(name, attribute))
    for name, declared in (device.get("capacity") or {}).items():
        _set(capacity, driver, name, quantity_of(declared["value"]))
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
    }


def _set(domains: _Domains, driver: str, name: str, value: Any) -> None:
    domain, slash, rest = name.partition("/")
    if not slash:
        domain, rest = driver, name
    domains.setdefault(domain, {})[rest] = value


def _attribute_value(name: str, attribute: Tree) -> Any:
    from kapiserver.api.cel.libraries.kubernetes import semver_of
    from kapiserver.api.cel.values import EvaluationError

    for kind in ("int", "bool", "string"):
        if attribute.get(kind) is not None:
            return attribute[kind]
    if attribute.get("version") is not None:
        return semver_of(attribute["version"])
    raise EvaluationError(f"attribute {name}: unsupported attribute value")
