"""Objects as the rows of a Table, and objects as their metadata alone.

Pure: trees in, trees out; the time is given. Mirrors asTable and asPartialObjectMetadata of
k8s.io/apiserver/pkg/endpoints/handlers/response.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, cast

from kapiserver.api.columns import Columns
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.errors import BadRequest

Include: TypeAlias = Literal["None", "Metadata", "Object"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOf:
    """How the objects of one resource become a Table.

    table_version   of the Table: v1 or v1beta1 of meta.k8s.io
    version         of the objects in its rows
    include         what a row shows of its object beside the cells
    """

    scheme: Scheme
    columns: Columns
    table_version: GroupVersion
    version: GroupVersion
    include: Include

    def head(self, metadata: Tree) -> Tree:
        """A Table without rows; `metadata` is a ListMeta."""
        return {
            "kind": "Table",
            "apiVersion": str(self.table_version),
            "metadata": metadata,
            "columnDefinitions": self.columns.definitions(),
            "rows": [],
        }

    def row(self, obj: Tree, now: datetime) -> Tree:
        """The row of an object in the hub version."""
        row: Tree = {"cells": self.columns.cells(obj, now)}
        conditions = self.columns.conditions(obj)
        if conditions:
            row["conditions"] = conditions
        row["object"] = self._object(obj)
        return row

    def _object(self, obj: Tree) -> Tree | None:
        match self.include:
            case "None":
                return None
            case "Metadata":
                return metadata_alone(obj, self.table_version)
            case "Object":
                return in_version(self.scheme, obj, self.version)


def in_version(scheme: Scheme, obj: Tree, version: GroupVersion) -> Tree:
    """The object in that version: itself when it is. Raises BadRequest where it has no form."""
    if obj["apiVersion"] == str(version):
        return obj
    try:
        return scheme.convert(obj, version)
    except (ConversionFailed, NotRegistered) as error:
        raise BadRequest(str(error)) from None


def include_of(options: Tree) -> Include:
    """What TableOptions ask rows to include. Raises BadRequest."""
    include = options.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise BadRequest(
            "Unable to convert to Table as requested: includeObject: Invalid value: "
            f"\"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        )
    return cast(Include, include)


def metadata_alone(obj: Tree, version: GroupVersion) -> Tree:
    """The PartialObjectMetadata of an object, in that version of meta.k8s.io."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": str(version),
        "metadata": obj.get("metadata") or {},
    }
