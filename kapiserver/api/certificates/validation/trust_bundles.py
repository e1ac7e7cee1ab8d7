"""Validation of cluster trust bundles."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.certificates import pem
from kapiserver.api.core.validation.signers import trust_bundle_name_problems, validate_signer_name
from kapiserver.api.errors import FieldError, Path, invalid, too_long
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_BUNDLE_MAX = 1 << 20
_OMITTED_VALUE = "<value omitted>"  # messages quote it like any value


def validate_trust_bundle(obj: Tree) -> Iterator[FieldError]:
    """Validate a new bundle."""
    yield from _validate_bundle_names(obj)
    yield from _validate_trust_anchors(
        value_at(obj, "spec", "trustBundle") or "", _SPEC / "trustBundle"
    )


def validate_trust_bundle_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated bundle. Its signer is immutable."""
    yield from _validate_bundle_names(new)
    bundle, old_bundle = (value_at(obj, "spec", "trustBundle") or "" for obj in (new, old))
    if bundle != old_bundle:
        yield from _validate_trust_anchors(bundle, _SPEC / "trustBundle")
    signer, old_signer = (value_at(obj, "spec", "signerName") or "" for obj in (new, old))
    yield from immutable(signer, old_signer, _SPEC / "signerName")


def _validate_bundle_names(obj: Tree) -> Iterator[FieldError]:
    name, signer = name_of(obj), value_at(obj, "spec", "signerName") or ""
    for message in trust_bundle_name_problems(name, signer) if name else ():
        yield invalid(Path("metadata") / "name", name, message)
    if signer:
        yield from validate_signer_name(signer, _SPEC / "signerName")


def _validate_trust_anchors(text: str, path: Path) -> Iterator[FieldError]:
    if len(text.encode("utf-8", "replace")) > _BUNDLE_MAX:
        yield too_long(path, _BUNDLE_MAX)
        return
    indexes: dict[bytes, list[int]] = {}
    errors = []
    for index, block in enumerate(pem.parse_blocks(text)):
        detail = _trust_anchor_problem(block)
        if detail:
            errors.append(f"entry {index} {detail}")
        indexes.setdefault(block.content, []).append(index)
    if not errors and not indexes:
        errors.append("at least one trust anchor must be provided")
    elif not errors:
        errors.extend(
            f"duplicate trust anchor (indices [{' '.join(map(str, positions))}])"
            for positions in indexes.values()
            if len(positions) > 1
        )
    for detail in errors:
        yield invalid(path, _OMITTED_VALUE, detail)


def _trust_anchor_problem(block: pem.Block) -> str:
    if block.type != "CERTIFICATE":
        return f"has bad block type: {block.type}"
    if block.has_headers:
        return "has PEM block headers"
    certificate = pem.parse_certificate(block)
    if certificate is None:
        return "does not parse as X.509"
    return "" if pem.is_authority(certificate) else "does not have the CA bit set"
