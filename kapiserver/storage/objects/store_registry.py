"""The registry of resource stores over one key-value store. A resource store is made at first use.

Knows which resources have a time to live. Mirrors the storage factory of kube-apiserver.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from kapiserver.api.custom_kinds import Definition
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.kind_info import KindInfo
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.cache.encoding_cache import DEFAULT_BYTES, EncodingCache
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import Reserve
from kapiserver.storage.cache.shared_trees import SharedTrees
from kapiserver.storage.cache.watch_backlogs import WatchBacklogs
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.encryption.transformers import IDENTITY, EncryptionRules
from kapiserver.storage.errors import ConversionRefused, Refused
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.objects.continue_token import (
    SECRET_BYTES,
    ContinueTokenCodec,
    load_continue_token_codec,
)
from kapiserver.storage.objects.lifecycle import NAME_LETTERS, NAME_SUFFIX
from kapiserver.storage.objects.list_encoder import ListEncoder
from kapiserver.storage.objects.metadata_informer import MetadataHandler, MetadataInformer
from kapiserver.storage.objects.object_codec import ObjectCodec
from kapiserver.storage.objects.object_reader import CachedResource, IdentifierSource, StoreContext
from kapiserver.storage.objects.object_store import ResourceStore
from kapiserver.storage.wrappers.converting_store import ConvertingStore
from kapiserver.storage.wrappers.encryption_store import EncryptedStore

ROOT = "/registry"
EVENT_TTL = 3600
"""Time to live of Events in seconds."""

_RESOURCES_WITH_TTL = frozenset((("", "events"),))


Converter: TypeAlias = Callable[
    [Definition, Sequence[Tree], GroupVersion], Awaitable[Sequence[Tree]]
]
"""Converts objects of a definition to a version. Raises ConversionRefused."""


async def _no_converter(
    definition: Definition, _objects: Sequence[Tree], _version: GroupVersion
) -> Sequence[Tree]:
    raise ConversionRefused(f"{definition.name}: no conversion webhooks are configured")


class StoreHooks(Struct, frozen=True, kw_only=True):
    """Functions of the layer above that stores call.

    converter   converts custom objects that only a webhook can convert
    reserve     the functions that allocate addresses and ports before an object is written, by
                group and plural name
    kv          the stores of resources whose objects are not in the store of all, likewise
    """

    converter: Converter = _no_converter
    reserve: Mapping[tuple[str, str], Reserve] = field(default_factory=dict)
    kv: Mapping[tuple[str, str], KV] = field(default_factory=dict)


def _no_hooks(_stores: StoreRegistry) -> StoreHooks:
    return StoreHooks()


class StoreOptions(Struct, frozen=True, kw_only=True):
    """How the stores of one server keep objects.

    identifiers           makes uids and the suffixes of names; None: random ones
    root                  the prefix of all keys
    event_ttl             time to live of Events in seconds
    encoding_cache_bytes  the limit of the memory of decoded trees and encodings
    workers               the number of processes that serve the store
    encryption            encryption at rest; None: values are stored as they are
    shared_trees          trees of objects that several clusters have; None: there are none
    hooks                 returns the functions of the layer above, given the registry
    """

    identifiers: IdentifierSource | None = None
    root: str = ROOT
    event_ttl: int = EVENT_TTL
    encoding_cache_bytes: int = DEFAULT_BYTES
    workers: int = 1
    encryption: EncryptionRules | None = None
    shared_trees: SharedTrees | None = None
    hooks: Callable[[StoreRegistry], StoreHooks] = _no_hooks


DEFAULT_OPTIONS = StoreOptions()


_VERSION_4 = 4 << 76 | 2 << 62
_RANDOM_BITS = ~(15 << 76 | 3 << 62)
"""The bits of a UUID that say its version and variant (RFC 9562, 5.4), and all others."""


class RandomIdentifiers:
    """Identifiers from the operating system's random source."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        self.rng = random.Random()

    def uid(self) -> str:
        """Return a random UUID (version 4)."""
        bits = int.from_bytes(os.urandom(16)) & _RANDOM_BITS | _VERSION_4
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def suffix(self) -> str:
        """Return random letters and digits; the alphabet avoids words."""
        return "".join(self._random.choices(NAME_LETTERS, k=NAME_SUFFIX))


class _TokenCodec:
    """The codec of the continue tokens of a server, whose key is in the store."""

    def __init__(self, kv: KV, root: str) -> None:
        self._kv = kv
        self._root = root
        self._codec: ContinueTokenCodec | None = None
        self._unsaved_secret = os.urandom(SECRET_BYTES)

    async def load(self) -> ContinueTokenCodec:
        """Return the codec; see `StoreRegistry.load_token_codec`."""
        if self._codec is None:
            secret = self._unsaved_secret
            try:
                self._codec = await load_continue_token_codec(self._kv, secret, root=self._root)
            except Refused:  # the disk is full: these tokens are for this server alone
                return ContinueTokenCodec(secret)
        return self._codec


