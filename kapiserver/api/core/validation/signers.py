"""Validation of signer names, and of the names of their trust bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kapiserver.api import names
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, invalid, required, too_long
from kapiserver.api.metadata_validation import ANNOTATIONS_MAX


def validate_signer_name(name: str, path: Path) -> Iterator[FieldError]:
    """Validate a signer name: a domain and a path."""
    if not name:
        yield required(path)
        return
    domain, slash, signer_path = name.partition("/")
    if not slash or "/" in signer_path:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, name, detail)
        return
    if len(domain) > names.SUBDOMAIN_MAX:
        yield too_long(path, names.SUBDOMAIN_MAX)
    yield from _validate_dns_labels(domain, names.dns1123_label, path)
    if "." not in domain:
        detail = "should be a domain with at least two segments separated by dots"
        yield invalid(path, domain, detail)
    yield from _validate_dns_labels(signer_path, names.dns1123_subdomain, path)
    maximum = 2 * names.SUBDOMAIN_MAX + names.LABEL_MAX + 2
    if len(name) > maximum:
        yield too_long(path, maximum)


def validate_user_annotations(annotations: Mapping[str, str], path: Path) -> Iterator[FieldError]:
    """Validate annotations for a signer. Their keys must have a domain."""
    for key in annotations:
        name = key.lower()
        if not name:
            yield required(path)
            continue
        errors = list(validate_format(names.qualified_name, name, path))
        yield from errors
        if not errors and "/" not in name:
            yield invalid(path, name, 'must be a domain-prefixed key (such as "acme.io/foo")')
    sizes = (len(f"{key}{value}".encode("utf-8", "replace")) for key, value in annotations.items())
    if sum(sizes) > ANNOTATIONS_MAX:
        yield too_long(path, ANNOTATIONS_MAX)


def _validate_dns_labels(text: str, check: names.Check, path: Path) -> Iterator[FieldError]:
    for label in text.split("."):
        messages = check(label)
        for message in messages:
            yield invalid(path, text, f'validating label "{label}": {message}')
        if messages:
            return


def trust_bundle_name_problems(name: str, signer: str) -> list[str]:
    """Return the messages about the name of a trust bundle. `signer` is empty for a bundle without
    a signer."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return names.dns1123_subdomain(name)
    prefix = f"{signer.replace('/', ':')}:"
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return names.dns1123_subdomain(name.removeprefix(prefix))
