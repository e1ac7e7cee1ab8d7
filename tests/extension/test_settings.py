"""Settings of an extension API server that it shares with `kapiserver serve`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.trace_collector import Collector, configuration, running_collector
from tests.extension.databases import make_databases
from tests.extension.servers import serving

ENCRYPTION = """
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [databases.example.com]
  providers:
  - aesgcm:
      keys: [{name: one, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]
"""
OBJECT = {"kind": "Database", "metadata": {"name": "one"}, "spec": {"ownerName": "somebody"}}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector for one test."""
    yield from running_collector()


def test_encryption_at_rest(tmp_path: Path) -> None:
    """The objects are encrypted in the store and can be read after a restart; the file is read
    again when it changes."""
    file, store = tmp_path / "encryption.yaml", tmp_path / "server.db"
    file.write_text(ENCRYPTION)

    async def names(*, create: bool) -> list[str]:
        async with serving(
            make_databases(),
            storage=f"sqlite:{store}",
            encryption_provider_config=file,
            encryption_provider_config_automatic_reload=True,
        ) as (running, client):
            databases = client.resource("example.com/v1", "databases", namespace="default")
            if create:
                await databases.create(OBJECT)
            hook = "poststarthook/start-encryption-provider-config-automatic-reload"
            assert {"kms-providers", hook} <= running.server.health.checks("healthz").keys()
            file.write_text(f"{file.read_text()}  - identity: {{}}\n")
            running.reload()
            assert running.server.metrics.encryption_reloads.counts.values == {"success": 1}
            return [item["metadata"]["name"] for item in (await databases.list())["items"]]

    for create in (True, False):
        assert asyncio.run(asyncio.wait_for(names(create=create), 60)) == ["one"]
    content = b"".join(path.read_bytes() for path in tmp_path.glob("server.db*"))
    assert b"k8s:enc:aesgcm:v1:one:" in content
    assert b"somebody" not in content


def test_tracing(tmp_path: Path, collector: Collector) -> None:
    """Requests are traced, and a server that stops sends the spans that wait."""
    file = tmp_path / "tracing.yaml"
    file.write_text(configuration(collector, 1_000_000))

    async def run() -> None:
        async with serving(make_databases(), tracing_config_file=file) as (_, client):
            databases = client.resource("example.com/v1", "databases", namespace="default")
            await databases.create(OBJECT)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert {"Create", "Create etcd3"} <= {each.name for each in collector.all_spans()}


def test_feature_gates() -> None:
    """Without its gate, CBOR is not among the encodings."""

    async def run() -> set[str]:
        async with serving(make_databases(), feature_gates=frozenset()) as (running, _):
            return {media.name for media in running.server.codecs.media_types}

    assert "application/cbor" not in asyncio.run(asyncio.wait_for(run(), 60))
