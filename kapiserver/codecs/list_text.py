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
class Layout:
    """How a member that is a list stands at the end of a JSON document.

    empty     how the document ends when there are no items
    first     before the first item
    between   before the others
    end       behind the last one
    newline   what a line within an item begins with
    """

    option: int = 0
    empty: bytes
    first: bytes = b""
    between: bytes = b","
    end: bytes
    newline: bytes = b""


COMPACT = Layout(empty=b"]}\n", end=b"]}\n")
INDENTED = Layout(
    option=orjson.OPT_INDENT_2,
    empty=b"]\n}",
    first=b"\n    ",
    between=b",\n    ",
    end=b"\n  ]\n}",
    newline=b"\n    ",
)

_LINE = re.compile(rb"\n(?!\n|\Z)")


def json_pieces(head: Tree, items: Iterable[Tree], layout: Layout) -> Iterator[bytes]:
    """The document whose last member is an empty list, with these items. Raises NotEncodable."""
    opening = json.write_document(head, option=layout.option)
    yield opening.removesuffix(layout.empty.rstrip(b"\n"))
    lead, end = layout.first, layout.empty
    for item in items:
        text = json.write_document(item, option=layout.option)
        # A new line within text is spelled otherwise.
        yield lead + (text.replace(b"\n", layout.newline) if layout.newline else text)
        lead, end = layout.between, layout.end
    yield end


def yaml_pieces(head: Tree, member: str, items: Iterable[Tree]) -> Iterator[bytes]:
    """The document one of whose members is an empty list, with these items. Raises NotEncodable."""
    from kapiserver.codecs import yaml  # the library, for those who ask for it

    document = yaml.write_document(head)
    mark = b"\n%b: []\n" % member.encode()
    before, empty, after = document.partition(mark)
    assert empty, "a list has an empty array of items"
    yield before
    lead = b"\n%b:\n- " % member.encode()
    for item in items:
        yield lead + _LINE.sub(b"\n  ", yaml.write_document(item))
        lead, mark = b"- ", b""
    yield mark + after
