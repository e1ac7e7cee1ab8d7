"""Columns of server-side tables: how one cell is read from an object.

`now` is given, so ages need no clock. Knows no kind; each group's `columns.py` has its table.
Mirrors pkg/printers/internalversion and k8s.io/cli-runtime's printers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeAlias

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.errors import BadObject
from kapiserver.api.label_selectors import selector_text
from kapiserver.api.types import Tree

Cell: TypeAlias = str | int | bool | float | None
CellReader: TypeAlias = Callable[[Tree, datetime], Cell]
"""Reads a cell from an object (hub version) at the time `now` (aware, UTC)."""

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `priority` above 0 is shown by `-o wide` alone; every table has them all."""

    name: str
    cell: CellReader
    description: str = ""
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> Tree:
        """The column as a table shows it (meta/v1 TableColumnDefinition)."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one kind, and the conditions of a row (meta/v1 TableRowCondition)."""

    columns: Sequence[Column]
    conditions: Callable[[Tree], list[Tree]] = lambda _: []

    def definitions(self) -> list[Tree]:
        """The `columnDefinitions` of a table."""
        return [column.definition() for column in self.columns]

    def cells(self, obj: Tree, now: datetime) -> list[Cell]:
        """The `cells` of one object's row."""
        return [column.cell(obj, now) for column in self.columns]


def human_duration(seconds: float) -> str:
    """A duration in two units at most: `5s`, `3m10s`, `4h5m`, `2d3h`, `1y20d`."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, unit: int, name: str, smaller: int, smaller_name: str) -> str:
    rest = seconds % unit // smaller
    return f"{seconds // unit}{name}{f'{rest}{smaller_name}' if rest else ''}"


def parse_time(text: str | None) -> datetime | None:
    """A Time or MicroTime of a tree; None where it is not set."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def age_text(text: str | None, now: datetime) -> str:
    """The age of a moment as tables show it."""
    then = parse_time(text)
    return human_duration((now - then).total_seconds()) if then else UNKNOWN


def age(obj: Tree, now: datetime) -> str:
    """The cell of the Age column."""
    return age_text(value_at(obj, "metadata", "creationTimestamp"), now)


def name(obj: Tree, _: datetime) -> str:
    """The cell of the Name column."""
    return name_of(obj)


def text(*path: str, empty: str = "") -> CellReader:
    """A cell that is the text at a path, or `empty`."""
    return lambda obj, _: str(value_at(obj, *path) or empty)


def number(*path: str) -> CellReader:
    """A cell that is the number at a path, or 0."""
    return lambda obj, _: value_at(obj, *path) or 0


def count(*path: str) -> CellReader:
    """A cell that is the length of the list at a path."""
    return lambda obj, _: len(value_at(obj, *path) or ())


def flag(*path: str, unset: bool = False) -> CellReader:
    """A cell that is true or false, as the value at a path; `unset` where there is none."""

    def cell(obj: Tree, _: datetime) -> bool:
        found = value_at(obj, *path)
        return unset if found is None else bool(found)

    return cell


def join_first(texts: Iterable[str], most: int = 3) -> str:
    """The first of several texts, and how many more there are."""
    left = iter(texts)
    shown = ",".join(islice(left, most))
    more = sum(1 for _ in left)
    return f"{shown} + {more} more..." if more else shown


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Labels as `a=b,c=d`."""
    if not labels:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def join_field(items: Sequence[Tree] | None, key: str) -> str:
    """One field of every item of a list, comma separated."""
    return ",".join(str(item.get(key) or "") for item in items or ())


def pod_template_columns(*path: str) -> tuple[Column, ...]:
    """The wide columns of what makes pods from a template at `path`."""

    def containers(obj: Tree) -> Any:
        return value_at(obj, *path, "spec", "containers")

    return (
        Column(
            "Containers",
            lambda obj, _: join_field(containers(obj), "name"),
            "Names of each container in the template.",
            priority=1,
        ),
        Column(
            "Images",
            lambda obj, _: join_field(containers(obj), "image"),
            "Images referenced by each container in the template.",
            priority=1,
        ),
    )


def selector_column(*path: str) -> Column:
    """The wide column of the label selector at `path`."""
    description = "Labels of its pods."
    return Column("Selector", selector(*path), description, priority=1)


def selector(*path: str) -> CellReader:
    """A cell that is the label selector at `path`."""

    def cell(obj: Tree, _: datetime) -> str:
        try:
            return selector_text(value_at(obj, *path)) or NONE
        except BadObject:
            return "<error>"

    return cell


NAME = Column("Name", name, "Name of the object, unique within its namespace.", format="name")
AGE = Column("Age", age, "Time since the object was created.")

DEFAULT_COLUMNS = Columns(
    (
        NAME,
        Column(
            "Created At",
            text("metadata", "creationTimestamp"),
            "When the object was created.",
            type="date",
        ),
    )
)
"""For kinds without columns of their own."""
