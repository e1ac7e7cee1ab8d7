"""Objects as a webhook converted them, for who cannot wait: a change asks, is told to come again,
and finds them then.

Who owns which fields of an object is compared in the version that each owner wrote in. A bounded
number is kept: what is asked for again is mostly asked for at once. Mirrors the version converter
of k8s.io/apimachinery/pkg/util/managedfields, where that is a webhook's.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable

from kapiserver.api.custom_kinds import Definition
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.codecs.cbor import encode_value
from kapiserver.storage.errors import ConversionRefused
from kapiserver.storage.query import FetchRequired
from kapiserver.storage.store_registry import StoreRegistry

KEPT = 256

_log = logging.getLogger(__name__)


class ConvertedObjects:
    """Those of one server."""

    def __init__(self, stores: StoreRegistry) -> None:
        self._stores = stores
        self._known: OrderedDict[Hashable, Tree] = OrderedDict()

    def find(self, definition: Definition, obj: Tree, version: GroupVersion) -> Tree:
        """The object in another version; where the webhook does not convert it, with the fields of
        the same names. Shared. Raises FetchRequired."""
        key = (definition.identity, version, encode_value(obj))
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found

        async def fetch() -> None:
            try:
                (converted,) = await self._stores.converter(definition, [obj], version)
            except ConversionRefused as error:
                _log.info("who owns fields of %s: %s", definition.name, error)
                converted = {**obj, "apiVersion": str(version)}
            self._known[key] = converted
            while len(self._known) > KEPT:
                self._known.popitem(last=False)

        raise FetchRequired(fetch)
