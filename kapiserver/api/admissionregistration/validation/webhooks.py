"""Validation of webhook configurations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

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
from kapiserver.api.webhooks import validate_client_config

_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_REVIEW_VERSIONS = ("v1", "v1beta1")
REINVOCATION_POLICIES = ("IfNeeded", "Never")


class _WebhookRules(Struct, frozen=True, kw_only=True):
    """The rules for webhooks. An update may break rules that the stored webhooks break.

    match_conditions  whether match conditions are validated
    """

    side_effects: Sequence[str] = _NO_SIDE_EFFECTS
    known_review_version: bool = True
    unique_names: bool = True
    match_conditions: bool = True


def validate_webhooks(obj: Tree) -> Iterator[FieldError]:
    """Validate a new webhook configuration."""
    return _validate_webhooks(obj, _WebhookRules())


def validate_webhooks_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated webhook configuration. Rules that the old webhooks break are relaxed."""
    old_webhooks = old.get("webhooks") or ()
    version_lists = [webhook.get("admissionReviewVersions") or () for webhook in old_webhooks]
    webhook_names = [webhook.get("name") for webhook in old_webhooks]
    has_no_side_effects = all(
        webhook.get("sideEffects") in _NO_SIDE_EFFECTS for webhook in old_webhooks
    )
    rules = _WebhookRules(
        side_effects=_NO_SIDE_EFFECTS if has_no_side_effects else _SIDE_EFFECTS,
        known_review_version=all(
            not versions or set(_REVIEW_VERSIONS) & set(versions) for versions in version_lists
        ),
        unique_names=len(webhook_names) == len(set(webhook_names)),
        match_conditions=_match_conditions(new) != _match_conditions(old),
    )
    return _validate_webhooks(new, rules)


def _match_conditions(obj: Tree) -> list[list[Tree]]:
    return [webhook.get("matchConditions") or [] for webhook in obj.get("webhooks") or ()]


def _validate_webhooks(obj: Tree, rules: _WebhookRules) -> Iterator[FieldError]:
    seen: set[str] = set()
    expressions = Expressions()
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        webhook_path, name = Path("webhooks")[index], webhook.get("name") or ""
        yield from _validate_webhook(webhook, rules.side_effects, webhook_path)
        if rules.match_conditions:
            conditions = webhook.get("matchConditions")
            field_path = webhook_path / "matchConditions"
            yield from validate_match_conditions(conditions, expressions, field_path)
        review_versions = webhook.get("admissionReviewVersions") or []
        field_path = webhook_path / "admissionReviewVersions"
        yield from _validate_review_versions(review_versions, field_path)
        if (
            review_versions
            and rules.known_review_version
            and not set(_REVIEW_VERSIONS) & set(review_versions)
        ):
            detail = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
            yield invalid(field_path, list(review_versions), detail)
        if rules.unique_names and name and name in seen:
            yield duplicate(webhook_path / "name", name)
        seen.add(name)


def _validate_webhook(webhook: Tree, effects: Sequence[str], path: Path) -> Iterator[FieldError]:
    yield from _validate_qualified_name(webhook.get("name") or "", path / "name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from validate_rule_with_operations(rule, (path / "rules")[index])
    for name, allowed in (("failurePolicy", FAILURE_POLICIES), ("matchPolicy", MATCH_POLICIES)):
        if webhook.get(name) is not None and webhook[name] not in allowed:
            yield not_supported(path / name, webhook[name], allowed)
    side_effects = webhook.get("sideEffects")
    if side_effects is None:
        yield required(path / "sideEffects", f"must specify one of {', '.join(effects)}")
    elif side_effects not in effects:
        yield not_supported(path / "sideEffects", side_effects, effects)
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid(path / "timeoutSeconds", seconds, detail)
    for name in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(webhook.get(name), path / name)
    reinvocation = webhook.get("reinvocationPolicy")
    if reinvocation is not None and reinvocation not in REINVOCATION_POLICIES:
        yield not_supported(path / "reinvocationPolicy", reinvocation, REINVOCATION_POLICIES)
    yield from validate_client_config(webhook.get("clientConfig") or {}, path / "clientConfig")


def _validate_qualified_name(name: str, path: Path) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif messages := names.dns1123_subdomain(name):
        yield invalid(path, name, ",".join(messages))
    elif name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid(path, name, detail)


def _validate_review_versions(versions: Sequence[str], path: Path) -> Iterator[FieldError]:
    if not versions:
        yield required(path, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid(path[index], version, "duplicate version")
            continue
        seen.add(version)
        yield from validate_format(names.dns1035_label, version, path[index])
