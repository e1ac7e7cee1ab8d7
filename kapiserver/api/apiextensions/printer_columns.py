"""The columns of a custom kind's tables, from what its definition says of them.

Mirrors k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import orjson

from kapiserver.api.columns import NAME, Cell, CellReader, Column, Columns, age_text
from kapiserver.api.json_path import compile_path
from kapiserver.api.types import Tree, Value

_AGE: Tree = {
    "name": "Age",
    "type": "date",
    "description": "Time since the object was created.",
    "jsonPath": ".metadata.creationTimestamp",
}


def columns_of(declared: Sequence[Tree]) -> Columns:
    """The columns for `additionalPrinterColumns`; the name and the age where there are none."""
    return Columns((NAME, *(_column(one) for one in declared or (_AGE,))))


def _column(declared: Tree) -> Column:
    kind = declared["type"]
    try:
        cell = _cell(compile_path(declared["jsonPath"]), kind)
    except ValueError:  # stored by an older server
        cell = _nothing
    return Column(
        declared["name"],
        cell,
        declared.get("description") or "",
        type=kind,
        format=declared.get("format") or "",
        priority=declared.get("priority") or 0,
    )


def _nothing(_obj: Tree, _now: datetime) -> Cell:
    return None


def _cell(find: Callable[[Value], list[Value]], kind: str) -> CellReader:
    read = _CELLS.get(kind, _no_cell)

    def cell(obj: Tree, now: datetime) -> Cell:
        found = find(obj)
        return read(found[0], now) if found else None

    return cell


def _no_cell(_value: Value, _now: datetime) -> Cell:
    return None


def _text(value: Value, _now: datetime) -> Cell:
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _integer(value: Value, _now: datetime) -> Cell:
    return int(value) if type(value) in (int, float) else None


def _number(value: Value, _now: datetime) -> Cell:
    return value if type(value) in (int, float) else None


def _boolean(value: Value, _now: datetime) -> Cell:
    return value if isinstance(value, bool) else None


def _date(value: Value, now: datetime) -> Cell:
    if not isinstance(value, str):
        return None
    try:
        return age_text(value, now)
    except (ValueError, TypeError, OverflowError):
        return "<invalid>"


_CELLS: dict[str, Callable[[Any, datetime], Cell]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
