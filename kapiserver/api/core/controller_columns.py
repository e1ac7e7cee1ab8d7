"""Table columns of endpoints, pod templates and replication controllers.

Mirrors pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kapiserver.api.accessors import labels_of, value_at
from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    REPLICA_COLUMNS,
    Column,
    Columns,
    join_first,
    labels_text,
    pod_template_columns,
)
from kapiserver.api.types import Tree


def _endpoints(obj: Tree) -> str:
    subsets = obj.get("subsets") or ()
    if not subsets:
        return NONE
    return join_first(address for subset in subsets for address in _addresses(subset))


def _addresses(subset: Tree) -> Iterator[str]:
    ports, addresses = subset.get("ports") or (), subset.get("addresses") or ()
    if not ports:
        yield from (address.get("ip") or "" for address in addresses)
    for port in ports:
        for address in addresses:
            ip = address.get("ip") or ""
            yield f"{f'[{ip}]' if ':' in ip else ip}:{port.get('port') or 0}"


def _selector(controller: Tree) -> str:
    return labels_text(value_at(controller, "spec", "selector"))


def _labels(template: Tree) -> str:
    return labels_text(labels_of(template.get("template") or {}))


CONTROLLER_COLUMNS: dict[str, Columns] = {
    "Endpoints": Columns(
        (NAME, Column("Endpoints", _endpoints, "Ready addresses and their ports."), AGE)
    ),
    "PodTemplate": Columns(
        (
            NAME,
            *(replace(column, priority=0) for column in pod_template_columns("template")),
            Column("Pod Labels", _labels, "Labels of the pods."),
        )
    ),
    "ReplicationController": Columns(
        (
            NAME,
            *REPLICA_COLUMNS,
            AGE,
            *pod_template_columns("spec", "template"),
            Column("Selector", _selector, "Label selector of the pods.", priority=1),
        )
    ),
}
