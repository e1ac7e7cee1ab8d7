"""Rules for the kinds of the apps group. Mirrors pkg/apis/apps/validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kapiserver.api import names
from kapiserver.api.core.validation.common import not_negative
from kapiserver.api.core.validation.pods import pod_template
from kapiserver.api.errors import (
    BadObject,
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kapiserver.api.label_selectors import (
    selection_of,
    selects_everything,
    validate_label_selector,
)
from kapiserver.api.metadata import immutable
from kapiserver.api.objects import labels_of
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUS = Path("status")


def deployment(obj: Tree) -> Iterator[FieldError]:
    """A deployment, new or changed."""
    spec = obj.get("spec") or {}
    yield from not_negative(spec, "replicas", _SPEC)
    selector = spec.get("selector")
    if selector is None:
        yield required(_SPEC / "selector")
    else:
        yield from validate_label_selector(selector, _SPEC / "selector")
        if selects_everything(selector):
            detail = "empty selector is invalid for deployment"
            yield invalid(_SPEC / "selector", selector, detail)
    try:
        selection = selection_of(selector)
    except BadObject:
        yield invalid(_SPEC / "selector", selector, "invalid label selector")
    else:
        template = spec.get("template") or {}
        selects = selection is not None and selection.matches(labels_of(template), {})
        yield from replicated_template(template, _SPEC / "template", selects=selects)
    yield from _strategy(spec.get("strategy") or {}, _SPEC / "strategy")
    for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from not_negative(spec, name, _SPEC)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        detail = "must be greater than minReadySeconds"
        yield invalid(_SPEC / "progressDeadlineSeconds", deadline, detail)


def replicated_template(template: Tree, path: Path, *, selects: bool) -> Iterator[FieldError]:
    """The template of a controller that keeps pods running, and which its selector must select."""
    if not selects:
        labels: Mapping[str, str] = labels_of(template)
        detail = "`selector` does not match template `labels`"
        yield invalid(path / "metadata" / "labels", dict(labels), detail)
    yield from pod_template(template, path)
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        yield not_supported(path / "spec" / "restartPolicy", policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield forbidden(path / "spec" / "activeDeadlineSeconds", detail)


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
        yield not_supported(path / "type", type_, ("Recreate", "RollingUpdate"))


def _rolling(rolling: Tree, path: Path) -> Iterator[FieldError]:
    missing, surge = rolling.get("maxUnavailable") or 0, rolling.get("maxSurge") or 0
    yield from int_or_percent(missing, path / "maxUnavailable")
    yield from int_or_percent(surge, path / "maxSurge")
    if _is_nothing(missing) and _is_nothing(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        yield invalid(path / "maxUnavailable", missing, detail)
    if isinstance(missing, str) and not names.percent(missing) and _percent(missing) > 100:
        yield invalid(path / "maxUnavailable", missing, "must not be greater than 100%")


def int_or_percent(value: Any, path: Path) -> Iterator[FieldError]:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        for message in names.percent(value):
            yield invalid(path, value, message)
    elif value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")


def _is_nothing(value: Any) -> bool:
    if isinstance(value, str):
        return bool(names.percent(value)) or _percent(value) == 0
    return bool(value == 0)


def _percent(text: str) -> int:
    # As many digits as matter: more are over any bound.
    digits = text[:-1].lstrip("0")
    return int(digits[:9] or "0")


def changed_deployment(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A changed deployment: its selector stays."""
    yield from deployment(new)
    selector = (new.get("spec") or {}).get("selector")
    before = (old.get("spec") or {}).get("selector")
    yield from immutable(selector, before, _SPEC / "selector")


_COUNTS = (
    "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
    "unavailableReplicas", "collisionCount",
)  # fmt: skip


def changed_deployment_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the controller reports."""
    status, before = new.get("status") or {}, old.get("status") or {}
    for name in _COUNTS:
        yield from not_negative(status, name, _STATUS)
    for small, big in (
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ):
        value = status.get(small) or 0
        if value > (status.get(big) or 0):
            shown = "status.replicas" if big == "replicas" else big
            yield invalid(_STATUS / small, value, f"cannot be greater than {shown}")
    count, was = status.get("collisionCount"), before.get("collisionCount")
    if was is not None and (count is None or count < was):
        yield invalid(_STATUS / "collisionCount", count, "cannot be decremented")
