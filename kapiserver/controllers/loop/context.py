"""The context of a controller: the server, its user and its clients.

Mirrors ControllerContext of kube-controller-manager.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from kapiserver.api.certificates.signer_rules import RequestContent
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.resource_client import Client, ResourceClient
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import APISERVER, User
from kapiserver.controllers.loop.background_work import BackgroundWork
from kapiserver.storage.concurrency.clock import Clock

if TYPE_CHECKING:
    from kapiserver.controllers.loop.shared_metadata import SharedMetadata


class SigningAuthority(Protocol):
    """Signs the requests of a cluster for certificates.

    signers     whose requests it signs
    """

    @property
    def signers(self) -> Sequence[str]: ...

    def sign(self, request: RequestContent, duration: timedelta, now: datetime) -> bytes:
        """Return a certificate for a request as PEM. Raises InvalidRequest; ValueError if the CA is
        unusable."""


_MAX_RESOURCES = 64
"""Clients that a controller keeps."""


@dataclass(frozen=True, kw_only=True)
class ControllerContext:
    """The parts of a server that one controller uses.

    name        the name of the controller, for logs and metrics
    metadata    owners, finalizers and deletion of every object; shared with other controllers
    user        the user of the controller's requests
    manager     the field manager of its writes
    ca_text     PEM of the CA that signs the server's certificate; "" without HTTPS
    signing_ca  the CA of the cluster; None if it has none
    background  the recorders of events that were made with this context
    """

    name: str
    server: Server
    metadata: SharedMetadata
    user: User
    manager: str
    ca_text: str = ""
    signing_ca: SigningAuthority | None = None
    background: list[BackgroundWork] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        """The clock of the server."""
        return self.server.clock

    def resource(self, version: str, name: str, *, namespace: str = "") -> ResourceClient:
        """Return the controller's client of a resource."""
        key = (version, name, namespace)
        resource = self._resources.get(key)
        if resource is None:
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            resource = self._client.resource(version, name, namespace=namespace)
            self._resources[key] = resource
        return resource

    def served_resource(self, resource: Resource, *, namespace: str = "") -> ResourceClient | None:
        """Return the controller's client of a resource in a served version, which is the stored
        one of custom objects if possible; None if this server serves none."""
        for version in self._versions(resource):
            if self.server.api_services.server_of(version) is not None:
                continue  # an extension API server has other objects under this name
            with contextlib.suppress(NotRegistered):
                self.server.scheme.kind_info(version, resource.name)
                return self.resource(str(version), resource.name, namespace=namespace)
        return None

    def _versions(self, resource: Resource) -> Sequence[GroupVersion]:
        if not resource.definition:
            return [GroupVersion(resource.group, version) for version in resource.versions]
        definition = self.server.scheme.custom.by_name(resource.definition)
        if definition is None:
            return []
        versions = (definition.stored_version, *definition.versions.values())
        return [version.group_version for version in versions if version.served]

    @functools.cached_property
    def _resources(self) -> dict[tuple[str, str, str], ResourceClient]:
        """Clients that were used: garbage collection deletes many objects of a resource."""
        return {}

    @functools.cached_property
    def _client(self) -> Client:
        # Made on the first write, because it loads more modules. A controller has the rights
        # of its service account; the server itself needs none.
        is_server = self.user is APISERVER
        return self.server.client(self.user, user_agent=self.manager, authorize=not is_server)
