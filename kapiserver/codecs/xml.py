"""Writes XML documents, such as reports in JUnit's form."""

from __future__ import annotations

from xml.etree import ElementTree

_NOT_IN_XML = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "?"
)
"""Characters that XML 1.0 cannot hold, section 2.2, each with its replacement."""


def encode(root: ElementTree.Element) -> str:
    """Return a document, indented. A question mark replaces each character that XML cannot hold.
    The elements of the tree are indented in place."""
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode").translate(_NOT_IN_XML)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
