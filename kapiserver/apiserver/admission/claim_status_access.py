"""Who may write which part of the status of a ResourceClaim (DRA, KEP 4817).

The allocation and the pods that it is reserved for need the right to `resourceclaims/binding`; the
status of a device needs the right to `resourceclaims/driver` for the driver, with a verb that says
whether the writer is a service account on the node of the allocation. Mirrors AuthorizedForBinding
and AuthorizedForDeviceStatus of pkg/registry/resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.errors import FieldError, InvalidObject, Path
from kapiserver.api.errors import forbidden as forbidden_field
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.authentication.impersonation import service_account_of
from kapiserver.apiserver.authorization.forbidden import forbidden
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User

_NODE_NAME = "authentication.kubernetes.io/node-name"
_NODE_FIELD = {"key": "metadata.name", "operator": "In"}
_ASSOCIATED_NODE, _ARBITRARY_NODE = "associated-node:", "arbitrary-node:"


async def check(server: Server, attributes: Attributes, new: Tree, old: Tree | None) -> None:
    """Raise InvalidObject if the user may not write what has changed."""
    before, after = (old or {}).get("status") or {}, new.get("status") or {}
    errors: list[FieldError] = []
    if _binding(before) != _binding(after):
        errors += await _binding_errors(server, attributes)
    if after.get("allocation"):  # without one, the status of all devices is dropped
        node = _node_of(after["allocation"])
        for driver in sorted(_changed_drivers(before, after)):
            errors += await _driver_errors(server, attributes, driver, node)
    if errors:
        resource = attributes.target.resource
        raise InvalidObject(
            group=resource.group, kind=resource.kind, name=name_of(new), errors=errors
        )


def _binding(status: Tree) -> tuple[Any, Any]:
    return status.get("allocation"), status.get("reservedFor") or []


async def _binding_errors(server: Server, attributes: Attributes) -> Sequence[FieldError]:
    verb = attributes.verb
    refusal = await _refusal(server, attributes, RequestInfo(verb=verb, subresource="binding"))
    if refusal is None:
        return ()
    detail = (
        "changing status.allocation or status.reservedFor requires "
        f'resource="resourceclaims/binding", verb="{verb}" permission: {refusal}'
    )
    return (forbidden_field(Path("status.allocation"), detail),)


async def _driver_errors(
    server: Server, attributes: Attributes, driver: str, node: str
) -> Sequence[FieldError]:
    verbs = [f"{_ARBITRARY_NODE}{attributes.verb}"]
    if _is_on_node(attributes.user, node):
        verbs.insert(0, f"{_ASSOCIATED_NODE}{attributes.verb}")
    namespace = attributes.target.key.namespace
    refusals = []
    for verb in verbs:
        info = RequestInfo(verb=verb, subresource="driver", namespace=namespace, name=driver)
        refusal = await _refusal(server, attributes, info)
        if refusal is None:
            return ()
        refusals.append(refusal)
    detail = (
        'changing status.devices requires resource="resourceclaims/driver", '
        f'verb="[{" ".join(verbs)}]" permission: {refusals[0]}'
    )
    return (forbidden_field(Path("status.devices"), detail),)


async def _refusal(server: Server, attributes: Attributes, info: RequestInfo) -> str | None:
    """Return why the user may not make a request about claims; None if the user may."""
    target = attributes.target
    info = RequestInfo(
        verb=info.verb,
        version=target.version,
        namespace=info.namespace,
        resource=target.resource.name,
        name=info.name,
        subresource=info.subresource,
    )
    decision = await server.authorizer.authorize(attributes.user, info)
    if decision.allowed:
        return None
    reason = ": ".join(filter(None, (decision.error, decision.reason)))
    return str(forbidden(attributes.user, info, reason))


def _changed_drivers(before: Tree, after: Tree) -> set[str]:
    """Return the drivers whose devices have another status, or have one no longer."""
    known = {_device_key(device): device for device in before.get("devices") or ()}
    changed = {
        device["driver"]
        for device in after.get("devices") or ()
        if known.pop(_device_key(device), {}) != device
    }
    return changed | {device["driver"] for device in known.values()}


def _device_key(device: Tree) -> tuple[str | None, ...]:
    return tuple(device.get(name) for name in ("driver", "pool", "device", "shareID"))


def _node_of(allocation: Tree) -> str:
    """Return the node that an allocation is for; empty if it is not for one node."""
    terms: Sequence[Tree] = value_at(allocation, "nodeSelector", "nodeSelectorTerms") or ()
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields: Sequence[Tree] = terms[0].get("matchFields") or ()
    values: Sequence[str] = fields[0].get("values") or () if len(fields) == 1 else ()
    if len(values) != 1 or fields[0] != {**_NODE_FIELD, "values": values}:
        return ""
    return str(values[0])


def _is_on_node(user: User, node: str) -> bool:
    """Report whether a user is a service account whose token belongs to a pod on a node."""
    is_account = service_account_of(user.name) is not None
    return bool(node) and is_account and tuple(user.extra.get(_NODE_NAME, ())) == (node,)
