"""Columns of server-side tables and the functions that read their cells from an object.

A cell depends on the object alone. The time since a moment is an `Age`, whose text is made when the
table is written: rows are cached, and need no clock. Knows no kind; each group's `columns.py` has a
table of its columns. Mirrors pkg/printers/internalversion and the printers of k8s.io/cli-runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeAlias

from msgspec import Struct

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.errors import BadObject
from kapiserver.api.label_selectors import selector_text
from kapiserver.api.types import Tree

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


class Age(Struct, frozen=True, array_like=True):
    """A cell that shows the time since a moment.

    time     the moment, in seconds since the epoch
    before   the text before the duration
    after    the text after it
    until    the text before the time that is left until a moment to come; if it is None, such a
             moment is shown as invalid
    """

    time: float
    before: str = ""
    after: str = ""
    until: str | None = None

    def text(self, now: float) -> str:
        """Return the cell's text at a time, in seconds since the epoch."""
        seconds = now - self.time
        if self.until is not None and seconds <= 0:
            return self.until + human_duration(-seconds)
        return f"{self.before}{human_duration(seconds)}{self.after}"


Cell: TypeAlias = str | int | bool | float | None
CellReader: TypeAlias = Callable[[Tree], Cell | Age]
"""Reads a cell from an object in the hub version."""


class Column(Struct, frozen=True):
    """One column. A table has all columns; clients show one of priority above 0 with `-o wide`
    only."""

    name: str
    cell: CellReader
    description: str = ""
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> Tree:
        """Return the column as a meta/v1 TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


class Columns(Struct, frozen=True):
    """The columns of one kind, and the conditions of a row (meta/v1 TableRowCondition).

    has_null_rows   whether `rows` is null in a table of no objects, as in those of kinds for which
                    kube-apiserver has no printer
    order           the sort key of the rows; None keeps the order of the list
    """

    columns: Sequence[Column]
    conditions: Callable[[Tree], list[Tree]] = lambda _: []
    has_null_rows: bool = False
    order: Callable[[Tree], int] | None = None

    def definitions(self) -> list[Tree]:
        """Return the `columnDefinitions` of a table."""
        return [column.definition() for column in self.columns]

    def cells(self, obj: Tree, now: datetime) -> list[Cell]:
        """Return the `cells` of one object's row at a time (aware)."""
        seconds = now.timestamp()
        return [cell.text(seconds) if isinstance(cell, Age) else cell for cell in self.read(obj)]

    def read(self, obj: Tree) -> list[Cell | Age]:
        """Return the cells of one object's row, without a text for ages."""
        return [column.cell(obj) for column in self.columns]


def human_duration(seconds: float) -> str:
    """Format a duration in at most two units: `5s`, `3m10s`, `4h5m`, `2d3h`, `1y20d`."""
    if seconds < -1:
        return "<invalid>"
    total_seconds = max(int(seconds), 0)
    if total_seconds < 2 * _MINUTE:
        return f"{total_seconds}s"
    if total_seconds < 10 * _MINUTE:
        return _two_units(total_seconds, _MINUTE, "m", 1, "s")
    if total_seconds < 3 * _HOUR:
        return f"{total_seconds // _MINUTE}m"
    if total_seconds < 8 * _HOUR:
        return _two_units(total_seconds, _HOUR, "h", _MINUTE, "m")
    if total_seconds < 2 * _DAY:
        return f"{total_seconds // _HOUR}h"
    if total_seconds < 8 * _DAY:
        return _two_units(total_seconds, _DAY, "d", _HOUR, "h")
    if total_seconds < 2 * _YEAR:
        return f"{total_seconds // _DAY}d"
    if total_seconds < 8 * _YEAR:
        return _two_units(total_seconds, _YEAR, "y", _DAY, "d")
    return f"{total_seconds // _YEAR}y"


def _two_units(seconds: int, unit: int, name: str, smaller: int, smaller_name: str) -> str:
    smaller_count = seconds % unit // smaller
    return f"{seconds // unit}{name}{f'{smaller_count}{smaller_name}' if smaller_count else ''}"


def parse_time(text: str | None) -> datetime | None:
    """Parse a Time or MicroTime of an object; None if it is unset. Raises ValueError for a text
    that is not a time, or whose year in UTC is not between 1 and 9999."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except OverflowError as error:
        raise ValueError(str(error)) from None


def age_of(text: str | None, *, before: str = "", after: str = "") -> Age | str:
    """Return the cell with the time since a timestamp, and texts around it. Raises ValueError for
    a text that is not a time."""
    time = parse_time(text)
    return Age(time.timestamp(), before, after) if time else f"{before}{UNKNOWN}{after}"


def age(obj: Tree) -> Age | str:
    """Return the cell of the Age column."""
    return age_of(value_at(obj, "metadata", "creationTimestamp"))


def name(obj: Tree) -> str:
    """Return the cell of the Name column."""
    return name_of(obj)


def text(*path: str, empty: str = "") -> CellReader:
    """Return a reader of the string at a path; `empty` if there is none."""
    return lambda obj: str(value_at(obj, *path) or empty)


def number(*path: str) -> CellReader:
    """Return a reader of the number at a path; 0 if there is none."""
    return lambda obj: value_at(obj, *path) or 0


def count(*path: str) -> CellReader:
    """Return a reader of the length of the list at a path."""
    return lambda obj: len(value_at(obj, *path) or ())


def flag(*path: str, unset: bool = False) -> CellReader:
    """Return a reader of the boolean at a path; `unset` if there is none."""

    def cell(obj: Tree) -> bool:
        value = value_at(obj, *path)
        return unset if value is None else bool(value)

    return cell


def join_first(texts: Iterable[str], limit: int = 3) -> str:
    """Join the first `limit` strings and append how many more there are."""
    remaining = iter(texts)
    text = ",".join(islice(remaining, limit))
    remaining_count = sum(1 for _ in remaining)
    return f"{text} + {remaining_count} more..." if remaining_count else text


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Format labels as `a=b,c=d`."""
    if not labels:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def join_field(items: Sequence[Tree] | None, key: str) -> str:
    """Join one field of each item of a list with commas."""
    return ",".join(str(item.get(key) or "") for item in items or ())


def pod_template_columns(*path: str) -> tuple[Column, ...]:
    """Return the wide columns of a kind that has a pod template at `path`."""

    def containers(obj: Tree) -> Any:
        return value_at(obj, *path, "spec", "containers")

    return (
        Column(
            "Containers",
            lambda obj: join_field(containers(obj), "name"),
            "Names of each container in the template.",
            priority=1,
        ),
        Column(
            "Images",
            lambda obj: join_field(containers(obj), "image"),
            "Images referenced by each container in the template.",
            priority=1,
        ),
    )


REPLICA_COLUMNS = (
    Column("Desired", number("spec", "replicas"), "Number of desired pods.", type="integer"),
    Column("Current", number("status", "replicas"), "Number of existing pods.", type="integer"),
    Column("Ready", number("status", "readyReplicas"), "Number of ready pods.", type="integer"),
)
"""Columns of the kinds that keep a number of equal pods."""


def selector_column(*path: str) -> Column:
    """Return the wide column of the label selector at `path`."""
    description = "Labels of its pods."
    return Column("Selector", selector(*path), description, priority=1)


def selector(*path: str) -> CellReader:
    """Return a reader of the label selector at `path`."""

    def cell(obj: Tree) -> str:
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
    ),
    has_null_rows=True,
)
"""The columns of kinds that declare none."""
