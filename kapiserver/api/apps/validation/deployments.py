"""Rules for deployments."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.apps.validation.replica_sets import replicated_pods
from kapiserver.api.core.validation.common import not_negative
from kapiserver.api.core.validation.controllers import (
    at_most,
    at_most_whole,
    counts,
    int_or_percent,
    is_nothing,
    not_decremented,
)
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_among, required
from kapiserver.api.metadata import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")


def deployment(obj: Tree) -> Iterator[FieldError]:
    """A deployment, new or changed."""
    spec = obj.get("spec") or {}
    yield from not_negative(spec, "replicas", _SPEC)
    yield from replicated_pods(spec)
    yield from _strategy(spec.get("strategy") or {}, _SPEC / "strategy")
    for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from not_negative(spec, name, _SPEC)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        detail = "must be greater than minReadySeconds"
        yield invalid(_SPEC / "progressDeadlineSeconds", deadline, detail)


def _strategy(strategy: Tree, path: Path) -> Iterator[FieldError]:
    type_, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if type_ == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden(path / "rollingUpdate", detail)
    elif type_ == "RollingUpdate":
        if rolling is None:
            detail = "this should be defaulted and never be nil"
            yield required(path / "rollingUpdate", detail)
        else:
            yield from _rolling(rolling, path / "rollingUpdate")
    else:
        # Fields as Go spells them: the inner types have no names of their own.
        shown = rolling and {
            "MaxUnavailable": rolling.get("maxUnavailable") or 0,
            "MaxSurge": rolling.get("maxSurge") or 0,
        }
        strategies = ("Recreate", "RollingUpdate")
        yield not_among(path, {"Type": type_, "RollingUpdate": shown}, strategies)


def _rolling(rolling: Tree, path: Path) -> Iterator[FieldError]:
    missing, surge = rolling.get("maxUnavailable") or 0, rolling.get("maxSurge") or 0
    yield from int_or_percent(missing, path / "maxUnavailable")
    yield from int_or_percent(surge, path / "maxSurge")
    if is_nothing(missing) and is_nothing(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        yield invalid(path / "maxUnavailable", missing, detail)
    yield from at_most_whole(missing, path / "maxUnavailable")


def changed_deployment(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A changed deployment: its selector stays."""
    yield from deployment(new)
    selector = (new.get("spec") or {}).get("selector")
    before = (old.get("spec") or {}).get("selector")
    yield from immutable(selector, before, _SPEC / "selector")


_COUNTS = (
    "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
    "unavailableReplicas", "terminatingReplicas", "collisionCount",
)  # fmt: skip


def changed_deployment_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the controller reports."""
    status, before = new.get("status") or {}, old.get("status") or {}
    yield from counts(status, _COUNTS)
    yield from at_most(
        status,
        (
            ("updatedReplicas", "replicas"),
            ("readyReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ),
    )
    yield from not_decremented(status, before, "collisionCount")
