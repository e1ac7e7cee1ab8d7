"""Validation of the conversion between versions of a definition."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.types import Tree
from kapiserver.api.webhooks import validate_client_config

REVIEW_VERSIONS = ("v1", "v1beta1")
"""The supported versions of ConversionReview."""
_STRATEGIES = ("None", "Webhook")
_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----"
)


def validate_conversion(
    conversion: Tree, old: Tree | None, path: Path, *, checks_bundle: bool
) -> Iterator[FieldError]:
    """Yield the errors of a conversion; `old` is the stored one."""
    strategy = conversion.get("strategy") or ""
    if not strategy:
        yield required(path / "strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported(path / "strategy", strategy, _STRATEGIES)
    webhook = conversion.get("webhook") or {}
    config = webhook.get("clientConfig")
    versions: list[str] = webhook.get("conversionReviewVersions") or []
    config_path = path / "webhookClientConfig"
    if strategy == "Webhook":
        if config is None:
            yield required(config_path, "required when strategy is set to Webhook")
        else:
            yield from _client(config, old, config_path, checks_bundle=checks_bundle)
        old_versions = ((old or {}).get("webhook") or {}).get("conversionReviewVersions") or []
        require_supported = not old_versions or bool(set(old_versions) & set(REVIEW_VERSIONS))
        yield from _review_versions(
            versions, path / "conversionReviewVersions", require_supported=require_supported
        )
        return
    detail = "should not be set when strategy is not set to Webhook"
    if config is not None:
        yield forbidden(config_path, detail)
    if versions:
        yield forbidden(path / "conversionReviewVersions", detail)


def _review_versions(
    versions: list[str], path: Path, *, require_supported: bool
) -> Iterator[FieldError]:
    if not versions:
        yield required(path)
        return
    unique_versions: set[str] = set()
    for index, version in enumerate(versions):
        if version in unique_versions:
            yield invalid(path[index], version, "duplicate version")
            continue
        unique_versions.add(version)
        yield from (invalid(path[index], version, text) for text in names.dns1035_label(version))
    if require_supported and not unique_versions & set(REVIEW_VERSIONS):
        detail = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        yield invalid(path, versions, detail)


def _client(
    config: Tree, old: Tree | None, path: Path, *, checks_bundle: bool
) -> Iterator[FieldError]:
    yield from validate_client_config(config, path)
    bundle = config.get("caBundle") or ""
    old_bundle = (((old or {}).get("webhook") or {}).get("clientConfig") or {}).get(
        "caBundle"
    ) or ""
    if (
        bundle
        and checks_bundle
        and not _is_bundle(bundle)
        and (not old_bundle or _is_bundle(old_bundle))
    ):
        detail = "unable to load root certificates: unable to parse bytes as PEM block"
        yield invalid(path / "caBundle", bundle, detail)


def _is_bundle(text: str) -> bool:
    try:
        return _CERTIFICATE.search(binascii.a2b_base64(text)) is not None
    except (binascii.Error, ValueError):
        return False
