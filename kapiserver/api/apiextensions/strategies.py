"""How writes of CustomResourceDefinitions behave.

Mirrors k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import (
    finalizers_of,
    generation_of,
    is_larger_than,
    is_terminating,
    metadata_of,
)
from kapiserver.api.apiextensions import schema_warnings
from kapiserver.api.apiextensions.conditions import set_condition
from kapiserver.api.apiextensions.validation.definitions import (
    changed_definition,
    changed_status,
    definition,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.metadata_validation import any_finalizers
from kapiserver.api.strategy import StatusStrategy, Strategy, ValidationTakesLong, copy_field
from kapiserver.api.types import Tree

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects are gone."""


MOST_PARTS = 2_000
"""Of a definition that is checked at once: rules take 16 us each eight characters."""


class DefinitionStrategy(Strategy):
    """Remembers in which versions objects were ever stored; goes after its objects.

    hurried  raises TakesLong for what takes more than some 20 ms
    """

    allow_unconditional_update = False
    reset_fields = {"f:status": {}}

    def __init__(self, *, fast_only: bool = True) -> None:
        self._hurried = fast_only

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def prepare_for_create(self, obj: Tree) -> None:
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        }
        metadata_of(obj)["generation"] = 1
        _note_stored_version(obj)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        copy_field(new, old, "status")
        changed = new.get("spec") != old.get("spec")
        metadata_of(new)["generation"] = generation_of(old) + changed
        _note_stored_version(new)

    def validate(self, obj: Tree) -> list[FieldError]:
        self._look_at(obj)
        return list(definition(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        self._look_at(new)
        return list(changed_definition(new, old))

    def _look_at(self, obj: Tree) -> None:
        if self._hurried and is_larger_than(obj["spec"], MOST_PARTS):
            raise ValidationTakesLong(_UNHURRIED)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return schema_warnings.warnings(new, old)

    def pending_finalizers(self, obj: Tree) -> list[str]:
        found = finalizers_of(obj)
        return found if is_terminating(obj) else [*found, CLEANUP]

    def begin_deletion(self, new: Tree, old: Tree) -> None:
        if is_terminating(old):
            return
        metadata = metadata_of(new)
        # As kube-apiserver does it here, it is no change of the definition.
        metadata["generation"] = generation_of(old)
        metadata.pop("deletionGracePeriodSeconds", None)
        if CLEANUP not in finalizers_of(new):
            metadata["finalizers"] = [*finalizers_of(new), CLEANUP]
            reorder_keys(metadata, ObjectMeta)
        new["status"] = set_condition(
            new["status"],
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            now=metadata["deletionTimestamp"],
        )


def _note_stored_version(obj: Tree) -> None:
    status = obj["status"]
    stored = status.get("storedVersions") or []
    for version in obj["spec"].get("versions") or ():
        if version["storage"]:
            if version["name"] not in stored:
                obj["status"] = {**status, "storedVersions": [*stored, version["name"]]}
            return


_DEFINITION, _UNHURRIED = DefinitionStrategy(), DefinitionStrategy(fast_only=False)

STRATEGIES = {
    "customresourcedefinitions": _DEFINITION,
    "customresourcedefinitions/status": StatusStrategy(_DEFINITION, validate_status=changed_status),
}
