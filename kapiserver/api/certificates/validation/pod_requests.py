"""Validation of pod certificate requests and of their certificates.

The rule that a certificate starts within five minutes of the current time is not here, because it
needs a clock.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.certificates import keys, pem
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.core.validation.signers import validate_signer_name, validate_user_annotations
from kapiserver.api.errors import (
    OMITTED,
    FieldError,
    Path,
    invalid,
    not_supported_in_order,
    required,
    too_long,
)
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_SPEC, _STATUS = Path("spec"), Path("status")
_CHAIN = _STATUS / "certificateChain"
_STATES = ("Issued", "Denied", "Failed")
_UID_MAX = 128
_KEY_MAX = 10 * 1024
_CHAIN_MAX = 100 * 1024
_HOUR = 3600
_DAY = 24 * _HOUR
_REFRESH_MARGIN = timedelta(minutes=10)
_NANOSECOND = 1_000_000_000
_KUBERNETES = "kubernetes.io"
_NOT_A_KEY = "must be a valid PKIX-serialized public key"
_INVALID_PROOF = "could not verify proof-of-possession signature"
_MAIL = re.compile(r"[^\s@<>()\[\]\\,;:\"]+@[^\s@<>()\\,;:\"]+")


def validate_pod_request(obj: Tree) -> Iterator[FieldError]:
    """Validate a new pod certificate request."""
    spec = obj.get("spec") or {}
    signer = spec.get("signerName") or ""
    yield from validate_signer_name(signer, _SPEC / "signerName")
    annotations = spec.get("unverifiedUserAnnotations") or {}
    yield from validate_user_annotations(annotations, _SPEC / "unverifiedUserAnnotations")
    for kind in ("pod", "serviceAccount", "node"):
        name, uid = spec.get(f"{kind}Name") or "", spec.get(f"{kind}UID") or ""
        yield from validate_format(names.dns1123_subdomain, name, _SPEC / f"{kind}Name")
        if not uid:
            yield invalid(_SPEC / f"{kind}UID", uid, "must not be empty")
        if len(uid) > _UID_MAX:
            yield too_long(_SPEC / f"{kind}UID", _UID_MAX)
    seconds, seconds_path = spec.get("maxExpirationSeconds"), _SPEC / "maxExpirationSeconds"
    if seconds is None:
        yield required(seconds_path, "must be set")
        return
    domain = signer.partition("/")[0]
    is_kubernetes_signer = domain == _KUBERNETES or domain.endswith(f".{_KUBERNETES}")
    maximum = _DAY if is_kubernetes_signer else 91 * _DAY
    if not _HOUR <= seconds <= maximum:
        yield invalid(seconds_path, seconds, f"must be in the range [{_HOUR}, {maximum}]")
    yield from _validate_key(spec)


def _validate_key(spec: Tree) -> Iterator[FieldError]:
    fields = ("pkixPublicKey", "proofOfPossession", "stubPKCS10Request")
    contents = {name: base64.b64decode(spec.get(name) or "") for name in fields}
    for name, content in contents.items():
        if len(content) > _KEY_MAX:
            yield too_long(_SPEC / name, _KEY_MAX)
            return
    pkix, proof, stub = contents.values()
    if bool(stub) == bool(pkix or proof) or bool(pkix) != bool(proof):
        detail = (
            "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        )
        yield invalid(_SPEC, OMITTED, detail)
    elif stub:
        yield from _validate_stub_request(stub)
    else:
        yield from _validate_key_and_proof(
            pkix, proof, (spec.get("podUID") or "").encode("utf-8", "replace")
        )


def _validate_stub_request(stub: bytes) -> Iterator[FieldError]:
    path, request = _SPEC / "stubPKCS10Request", keys.parse_request(stub)
    if request is None:
        yield invalid(path, OMITTED, "must be a valid PKCS#10 CSR")
        return
    key = keys.parse_public_key(keys.public_key_of(request))
    value, detail = keys.key_problem(key) if key else (None, _NOT_A_KEY)
    if not detail and not keys.is_self_signed(request):
        value, detail = None, _INVALID_PROOF
    if detail:
        yield invalid(path, OMITTED if value is None else value, detail)


def _validate_key_and_proof(pkix: bytes, proof: bytes, uid: bytes) -> Iterator[FieldError]:
    path, key = _SPEC / "pkixPublicKey", keys.parse_public_key(pkix)
    value, detail = keys.key_problem(key) if key else (None, _NOT_A_KEY)
    if detail:
        yield invalid(path, base64.b64encode(pkix).decode() if value is None else value, detail)
    elif key and not keys.verify_signature(key, proof, uid):
        yield invalid(_SPEC / "proofOfPossession", OMITTED, _INVALID_PROOF)


def validate_pod_request_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate that the spec does not change."""
    yield from immutable(new.get("spec"), old.get("spec"), _SPEC)


