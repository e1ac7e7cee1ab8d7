"""Parsing of container image references: `registry/name:tag@digest`.

Mirrors the parts of github.com/distribution/reference that defaulting needs.
"""

from __future__ import annotations

import re

_COMPONENT = r"[a-z0-9]++(?:(?:[._]|__|-++)[a-z0-9]++)*+"
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = re.compile(rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PATH = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*+")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,256}")
_MAX_LENGTH = 1024


def tag_of(image: str) -> str:
    """Return the tag of an image reference, or `latest` if it has neither tag nor digest. Return ""
    if it has a digest only, or if it is invalid."""
    if len(image) > _MAX_LENGTH:
        return ""
    name, at_sign, digest = image.partition("@")
    if at_sign and not _DIGEST.fullmatch(digest):
        return ""
    parent, slash, base_name = name.rpartition("/")
    base_name, colon, tag = base_name.partition(":")
    if colon and not _TAG.fullmatch(tag):
        return ""
    if not _is_name(f"{parent}{slash}{base_name}"):
        return ""
    return tag or ("" if at_sign else "latest")


def _is_name(name: str) -> bool:
    domain, slash, path = name.partition("/")
    if slash and (set(".:") & set(domain) or domain == "localhost" or domain != domain.lower()):
        return bool(_DOMAIN.fullmatch(domain) and _PATH.fullmatch(path))
    return bool(_PATH.fullmatch(name))
