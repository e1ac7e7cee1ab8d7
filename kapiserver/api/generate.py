"""`make generate`: assigns Protobuf tags to new fields and writes the `.proto` files.

A field declared without a number gets the next free number of its message, written back into the
source. A tag that changed, or that another field had before, is an error, and nothing is written.
Tags of removed fields stay reserved. The functions are pure, text in and text out; only `main`
reads and writes files, and only those of this package. It is a tool for developers; only tests
import it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from kapiserver.api.idl import (
    ProtoFile,
    directory,
    package_of_module,
    proto_files,
    proto_text,
    wire_fields,
)
from kapiserver.api.scheme import Scheme

ROOT = Path(__file__).parent
PROTO = ROOT / "proto"

_MESSAGE = re.compile(r"^message (\w+) \{$")
_FIELD = re.compile(r"^  (?:optional|repeated|map<).* (\w+) = (\d+);$")
_RESERVED = re.compile(r"^  reserved (\d+); // (\w+)$")


class TagError(Exception):
    """A tag changed or was reused; the message lists every such tag."""


class Tags(Struct):
    """The tags of one message in a `.proto` file: field by number."""

    live: dict[int, str] = field(default_factory=dict)
    reserved: dict[int, str] = field(default_factory=dict)

    @property
    def next_free(self) -> int:
        """The number after the highest ever used."""
        return max((*self.live, *self.reserved), default=0) + 1


def read_tags(proto: str) -> dict[str, Tags]:
    """Return the tags of all messages of a file that `idl.proto_text` wrote."""
    tags_by_message: dict[str, Tags] = {}
    tags = Tags()
    for line in proto.splitlines():
        if message_match := _MESSAGE.match(line):
            tags = tags_by_message[message_match[1]] = Tags()
        elif field_match := _FIELD.match(line):
            tags.live[int(field_match[2])] = field_match[1]
        elif reserved_match := _RESERVED.match(line):
            tags.reserved[int(reserved_match[1])] = reserved_match[2]
    return tags_by_message


# --- new numbers in the source


def number_fields(source: str, before: dict[str, Tags]) -> str:
    """Return the source of a module with a number for each `field()` that has none.

    `before` holds the last generated tags of the module's package, and of other versions from which
    it may inherit.
    """
    edits: list[tuple[int, int, str]] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and not _is_off_wire(node):
            edits += _new_numbers(node, before.get(node.name, Tags()))
    lines = source.splitlines(keepends=True)
    for row, column, number in sorted(edits, reverse=True):
        line = lines[row - 1].encode()
        line_end = line[column:]
        comma = b"" if line_end.startswith(b")") else b", "
        lines[row - 1] = (line[:column] + number.encode() + comma + line_end).decode()
    return "".join(lines)


def _is_off_wire(node: ast.ClassDef) -> bool:
    return any(
        isinstance(line, ast.Assign) and ast.unparse(line) == "wire = False" for line in node.body
    )


def _calls(node: ast.ClassDef) -> Iterator[ast.Call]:
    for line in node.body:
        call = line.value if isinstance(line, ast.AnnAssign) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "field":
            yield call


def _new_numbers(node: ast.ClassDef, before: Tags) -> list[tuple[int, int, str]]:
    numbers = [ast.literal_eval(call.args[0]) for call in _calls(node) if call.args]
    free = max(before.next_free, *(number + 1 for number in numbers), 1)
    edits = []
    for call in _calls(node):
        if not call.args:
            position = (call.func.end_lineno or 0, (call.func.end_col_offset or 0) + 1)
            edits.append((*position, str(free)))
            free += 1
    return edits


# --- the files


def generate(file: ProtoFile, before: str) -> str:
    """Return the new text of a file, given its last generated text. Raises TagError."""
    reserved: dict[str, dict[int, str]] = {}
    problems: list[str] = []
    old_tags = read_tags(before)
    for message in file.messages:
        name = message.__name__
        old = old_tags.get(name, Tags())
        numbers = {f.proto: f.number or 0 for f in wire_fields(message)}
        problems += [f"{name}.{problem}" for problem in _tag_problems(numbers, old)]
        removed = {
            number: field_name
            for number, field_name in old.live.items()
            if field_name not in numbers
        }
        reserved[name] = {**old.reserved, **removed}
    if problems:
        raise TagError("\n".join(f"{file.package}: {problem}" for problem in problems))
    return proto_text(file, reserved)


def _tag_problems(numbers: dict[str, int], old: Tags) -> Iterator[str]:
    old_numbers = {name: number for number, name in old.live.items()}
    names_by_number: dict[int, str] = {}
    for name, number in numbers.items():
        if not number:
            yield f"{name} has no tag"
        elif number in names_by_number:
            yield f"{name} has the tag of {names_by_number[number]}: {number}"
        elif name in old_numbers and old_numbers[name] != number:
            yield f"{name} had the tag {old_numbers[name]}, not {number}"
        elif name not in old_numbers and number in {**old.live, **old.reserved}:
            old_field = {**old.live, **old.reserved}[number]
            yield f"{name} takes the tag {number}, which {old_field} had"
        names_by_number[number] = name


def generated_files() -> dict[Path, str]:
    """Return the texts of all files, by path. Raises TagError."""
    texts = {}
    for file in proto_files(Scheme()):
        path = PROTO / file.path
        before = path.read_text() if path.exists() else ""
        texts[path] = generate(file, before)
    return texts


def _number_sources() -> list[Path]:
    changed = []
    for path in sorted((*ROOT.glob("*/v*.py"), *ROOT.glob("*/v*/*.py"))):
        module = ".".join(("kapiserver", "api", *path.relative_to(ROOT).with_suffix("").parts))
        source = path.read_text()
        numbered = number_fields(source, _tags_of_group(package_of_module(module)))
        if numbered != source:
            path.write_text(numbered)
            changed.append(path)
    return changed


def _tags_of_group(package: str) -> dict[str, Tags]:
    """Return the tags of all versions of the package's group, by message."""
    tags_by_message: dict[str, Tags] = {}
    for path in (PROTO / directory(package)).parent.glob("*/generated.proto"):
        for name, tags in read_tags(path.read_text()).items():
            merged = tags_by_message.setdefault(name, Tags())
            merged.live |= tags.live
            merged.reserved |= tags.reserved
    return tags_by_message


def main() -> int:
    """Number new fields, then write all files. Returns 1 if a tag is broken."""
    # Must come first: the imports below read the new numbers.
    for path in _number_sources():
        print(f"numbered {path.relative_to(ROOT)}")  # noqa: T201 - a program
    try:
        files = generated_files()
    except TagError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a program
        return 1
    for path, content in files.items():
        if not path.exists() or path.read_text() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            print(f"wrote {path.relative_to(ROOT)}")  # noqa: T201 - a program
    return 0


if __name__ == "__main__":
    sys.exit(main())
