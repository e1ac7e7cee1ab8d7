"""The search for devices: which ones satisfy all requests of some claims on one node.

The requests are satisfied in their order, each device by the first one that is free and fits. When
nothing fits any more, the device that was chosen last is given back, and the next one is tried: a
depth-first search. For one request the devices are tried in a fixed order, so that the same set is
not tried twice. `Budget` bounds the search, because it may take exponential time.

| choice | options |
| --- | --- |
| of an alternative (`firstAvailable`) | each alternative, the preferred one first |
| of a device | the devices after the one that was chosen before for this request |
| of the next device of `All` | that device |

Mirrors the incubating allocator of k8s.io/dynamic-resource-allocation/structured/internal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.accessors import annotations_of, name_of, namespace_of, value_at
from kapiserver.api.core.pods.node_affinity import SelectableNode
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.devices.budget import Budget
from kapiserver.simulation.scheduler.devices.capacity import Consumption, consumption, has_room
from kapiserver.simulation.scheduler.devices.constraints import Constraint
from kapiserver.simulation.scheduler.devices.counters import Counters
from kapiserver.simulation.scheduler.devices.extended_resources import EXTENDED
from kapiserver.simulation.scheduler.devices.inventory import Inventory
from kapiserver.simulation.scheduler.devices.pools import Pool, pools_of
from kapiserver.simulation.scheduler.devices.requests import (
    DeviceRequest,
    alternatives_of,
    requests_of,
)
from kapiserver.simulation.scheduler.devices.slices import Device, DeviceID, PoolID
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError

MAX_RESULTS = 32
"""The maximum number of devices of a claim."""


class Choice(Struct, frozen=True):
    """A device for a request; `consumed` is what the request gets of a shared device."""

    request: DeviceRequest
    device: Device
    consumed: Consumption | None = None


class _Position(Struct, frozen=True):
    """The next choice of the search.

    request         the index of the request among those of all claims
    alternative     the index of its alternative; None: it is to be chosen
    chosen          how many devices are chosen for it
    start           the index of the first device to try
    """

    request: int = 0
    alternative: int | None = None
    chosen: int = 0
    start: int = 0


class _ClaimRequest(Struct, frozen=True):
    """A request with its alternatives, and the index of its claim."""

    claim: int
    alternatives: Sequence[DeviceRequest]


def allocate(
    claims: Sequence[Tree], node: SelectableNode, inventory: Inventory, budget: Budget
) -> list[list[Choice]] | None:
    """Return the devices for each claim; None if they cannot all be allocated on the node. Raises
    SchedulingError, and KeyError if a device class does not exist."""
    search = _Search(claims, node, inventory, budget)
    return search.choices if search.run() else None


class _Search:
    """One search. What is chosen so far is kept in `choices`, and in what it takes of devices,
    counters and constraints; `_undo` takes the last device back."""

    def __init__(
        self, claims: Sequence[Tree], node: SelectableNode, inventory: Inventory, budget: Budget
    ) -> None:
        self.choices: list[list[Choice]] = [[] for _ in claims]
        self._node = node
        self._inventory = inventory
        self._budget = budget
        self._pools = {pool.id: pool for pool in pools_of(node, inventory.slices)}
        self._devices = [
            device for pool in self._pools.values() if pool.is_usable for device in pool.devices
        ]
        self._requests = [
            _ClaimRequest(index, alternatives_of(claim, request, inventory.classes))
            for index, claim in enumerate(claims)
            for request in requests_of(claim)
        ]
        self._constraints = [
            [
                Constraint(constraint)
                for constraint in value_at(claim, "spec", "devices", "constraints") or ()
            ]
            for claim in claims
        ]
        self._taken: dict[DeviceID, list[int]] = {}
        self._shares: dict[DeviceID, list[Consumption]] = {}
        self._counters: dict[PoolID, Counters] = {}
        self._all: dict[int, Sequence[Device]] = {}

    def run(self) -> bool:
        """Search until all requests are satisfied, or all choices are tried."""
        options = self._options(_Position())
        trail: list[tuple[Iterator[_Position], _Position]] = []
        while True:
            position = next(options, None)
            if position is None:
                if not trail:
                    return False
                options, last = trail.pop()
                if last.chosen:
                    self._undo(last)
                continue
            trail.append((options, position))
            if position.request == len(self._requests):
                return True
            options = self._options(position)

    def _options(self, position: _Position) -> Iterator[_Position]:
        """Yield the positions that follow; the device of each is taken until it is undone."""
        if position.request == len(self._requests):
            yield position
            return
        claim_request = self._requests[position.request]
        if position.alternative is None:
            for index in range(len(claim_request.alternatives)):
                yield _Position(position.request, index)
            return
        request = claim_request.alternatives[position.alternative]
        devices = self._devices if request.count else self._all_devices(request)
        count = request.count or len(devices)
        if (
            not count
            or len(self.choices[claim_request.claim]) + count - position.chosen > MAX_RESULTS
        ):
            return
        if position.chosen == count:
            yield _Position(position.request + 1)
            return
        end = len(devices) if request.count else position.start + 1
        for index in range(position.start, end):
            if self._choose(claim_request.claim, request, devices[index]):
                yield replace(position, chosen=position.chosen + 1, start=index + 1)

    def _all_devices(self, request: DeviceRequest) -> Sequence[Device]:
        """Return all devices of the node that a request selects. Raises SchedulingError if a pool
        is not complete."""
        if id(request) not in self._all:
            for pool in self._pools.values():
                self._check_pool(request, pool)
            self._budget.spend_step(len(self._devices))
            devices = [device for device in self._devices if self._is_selected(request, device)]
            self._all[id(request)] = devices
        return self._all[id(request)]

    def _check_pool(self, request: DeviceRequest, pool: Pool) -> None:
        if pool.is_usable:
            return
        state = "being updated" if pool.is_incomplete else "invalid"
        claim = f"{namespace_of(request.claim)}/{name_of(request.claim)}"
        raise SchedulingError(
            f"claim {claim}, request {request.name.rpartition('/')[2]}: asks for all devices, but "
            f"resource pool {pool.id} is currently {state}"
        )

    def _is_selected(self, request: DeviceRequest, device: Device) -> bool:
        """Report whether a device is one that the request asks for, in use or not. Raises
        SchedulingError."""
        return (
            not (_is_extended(request) and device.tree.get("bindingConditions"))
            and request.selects(device, self._budget)
            and device.is_usable_on(self._node)
            and self._consumption(request, device) is not None
        )

    def _consumption(self, request: DeviceRequest, device: Device) -> Consumption | None:
        """Return what a request consumes of a device that is free; None if that is too much."""
        consumed = consumption(request.capacity, device)
        return consumed if consumed is not None and has_room(device, [consumed]) else None

    def _choose(self, claim: int, request: DeviceRequest, device: Device) -> bool:
        """Take a device if it can be allocated for a request, and report that."""
        self._budget.spend_step()
        if not self._is_free(claim, request, device) or not self._is_selected(request, device):
            return False
        if not request.tolerates(self._inventory.taints_of(device)):
            return False
        consumed = self._consumption(request, device) if device.is_shared else None
        if consumed is not None and not has_room(device, [*self._consumed(device), consumed]):
            return False
        if not self._take_counters(device):
            return False
        if not self._add_to_constraints(claim, request, device):
            self._give_back_counters(device)
            return False
        if consumed is None:
            self._taken.setdefault(device.id, []).append(claim)
        else:
            self._shares.setdefault(device.id, []).append(consumed)
        self.choices[claim].append(Choice(request, device, consumed))
        return True

    def _undo(self, position: _Position) -> None:
        """Give back the device that was chosen last, which led to a position."""
        claim = self._requests[position.request].claim
        choice = self.choices[claim].pop()
        for constraint in self._constraints[claim]:
            constraint.remove(choice.request)
        _pop_last(self._taken if choice.consumed is None else self._shares, choice.device.id)
        self._give_back_counters(choice.device)

    def _is_free(self, claim: int, request: DeviceRequest, device: Device) -> bool:
        takers = self._taken.get(device.id, ())
        if request.is_admin:
            return claim not in takers
        return not takers and not self._inventory.is_owned(device.id)

    def _consumed(self, device: Device) -> list[Consumption]:
        """Return what other requests have of a shared device."""
        by_claim = self._inventory.shares.get(device.id, {}).values()
        return [
            *(share for shares in by_claim for share in shares),
            *self._shares.get(device.id, ()),
        ]

    # Counters are drawn once for a device, however many shares of it there are.

    def _take_counters(self, device: Device) -> bool:
        if not device.counters or self._is_in_use(device):
            return True
        pool = device.slice.pool
        if pool not in self._counters:
            self._counters[pool] = Counters(self._pools[pool], self._inventory.is_in_use)
        return self._counters[pool].take(device)

    def _give_back_counters(self, device: Device) -> None:
        if device.counters and not self._is_in_use(device):
            self._counters[device.slice.pool].give_back(device)

    def _is_in_use(self, device: Device) -> bool:
        shares = device.id in self._shares or device.id in self._inventory.shares
        return shares if device.is_shared else False

    def _add_to_constraints(self, claim: int, request: DeviceRequest, device: Device) -> bool:
        added: list[Constraint] = []
        for constraint in self._constraints[claim]:
            if not constraint.add(request, device):
                for consumption in added:
                    consumption.remove(request)
                return False
            added.append(constraint)
        return True


def _is_extended(request: DeviceRequest) -> bool:
    """Report whether a request is for an extended resource. Its claim may not wait for a driver:
    each attempt rebuilds it."""
    return EXTENDED in annotations_of(request.claim)


def _pop_last(used: dict[DeviceID, list[Any]], device: DeviceID) -> None:
    used[device].pop()
    if not used[device]:
        del used[device]
