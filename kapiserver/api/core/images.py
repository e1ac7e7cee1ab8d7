"""References of container images: `registry/name:tag@digest`.

Mirrors github.com/distribution/reference as far as defaulting asks: does the reference make sense,
and which tag does it name.
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
    """The tag of an image, `latest` where it names neither tag nor digest; "" for one that is
    pinned by its digest alone, or that is no reference at all."""
    if len(image) > _MAX_LENGTH:
        return ""
    name, at, digest = image.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return ""
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        return ""
    if not _is_name(f"{head}{slash}{last}"):
        return ""
    return tag or ("" if at else "latest")


def _is_name(name: str) -> bool:
    domain, slash, path = name.partition("/")
    if slash and (set(".:") & set(domain) or domain == "localhost" or domain != domain.lower()):
        return bool(_DOMAIN.fullmatch(domain) and _PATH.fullmatch(path))
    return bool(_PATH.fullmatch(name))
