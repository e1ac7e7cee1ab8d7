"""Rows of Tables and PartialObjectMetadata, encoded from the bytes of stored objects.

Metadata is transcoded, so no tree of it is made, and its JSON is cached with its object, as far as
there is room for long lists. So is the JSON of a row, all but its ages: each is an `Age` between
two zero bytes, which no JSON text contains, and its text is made for each response. Depends on no
request.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kapiserver.api.columns import Age
from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.endpoints.tables import TableBuilder
from kapiserver.codecs.json import encode_value
from kapiserver.storage.cache.entry import Encoding, Entry, encoding_of
from kapiserver.storage.objects.object_codec import METADATA_JSON, METADATA_PROTOBUF

_AGE = b"\0"
"""The byte before and after an age in the JSON of a row."""
_encode_age = msgspec.json.Encoder().encode
_decode_age: Callable[[bytes], Age] = msgspec.json.Decoder(Age).decode


class MetadataEncoder:
    """Encodes objects as PartialObjectMetadata, in a version of meta.k8s.io."""

    def __init__(self, version: GroupVersion) -> None:
        names = {"kind": "PartialObjectMetadata", "apiVersion": str(version)}
        self._json_head = encode_value(names)[:-1] + b',"metadata":'
        self._json = encoding_of(version, METADATA_JSON)
        self._protobuf = encoding_of(version, METADATA_PROTOBUF)

    def json(self, entry: Entry) -> bytes:
        """Return the JSON of an object's PartialObjectMetadata, cached with the object."""
        if entry.is_large:  # a thread encodes it, which must not change the cache
            return self.uncached_json(entry)
        return b"%b%b}" % (self._json_head, entry.encode_for_list(self._json))

    def uncached_json(self, entry: Entry) -> bytes:
        """Return what `json` returns, for a caller that caches it as a part of something else."""
        return b"%b%b}" % (self._json_head, entry.codec.encode(entry, self._json))

    def protobuf(self, entry: Entry) -> bytes:
        """Return the message of an object's PartialObjectMetadata."""
        return entry.codec.encode(entry, self._protobuf)


class RowEncoder:
    """Encodes the rows of a Table as JSON.

    now     the time that ages refer to, in seconds since the epoch
    """

    def __init__(self, table: TableBuilder, now: float) -> None:
        self._table = table
        self._now = now
        self._metadata = MetadataEncoder(table.table_version)
        form = f"json.row.{table.include}.{table.table_version.version}"
        self._encoding: Encoding = encoding_of(table.version, form)

    def row(self, entry: Entry) -> bytes:
        """Return the row of an object."""
        row = entry.cached_encoding(self._encoding)
        if row is None:
            row = self._encode(entry)
            # The row of a large object is encoded in a thread, which must not change the cache.
            if not entry.is_large and entry.codec.admits_encoding():
                entry.cache_encoding(self._encoding, row)
        parts = row.split(_AGE)
        for index in range(1, len(parts), 2):
            parts[index] = encode_value(_decode_age(parts[index]).text(self._now))
        return b"".join(parts)

    def _encode(self, entry: Entry) -> bytes:
        # Not cached: the row is, and trees have less room than that.
        obj = entry.cached_tree or entry.codec.tree(entry)
        cells = b",".join(map(_encode_cell, self._table.columns.read(obj)))
        conditions = self._table.columns.conditions(obj)
        return b'{"cells":[%b]%b,"object":%b}' % (
            cells,
            b',"conditions":%b' % encode_value(conditions) if conditions else b"",
            self._metadata.uncached_json(entry)
            if self._table.include == "Metadata"
            else encode_value(self._table.row_object(obj)),
        )


def _encode_cell(cell: object) -> bytes:
    if isinstance(cell, Age):
        return b"%b%b%b" % (_AGE, _encode_age(cell), _AGE)
    return encode_value(cell)
