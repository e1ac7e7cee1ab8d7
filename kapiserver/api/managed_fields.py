"""Who owns which fields of an object: managedFields, kept at every write, and server-side apply.

A FieldManager follows the writes to one kind in one version through one subresource; it is pure:
trees of that version in, trees out, the time given. Other versions of the kind are reached by the
`Schemas` it is given, so that an owner who wrote in another version keeps what it owns. Knows no
store and no HTTP. Mirrors k8s.io/apimachinery/pkg/util/managedfields and the merge package of
sigs.k8s.io/structured-merge-diff; the design is KEP-555.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

from kapiserver.api import fieldsets, structured_merge
from kapiserver.api.accessors import metadata_of, uid_of
from kapiserver.api.errors import BadObject, FieldConflicts, NotRegistered
from kapiserver.api.fieldsets import Fields, difference, intersection, union, without
from kapiserver.api.merge_schema import Node
from kapiserver.api.structured_merge import Comparison
from kapiserver.api.typed_values import (
    SchemaMismatch,
    checked_fields_of,
    fields_of,
    reconcile,
    with_named_fields,
)
from kapiserver.api.types import Tree

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10
"""Entries of operation Update; the oldest beyond that are merged."""
BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT_CHANGES = "ancient-changes"
MAX_ENTRIES = 1_000
"""Entries a client may send."""

_OF_THE_SERVER: Fields = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:creationTimestamp": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:name": {},
        "f:namespace": {},
        "f:resourceVersion": {},
        "f:selfLink": {},
        "f:uid": {},
    },
}
"""What nobody owns."""


class Manager(NamedTuple):
    """Who writes: one entry of managedFields. An applier is the same in all versions."""

    name: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    def shown(self) -> str:
        """As messages name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == UPDATE:
            text += f" using {self.api_version}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedSet:
    """What a manager owns, in the version it wrote in, and when it last changed that.

    entry   the entry it was read from, while it says the same
    """

    fields: Fields
    api_version: str
    time: str | None = None
    entry: Tree | None = None

    def with_fields(self, fields: Fields) -> VersionedSet:
        """The same with other fields."""
        same = fields is self.fields or fields == self.fields
        return self if same else replace(self, fields=fields, entry=None)

    def with_time(self, time: str | None) -> VersionedSet:
        """The same at another time."""
        return self if time == self.time else replace(self, time=time, entry=None)


Managers: TypeAlias = dict[Manager, VersionedSet]


def conflict_error(found: Mapping[Manager, Fields]) -> FieldConflicts:
    """The error that these managers own these fields."""
    managers = sorted(found, key=Manager.shown)
    paths = [(one.shown(), path) for one in managers for path in fieldsets.format_paths(found[one])]
    return FieldConflicts(found, paths)


class Schemas(Protocol):
    """The kind in all its versions."""

    def node(self, api_version: str) -> Node:
        """Its schema in a version. Raises NotRegistered."""

    def convert(self, obj: Tree, api_version: str) -> Tree:
        """The object in another version. Raises NotRegistered."""

    def empty(self, api_version: str) -> Tree:
        """The object with nothing set, as it is before it is created. Shared: never change it."""


# managedFields, read and written.


def decode_managers(entries: Sequence[Tree]) -> Managers:
    """The managers of an object. Raises BadObject for entries that make no sense."""
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
    try:
        fields = fieldsets.validate(entry.get("fieldsV1") or {})
    except ValueError as error:
        raise BadObject(f"error decoding set: {error}") from None
    manager = Manager(
        entry.get("manager") or "",
        operation,
        "" if operation == APPLY else version,
        entry.get("subresource") or "",
    )
    owned = VersionedSet(fields=fields, api_version=version, time=entry.get("time"), entry=entry)
    return manager, owned


def encode_managers(managers: Managers) -> list[Tree]:
    """The entries of managedFields, in order."""
    pairs = sorted(
        managers.items(),
        key=lambda pair: (
            pair[0].operation,
            pair[1].time or "",
            pair[0].name,
            pair[1].api_version,
            pair[0].subresource,
        ),
    )
    return [_write_entry(manager, owned) for manager, owned in pairs]


def _write_entry(manager: Manager, owned: VersionedSet) -> Tree:
    if owned.entry is not None:
        return owned.entry
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fieldsets.sort_steps(owned.fields),
        "subresource": manager.subresource,
    }
    return {name: value for name, value in entry.items() if value or name == "fieldsV1"}


def managed_fields_of(obj: Tree) -> list[Tree]:
    """The entries an object carries."""
    return metadata_of(obj).get("managedFields") or []


