"""Converts between stored bytes, trees and encodings of the objects of a resource.

There is one `ObjectCodec` per resource. Protobuf of the stored version is spliced from the stored
bytes without decoding them; JSON of that version is transcoded from them without a tree. Every
other encoding is made from the decoded tree. Knows no key order, no watch and no request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import suppress

from kapiserver.api.accessors import labels_of, metadata_of
from kapiserver.api.embedded_type_meta import add_type_meta
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.kind_info import KindInfo
from kapiserver.api.meta.v1 import PartialObjectMetadata
from kapiserver.api.selectable_fields import Extractor
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Kind, Tree
from kapiserver.codecs.cbor import SELF_DESCRIBED_TAG
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.cost import LARGE
from kapiserver.codecs.empty_lists import empty_list_finder
from kapiserver.codecs.errors import CodecError, UnknownKind
from kapiserver.codecs.json import (
    SORT_KEYS,
    encode_value,
    encode_value_without_floats,
    trimmed_copy,
)
from kapiserver.codecs.protobuf.messages import message_decoder, message_encoder
from kapiserver.codecs.protobuf.serializer import (
    ENVELOPE_TAIL,
    envelope_head,
    list_item_head,
    metadata_at_revision,
    read_envelope,
    with_resource_version,
)
from kapiserver.codecs.protobuf.to_json import TRANSCODE_ERRORS, metadata_transcoder, transcoder
from kapiserver.codecs.protobuf.wire import encode_varint, metadata_of_message
from kapiserver.codecs.storage_codec import (
    GO_SCHEME,
    decode_from_storage,
    encode_for_storage,
    parse_from_storage,
    unknown_conversion,
)
from kapiserver.codecs.tree_decoder import is_strictly_typed
from kapiserver.storage.cache.encoding_cache import TREE_COST, EncodingCache
from kapiserver.storage.cache.entry import (
    LARGE_OBJECT_BYTES,
    Encoding,
    Entry,
    ListItemSplice,
    ObjectKey,
    Selectable,
    encoding_of,
    stamp_resource_version,
)
from kapiserver.storage.cache.shared_trees import SharedTrees
from kapiserver.storage.encryption.transformers import (
    ENCRYPTED_PREFIX,
    IDENTITY,
    DecryptionError,
    Transformer,
)
from kapiserver.storage.errors import Corrupt, DefinitionDeleted, Undecryptable, Unreadable
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.partial_decode import SELECTABLE_METADATA, partial_type

CBOR_ITEM = "cbor.item"
"""Media type of an item of a CBOR list: without `kind` and `apiVersion`, except custom objects."""
METADATA_JSON = "json.metadata"
"""Media type of an object's metadata alone, in JSON."""
METADATA_PROTOBUF = "protobuf.metadata"
"""Media type of a PartialObjectMetadata in Protobuf, without the envelope."""

MAX_UNREADABLE = 1000
_OWNERSHIP = tuple(
    f"metadata.{name}" for name in ("uid", "deletionTimestamp", "finalizers", "ownerReferences")
)

_VARINTS = ((1, 0x7F), (2, 0x3FFF), (3, 0x1FFFFF), (4, 0xFFFFFFF))
"""The lengths of varints in bytes, each with the greatest number of that length."""


