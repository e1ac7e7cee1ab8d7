"""The allocation of a claim: the chosen devices as `status.allocation` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import NAMESPACE_OID, uuid5

from kapiserver.api.accessors import controller_of, name_of, uid_of, value_at
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.devices.allocator import Choice
from kapiserver.simulation.scheduler.devices.binding_conditions import FIELDS
from kapiserver.simulation.scheduler.devices.requests import requests_of


def allocation_tree(claim: Tree, choices: Sequence[Choice], node_name: str) -> Tree:
    """Return the AllocationResult of a claim whose pod is to run on a node."""
    config = list(_config(claim, choices))
    results = [_result(claim, index, choice) for index, choice in enumerate(choices)]
    allocation: Tree = {"devices": {"results": results}}
    if config:
        allocation["devices"]["config"] = config
    selector = _node_selector(choices, node_name)
    if selector:
        allocation["nodeSelector"] = selector
    return allocation


def _result(claim: Tree, index: int, choice: Choice) -> Tree:
    request, identity, device = choice.request, choice.device.id, choice.device.tree
    result: Tree = {"request": request.name, **identity._asdict()}
    if request.is_admin:
        result["adminAccess"] = True
    result |= {name: device[name] for name in FIELDS if device.get(name)}
    if request.tolerations:
        result["tolerations"] = list(request.tolerations)
    if choice.consumed is not None:
        # The same claim gets the same name for its share whenever it is allocated. A claim for
        # extended resources is not created yet: it is the only one of its pod.
        identity_of_claim = uid_of(claim) or (controller_of(claim) or {}).get("uid")
        result["shareID"] = str(uuid5(NAMESPACE_OID, f"{identity_of_claim}/{index}"))
        if choice.consumed:
            result["consumedCapacity"] = {
                name: str(amount) for name, amount in choice.consumed.items()
            }
    return result


def _config(claim: Tree, choices: Sequence[Choice]) -> Iterator[Tree]:
    """Yield the configuration of the classes, then that of the claim, as far as it is for requests
    or alternatives that were chosen."""
    requests_by_name = {choice.request.parent: choice.request for choice in choices}
    by_class: dict[str, list[str]] = {}
    for request in requests_by_name.values():
        by_class.setdefault(name_of(request.device_class), []).append(request.name)
    classes = {
        name_of(request.device_class): request.device_class for request in requests_by_name.values()
    }
    names = {
        name for request in requests_by_name.values() for name in (request.name, request.parent)
    }
    all_requests = [
        {
            request["name"],
            *(
                (requests_by_name[request["name"]].name,)
                if request["name"] in requests_by_name
                else ()
            ),
        }
        for request in requests_of(claim)
    ]

    def entry(source: str, requests: Sequence[str], config: Tree) -> Tree:
        fields = {name: value for name, value in config.items() if name != "requests"}
        is_for_all = not requests or all(
            not names_of_request.isdisjoint(requests) for names_of_request in all_requests
        )
        return {"source": source, **({} if is_for_all else {"requests": requests}), **fields}

    for name, requests in by_class.items():
        for config in value_at(classes[name], "spec", "config") or ():
            yield entry("FromClass", requests, config)
    for config in value_at(claim, "spec", "devices", "config") or ():
        requests = config.get("requests") or []
        if not requests or not names.isdisjoint(requests):
            yield entry("FromClaim", requests, config)


def _node_selector(choices: Sequence[Choice], node_name: str) -> Tree | None:
    """Return which nodes can use all devices; None: all nodes."""
    term: dict[str, list[Tree]] = {}
    for choice in choices:
        slice_, device = choice.device.slice, choice.device.tree
        holder = device if slice_.is_per_device else slice_.spec
        if holder.get("nodeName") or device.get("bindsToNode"):
            field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        for selector_term in value_at(holder, "nodeSelector", "nodeSelectorTerms") or ():
            for kind in ("matchFields", "matchExpressions"):
                present = term.setdefault(kind, [])
                present.extend(
                    requirement
                    for requirement in selector_term.get(kind) or ()
                    if requirement not in present
                )
    term = {kind: requirements for kind, requirements in term.items() if requirements}
    return {"nodeSelectorTerms": [term]} if term else None
