"""NamespaceAutoProvision: creates the namespace of a new object if it does not exist.

Mirrors plugin/pkg/admission/namespace/autoprovision.
"""

from __future__ import annotations

from kapiserver.api.group import CORE
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import APISERVER
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound


async def admit(
    server: Server, attributes: Attributes, _new: Tree | None, _old: Tree | None
) -> None:
    """Create the namespace, unless this is a dry run. Raises Forbidden if that fails."""
    name = attributes.target.key.namespace
    if not name or attributes.dry_run or attributes.target.is_namespace:
        return
    namespaces = server.stores.by_name(CORE, "namespaces")
    try:
        await namespaces.get(ObjectKey("", name), resource_version="0")
    except NotFound:
        client = server.client(APISERVER, user_agent="kube-apiserver", authorize=False)
        try:
            await client.resource("v1", "namespaces").create({"metadata": {"name": name}})
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise attributes.forbidden(str(error)) from None