# Following writes.


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldManager:
    """Follows the writes to one kind in `version`, through `subresource` where it is not empty.

    ignored     fields that such writes do not change, whatever the client sends: the status when
                the object is written, the spec when its status is
    """

    schemas: Schemas
    version: str
    subresource: str = ""
    ignored: Fields

    def update(self, live: Tree | None, new: Tree, *, manager: str, now: str) -> list[Tree]:
        """The managedFields of `new` that replaces `live` (None: is created), both in `version`.

        What the client sent as managedFields counts where it makes sense, as it may edit them.
        """
        managers = self._sent(live, new)
        if managers is None:
            return []
        if not managers and live is not None and uid_of(live):
            return []  # an object whose owners nobody tracks
        before = self.schemas.empty(self.version) if live is None else live
        taken = self._updated(_bare(before), _bare(new), managers, self._updater(manager), now)
        return encode_managers(_capped(taken))

    def _sent(self, live: Tree | None, new: Tree) -> Managers | None:
        """The managers to begin with; None where the client resets them for good."""
        entries = managed_fields_of(new)
        if not self.subresource:
            if len(entries) == 1 and not any(entries[0].values()):
                return {} if live is None else None
            sent = _read_or_none(entries)
            if sent:
                return self._reconciled(sent)
        kept = _read_or_none([] if live is None else managed_fields_of(live))
        return self._reconciled(kept)

    def _reconciled(self, managers: Managers) -> Managers:
        """The managers with sets that the schemas of today could have given them."""
        for manager, owned in managers.items():
            try:
                node = self.schemas.node(owned.api_version)
            except NotRegistered:
                continue
            managers[manager] = owned.with_fields(reconcile(node, owned.fields))
        return managers

    def _updater(self, name: str) -> Manager:
        return Manager(name, UPDATE, self.version, self.subresource)

    def _updated(
        self, before: Tree, after: Tree, managers: Managers, manager: Manager, now: str
    ) -> Managers:
        comparison = self._compared(before, after)
        managers = self._yielded(before, after, comparison, managers, None)
        gained = difference(union(comparison.added, comparison.modified), _OF_THE_SERVER)
        if gained:
            mine = managers.get(manager)
            if mine is not None:
                gained = union(gained, mine.fields)
            managers[manager] = VersionedSet(fields=gained, api_version=self.version, time=now)
        return managers

    def _compared(self, before: Tree, after: Tree) -> Comparison:
        return self._filtered(structured_merge.compare(self._node, before, after))

    def _filtered(self, found: Comparison) -> Comparison:
        if not self.ignored:
            return found
        return Comparison(
            added=without(found.added, self.ignored),
            modified=without(found.modified, self.ignored),
            removed=without(found.removed, self.ignored),
        )

    @property
    def _node(self) -> Node:
        return self.schemas.node(self.version)

    def _yielded(
        self,
        before: Tree,
        after: Tree,
        comparison: Comparison,
        managers: Managers,
        applier: Manager | None,
        *,
        force: bool = True,
    ) -> Managers:
        """The managers less what this write takes from them. Raises FieldConflicts."""
        seen = {self.version: comparison}
        kept: Managers = {}
        conflicts = {}
        for manager, owned in managers.items():
            if manager == applier:
                kept[manager] = owned
                continue
            there = seen.get(owned.api_version)
            if there is None:
                found = self._compared_in(before, after, owned.api_version)
                if found is None:
                    continue  # a version that is gone takes its owners with it
                there = seen[owned.api_version] = found
            taken = intersection(owned.fields, union(there.modified, there.added))
            if taken:
                conflicts[manager] = taken
            left = difference(difference(owned.fields, taken), there.removed)
            if left:
                kept[manager] = owned.with_fields(left)
        if conflicts and not force:
            raise conflict_error(conflicts)
        return kept

    def _compared_in(self, before: Tree, after: Tree, version: str) -> Comparison | None:
        try:
            node = self.schemas.node(version)
            one, other = (self.schemas.convert(tree, version) for tree in (before, after))
        except NotRegistered:
            return None
        return self._filtered(structured_merge.compare(node, one, other))

    # Applying.

    def apply(
        self, live: Tree | None, config: Tree, *, manager: str, now: str, force: bool = False
    ) -> tuple[Tree, list[Tree]]:
        """What comes out of applying `config` (as the client wrote it, in `version`) to `live`,
        in `version` with what the schema does not say undefaulted, and its managedFields.

        `live` itself comes back where nothing changes. Raises FieldConflicts, BadObject.
        """
        if "managedFields" in (config.get("metadata") or {}):
            raise BadObject("metadata.managedFields must be nil")
        current = deepcopy(self.schemas.empty(self.version)) if live is None else live
        managers = self._reconciled(_read_or_none(managed_fields_of(current)))
        bare = _bare(current)
        if not managers and live is not None:
            first = self._updater(BEFORE_FIRST_APPLY)
            empty = _bare(self.schemas.empty(self.version))
            managers = self._updated(empty, bare, {}, first, now)
        field_set = self.field_set(config)
        applier = Manager(manager, APPLY, "", self.subresource)
        merged, taken = self._applied(bare, config, field_set, managers, applier, force=force)
        changed = live is None or (merged is not bare and merged != bare)
        if applier in taken:
            mine = taken[applier]
            taken[applier] = mine.with_time(now) if changed else mine
        return (merged if changed else current), encode_managers(_capped(taken))

    def field_set(self, config: Tree) -> Fields:
        """The fields that the configuration sets. Raises BadObject where it does not fit."""
        try:
            return checked_fields_of(self._node, config)
        except SchemaMismatch as error:
            raise BadObject(
                f"failed to create typed patch object ({object_description(config)}): {error}"
            ) from None

    def _applied(
        self,
        live: Tree,
        config: Tree,
        field_set: Fields,
        managers: Managers,
        applier: Manager,
        *,
        force: bool,
    ) -> tuple[Tree, Managers]:
        last = managers.get(applier)
        field_set = without(field_set, self.ignored)
        mine = difference(field_set, _OF_THE_SERVER)
        # When that was says who changes something; who only comes to share has no time of its own.
        time = None if last is None else last.time
        now_owned = VersionedSet(fields=mine, api_version=self.version, time=time)
        drops = False
        if last is not None and last.api_version == self.version:
            if last.fields == mine:
                now_owned = last
            else:
                drops = bool(difference(last.fields, mine))
        managers = {**managers, applier: now_owned}
        merged: Tree = structured_merge.merge(self._node, live, config)
        if last is not None and (drops or last.api_version != self.version):
            # That the applier names the object keeps its metadata from being pruned.
            named = replace(now_owned, fields=field_set)
            merged = self._pruned(merged, {**managers, applier: named}, last)
        comparison = self._compared(live, merged)
        taken = self._yielded(live, merged, comparison, managers, applier, force=force)
        if not mine:
            taken.pop(applier, None)
        return merged, taken

    def _pruned(self, merged: Tree, managers: Managers, last: VersionedSet) -> Tree:
        """Without what the applier set last time, sets no more, and nobody else owns."""
        if last.api_version != self.version:
            try:
                there = self.schemas.convert(merged, last.api_version)
            except NotRegistered:
                return merged
            cut = self._pruned_in(there, managers, last)
            return merged if cut == there else self.schemas.convert(cut, self.version)
        return self._pruned_in(merged, managers, last)

    def _pruned_in(self, merged: Tree, managers: Managers, last: VersionedSet) -> Tree:
        version = last.api_version
        node = self.schemas.node(version)
        theirs = with_named_fields(node, last.fields)
        pruned = structured_merge.remove(node, merged, theirs)
        if pruned == merged:
            return merged
        owned: dict[str, Fields] = {version: {}}
        for one in managers.values():
            owned[one.api_version] = union(owned.get(one.api_version, {}), one.fields)
        for there, fields in owned.items():
            pruned = self._with_owned(merged, pruned, version, there, fields)
        all_of_it = with_named_fields(node, fields_of(node, merged))
        left = with_named_fields(node, fields_of(node, pruned))
        gone = intersection(difference(all_of_it, left), theirs)
        cut: Tree = structured_merge.remove(node, merged, gone)
        return cut

    def _with_owned(
        self, merged: Tree, pruned: Tree, version: str, there: str, owned: Fields
    ) -> Tree:
        """The pruned object with what somebody owns in version `there` put back."""
        if there != version:
            try:
                merged, pruned = (self.schemas.convert(one, there) for one in (merged, pruned))
            except NotRegistered:
                return pruned
        node = self.schemas.node(there)
        all_of_it = with_named_fields(node, fields_of(node, merged))
        left = with_named_fields(node, fields_of(node, pruned))
        keep = union(left, with_named_fields(node, owned))
        found: Tree = structured_merge.remove(node, merged, difference(all_of_it, keep))
        return found if there == version else self.schemas.convert(found, version)


