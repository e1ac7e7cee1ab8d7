"""The values of the variables of admission expressions for one write.

Only the variables that expressions use are made. Mirrors CreateAdmissionRequest,
CreateNamespaceObject and newActivation of pkg/admission/plugin/cel in k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.admission_request import admission_request
from kapiserver.apiserver.admission.expressions import Activation, Authorization, LoopTime
from kapiserver.apiserver.admission.matching.rules import ResourceVariant
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.namespaces import namespace_object
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

REQUEST_RESOURCE = "authorizer.requestResource"
_AUTHORIZERS = ("authorizer", REQUEST_RESOURCE)
_NAMESPACE_METADATA = frozenset(
    (
        "name", "generateName", "namespace", "labels", "annotations", "uid", "creationTimestamp",
        "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "resourceVersion",
        "finalizers",
    )
)  # fmt: skip


class Activations:
    """Makes the activations of the expressions of all webhooks or policies for one write; they
    share the time on the event loop and the decisions of the authorizer."""

    def __init__(self, server: Server, attributes: Attributes, objects: VersionedObjects) -> None:
        self._server = server
        self._attributes = attributes
        self._objects = objects
        self._loop_time = LoopTime()
        self._authorization: Authorization | None = None
        self._requests: dict[ResourceVariant, Tree] = {}
        self._namespace: Tree | None = None

    async def make(self, variant: ResourceVariant, names: Collection[str]) -> Activation:
        """Return the values of the named variables; the objects are in the version of `variant`.
        Raises InternalError if an object cannot be converted, NotFound if the namespace does not
        exist."""
        values: dict[str, Any] = {"params": None}
        if "object" in names:
            values["object"] = await self._objects.object(variant.kind)
        if "oldObject" in names:
            values["oldObject"] = await self._objects.old_object(variant.kind)
        if "request" in names:
            values["request"] = self._request(variant)
        if "namespaceObject" in names:
            values["namespaceObject"] = await self._namespace_object()
        authorization = None
        if any(name in names for name in _AUTHORIZERS):
            authorization = self._authorize(values)
        return Activation(self._server, values, authorization, self._loop_time)

    def _request(self, variant: ResourceVariant) -> Tree:
        request = self._requests.get(variant)
        if request is None:
            request = self._requests[variant] = admission_request(self._attributes, variant)
        return request

    def _authorize(self, values: dict[str, Any]) -> Authorization:
        from kapiserver.api.cel.libraries import authorization as library

        if self._authorization is None:
            self._authorization = Authorization(self._attributes.user, library.Decisions())
        decisions = self._authorization.decisions
        attributes = self._attributes
        check = library.Check(
            group=attributes.target.version.group,
            resource=attributes.target.resource.name,
            subresource=attributes.target.subresource,
            namespace=attributes.namespace,
            name=attributes.requested_name,
        )
        values["authorizer"] = library.Authorizer(library.Check(), decisions)
        values[REQUEST_RESOURCE] = library.ResourceCheck(check, decisions)
        return self._authorization

    async def _namespace_object(self) -> Tree | None:
        attributes = self._attributes
        if attributes.target.is_namespace or not attributes.namespace:
            return None
        if self._namespace is None:
            namespace = await namespace_object(self._server, attributes.namespace)
            metadata = namespace.get("metadata") or {}
            self._namespace = {
                **namespace,
                "metadata": {
                    name: value for name, value in metadata.items() if name in _NAMESPACE_METADATA
                },
            }
        return self._namespace
