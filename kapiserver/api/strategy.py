"""Strategies: hooks by which a kind defines its own writes; the defaults do nothing.

A strategy is pure: it changes trees in place or returns FieldErrors, and has no clock, random
source or store. The caller provides what needs them (uid, times, allocation). Trees are in the
group's hub version. Mirrors rest.RESTCreateStrategy and its siblings in k8s.io/apiserver.

    Strategy             a kind without a status and without generations
    ValidationTakesLong  raised by `validate` and `validate_update` when they would take long
    GenerationStrategy   a kind without a status whose content has generations
    SpecStrategy         a kind with a spec and a status, which writes of the object do not change
    StatusStrategy       the `status` subresource of either
    default_strategy     the strategy of a kind that defines none
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kapiserver.api import names
from kapiserver.api.accessors import (
    copy_tree,
    finalizers_of,
    generation_of,
    metadata_of,
    next_generation,
)
from kapiserver.api.conversion import zero_tree
from kapiserver.api.declarative_validation import NO_RULES, FieldRules
from kapiserver.api.errors import FieldError
from kapiserver.api.metadata_validation import standard_finalizers
from kapiserver.api.types import Kind, Tree

UpdateRule: TypeAlias = Callable[[Tree, Tree], Iterable[FieldError]]
"""Yields the errors of an updated object: `rule(new, old)`."""


STATUS_METADATA = (
    "generation", "deletionTimestamp", "labels", "annotations", "ownerReferences", "finalizers",
)  # fmt: skip
"""Metadata that status writes of newer kinds do not change (meta/v1's ResetObjectMetaForStatus)."""


class ValidationTakesLong(Exception):
    """Validation would block other requests for too long and was not finished.

    slow_strategy  does the same in full, for use on another thread
    """

    def __init__(self, slow_strategy: Strategy) -> None:
        super().__init__()
        self.slow_strategy = slow_strategy


class Strategy:
    """The strategy of an ordinary kind without a status and without generations."""

    allow_create_on_update = False
    """Whether a PUT of a missing object creates it."""
    allow_unconditional_update = True
    """Whether a PUT without a resourceVersion overwrites the object."""
    graceful = False
    """Whether a delete first sets a grace period on the object, even one of 0 seconds."""
    orphans_by_default = False
    """Whether a delete without a propagation policy orphans dependents, as for old kinds."""
    deletion_warning = ""
    """The warning for a delete without a propagation policy."""
    reset_fields: dict[str, Any] = {}
    """Fields that such a write does not change, as a set of paths (FieldsV1); it cannot own
    them."""
    declarative_rules: FieldRules = NO_RULES
    """Declarative validation of the kind, in addition to `validate`."""
    generate_name_max = 63
    """The maximum length of names generated from `metadata.generateName`."""

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        """Return the errors of finalizers that are well-formed."""
        return standard_finalizers(finalizers)

    def check_name(self, name: str) -> list[str]:
        """Return the error messages for `metadata.name`; empty if it is valid."""
        return names.dns1123_subdomain(name)

    def prepare_for_create(self, obj: Tree) -> None:
        """Drop fields that clients cannot set, and set fields that the kind determines."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        """Restore the fields that an update cannot change."""

    def validate(self, obj: Tree) -> list[FieldError]:
        """Return the errors of a new object, besides those of its metadata."""
        return []

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an updated object, besides those of its metadata."""
        return []

    def with_metadata_errors(
        self, metadata_errors: Sequence[FieldError], errors: Sequence[FieldError]
    ) -> Sequence[FieldError]:
        """Return the errors of an object whose metadata is invalid, too; `errors` are those of
        `validate` or `validate_update`."""
        return [*metadata_errors, *errors]

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        """Return the texts of Warning headers; `old` is None on create."""
        return []

    def canonicalize(self, obj: Tree) -> None:
        """Normalize a valid object, as the last step before it is stored."""

    def grace_period(self, obj: Tree, requested: int | None) -> int:
        """Return the grace period of a deletion in seconds; `requested` is the client's. 0 deletes
        at once."""
        return 0

    def deletion_refusal(self, name: str) -> str:
        """Return why the object of that name cannot be deleted; "" if it can.

        Collection deletes ignore it, as in kube-apiserver.
        """
        return ""

    def begin_deletion(self, new: Tree, old: Tree) -> None:
        """Update an object that a delete marks, perhaps again, and that waits for its
        finalizers."""

    def pending_finalizers(self, obj: Tree) -> list[str]:
        """Return the finalizers that delay the deletion of the object."""
        return finalizers_of(obj)

    def fill_legacy_fields(self, obj: Tree) -> None:
        """Set the fields that an old server did not store; see `Resource.current_marker`."""


class GenerationStrategy(Strategy):
    """The strategy of a kind without a status whose `metadata.generation` counts the changes of its
    content, from 1.

    content  the field whose changes are counted
    """

    content = "spec"

    def prepare_for_create(self, obj: Tree) -> None:
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if new.get(self.content) != old.get(self.content):
            metadata_of(new)["generation"] = next_generation(generation_of(old))


class SpecStrategy(Strategy):
    """The strategy of a kind with a spec and a status. Only controllers write the status, through
    its subresource.

    empty_status       the canonical tree of the initial status
    tracks_generation  whether `metadata.generation` counts the changes of the spec, from 1
    """

    empty_status: Mapping[str, Any] = {}
    tracks_generation = True
    reset_fields: dict[str, Any] = {"f:status": {}}

    def prepare_for_create(self, obj: Tree) -> None:
        obj["status"] = copy.deepcopy(dict(self.empty_status))
        if self.tracks_generation:
            metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        copy_field(new, old, "status")
        if self.tracks_generation and self.changes_generation(new, old):
            metadata_of(new)["generation"] = next_generation(generation_of(old))

    def changes_generation(self, new: Tree, old: Tree) -> bool:
        """Report whether an update begins a new generation."""
        return bool(new.get("spec") != old.get("spec"))


class StatusStrategy(Strategy):
    """The strategy of writes of `/status`, which change only the status and metadata.

    kind                the strategy of the object itself
    preserved_fields    fields of the object that do not change
    preserved_metadata  fields of its metadata that do not change
    disabled_fields     status fields of disabled features: dropped unless stored already
    validate_status     yields the errors of the new status, given (new, old)
    """

    def __init__(
        self,
        kind: Strategy,
        *,
        preserved_fields: tuple[str, ...] = ("spec",),
        preserved_metadata: tuple[str, ...] = (),
        disabled_fields: tuple[str, ...] = (),
        validate_status: UpdateRule = lambda *_: (),
    ) -> None:
        self.kind = kind
        self.preserved_fields = preserved_fields
        self.preserved_metadata = preserved_metadata
        self.disabled_fields = disabled_fields
        self.validate_status = validate_status
        self.allow_unconditional_update = kind.allow_unconditional_update
        self.declarative_rules = kind.declarative_rules
        reset_fields: dict[str, Any] = {f"f:{name}": {} for name in preserved_fields}
        if preserved_metadata:
            reset_fields["f:metadata"] = {f"f:{name}": {} for name in preserved_metadata}
        self.reset_fields = reset_fields

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return self.kind.check_finalizers(finalizers)

    def check_name(self, name: str) -> list[str]:
        return self.kind.check_name(name)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        # Shared, not copied: no step after this one changes fields that a status write preserves.
        for name in self.preserved_fields:
            _preserve_field(new, old, name)
        for name in self.preserved_metadata:
            _preserve_field(metadata_of(new), metadata_of(old), name)
        status, old_status = new.get("status") or {}, old.get("status") or {}
        for name in self.disabled_fields:
            if not old_status.get(name):
                status.pop(name, None)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(self.validate_status(new, old))

    def pending_finalizers(self, obj: Tree) -> list[str]:
        return self.kind.pending_finalizers(obj)


def copy_field(new: Tree, old: Tree, name: str) -> None:
    """Set a field of `new` to a copy of that of `old`, or remove it if `old` has none."""
    if name in old:
        new[name] = copy_tree(old[name])
    else:
        new.pop(name, None)


def _preserve_field(new: Tree, old: Tree, name: str) -> None:
    """Set a field of `new` to that of `old`, or remove it if `old` has none."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


class _OrdinarySpecStrategy(SpecStrategy):
    """The strategy of a kind with a spec and a status and no rules; `zero` is its tree with no
    field set."""

    def __init__(self, zero: Tree) -> None:
        self._zero = zero

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        copy_field(obj, self._zero, "status")


def default_strategy(type_: type[Kind]) -> Strategy:
    """Return the strategy of a kind that defines none."""
    if all(flat.field.name != "status" for flat in type_.flat_fields()):
        return Strategy()
    return _OrdinarySpecStrategy(zero_tree(type_))
