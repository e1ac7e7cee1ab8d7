"""From stored bytes to the bytes of every form, made at most once and within a byte budget.

One `ObjectCodec` per resource: stored values to trees and back, what selectors see, and items.
Protobuf of the stored version is spliced from the stored bytes without reading them, JSON of that
version is made from them without a tree; everything else is made from the tree. Knows no key
order, no watch and no request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from kapiserver.api.accessors import labels_of, metadata_of
from kapiserver.api.custom_kinds import version_of_resource
from kapiserver.api.embedded_type_meta import add_type_meta
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.selectable_fields import Extractor
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Kind, Tree
from kapiserver.codecs.cbor import SELF_DESCRIBED_TAG
from kapiserver.codecs.codec import convert
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError, UnknownKind
from kapiserver.codecs.json import SORT_KEYS, encode_value, trimmed_copy
from kapiserver.codecs.protobuf import (
    ENVELOPE_TAIL,
    envelope_head,
    list_item_head,
    read_envelope,
    with_resource_version,
)
from kapiserver.codecs.protobuf_messages import message_decoder
from kapiserver.codecs.protobuf_to_json import TRANSCODE_ERRORS, transcoder
from kapiserver.codecs.protobuf_wire import encode_varint
from kapiserver.codecs.storage_codec import (
    decode_from_storage,
    encode_for_storage,
    parse_from_storage,
)
from kapiserver.storage.encoding_cache import TREE_COST, EncodingCache
from kapiserver.storage.encryption import ENCRYPTED_PREFIX, IDENTITY, DecryptionError, Transformer
from kapiserver.storage.entry import (
    Entry,
    Form,
    ListItemSplice,
    ObjectKey,
    Selectable,
    stamp_resource_version,
)
from kapiserver.storage.errors import Undecryptable, Unreadable
from kapiserver.storage.partial_decode import SELECTABLE_METADATA, partial_type

CBOR_ITEM = "cbor.item"
"""An item of a CBOR list: the object without `kind` and `apiVersion`, but for custom ones."""

_OWNERSHIP = tuple(
    f"metadata.{name}" for name in ("uid", "deletionTimestamp", "finalizers", "ownerReferences")
)

_VARINTS = ((1, 0x7F), (2, 0x3FFF), (3, 0x1FFFFF), (4, 0xFFFFFFF))
"""Bytes of a varint, and the greatest number that takes so many."""


class ObjectCodec:
    """How the objects of one resource are stored and written; the `EntryCodec` of their entries."""

    def __init__(
        self,
        resource: Resource,
        codecs: CodecFactory,
        *,
        root: str,
        encoding_cache: EncodingCache,
        transformer: Transformer = IDENTITY,
    ) -> None:
        scheme = codecs.scheme
        self.resource = resource
        self.prefix = f"{root}/{resource.prefix}/"
        self.hub = scheme.hub_of(resource)
        custom = version_of_resource(resource, scheme.custom) if resource.definition else None
        # What a webhook converts is converted below this seam.
        converts = custom is None or not custom.definition.uses_conversion_webhook
        self.stored_version = (
            GroupVersion(resource.group, resource.storage_version) if converts else self.hub
        )
        self.type: type[Kind] = scheme.type_of(self.hub.with_kind(resource.kind))
        self._codecs = codecs
        self._scheme = scheme
        self._encoding_cache = encoding_cache
        self._transformer = transformer
        self._fields: Extractor = scheme.field_extractor(resource)
        self._stored_kind = self.stored_version.with_kind(resource.kind)
        self.is_custom = bool(resource.definition)
        self._as_stored = self.hub == self.stored_version and not self.is_custom
        self._prefixes: dict[GroupVersion, bytes] = {}
        # All that stands before the length of the message in the values stored here.
        self._head = envelope_head(self._stored_kind, 0)[:-1]

    # What is compiled when first needed: readers of messages of the stored version.

    @functools.cached_property
    def _decode_selectable(self) -> Callable[[bytes], Tree] | None:
        # Selectable fields are read in the hub; where that is another version, from the tree.
        if not self._as_stored:
            return None
        type_ = self._scheme.type_of(self._stored_kind)
        return message_decoder(
            partial_type(type_, (*SELECTABLE_METADATA, *self.resource.selectable_fields))
        )

    @functools.cached_property
    def _transcode(self) -> Callable[[bytes], bytes] | None:
        # Where the hub is the stored version, nothing is converted. As with spliced protobuf, what
        # a server wrote that did not know a field yet goes out without that field's default.
        return transcoder(self._scheme.type_of(self._stored_kind)) if self._as_stored else None

    # Keys.

    def path(self, key: ObjectKey) -> str:
        """The key of the store under which an object lies."""
        if self.resource.namespaced:
            return f"{self.prefix}{key.namespace}/{key.name}"
        return self.prefix + key.name

    def scope(self, namespace: str) -> str:
        """The prefix of the objects of a namespace; "": of all."""
        if namespace and self.resource.namespaced:
            return f"{self.prefix}{namespace}/"
        return self.prefix

    def key(self, path: str) -> ObjectKey:
        """The object under a key of the store."""
        namespace, _, name = path[len(self.prefix) :].rpartition("/")
        return ObjectKey(namespace, name)

    # Stored values.

    def stored_value(self, obj: Tree) -> bytes:
        """The bytes to store of a hub tree, without its resourceVersion. Raises NotEncodable."""
        meta = obj["metadata"]
        if "resourceVersion" in meta or "selfLink" in meta:
            obj = stamp_resource_version(obj, 0)
        return encode_for_storage(self._codecs, convert(self._scheme, obj, self.stored_version))

    def tree(self, entry: Entry) -> Tree:
        """Decode an entry. A value in another form than is stored today was written by another
        server, which may not have known fields that have defaults by now. Raises Unreadable."""
        if entry.value.startswith(ENCRYPTED_PREFIX):
            self.decrypt(entry)
        try:
            found = decode_from_storage(self._codecs, entry.value)
            if found.get("kind") != self.resource.kind:
                raise UnknownKind(f"a {found.get('kind')} is no {self.resource.kind}")
            is_old = not self._message_length(entry.value)
            if is_old:
                self._scheme.default(found)
            if self.is_custom:  # old servers did not count
                metadata_of(found).setdefault("generation", 1)
            found = convert(self._scheme, found, self.hub)
            if not self.is_custom:
                add_type_meta(self.type, found)
            if is_old and self.resource.legacy_marker:
                self._scheme.strategy(self.resource).fill_legacy_fields(found)
            return stamp_resource_version(found, entry.revision)
        except (CodecError, NotRegistered) as error:
            raise Unreadable(error, key=entry.path) from error

    def decrypt_all(self, entries: Iterable[Entry]) -> None:
        """Open what was not: a list has all of its objects, or is refused before it begins.
        Raises Undecryptable."""
        if self._transformer is not IDENTITY:
            for entry in entries:
                if entry.value.startswith(ENCRYPTED_PREFIX):
                    self.decrypt(entry)

    def decrypt(self, entry: Entry) -> None:
        """Put the value of an entry in the clear, which nothing opened when it was read: there may
        be a key for it by now. Raises Undecryptable."""
        try:
            entry.value = self._transformer.decrypt(entry.value, entry.path).value
        except DecryptionError as error:
            raise Undecryptable(str(error), key=entry.path) from error

    def selectable(self, entry: Entry) -> Selectable:
        """What selectors see; reads only those fields of a protobuf value. Raises Unreadable."""
        tree = entry.cached_tree
        if tree is None and self._decode_selectable is not None:
            message = self._message(entry.value)
            try:
                tree = None if message is None else self._decode_selectable(message)
            except CodecError as error:
                raise Unreadable(error, key=entry.path) from error
        if tree is None and self.is_custom and not self.resource.selectable_fields:
            tree = self._document(entry)
        if tree is None:
            tree = entry.tree()
        return Selectable(labels_of(tree), self._fields(tree))

    def _document(self, entry: Entry) -> Tree:
        if entry.value.startswith(ENCRYPTED_PREFIX):
            self.decrypt(entry)
        try:
            return parse_from_storage(self._codecs, entry.value)
        except CodecError as error:
            raise Unreadable(error, key=entry.path) from error

    def prefilter(self, entry: Entry, selection: Selection) -> bool | None:
        """Whether a selection has an entry, as far as the texts in a protobuf value say that."""
        value = entry.value
        if self._decode_selectable is None or not value.startswith(self._head):
            return None
        return selection.prefilter(value)

    def ownership_metadata(self, path: str, value: bytes) -> Tree:
        """What a stored value says of its identity, its owners and its end; reads no more of a
        protobuf value. Raises Unreadable, Undecryptable."""
        try:
            if value.startswith(ENCRYPTED_PREFIX):
                value = self._transformer.decrypt(value, path).value
            if self.is_custom:
                return metadata_of(parse_from_storage(self._codecs, value))
            message = self._message(value)
            if message is None:
                return metadata_of(decode_from_storage(self._codecs, value))
            return metadata_of(self._metadata(message))
        except DecryptionError as error:
            raise Undecryptable(str(error), key=path) from error
        except CodecError as error:
            raise Unreadable(error, key=path) from error

    def decode_part(self, entry: Entry, decode: Callable[[bytes], Tree]) -> Tree:
        """What a decoder of a few fields reads of an entry; the whole tree where it is not stored
        as Protobuf. Raises Unreadable, Undecryptable."""
        if entry.value.startswith(ENCRYPTED_PREFIX):
            self.decrypt(entry)
        message = self._message(entry.value)
        try:
            return self.tree(entry) if message is None else decode(message)
        except CodecError as error:
            raise Unreadable(error, key=entry.path) from error

    @functools.cached_property
    def _metadata(self) -> Callable[[bytes], Tree]:
        return message_decoder(partial_type(self._scheme.type_of(self._stored_kind), _OWNERSHIP))

    # Encodings.

    def on_tree_cached(self, entry: Entry) -> None:
        """Note that an entry keeps its tree."""
        self._encoding_cache.trees.add(entry, len(entry.value) * TREE_COST)

    def on_encoding_cached(self, entry: Entry, size: int) -> None:
        """Note that an entry keeps an encoding."""
        self._encoding_cache.encodings.add(entry, size)

    def on_superseded(self, entry: Entry) -> None:
        """Forget what was made of a revision that is not the present one any more."""
        self._encoding_cache.remove(entry)

    def admits_encoding(self) -> bool:
        """Whether there is room for one of very many encodings."""
        return self._encoding_cache.encodings.admits()

    def kind_in(self, version: GroupVersion) -> GroupVersionKind:
        """The resource's kind in a version."""
        return version.with_kind(self.resource.kind)

    def json_prefix(self, version: GroupVersion) -> bytes:
        """How the JSON of every object of a version begins, up to what an item has too. Nothing
        for custom objects, which are whole as items."""
        if self.is_custom:
            return b""
        found = self._prefixes.get(version)
        if found is None:
            names = {"kind": self.resource.kind, "apiVersion": str(version)}
            found = self._prefixes[version] = encode_value(names)[:-1] + b","
        return found

    def splice(self, entry: Entry, form: Form) -> bytes | None:
        """Protobuf in the stored version; None: another form, or another thing is stored."""
        if form.media != "protobuf" or form.version != self.stored_version:
            return None
        message = self._message(entry.value)
        if message is None:
            return None
        return with_resource_version(message, entry.revision) if entry.revision else message

    def encode(self, entry: Entry, form: Form) -> bytes:
        """Make one form of an entry."""
        version, media = form
        if media == "json":
            prefix = self.json_prefix(version)
            found = self._transcoded(entry, version)
            if found is not None:
                return found[1:]
            tree = convert(self._scheme, self._read(entry), version)
            text = encode_value(tree, option=SORT_KEYS if self.is_custom else 0)
            return text[len(prefix) :] if prefix else trimmed_copy(text)
        tree = convert(self._scheme, self._read(entry), version)
        if media == "protobuf":
            return read_envelope(self._serialize("protobuf", tree)).raw
        if media == CBOR_ITEM:
            return self._item_cbor(tree)
        if media == "cbor":
            return self._serialize("cbor", tree).removeprefix(SELF_DESCRIBED_TAG)
        return self._serialize(media, tree)

    def _read(self, entry: Entry) -> Tree:
        # A tree that is made only to be written once more is not worth its memory.
        return entry.cached_tree or self.tree(entry)

    def _transcoded(self, entry: Entry, version: GroupVersion) -> bytes | None:
        if self._transcode is None or version != self.stored_version:
            return None
        message = self._message(entry.value)
        if message is None:
            return None
        if entry.revision:
            message = with_resource_version(message, entry.revision)
        try:
            return self._transcode(message)
        except TRANSCODE_ERRORS:
            return None  # reading it says what is wrong

    def list_splice(self, entry: Entry) -> ListItemSplice | None:
        """How a protobuf list of the stored version takes the entry; None: `encoded` makes it."""
        length = self._message_length(entry.value)
        if not length:
            return None
        tail = with_resource_version(b"", entry.revision) if entry.revision else b""
        head = list_item_head(length + len(tail))
        end = len(entry.value) - len(ENVELOPE_TAIL)
        found = ListItemSplice(head, tail, end - length, end, len(head) + length + len(tail))
        entry.list_splice = found
        return found

    def _message(self, value: bytes) -> bytes | None:
        """The message in a stored value of the version stored now; None: it is something else."""
        length = self._message_length(value)
        return value[-length - len(ENVELOPE_TAIL) : -len(ENVELOPE_TAIL)] if length else None

    def _message_length(self, value: bytes) -> int:
        """The length of that message; 0: the value is something else, or an old server's. Not
        parsed: what lies between head and tail is the length, as a varint, and so many bytes."""
        if self.resource.legacy_marker not in value:
            return 0
        head = len(self._head)
        between = len(value) - head - len(ENVELOPE_TAIL)
        for size, most in _VARINTS:
            if between - size <= most:
                length = between - size
                break
        else:
            return 0
        if (
            length > 0
            and value.startswith(self._head)
            and value.endswith(ENVELOPE_TAIL)
            and value.startswith(encode_varint(length), head)
        ):
            return length
        return 0

    def _item_cbor(self, tree: Tree) -> bytes:
        from kapiserver.codecs import cbor, cbor_fields  # only for CBOR's clients

        if self.is_custom:
            return cbor.encode_value_unsorted(tree)
        item = cbor_fields.with_decoded_bytes(self._scheme, tree)
        return cbor.encode_value_unsorted(
            {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
        )

    def _serialize(self, media: str, tree: Tree) -> bytes:
        for one in self._codecs.media_types:
            if one.extension == media:
                return self._codecs.serializer_for(one).encode(tree)
        raise KeyError(media)
