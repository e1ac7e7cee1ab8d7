"""How writes of the apps group behave."""

from __future__ import annotations

from kapiserver.api.apps.validation import (
    changed_deployment,
    changed_deployment_status,
    deployment,
)
from kapiserver.api.core import warnings
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.objects import annotations_of, generation_of, value_at
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class DeploymentStrategy(SpecStrategy):
    """Annotations begin a new generation too: the controller copies them to replica sets."""

    def counts_as_change(self, new: Tree, old: Tree) -> bool:
        return super().counts_as_change(new, old) or annotations_of(new) != annotations_of(old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(deployment(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_deployment(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if old is not None and generation_of(new) == generation_of(old):
            return []
        spec = value_at(new, "spec", "template", "spec") or {}
        found = list(warnings.pod_spec(spec, Path("spec") / "template" / "spec"))
        return found if old is not None else [*warnings.template_owner_name(new), *found]


_DEPLOYMENT = DeploymentStrategy()

STRATEGIES: dict[str, Strategy] = {
    "deployments": _DEPLOYMENT,
    "deployments/scale": _DEPLOYMENT,
    "deployments/status": StatusStrategy(
        _DEPLOYMENT, keeps_metadata=("labels",), rule=changed_deployment_status
    ),
}
