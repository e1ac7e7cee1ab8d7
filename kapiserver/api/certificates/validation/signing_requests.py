"""Validation of signing requests: what is asked for, and what becomes of it.

A rule that stored data already breaks is not held against its update, as upstream has it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
_FINAL = ("Approved", "Denied", "Failed")
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


@dataclass(frozen=True, slots=True)
class _Allowed:
    """The rules that the stored object breaks already."""

    legacy_signer: bool = False
    repeated_types: bool = False
    nameless_types: bool = False
    any_certificate: bool = False
    repeated_usages: bool = False
    unknown_usages: bool = False


def _allowed(new: Tree, old: Tree) -> _Allowed:
    types, usages = _types(old), value_at(old, "spec", "usages") or []
    given, before = _certificate(new), _certificate(old)
    return _Allowed(
        legacy_signer=value_at(old, "spec", "signerName") == LEGACY_SIGNER,
        repeated_types=len(set(types)) < len(types),
        nameless_types="" in types,
        any_certificate=given == before or bool(_wrong_with_certificate(before)),
        repeated_usages=len(set(usages)) < len(usages),
        unknown_usages=not _USAGES.issuperset(usages),
    )


def _types(obj: Tree) -> list[str]:
    return [
        condition.get("type") or "" for condition in value_at(obj, "status", "conditions") or ()
    ]


def _certificate(obj: Tree) -> str:
    return value_at(obj, "status", "certificate") or ""


def validate_signing_request(obj: Tree) -> Iterator[FieldError]:
    """Validate a new request."""
    yield from _whole(obj, _Allowed())


def validate_signing_request_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Metadata alone changes: spec and status are kept."""
    yield from _whole(new, _allowed(new, old))
    yield from _unremoved(new, old)
    yield from _kept_decisions(new, old)


def validate_signing_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the signer reports: a certificate once, and no decision."""
    yield from validate_signing_request_update(new, old)
    before = _certificate(old)
    if before and _certificate(new) != before:
        yield forbidden(_CERTIFICATE, "updates may not modify existing certificate content")


def validate_approval_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A decision: it is made once."""
    yield from _whole(new, _allowed(new, old))
    yield from _unremoved(new, old)


def _whole(obj: Tree, allowed: _Allowed) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    request, signer = spec.get("request") or "", spec.get("signerName") or ""
    wrong = pem.wrong_with_request(_text(request))
    if wrong:
        yield invalid(_SPEC / "request", request, wrong)
    yield from _validate_usages(spec.get("usages") or [], allowed)
    if signer == LEGACY_SIGNER and not allowed.legacy_signer:
        detail = "the legacy signerName is not allowed via this API version"
        yield invalid(_SPEC / "signerName", signer, detail)
    else:
        yield from validate_signer_name(signer, _SPEC / "signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SECONDS_MIN:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid(_SPEC / "expirationSeconds", seconds, detail)
    yield from _validate_conditions(value_at(obj, "status", "conditions") or (), allowed)
    wrong = "" if allowed.any_certificate else _wrong_with_certificate(_certificate(obj))
    if wrong:
        yield invalid(_CERTIFICATE, "<certificate data>", wrong)


def _text(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode("latin-1")
    except binascii.Error:
        return ""


def _validate_usages(usages: Sequence[str], allowed: _Allowed) -> Iterator[FieldError]:
    path = _SPEC / "usages"
    if not usages:
        yield required(path)
    for index, usage in enumerate(usages):
        if usage not in _USAGES and not allowed.unknown_usages:
            yield not_supported(path[index], usage, sorted(_USAGES))
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        if usage in seen and not allowed.repeated_usages:
            yield duplicate(path[index], usage)
        seen.add(usage)


def _validate_conditions(conditions: Sequence[Tree], allowed: _Allowed) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, one in enumerate(conditions):
        item_path = _CONDITIONS[index]
        type_ = one.get("type") or ""
        status = one.get("status") or ""
        if not (type_ or allowed.nameless_types):
            yield required(item_path / "type")
        statuses = ("True",) if type_ in _FINAL else _STATUSES
        if not status:
            yield required(item_path / "status")
        elif status not in statuses:
            yield not_supported(item_path / "status", status, statuses)
        if type_ in seen and not allowed.repeated_types:
            yield duplicate(item_path / "type", type_)
        seen.add(type_)


def _wrong_with_certificate(encoded: str) -> str:
    if not encoded:
        return ""
    found = list(pem.blocks(_text(encoded)))
    for block in found:
        if block.type != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        if pem.certificate(block) is None:
            return "x509: malformed certificate"
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def _unremoved(new: Tree, old: Tree) -> Iterator[FieldError]:
    for type_ in _FINAL:
        if _types(new).count(type_) < _types(old).count(type_):
            yield forbidden(_CONDITIONS, f'updates may not remove a condition of type "{type_}"')


def _kept_decisions(new: Tree, old: Tree) -> Iterator[FieldError]:
    for type_ in DECISIONS:
        if _types(new).count(type_) > _types(old).count(type_):
            yield forbidden(_CONDITIONS, f'updates may not add a condition of type "{type_}"')
