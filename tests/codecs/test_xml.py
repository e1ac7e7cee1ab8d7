"""XML documents hold any text of an element or attribute, as far as XML can."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from kapiserver.codecs import xml


def test_encode() -> None:
    root = ElementTree.Element("suite", name="a & b")
    ElementTree.SubElement(root, "case").text = "\x1b[31mred\x00 \ud800 \uffff <end>"
    assert xml.encode(root) == (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<suite name="a &amp; b">\n  <case>?[31mred? ? ? &lt;end&gt;</case>\n</suite>\n'
    )


@given(st.text(st.characters()))
def test_every_text_makes_a_document(text: str) -> None:
    root = ElementTree.Element("suite", name=text)
    root.text = text
    parsed = ElementTree.fromstring(xml.encode(root).encode())
    assert len(parsed.get("name") or "") == len(text)
