"""The stores of all resources over one store of bytes: made at first use, sharing what they can.

Knows which resources keep their objects for a while only. Mirrors the storage factory of
kube-apiserver.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kapiserver.api.custom_kinds import CustomVersion, Definition, version_of_resource
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.clock import Clock
from kapiserver.storage.continue_token import ContinueTokenCodec, load_continue_token_codec
from kapiserver.storage.converting_store import ConvertingStore
from kapiserver.storage.encoding_cache import DEFAULT_BYTES, EncodingCache
from kapiserver.storage.encryption import IDENTITY, EncryptionRules
from kapiserver.storage.encryption_store import EncryptedStore
from kapiserver.storage.errors import ConversionRefused
from kapiserver.storage.kv import KV
from kapiserver.storage.lifecycle import NAME_LETTERS, NAME_SUFFIX
from kapiserver.storage.list_encoder import ListEncoder
from kapiserver.storage.metadata_informer import MetadataHandler, MetadataInformer
from kapiserver.storage.object_codec import ObjectCodec
from kapiserver.storage.object_reader import IdentifierSource, StoreContext
from kapiserver.storage.object_store import ResourceStore
from kapiserver.storage.offload import Offloader
from kapiserver.storage.query import Reserve

ROOT = "/registry"
EVENT_TTL = 3600
"""Seconds that an Event is kept."""

_SHORT_LIVED = frozenset((("", "events"),))


Converter: TypeAlias = Callable[
    [Definition, Sequence[Tree], GroupVersion], Awaitable[Sequence[Tree]]
]
"""The objects of a definition in that version. Raises ConversionRefused."""


async def _no_converter(
    definition: Definition, _objects: Sequence[Tree], _version: GroupVersion
) -> Sequence[Tree]:
    raise ConversionRefused(f"{definition.name}: nothing here asks webhooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHooks:
    """What stores call in the layer above them.

    converter   converts custom objects that only a webhook can convert
    reserve     by group and plural name: takes what objects hold outside of themselves
    """

    converter: Converter = _no_converter
    reserve: Mapping[tuple[str, str], Reserve] = field(default_factory=dict)


class RandomIdentifiers:
    """Uids and suffixes from the machine's random source."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uid(self) -> str:
        """A random uid (version 4)."""
        text = os.urandom(16).hex()
        variant = "89ab"[int(text[16], 16) & 3]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"

    def suffix(self) -> str:
        """Letters and digits that spell no words."""
        return "".join(self._random.choices(NAME_LETTERS, k=NAME_SUFFIX))


