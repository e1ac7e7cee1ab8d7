"""Finds the start tags of a page of HTML, in one pass over its text.

Python's html.parser takes quadratic time for a page such as `<a <a <a`, and a pod must not be able
to keep the server busy. Knows no URL. Mirrors the tokenizer of golang.org/x/net/html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html.entities import html5

from msgspec import Struct

_NAME = re.compile(r"[A-Za-z][^ \n\r\t\f/>]*+")
_BETWEEN = re.compile(r"[ \n\r\t\f/]*+")
_KEY = re.compile(r"=?[^ \n\r\t\f/>=]*+")
_EQUALS = re.compile(r"[ \n\r\t\f]*+=[ \n\r\t\f]*+")
_UNQUOTED = re.compile(r"[^ \n\r\t\f>]*+")
_COMMENT_END = re.compile("--!?>")
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[ \n\r\t\f/>])", re.IGNORECASE)
    for name in (
        "iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp",
    )
}  # fmt: skip
"""The ends of elements whose text has no tags."""
_REFERENCE = re.compile(
    r"&(?:#(?:[xX]([0-9A-Fa-f]{1,8}+)|([0-9]{1,8}+));?|([A-Za-z][A-Za-z0-9]*+;?))(?=(=?))"
)
_ESCAPES = str.maketrans(
    {"&": "&amp;", "'": "&#39;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "\r": "&#13;"}
)


class StartTag(Struct, frozen=True):
    """A start tag in a text.

    name        the name in lower case
    attributes  names in lower case and values without character references
    closes      whether the element ends with it: `<br/>`
    """

    start: int
    end: int
    name: str
    attributes: Sequence[tuple[str, str]]
    closes: bool

    def written(self, attributes: Sequence[tuple[str, str]]) -> str:
        """Return the tag with other attributes."""
        texts = [f' {name}="{value.translate(_ESCAPES)}"' for name, value in attributes]
        return f"<{self.name}{''.join(texts)}{'/>' if self.closes else '>'}"


def start_tags(text: str) -> Iterator[StartTag]:
    """Yield the start tags of a page, in their order. What is cut off at the end is not a tag."""
    position = text.find("<")
    while position >= 0:
        after = position + 1
        end: int | None = after
        if _NAME.match(text, after):
            tag = _start_tag(text, position)
            if tag is None:
                return
            yield tag
            end = _end_of_raw_text(text, tag)
        elif text.startswith("!--", after):
            end = _end_of_comment(text, after + 3)
        elif text.startswith("/", after) and _NAME.match(text, after + 1):
            end_tag = _start_tag(text, after)
            end = None if end_tag is None else end_tag.end
        elif text[after : after + 1] in ("!", "?", "/"):
            end = text.find(">", after) + 1 or None
        if end is None:
            return
        position = text.find("<", end)


def _end_of_comment(text: str, start: int) -> int | None:
    for short in (">", "->"):
        if text.startswith(short, start):
            return start + len(short)
    match = _COMMENT_END.search(text, start)
    return None if match is None else match.end()


def _end_of_raw_text(text: str, tag: StartTag) -> int | None:
    """Return where tags may follow: after the tag, or after the text of its element."""
    if tag.name == "plaintext":
        return None
    if tag.name not in _RAW_TEXT:
        return tag.end
    match = _RAW_TEXT[tag.name].search(text, tag.end)
    return None if match is None else match.start()


def _start_tag(text: str, start: int) -> StartTag | None:
    """Return the tag that begins at `start`; None if the text ends before."""
    name = _NAME.match(text, start + 1)
    assert name is not None
    attributes: list[tuple[str, str]] = []
    position = name.end()
    while True:
        position = _end_of(_BETWEEN, text, position)
        if position >= len(text):
            return None
        if text[position] == ">":
            closes = text[position - 1] == "/"
            tag_name = name[0].lower()
            return StartTag(start, position + 1, tag_name, attributes, closes)
        key_end = _end_of(_KEY, text, position)
        key = text[position:key_end].lower()
        equals = _EQUALS.match(text, key_end)
        position, value = key_end, ""
        if equals is not None:
            quote = text[equals.end() : equals.end() + 1]
            if quote in ("'", '"') and quote:
                value_start = equals.end() + 1
                value_end = text.find(quote, value_start)
                if value_end < 0:
                    return None
                position = value_end + 1
            else:
                value_start = equals.end()
                position = value_end = _end_of(_UNQUOTED, text, value_start)
            value = _REFERENCE.sub(_referenced, text[value_start:value_end])
        attributes.append((key, value))


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return start if match is None else match.end()


def _referenced(match: re.Match[str]) -> str:
    """Return the characters of a reference in an attribute. One without a semicolon before `=` is
    no reference: it is the name of a parameter in the query of a URL."""
    hexadecimal, decimal, name, equals = match.groups()
    if name:
        is_reference = name.endswith(";") or not equals
        return html5.get(name, match[0]) if is_reference else match[0]
    code = int(hexadecimal, 16) if hexadecimal else int(decimal)
    is_character = 0 < code < 0xD800 or 0xDFFF < code <= 0x10FFFF
    return chr(code) if is_character else "\ufffd"
