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

    line         of its definition
    fields       normalized annotations of a dataclass by field, inherited ones included
    values       numbers of an IntEnum by name; an alias included
    """

    line: int
    fields: Mapping[str, str]
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InternalTypes:
    """The classes of `types.py` by name, such as `Outer.Inner`."""

    path: Path
    classes: Mapping[str, InternalClass]


def read_internal_types(path: Path, skeleton: str = "") -> InternalTypes:
    """Return the classes of a module, or of its skeleton if it does not exist. Raises
    InvalidDefinitions for a syntax error and for a dataclass with a field without a default."""
    module = parse_module(path) if path.exists() else ast.parse(skeleton)
    classes: dict[str, InternalClass] = {}
    problems: list[Problem] = []
    for name, node in _classes(module.body, ""):
        bases = [base for base in map(ast.unparse, node.bases) if base in classes]
        inherited = {key: text for base in bases for key, text in classes[base].fields.items()}
        fields, values = {}, {}
        for statement in node.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=key), annotation=annotation, value=value):
                    if "ClassVar" in ast.unparse(annotation):
                        continue
                    fields[key] = normalize(annotation)
                    if value is None:
                        text = f"the field {key} of {name} must have a default"
                        problems.append(Problem(path, statement.lineno, text))
                case ast.Assign(targets=[ast.Name(id=key)], value=value):
                    number = _number(value)
                    if number is not None:
                        values[key] = number
        classes[name] = InternalClass(
            line=node.lineno, fields={**inherited, **fields}, values=values
        )
    if problems:
        raise InvalidDefinitions(problems)
    return InternalTypes(path, classes)


def parse_module(path: Path) -> ast.Module:
    """Return the syntax tree of a module. Raises InvalidDefinitions for a syntax error."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    except SyntaxError as error:
        raise InvalidDefinitions([Problem(path, error.lineno or 1, str(error.msg))]) from None


def functions(path: Path) -> dict[str, int]:
    """Return the functions at the top of a module, by name with the line."""
    return {
        node.name: node.lineno
        for node in parse_module(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def methods(path: Path, class_name: str) -> tuple[int, frozenset[str]] | None:
    """Return the line of a class and the names of its methods; None if the class is not there, or
    has bases that may have the methods."""
    for node in parse_module(path).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name and not node.bases:
            names = (
                item.name
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            return node.lineno, frozenset(names)
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
