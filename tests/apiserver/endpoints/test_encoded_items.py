"""Rows of Tables and PartialObjectMetadata that are encoded from stored bytes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.columns import Age, Column, Columns
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Tree
from kapiserver.apiserver.endpoints.encoded_items import MetadataEncoder, RowEncoder
from kapiserver.apiserver.endpoints.tables import Include, TableBuilder, partial_metadata
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.json import encode_value
from kapiserver.codecs.protobuf.messages import message_decoder
from kapiserver.storage.cache.encoding_cache import EncodingCache
from kapiserver.storage.cache.entry import Entry, ObjectKey, encoding_of
from kapiserver.storage.objects.object_codec import METADATA_JSON, ObjectCodec
from tests.objects import SCHEME
from tests.trees import filled, trees

META_V1 = GroupVersion("meta.k8s.io", "v1")
CODECS = CodecFactory(SCHEME)
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)
RESOURCES = list(SCHEME.stored_resources())
CONFIG_MAPS = next(item for item in RESOURCES if item.kind == "ConfigMap")


def _codec(resource: Resource) -> ObjectCodec:
    kind_info = SCHEME.kind_info_of(resource)
    return ObjectCodec(kind_info, CODECS, root="/registry", encoding_cache=EncodingCache())


def _entry(resource: Resource) -> Entry:
    """Return an entry of an object with every field."""
    codec = _codec(resource)
    tree = filled(codec.type)
    tree |= {"kind": resource.kind, "apiVersion": str(codec.hub)}
    path = codec.path(ObjectKey("default", "x"))
    return Entry(codec, path, codec.stored_value(tree), 7)


def _table(
    entry: Entry, include: Include = "Metadata", columns: Columns | None = None
) -> TableBuilder:
    info = entry.codec.kind_info
    return TableBuilder(
        scheme=SCHEME,
        columns=columns or SCHEME.columns(info.resource.group, info.resource.kind),
        table_version=META_V1,
        version=info.hub,
        include=include,
    )


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda item: f"{item.group}-{item.name}")
def test_rows_of_every_resource(resource: Resource) -> None:
    """A row is that of the object's tree, when it is encoded first and at a later time."""
    entry = _entry(resource)
    table = _table(entry)
    for now in (NOW, LATER):
        row = RowEncoder(table, now.timestamp()).row(entry)
        assert row == encode_value(table.row(entry.codec.tree(entry), now))


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda item: f"{item.group}-{item.name}")
def test_metadata_of_every_resource(resource: Resource) -> None:
    """PartialObjectMetadata in JSON and Protobuf has the metadata of the object's tree."""
    entry = _entry(resource)
    expected = partial_metadata(entry.codec.tree(entry), META_V1)
    encoder = MetadataEncoder(META_V1)
    assert encoder.json(entry) == encode_value(expected)
    decode = message_decoder(SCHEME.type_of(META_V1.with_kind("PartialObjectMetadata")))
    assert decode(encoder.protobuf(entry))["metadata"] == expected["metadata"]


@given(trees(ObjectMeta), st.integers(0, 2**63 - 1))
@settings(max_examples=30)
def test_metadata_of_any_object(metadata: Tree, revision: int) -> None:
    """Metadata that is transcoded is that of the object's tree, to the byte."""
    stored = _stored_map(metadata)
    entry = Entry(stored.codec, stored.path, stored.value, revision)
    expected = encode_value(partial_metadata(entry.codec.tree(entry), META_V1))
    encoder = MetadataEncoder(META_V1)
    assert [encoder.uncached_json(entry), encoder.json(entry), encoder.json(entry)] == [
        expected
    ] * 3


def test_cached_metadata() -> None:
    """A list caches the metadata of objects, except that of large ones, which a thread encodes."""
    encoding = encoding_of(META_V1, METADATA_JSON)
    encoder = MetadataEncoder(META_V1)
    small, large = _entry(CONFIG_MAPS), _stored_map({"name": "x"}, {"text": "x" * (40 << 10)})
    for entry in (small, large):
        assert encoder.json(entry) == encoder.uncached_json(entry)
    assert small.cached_encoding(encoding)
    assert large.cached_encoding(encoding) is None


def _stored_map(metadata: Tree, data: Tree | None = None) -> Entry:
    """Return an entry of a ConfigMap."""
    codec = _codec(CONFIG_MAPS)
    tree = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data or {}}
    return Entry(codec, codec.path(ObjectKey("default", "x")), codec.stored_value(tree), 7)


@pytest.mark.parametrize("include", ["None", "Metadata", "Object"])
def test_included_objects(include: Include) -> None:
    """A row holds its object, the object's metadata, or null."""
    entry = _entry(CONFIG_MAPS)
    table = _table(entry, include)
    row = RowEncoder(table, NOW.timestamp()).row(entry)
    assert row == encode_value(table.row(entry.codec.tree(entry), NOW))


def test_texts_with_zero_bytes() -> None:
    """A zero byte in a cell is no mark of an age."""
    entry = _entry(CONFIG_MAPS)
    columns = Columns(
        (
            Column("Text", lambda obj: "a\0b\0c"),
            Column("Age", lambda obj: Age(NOW.timestamp() - 60, before="\0<", after='"\0')),
        )
    )
    table = _table(entry, columns=columns)
    row = RowEncoder(table, NOW.timestamp()).row(entry)
    assert row == encode_value(table.row(entry.codec.tree(entry), NOW))


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (Age(-30), "30s"),
        (Age(-90, before="3 (", after=" ago)"), "3 (90s ago)"),
        (Age(30), "<invalid>"),
        (Age(30, after=" ago", until="in "), "in 30s"),
        (Age(0, after=" ago", until="in "), "in 0s"),
        (Age(-30, after=" ago", until="in "), "30s ago"),
    ],
)
def test_ages(age: Age, text: str) -> None:
    """An age shows the time since a moment, or the time that is left until it."""
    assert age.text(0) == text
