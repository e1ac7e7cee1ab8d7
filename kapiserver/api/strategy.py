"""What a kind decides about its own writes: hooks that do nothing until overridden.

A strategy is pure: trees in, trees changed in place or lists of FieldErrors out; no clock, no
random, no store. What needs those (uid, times, allocation) is done around it. Trees are in the
group's hub version. Mirrors rest.RESTCreateStrategy and its siblings in k8s.io/apiserver.

    Strategy             an ordinary kind without a status
    TakesLong            what `validate` and `validate_update` raise rather than take long
    GenerationStrategy   a kind without a status, whose content has generations
    SpecStrategy         a kind with a spec and a status, which writes of the object leave alone
    StatusStrategy       the `status` subresource of either
    ordinary             what a kind gets that has nothing to say
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kapiserver.api import names
from kapiserver.api.accessors import copy_tree, finalizers_of, generation_of, metadata_of
from kapiserver.api.conversion import zero_tree
from kapiserver.api.declarative_validation import NO_RULES, FieldRules
from kapiserver.api.errors import FieldError
from kapiserver.api.metadata_validation import standard_finalizers
from kapiserver.api.types import Kind, Tree

UpdateRule: TypeAlias = Callable[[Tree, Tree], Iterable[FieldError]]
"""The rules for a changed object: (new, old)."""


STATUS_METADATA = (
    "generation", "deletionTimestamp", "labels", "annotations", "ownerReferences", "finalizers",
)  # fmt: skip
"""What writes of a newer kind's status leave alone too (meta/v1's ResetObjectMetaForStatus)."""


class ValidationTakesLong(Exception):
    """Checking an object takes longer than others can wait: nothing was found out. The same is to
    be done by `slow_strategy`, where nobody waits."""

    def __init__(self, slow_strategy: Strategy) -> None:
        super().__init__()
        self.slow_strategy = slow_strategy


class Strategy:
    """The answers of an ordinary kind without a status and without generations."""

    allow_create_on_update = False
    """PUT of a name that is not there creates it."""
    allow_unconditional_update = True
    """PUT without a resourceVersion overwrites."""
    graceful = False
    """Deletion first marks the object with a grace period, even one of 0 seconds."""
    orphans_by_default = False
    """A deletion that does not say what becomes of dependents leaves them (kinds of old)."""
    deletion_warning = ""
    """What a deletion is told that does not say what becomes of dependents."""
    reset_fields: dict[str, Any] = {}
    """Fields such a write leaves as they were, as a set of paths (FieldsV1): nobody owns them by
    it."""
    declarative_rules: FieldRules = NO_RULES
    """What the kind's type declares of its fields, beside what `validate` finds."""
    generate_name_max = 63
    """Names made from `metadata.generateName` are cut to this length."""

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        """What is wrong with finalizers that are spelled as they should be."""
        return standard_finalizers(finalizers)

    def check_name(self, name: str) -> list[str]:
        """The messages against `metadata.name`; empty when it is fine."""
        return names.dns1123_subdomain(name)

    def prepare_for_create(self, obj: Tree) -> None:
        """Drop what a client must not set and fill what the kind decides."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        """The same for an update: keep what an update of the object must not change."""

    def validate(self, obj: Tree) -> list[FieldError]:
        """The rules for a new object, beside those of its metadata."""
        return []

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        """The rules for a changed one, beside those of its metadata."""
        return []

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        """What the client should be told in Warning headers; `old` is None on create."""
        return []

    def canonicalize(self, obj: Tree) -> None:
        """Bring a valid object into its normal form, last before it is stored."""

    def grace_period(self, obj: Tree, asked: int | None) -> int:
        """Seconds between asking for deletion and the object's end; 0: at once."""
        return 0

    def deletion_refusal(self, name: str) -> str:
        """Why nobody deletes the object of that name; "" where one may. Collections go all the
        same, as in kube-apiserver."""
        return ""

    def begin_deletion(self, new: Tree, old: Tree) -> None:
        """Mark an object whose deletion was asked for, perhaps again, and which waits for its
        finalizers."""

    def pending_finalizers(self, obj: Tree) -> list[str]:
        """What still holds back an object whose deletion was asked for."""
        return finalizers_of(obj)

    def fill_legacy_fields(self, obj: Tree) -> None:
        """Fill in what an old server did not store, where resources say how to tell
        (`Resource.legacy_marker`)."""


class GenerationStrategy(Strategy):
    """A kind without a status: `metadata.generation` counts the changes of its content, from 1.

    content   the field that they are counted of
    """

    content = "spec"

    def prepare_for_create(self, obj: Tree) -> None:
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if new.get(self.content) != old.get(self.content):
            metadata_of(new)["generation"] = generation_of(old) + 1


class SpecStrategy(Strategy):
    """A kind with a spec and a status: the status is the controller's, not the client's.

    empty_status   the canonical tree of a status nobody has written yet
    generations    `metadata.generation` counts the changes of the spec, from 1
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
            metadata_of(new)["generation"] = generation_of(old) + 1

    def changes_generation(self, new: Tree, old: Tree) -> bool:
        """Whether an update begins a new generation."""
        return bool(new.get("spec") != old.get("spec"))


class StatusStrategy(Strategy):
    """Writes of `/status`: the reverse, nothing but the status and metadata changes.

    kind            the strategy of the object itself
    keeps           parts of the object that stay as stored
    keeps_metadata  parts of its metadata that do
    off             parts of the status of features that are off: writes lose them, unless the
                    object had them
    rule            what the new status must keep to, given (new, old)
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
        kept: dict[str, Any] = {f"f:{part}": {} for part in preserved_fields}
        if preserved_metadata:
            kept["f:metadata"] = {f"f:{part}": {} for part in preserved_metadata}
        self.reset_fields = kept

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return self.kind.check_finalizers(finalizers)

    def check_name(self, name: str) -> list[str]:
        return self.kind.check_name(name)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        for part in self.preserved_fields:
            copy_field(new, old, part)
        for part in self.preserved_metadata:
            copy_field(metadata_of(new), metadata_of(old), part)
        status, before = new.get("status") or {}, old.get("status") or {}
        for part in self.disabled_fields:
            if not before.get(part):
                status.pop(part, None)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(self.validate_status(new, old))

    def pending_finalizers(self, obj: Tree) -> list[str]:
        return self.kind.pending_finalizers(obj)


def copy_field(new: Tree, old: Tree, part: str) -> None:
    """Give `new` the part of `old`, or none where `old` has none. `old` is not shared with it."""
    if part in old:
        new[part] = copy_tree(old[part])
    else:
        new.pop(part, None)


class _OrdinarySpecStrategy(SpecStrategy):
    """A spec and a status and no rules; `zero` is a tree of the kind of which nothing is set."""

    def __init__(self, zero: Tree) -> None:
        self._zero = zero

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        copy_field(obj, self._zero, "status")


def default_strategy(type_: type[Kind]) -> Strategy:
    """The strategy of a kind that has nothing to say of its own."""
    if all(flat.field.name != "status" for flat in type_.flat_fields()):
        return Strategy()
    return _OrdinarySpecStrategy(zero_tree(type_))
