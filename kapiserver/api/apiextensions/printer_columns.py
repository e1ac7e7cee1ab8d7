"""The table columns of a custom kind, from its additionalPrinterColumns.

Mirrors k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from kapiserver.api.columns import NAME, Age, Cell, CellReader, Column, Columns, age_of
from kapiserver.api.json_path import compile_path
from kapiserver.api.types import Tree, Value

_AGE: Tree = {
    "name": "Age",
    "type": "date",
    "description": "Time since the object was created.",
    "jsonPath": ".metadata.creationTimestamp",
}


def columns_of(definitions: Sequence[Tree]) -> Columns:
    """Return the columns of `additionalPrinterColumns`; name and age if there are none."""
    return Columns((NAME, *(_column(definition) for definition in definitions or (_AGE,))))


def _column(definition: Tree) -> Column:
    type_ = definition["type"]
    try:
        cell = _cell(compile_path(definition["jsonPath"]), type_)
    except ValueError:  # stored by an older server
        cell = _empty_cell
    return Column(
        definition["name"],
        cell,
        definition.get("description") or "",
        type=type_,
        format=definition.get("format") or "",
        priority=definition.get("priority") or 0,
    )


def _empty_cell(_obj: Tree) -> Cell:
    return None


def _cell(find: Callable[[Value], list[Value]], type_: str) -> CellReader:
    read = _CELLS.get(type_, _unknown_type_cell)

    def cell(obj: Tree) -> Cell | Age:
        values = find(obj)
        return read(values[0]) if values else None

    return cell


def _unknown_type_cell(_value: Value) -> Cell:
    return None


def _text(value: Value) -> Cell:
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _integer(value: Value) -> Cell:
    return int(value) if type(value) in (int, float) else None


def _number(value: Value) -> Cell:
    return value if type(value) in (int, float) else None


def _boolean(value: Value) -> Cell:
    return value if isinstance(value, bool) else None


def _date(value: Value) -> Cell | Age:
    if not isinstance(value, str):
        return None
    try:
        return age_of(value)
    except ValueError:
        return "<invalid>"


_CELLS: dict[str, Callable[[Any], Cell | Age]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