class StoreRegistry:
    """All resources of one server."""

    def __init__(
        self,
        kv: KV,
        scheme: Scheme,
        codecs: CodecFactory,
        clock: Clock,
        *,
        identifiers: IdentifierSource | None = None,
        root: str = ROOT,
        event_ttl: int = EVENT_TTL,
        encoding_cache_bytes: int = DEFAULT_BYTES,
        encryption: EncryptionRules | None = None,
        hooks: Callable[[StoreRegistry], StoreHooks] = lambda _: StoreHooks(),
    ) -> None:
        self.kv = kv
        self._codecs = codecs
        self._root = root
        self._event_ttl = event_ttl
        self._encryption = encryption
        self.encoding_cache = EncodingCache(encoding_cache_bytes)
        """Of derived trees and encodings."""
        self.offloader = Offloader()
        """For what takes long."""
        self._context = StoreContext(
            kv=kv,
            scheme=scheme,
            clock=clock,
            identifiers=identifiers or RandomIdentifiers(),
            load_continue_tokens=self._load_tokens,
            offloader=self.offloader,
        )
        self._tokens: ContinueTokenCodec | None = None
        self._made: dict[tuple[str, str], ResourceStore] = {}
        self._custom: dict[str, dict[str, ResourceStore]] = {}
        """Of custom kinds: by definition and version."""
        self._named: dict[tuple[GroupVersion, str], ResourceStore] = {}
        self._hooks = hooks(self)

    @property
    def converter(self) -> Converter:
        """Converts custom objects that only a webhook can convert."""
        return self._hooks.converter

    def get(self, resource: Resource) -> ResourceStore:
        """The objects of a resource; kinds that two groups show have one store."""
        if resource.definition:
            return self._of_custom(resource)
        found = self._made.get((resource.group, resource.name))
        if found is None:
            kept = self._context.scheme.storage_resource(resource)
            found = (
                self._make(resource) if kept is resource else self.get(kept).with_strategy(resource)
            )
            self._made[(resource.group, resource.name)] = found
        return found

    def _of_custom(self, resource: Resource) -> ResourceStore:
        versions = self._custom.setdefault(resource.definition, {})
        found = versions.get(resource.versions[0])
        if found is None:
            now = version_of_resource(resource, self._context.scheme.custom)
            resource = resource if now is None else now.resource
            found = versions[resource.versions[0]] = self._make(resource)
        return found

    def retire(self, definition: str) -> None:
        """Let the stores of a custom kind go: it is not what it was, or gone. Their watches end
        when they have told what they know."""
        for store in self._custom.pop(definition, {}).values():
            store.retire()

    async def wait_delivered(self, definitions: Iterable[str]) -> None:
        """Wait until the watches of these custom kinds have told what they know."""
        for definition in definitions:
            for store in list(self._custom.get(definition, {}).values()):
                await store.wait_delivered()

    def by_name(self, version: GroupVersion, name: str) -> ResourceStore:
        """The objects of the resource of that plural name, served or not. Raises NotRegistered."""
        found = self._named.get((version, name))
        if found is None:
            resource = self._context.scheme.declared_resource(version, name)
            if resource.definition:
                return self.get(resource)
            found = self._named[(version, name)] = self.get(resource)
        return found

    def metadata_informer(self, reader: MetadataHandler) -> MetadataInformer:
        """What every object says of its owners and its end, told to `reader` as it changes."""
        return MetadataInformer(self.kv, f"{self._root}/", self._codec_at, reader)

    def _codec_at(self, path: str) -> ObjectCodec | None:
        """How the object under a key of the store is stored; None: no object of a known kind."""
        parts = path[len(self._root) + 1 :].split("/", 2)
        custom = self._context.scheme.custom.by_plural(parts[0], parts[1] if parts[1:] else "")
        if custom is not None:
            return self.get(custom.stored_version.resource).codec
        resource = self._by_prefix.get("/".join(parts[:2])) or self._by_prefix.get(parts[0])
        return None if resource is None else self.get(resource).codec

    @functools.cached_property
    def _by_prefix(self) -> dict[str, Resource]:
        found = self._context.scheme.stored_resources()
        return {one.prefix: one for one in found if not one.definition}

    def in_use(self) -> list[ResourceStore]:
        """Return every store that was made so far; one for kinds that two groups show."""
        custom = (store for versions in self._custom.values() for store in versions.values())
        return [*{id(store.cache): store for store in (*self._made.values(), *custom)}.values()]

    def stop(self) -> None:
        """End the watches of all resources, and with them those of clients."""
        custom = (one for versions in self._custom.values() for one in versions.values())
        for store in (*self._made.values(), *custom):
            store.stop()

    async def _load_tokens(self) -> ContinueTokenCodec:
        if self._tokens is None:
            self._tokens = await load_continue_token_codec(self.kv, root=self._root)
        return self._tokens

    def _converting(self, kv: KV, custom: CustomVersion) -> KV:
        return ConvertingStore(
            kv,
            self._codecs,
            functools.partial(self._hooks.converter, custom.definition),
            version=custom.group_version,
            stored=custom.definition.stored_version.group_version,
        )

    def _make(self, resource: Resource) -> ResourceStore:
        around, transformer = self._context, None
        if self._encryption is not None:
            transformer = self._encryption.transformer_for(resource.group, resource.name)
        if transformer is not None:
            around = replace(around, kv=EncryptedStore(around.kv, transformer))
        custom = (
            version_of_resource(resource, around.scheme.custom) if resource.definition else None
        )
        if custom is not None and custom.definition.uses_conversion_webhook:
            around = replace(around, kv=self._converting(around.kv, custom))
        codec = ObjectCodec(
            resource,
            self._codecs,
            root=self._root,
            encoding_cache=self.encoding_cache,
            transformer=transformer or IDENTITY,
        )
        documents = ListEncoder(codec, self._codecs)
        short_lived = (resource.group, resource.name) in _SHORT_LIVED
        ttl = self._event_ttl if short_lived else 0
        reserve = self._hooks.reserve.get((resource.group, resource.name))
        return ResourceStore(resource, codec, documents, around, ttl=ttl, reserve=reserve)
