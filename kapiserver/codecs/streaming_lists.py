"""Encodes lists in chunks, one an item: compact and indented JSON, YAML.

A long list is therefore never in memory as one tree or text, and other requests can run between
two chunks. The chunks together are the bytes of the list encoded at once. Knows no object. Mirrors
KEP-5116, streaming encoding of lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import orjson
from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.codecs import json


class ListLayout(Struct, frozen=True, kw_only=True):
    """The text around the items of a list member in a JSON document.

    option   the option of orjson
    empty    the member without items, `%b` for its name
    open     the beginning of the member
    first    the text before the first item
    between  the text before each other item
    close    the text after the last item
    newline  the text that replaces the line breaks within an item
    end      the end of the document
    """

    option: int = 0
    empty: bytes
    open: bytes
    first: bytes = b""
    between: bytes = b","
    close: bytes = b"]"
    newline: bytes = b""
    end: bytes = b""


COMPACT = ListLayout(empty=b'"%b":[]', open=b'"%b":[', end=b"\n")
INDENTED = ListLayout(
    option=orjson.OPT_INDENT_2,
    empty=b'"%b": []',
    open=b'"%b": [',
    first=b"\n    ",
    between=b",\n    ",
    close=b"\n  ]",
    newline=b"\n    ",
)

_LINE_BREAK = re.compile(rb"\n(?!\n|\Z)")


def stream_json_list(
    head: Tree, member: str, items: Iterable[Tree], layout: ListLayout, *, sort_option: int = 0
) -> Iterator[bytes]:
    """Yield the encoding of a list object in chunks.

    head            the list object, in which `member` is an empty list
    sort_option     0 or `json.SORT_KEYS`

    Raises NotEncodable.
    """
    option = layout.option | sort_option
    texts = (json.encode_value(item, option=option) for item in items)
    yield from join_json_list(head, member, texts, layout, sort_option=sort_option)


def join_json_list(
    head: Tree, member: str, texts: Iterable[bytes], layout: ListLayout, *, sort_option: int = 0
) -> Iterator[bytes]:
    """Yield the encoding of a list object in chunks, as `stream_json_list`, from its encoded
    items."""
    option = layout.option | sort_option
    # No string contains this text, because quotes in strings are escaped.
    name = member.encode()
    prefix, separator, suffix = json.encode_value(head, option=option).partition(
        layout.empty % name
    )
    assert separator, "a list has an empty array of items"
    yield prefix
    start, end = layout.open % name + layout.first, separator
    for text in texts:
        # Line breaks within strings are escaped, so all of these are indentation.
        yield start + (text.replace(b"\n", layout.newline) if layout.newline else text)
        start, end = layout.between, layout.close
    yield end + suffix + layout.end


def stream_yaml_list(head: Tree, member: str, items: Iterable[Tree]) -> Iterator[bytes]:
    """Yield the encoding of a list object, in which `member` is an empty list, in chunks.

    Raises NotEncodable.
    """
    from kapiserver.codecs import yaml  # imported late: PyYAML is loaded at first use

    document = yaml.encode_value(head)
    empty_list = b"\n%b: []\n" % member.encode()
    prefix, separator, suffix = document.partition(empty_list)
    assert separator, "a list has an empty array of items"
    yield prefix
    start = b"\n%b:\n- " % member.encode()
    for item in items:
        yield start + _LINE_BREAK.sub(b"\n  ", yaml.encode_value(item))
        start, empty_list = b"- ", b""
    yield empty_list + suffix
