"""The store that converts the objects of one resource between versions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.errors import Conflict
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.sqlite.embedded_store import open_embedded
from kapiserver.storage.wrappers.converting_store import ConvertingStore
from tests.storage.objectkit import SCHEME

STORED, SERVED = (GroupVersion("autoscaling", version) for version in ("v2", "v1"))
CODECS = CodecFactory(SCHEME)


async def _convert(objects: Sequence[Tree], version: GroupVersion) -> Sequence[Tree]:
    return [SCHEME.convert(obj, version) for obj in objects]


async def test_a_conflict_has_the_converted_value() -> None:
    """The value of a conflict is in the version that a read returns."""
    kv = await open_embedded(None)
    store = ConvertingStore(kv, CODECS, _convert, Offloader(), version=SERVED, stored=STORED)
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}},
    }
    revision = await store.create("/a", encode_for_storage(CODECS, scaler))
    read = (await store.get("/a")).item
    assert read is not None
    assert decode_from_storage(CODECS, read.value)["apiVersion"] == "autoscaling/v1"
    other = Revision(revision + 1)
    for write in (store.update("/a", b"", expected=other), store.delete("/a", expected=other)):
        with pytest.raises(Conflict) as caught:
            await write
        assert (caught.value.current, caught.value.value) == (revision, read.value)
    with pytest.raises(Conflict) as caught:
        await store.delete("/b", expected=other)
    assert caught.value.value is None
    await kv.close()
