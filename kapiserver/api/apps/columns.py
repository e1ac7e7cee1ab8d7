"""The tables of the apps group. Mirrors pkg/printers/internalversion of Kubernetes."""

from __future__ import annotations

from datetime import datetime

from kapiserver.api.columns import AGE, NAME, Column, Columns, number, of_pods
from kapiserver.api.errors import BadObject
from kapiserver.api.label_selectors import selector_text
from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree


def _ready(deployment: Tree, _: datetime) -> str:
    ready = value_at(deployment, "status", "readyReplicas") or 0
    return f"{ready}/{value_at(deployment, 'spec', 'replicas') or 0}"


def _selector(deployment: Tree, _: datetime) -> str:
    try:
        return selector_text(value_at(deployment, "spec", "selector"))
    except BadObject:
        return "<invalid>"


COLUMNS: dict[str, Columns] = {
    "Deployment": Columns(
        (
            NAME,
            Column("Ready", _ready, "Ready pods of all that are wanted."),
            Column("Up-to-date", number("status", "updatedReplicas"), "Pods of the template."),
            Column("Available", number("status", "availableReplicas"), "Pods ready for a while."),
            AGE,
            *of_pods("spec", "template"),
            Column("Selector", _selector, "Labels of its pods.", priority=1),
        )
    ),
}
