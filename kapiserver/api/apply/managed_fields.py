"""Field management: tracking the owners of fields in managedFields, and server-side apply.

A FieldManager tracks the writes to one kind in one version through one subresource. It is pure: it
takes trees of that version and the time, and returns trees. `Schemas` reaches the other versions of
the kind, so that managers that wrote in another version keep their fields. Knows no store and no
HTTP.
Mirrors k8s.io/apimachinery/pkg/util/managedfields and the merge package of
sigs.k8s.io/structured-merge-diff; the design is KEP-555.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Protocol

import orjson
from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.accessors import copy_tree, metadata_of, uid_of
from kapiserver.api.apply import fieldsets, structured_merge
from kapiserver.api.apply.fieldsets import (
    Fields,
    difference,
    intersection,
    is_subset,
    union,
    without,
)
from kapiserver.api.apply.managed_fields_entries import (
    ANCIENT_CHANGES,
    APPLY,
    BEFORE_FIRST_APPLY,
    UPDATE,
    Manager,
    Managers,
    VersionedSet,
    decode_managers,
    encode_managers,
    managed_fields_of,
    new_entry,
)
from kapiserver.api.apply.merge_schema import MapNode, Node
from kapiserver.api.apply.structured_merge import Comparison, Unowned
from kapiserver.api.apply.typed_values import (
    SchemaMismatch,
    checked_fields_of,
    fields_of,
    reconcile,
    with_named_fields,
)
from kapiserver.api.errors import BadObject, FieldConflicts, NotRegistered
from kapiserver.api.types import Tree

MAX_UPDATERS = 10
"""Entries of operation Update that an object may have; the oldest beyond that are merged."""

SERVER_FIELDS: Fields = {
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
"""Fields that have no owners, as in kube-apiserver."""
UNOWNED: Unowned = {
    "apiVersion": None,
    "kind": None,
    "metadata": dict.fromkeys(step.removeprefix("f:") for step in SERVER_FIELDS["f:metadata"]),
}
"""The same by their names."""


def conflict_error(fields_by_manager: Mapping[Manager, Fields]) -> FieldConflicts:
    """Return the error that other managers own these fields."""
    managers = sorted(fields_by_manager, key=Manager.describe)
    paths = [
        (manager.describe(), path)
        for manager in managers
        for path in fieldsets.format_paths(fields_by_manager[manager])
    ]
    return FieldConflicts(fields_by_manager, paths)


class Schemas(Protocol):
    """A kind in all its versions."""

    def node(self, api_version: str) -> Node:
        """Return the schema in a version. Raises NotRegistered, and VersionDropped for a custom
        kind."""

    def convert(self, obj: Tree, api_version: str) -> Tree:
        """Return the object in another version. Raises NotRegistered."""

    def empty(self, api_version: str) -> Tree:
        """Return an object with no field set, the live object of a create. Shared: never change
        it."""


class FieldManager(Struct, frozen=True, kw_only=True, dict=True):
    """Tracks the writes to one kind in `version`, through `subresource` unless it is empty.

    ignored  fields that such writes do not change, whatever the client sends: the status for writes
             of the object, the spec for writes of the status
    view_version    the version of the body if it is another kind than the object, such as a Scale.
             kube-apiserver makes the entries of the object from those of the body: they keep the
             times that they had
    """

    schemas: Schemas
    version: str
    subresource: str = ""
    ignored: Fields
    view_version: str = ""

    def update(self, live: Tree | None, new: Tree, *, manager: str, now: str) -> list[Tree]:
        """Return the managedFields of `new`, which replaces `live` (None on create), both in
        `version`.

        Valid managedFields that the client sent are the base, so that clients can edit them.
        """
        managers = self._initial_managers(live, new)
        if managers is None:
            return []
        if not managers and live is None:
            return self._entries_of_new(new, manager, now)
        if not managers and live is not None and uid_of(live):
            return []  # the object has no managedFields: tracking is off for it
        before = self._empty if live is None else live
        updated = self._update_managers(before, new, managers, self._updater(manager), now)
        return encode_managers(_cap_updaters(updated))

    def _entries_of_new(self, new: Tree, manager: str, now: str) -> list[Tree]:
        """Return the managedFields of a new object, whose creator owns all fields. What `update`
        would return, with a fraction of its work: an object has more fields than a change of it."""
        empty, node = self._empty, self._node
        assert isinstance(node, MapNode), "an object is a map"
        fields = structured_merge.fields_of_new(node, empty, new, UNOWNED)
        fields = without(fields, self.ignored)
        if not fields:
            return []
        return [new_entry(self._updater(manager), self.version, fields, now)]

    def _initial_managers(self, live: Tree | None, new: Tree) -> Managers | None:
        """Return the managers before this write; None if the client resets managedFields."""
        entries = managed_fields_of(new)
        if live is None and not entries:
            return {}
        if entries and not self.subresource:
            if len(entries) == 1 and not any(entries[0].values()):
                return {} if live is None else None
            sent = _decode_or_empty(entries)
            if sent:
                return self._reconcile(sent)
        stored = _decode_or_empty([] if live is None else managed_fields_of(live))
        return self._reconcile(stored)

    def _reconcile(self, managers: Managers) -> Managers:
        """Adapt the field sets to the current schemas."""
        for manager, owned in managers.items():
            try:
                is_own = owned.api_version == self.version
                node = self._node if is_own else self.schemas.node(owned.api_version)
            except NotRegistered:
                continue
            if owned.text is None or not _text_fits(node, owned.text):
                managers[manager] = owned.with_fields(reconcile(node, owned.fields))
        return managers

    def _updater(self, name: str) -> Manager:
        return Manager(name, UPDATE, self.version, self.subresource)

    def _update_managers(
        self, before: Tree, after: Tree, managers: Managers, manager: Manager, now: str
    ) -> Managers:
        comparison = self._compare(before, after)
        changed_fields = union(comparison.added, comparison.modified)
        previous = managers.get(manager)
        if (
            previous is not None
            and changed_fields
            and not comparison.removed
            and is_subset(changed_fields, previous.fields)
        ):  # a manager that writes the same fields again: only the time changes
            managers = self._remove_ownership(before, after, comparison, managers, manager)
            managers[manager] = previous.with_time(self._time(previous, now))
            return managers
        managers = self._remove_ownership(before, after, comparison, managers, None)
        if changed_fields:
            previous = managers.get(manager)
            if previous is not None:
                changed_fields = union(changed_fields, previous.fields)
            managers[manager] = VersionedSet(
                fields=changed_fields, api_version=self.version, time=self._time(previous, now)
            )
        return managers

    def _time(self, previous: VersionedSet | None, now: str) -> str | None:
        """Return the time of the entry of a write."""
        if not self.view_version:
            return now
        return None if previous is None else previous.time

    def _compare(self, before: Tree, after: Tree) -> Comparison:
        return self._compare_by(self._node, before, after)

    def _compare_by(self, node: Node, before: Tree, after: Tree) -> Comparison:
        """Return the changes of fields that have owners and are not ignored."""
        for tree in (before, after):
            metadata_of(tree)  # adds metadata if it is missing, as `compare` demands
        comparison = structured_merge.compare(node, before, after, UNOWNED)
        if not self.ignored:
            return comparison
        return Comparison(
            added=without(comparison.added, self.ignored),
            modified=without(comparison.modified, self.ignored),
            removed=without(comparison.removed, self.ignored),
        )

    @functools.cached_property
    def _node(self) -> Node:
        return self.schemas.node(self.version)

    @functools.cached_property
    def _empty(self) -> Tree:
        return self.schemas.empty(self.version)

    def _remove_ownership(
        self,
        before: Tree,
        after: Tree,
        comparison: Comparison,
        managers: Managers,
        applier: Manager | None,
        *,
        force: bool = True,
    ) -> Managers:
        """Return the managers without the fields that this write takes from them. Raises
        FieldConflicts."""
        comparisons = {self.version: comparison}
        remaining_managers: Managers = {}
        conflicts = {}
        for manager, owned in managers.items():
            if manager == applier:
                remaining_managers[manager] = owned
                continue
            their_comparison = comparisons.get(owned.api_version)
            if their_comparison is None:
                computed = self._compare_in(before, after, owned.api_version)
                if computed is None:
                    continue  # the version no longer exists, so drop its managers
                their_comparison = comparisons[owned.api_version] = computed
            taken_over = intersection(
                owned.fields, union(their_comparison.modified, their_comparison.added)
            )
            if taken_over:
                conflicts[self._shown(manager)] = taken_over
            remaining_fields = difference(
                difference(owned.fields, taken_over), their_comparison.removed
            )
            if remaining_fields:
                remaining_managers[manager] = owned.with_fields(remaining_fields)
        if conflicts and not force:
            raise conflict_error(conflicts)
        return remaining_managers

    def _shown(self, manager: Manager) -> Manager:
        """Return a manager as messages about this write name it."""
        if not self.view_version or manager.operation == APPLY:
            return manager
        return replace(manager, api_version=self.view_version)

    def _compare_in(self, before: Tree, after: Tree, version: str) -> Comparison | None:
        try:
            node = self.schemas.node(version)
            trees = _without_managed_fields(before), _without_managed_fields(after)
            old, new = (self.schemas.convert(tree, version) for tree in trees)
        except NotRegistered:
            return None
        return self._compare_by(node, old, new)

    # Applying.

    def apply(
        self, live: Tree | None, config: Tree, *, manager: str, now: str, force: bool = False
    ) -> tuple[Tree, list[Tree]]:
        """Apply `config`, as the client wrote it in `version`, to `live`.

        Returns the new object in `version`, fields unknown to the schema not defaulted, and its
        managedFields. Returns `live` itself if nothing changes. Raises FieldConflicts and
        BadObject.
        """
        current = copy_tree(self._empty) if live is None else live
        managers = self._reconcile(_decode_or_empty(managed_fields_of(current)))
        live_object = _without_managed_fields(current)
        if not managers and live is not None:
            updater = self._updater(BEFORE_FIRST_APPLY)
            empty = self._empty
            managers = self._update_managers(empty, live_object, {}, updater, now)
        field_set = self.field_set(config)
        applier = Manager(manager, APPLY, "", self.subresource)
        merged, updated = self._merge(
            live_object, config, field_set, managers, applier, force=force
        )
        changed = live is None or (merged is not live_object and merged != live_object)
        if applier in updated:
            applied = updated[applier]
            time = self._time(managers.get(applier), now)
            updated[applier] = applied.with_time(time) if changed else applied
        return (merged if changed else current), encode_managers(_cap_updaters(updated))

    def field_set(self, config: Tree) -> Fields:
        """Return the fields that the configuration sets. Raises BadObject if it does not fit the
        schema."""
        try:
            return checked_fields_of(self._node, config)
        except SchemaMismatch as error:
            raise BadObject(
                f"failed to create typed patch object ({object_description(config)}): {error}"
            ) from None

    def _merge(
        self,
        live: Tree,
        config: Tree,
        field_set: Fields,
        managers: Managers,
        applier: Manager,
        *,
        force: bool,
    ) -> tuple[Tree, Managers]:
        previous = managers.get(applier)
        field_set = without(field_set, self.ignored)
        owned_fields = difference(field_set, SERVER_FIELDS)
        # The time is that of the last change by this manager; sharing fields only sets none.
        time = None if previous is None else previous.time
        applied = VersionedSet(fields=owned_fields, api_version=self.version, time=time)
        removes_fields = False
        if previous is not None and previous.api_version == self.version:
            if previous.fields == owned_fields:
                applied = previous
            else:
                removes_fields = bool(difference(previous.fields, owned_fields))
        managers = {**managers, applier: applied}
        merged: Tree = structured_merge.merge(self._node, live, config)
        if previous is not None and (removes_fields or previous.api_version != self.version):
            # The name that the applier sets keeps its metadata from being pruned.
            with_identity = replace(applied, fields=field_set)
            merged = self._prune(merged, {**managers, applier: with_identity}, previous)
        comparison = self._compare(live, merged)
        remaining = self._remove_ownership(live, merged, comparison, managers, applier, force=force)
        if not owned_fields:
            remaining.pop(applier, None)
        return merged, remaining

    def _prune(self, merged: Tree, managers: Managers, previous: VersionedSet) -> Tree:
        """Remove the fields that the applier set last time but not now, unless others own them."""
        if previous.api_version != self.version:
            try:
                converted = self.schemas.convert(merged, previous.api_version)
            except NotRegistered:
                return merged
            pruned = self._prune_in(converted, managers, previous)
            return merged if pruned == converted else self.schemas.convert(pruned, self.version)
        return self._prune_in(merged, managers, previous)

    def _prune_in(self, merged: Tree, managers: Managers, previous: VersionedSet) -> Tree:
        version = previous.api_version
        node = self.schemas.node(version)
        previous_fields = with_named_fields(node, previous.fields)
        pruned = structured_merge.remove(node, merged, previous_fields)
        if pruned == merged:
            return merged
        owned: dict[str, Fields] = {version: {}}
        for versioned in managers.values():
            owned[versioned.api_version] = union(
                owned.get(versioned.api_version, {}), versioned.fields
            )
        for owner_version, fields in owned.items():
            pruned = self._restore_owned(merged, pruned, version, owner_version, fields)
        all_fields = with_named_fields(node, fields_of(node, merged))
        remaining = with_named_fields(node, fields_of(node, pruned))
        dropped = intersection(difference(all_fields, remaining), previous_fields)
        result: Tree = structured_merge.remove(node, merged, dropped)
        return result

    def _restore_owned(
        self, merged: Tree, pruned: Tree, version: str, owner_version: str, owned: Fields
    ) -> Tree:
        """Put back into the pruned object the fields that a manager owns in `owner_version`."""
        if owner_version != version:
            try:
                merged, pruned = (
                    self.schemas.convert(tree, owner_version) for tree in (merged, pruned)
                )
            except NotRegistered:
                return pruned
        node = self.schemas.node(owner_version)
        all_fields = with_named_fields(node, fields_of(node, merged))
        remaining = with_named_fields(node, fields_of(node, pruned))
        keep = union(remaining, with_named_fields(node, owned))
        result: Tree = structured_merge.remove(node, merged, difference(all_fields, keep))
        return result if owner_version == version else self.schemas.convert(result, version)


@functools.lru_cache(maxsize=1024)
def _text_fits(node: Node, text: bytes) -> bool:
    """Whether `reconcile` leaves the set in this JSON as it is."""
    fields = orjson.loads(text)
    return reconcile(node, fields) is fields


def _decode_or_empty(entries: Sequence[Tree]) -> Managers:
    """Return the managers, or none if the entries are malformed."""
    try:
        return decode_managers(entries)
    except BadObject:
        return {}


def _without_managed_fields(obj: Tree) -> Tree:
    """Return the object without its managedFields."""
    metadata = metadata_of(obj)
    if "managedFields" not in metadata:
        return obj
    other_fields = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**obj, "metadata": other_fields}


def object_description(config: Tree) -> str:
    """Describe an object as messages do: `namespace/name; group/version, Kind=kind`."""
    metadata = config.get("metadata") or {}
    values = (metadata.get("namespace"), metadata.get("name"))
    name = "/".join(value if isinstance(value, str) else "" for value in values)
    return f"{name}; {kind_description(config)}"


def kind_description(config: Tree) -> str:
    """Describe a kind as messages do: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`."""
    version = config.get("apiVersion") or ""
    return f"{version if '/' in version else f'/{version}'}, Kind={config.get('kind') or ''}"


def _cap_updaters(managers: Managers) -> Managers:
    """Merge the oldest updaters beyond MAX_UPDATERS, one bucket per version."""
    if len(managers) <= MAX_UPDATERS:
        return managers
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return managers
    managers = dict(managers)
    updaters.sort(key=lambda manager: (managers[manager].time or "", manager))
    oldest_by_version: dict[str, Manager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        owned = managers[manager]
        oldest = oldest_by_version.setdefault(owned.api_version, manager)
        if oldest == manager:
            continue
        bucket = Manager(ANCIENT_CHANGES, UPDATE, owned.api_version)
        if bucket not in managers:
            managers[bucket] = replace(managers.pop(oldest), entry=None)
        fields = union(owned.fields, managers[bucket].fields)
        managers[bucket] = replace(owned, fields=fields, entry=None, text=None)
        if manager != bucket:
            del managers[manager]
            excess -= 1
    return managers
