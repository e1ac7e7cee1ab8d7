"""NamespaceExists: refuses writes in namespaces that do not exist.

Mirrors plugin/pkg/admission/namespace/exists.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.namespaces import namespace_object
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


async def validate(
    server: Server, attributes: Attributes, _new: Tree | None, _old: Tree | None
) -> None:
    """Raise NotFound for a missing namespace."""
    name = attributes.target.key.namespace
    if name and not attributes.target.is_namespace:
        await namespace_object(server, name)
