"""Validation of leases and lease candidates. Mirrors pkg/apis/coordination/validation."""

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
_VERSION_MAX = 1024  # longer texts are rejected before parsing
_ZERO = ((0, 0, 0), True, ())
_Version: TypeAlias = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def validate_lease(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated lease."""
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
    strategy_path = _SPEC / "strategy" / "strategy"  # twice, as in kube-apiserver
    if "/" in strategy:
        yield from validate_format(names.qualified_name, strategy, strategy_path)
    elif strategy not in _STRATEGIES:
        yield not_supported(strategy_path, strategy, _STRATEGIES)


def validate_candidate(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated lease candidate."""
    spec = obj.get("spec") or {}
    yield from validate_required(spec, "leaseName", _SPEC)
    binary_version = spec.get("binaryVersion") or ""
    emulation_version = spec.get("emulationVersion") or ""
    not_semantic = "must be a valid semantic version"
    if emulation_version and _parse_version(emulation_version) is None:
        yield invalid(_SPEC / "emulationVersion", emulation_version, not_semantic)
    if not binary_version:
        yield required(_SPEC / "binaryVersion")
    elif _parse_version(binary_version) is None:
        yield invalid(_SPEC / "binaryVersion", binary_version, not_semantic)
    if (
        binary_version
        and emulation_version
        and (_parse_version(binary_version) or _ZERO) < (_parse_version(emulation_version) or _ZERO)
    ):
        detail = "must be greater than or equal to `emulationVersion`"
        yield invalid(_SPEC / "binaryVersion", binary_version, detail)
    strategy = spec.get("strategy") or ""
    if not strategy:
        yield required(_SPEC / "strategy")
        return
    if strategy in _STRATEGIES and (_parse_version(emulation_version) or _ZERO) == _ZERO:
        detail = f"must be specified when `strategy` is '{strategy}'"
        yield required(_SPEC / "emulationVersion", detail)
    yield from _validate_strategy(strategy)


def _parse_version(text: str) -> _Version | None:
    """Return the sort key of a semantic version (numbers, whether it is a release, pre-release), or
    None if it is invalid."""
    match = _VERSION.fullmatch(text) if len(text) <= _VERSION_MAX else None
    if match is None:
        return None
    pre_release = match[4]
    parts = pre_release.split(".") if pre_release else ()
    ranks = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
    return tuple(int(match[part]) for part in (1, 2, 3)), not pre_release, ranks


def validate_candidate_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated candidate. Its lease is immutable."""
    yield from validate_candidate(new)
    lease_name, old_lease_name = (value_at(obj, "spec", "leaseName") or "" for obj in (new, old))
    yield from immutable(lease_name, old_lease_name, _SPEC / "leaseName")
