"""Servers with a KMS provider, whose plugin is the one of the examples, in a process of its own."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.accessors import name_of
from kapiserver.api.resource_client import Event, ResourceClient, StatusError
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.metrics.server_families import ServerFamilies
from kapiserver.apiserver.serving.metrics.text import text_of
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.parts import Parts
from kapiserver.storage.encryption.metrics import Transformation, hash_of
from tests.apiserver.conftest import Server
from tests.clock import ManualClock
from tests.storage.etcd_server import Member, running_member
from tests.storage.kmskit import add_key, running_plugin

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
SEED_SECONDS = 181


class Folder:
    """The files of a test: sockets and keys of plugins, and the configuration."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "encryption.yaml"

    def keys(self, plugin: str) -> Path:
        return self.path / f"{plugin}.keys"

    def plugin(self, name: str) -> Any:
        return running_plugin(self.path / f"{name}.sock", self.keys(name))

    def write(self, *plugins: str, timeout: str = "3s") -> None:
        """Write a configuration with these providers; the first one encrypts Secrets."""
        providers = [
            f"{{kms: {{apiVersion: v2, name: {name}, timeout: {timeout}, "
            f"endpoint: 'unix://{self.path}/{name}.sock'}}}}"
            for name in plugins
        ]
        rule = f"- {{resources: [secrets], providers: [{', '.join([*providers, 'identity: {}'])}]}}"
        self.config.write_text(HEAD + rule.replace("identity: {}", "{identity: {}}"))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder whose plugin `first` has the key k1, and a configuration for it."""
    result = Folder(tmp_path)
    add_key(result.keys("first"), "k1")
    result.write("first")
    return result


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    with running_member() as member:
        yield member


@asynccontextmanager
async def opened(storage: str, folder: Folder, **settings: Any) -> AsyncIterator[Cluster]:
    """A cluster with the configuration, on a clock that the test moves."""
    config = Config.of(
        storage=storage,
        secure_port=None,
        encryption_provider_config=folder.config,
        **settings,
    )
    async with open_cluster(config, Parts(clock=ManualClock())) as cluster:
        namespaces = cluster.server.client(APISERVER, authorize=False).resource("v1", "namespaces")
        with suppress(StatusError):  # another server of the store created it
            await namespaces.create({"metadata": {"name": "default"}})
        yield cluster


def secrets_of(cluster: Cluster) -> ResourceClient:
    client = cluster.server.client(APISERVER, authorize=False)
    return client.resource("v1", "secrets", namespace="default")


def secret(name: str, text: str = "open-sesame") -> Any:
    data = base64.b64encode(text.encode()).decode()
    return {"metadata": {"name": name}, "data": {"password": data}}


async def stored(cluster: Cluster, name: str) -> bytes:
    item = (await cluster.kv.get(f"/registry/secrets/default/{name}")).item
    assert item is not None
    return item.value


def advance(cluster: Cluster, seconds: float) -> None:
    clock = cluster.server.clock
    assert isinstance(clock, ManualClock)
    clock.advance(seconds)


async def problem_of(work: Awaitable[object]) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await work
    return caught.value


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)


def counted(cluster: Cluster, type_: str, status: str) -> float:
    """Return how many Secrets were encrypted or decrypted with that status."""
    labels = Transformation("secrets", type_, "k8s:enc:kms:v2:first:", status)
    return cluster.server.metrics.encryption.transformations.values.get(labels, 0)


async def health(cluster: Cluster, *path: str) -> int:
    return (await cluster.server.health.respond(path, {})).status


def test_rotation(folder: Folder, member: Member) -> None:
    """Each key of the plugin, and each start of a server, encrypts with another seed; all that was
    stored is read, by another server too, and an update encrypts it with the current key."""
    storage = f"etcd:{member.url}"

    async def test() -> None:
        async with opened(storage, folder) as cluster:
            secrets = secrets_of(cluster)
            await secrets.create(secret("a"))
            value = await stored(cluster, "a")
            assert value.startswith(b"k8s:enc:kms:v2:first:\x0a")
            assert b"open-sesame" not in value
            add_key(folder.keys("first"), "k2")
            advance(cluster, 60)

            async def has_rotated() -> bool:
                return cluster.server.metrics.encryption.cached_keys.values["first"] == 2

            await until(has_rotated)
            await secrets.create(secret("b"))
            assert b"\x12\x02k2" in await stored(cluster, "b")
            async with opened(storage, folder) as other:
                follower = secrets_of(other)
                assert sorted(map(name_of, (await follower.list())["items"])) == ["a", "b"]
                await follow_writes(secrets, follower)
                unchanged = await follower.get("a")
                await follower.update(unchanged)
                assert b"\x12\x02k2" in await stored(other, "a")
                assert await secrets.get("a") == await follower.get("a")

    with folder.plugin("first"):
        asyncio.run(test())


async def follow_writes(writer: ResourceClient, follower: ResourceClient) -> None:
    """Watch what another server writes with a seed of its own."""
    version = (await follower.list())["metadata"]["resourceVersion"]
    events: list[Event] = []

    async def watch() -> None:
        async for event in follower.watch(resourceVersion=version):
            events.append(event)
            if len(events) == 3:
                return

    task = asyncio.create_task(watch())
    for name in ("c", "d"):
        await writer.create(secret(name))
    await writer.delete("c")
    await asyncio.wait_for(task, 60)
    seen = [(event.type, name_of(event.object)) for event in events]
    assert seen == [("ADDED", "c"), ("ADDED", "d"), ("DELETED", "c")]


def test_dead_plugin(folder: Folder, tmp_path: Path) -> None:
    """Without its plugin a server goes on reading; it writes for three minutes, then says why it
    cannot; when the plugin is back, it writes again."""

    async def test() -> None:
        async with opened(f"sqlite:{tmp_path}/store.db", folder) as cluster:
            secrets = secrets_of(cluster)
            await secrets.create(secret("a"))
            assert await health(cluster, "readyz", "kms-providers") == 200
            plugin.kill()
            plugin.wait()
            await secrets.create(secret("b"))
            advance(cluster, SEED_SECONDS)
            problem = await problem_of(secrets.create(secret("c")))
            assert (problem.code, problem.reason) == (500, "InternalError")
            assert counted(cluster, "to_storage", "unknown-non-grpc") == 1
            assert str(problem).startswith(
                f'Internal error occurred: encryptedDEKSource with keyID hash "{hash_of("k1")}" '
                "expired at "
            )
            assert str(await problem_of(secrets.update(await secrets.get("a") | secret("a", "x"))))
            assert {name_of(each) for each in (await secrets.list())["items"]} == {"a", "b"}
            config_maps = cluster.server.client(APISERVER, authorize=False).resource(
                "v1", "configmaps", namespace="default"
            )
            await config_maps.create({"metadata": {"name": "others-are-written"}})
            statuses = [await health(cluster, p, "kms-providers") for p in ("healthz", "livez")]
            assert statuses == [500, 404]
            with folder.plugin("first"):
                advance(cluster, 10)

                async def is_healthy() -> bool:
                    advance(cluster, 4)
                    return await health(cluster, "healthz", "kms-providers") == 200

                await until(is_healthy)
                await secrets.create(secret("c"))

    folder.write("first", timeout="300ms")
    with folder.plugin("first") as plugin:
        asyncio.run(test())


def test_plugin_that_starts_after_the_server(folder: Folder, tmp_path: Path) -> None:
    """A server starts without its plugin, and does not read what it cannot decrypt; it reads and
    writes once the plugin is there."""
    storage = f"sqlite:{tmp_path}/store.db"
    folder.write("first", timeout="300ms")

    async def write() -> None:
        async with opened(storage, folder) as cluster:
            await secrets_of(cluster).create(secret("a"))

    async def test() -> None:
        async with opened(storage, folder) as cluster:
            secrets = secrets_of(cluster)
            problem = await problem_of(secrets.get("a"))
            assert (problem.code, problem.reason) == (500, "InternalError")
            assert (await problem_of(secrets.list())).reason == "StorageReadError"
            assert "nil transformer" in str(await problem_of(secrets.create(secret("b"))))
            with folder.plugin("first"):

                async def is_read() -> bool:
                    advance(cluster, 10)
                    try:
                        await secrets.get("a")
                    except StatusError:
                        return False
                    return True

                await until(is_read)
                await secrets.create(secret("b"))

    with folder.plugin("first"):
        asyncio.run(write())
    asyncio.run(test())


def test_reload(folder: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A changed file takes effect once the plugins that it adds are healthy; until then, and with
    a plugin that does not answer, the old one is in force."""
    add_key(folder.keys("second"), "other")
    folder.write("first")

    async def test() -> None:
        settings = {"encryption_provider_config_automatic_reload": True}
        async with opened(f"sqlite:{tmp_path}/store.db", folder, **settings) as cluster:
            secrets = secrets_of(cluster)
            reloads = cluster.server.metrics.encryption_reloads
            await secrets.create(secret("a"))
            folder.write("second", "first", timeout="200ms")
            cluster.file_watch.read_all()

            async def has_failed() -> bool:
                return "failure" in reloads.counts.values

            await until(has_failed)
            await secrets.create(secret("b"))
            assert (await stored(cluster, "b")).startswith(b"k8s:enc:kms:v2:first:")
            assert "health check for new transformers failed: kms-provider-0: " in caplog.text
            with folder.plugin("second"):
                folder.write("second", "first")
                cluster.file_watch.read_all()

                async def has_succeeded() -> bool:
                    return "success" in reloads.counts.values

                await until(has_succeeded)
                await secrets.create(secret("c"))
                assert (await stored(cluster, "c")).startswith(b"k8s:enc:kms:v2:second:")
                await secrets.update(await secrets.get("a"))
                assert (await stored(cluster, "a")).startswith(b"k8s:enc:kms:v2:second:")
                folder.config.write_text(f"{HEAD}- {{resources: [secrets], providers: []}}")
                cluster.file_watch.read_all()
                assert reloads.counts.values == {"failure": 2, "success": 1}
                assert await health(cluster, "readyz", "kms-providers") == 200

    with folder.plugin("first"), caplog.at_level(logging.ERROR):
        asyncio.run(test())