class ObjectCodec:
    """Decodes and encodes the objects of one resource; the `EntryCodec` of their entries."""

    def __init__(
        self,
        kind_info: KindInfo,
        codecs: CodecFactory,
        *,
        root: str,
        encoding_cache: EncodingCache,
        transformer: Transformer = IDENTITY,
        shared_trees: SharedTrees | None = None,
    ) -> None:
        """`shared_trees` are those of values that other stores have, too."""
        scheme = codecs.scheme
        self.kind_info = kind_info
        self.resource = resource = kind_info.resource
        self._root = root
        self.unreadable: set[str] = set()
        """Keys of values that did not decode, MAX_UNREADABLE at most; they may have changed since.
        A list reads them before its first chunk."""
        self.prefix = f"{root}/{resource.prefix}/"
        self.hub = kind_info.hub
        self.stored_version = kind_info.stored_version
        self.type: type[Kind] = scheme.type_of(self.hub.with_kind(resource.kind))
        self._codecs = codecs
        self._scheme = scheme
        self._encoding_cache = encoding_cache
        self._transformer = transformer
        self._shared_trees = shared_trees
        self._fields: Extractor = kind_info.field_extractor
        self._stored_kind = self.stored_version.with_kind(resource.kind)
        self.is_typed = kind_info.is_typed
        self._as_stored = self.hub == self.stored_version and self.is_typed
        self._prefixes: dict[GroupVersion, bytes] = {}
        self.is_tree_loaded = False
        # Protobuf of the stored version is spliced.
        spliced = encoding_of(self.stored_version, "protobuf")
        self.loaded_encodings = {spliced} if self.is_typed else set()
        # Stored values begin with these bytes, up to the length of the message.
        self._head = envelope_head(self._stored_kind, 0)[:-1]

    @functools.cached_property
    def _has_empty_list(self) -> Callable[[Tree], bool] | None:
        return empty_list_finder(self.type) if self.is_typed else None

    @functools.cached_property
    def _has_no_floats(self) -> bool:
        return self.is_typed and is_strictly_typed(self.type)

    # Decoders of messages of the stored version, compiled when first needed.

    @functools.cached_property
    def _decode_selectable(self) -> Callable[[bytes], Tree] | None:
        # Selectable fields are those of the hub; if it is not the stored version, decode the tree.
        if not self._as_stored:
            return None
        fields = (*SELECTABLE_METADATA, *self.resource.selectable_fields)
        decode = message_decoder(partial_type(self.type, fields))
        if all(field.startswith("metadata.") for field in fields):
            return lambda message: decode(metadata_of_message(message))
        return decode

    @functools.cached_property
    def _transcode(self) -> Callable[[bytes], bytes] | None:
        # A value of the hub needs no conversion. Like spliced protobuf, the JSON of objects that
        # older servers stored lacks the defaults of fields added since.
        return transcoder(self.type) if self._as_stored else None

    @functools.cached_property
    def _transcode_metadata(self) -> Callable[[bytes], bytes] | None:
        return metadata_transcoder(self.type) if self._as_stored else None

    # Keys.

    def path(self, key: ObjectKey) -> str:
        """Return the key of an object in the store."""
        if self.resource.namespaced:
            return f"{self.prefix}{key.namespace}/{key.name}"
        return self.prefix + key.name

    def scope(self, namespace: str) -> str:
        """Return the key prefix of the objects of a namespace, or of all for ""."""
        if namespace and self.resource.namespaced:
            return f"{self.prefix}{namespace}/"
        return self.prefix

    def key(self, path: str) -> ObjectKey:
        """Return the namespace and name in a key of the store."""
        namespace, _, name = path[len(self.prefix) :].rpartition("/")
        return ObjectKey(namespace, name)

    @functools.cached_property
    def large_bytes(self) -> int:
        """The size of the stored values that are decoded in a thread. If the schema has very many
        defaults, which are set when a value is decoded, it is that of all values."""
        return 0 if self.kind_info.default_cost(b"{}") >= LARGE else LARGE_OBJECT_BYTES

    # Stored values.

    def stored_value(self, obj: Tree) -> bytes:
        """Encode a hub tree for storage, without its resourceVersion. Raises NotEncodable."""
        meta = obj["metadata"]
        if "resourceVersion" in meta or "selfLink" in meta:
            obj = stamp_resource_version(obj, 0)
        if self._as_stored:
            message = message_encoder(self.type)(obj)
            return b"%b%b%b%b" % (self._head, encode_varint(len(message)), message, ENVELOPE_TAIL)
        return encode_for_storage(self._codecs, self._scheme.convert(obj, self.stored_version))

    def written_entry(
        self, path: str, value: bytes, revision: Revision, tree: Tree | None
    ) -> Entry:
        """Return an entry of a written value, with the tree that the value was encoded from, if
        there is one. It has no tree if a read gives another one: a message has no empty lists, and
        the stored version of a custom object may lack fields of this one."""
        has_empty_list = self._has_empty_list is not None and self._has_empty_list(tree or {})
        is_lossy = has_empty_list or (not self.is_typed and self.hub != self.stored_version)
        return Entry(self, path, value, revision, tree=None if is_lossy else tree)

    def tree(self, entry: Entry) -> Tree:
        """Decode an entry to the hub version. Values of older servers are defaulted, because they
        may lack fields that have defaults now. Raises Unreadable."""
        if self._shared_trees is not None:
            decode = functools.partial(self._decode, entry)
            return self._shared_trees.tree(entry.value, entry.revision, decode)
        return self._decode(entry)

    def _decode(self, entry: Entry) -> Tree:
        if entry.value.startswith(ENCRYPTED_PREFIX):
            self.decrypt(entry)
        try:
            tree = decode_from_storage(self._codecs, entry.value)
            if tree.get("kind") != self.resource.kind:
                raise unknown_conversion(tree, self.resource)
            from_older_server = not self._message_length(entry.value)
            if from_older_server:
                self._scheme.default(tree)
            if not self.is_typed:  # older servers did not set it
                metadata_of(tree).setdefault("generation", 1)
            tree = self._scheme.convert(tree, self.hub)
            if self.is_typed:
                add_type_meta(self.type, tree)
            if from_older_server and self.resource.current_marker:
                self.kind_info.strategy().fill_legacy_fields(tree)
            return stamp_resource_version(tree, entry.revision)
        except (UnknownKind, NotRegistered) as error:
            raise self._unreadable(f"{error} in scheme {GO_SCHEME}", entry) from error
        except CodecError as error:
            raise self._unreadable(error, entry) from error

    def _unreadable(self, error: object, entry: Entry) -> Corrupt:
        if not self.is_typed and not self._scheme.custom.by_name(self.resource.definition):
            return DefinitionDeleted(f"{entry.path}: {error}")
        self._note_unreadable(entry.path)
        return Unreadable(error, key=entry.path, root=self._root, revision=entry.revision)

    def _note_unreadable(self, path: str) -> None:
        if len(self.unreadable) < MAX_UNREADABLE:
            self.unreadable.add(path)

    def decrypt_all(self, entries: Iterable[Entry]) -> None:
        """Decrypt the entries that are still encrypted, so that a list fails before its first
        chunk. Raises Undecryptable."""
        if self._transformer is not IDENTITY:
            for entry in entries:
                if entry.value.startswith(ENCRYPTED_PREFIX):
                    self.decrypt(entry)

    def decrypt(self, entry: Entry) -> None:
        """Decrypt the value of an entry that could not be decrypted when it was read: the key may
        have been configured since. Raises Undecryptable."""
        try:
            entry.value = self._transformer.decrypt(entry.value, entry.path).value
        except DecryptionError as error:
            raise Undecryptable(error, key=entry.path, root=self._root) from error

    def selectable(self, entry: Entry) -> Selectable:
        """Return labels and selectable fields. Decodes only these of protobuf. Raises
        Unreadable."""
        tree = entry.cached_tree
        if tree is None and self._decode_selectable is not None:
            message = self._message(entry.value)
            try:
                tree = None if message is None else self._decode_selectable(message)
            except CodecError as error:
                raise self._unreadable(error, entry) from error
        if tree is None and not self.is_typed and not self.resource.selectable_fields:
            tree = self._parse(entry)
        if tree is None:
            # A thread makes the tree of a large object: it must not change the cache.
            tree = self.tree(entry) if entry.is_large else entry.tree()
        return Selectable(labels_of(tree), self._fields(tree))

    def _parse(self, entry: Entry) -> Tree:
        if entry.value.startswith(ENCRYPTED_PREFIX):
            self.decrypt(entry)
        try:
            return parse_from_storage(self._codecs, entry.value)
        except CodecError as error:
            raise self._unreadable(error, entry) from error

    def prefilter(self, entry: Entry, selection: Selection) -> bool | None:
        """Pre-filter on the raw bytes of protobuf; None means the object must be decoded."""
        value = entry.value
        if self._decode_selectable is None or not value.startswith(self._head):
            return None
        return selection.prefilter(value)

    def ownership_metadata(self, path: str, value: bytes) -> Tree:
        """Return uid, owners, finalizers and deletion of a stored value. Decodes only these of
        protobuf. Raises Unreadable, Undecryptable."""
        if self._shared_trees is not None:
            decode = functools.partial(self._decode_ownership, path, value)
            return self._shared_trees.metadata(value, decode)
        return self._decode_ownership(path, value)

    def _decode_ownership(self, path: str, value: bytes) -> Tree:
        try:
            if value.startswith(ENCRYPTED_PREFIX):
                value = self._transformer.decrypt(value, path).value
            if not self.is_typed:
                return metadata_of(parse_from_storage(self._codecs, value))
            message = self._message(value)
            if message is None:
                return metadata_of(decode_from_storage(self._codecs, value))
            return metadata_of(self._metadata(metadata_of_message(message)))
        except DecryptionError as error:
            raise Undecryptable(error, key=path, root=self._root) from error
        except CodecError as error:
            self._note_unreadable(path)
            raise Unreadable(error, key=path, root=self._root) from error

    def decode_part(self, entry: Entry, decode: Callable[[bytes], Tree]) -> Tree:
        """Decode an entry with a decoder of a few fields; returns the whole tree if it is not
        stored as protobuf. Raises Unreadable, Undecryptable."""
        if entry.value.startswith(ENCRYPTED_PREFIX):
            self.decrypt(entry)
        message = self._message(entry.value)
        try:
            return self.tree(entry) if message is None else decode(message)
        except CodecError as error:
            raise self._unreadable(error, entry) from error

    @functools.cached_property
    def _metadata(self) -> Callable[[bytes], Tree]:
        return message_decoder(partial_type(self._scheme.type_of(self._stored_kind), _OWNERSHIP))

    # Encodings.

    def on_tree_cached(self, entry: Entry, size: int) -> None:
        """Account for a tree that an entry cached."""
        self._encoding_cache.trees.add(entry, size * TREE_COST)

    def on_encoding_cached(self, entry: Entry, size: int) -> None:
        """Account for an encoding that an entry cached."""
        self._encoding_cache.encodings.add(entry, size)

    def on_superseded(self, entry: Entry) -> None:
        """Evict the derived values of an entry that is no longer current."""
        self._encoding_cache.remove(entry)

    def admits_encoding(self) -> bool:
        """Whether a list should cache an encoding."""
        return self._encoding_cache.encodings.admits()

    def kind_in(self, version: GroupVersion) -> GroupVersionKind:
        """Return the resource's kind in a version."""
        return version.with_kind(self.resource.kind)

    def json_prefix(self, version: GroupVersion) -> bytes:
        """Return the JSON of every object of a version up to where its item begins: kind and
        apiVersion. b"" for custom objects, which are whole as items."""
        if not self.is_typed:
            return b""
        prefix = self._prefixes.get(version)
        if prefix is None:
            names = {"kind": self.resource.kind, "apiVersion": str(version)}
            prefix = self._prefixes[version] = encode_value(names)[:-1] + b","
        return prefix

    def splice(self, entry: Entry, encoding: Encoding) -> bytes | None:
        """Return protobuf in the stored version, None for other encodings and stored values."""
        if encoding.media != "protobuf" or encoding.version != self.stored_version:
            return None
        message = self._message(entry.value)
        if message is None:
            return None
        return with_resource_version(message, entry.revision) if entry.revision else message

    def encode(self, entry: Entry, encoding: Encoding) -> bytes:
        """Encode an entry as an item of a list."""
        version, media = encoding
        if media == METADATA_JSON:
            return self._metadata_json(entry)
        if media == METADATA_PROTOBUF:
            return self._metadata_protobuf(entry)
        if media == "json" and entry.cached_tree is None:
            # A message is transcoded in less time than it is decoded.
            transcoded = self._transcode_entry(entry, version)
            if transcoded is not None:
                return transcoded[1:]
        # Not cached: this tree is used for one encoding only.
        tree = self._scheme.convert(entry.cached_tree or self.tree(entry), version)
        if media == "json":
            if self._has_no_floats:
                text = encode_value_without_floats(tree)
            else:
                text = encode_value(tree, option=0 if self.is_typed else SORT_KEYS)
            prefix = self.json_prefix(version)
            return text[len(prefix) :] if prefix else trimmed_copy(text)
        if media == "protobuf":
            return read_envelope(self._serialize("protobuf", tree)).raw
        if media == CBOR_ITEM:
            return self._item_cbor(tree)
        if media == "cbor":
            return self._serialize("cbor", tree).removeprefix(SELF_DESCRIBED_TAG)
        return self._serialize(media, tree)

    def _transcode_entry(self, entry: Entry, version: GroupVersion) -> bytes | None:
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
            return None  # decoding it reports the error

    def _metadata_json(self, entry: Entry) -> bytes:
        message = self._message(entry.value)
        if message is not None and self._transcode_metadata is not None:
            with suppress(*TRANSCODE_ERRORS):  # decoding it reports the error
                if metadata := metadata_at_revision(message, entry.revision):
                    return self._transcode_metadata(metadata)
        return encode_value((entry.cached_tree or self.tree(entry))["metadata"])

    def _metadata_protobuf(self, entry: Entry) -> bytes:
        if (message := self._metadata_message(entry)) is not None:
            return message
        tree = entry.cached_tree or self.tree(entry)
        return message_encoder(PartialObjectMetadata)({"metadata": tree["metadata"]})

    def _metadata_message(self, entry: Entry) -> bytes | None:
        """Return the message of a stored object up to the end of its metadata, which is also the
        message of its PartialObjectMetadata; None for other stored values."""
        message = self._message(entry.value) if self._as_stored else None
        if message is None:
            return None
        metadata = metadata_of_message(message)
        return with_resource_version(metadata, entry.revision) if entry.revision else metadata

    def list_splice(self, entry: Entry) -> ListItemSplice | None:
        """Return the splice of a protobuf list item, or None for other stored values."""
        length = self._message_length(entry.value)
        if not length:
            return None
        tail = with_resource_version(b"", entry.revision) if entry.revision else b""
        head = list_item_head(length + len(tail))
        end = entry.size - len(ENVELOPE_TAIL)
        splice = ListItemSplice(head, tail, end - length, end, len(head) + length + len(tail))
        entry.list_splice = splice
        return splice

    def _message(self, value: bytes) -> bytes | None:
        """Return the protobuf message of a value in the stored version, None for other values."""
        length = self._message_length(value)
        return value[-length - len(ENVELOPE_TAIL) : -len(ENVELOPE_TAIL)] if length else None

    def _message_length(self, value: bytes) -> int:
        """Return the length of the protobuf message in a value of the stored version; 0 for other
        values, and for values of older servers. The length of the value tells, because a value
        consists of head, varint, message and tail."""
        if value.find(self.resource.current_marker) < 0:
            return 0
        head = len(self._head)
        payload_size = len(value) - head - len(ENVELOPE_TAIL)
        for size, greatest in _VARINTS:
            if payload_size - size <= greatest:
                length = payload_size - size
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
        from kapiserver.codecs import cbor, cbor_fields  # loaded for CBOR clients only

        if not self.is_typed:
            return cbor.encode_value_unsorted(tree)
        item = cbor_fields.with_decoded_bytes(self._scheme, tree)
        return cbor.encode_value_unsorted(
            {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
        )

    def _serialize(self, media: str, tree: Tree) -> bytes:
        for media_type in self._codecs.media_types:
            if media_type.extension == media:
                return self._codecs.serializer_for(media_type).encode(tree)
        raise KeyError(media)
