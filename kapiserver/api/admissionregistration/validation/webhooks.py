"""Validation of webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kapiserver.api import names
from kapiserver.api.admissionregistration.validation.expressions import Expressions
from kapiserver.api.admissionregistration.validation.rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    validate_match_conditions,
    validate_rule_with_operations,
)
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, duplicate, invalid, not_supported, required
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.types import Tree
from kapiserver.api.webhooks import client_config

_HARMLESS = ("None", "NoneOnDryRun")
_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_REVIEWS = ("v1", "v1beta1")
REINVOCATION_POLICIES = ("IfNeeded", "Never")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """What webhooks are held to: all of it, or less where those before kept to less.

    conditions   whether match conditions are looked at
    """

    effects: Sequence[str] = _HARMLESS
    known_reviews: bool = True
    unique_names: bool = True
    conditions: bool = True


def validate_webhooks(obj: Tree) -> Iterator[FieldError]:
    """The webhooks of a new configuration."""
    return _validate_webhooks(obj, _Rules())


def validate_webhooks_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Those of a changed one: what was wrong with webhooks before is borne."""
    old_webhooks = old.get("webhooks") or ()
    reviews = [one.get("admissionReviewVersions") or () for one in old_webhooks]
    names_ = [one.get("name") for one in old_webhooks]
    harmless = all(one.get("sideEffects") in _HARMLESS for one in old_webhooks)
    rules = _Rules(
        effects=_HARMLESS if harmless else _EFFECTS,
        known_reviews=all(not review or set(_REVIEWS) & set(review) for review in reviews),
        unique_names=len(names_) == len(set(names_)),
        conditions=_conditions(new) != _conditions(old),
    )
    return _validate_webhooks(new, rules)


def _conditions(obj: Tree) -> list[list[Tree]]:
    return [webhook.get("matchConditions") or [] for webhook in obj.get("webhooks") or ()]


def _validate_webhooks(obj: Tree, rules: _Rules) -> Iterator[FieldError]:
    seen: set[str] = set()
    expressions = Expressions()
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        webhook_path, name = Path("webhooks")[index], webhook.get("name") or ""
        yield from _validate_webhook(webhook, rules.effects, webhook_path)
        if rules.conditions:
            given, field_path = webhook.get("matchConditions"), webhook_path / "matchConditions"
            yield from validate_match_conditions(given, expressions, field_path)
        reviews = webhook.get("admissionReviewVersions") or []
        field_path = webhook_path / "admissionReviewVersions"
        yield from _validate_review_versions(reviews, field_path)
        if reviews and rules.known_reviews and not set(_REVIEWS) & set(reviews):
            detail = f"must include at least one of {', '.join(_REVIEWS)}"
            yield invalid(field_path, list(reviews), detail)
        if rules.unique_names and name and name in seen:
            yield duplicate(webhook_path / "name", name)
        seen.add(name)


def _validate_webhook(webhook: Tree, effects: Sequence[str], path: Path) -> Iterator[FieldError]:
    yield from _qualified(webhook.get("name") or "", path / "name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from validate_rule_with_operations(rule, (path / "rules")[index])
    for name, allowed in (("failurePolicy", FAILURE_POLICIES), ("matchPolicy", MATCH_POLICIES)):
        if webhook.get(name) is not None and webhook[name] not in allowed:
            yield not_supported(path / name, webhook[name], allowed)
    given = webhook.get("sideEffects")
    if given is None:
        yield required(path / "sideEffects", f"must specify one of {', '.join(effects)}")
    elif given not in effects:
        yield not_supported(path / "sideEffects", given, effects)
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid(path / "timeoutSeconds", seconds, detail)
    for name in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(webhook.get(name), path / name)
    again = webhook.get("reinvocationPolicy")
    if again is not None and again not in REINVOCATION_POLICIES:
        yield not_supported(path / "reinvocationPolicy", again, REINVOCATION_POLICIES)
    yield from client_config(webhook.get("clientConfig") or {}, path / "clientConfig")


def _qualified(name: str, path: Path) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif messages := names.dns1123_subdomain(name):
        yield invalid(path, name, ",".join(messages))
    elif name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid(path, name, detail)


def _validate_review_versions(versions: Sequence[str], path: Path) -> Iterator[FieldError]:
    if not versions:
        yield required(path, f"must specify one of {', '.join(_REVIEWS)}")
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid(path[index], version, "duplicate version")
            continue
        seen.add(version)
        yield from validate_format(names.dns1035_label, version, path[index])
