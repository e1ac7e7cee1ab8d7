"""Validation of certificate signing requests, approvals and certificates.

As in kube-apiserver, an update may break a rule that the stored object breaks already.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kapiserver.api.accessors import value_at
from kapiserver.api.certificates import pem
from kapiserver.api.core.validation.signers import validate_signer_name
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kapiserver.api.types import Tree

LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
DECISIONS = ("Approved", "Denied")
_FINAL_CONDITIONS = ("Approved", "Denied", "Failed")
_SPEC = Path("spec")
_CONDITIONS = Path("status") / "conditions"
_CERTIFICATE = Path("status") / "certificate"
_SECONDS_MIN = 600
_STATUSES = ("False", "True", "Unknown")
_USAGES = frozenset(
    (
        "signing", "digital signature", "content commitment", "key encipherment",
        "key agreement", "data encipherment", "cert sign", "crl sign", "encipher only",
        "decipher only", "any", "server auth", "client auth", "code signing",
        "email protection", "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user",
        "timestamping", "ocsp signing", "microsoft sgc", "netscape sgc",
    )
)  # fmt: skip


class _Exemptions(Struct, frozen=True):
    """The rules that the stored object breaks already."""

    legacy_signer: bool = False
    repeated_types: bool = False
    nameless_types: bool = False
    any_certificate: bool = False
    repeated_usages: bool = False
    unknown_usages: bool = False


def _exemptions(new: Tree, old: Tree) -> _Exemptions:
    types, usages = _condition_types(old), value_at(old, "spec", "usages") or []
    certificate, old_certificate = _certificate(new), _certificate(old)
    return _Exemptions(
        legacy_signer=value_at(old, "spec", "signerName") == LEGACY_SIGNER,
        repeated_types=len(set(types)) < len(types),
        nameless_types="" in types,
        any_certificate=certificate == old_certificate
        or bool(_certificate_problem(old_certificate)),
        repeated_usages=len(set(usages)) < len(usages),
        unknown_usages=not _USAGES.issuperset(usages),
    )


def _condition_types(obj: Tree) -> list[str]:
    return [
        condition.get("type") or "" for condition in value_at(obj, "status", "conditions") or ()
    ]


def _certificate(obj: Tree) -> str:
    return value_at(obj, "status", "certificate") or ""


def validate_signing_request(obj: Tree) -> Iterator[FieldError]:
    """Validate a new request."""
    yield from _validate_request(obj, _Exemptions())


def validate_signing_request_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated request. Spec and status are immutable."""
    yield from _validate_request(new, _exemptions(new, old))
    yield from _validate_conditions_not_removed(new, old)
    yield from _validate_decisions_not_added(new, old)


def validate_signing_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated status. A certificate is immutable, and decisions cannot be added."""
    yield from validate_signing_request_update(new, old)
    old_certificate = _certificate(old)
    if old_certificate and _certificate(new) != old_certificate:
        yield forbidden(_CERTIFICATE, "updates may not modify existing certificate content")


def validate_approval_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated approval. Decisions cannot be removed."""
    yield from _validate_request(new, _exemptions(new, old))
    yield from _validate_conditions_not_removed(new, old)


def _validate_request(obj: Tree, exemptions: _Exemptions) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    request, signer = spec.get("request") or "", spec.get("signerName") or ""
    problem = pem.request_problem(_decode(request))
    if problem:
        yield invalid(_SPEC / "request", spec.get("request"), problem)
    yield from _validate_usages(spec.get("usages") or [], exemptions)
    if signer == LEGACY_SIGNER and not exemptions.legacy_signer:
        detail = "the legacy signerName is not allowed via this API version"
        yield invalid(_SPEC / "signerName", signer, detail)
    else:
        yield from validate_signer_name(signer, _SPEC / "signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SECONDS_MIN:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid(_SPEC / "expirationSeconds", seconds, detail)
    yield from _validate_conditions(value_at(obj, "status", "conditions") or (), exemptions)
    problem = "" if exemptions.any_certificate else _certificate_problem(_certificate(obj))
    if problem:
        yield invalid(_CERTIFICATE, "<certificate data>", problem)


def _decode(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode("latin-1")
    except binascii.Error:
        return ""


def _validate_usages(usages: Sequence[str], exemptions: _Exemptions) -> Iterator[FieldError]:
    path = _SPEC / "usages"
    if not usages:
        yield required(path)
    for index, usage in enumerate(usages):
        if usage not in _USAGES and not exemptions.unknown_usages:
            yield not_supported(path[index], usage, sorted(_USAGES))
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        if usage in seen and not exemptions.repeated_usages:
            yield duplicate(path[index], usage)
        seen.add(usage)


def _validate_conditions(
    conditions: Sequence[Tree], exemptions: _Exemptions
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        condition_path = _CONDITIONS[index]
        type_ = condition.get("type") or ""
        status = condition.get("status") or ""
        if not (type_ or exemptions.nameless_types):
            yield required(condition_path / "type")
        statuses = ("True",) if type_ in _FINAL_CONDITIONS else _STATUSES
        if not status:
            yield required(condition_path / "status")
        elif status not in statuses:
            yield not_supported(condition_path / "status", status, statuses)
        if type_ in seen and not exemptions.repeated_types:
            yield duplicate(condition_path / "type", type_)
        seen.add(type_)


def _certificate_problem(encoded: str) -> str:
    if not encoded:
        return ""
    blocks = list(pem.parse_blocks(_decode(encoded)))
    for block in blocks:
        if block.type != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        if pem.parse_certificate(block) is None:
            return "x509: malformed certificate"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


def _validate_conditions_not_removed(new: Tree, old: Tree) -> Iterator[FieldError]:
    for type_ in _FINAL_CONDITIONS:
        if _condition_types(new).count(type_) < _condition_types(old).count(type_):
            yield forbidden(_CONDITIONS, f'updates may not remove a condition of type "{type_}"')


def _validate_decisions_not_added(new: Tree, old: Tree) -> Iterator[FieldError]:
    for type_ in DECISIONS:
        if _condition_types(new).count(type_) > _condition_types(old).count(type_):
            yield forbidden(_CONDITIONS, f'updates may not add a condition of type "{type_}"')
