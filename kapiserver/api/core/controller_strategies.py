"""Strategies of pod templates and replication controllers."""

from __future__ import annotations

from kapiserver.api.accessors import generation_of, value_at
from kapiserver.api.core import warnings
from kapiserver.api.core.declarative_rules import REPLICATION_CONTROLLER
from kapiserver.api.core.pods.disabled_fields import drop_disabled_template_fields
from kapiserver.api.core.pods.warnings import warnings_for_pod
from kapiserver.api.core.validation.controllers import validate_replica_status
from kapiserver.api.core.validation.replication_controllers import (
    validate_pod_template_object,
    validate_replication_controller,
    validate_replication_controller_update,
)
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.strategy import GenerationStrategy, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree

_TEMPLATE = Path("spec") / "template"


class PodTemplateStrategy(GenerationStrategy):
    """The strategy of pod templates."""

    content = "template"

    def prepare_for_create(self, obj: Tree) -> None:
        drop_disabled_template_fields(obj, None, "template")
        super().prepare_for_create(obj)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        drop_disabled_template_fields(new, old, "template")
        super().prepare_for_update(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_pod_template_object(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return self.validate(new)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings_for_pod(new.get("template") or {}, Path("template")))


class TemplateStrategy(SpecStrategy):
    """The base of strategies of controllers with a pod template in `spec.template`."""

    def prepare_for_create(self, obj: Tree) -> None:
        drop_disabled_template_fields(obj, None, "spec", "template")
        super().prepare_for_create(obj)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        drop_disabled_template_fields(new, old, "spec", "template")
        super().prepare_for_update(new, old)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if old is not None and generation_of(new) == generation_of(old):
            return []
        template = value_at(new, "spec", "template") or {}
        template_warnings = list(warnings_for_pod(template, _TEMPLATE))
        return (
            template_warnings
            if old is not None
            else [*warnings.warnings_for_controller_name(new), *template_warnings]
        )


class ReplicationControllerStrategy(TemplateStrategy):
    """The strategy of replication controllers."""

    orphans_by_default = True
    empty_status = {"replicas": 0}
    declarative_rules = REPLICATION_CONTROLLER

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_replication_controller(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_replication_controller_update(new, old))


_REPLICATION_CONTROLLER = ReplicationControllerStrategy()

STRATEGIES: dict[str, Strategy] = {
    "podtemplates": PodTemplateStrategy(),
    "replicationcontrollers": _REPLICATION_CONTROLLER,
    "replicationcontrollers/scale": _REPLICATION_CONTROLLER,
    "replicationcontrollers/status": StatusStrategy(
        _REPLICATION_CONTROLLER, validate_status=validate_replica_status
    ),
}