def validate_pod_request_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated status. A request reaches one final state, which is immutable."""
    conditions = value_at(new, "status", "conditions")
    errors = [
        *_validate_state_conditions(new),
        *validate_conditions(conditions, _STATUS / "conditions"),
    ]
    yield from errors
    if errors:
        return
    status, old_status = _nonempty_status_fields(new), _nonempty_status_fields(old)
    types = {condition.get("type") for condition in conditions or ()}
    detail = ""
    if old_status.get("conditions"):
        if status != old_status:
            detail = "immutable after PodCertificateRequest is issued, denied, or failed"
    elif types.intersection(("Denied", "Failed")):
        if len(status) > 1:
            detail = (
                "non-condition status fields must be empty when denying or failing the "
                "PodCertificateRequest"
            )
    elif "Issued" in types:
        yield from _validate_issued_certificate(status, old.get("spec") or {})
    elif status != old_status:
        detail = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
    if detail:
        yield invalid(_STATUS, OMITTED, detail)


def _nonempty_status_fields(obj: Tree) -> Tree:
    return {name: value for name, value in (obj.get("status") or {}).items() if value}


def _validate_state_conditions(obj: Tree) -> Iterator[FieldError]:
    state_count = 0
    for index, condition in enumerate(value_at(obj, "status", "conditions") or ()):
        # As in kube-apiserver, these paths have a dot before the index.
        condition_path, type_ = _STATUS / "conditions" / f"[{index}]", condition.get("type") or ""
        if type_ not in _STATES:
            yield not_supported_in_order(condition_path / "type", type_, _STATES)
            continue
        state_count += 1
        if state_count > 1:
            detail = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            yield invalid(condition_path / "type", type_, detail)
        if condition.get("status") != "True":
            yield not_supported_in_order(
                condition_path / "status", condition.get("status") or "", ("True",)
            )


def _validate_issued_certificate(status: Tree, spec: Tree) -> Iterator[FieldError]:
    chain = status.get("certificateChain") or ""
    if len(chain.encode("utf-8", "replace")) > _CHAIN_MAX:
        yield too_long(_CHAIN, _CHAIN_MAX)
        return
    blocks = list(pem.parse_blocks(chain))
    leaf = pem.parse_certificate(blocks[0]) if blocks else None
    if leaf is None or blocks[0].type != "CERTIFICATE":
        yield invalid(_CHAIN, chain, _leaf_problem(blocks))
        return
    errors = list(_validate_names(leaf))
    yield from errors
    requested_key = _requested_key(spec)
    if not requested_key:
        pkix = spec.get("pkixPublicKey") or ""
        yield invalid(_SPEC / "pkixPublicKey", pkix, _NOT_A_KEY)
        return
    if requested_key != keys.public_key_of(leaf):
        yield invalid(_CHAIN, chain, "leaf certificate was not issued to the requested public key")
        return
    time_errors = list(_validate_times_present(status))
    yield from time_errors
    if errors or time_errors:
        return
    time_error = next(_validate_times(status, leaf, spec.get("maxExpirationSeconds") or 0), None)
    detail = _intermediate_problem(blocks[1:])
    if time_error is not None:
        yield time_error
    elif detail:
        yield invalid(_CHAIN, chain, detail)


def _leaf_problem(blocks: list[pem.Block]) -> str:
    if not blocks:
        return "issued certificate chain must contain at least one certificate"
    if blocks[0].type != "CERTIFICATE":
        return "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
    return "leaf certificate does not parse as valid X.509"


def _intermediate_problem(blocks: list[pem.Block]) -> str:
    for block in blocks:
        if block.type != "CERTIFICATE":
            # The spelling is kube-apiserver's.
            return "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
        if pem.parse_certificate(block) is None:
            return "intermediate certificate does not parse as valid X.509"
    return ""


def _validate_names(leaf: Certificate) -> Iterator[FieldError]:
    hosts, mail = pem.alternative_names(leaf)
    for host in hosts:
        if not host:
            yield invalid(_CHAIN, host, "leaf certificate should not contain empty DNSName")
        if ".." in host:
            detail = "leaf certificate's DNSName should not contain '..'"
            yield invalid(_CHAIN, host, detail)
        if host.startswith(".") or host.endswith("."):
            detail = "leaf certificate's DNSName should not start or end with '.'"
            yield invalid(_CHAIN, host, detail)
    for address in mail:
        if not _MAIL.fullmatch(address):
            detail = "leaf certificate should not contain invalid EmailAddress"
            yield invalid(_CHAIN, address, detail)


def _requested_key(spec: Tree) -> bytes:
    pkix = base64.b64decode(spec.get("pkixPublicKey") or "")
    if pkix:
        key = keys.parse_public_key(pkix)
        return keys.encode_key(key) if key else b""
    request = keys.parse_request(base64.b64decode(spec.get("stubPKCS10Request") or ""))
    return keys.public_key_of(request) if request else b""


def _validate_times_present(status: Tree) -> Iterator[FieldError]:
    for name in ("notBefore", "notAfter"):
        if not status.get(name):
            detail = "must be present and consistent with the issued certificate"
            yield required(_STATUS / name, detail)
    if not status.get("beginRefreshAt"):
        detail = "must be present and in the range [notbefore+10min, notafter-10min]"
        yield required(_STATUS / "beginRefreshAt", detail)


def _validate_times(status: Tree, leaf: Certificate, maximum: int) -> Iterator[FieldError]:
    begin, refresh, end = (
        datetime.fromisoformat(status[name]) for name in ("notBefore", "beginRefreshAt", "notAfter")
    )
    time_fields = (
        ("notBefore", begin, leaf.not_valid_before_utc, "NotBefore"),
        ("notAfter", end, leaf.not_valid_after_utc, "NotAfter"),
    )
    for name, time, certificate_time, certificate_field in time_fields:
        if time != certificate_time:
            detail = f"must be set to the {certificate_field} time encoded in the leaf certificate"
            yield invalid(_STATUS / name, status[name], detail)
    lifetime = int((end - begin).total_seconds())
    if lifetime < _HOUR:
        detail = "leaf certificate lifetime must be >= 1 hour"
        yield invalid(_CHAIN, lifetime * _NANOSECOND, detail)
    if lifetime > maximum:
        detail = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({maximum})"
        yield invalid(_CHAIN, lifetime * _NANOSECOND, detail)
    refresh_path, time = _STATUS / "beginRefreshAt", status["beginRefreshAt"]
    if refresh - begin < _REFRESH_MARGIN:
        yield invalid(refresh_path, time, "must be at least 10 minutes after status.notBefore")
    if end - refresh < _REFRESH_MARGIN:
        yield invalid(refresh_path, time, "must be at least 10 minutes before status.notAfter")
