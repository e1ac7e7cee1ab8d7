"""How writes of what makes pods from a template, and of endpoints, behave in the core group."""

from __future__ import annotations

from kapiserver.api.addresses import ip_warnings
from kapiserver.api.core import v1, warnings
from kapiserver.api.core.subsets import repacked
from kapiserver.api.core.validation.controllers import replica_status
from kapiserver.api.core.validation.endpoints import endpoints
from kapiserver.api.core.validation.replication import (
    changed_replication_controller,
    lone_pod_template,
    replication_controller,
)
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.objects import generation_of, labels_of, metadata_of, value_at
from kapiserver.api.order import settle
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree

_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_OWN_CONTROLLER = "endpoint-controller"


class EndpointsStrategy(Strategy):
    """Its subsets are kept in one form, whichever way they were grouped."""

    allow_create_on_update = True

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(endpoints(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return self.validate(new)

    def canonicalize(self, obj: Tree) -> None:
        if obj.get("subsets"):
            obj["subsets"] = repacked(obj["subsets"])
            for subset in obj["subsets"]:
                settle(subset, v1.EndpointSubset)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if labels_of(new).get(_MANAGED_BY) == _OWN_CONTROLLER:
            return []
        return [
            text
            for index, subset in enumerate(new.get("subsets") or ())
            for kind in ("addresses", "notReadyAddresses")
            for number, one in enumerate(subset.get(kind) or ())
            for text in ip_warnings(
                one.get("ip") or "", (Path("subsets")[index] / kind)[number] / "ip"
            )
        ]


class PodTemplateStrategy(Strategy):
    """Generations count the changes of the template."""

    def prepare_for_create(self, obj: Tree) -> None:
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if new.get("template") != old.get("template"):
            metadata_of(new)["generation"] = generation_of(old) + 1

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(lone_pod_template(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return self.validate(new)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        spec = value_at(new, "template", "spec") or {}
        return list(warnings.pod_spec(spec, Path("template") / "spec"))


class ReplicationControllerStrategy(SpecStrategy):
    """Keeps a number of pods running."""

    empty_status = {"replicas": 0}

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(replication_controller(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_replication_controller(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if old is not None and generation_of(new) == generation_of(old):
            return []
        spec = value_at(new, "spec", "template", "spec") or {}
        found = list(warnings.pod_spec(spec, Path("spec") / "template" / "spec"))
        return found if old is not None else [*warnings.template_owner_name(new), *found]


_REPLICATION_CONTROLLER = ReplicationControllerStrategy()

CONTROLLER_STRATEGIES: dict[str, Strategy] = {
    "endpoints": EndpointsStrategy(),
    "podtemplates": PodTemplateStrategy(),
    "replicationcontrollers": _REPLICATION_CONTROLLER,
    "replicationcontrollers/scale": _REPLICATION_CONTROLLER,
    "replicationcontrollers/status": StatusStrategy(_REPLICATION_CONTROLLER, rule=replica_status),
}
