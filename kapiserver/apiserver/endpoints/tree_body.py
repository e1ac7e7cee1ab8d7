"""The body of a call without HTTP: an object in memory, as operations take it."""

from __future__ import annotations

import functools

from kapiserver.api.accessors import copy_tree
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.codecs import json
from kapiserver.codecs.cost import cost_of
from kapiserver.codecs.object_decoder import decode_object
from kapiserver.codecs.serializer import Decoded


class TreeBody:
    """An object in memory, as operations take it."""

    def __init__(self, obj: Tree) -> None:
        self._obj = obj

    @functools.cached_property
    def data(self) -> bytes:
        """The object as JSON."""
        return json.encode_value(self._obj)

    @property
    def cost(self) -> int:
        """The cost of processing the object (`codecs/cost.py`)."""
        return cost_of(self.data)

    def decode(self, server: Server, defaults: GroupVersionKind) -> Decoded:
        """Read a copy of the tree by its kind. Raises CodecError."""
        return decode_object(server.scheme, copy_tree(self._obj), defaults=defaults, source=b"")
