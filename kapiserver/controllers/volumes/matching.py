"""Decides which volume fits a claim. Binder and scheduler share this module, so that they agree.

All functions are pure. Mirrors component-helpers/storage/volume, and the ordered index of
pkg/controller/volume/persistentvolume.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from decimal import Decimal

from kapiserver.api.accessors import (
    annotations_of,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.core.pods.node_affinity import SelectableNode, term_matches
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.annotations import BETA_CLASS, BIND_COMPLETED

# What claims and volumes say.


def class_of(obj: Tree) -> str:
    """Return the name of the StorageClass of a claim or volume, or ""."""
    legacy = annotations_of(obj).get(BETA_CLASS)
    return legacy if legacy is not None else value_at(obj, "spec", "storageClassName") or ""


def has_class(claim: Tree) -> bool:
    """Report whether a claim asks for a class; "" is a class, too."""
    legacy = annotations_of(claim).get(BETA_CLASS)
    return legacy is not None or value_at(claim, "spec", "storageClassName") is not None


def requested_size(claim: Tree) -> Decimal:
    """Return the bytes that a claim asks for."""
    return _bytes(value_at(claim, "spec", "resources", "requests", "storage"))


def current_size(claim: Tree) -> Decimal:
    """Return the bytes that a claim has."""
    return _bytes(value_at(claim, "status", "capacity", "storage"))


def capacity_of(volume: Tree) -> Decimal:
    """Return the bytes of a volume."""
    return _bytes(value_at(volume, "spec", "capacity", "storage"))


def largest_volume(capacity: Tree) -> Decimal:
    """Return the bytes of the largest volume that has room, by a CSIStorageCapacity; -1 if that is
    not known."""
    limit = capacity.get("maximumVolumeSize") or capacity.get("capacity")
    return Decimal(-1) if limit is None else _bytes(limit)


def _bytes(quantity: str | None) -> Decimal:
    return parse(quantity or "0").decimal


def access_modes(obj: Tree) -> frozenset[str]:
    """Return the access modes of a claim or volume."""
    return frozenset(value_at(obj, "spec", "accessModes") or ())


def volume_mode(obj: Tree) -> str:
    """Return `Filesystem` or `Block`."""
    return value_at(obj, "spec", "volumeMode") or "Filesystem"


def _attributes_class(obj: Tree) -> str:
    return value_at(obj, "spec", "volumeAttributesClassName") or ""


def claim_key(volume: Tree) -> str:
    """Return `NAMESPACE/NAME` of the claim that a volume refers to, or ""."""
    reference = value_at(volume, "spec", "claimRef")
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""


def is_bound(claim: Tree) -> bool:
    """Report whether a claim is bound to a volume, and the binding is complete."""
    has_volume = bool(value_at(claim, "spec", "volumeName"))
    return has_volume and BIND_COMPLETED in annotations_of(claim)


def is_in_bound_phase(claim: Tree) -> bool:
    """Report whether the status of a claim shows a volume, with its size: pods may use it."""
    has_volume = bool(value_at(claim, "spec", "volumeName"))
    return has_volume and bool(value_at(claim, "status", "phase") == "Bound")


def is_reserved_for(volume: Tree, claim: Tree) -> bool:
    """Report whether a volume refers to a claim, by its uid if it has one."""
    if claim_key(volume) != f"{namespace_of(claim)}/{name_of(claim)}":
        return False
    uid = value_at(volume, "spec", "claimRef", "uid")
    return not uid or bool(uid == uid_of(claim))


def is_reachable(volume: Tree, node: SelectableNode) -> bool:
    """Report whether the node affinity of a volume selects a node."""
    required = value_at(volume, "spec", "nodeAffinity", "required")
    return not required or any(
        term_matches(term, node) for term in required.get("nodeSelectorTerms") or ()
    )


# Which volume fits.


def mismatch(volume: Tree, claim: Tree) -> str:
    """Return why a volume cannot satisfy a claim that names it, or ""."""
    checks = {
        f'the volume is marked for deletion "{name_of(volume)}"': is_terminating(volume),
        "requested PV is too small": capacity_of(volume) < requested_size(claim),
        "storageClassName does not match": class_of(volume) != class_of(claim),
        "volumeAttributesClassName does not match": (
            _attributes_class(volume) != _attributes_class(claim)
        ),
        "incompatible volumeMode": volume_mode(volume) != volume_mode(claim),
        "incompatible accessMode": not access_modes(claim) <= access_modes(volume),
    }
    return next((text for text, fails in checks.items() if fails), "")


def best_volume(claim: Tree, volumes: Iterable[Tree], *, delayed: bool) -> Tree | None:
    """Return the volume for a claim: of those with the fewest access modes, the one that is
    reserved for it, or the smallest; None if none fits.

    delayed  whether the scheduler chooses the volume; one that is reserved counts nevertheless
    """
    groups: dict[frozenset[str], list[Tree]] = {}
    for volume in volumes:
        modes = access_modes(volume)
        if access_modes(claim) <= modes:
            groups.setdefault(modes, []).append(volume)
    for modes in sorted(groups, key=lambda modes: (len(modes), sorted(modes))):
        found = smallest_volume(claim, groups[modes], delayed=delayed)
        if found is not None:
            return found
    return None


def smallest_volume(
    claim: Tree,
    volumes: Iterable[Tree],
    *,
    node: SelectableNode | None = None,
    excluded: Collection[str] = (),
    delayed: bool = False,
) -> Tree | None:
    """Return the volume that is reserved for a claim, or the smallest available one that fits; None
    if there is none.

    node      the node from which the volume must be reachable; None: the binder asks
    excluded  the names of volumes that other claims get
    """
    candidates = [
        volume for volume in volumes if name_of(volume) not in excluded and _may_hold(volume, claim)
    ]
    for volume in candidates:
        if is_reserved_for(volume, claim):
            return volume if node is None or is_reachable(volume, node) else None
    if delayed and node is None:
        return None
    selection = selection_of(value_at(claim, "spec", "selector"))
    fitting = (
        volume
        for volume in candidates
        if value_at(volume, "status", "phase") == "Available"
        and (selection is None or selection.matches(labels_of(volume), {}))
        and class_of(volume) == class_of(claim)
        and (node is None or _fits_node(volume, claim, node))
    )
    return min(fitting, key=lambda volume: (capacity_of(volume), name_of(volume)), default=None)


def _may_hold(volume: Tree, claim: Tree) -> bool:
    """Report whether a volume is free or reserved for the claim, and large enough."""
    return (
        (not value_at(volume, "spec", "claimRef") or is_reserved_for(volume, claim))
        and capacity_of(volume) >= requested_size(claim)
        and volume_mode(volume) == volume_mode(claim)
        and _attributes_class(volume) == _attributes_class(claim)
        and not is_terminating(volume)
    )


def _fits_node(volume: Tree, claim: Tree, node: SelectableNode) -> bool:
    return access_modes(claim) <= access_modes(volume) and is_reachable(volume, node)
