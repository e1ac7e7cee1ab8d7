"""Strategies of the core group.

The server loads this module at every start, for namespaces. Large strategies of other kinds are in
modules of their own, named in STRATEGY_MODULES.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api import names
from kapiserver.api.accessors import finalizers_of, metadata_of, name_of, value_at
from kapiserver.api.core import v1, warnings
from kapiserver.api.core.validation.config_maps_and_secrets import (
    validate_config_map,
    validate_config_map_update,
    validate_secret,
    validate_secret_update,
)
from kapiserver.api.core.validation.events import validate_event
from kapiserver.api.core.validation.namespaces import (
    validate_namespace,
    validate_namespace_finalize_update,
    validate_namespace_status_update,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.metadata_validation import any_finalizers
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy, copy_field
from kapiserver.api.types import Tree

NAMESPACE_FINALIZER = "kubernetes"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


class ConfigMapStrategy(Strategy):
    """The strategy of config maps."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_config_map(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_config_map_update(new, old))


class SecretStrategy(Strategy):
    """The strategy of secrets. An update without a type keeps the old type."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if not new.get("type") and old.get("type"):
            new["type"] = old["type"]
            reorder_keys(new, v1.Secret)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_secret(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_secret_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.warnings_for_secret(new))


class EventStrategy(Strategy):
    """The strategy of events. PUT may create them, and any path segment is a valid name."""

    allow_create_on_update = True

    def check_name(self, name: str) -> list[str]:
        return names.path_segment(name)

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_event(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_event(new))


class ServiceAccountStrategy(Strategy):
    """The strategy of service accounts. References to secrets keep only their names."""

    def prepare_for_create(self, obj: Tree) -> None:
        for index, reference in enumerate(obj.get("secrets") or ()):
            obj["secrets"][index] = {"name": reference["name"]} if reference.get("name") else {}

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        self.prepare_for_create(new)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.warnings_for_service_account(new, old))


class NamespaceStrategy(SpecStrategy):
    """The strategy of namespaces. Finalizers in the spec delay the deletion of one until it is
    empty."""

    empty_status = {"phase": "Active"}
    tracks_generation = False

    def check_name(self, name: str) -> list[str]:
        return names.dns1123_label(name)

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        if NAMESPACE_FINALIZER not in finalizers:
            finalizers = [*finalizers, NAMESPACE_FINALIZER]
        obj["spec"] = {"finalizers": finalizers}
        reorder_keys(obj, v1.Namespace)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        copy_field(new, old, "spec")
        copy_field(new, old, "status")

    def canonicalize(self, obj: Tree) -> None:
        name = name_of(obj)
        labels = metadata_of(obj).get("labels") or {}
        if name and labels.get(NAMESPACE_LABEL) != name:
            metadata_of(obj)["labels"] = dict(sorted({**labels, NAMESPACE_LABEL: name}.items()))

    def begin_deletion(self, new: Tree, old: Tree) -> None:
        new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
        metadata_of(new).pop("deletionGracePeriodSeconds", None)

    def pending_finalizers(self, obj: Tree) -> list[str]:
        return [*(value_at(obj, "spec", "finalizers") or ()), *finalizers_of(obj)]

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_namespace(obj))


_NAMESPACE = NamespaceStrategy()

STRATEGIES: dict[str, Strategy] = {
    "configmaps": ConfigMapStrategy(),
    "events": EventStrategy(),
    "namespaces": _NAMESPACE,
    "namespaces/finalize": StatusStrategy(
        _NAMESPACE, preserved_fields=("status",), validate_status=validate_namespace_finalize_update
    ),
    "namespaces/status": StatusStrategy(
        _NAMESPACE, validate_status=validate_namespace_status_update
    ),
    "secrets": SecretStrategy(),
    "serviceaccounts": ServiceAccountStrategy(),
}

STRATEGY_MODULES = {
    "endpoints": "endpoints_strategies",
    "limitranges": "quota_strategies",
    "nodes": "node_strategies",
    "persistentvolumeclaims": "volume_strategies",
    "persistentvolumes": "volume_strategies",
    "pods": "pods.strategies",
    "podtemplates": "controller_strategies",
    "replicationcontrollers": "controller_strategies",
    "resourcequotas": "quota_strategies",
    "services": "service_strategies",
}
"""Modules of other strategies, by resource. They are loaded when first needed."""
