"""Reads the hand-written modules of a group without running them: `types.py`, `server.py` and
`conversion.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kapiserver.rpc.generator.problems import InvalidDefinitions, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalClass:
    """A class of `types.py`.

    fields    normalized annotations of a dataclass by field, inherited ones included
    required  lines of its own fields that have no default, by field
    values    numbers of an IntEnum by name, aliases included
    """

    fields: Mapping[str, str]
    required: Mapping[str, int]
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InternalTypes:
    """The classes of `types.py` by name, such as `Outer.Inner`."""

    path: Path
    classes: Mapping[str, InternalClass]


def read_internal_types(path: Path, skeleton: str = "") -> InternalTypes:
    """Return the classes of a module, or of its skeleton if it does not exist. Raises
    InvalidDefinitions for a syntax error."""
    module = parse_module(path) if path.exists() else ast.parse(skeleton)
    classes: dict[str, InternalClass] = {}
    for name, node in _classes(module.body, ""):
        fields: dict[str, str] = {}
        for base in map(ast.unparse, node.bases):
            if base in classes:
                fields |= classes[base].fields
        required, values = {}, {}
        for statement in node.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=key), annotation=annotation, value=value):
                    if "ClassVar" not in ast.unparse(annotation):
                        fields[key] = normalize(annotation)
                        if value is None:
                            required[key] = statement.lineno
                case ast.Assign(targets=[ast.Name(id=key)], value=value):
                    number = _number(value)
                    if number is not None:
                        values[key] = number
        classes[name] = InternalClass(fields=fields, required=required, values=values)
    return InternalTypes(path, classes)


def parse_module(path: Path) -> ast.Module:
    """Return the syntax tree of a module. Raises InvalidDefinitions for a syntax error."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    except SyntaxError as error:
        raise InvalidDefinitions([Problem(path, error.lineno or 1, str(error.msg))]) from None


def names(path: Path) -> dict[str, int]:
    """Return the names that a module defines or imports at its top, with their lines."""
    result: dict[str, int] = {}
    for node in parse_module(path).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                result[node.name] = node.lineno
            case ast.ImportFrom():
                result |= {alias.asname or alias.name: node.lineno for alias in node.names}
            case ast.Assign(targets=[ast.Name(id=name)]):
                result[name] = node.lineno
    return result


def methods(path: Path, class_name: str) -> frozenset[str] | None:
    """Return the names of the methods of a class; None if the module does not define the class
    itself, or if it has bases, which may have methods."""
    for node in parse_module(path).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name and not node.bases:
            return frozenset(
                item.name
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            )
    return None


def normalize(annotation: ast.expr) -> str:
    """Return the text of an annotation in one form: `None` last in unions, no quotes, `X | None`
    for Optional, lower-case `list` and `dict`, no module before a class of protobuf."""
    match annotation:
        case ast.Constant(value=str(text)):
            return normalize(ast.parse(text, mode="eval").body)
        case ast.BinOp(op=ast.BitOr()):
            parts = sorted(_union(annotation), key=lambda part: (part == "None", part))
            return " | ".join(parts)
        case ast.Subscript(value=value, slice=ast.Tuple(elts=elements)):
            return f"{normalize(value)}[{', '.join(map(normalize, elements))}]"
        case ast.Subscript(value=value, slice=element):
            name, inner = normalize(value), normalize(element)
            return f"{inner} | None" if name == "Optional" else f"{name}[{inner}]"
        case ast.Name(id="List" | "Dict" as name):
            return name.lower()
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in (
            "typing",
            "builtins",
        ) or module.endswith("_pb2"):
            return normalize(ast.Name(name))
    return ast.unparse(annotation)


def _union(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _union(node.left)
        yield from _union(node.right)
    else:
        yield normalize(node)


def _classes(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            name = f"{prefix}{node.name}"
            yield name, node
            yield from _classes(node.body, f"{name}.")


def _number(value: ast.expr) -> int | None:
    try:
        number = ast.literal_eval(value)
    except ValueError:
        return None
    return number if isinstance(number, int) else None
