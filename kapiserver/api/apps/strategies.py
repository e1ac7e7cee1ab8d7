"""Strategies of the apps group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.accessors import annotations_of, metadata_of, value_at
from kapiserver.api.apps.defaults import TEMPLATE_GENERATION
from kapiserver.api.apps.validation.daemon_sets import (
    validate_daemon_set,
    validate_daemon_set_status_update,
    validate_daemon_set_update,
)
from kapiserver.api.apps.validation.deployments import (
    validate_deployment,
    validate_deployment_status_update,
    validate_deployment_update,
)
from kapiserver.api.apps.validation.replica_sets import (
    validate_replica_set,
    validate_replica_set_update,
)
from kapiserver.api.apps.validation.revisions import (
    validate_controller_revision,
    validate_controller_revision_update,
)
from kapiserver.api.apps.validation.stateful_sets import (
    validate_stateful_set,
    validate_stateful_set_status_update,
    validate_stateful_set_update,
)
from kapiserver.api.core.controller_strategies import TemplateStrategy
from kapiserver.api.core.validation.controllers import validate_replica_status
from kapiserver.api.core.volume_warnings import warnings_for_claim_spec as claim_warnings
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.strategy import StatusStrategy, Strategy
from kapiserver.api.types import Tree


class ControllerRevisionStrategy(Strategy):
    """The strategy of controller revisions, whose data is immutable."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_controller_revision(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_controller_revision_update(new, old))


class DaemonSetStrategy(TemplateStrategy):
    """The strategy of daemon sets. It maintains the template generation in an annotation."""

    empty_status = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        _set_template_generation(obj, max(template_generation(obj), 1))

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        is_changed = value_at(new, "spec", "template") != value_at(old, "spec", "template")
        _set_template_generation(new, template_generation(old) + is_changed)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_daemon_set(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_daemon_set_update(new, old))


class DaemonSetStatusStrategy(StatusStrategy):
    """The strategy of status updates of daemon sets, which keep the template generation."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        _set_template_generation(new, template_generation(old))


def template_generation(obj: Tree) -> int:
    """Return the template generation of a daemon set, or 0 if it has none or an invalid one."""
    text = annotations_of(obj).get(TEMPLATE_GENERATION) or ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 18 else 0


def _set_template_generation(obj: Tree, generation: int) -> None:
    annotations = {**annotations_of(obj), TEMPLATE_GENERATION: str(generation)}
    metadata_of(obj)["annotations"] = dict(sorted(annotations.items()))


class DeploymentStrategy(TemplateStrategy):
    """The strategy of deployments. A change of annotations increments the generation, too, because
    the controller copies them to replica sets."""

    def changes_generation(self, new: Tree, old: Tree) -> bool:
        return super().changes_generation(new, old) or annotations_of(new) != annotations_of(old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_deployment(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_deployment_update(new, old))


class ReplicaSetStrategy(TemplateStrategy):
    """The strategy of replica sets."""

    empty_status = {"replicas": 0}

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_replica_set(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_replica_set_update(new, old))


class StatefulSetStrategy(TemplateStrategy):
    """The strategy of stateful sets, whose names are part of host names."""

    empty_status = {"replicas": 0, "availableReplicas": 0}

    def check_name(self, name: str) -> list[str]:
        return names.dns1123_label(name)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_stateful_set(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_stateful_set_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        messages = super().warnings(new, old)
        for index, claim in enumerate(value_at(new, "spec", "volumeClaimTemplates") or ()):
            claim_path = (Path("spec") / "volumeClaimTemplates")[index]
            # kube-apiserver's paths differ between create and update.
            messages.extend(
                claim_warnings(
                    claim.get("spec") or {}, claim_path if old is None else claim_path / "Spec"
                )
            )
        if (value_at(new, "spec", "revisionHistoryLimit") or 0) < 0:
            messages.append(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a "
                "value >= 0 is recommended"
            )
        return messages


_DAEMON_SET = DaemonSetStrategy()
_DEPLOYMENT = DeploymentStrategy()
_REPLICA_SET = ReplicaSetStrategy()
_STATEFUL_SET = StatefulSetStrategy()

STRATEGIES: dict[str, Strategy] = {
    "controllerrevisions": ControllerRevisionStrategy(),
    "daemonsets": _DAEMON_SET,
    "daemonsets/status": DaemonSetStatusStrategy(
        _DAEMON_SET, validate_status=validate_daemon_set_status_update
    ),
    "deployments": _DEPLOYMENT,
    "deployments/scale": _DEPLOYMENT,
    "deployments/status": StatusStrategy(
        _DEPLOYMENT,
        preserved_metadata=("labels",),
        validate_status=validate_deployment_status_update,
    ),
    "replicasets": _REPLICA_SET,
    "replicasets/scale": _REPLICA_SET,
    "replicasets/status": StatusStrategy(_REPLICA_SET, validate_status=validate_replica_status),
    "statefulsets": _STATEFUL_SET,
    "statefulsets/scale": _STATEFUL_SET,
    "statefulsets/status": StatusStrategy(
        _STATEFUL_SET, validate_status=validate_stateful_set_status_update
    ),
}
