"""Rules for requests for certificates and for bundles of trusted ones.

Mirrors pkg/apis/certificates/validation.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.certificates import pem
from kapiserver.api.core.validation.common import checked
from kapiserver.api.core.validation.conditions import conditions
from kapiserver.api.core.validation.signers import signer_name, wrong_with_bundle_name
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kapiserver.api.metadata import immutable
from kapiserver.api.objects import name_of, value_at
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


# Signing requests.


def signing_request(obj: Tree) -> Iterator[FieldError]:
    """A new request."""
    yield from _request(obj)
    yield from _usages(value_at(obj, "spec", "usages") or [])
    yield from _rest(obj)


def _request(obj: Tree) -> Iterator[FieldError]:
    request = value_at(obj, "spec", "request") or ""
    wrong = pem.wrong_with_request(_text(request))
    if wrong:
        yield invalid(_SPEC / "request", request, wrong)


def _text(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode("latin-1")
    except binascii.Error:
        return ""


def _usages(usages: Sequence[str]) -> Iterator[FieldError]:
    path = _SPEC / "usages"
    if not usages:
        yield required(path)
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield not_supported(path[index], usage, sorted(_USAGES))
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        if usage in seen:
            yield duplicate(path[index], usage)
        seen.add(usage)


def _rest(obj: Tree) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    signer, seconds = spec.get("signerName") or "", spec.get("expirationSeconds")
    if signer == LEGACY_SIGNER:
        detail = "the legacy signerName is not allowed via this API version"
        yield invalid(_SPEC / "signerName", signer, detail)
    else:
        yield from signer_name(signer, _SPEC / "signerName")
    if seconds is not None and seconds < _SECONDS_MIN:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid(_SPEC / "expirationSeconds", seconds, detail)
    yield from _decisions(value_at(obj, "status", "conditions") or ())


def _decisions(found: Sequence[Tree]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, one in enumerate(found):
        at, type_, status = _CONDITIONS[index], one.get("type") or "", one.get("status") or ""
        if not type_:
            yield required(at / "type")
        allowed = ("True",) if type_ in _FINAL else _STATUSES
        if not status:
            yield required(at / "status")
        elif status not in allowed:
            yield not_supported(at / "status", status, allowed)
        if type_ in DECISIONS and seen.intersection(DECISIONS) - {type_}:
            detail = "Approved and Denied conditions are mutually exclusive"
            yield invalid(_CONDITIONS, type_, detail)
        if type_ in seen:
            yield duplicate(at / "type", type_)
        seen.add(type_)


def changed_signing_request(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Metadata alone changes: spec and status are kept."""
    yield from _rest(new)
    yield from _kept_decisions(new, old)


def changed_signing_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the signer reports: a certificate once, and no decision."""
    yield from _rest(new)
    yield from _unremoved(new, old)
    yield from _kept_decisions(new, old)
    given, before = (value_at(one, "status", "certificate") or "" for one in (new, old))
    if given == before:
        return
    wrong = _wrong_with_certificate(_text(given)) if given else ""
    if wrong:
        yield invalid(_CERTIFICATE, "<certificate data>", wrong)
    if before:
        yield forbidden(_CERTIFICATE, "updates may not modify existing certificate content")


def changed_approval(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A decision: it is made once."""
    yield from _rest(new)
    yield from _unremoved(new, old)


def _of_type(obj: Tree, type_: str) -> list[Tree]:
    found = value_at(obj, "status", "conditions") or ()
    return [one for one in found if one.get("type") == type_]


def _unremoved(new: Tree, old: Tree) -> Iterator[FieldError]:
    for type_ in _FINAL:
        if len(_of_type(new, type_)) < len(_of_type(old, type_)):
            yield forbidden(_CONDITIONS, f'updates may not remove a condition of type "{type_}"')


def _kept_decisions(new: Tree, old: Tree) -> Iterator[FieldError]:
    for type_ in DECISIONS:
        if len(_of_type(new, type_)) > len(_of_type(old, type_)):
            yield forbidden(_CONDITIONS, f'updates may not add a condition of type "{type_}"')


def _wrong_with_certificate(text: str) -> str:
    found = list(pem.blocks(text))
    for block in found:
        if block.type != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        if pem.certificate(block) is None:
            return "x509: malformed certificate"
    return "" if found else "must contain at least one CERTIFICATE PEM block"


# Bundles of trusted certificates.

_BUNDLE_MAX = 1 << 20
_OMITTED = "<value omitted>"


def trust_bundle(obj: Tree) -> Iterator[FieldError]:
    """A new bundle."""
    yield from _bundle_names(obj)
    yield from _anchors(value_at(obj, "spec", "trustBundle") or "", _SPEC / "trustBundle")


