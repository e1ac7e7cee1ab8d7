"""Pools: the devices of a driver that belong together, in one or more slices.

A driver replaces all slices of a pool by those of a higher generation. Until all of them are there,
the pool is incomplete, and no device of it is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kapiserver.api.core.pods.node_affinity import SelectableNode
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.devices.slices import Device, PoolID, Slice, Slices


class Pool(Struct, frozen=True, kw_only=True):
    """A pool as a node sees it.

    devices         those that the node may use, in the order in which they are tried
    others          those that only other nodes can use, which may draw from the same counters
    counter_sets    the shared counters, by name of the set
    """

    id: PoolID
    devices: Sequence[Device] = ()
    others: Sequence[Device] = ()
    counter_sets: Mapping[str, Tree] = {}
    is_incomplete: bool = False
    is_invalid: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether devices of the pool may be allocated."""
        return not self.is_incomplete and not self.is_invalid


def pools_of(node: SelectableNode, slices: Slices) -> list[Pool]:
    """Return the pools with devices for a node, sorted by driver and name."""
    slices_by_pool: dict[PoolID, list[Slice]] = {}
    for slice_ in slices.for_node(node):
        slices_by_pool.setdefault(slice_.pool, []).append(slice_)
    pools = (
        _pool(identity, slices_by_pool[identity], slices) for identity in sorted(slices_by_pool)
    )
    return [pool for pool in pools if pool is not None]


def _pool(identity: PoolID, for_node: Sequence[Slice], slices: Slices) -> Pool | None:
    """Return a pool; None if the slices for the node are out-dated."""
    generation = max(slice_.generation for slice_ in for_node)
    current = [slice_ for slice_ in for_node if slice_.generation == generation]
    all_slices = current
    if len(current) != current[0].count:
        same_pool = [slice_ for slice_ in slices.all() if slice_.pool == identity]
        if any(slice_.generation > generation for slice_ in same_pool):
            return None
        all_slices = [slice_ for slice_ in same_pool if slice_.generation == generation]
        if len(all_slices) != current[0].count:
            return Pool(id=identity, is_incomplete=True)
    devices = _devices(current)
    others = _devices(slice_ for slice_ in all_slices if slice_ not in current)
    sets = [counter_set for slice_ in all_slices for counter_set in slice_.counter_sets]
    counter_sets = {counter_set["name"]: counter_set for counter_set in sets}
    names = {device.id.device for device in devices}
    is_invalid = len(names) < len(devices) or len(counter_sets) < len(sets)
    is_invalid = is_invalid or not all(
        _has_counters(counter_sets, device) for device in (*devices, *others)
    )
    return Pool(
        id=identity,
        devices=devices,
        others=others,
        counter_sets=counter_sets,
        is_invalid=is_invalid,
    )


def _devices(slices: Iterable[Slice]) -> list[Device]:
    ordered = sorted(slices, key=lambda slice_: slice_.name)
    return [device for slice_ in ordered for device in slice_.devices]


def _has_counters(counter_sets: Mapping[str, Tree], device: Device) -> bool:
    """Report whether the pool has the counters that a device draws from."""
    return all(
        counter["counterSet"] in counter_sets
        and set(counter.get("counters") or ())
        <= set(counter_sets[counter["counterSet"]]["counters"])
        for counter in device.counters
    )
