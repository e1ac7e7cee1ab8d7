"""How writes of the apps group behave."""

from __future__ import annotations

from kapiserver.api.objects import annotations_of
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class DeploymentStrategy(SpecStrategy):
    """Annotations begin a new generation too: the controller copies them to replica sets."""

    def counts_as_change(self, new: Tree, old: Tree) -> bool:
        return super().counts_as_change(new, old) or annotations_of(new) != annotations_of(old)


_DEPLOYMENT = DeploymentStrategy()

STRATEGIES: dict[str, Strategy] = {
    "deployments": _DEPLOYMENT,
    "deployments/scale": _DEPLOYMENT,
    "deployments/status": StatusStrategy(_DEPLOYMENT, keeps_metadata=("labels",)),
}
