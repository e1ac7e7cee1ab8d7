"""The budget of a search for devices: it bounds the time of the decision about one pod.

kube-scheduler gives up a node after ten seconds. A number of steps is the same on every machine.
"""

from __future__ import annotations

from kapiserver.simulation.scheduler.scheduling_error import SchedulingError

MAX_STEPS = 100_000
"""How many devices are tried for a pod, on all nodes together."""
MAX_TOTAL_COST = 5_000_000
"""The cost of the expressions that are evaluated for a pod."""


class Budget:
    """The steps and the cost of expressions that are left."""

    def __init__(self, steps: int = MAX_STEPS, cost: int = MAX_TOTAL_COST) -> None:
        self._steps = steps
        self._cost = cost

    def spend_step(self, count: int = 1) -> None:
        """Try devices. Raises SchedulingError if the budget is used up."""
        self._steps -= count
        self._check()

    def spend_cost(self, cost: int) -> None:
        """Evaluate an expression. Raises SchedulingError if the budget is used up."""
        self._cost -= cost
        self._check()

    def _check(self) -> None:
        if self._steps < 0 or self._cost < 0:
            raise SchedulingError("timed out trying to allocate devices")
