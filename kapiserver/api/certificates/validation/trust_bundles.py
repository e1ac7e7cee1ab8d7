"""Validation of bundles of trusted certificates."""

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
_SHOWN = "<value omitted>"  # a value like any other: messages quote it


def validate_trust_bundle(obj: Tree) -> Iterator[FieldError]:
    """Validate a new bundle."""
    yield from _validate_bundle_names(obj)
    yield from _validate_trust_anchors(
        value_at(obj, "spec", "trustBundle") or "", _SPEC / "trustBundle"
    )


def validate_trust_bundle_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A bundle that is to be changed: it stays its signer's."""
    yield from _validate_bundle_names(new)
    bundle, before = (value_at(one, "spec", "trustBundle") or "" for one in (new, old))
    if bundle != before:
        yield from _validate_trust_anchors(bundle, _SPEC / "trustBundle")
    signer, kept = (value_at(one, "spec", "signerName") or "" for one in (new, old))
    yield from immutable(signer, kept, _SPEC / "signerName")


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
    places: dict[bytes, list[int]] = {}
    errors = []
    for index, block in enumerate(pem.blocks(text)):
        detail = _trust_anchor_problem(block)
        if detail:
            errors.append(f"entry {index} {detail}")
        places.setdefault(block.content, []).append(index)
    if not errors and not places:
        errors.append("at least one trust anchor must be provided")
    elif not errors:
        errors.extend(
            f"duplicate trust anchor (indices [{' '.join(map(str, found))}])"
            for found in places.values()
            if len(found) > 1
        )
    for detail in errors:
        yield invalid(path, _SHOWN, detail)


def _trust_anchor_problem(block: pem.Block) -> str:
    if block.type != "CERTIFICATE":
        return f"has bad block type: {block.type}"
    if block.has_headers:
        return "has PEM block headers"
    found = pem.certificate(block)
    if found is None:
        return "does not parse as X.509"
    return "" if pem.is_authority(found) else "does not have the CA bit set"