class StoreRegistry:
    """The stores of all resources of one server."""

    def __init__(
        self,
        kv: KV,
        scheme: Scheme,
        codecs: CodecFactory,
        clock: Clock,
        offloader: Offloader,
        options: StoreOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.kv = kv
        self.clock = clock
        self._codecs = codecs
        self._root = options.root
        self._event_ttl = options.event_ttl
        self._encryption = options.encryption
        self._shared_trees = options.shared_trees
        self._offloader = offloader
        self.encoding_cache = EncodingCache(options.encoding_cache_bytes)
        """Limits the memory of decoded trees and encodings."""
        self.watch_backlogs = WatchBacklogs()
        """Limits what waits for slow watchers."""
        self.identifiers: IdentifierSource = options.identifiers or RandomIdentifiers()
        self._token_codec = _TokenCodec(kv, options.root)
        self._context = StoreContext(
            kv=kv,
            scheme=scheme,
            clock=clock,
            identifiers=self.identifiers,
            load_token_codec=self._token_codec.load,
            offloader=offloader,
            watch_backlogs=self.watch_backlogs,
            workers=options.workers,
        )
        self._stores: dict[tuple[str, str, str], ResourceStore] = {}
        """The stores, by `Resource.store_key`."""
        self._stores_by_name: dict[tuple[GroupVersion, str], ResourceStore] = {}
        self._hooks = options.hooks(self)

    @property
    def converter(self) -> Converter:
        """Converts custom objects that only a webhook can convert."""
        return self._hooks.converter

    def get(self, resource: Resource) -> ResourceStore:
        """Return the store of a resource. Resources served in two groups share one store. Raises
        NotRegistered if its definition is gone."""
        key = resource.store_key
        store = self._stores.get(key)
        if store is None:
            scheme = self._context.scheme
            kind_info = scheme.kind_info_of(resource)
            stored_resource = scheme.storage_resource(resource)
            store = self._stores[key] = (
                self._make(kind_info)
                if stored_resource is resource
                else self.get(stored_resource).with_strategy(kind_info)
            )
        return store

    def retire(self, definition: str) -> None:
        """Drop the stores of a custom resource whose definition changed or was deleted. Their
        watches end after delivering the events received so far."""
        self._stores_by_name.clear()
        for key in self._keys_of(definition):
            self._stores.pop(key).retire()

    def _keys_of(self, definition: str) -> list[tuple[str, str, str]]:
        plural, _, group = definition.partition(".")
        return [key for key in self._stores if key[:2] == (group, plural)]

    async def wait_delivered(self, definitions: Iterable[str]) -> None:
        """Wait until received events of these custom resources were delivered to watchers."""
        for definition in definitions:
            for store in [self._stores[key] for key in self._keys_of(definition)]:
                await store.wait_delivered()

    def by_name(self, version: GroupVersion, name: str) -> ResourceStore:
        """Return the store of a resource by plural name, served or not. Raises NotRegistered."""
        store = self._stores_by_name.get((version, name))
        if store is None:
            resource = self._context.scheme.declared_resource(version, name)
            store = self._stores_by_name[(version, name)] = self.get(resource)
        return store

    def metadata_informer(self, handler: MetadataHandler) -> MetadataInformer:
        """Return an informer that reports the metadata of all objects to the handler."""
        return MetadataInformer(
            self.kv, f"{self._root}/", self._store_for_key, handler, self._offloader
        )

    def _store_for_key(self, path: str) -> ResourceStore | None:
        """Return the store of the object of a key, or None if it belongs to no known resource."""
        resource = self._context.scheme.resource_at(path[len(self._root) + 1 :])
        return None if resource is None else self.get(resource)

    def free_memory(self) -> None:
        """Drop all derived values, and half of what waits for slow watchers."""
        self.encoding_cache.clear()
        self.watch_backlogs.halve()

    def in_use(self) -> list[ResourceStore]:
        """Return every store made so far; one for resources served in two groups."""
        stores = self._stores.copy().values()  # /metrics reads them in a thread
        return [*{id(store.cache): store for store in stores}.values()]

    def stop(self) -> None:
        """Stop the watch caches of all resources, and with them all watches. The stores and their
        caches no longer refer to each other: such cycles of a closed logical cluster would stay in
        memory."""
        for store in self._stores.values():
            store.close()
        self._stores.clear()
        self._stores_by_name.clear()
        self._hooks = StoreHooks()
        self.encoding_cache.clear()

    async def load_token_codec(self) -> ContinueTokenCodec:
        """Return the codec of continue tokens; the first call saves its key in the store. Raises
        Unavailable, Corrupt."""
        return await self._token_codec.load()

    def _converting_store(
        self, kv: KV, kind_info: KindInfo, definition: Definition
    ) -> ConvertingStore:
        return ConvertingStore(
            kv,
            self._codecs,
            functools.partial(self._hooks.converter, definition),
            self._offloader,
            version=kind_info.group_version,
            stored=definition.stored_version.group_version,
        )

    def _make(self, kind_info: KindInfo) -> ResourceStore:
        resource = kind_info.resource
        context, transformer = self._context, None
        own_kv = self._hooks.kv.get((resource.group, resource.name))
        if own_kv is not None:
            context = replace(context, kv=own_kv)
        if self._encryption is not None:
            transformer = self._encryption.transformer_for(resource.group, resource.name)
        if transformer is not None:
            context = replace(context, kv=EncryptedStore(context.kv, transformer))
        webhook = kind_info.conversion_webhook
        if webhook is not None:
            converting = self._converting_store(context.kv, kind_info, webhook)
            context = replace(context, kv=converting, converting=converting)
        codec = ObjectCodec(
            kind_info,
            self._codecs,
            root=self._root,
            encoding_cache=self.encoding_cache,
            transformer=transformer or IDENTITY,
            shared_trees=self._shared_trees,
        )
        encoder = ListEncoder(codec, self._codecs, self._offloader)
        cached = CachedResource(resource, codec, encoder, context)
        has_ttl = (resource.group, resource.name) in _RESOURCES_WITH_TTL
        ttl = self._event_ttl if has_ttl else 0
        reserve = self._hooks.reserve.get((resource.group, resource.name))
        return ResourceStore(kind_info, cached, ttl=ttl, reserve=reserve)
