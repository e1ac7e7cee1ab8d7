"""The file of `--encryption-provider-config`, while a server runs.

The file is read when the server starts, and with automatic reload again when it changes. A changed
file takes effect at once unless it adds KMS providers: their plugins have to pass a health check
first, so that a wrong endpoint changes nothing. A provider whose settings are the same stays, with
the keys that it has in memory. Mirrors encryptionconfig/controller of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from kapiserver.api.go_format import join_errors
from kapiserver.api.scalar_types import Duration
from kapiserver.api.types import Tree
from kapiserver.metrics import Reloads, content_hash
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.encryption.config import (
    InvalidEncryptionConfig,
    parse_encryption_config,
)
from kapiserver.storage.encryption.kms_provider import KMSProvider
from kapiserver.storage.encryption.metrics import EncryptionMetrics, Transformation
from kapiserver.storage.encryption.transformers import EncryptionRules, TransformerOverrides

MAX_FILE_BYTES = 1 << 20
"""Size limit of the file in bytes."""

_log = logging.getLogger(__name__)


class _KMSSettings(Struct, frozen=True):
    name: str
    endpoint: str
    timeout: float


_Providers: TypeAlias = dict[_KMSSettings, KMSProvider]


class _Content(Struct, frozen=True):
    """A valid content of the file, its transformers, and its KMS providers by their settings."""

    data: bytes
    overrides: TransformerOverrides
    providers: _Providers


class EncryptionFile:
    """A configuration file: read by the constructor and, with `is_reloaded`, by `reload`.

    files       the files that `reload` reads
    encryption  the rules in force
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        is_reloaded: bool = False,
        reloads: Reloads | None = None,
        metrics: EncryptionMetrics | None = None,
        resource_of: Callable[[str], str] = str,
    ) -> None:
        """Read the file. `resource_of` returns the resource of a key of the store, for metrics.
        Raises InvalidEncryptionConfig."""
        self._path = path
        self.files = [path] if is_reloaded else []
        self._clock = clock
        self._reloads = reloads or Reloads()
        self._metrics = metrics or EncryptionMetrics()
        self._resource_of = resource_of
        self._tasks: BackgroundTasks[None] = BackgroundTasks()
        self._adding: asyncio.Task[None] | None = None
        self._in_force = self._read(_read_file(path), {})
        self.encryption = EncryptionRules(self._in_force.overrides, replaceable=is_reloaded)
        if is_reloaded:
            self._reloads.hash = content_hash(self._in_force.data)

    @property
    def has_health_check(self) -> bool:
        """Whether the server has the check `kms-providers`: it has such providers or may get
        some."""
        return bool(self.files or self._in_force.providers)

    async def start(self) -> None:
        """Call the plugins of the KMS providers from now on. One that fails is logged."""
        await _start(self._in_force.providers)

    async def close(self) -> None:
        """End the calls of plugins. Idempotent."""
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.wait([self._adding])
        await asyncio.gather(*(provider.close() for provider in self._in_force.providers.values()))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def problem(self) -> str:
        """Return why the plugins of KMS providers are not healthy, "" if they are."""
        return await _problem(self._in_force.providers)

    def reload(self) -> None:
        """Read the file and apply changes. An invalid one is logged and changes nothing."""
        if not self.files or self._adding is not None:
            return
        try:
            data = _read_file(self._path)
            if data == self._in_force.data:
                return
            content = self._read(data, self._in_force.providers)
        except InvalidEncryptionConfig as error:
            self._fail(str(error))
            return
        added = _difference(content.providers, self._in_force.providers)
        if added:
            self._adding = self._tasks.start(self._add(content, added))
        else:
            self._apply(content)

    async def _add(self, content: _Content, added: _Providers) -> None:
        """Apply a content once its new plugins are healthy."""
        applied = False
        try:
            await _start(added)
            problem = await _problem(added)
            if problem:
                self._fail(f"health check for new transformers failed: {problem}")
            else:
                self._apply(content)
                applied = True
        finally:
            self._adding = None
            if not applied:
                await _close(added)

    def _apply(self, content: _Content) -> None:
        removed = _difference(self._in_force.providers, content.providers)
        self._in_force = content
        self.encryption.replace(content.overrides)
        _log.info("reloaded %s", self._path)
        self._reloads.succeed(self._clock.now(), content_hash(content.data))
        if removed:
            # Requests that began before may still call these plugins.
            grace = 2 * sum(settings.timeout for settings in removed)
            self._clock.call_later(grace, functools.partial(self._start_close, removed))

    def _start_close(self, providers: _Providers) -> None:
        self._tasks.start(_close(providers))

    def _fail(self, problem: str) -> None:
        _log.error("error processing encryption config file %s: %s", self._path, problem)
        self._reloads.fail(self._clock.now())

    def _observe(self, key: str, type_: str, prefix: str, seconds: float, status: str) -> None:
        labels = Transformation(self._resource_of(key), type_, prefix, status)
        self._metrics.observe_transformation(labels, seconds)

    def _read(self, data: bytes, in_force: _Providers) -> _Content:
        """Return a content that uses the KMS providers in force. Raises InvalidEncryptionConfig."""
        providers: _Providers = {}

        def open_kms(kms: Tree) -> KMSProvider:
            seconds = Duration.to_message(kms["timeout"])["duration"] / 1e9
            settings = _KMSSettings(kms["name"], kms["endpoint"], seconds)
            provider = in_force.get(settings) or self._open(settings)
            providers[settings] = provider
            return provider

        overrides = parse_encryption_config(data, str(self._path), open_kms, self._observe)
        return _Content(data, overrides, providers)

    def _open(self, settings: _KMSSettings) -> KMSProvider:
        try:
            from kapiserver.storage.encryption.kms_client import KMSClient
        except ImportError as error:
            raise InvalidEncryptionConfig(
                "KMS providers need grpcio: pip install 'kapiserver[kms]'"
            ) from error
        client = KMSClient(settings.name, settings.endpoint, settings.timeout, self._metrics)
        return KMSProvider(settings.name, client, self._clock, self._metrics)


def _read_file(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidEncryptionConfig(
            f'error reading encryption provider configuration file "{file}": {error}'
        ) from error
    if not data:
        raise InvalidEncryptionConfig(f'encryption provider configuration file "{file}" is empty')
    if len(data) > MAX_FILE_BYTES:
        raise InvalidEncryptionConfig(
            f'encryption provider configuration file "{file}" is too large'
        )
    return data


def _difference(providers: _Providers, others: _Providers) -> _Providers:
    return {
        settings: provider for settings, provider in providers.items() if settings not in others
    }


async def _start(providers: _Providers) -> None:
    await asyncio.gather(*(provider.start() for provider in providers.values()))


async def _close(providers: _Providers) -> None:
    await asyncio.gather(*(provider.close() for provider in providers.values()))


async def _problem(providers: _Providers) -> str:
    problems = await asyncio.gather(*(provider.check() for provider in providers.values()))
    return join_errors(
        f"kms-provider-{number}: {problem}" for number, problem in enumerate(problems) if problem
    )
