"""A cache of objects that conversion webhooks converted, for synchronous code.

Field ownership is computed in the version that each manager wrote, in code that cannot await. It
reads this cache; on a miss FetchRequired makes the caller convert the object and try again. The
cache is small, because the retry follows at once. Mirrors the version converter of
k8s.io/apimachinery/pkg/util/managedfields, for kinds with a webhook.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable

from kapiserver.api.custom_kinds import Definition
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.codecs.cbor import encode_value
from kapiserver.storage.cache.query import FetchRequired
from kapiserver.storage.errors import ConversionRefused
from kapiserver.storage.objects.store_registry import StoreRegistry

CACHE_SIZE = 256

_log = logging.getLogger(__name__)


class ConvertedObjectCache:
    """The converted objects of one server, the least recently used dropped first."""

    def __init__(self, stores: StoreRegistry) -> None:
        self._stores = stores
        self._cache: OrderedDict[Hashable, Tree] = OrderedDict()

    def find(self, definition: Definition, obj: Tree, version: GroupVersion) -> Tree:
        """Return the object in another version; do not change it. If the webhook fails, it is the
        same object with the other apiVersion. Raises FetchRequired if it is not cached."""
        key = (definition.identity, version, encode_value(obj))
        cached = self._cache.get(key)
        if cached is not None:
            self._cache.move_to_end(key)
            return cached

        async def fetch() -> None:
            try:
                (converted,) = await self._stores.converter(definition, [obj], version)
            except ConversionRefused as error:
                _log.info("conversion for field ownership of %s failed: %s", definition.name, error)
                converted = {**obj, "apiVersion": str(version)}
            self._cache[key] = converted
            while len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)

        raise FetchRequired(fetch)
