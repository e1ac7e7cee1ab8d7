"""The rules for how objects of a definition get from version to version."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from kapiserver.api import names
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.types import Tree

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
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, path / "url")
    elif service is not None:
        yield from _service(service, path / "service")
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


def _url(text: str, path: Path) -> Iterator[FieldError]:
    form = "; desired format: https://host[/path]"
    try:
        found = urlsplit(text)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{form}")
        return
    if found.scheme != "https":
        words = f"'https' is the only allowed URL scheme{form}"
        yield invalid(path, found.scheme, words)
    if not found.netloc:
        yield invalid(path, found.netloc, f"host must be specified{form}")
    if found.username is not None:
        yield invalid(path, found.username, "user information is not permitted in the URL")
    if found.fragment:
        yield invalid(path, found.fragment, "fragments are not permitted in the URL")
    if found.query:
        yield invalid(path, found.query, "query parameters are not permitted in the URL")


def _service(service: Tree, path: Path) -> Iterator[FieldError]:
    if not service["name"]:
        yield required(path / "name", "service name is required")
    if not service["namespace"]:
        yield required(path / "namespace", "service namespace is required")
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        yield invalid(path / "port", port, "port is not valid: " + names.port_number(port)[0])
    where = service.get("path")
    if where is None:
        return
    if where == "/":
        return
    if not where.startswith("/"):
        yield invalid(path / "path", where, "must start with a '/'")
    for index, step in enumerate(where[1:].rstrip("/").split("/")):
        for text in names.dns1123_subdomain(step) if step else ("must be non-empty",):
            yield invalid(path / "path", where, f"segment[{index}]: {text}")
