"""The rules for how objects of a definition get from version to version."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.types import Tree
from kapiserver.api.webhooks import client_config

REVIEW_VERSIONS = ("v1", "v1beta1")
"""Versions of ConversionReview that somebody may speak."""
_STRATEGIES = ("None", "Webhook")
_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----"
)


def conversion(
    found: Tree, old: Tree | None, path: Path, *, checks_bundle: bool
) -> Iterator[FieldError]:
    """The rules for a conversion, `old` the one before."""
    strategy = found.get("strategy") or ""
    if not strategy:
        yield required(path / "strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported(path / "strategy", strategy, _STRATEGIES)
    webhook = found.get("webhook") or {}
    config = webhook.get("clientConfig")
    versions: list[str] = webhook.get("conversionReviewVersions") or []
    at = path / "webhookClientConfig"
    if strategy == "Webhook":
        if config is None:
            yield required(at, "required when strategy is set to Webhook")
        else:
            yield from _client(config, old, at, checks_bundle=checks_bundle)
        before = ((old or {}).get("webhook") or {}).get("conversionReviewVersions") or []
        known = not before or bool(set(before) & set(REVIEW_VERSIONS))
        yield from _review_versions(versions, path / "conversionReviewVersions", known=known)
        return
    words = "should not be set when strategy is not set to Webhook"
    if config is not None:
        yield forbidden(at, words)
    if versions:
        yield forbidden(path / "conversionReviewVersions", words)


def _review_versions(versions: list[str], path: Path, *, known: bool) -> Iterator[FieldError]:
    if not versions:
        yield required(path)
        return
    seen: set[str] = set()
    for index, one in enumerate(versions):
        if one in seen:
            yield invalid(path[index], one, "duplicate version")
            continue
        seen.add(one)
        yield from (invalid(path[index], one, text) for text in names.dns1035_label(one))
    if known and not seen & set(REVIEW_VERSIONS):
        words = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        yield invalid(path, versions, words)


def _client(
    config: Tree, old: Tree | None, path: Path, *, checks_bundle: bool
) -> Iterator[FieldError]:
    yield from client_config(config, path)
    bundle = config.get("caBundle") or ""
    before = (((old or {}).get("webhook") or {}).get("clientConfig") or {}).get("caBundle") or ""
    if bundle and checks_bundle and not _is_bundle(bundle) and (not before or _is_bundle(before)):
        words = "unable to load root certificates: unable to parse bytes as PEM block"
        yield invalid(path / "caBundle", bundle, words)


def _is_bundle(text: str) -> bool:
    try:
        return _CERTIFICATE.search(binascii.a2b_base64(text)) is not None
    except (binascii.Error, ValueError):
        return False
