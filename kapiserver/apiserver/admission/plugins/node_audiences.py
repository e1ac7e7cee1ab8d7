"""Limits the audiences of tokens that nodes request, for NodeRestriction; not a plugin itself.

Mirrors ServiceAccountNodeAudienceRestriction in plugin/pkg/admission/noderestriction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from kapiserver.api.accessors import value_at
from kapiserver.api.core.pods.references import claim_names
from kapiserver.api.go_format import quote
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_STORAGE = GroupVersion("storage.k8s.io", "v1")


async def check(server: Server, attributes: Attributes, pod: Tree, request: Tree) -> None:
    """Raise Forbidden for a TokenRequest whose audience no volume of the pod needs, unless the node
    may `request-serviceaccounts-token-audience`."""
    audiences = value_at(request, "spec", "audiences") or []
    if len(audiences) > 1:
        raise attributes.forbidden("node may only request 0 or 1 audiences")
    audience = audiences[0] if audiences else ""
    async for needed in _audiences(server, pod):
        if needed == audience:
            return
    info = RequestInfo(
        verb="request-serviceaccounts-token-audience",
        version=CORE,
        namespace=attributes.target.key.namespace,
        resource=audience,
        name=attributes.target.key.name,
    )
    if audience and (await server.authorizer.authorize(attributes.user, info)).allowed:
        return
    raise attributes.forbidden(
        f"audience {quote(audience)} not found in pod spec volume, {attributes.user.name} is not "
        "authorized to request tokens for this audience"
    )


async def _audiences(server: Server, pod: Tree) -> AsyncIterator[str]:
    """Yield the audiences of the tokens that the volumes of a pod need; "" is the server's own."""
    for volume in value_at(pod, "spec", "volumes") or ():
        for source in value_at(volume, "projected", "sources") or ():
            if source.get("serviceAccountToken") is not None:
                yield source["serviceAccountToken"].get("audience") or ""
        if driver := value_at(volume, "csi", "driver"):
            async for audience in _driver_audiences(server, driver):
                yield audience
    for claim in claim_names(pod):
        namespace = value_at(pod, "metadata", "namespace") or ""
        name = value_at(
            await _get(server, CORE, "persistentvolumeclaims", namespace, claim),
            "spec",
            "volumeName",
        )
        volume = await _get(server, CORE, "persistentvolumes", "", name or "")
        if driver := value_at(volume, "spec", "csi", "driver"):
            async for audience in _driver_audiences(server, driver):
                yield audience


async def _driver_audiences(server: Server, driver: str) -> AsyncIterator[str]:
    tree = await _get(server, _STORAGE, "csidrivers", "", driver)
    for request in value_at(tree, "spec", "tokenRequests") or ():
        yield request.get("audience") or ""


async def _get(
    server: Server, version: GroupVersion, resource: str, namespace: str, name: str
) -> Tree:
    """Return an object, or {} if there is none."""
    with suppress(NotFound):
        key = ObjectKey(namespace, name)
        return (await server.stores.by_name(version, resource).get(key)).tree()
    return {}
