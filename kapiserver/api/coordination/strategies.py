"""How writes of the coordination group behave."""

from __future__ import annotations

from kapiserver.api.coordination.validation import lease
from kapiserver.api.errors import FieldError
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree


class LeaseStrategy(Strategy):
    """A lease is taken by whoever saw its last version: no update without one."""

    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(lease(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(lease(new))


STRATEGIES: dict[str, Strategy] = {"leases": LeaseStrategy()}
