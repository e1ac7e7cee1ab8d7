"""Strategies of the coordination group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.coordination.validation import (
    validate_candidate,
    validate_candidate_update,
    validate_lease,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree


class LeaseStrategy(Strategy):
    """The strategy of leases. Updates must name a resourceVersion."""

    allow_create_on_update = True
    allow_unconditional_update = False

    def prepare_for_create(self, obj: Tree) -> None:
        _drop_disabled_fields(obj, {})

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        _drop_disabled_fields(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_lease(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_lease(new))


def _drop_disabled_fields(new: Tree, old: Tree) -> None:
    # The feature gate CoordinatedLeaderElection is off by default in 1.37.
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    for name in ("strategy", "preferredHolder"):
        if old_spec.get(name) is None:
            spec.pop(name, None)


class LeaseCandidateStrategy(Strategy):
    """The strategy of lease candidates, whose names may be any config map key."""

    allow_create_on_update = True
    allow_unconditional_update = False

    def check_name(self, name: str) -> list[str]:
        return names.config_key(name)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_candidate(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_candidate_update(new, old))


STRATEGIES: dict[str, Strategy] = {
    "leasecandidates": LeaseCandidateStrategy(),
    "leases": LeaseStrategy(),
}