def _read_or_none(entries: Sequence[Tree]) -> Managers:
    """The managers, or none where the entries make no sense."""
    try:
        return decode_managers(entries)
    except BadObject:
        return {}


def _bare(obj: Tree) -> Tree:
    """The object without its managedFields."""
    metadata = metadata_of(obj)
    if "managedFields" not in metadata:
        return obj
    rest = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**obj, "metadata": rest}


def object_description(config: Tree) -> str:
    """What messages call an object: `namespace/name; version, Kind=kind`."""
    metadata = config.get("metadata") or {}
    version = config.get("apiVersion") or ""
    return (
        f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; "
        f"{version}, Kind={config.get('kind') or ''}"
    )


def _capped(managers: Managers) -> Managers:
    """The managers with the oldest updaters beyond MAX_UPDATERS merged, a bucket a version."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return managers
    managers = dict(managers)
    updaters.sort(key=lambda manager: (managers[manager].time or "", manager))
    firsts: dict[str, Manager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        owned = managers[manager]
        first = firsts.setdefault(owned.api_version, manager)
        if first == manager:
            continue
        bucket = Manager(ANCIENT_CHANGES, UPDATE, owned.api_version)
        if bucket not in managers:
            managers[bucket] = replace(managers.pop(first), entry=None)
        fields = union(owned.fields, managers[bucket].fields)
        managers[bucket] = replace(owned, fields=fields, entry=None)
        if manager != bucket:
            del managers[manager]
            excess -= 1
    return managers