def changed_trust_bundle(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A bundle that is to be changed: it stays its signer's."""
    yield from _bundle_names(new)
    bundle, before = (value_at(one, "spec", "trustBundle") or "" for one in (new, old))
    if bundle != before:
        yield from _anchors(bundle, _SPEC / "trustBundle")
    signer, kept = (value_at(one, "spec", "signerName") or "" for one in (new, old))
    yield from immutable(signer, kept, _SPEC / "signerName")


def _bundle_names(obj: Tree) -> Iterator[FieldError]:
    name, signer = name_of(obj), value_at(obj, "spec", "signerName") or ""
    for message in wrong_with_bundle_name(name, signer) if name else ():
        yield invalid(Path("metadata") / "name", name, message)
    if signer:
        yield from signer_name(signer, _SPEC / "signerName")


def _anchors(text: str, path: Path) -> Iterator[FieldError]:
    if len(text) > _BUNDLE_MAX:
        yield too_long(path, _BUNDLE_MAX)
        return
    places: dict[bytes, list[int]] = {}
    wrong = []
    for index, block in enumerate(pem.blocks(text)):
        detail = _wrong_with_anchor(block)
        if detail:
            wrong.append(f"entry {index} {detail}")
        places.setdefault(block.content, []).append(index)
    if not wrong and not places:
        wrong.append("at least one trust anchor must be provided")
    elif not wrong:
        wrong.extend(
            f"duplicate trust anchor (indices [{' '.join(map(str, found))}])"
            for found in places.values()
            if len(found) > 1
        )
    for detail in wrong:
        yield invalid(path, _OMITTED, detail)


def _wrong_with_anchor(block: pem.Block) -> str:
    if block.type != "CERTIFICATE":
        return f"has bad block type: {block.type}"
    if block.has_headers:
        return "has PEM block headers"
    found = pem.certificate(block)
    if found is None:
        return "does not parse as X.509"
    return "" if pem.is_authority(found) else "does not have the CA bit set"


# Requests of pods.

_POD_STATES = ("Denied", "Failed", "Issued")
_UID_MAX = 128
_HOUR = 3600
_DAY = 24 * _HOUR
_KUBERNETES = "kubernetes.io"


def pod_request(obj: Tree) -> Iterator[FieldError]:
    """A new request of a pod."""
    spec = obj.get("spec") or {}
    signer = spec.get("signerName") or ""
    yield from signer_name(signer, _SPEC / "signerName")
    for kind in ("pod", "serviceAccount", "node"):
        name, uid = spec.get(f"{kind}Name") or "", spec.get(f"{kind}UID") or ""
        yield from checked(names.dns1123_subdomain, name, _SPEC / f"{kind}Name")
        if not uid:
            yield invalid(_SPEC / f"{kind}UID", uid, "must not be empty")
        if len(uid) > _UID_MAX:
            yield too_long(_SPEC / f"{kind}UID", _UID_MAX)
    seconds, at = spec.get("maxExpirationSeconds"), _SPEC / "maxExpirationSeconds"
    if seconds is None:
        yield required(at, "must be set")
        return
    domain = signer.partition("/")[0]
    own = domain == _KUBERNETES or domain.endswith(f".{_KUBERNETES}")
    most = _DAY if own else 91 * _DAY
    if not _HOUR <= seconds <= most:
        yield invalid(at, seconds, f"must be in the range [{_HOUR}, {most}]")


def changed_pod_request(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Metadata alone changes."""
    yield from immutable(new.get("spec"), old.get("spec"), _SPEC)


def changed_pod_request_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the signer reports: one state, for good."""
    listed = value_at(new, "status", "conditions")
    found = [*_pod_states(new), *conditions(listed, _CONDITIONS)]
    yield from found
    if found:
        return
    status, before = new.get("status") or {}, old.get("status") or {}
    if before.get("conditions") and status != before:
        detail = "immutable after PodCertificateRequest is issued, denied, or failed"
        yield invalid(Path("status"), status, detail)
        return
    types = {one.get("type") for one in status.get("conditions") or ()}
    others = {name for name, value in status.items() if value} - {"conditions"}
    if types.intersection(("Denied", "Failed")) and others:
        detail = (
            "non-condition status fields must be empty when denying or failing the "
            "PodCertificateRequest"
        )
        yield invalid(Path("status"), status, detail)
    if "Issued" not in types:
        return
    if next(pem.blocks(status.get("certificateChain") or ""), None) is None:
        detail = "issued certificate chain must contain at least one certificate"
        chain = status.get("certificateChain") or ""
        yield invalid(Path("status") / "certificateChain", chain, detail)


def _pod_states(obj: Tree) -> Iterator[FieldError]:
    known = 0
    for index, one in enumerate(value_at(obj, "status", "conditions") or ()):
        at, type_ = _CONDITIONS[index], one.get("type") or ""
        if type_ not in _POD_STATES:
            yield not_supported(at / "type", type_, _POD_STATES)
            continue
        known += 1
        if known > 1:
            detail = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            yield invalid(at / "type", type_, detail)
        if one.get("status") != "True":
            yield not_supported(at / "status", one.get("status") or "", ("True",))
