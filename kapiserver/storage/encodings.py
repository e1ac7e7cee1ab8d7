"""From stored bytes to the bytes of every form, made at most once and within a byte budget.

One `ObjectCodec` per resource: stored values to trees and back, what selectors see, and items.
Protobuf of the stored version is spliced from the stored bytes without reading them; JSON and CBOR
are made from the tree and kept. Knows no key order, no watch and no request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from kapiserver.api.fields import Extractor
from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.objects import labels_of
from kapiserver.api.types import Kind, Tree
from kapiserver.codecs.at_rest import decode_at_rest, encode_at_rest
from kapiserver.codecs.cbor import SELF_DESCRIBED
from kapiserver.codecs.codec import convert
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.factory import CodecFactory
from kapiserver.codecs.json import write_document
from kapiserver.codecs.protobuf import (
    ENVELOPE_TAIL,
    envelope_head,
    read_envelope,
    with_resource_version,
)
from kapiserver.codecs.varint import varint
from kapiserver.codecs.wire import decoder
from kapiserver.storage.encryption import IDENTITY, SEALED, CannotOpen, Transformer
from kapiserver.storage.entry import Entry, Form, ObjectKey, Selectable, stamped
from kapiserver.storage.errors import Corrupt, Undecryptable
from kapiserver.storage.projection import projection

BUDGET = 192 << 20
"""Bytes of derived trees and encodings kept, for all resources together."""

CBOR_ITEM = "cbor.item"
"""An item of a CBOR list: the object without `kind` and `apiVersion`."""

_VARINTS = ((1, 0x7F), (2, 0x3FFF), (3, 0x1FFFFF), (4, 0xFFFFFFF))
"""Bytes of a varint, and the greatest number that takes so many."""


class Budget:
    """Keeps derived things within a number of bytes; what was unused longest goes first."""

    def __init__(self, limit: int = BUDGET) -> None:
        self.limit = limit
        self.size = 0
        self._held: OrderedDict[Entry, int] = OrderedDict()

    def used(self, entry: Entry, added: int) -> None:
        """Something derived of the entry was used, after `added` bytes of it were made."""
        held = self._held
        if not added:
            if entry in held:
                held.move_to_end(entry)
            return
        held[entry] = held.get(entry, 0) + added
        held.move_to_end(entry)
        self.size += added
        while self.size > self.limit and len(held) > 1:
            oldest, size = held.popitem(last=False)
            self.size -= size
            oldest.forget()


class ObjectCodec:
    """How the objects of one resource are stored and written; the `Origin` of their entries."""

    def __init__(
        self,
        resource: Resource,
        codecs: CodecFactory,
        *,
        root: str,
        budget: Budget,
        transformer: Transformer = IDENTITY,
    ) -> None:
        scheme = codecs.scheme
        self.resource = resource
        self.prefix = f"{root}/{resource.prefix}/"
        self.hub = scheme.hub_version(resource.group, resource.kind)
        self.stored_version = GroupVersion(resource.group, resource.storage_version)
        self.type: type[Kind] = scheme.type_of(self.hub.with_kind(resource.kind))
        self._codecs = codecs
        self._scheme = scheme
        self._budget = budget
        self._transformer = transformer
        self._fields: Extractor = scheme.fields(resource)
        self._stored_kind = self.stored_version.with_kind(resource.kind)
        stored_type = scheme.type_of(self._stored_kind)
        # Selectable fields are read in the hub; where that is another version, from the tree.
        self._glance = (
            decoder(projection(stored_type, resource.selectable_fields))
            if self.hub == self.stored_version
            else None
        )
        self._prefixes: dict[GroupVersion, bytes] = {}
        # All that stands before the length of the message in the values stored here.
        self._head = envelope_head(self._stored_kind, 0)[:-1]

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
            obj = stamped(obj, 0)
        return encode_at_rest(self._codecs, convert(self._scheme, obj, self.stored_version))

    def tree(self, entry: Entry) -> Tree:
        """Decode an entry. Raises Corrupt."""
        if entry.value.startswith(SEALED):
            self.open(entry)
        try:
            found = decode_at_rest(self._codecs, entry.value)
        except CodecError as error:
            raise Corrupt(f"{entry.path}: {error}") from error
        return stamped(convert(self._scheme, found, self.hub), entry.revision)

    def open_all(self, entries: Iterable[Entry]) -> None:
        """Open what was not: a list has all of its objects, or is refused before it begins.
        Raises Undecryptable."""
        if self._transformer is not IDENTITY:
            for entry in entries:
                if entry.value.startswith(SEALED):
                    self.open(entry)

    def open(self, entry: Entry) -> None:
        """Put the value of an entry in the clear, which nothing opened when it was read: there may
        be a key for it by now. Raises Undecryptable."""
        try:
            entry.value = self._transformer.open(entry.value, entry.path).value
        except CannotOpen as error:
            raise Undecryptable(str(error), key=entry.path) from error

    def selectable(self, entry: Entry) -> Selectable:
        """What selectors see; reads only those fields of a protobuf value. Raises Corrupt."""
        tree = entry.known_tree
        if tree is None and self._glance is not None:
            message = self._message(entry.value)
            try:
                tree = None if message is None else self._glance(message)
            except CodecError as error:
                raise Corrupt(f"{entry.path}: {error}") from error
        if tree is None:
            tree = entry.tree()
        return Selectable(labels_of(tree), self._fields(tree))

    # Encodings.

    def used(self, entry: Entry, added: int) -> None:
        """Note the use of something derived."""
        self._budget.used(entry, added)

    def kind_in(self, version: GroupVersion) -> GroupVersionKind:
        """The resource's kind in a version."""
        return version.with_kind(self.resource.kind)

    def json_prefix(self, version: GroupVersion) -> bytes:
        """How the JSON of every object of a version begins, up to what an item has too."""
        found = self._prefixes.get(version)
        if found is None:
            names = {"kind": self.resource.kind, "apiVersion": str(version)}
            found = self._prefixes[version] = write_document(names)[:-1] + b","
        return found

    def encode(self, entry: Entry, form: Form) -> bytes:
        """Make one form of an entry, and keep it where it was not spliced."""
        version, media = form
        if media == "protobuf" and version == self.stored_version:
            message = self._message(entry.value)
            if message is not None:
                revision = entry.revision
                return with_resource_version(message, revision) if revision else message
        tree = convert(self._scheme, entry.tree(), version)
        if media == "json":
            found = write_document(tree)[len(self.json_prefix(version)) :]
        elif media == "protobuf":
            found = read_envelope(self._serialize("protobuf", tree)).raw
        elif media == CBOR_ITEM:
            found = self._item_cbor(tree)
        elif media == "cbor":
            found = self._serialize("cbor", tree).removeprefix(SELF_DESCRIBED)
        else:
            return self._serialize(media, tree)
        entry.keep(form, found)
        return found

    def length(self, entry: Entry, form: Form) -> int:
        """How many bytes an entry's protobuf has, without making them where they are spliced."""
        if form.version == self.stored_version:
            length = self._message_length(entry.value)
            if length:
                revision = entry.revision
                return length + (len(with_resource_version(b"", revision)) if revision else 0)
        return len(entry.encoded(form))

    def _message(self, value: bytes) -> bytes | None:
        """The message in a stored value of the version stored now; None: it is something else."""
        length = self._message_length(value)
        return value[-length - len(ENVELOPE_TAIL) : -len(ENVELOPE_TAIL)] if length else None

    def _message_length(self, value: bytes) -> int:
        """The length of that message; 0: the value is something else. Not parsed: what lies
        between head and tail is the length, as a varint, and so many bytes."""
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
            and value.startswith(varint(length), head)
        ):
            return length
        return 0

    def _item_cbor(self, tree: Tree) -> bytes:
        from kapiserver.codecs.cbor import write_document as write_cbor  # only for CBOR's clients

        item = {name: value for name, value in tree.items() if name not in ("kind", "apiVersion")}
        return write_cbor(item).removeprefix(SELF_DESCRIBED)

    def _serialize(self, media: str, tree: Tree) -> bytes:
        for one in self._codecs.media_types:
            if one.extension == media:
                return self._codecs.serializer_for(one).encode(tree)
        raise KeyError(media)
