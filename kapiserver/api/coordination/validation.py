"""Validation of leases and candidates for them. Mirrors pkg/apis/coordination/validation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.common import (
    validate_format,
    validate_nonnegative_field,
    validate_required,
)
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STRATEGIES = ("OldestEmulationVersion",)
_NUMBER = "(0|[1-9][0-9]{0,19})"
_PART = "(?:0|[1-9][0-9]{0,19}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_VERSION_MAX = 1024  # no version is as long; what reads them is spared the rest
_ZERO = ((0, 0, 0), True, ())
_Version: TypeAlias = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def validate_lease(obj: Tree) -> Iterator[FieldError]:
    """A lease, new or changed."""
    spec = obj.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid(_SPEC / "leaseDurationSeconds", seconds, "must be greater than 0")
    yield from validate_nonnegative_field(spec, "leaseTransitions", _SPEC)
    strategy = spec.get("strategy")
    if strategy is not None:
        yield from _validate_strategy(strategy)
    if spec.get("preferredHolder") and not strategy:
        detail = "may only be specified if `strategy` is defined"
        yield forbidden(_SPEC / "preferredHolder", detail)


def _validate_strategy(strategy: str) -> Iterator[FieldError]:
    strategy_path = _SPEC / "strategy" / "strategy"  # upstream names it twice
    if "/" in strategy:
        yield from validate_format(names.qualified_name, strategy, strategy_path)
    elif strategy not in _STRATEGIES:
        yield not_supported(strategy_path, strategy, _STRATEGIES)


def validate_candidate(obj: Tree) -> Iterator[FieldError]:
    """A candidate, new or changed."""
    spec = obj.get("spec") or {}
    yield from validate_required(spec, "leaseName", _SPEC)
    binary, emulated = spec.get("binaryVersion") or "", spec.get("emulationVersion") or ""
    unreadable = "must be a valid semantic version"
    if emulated and _version(emulated) is None:
        yield invalid(_SPEC / "emulationVersion", emulated, unreadable)
    if not binary:
        yield required(_SPEC / "binaryVersion")
    elif _version(binary) is None:
        yield invalid(_SPEC / "binaryVersion", binary, unreadable)
    if binary and emulated and (_version(binary) or _ZERO) < (_version(emulated) or _ZERO):
        detail = "must be greater than or equal to `emulationVersion`"
        yield invalid(_SPEC / "binaryVersion", binary, detail)
    strategy = spec.get("strategy") or ""
    if not strategy:
        yield required(_SPEC / "strategy")
        return
    if strategy in _STRATEGIES and (_version(emulated) or _ZERO) == _ZERO:
        detail = f"must be specified when `strategy` is '{strategy}'"
        yield required(_SPEC / "emulationVersion", detail)
    yield from _validate_strategy(strategy)


def _version(text: str) -> _Version | None:
    """What orders a version: its numbers, that it is no draft, and which draft it is."""
    found = _VERSION.fullmatch(text) if len(text) <= _VERSION_MAX else None
    if found is None:
        return None
    draft = found[4]
    parts = draft.split(".") if draft else ()
    ranks = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
    return tuple(int(found[part]) for part in (1, 2, 3)), not draft, ranks


def validate_candidate_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A candidate that is to be changed: it stays with its lease."""
    yield from validate_candidate(new)
    lease_name, before = (value_at(one, "spec", "leaseName") or "" for one in (new, old))
    yield from immutable(lease_name, before, _SPEC / "leaseName")
