"""The entries of managedFields: managers and the sets of fields they own, read and written.

Knows no merging. Mirrors managedfields/internal/managedfields.go of k8s.io/apimachinery.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.apply import fieldsets
from kapiserver.api.apply.fieldsets import Fields
from kapiserver.api.errors import BadObject
from kapiserver.api.types import Tree

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT_CHANGES = "ancient-changes"
MAX_ENTRIES = 1_000
"""Entries that a client may send."""


class Manager(Struct, frozen=True, order=True):
    """The identity of an entry of managedFields. An applier is the same manager in all versions."""

    name: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    def describe(self) -> str:
        """Format the manager as messages show it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == UPDATE:
            text += f" using {self.api_version}"
        return text


class VersionedSet(Struct, frozen=True, kw_only=True):
    """The fields of a manager, the version of these fields, and the time of their last change.

    entry  the entry that it was decoded from, if it is unchanged
    text   `fieldsets.text_of` of the fields, if they are unchanged since they were decoded
    """

    fields: Fields
    api_version: str
    time: str | None = None
    entry: Tree | None = None
    text: bytes | None = None

    def with_fields(self, fields: Fields) -> VersionedSet:
        """Return the same with other fields."""
        is_equal = fields is self.fields or fields == self.fields
        return self if is_equal else replace(self, fields=fields, entry=None, text=None)

    def with_time(self, time: str | None) -> VersionedSet:
        """Return the same with another time."""
        if time == self.time:
            return self
        # An entry without a time has no place for it.
        entry = {**self.entry, "time": time} if self.entry and self.time and time else None
        return replace(self, time=time, entry=entry)


Managers: TypeAlias = dict[Manager, VersionedSet]


def decode_managers(entries: Sequence[Tree]) -> Managers:
    """Decode the managedFields of an object. Raises BadObject for malformed entries."""
    if len(entries) > MAX_ENTRIES:
        raise BadObject(f"more than {MAX_ENTRIES} entries of managedFields")
    managers: Managers = {}
    for entry in entries:
        manager, owned = _read_entry(entry)
        managers[manager] = owned
    return managers


def _read_entry(entry: Tree) -> tuple[Manager, VersionedSet]:
    operation, version = entry.get("operation") or "", entry.get("apiVersion") or ""
    kind = entry.get("fieldsType") or ""
    if operation not in (APPLY, UPDATE):
        raise BadObject(f'error decoding manager from entry: operation is not known: "{operation}"')
    if not version:
        raise BadObject("apiVersion must not be empty")
    if kind != "FieldsV1":
        raise BadObject(
            "missing fieldsType in managed fields entry"
            if not kind
            else f'invalid fieldsType "{kind}" in managed fields entry'
        )
    text = fieldsets.text_of(entry.get("fieldsV1") or {})
    try:
        fields = fieldsets.validate(entry.get("fieldsV1") or {}, text)
    except ValueError as error:
        raise BadObject(f"error decoding set: {error}") from None
    manager = Manager(
        entry.get("manager") or "",
        operation,
        "" if operation == APPLY else version,
        entry.get("subresource") or "",
    )
    return manager, VersionedSet(
        fields=fields, api_version=version, time=entry.get("time"), entry=entry, text=text
    )


def encode_managers(managers: Managers) -> list[Tree]:
    """Return the entries of managedFields, in order."""
    pairs = list(managers.items())
    if len(pairs) > 1:
        pairs.sort(
            key=lambda pair: (
                pair[0].operation,
                pair[1].time or "",
                pair[0].name,
                pair[1].api_version,
                pair[0].subresource,
            )
        )
    return [_write_entry(manager, owned) for manager, owned in pairs]


def _write_entry(manager: Manager, owned: VersionedSet) -> Tree:
    if owned.entry is not None:
        return owned.entry
    fields = fieldsets.sort_steps(owned.fields)
    return new_entry(manager, owned.api_version, fields, owned.time)


def new_entry(manager: Manager, api_version: str, fields: Fields, time: str | None) -> Tree:
    """Return the entry of a manager; the steps of `fields` are in the order in which they are
    serialized."""
    entry: Tree = {"manager": manager.name} if manager.name else {}
    entry["operation"] = manager.operation
    entry["apiVersion"] = api_version
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def managed_fields_of(obj: Tree) -> list[Tree]:
    """Return the managedFields entries of an object."""
    return (obj.get("metadata") or {}).get("managedFields") or []
