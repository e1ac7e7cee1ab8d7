"""What is known of dynamic resource allocation: claims, device classes, slices and taint rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api.accessors import (
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.controllers.resource_claims.pod_claims import (
    ClaimProblem,
    check_owner,
    claim_name,
    pod_claims_of,
)
from kapiserver.simulation.scheduler.devices.capacity import Consumption
from kapiserver.simulation.scheduler.devices.slices import Device, DeviceID, Slices


class Inventory:
    """The objects of a cluster that decide which devices a pod gets.

    classes         the DeviceClasses, by name
    taint_rules     the DeviceTaintRules, by name
    slices          the ResourceSlices
    shares          what claims consume of shared devices, by device, then by uid of the claim
    """

    def __init__(self) -> None:
        self.classes: dict[str, Tree] = {}
        self.taint_rules: dict[str, Tree] = {}
        self.slices = Slices()
        self.shares: dict[DeviceID, dict[str, list[Consumption]]] = {}
        self._claims: dict[tuple[str, str], Tree] = {}
        self._owners: dict[DeviceID, dict[str, None]] = {}

    # Claims.

    def set_claim(self, claim: Tree) -> None:
        """Add a claim, or replace it."""
        key = (namespace_of(claim), name_of(claim))
        self.remove_claim(*key)
        self._claims[key] = claim
        for device, result in _results(claim):
            if result.get("shareID"):
                consumed = {
                    name: parse(text)
                    for name, text in (result.get("consumedCapacity") or {}).items()
                }
                self.shares.setdefault(device, {}).setdefault(uid_of(claim), []).append(consumed)
            else:
                self._owners.setdefault(device, {})[uid_of(claim)] = None

    def remove_claim(self, namespace: str, name: str) -> None:
        """Remove a claim and what it has."""
        claim = self._claims.pop((namespace, name), None)
        for device, _ in _results(claim or {}):
            for users in (self.shares, self._owners):
                users.get(device, {}).pop(uid_of(claim or {}), None)
                if not users.get(device):
                    users.pop(device, None)

    def claims_of(self, pod: Tree) -> list[Tree]:
        """Return the claims of a pod, in the order of its references. Raises ClaimProblem if one of
        them cannot be used yet."""
        claims = []
        for reference in pod_claims_of(pod):
            name = claim_name(pod, reference)
            if not name:
                continue
            claim = self._claims.get((namespace_of(pod), name))
            if claim is None:
                raise ClaimProblem(f'resourceclaim.resource.k8s.io "{name}" not found')
            if is_terminating(claim):
                raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
            check_owner(pod, reference, claim)
            claims.append(claim)
        return claims

    # Devices.

    def is_in_use(self, device: DeviceID) -> bool:
        """Report whether a claim has the device, or a share of it."""
        return device in self._owners or device in self.shares

    def is_owned(self, device: DeviceID) -> bool:
        """Report whether a claim has the device for itself."""
        return device in self._owners

    def taints_of(self, device: Device) -> Sequence[Tree]:
        """Return the taints of a device: its own, and those of rules."""
        own: Sequence[Tree] = device.tree.get("taints") or ()
        if not self.taint_rules:
            return own
        rules = (self.taint_rules[name] for name in sorted(self.taint_rules))
        return [*own, *(value_at(rule, "spec", "taint") for rule in rules if _names(rule, device))]


def _results(claim: Tree) -> Iterator[tuple[DeviceID, Tree]]:
    """Yield the devices that a claim has, except those of administrators."""
    for result in value_at(claim, "status", "allocation", "devices", "results") or ():
        if not result.get("adminAccess"):
            yield DeviceID(result["driver"], result["pool"], result["device"]), result


def _names(rule: Tree, device: Device) -> bool:
    """Report whether a taint rule is about a device; fields that it does not have do not count."""
    selector: Tree = value_at(rule, "spec", "deviceSelector") or {}
    selected = (selector.get("driver"), selector.get("pool"), selector.get("device"))
    return all(
        part in (None, device_part) for part, device_part in zip(selected, device.id, strict=True)
    )
