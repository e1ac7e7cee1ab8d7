"""Deletes bootstrap tokens that have expired.

Mirrors pkg/controller/bootstrap/tokencleaner.go.
"""

from __future__ import annotations

from kapiserver.api.accessors import uid_of
from kapiserver.api.group import CORE
from kapiserver.api.selectors import FieldTerm, Selection
from kapiserver.apiserver.authentication.bootstrap_token import (
    NAMESPACE,
    SECRET_TYPE,
    expiry_of,
)
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.subscriptions import Subscriptions
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.controllers.loop.writing import delete_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

NAME = "token-cleaner-controller"
_BOOTSTRAP_TOKENS = Selection(fields=(FieldTerm(name="type", value=SECRET_TYPE, equal=True),))


class TokenCleaner:
    """The control loop; its queue holds names of Secrets in kube-system."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._clock = context.server.clock
        self._subscriptions = Subscriptions(context.server)
        self._queue: WorkQueue[str] = context.work_queue(self._reconcile, workers=1, name=NAME)

    async def start(self) -> None:
        """Subscribe to Secrets."""
        self._secrets = self._subscriptions.add(CORE, "secrets", self._on_secret)

    async def stop(self) -> None:
        """Stop, and cancel the reconcile in progress."""
        self._subscriptions.cancel()
        await self._queue.stop()

    def _on_secret(self, change: ObjectChange) -> None:
        entry = change.new
        if change.last.key.namespace != NAMESPACE:
            return
        if entry is None:
            self._queue.unschedule(change.last.key.name)
        elif entry.is_selected(_BOOTSTRAP_TOKENS):
            self._queue.add(entry.key.name)

    async def _reconcile(self, name: str) -> None:
        entry = self._secrets.lister.get(ObjectKey(NAMESPACE, name))
        if entry is None or not entry.is_selected(_BOOTSTRAP_TOKENS):
            return
        secret = entry.tree()
        expiry = expiry_of(secret)
        if expiry is None:
            return
        seconds = expiry - self._clock.now()
        if seconds > 0:
            self._queue.schedule(name, seconds)
            return
        secrets = self._context.resource("v1", "secrets", namespace=NAMESPACE)
        await delete_object(secrets, name, uid=uid_of(secret))
