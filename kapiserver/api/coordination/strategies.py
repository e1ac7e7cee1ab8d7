"""How writes of the coordination group behave."""

from __future__ import annotations

from kapiserver.api.strategy import Strategy


class LeaseStrategy(Strategy):
    """A lease is taken by whoever saw its last version: no update without one."""

    allow_create_on_update = True
    allow_unconditional_update = False


STRATEGIES: dict[str, Strategy] = {"leases": LeaseStrategy()}
