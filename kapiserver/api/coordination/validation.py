"""Rules for leases and candidates for them. Mirrors pkg/apis/coordination/validation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import checked, needed, not_negative
from kapiserver.api.errors import FieldError, Path, invalid, not_supported, required
from kapiserver.api.metadata import immutable
from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STRATEGIES = ("OldestEmulationVersion",)
_NUMBER = "(0|[1-9][0-9]*)"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


def lease(obj: Tree) -> Iterator[FieldError]:
    """A lease, new or changed."""
    spec = obj.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid(_SPEC / "leaseDurationSeconds", seconds, "must be greater than 0")
    yield from not_negative(spec, "leaseTransitions", _SPEC)
    if spec.get("strategy") is not None:
        yield from _strategy(spec["strategy"])
    if spec.get("preferredHolder") and not spec.get("strategy"):
        detail = "may only be specified if `strategy` is defined"
        yield invalid(_SPEC / "preferredHolder", spec["preferredHolder"], detail)


def _strategy(strategy: str) -> Iterator[FieldError]:
    at = _SPEC / "strategy"
    if "/" in strategy:
        yield from checked(names.qualified_name, strategy, at)
    elif strategy not in _STRATEGIES:
        yield not_supported(at, strategy, _STRATEGIES)


def candidate(obj: Tree) -> Iterator[FieldError]:
    """A candidate, new or changed."""
    spec = obj.get("spec") or {}
    yield from needed(spec, "leaseName", _SPEC)
    for name in ("emulationVersion", "binaryVersion"):
        text = spec.get(name) or ""
        if text and not _VERSION.fullmatch(text):
            yield invalid(_SPEC / name, text, "must be a valid semantic version")
    binary, emulated = spec.get("binaryVersion") or "", spec.get("emulationVersion") or ""
    if binary and emulated and _order(binary) < _order(emulated):
        detail = "must be greater than or equal to `emulationVersion`"
        yield invalid(_SPEC / "binaryVersion", binary, detail)
    strategy = spec.get("strategy") or ""
    if not strategy:
        yield required(_SPEC / "strategy")
        return
    if strategy in _STRATEGIES:
        for name in ("binaryVersion", "emulationVersion"):
            if not any(_order(spec.get(name) or "")):
                detail = f"must be specified when `strategy` is '{strategy}'"
                yield required(_SPEC / name, detail)
    yield from _strategy(strategy)


def _order(text: str) -> tuple[int, ...]:
    found = _VERSION.fullmatch(text[:256])
    return tuple(int(found[part]) for part in (1, 2, 3)) if found else (0, 0, 0)


def changed_candidate(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A candidate that is to be changed: it stays with its lease."""
    yield from candidate(new)
    lease_name, before = (value_at(one, "spec", "leaseName") or "" for one in (new, old))
    yield from immutable(lease_name, before, _SPEC / "leaseName")
