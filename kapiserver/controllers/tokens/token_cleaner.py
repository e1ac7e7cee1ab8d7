"""Deletes bootstrap tokens that have expired.

Mirrors pkg/controller/bootstrap/tokencleaner.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kapiserver.api.accessors import uid_of
from kapiserver.api.group import CORE
from kapiserver.api.selectors import FieldTerm, Selection
from kapiserver.apiserver.authentication.bootstrap_token import (
    NAMESPACE,
    SECRET_TYPE,
    expiry_of,
)
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import delete_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

_BOOTSTRAP_TOKENS = Selection(fields=(FieldTerm(name="type", value=SECRET_TYPE, equal=True),))


class TokenCleaner(Controller[ObjectKey]):
    """The control loop; its queue holds keys of Secrets."""

    def set_up(self) -> None:
        """Watch Secrets."""
        self._secrets = self.watch(CORE, "secrets", _for_token)

    async def reconcile(self, key: ObjectKey) -> None:
        """Delete an expired token; come back when another one expires."""
        entry = self._secrets.lister.get(key)
        if entry is None or not entry.is_selected(_BOOTSTRAP_TOKENS):
            return
        secret = entry.tree()
        expiry = expiry_of(secret)
        if expiry is None:
            return
        seconds = expiry - self.clock.now()
        if seconds > 0:
            self.queue.add_after(key, seconds)
            return
        secrets = self.context.resource("v1", "secrets", namespace=NAMESPACE)
        await delete_object(secrets, key.name, uid=uid_of(secret))


def _for_token(change: ObjectChange) -> Iterable[ObjectKey]:
    is_token = change.last.key.namespace == NAMESPACE and change.last.is_selected(_BOOTSTRAP_TOKENS)
    return (change.last.key,) if is_token else ()
