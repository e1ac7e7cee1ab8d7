"""Takes a text apart into documents and their objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.config import BODY_LIMIT
from kapiserver.checking.finding import ERROR, Finding, Steps
from kapiserver.checking.reading.files import SourceFile
from kapiserver.codecs import json, yaml
from kapiserver.codecs.errors import CodecError

_SEPARATOR = re.compile(rb"^---(?=\s|$)", re.M)
_LINE = re.compile(r"^yaml: line (\d+): ")
_DUPLICATE = re.compile(r'^\s*line (\d+): (key "(.*)" already set in map)$', re.S)


class Document(Struct, frozen=True):
    """The text of one document.

    file        the file's name
    first_line  the line of the file at which the text begins, from 1
    """

    file: str
    first_line: int
    text: bytes


class Manifest(Struct, frozen=True):
    """An object of a document. `steps` leads to it: () unless the document is a list. An object of
    the Python API has no document."""

    tree: Tree
    document: Document | None = None
    steps: Steps = ()


Read: TypeAlias = Manifest | Finding


def read_documents(file: SourceFile) -> Iterator[Read]:
    """Yield the objects of a file, and findings for documents that have none. An empty document has
    neither."""
    for document in split_documents(file):
        if len(document.text) > BODY_LIMIT:
            yield _finding(
                document, 1, "too-large", f"Request entity too large: limit is {BODY_LIMIT}"
            )
        else:
            yield from _read_document(document)


def split_documents(file: SourceFile) -> Iterator[Document]:
    """Yield the documents of a file. Each line that begins with `---` starts one."""
    line = 1
    starts = [match.start() for match in _SEPARATOR.finditer(file.data)]
    for start, end in zip([0, *starts], [*starts, len(file.data)], strict=True):
        text = file.data[start:end]
        if text.strip():
            yield Document(file.name, line, text)
        line += text.count(b"\n")


def _read_document(document: Document) -> Iterator[Read]:
    try:
        value, duplicates = _decode(document.text)
    except CodecError as error:
        message = str(error)
        match = _LINE.match(message)
        yield _finding(document, int(match[1]) if match else 1, "not-yaml", message)
        return
    for text in duplicates:
        yield _duplicate_finding(document, text)
    if value is not None:
        yield from read_objects(value, document, ())


def _decode(text: bytes) -> tuple[Any, list[str]]:
    """Return the value of a document and its duplicate keys. JSON takes the faster decoder. Raises
    CodecError."""
    if text.lstrip()[:1] == b"{":
        try:
            value, repeated = json.decode_document(text)
        except CodecError:
            pass
        else:
            if not repeated:
                return value, []
    document = yaml.decode_first_document(text)
    return document.value, document.duplicates


def read_objects(value: Any, document: Document | None, steps: Steps) -> Iterator[Read]:
    """Yield the objects of a value: the items of a list, or the value itself."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _read_item(item, document, (*steps, index))
    elif isinstance(value, dict) and _is_list(value):
        for index, item in enumerate(value["items"]):
            yield from _read_item(item, document, (*steps, "items", index))
    else:
        yield from _read_item(value, document, steps)


def _is_list(value: Tree) -> bool:
    kind = value.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list)


def _read_item(value: Any, document: Document | None, steps: Steps) -> Iterator[Read]:
    if not isinstance(value, dict):
        message = "the document is not an object"
    else:
        missing = [name for name in ("apiVersion", "kind") if not _is_text(value.get(name))]
        if not missing:
            yield Manifest(value, document, steps)
            return
        message = ", ".join(map("{} not set".format, missing))
    if document is None:
        yield Finding(severity=ERROR, message=message, rule="not-an-object")
    else:
        yield _finding(document, 1, "not-an-object", message)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _duplicate_finding(document: Document, text: str) -> Finding:
    match = _DUPLICATE.match(text)
    assert match is not None, text
    line, message, key = int(match[1]), match[2], match[3]
    text_of_line = document.text.split(b"\n")[line - 1].decode(errors="replace")
    columns = [
        match.start() for match in re.finditer(f"[\"']?{re.escape(key)}[\"']?\\s*:", text_of_line)
    ]
    return _finding(document, line, "duplicate-field", message, max([0, *columns]) + 1)


def _finding(document: Document, line: int, rule: str, message: str, column: int = 1) -> Finding:
    return Finding(
        file=document.file,
        line=document.first_line + line - 1,
        column=column,
        severity=ERROR,
        message=message,
        rule=rule,
    )
