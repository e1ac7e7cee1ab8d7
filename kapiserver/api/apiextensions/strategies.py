"""Strategies of CustomResourceDefinitions.

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
from kapiserver.api.apiextensions.schema import format_warnings
from kapiserver.api.apiextensions.validation.definitions import (
    validate_definition,
    validate_definition_update,
    validate_status_update,
)
from kapiserver.api.conditions import set_condition
from kapiserver.api.errors import FieldError
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.metadata_validation import any_finalizers
from kapiserver.api.strategy import StatusStrategy, Strategy, ValidationTakesLong, copy_field
from kapiserver.api.types import Tree

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are deleted."""


MAX_PARTS = 2_000
"""The maximum size of a definition that is validated at once: CEL rules take 16 us per 8
characters."""


class DefinitionStrategy(Strategy):
    """The strategy of definitions. It records the storage versions in status.storedVersions, and
    adds the cleanup finalizer on deletion.

    fast_only  whether to raise ValidationTakesLong if validation takes more than about 20 ms
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
        _record_stored_version(obj)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        copy_field(new, old, "status")
        changed = new.get("spec") != old.get("spec")
        metadata_of(new)["generation"] = generation_of(old) + changed
        _record_stored_version(new)

    def validate(self, obj: Tree) -> list[FieldError]:
        self._check_size(obj)
        return list(validate_definition(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        self._check_size(new)
        return list(validate_definition_update(new, old))

    def _check_size(self, obj: Tree) -> None:
        if self._hurried and is_larger_than(obj["spec"], MAX_PARTS):
            raise ValidationTakesLong(_SLOW)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return format_warnings.warnings(new, old)

    def pending_finalizers(self, obj: Tree) -> list[str]:
        finalizers = finalizers_of(obj)
        return finalizers if is_terminating(obj) else [*finalizers, CLEANUP]

    def begin_deletion(self, new: Tree, old: Tree) -> None:
        if is_terminating(old):
            return
        metadata = metadata_of(new)
        # As in kube-apiserver, the deletion does not change the generation.
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


def _record_stored_version(obj: Tree) -> None:
    status = obj["status"]
    stored = status.get("storedVersions") or []
    for version in obj["spec"].get("versions") or ():
        if version["storage"]:
            if version["name"] not in stored:
                obj["status"] = {**status, "storedVersions": [*stored, version["name"]]}
            return


_DEFINITION, _SLOW = DefinitionStrategy(), DefinitionStrategy(fast_only=False)

STRATEGIES = {
    "customresourcedefinitions": _DEFINITION,
    "customresourcedefinitions/status": StatusStrategy(
        _DEFINITION, validate_status=validate_status_update
    ),
}
