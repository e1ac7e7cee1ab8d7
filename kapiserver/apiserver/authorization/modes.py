"""The authorizers of one server, in order: those that its settings turn on.

To add a mode, write an authorizer in a module of this package, add a row to `_FACTORIES` and its
name to MODES in `settings.py`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.allow_authenticated import AllowAuthenticated
from kapiserver.apiserver.authorization.always_deny import AlwaysDeny
from kapiserver.apiserver.authorization.metrics import AuthorizationMetrics, DecisionCounts
from kapiserver.apiserver.authorization.privileged_group import PrivilegedGroup
from kapiserver.apiserver.authorization.rbac.authorizer import RbacAuthorizer
from kapiserver.apiserver.authorization.rbac.index import RbacIndex
from kapiserver.apiserver.authorization.settings import (
    NODE,
    PURPOSE,
    RBAC,
    WEBHOOK,
    configuration_file,
    settings_of_file,
    settings_of_flags,
)
from kapiserver.apiserver.authorization.union import UnionAuthorizer
from kapiserver.apiserver.authorizer import (
    Authorizer,
    Decision,
    ManagedAuthorizer,
    Rules,
)
from kapiserver.apiserver.config import AuthorizationSettings
from kapiserver.apiserver.configuration_files import BadConfiguration, ReloadedFile
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.objects.store_registry import StoreRegistry

STOP_SECONDS = 60.0
"""How long a webhook that a reload replaced may end its calls: one takes at most 30 s."""


class Parts(Struct, frozen=True, kw_only=True):
    """The parts of the server that authorizers use."""

    settings: AuthorizationSettings
    stores: StoreRegistry
    clock: Clock
    metrics: AuthorizationMetrics


def _abac(parts: Parts, _settings: Tree) -> Authorizer:
    from kapiserver.apiserver.authorization.abac import AbacAuthorizer, read_policies

    file = parts.settings.authorization_policy_file
    if file is None:
        raise BadConfiguration("the authorizer ABAC needs --authorization-policy-file")
    return AbacAuthorizer(read_policies(file))


def _node(parts: Parts, _settings: Tree) -> Authorizer:
    from kapiserver.apiserver.authorization.node.authorizer import NodeAuthorizer
    from kapiserver.apiserver.authorization.node.graph import NodeGraph

    return NodeAuthorizer(NodeGraph(parts.stores))


def _webhook(parts: Parts, settings: Tree) -> Authorizer:
    # Loaded when they are configured: they load an HTTP client.
    from kapiserver.apiserver.authorization.webhook import WebhookAuthorizer
    from kapiserver.apiserver.durations import parse_duration
    from kapiserver.apiserver.webhooks.kubeconfig import read_kubeconfig

    webhook = settings["webhook"]
    file = webhook["connectionInfo"].get("kubeConfigFile")
    if not file:
        raise BadConfiguration(
            f"the authorizer {settings['name']}: the connectionInfo type InClusterConfig is not "
            "supported; use KubeConfigFile, which names the webhook in a kubeconfig"
        )
    client = read_kubeconfig(
        Path(file),
        parts.clock,
        purpose="authorization webhook",
        timeout=parse_duration(webhook["timeout"]) or 0.0,
        metrics=parts.metrics.client,
    )
    return WebhookAuthorizer(client, settings["name"], webhook, parts.clock, parts.metrics)


_FACTORIES: Mapping[str, Callable[[Parts, Tree], Authorizer]] = {
    "ABAC": _abac,
    "AlwaysAllow": lambda _parts, _settings: AllowAuthenticated(),
    "AlwaysDeny": lambda _parts, _settings: AlwaysDeny(),
    "Node": _node,
    "RBAC": lambda parts, _settings: RbacAuthorizer(RbacIndex(parts.stores)),
    "Webhook": _webhook,
}


class Authorization(ManagedAuthorizer):
    """The authorizers of one server, after that of system:masters.

    rbac    RBAC's authorizer, None if that mode is off
    files   the files that `reload` reads
    """

    def __init__(
        self,
        settings: AuthorizationSettings,
        stores: StoreRegistry,
        clock: Clock,
        metrics: AuthorizationMetrics,
    ) -> None:
        """Read the settings. Raises ValueError, BadConfiguration."""
        self._parts = Parts(settings=settings, stores=stores, clock=clock, metrics=metrics)
        file = configuration_file(settings)
        self.files = [file] if file is not None else []
        self._content: ReloadedFile | None = None
        if file is None:
            self._settings = settings_of_flags(settings)
        else:
            self._content = ReloadedFile(file, PURPOSE, clock, metrics.reloads)
            self._decode = functools.partial(settings_of_file, file)
            self._settings = self._decode(self._content.data)
        self._authorizers = self._make(self._settings, {})
        self._union = self._make_union()
        self._replaced: dict[Authorizer, Timer] = {}
        """Authorizers of earlier configurations, which may still answer requests, and the timers
        that stop them."""
        self._stopping = BackgroundTasks[None]()
        rbac = self._authorizers.get(RBAC)
        self.rbac = rbac if isinstance(rbac, RbacAuthorizer) else None

    def authorize(self, user: User, info: RequestInfo) -> Coroutine[Any, Any, Decision]:
        """Return the decision of the first authorizer that has an opinion."""
        return self._union.authorize(user, info)

    async def rules_for(self, user: User, namespace: str) -> Rules:
        """Return the rules of all authorizers."""
        return await self._union.rules_for(user, namespace)

    async def start(self) -> None:
        """Start the authorizers. Raises StorageError."""
        for authorizer in self._authorizers.values():
            if isinstance(authorizer, ManagedAuthorizer):
                await authorizer.start()

    async def stop(self) -> None:
        """Stop the authorizers. Idempotent."""
        for authorizer, timer in list(self._replaced.items()):
            timer.cancel()
            self._stop_replaced(authorizer)
        for authorizer in self._authorizers.values():
            if isinstance(authorizer, ManagedAuthorizer):
                await authorizer.stop()
        await asyncio.gather(*self._stopping)

    def reload(self) -> None:
        """Read the configuration file again, and use what changed. An unusable file is logged and
        changes nothing."""
        if self._content is None or not self._content.has_changed():
            return
        try:
            settings = self._decode(self._content.data)
            if settings == self._settings:
                return
            authorizers = self._make(settings, self._authorizers)
        except ValueError as error:
            self._content.refuse(error)
            return
        for name, authorizer in self._authorizers.items():
            if name not in authorizers:
                stop = functools.partial(self._stop_replaced, authorizer)
                self._replaced[authorizer] = self._parts.clock.call_later(STOP_SECONDS, stop)
        self._settings, self._authorizers = settings, authorizers
        self._union = self._make_union()
        self._content.accept()

    def _make(self, settings: Tree, present: Mapping[str, Authorizer]) -> dict[str, Authorizer]:
        """Return authorizers by type, and webhooks by their settings. Authorizers in `present` are
        used again. Raises BadConfiguration, also if Node or RBAC would be added or removed."""
        authorizers: dict[str, Authorizer] = {}
        for entry in settings["authorizers"]:
            key = repr(entry) if entry["type"] == WEBHOOK else entry["type"]
            authorizers[key] = present.get(key) or _FACTORIES[entry["type"]](self._parts, entry)
        for mode in (NODE, RBAC):
            if present and (mode in present) != (mode in authorizers):
                raise BadConfiguration(f"the authorizer {mode} cannot be added or removed")
        return authorizers

    def _make_union(self) -> UnionAuthorizer:
        decisions_of = self._parts.metrics.decisions_of
        counts = [
            decisions_of(entry["type"], entry["name"]) for entry in self._settings["authorizers"]
        ]
        authorizers = self._authorizers.values()
        return UnionAuthorizer([PrivilegedGroup(), *authorizers], [DecisionCounts(), *counts])

    def _stop_replaced(self, authorizer: Authorizer) -> None:
        del self._replaced[authorizer]
        if isinstance(authorizer, ManagedAuthorizer):
            self._stopping.start(authorizer.stop())
