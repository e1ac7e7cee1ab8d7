"""ResourceSlices: the devices that drivers offer."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.cel.frames import EVALUATION_ERRORS
from kapiserver.api.cel.program import CompileError
from kapiserver.api.core.pods.node_affinity import SelectableNode, term_matches
from kapiserver.api.resource.device_selectors import MAX_COST, compile_selector, device_variable
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.devices.budget import Budget
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError

_MAX_ANSWERS = 256
"""How many expressions a device remembers the answers of."""
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)


class PoolID(NamedTuple):
    """Names a pool of devices."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return "/".join(self)


class DeviceID(NamedTuple):
    """Names a device."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class Device:
    """A device of a slice.

    is_shared   whether several requests may have it, each with a part of its capacity
    """

    def __init__(self, tree: Tree, slice_: Slice) -> None:
        self.tree = tree
        self.slice = slice_
        self.id = DeviceID(slice_.pool.driver, slice_.pool.pool, tree["name"])
        self.is_shared = bool(tree.get("allowMultipleAllocations"))
        self._answers: dict[str, bool] = {}

    @property
    def capacity(self) -> Mapping[str, Tree]:
        """The capacities, by name."""
        return self.tree.get("capacity") or {}

    @property
    def counters(self) -> Sequence[Tree]:
        """The amounts that the device draws from shared counters."""
        return self.tree.get("consumesCounters") or ()

    def attribute(self, name: str) -> tuple[str, object] | None:
        """Return type and value of an attribute with a qualified name; None if there is none."""
        attributes = self.tree.get("attributes") or {}
        domain, _, rest = name.partition("/")
        attribute = attributes.get(name)
        if attribute is None and domain == self.id.driver:
            attribute = attributes.get(rest)
        return next(iter(attribute.items()), None) if attribute else None

    @functools.cached_property
    def _variable(self) -> Mapping[str, object]:
        return device_variable(self.id.driver, self.tree)

    def matches(self, expression: str, where: str, budget: Budget) -> bool:
        """Report whether a CEL expression selects the device. Raises SchedulingError, which names
        `where` the expression stands."""
        answer = self._answers.get(expression)
        if answer is None:
            answer = self._evaluate(expression, where, budget)
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            self._answers[expression] = answer
        return answer

    def _evaluate(self, expression: str, where: str, budget: Budget) -> bool:
        try:
            program = compile_selector(expression)
        except CompileError as error:
            raise SchedulingError(f"{where}: CEL compile error: {error}") from None
        try:
            result = program.evaluate({"device": self._variable}, MAX_COST)
            budget.spend_cost(result.cost)
            failure = result.failure
        except EVALUATION_ERRORS as error:
            failure = str(error)
        if failure is None and isinstance(result.value, bool):
            return result.value
        failure = failure or "CEL result could not be converted to bool"
        hint = _HINT if "no such key:" in failure else ""
        raise SchedulingError(f"{where} on device {self.id}: CEL runtime error: {failure}{hint}")

    def is_usable_on(self, node: SelectableNode) -> bool:
        """Report whether a node that the slice is for can use the device."""
        return not self.slice.is_per_device or _is_for(node, self.tree)


class Slice:
    """A ResourceSlice.

    count           how many slices the pool has
    is_per_device   whether each device says which nodes can use it
    """

    def __init__(self, tree: Tree) -> None:
        spec: Tree = tree.get("spec") or {}
        pool: Tree = spec.get("pool") or {}
        self.spec = spec
        self.name = name_of(tree)
        self.pool = PoolID(spec.get("driver") or "", pool.get("name") or "")
        self.generation: int = pool.get("generation") or 0
        self.count: int = pool.get("resourceSliceCount") or 0
        self.node_name: str = spec.get("nodeName") or ""
        self.is_per_device = bool(spec.get("perDeviceNodeSelection"))
        self.counter_sets: Sequence[Tree] = spec.get("sharedCounters") or ()

    @functools.cached_property
    def devices(self) -> Sequence[Device]:
        """The devices."""
        return [Device(device, self) for device in self.spec.get("devices") or ()]

    def is_for(self, node: SelectableNode) -> bool:
        """Report whether a node can use devices of the slice."""
        if self.is_per_device:
            return any(_is_for(node, device.tree) for device in self.devices)
        return _is_for(node, self.spec)


def _is_for(node: SelectableNode, holder: Tree) -> bool:
    """Report whether a slice or device is for a node."""
    if holder.get("nodeName"):
        return bool(holder["nodeName"] == node.name)
    if holder.get("allNodes"):
        return True
    terms = value_at(holder, "nodeSelector", "nodeSelectorTerms") or ()
    return any(term_matches(term, node) for term in terms)


class Slices:
    """All slices: those of single nodes by node, and those that several nodes share."""

    def __init__(self) -> None:
        self._slices: dict[str, Slice] = {}
        self._of_node: dict[str, dict[str, Slice]] = {}

    def set(self, tree: Tree) -> None:
        """Add a slice, or replace it."""
        self.remove(name_of(tree))
        added = Slice(tree)
        self._slices[added.name] = added
        self._of_node.setdefault(added.node_name, {})[added.name] = added

    def remove(self, name: str) -> None:
        """Remove a slice."""
        removed = self._slices.pop(name, None)
        if removed is not None:
            same_node = self._of_node[removed.node_name]
            del same_node[name]
            if not same_node:
                del self._of_node[removed.node_name]

    def all(self) -> Iterable[Slice]:
        """Return all slices."""
        return self._slices.values()

    def for_node(self, node: SelectableNode) -> list[Slice]:
        """Return the slices with devices that a node can use."""
        own, shared = self._of_node.get(node.name, {}), self._of_node.get("", {})
        return [metric for metric in (*own.values(), *shared.values()) if metric.is_for(node)]