METRICS = (
    'apiserver_envelope_encryption_kms_operations_latency_seconds_count{provider_name="first",'
    'method_name="/v2.KeyManagementService/Status",grpc_status_code="OK"} 1',
    'apiserver_envelope_encryption_key_id_hash_total{transformation_type="to_storage",'
    f'provider_name="first",key_id_hash="{hash_of("k1")}",apiserver_id_hash="sha256:',
    "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds{",
    "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds{",
    'apiserver_envelope_encryption_dek_source_cache_size{provider_name="first"} 1',
    "apiserver_storage_envelope_transformation_cache_misses_total 0",
    "apiserver_storage_data_key_generation_duration_seconds_count 1",
)


def test_metrics(folder: Folder) -> None:
    """The metrics have kube-apiserver's names and labels."""

    async def test() -> None:
        async with opened("sqlite::memory:", folder) as cluster:
            await secrets_of(cluster).create(secret("a"))
            await secrets_of(cluster).get("a")
            assert counted(cluster, "to_storage", "OK") == 1
            text = b"".join([part async for part in text_of(ServerFamilies(cluster.server))])
            for line in METRICS:
                assert line in text.decode()

    with folder.plugin("first"):
        asyncio.run(test())


def test_health_over_http(folder: Folder, make_server: Callable[..., Server]) -> None:
    """A served cluster has the check `kms-providers`; one without KMS has none."""
    with folder.plugin("first"):
        server = make_server(encryption_provider_config=folder.config)
        assert server.api.get("/healthz/kms-providers").body == b"ok"
        assert b"[+]kms-providers ok" in server.api.get("/readyz?verbose").body
        assert b"kms-providers" not in server.api.get("/livez?verbose").body
        path = "/api/v1/namespaces/default/secrets"
        assert server.api.post(path, secret("a")).status == 201
        assert server.api.get(f"{path}/a").json["data"] == secret("a")["data"]
