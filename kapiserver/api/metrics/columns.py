"""Table columns of the metrics group, as metrics-server has them."""

from __future__ import annotations

from collections.abc import Callable

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import NAME, Cell, CellReader, Column, Columns
from kapiserver.api.quantity import add, parse
from kapiserver.api.types import Tree


def _of_node(resource: str) -> CellReader:
    def cell(metrics: Tree) -> Cell:
        return value_at(metrics, "usage", resource) or "0"

    return cell


def _of_pod(resource: str) -> CellReader:
    def cell(metrics: Tree) -> Cell:
        total = parse("0")
        for container in metrics.get("containers") or ():
            total = add(total, parse(value_at(container, "usage", resource) or "0"))
        return str(total)

    return cell


def _window(metrics: Tree) -> Cell:
    return metrics.get("window") or ""


_WINDOW = Column("Window", _window, "How long the measurement lasted.")


def _columns(usage: Callable[[str], CellReader]) -> Columns:
    cpu = Column("cpu", usage("cpu"), "CPU in cores.")
    memory = Column("memory", usage("memory"), "Memory in bytes.")
    return Columns((NAME, cpu, memory, _WINDOW))


COLUMNS: dict[str, Columns] = {"NodeMetrics": _columns(_of_node), "PodMetrics": _columns(_of_pod)}
