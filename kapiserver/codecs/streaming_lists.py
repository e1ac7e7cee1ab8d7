"""Lists as text, a piece an item: JSON compact and indented, YAML.

A list of very many objects is never a tree nor a text as a whole, and others have their turn
between two of its parts. The bytes are those of the document written at once. Knows no object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from kapiserver.api.types import Tree
from kapiserver.codecs import json


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLayout:
    """How a member that is a list stands in a JSON document.

    empty    the member when there are no items
    open     what it begins with
    first    before the first item
    between  before the others
    close    behind the last one
    newline  what a line within an item begins with
    end      of the document
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
    """The document one of whose members is an empty list, with these items; `order` is 0 or
    `json.SORTED`. Raises NotEncodable."""
    option = layout.option | sort_option
    # Within text there is no such mark: quotes have a backslash there.
    name = member.encode()
    before, empty, after = json.encode_value(head, option=option).partition(layout.empty % name)
    assert empty, "a list has an empty array of items"
    yield before
    lead, end = layout.open % name + layout.first, empty
    for item in items:
        text = json.encode_value(item, option=option)
        # A new line within text is spelled otherwise.
        yield lead + (text.replace(b"\n", layout.newline) if layout.newline else text)
        lead, end = layout.between, layout.close
    yield end + after + layout.end


def stream_yaml_list(head: Tree, member: str, items: Iterable[Tree]) -> Iterator[bytes]:
    """The document one of whose members is an empty list, with these items. Raises NotEncodable."""
    from kapiserver.codecs import yaml  # the library, for those who ask for it

    document = yaml.encode_value(head)
    mark = b"\n%b: []\n" % member.encode()
    before, empty, after = document.partition(mark)
    assert empty, "a list has an empty array of items"
    yield before
    lead = b"\n%b:\n- " % member.encode()
    for item in items:
        yield lead + _LINE_BREAK.sub(b"\n  ", yaml.encode_value(item))
        lead, mark = b"- ", b""
    yield mark + after
