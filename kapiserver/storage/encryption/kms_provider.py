"""A KMS provider: which seed encrypts now, the seeds in memory, and the polls of its plugin.

The plugin encrypts seeds, not values: a value is encrypted with a key that HKDF derives from the
seed for this one value, so that a write needs no call of the plugin. The server makes a seed when
it starts and when the plugin reports another key ID. A value holds its encrypted seed, and the
server calls the plugin once for each seed that is not in memory.

    seed for writes    what happens                                       next
    none               a probe succeeds: the plugin encrypted a seed      valid
    valid              a probe reports the same key ID                    valid for MAX_SECONDS more
                       a probe reports another key ID                     a new seed, valid
                       a probe fails                                      as before
                       MAX_SECONDS have passed since the last good probe  expired
    expired            a probe succeeds                                   valid

Writes fail unless the seed is valid. Reads need only the seed of the value, for as long as the
server runs. A probe runs every minute, or every ten seconds after a failure, and when a health
check finds the last one too old. Mirrors kmsv2PluginProbe of
apiserver/pkg/server/options/encryptionconfig and envelope.go of
apiserver/pkg/storage/value/encrypt/envelope/kmsv2. Knows no gRPC.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import Struct

from kapiserver.api.go_format import join_errors
from kapiserver.spans import span
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.encryption.kms_messages import (
    HKDF_SEED,
    InvalidMessage,
    KeySource,
    StatusResponse,
    decode_source,
    encode_stored,
    key_id_problem,
    split_stored,
)
from kapiserver.storage.encryption.metrics import NOT_GRPC, EncryptionMetrics, KeyUse, hash_of
from kapiserver.storage.encryption.transformers import (
    AESGCM,
    DecryptionError,
    DecryptResult,
    ExtendedNonceAESGCM,
)
from kapiserver.storage.errors import EncryptionFailed

POLL_SECONDS = 60.0
RETRY_SECONDS = 10.0
MAX_SECONDS = 180.0
"""A seed encrypts for so long after the last successful probe began."""
HEALTHY_SECONDS, UNHEALTHY_SECONDS = 20.0, 3.0
"""How long the result of a probe answers health checks."""

MAX_SEEDS = 10_000
"""The decrypted seeds in memory: there is one for each start of a server and change of the key ID
since the last migration of the stored objects."""
_CONCURRENT_CALLS = 8
_SEED_BYTES = 32
_VERSIONS = ("v2", "v2beta1")
_NEVER_CALLED = "the plugin has not been called"

_log = logging.getLogger(__name__)


class KMSError(Exception):
    """A call of the plugin failed; the text is kube-apiserver's, and `status` the name of its gRPC
    code in Go."""

    def __init__(self, problem: str, status: str = NOT_GRPC) -> None:
        super().__init__(problem)
        self.status = status


class KMSService(Protocol):
    """The calls of a plugin. Each raises KMSError."""

    async def status(self) -> StatusResponse: ...

    async def encrypt(self, plaintext: bytes) -> KeySource: ...

    async def decrypt(self, source: KeySource) -> bytes: ...

    def close(self) -> None: ...


class _Key(Struct, frozen=True):
    """A decrypted key or seed, where it is from, and the labels of its reads and writes."""

    cipher: AESGCM
    source: KeySource
    read: KeyUse
    write: KeyUse


class _WriteState(Struct, frozen=True):
    """The seed that encrypts: its cipher, its encoded source, and when it expires."""

    key: _Key
    encoded: bytes
    expires: float


class KMSProvider:
    """One KMS provider of the configuration; the transformer of its values."""

    def __init__(
        self, name: str, service: KMSService, clock: Clock, metrics: EncryptionMetrics
    ) -> None:
        self.name = name
        self._service = service
        self._clock = clock
        self._metrics = metrics
        self._state: _WriteState | None = None
        self._version = ""
        self._keys: dict[bytes, _Key] = {}
        """The decrypted keys by their encoded source."""
        self._failures: dict[bytes, KMSError] = {}
        """Why keys that a value needs are not in memory, by their encoded source. Polls load them
        again."""
        self._loading: dict[bytes, asyncio.Task[None]] = {}
        self._tasks: BackgroundTasks[None] = BackgroundTasks()
        self._calls = asyncio.Semaphore(_CONCURRENT_CALLS)
        self._probe: asyncio.Task[str] | None = None
        self._problem = _NEVER_CALLED
        self._probed = float("-inf")
        self._timer: Timer | None = None
        self._is_closed = False

    # The transformer of values.

    def encrypt(self, value: bytes, key: str) -> bytes:
        """Encrypt with the current seed. Raises EncryptionFailed without a valid one."""
        state = self._state
        if state is None:
            raise EncryptionFailed("got unexpected nil transformer")
        now = self._clock.now()
        source = state.key.source
        if now > state.expires:
            raise EncryptionFailed(
                f'encryptedDEKSource with keyID hash "{hash_of(source.key_id)}" expired at '
                f"{_rfc3339(state.expires)} (current time is {_rfc3339(now)})"
            )
        self._metrics.use_key(state.key.write, now)
        return encode_stored(state.key.cipher.encrypt(value, key), state.encoded)

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        """Decrypt with a key in memory. Raises DecryptionError; `load_keys` loads missing keys."""
        try:
            data, encoded = split_stored(stored)
            decrypting = self._keys.get(encoded) or self._decoded_key(encoded)
        except InvalidMessage as error:
            raise DecryptionError(str(error)) from error
        state = self._state
        if state is None:
            raise DecryptionError("got unexpected nil transformer")
        source, current = decrypting.source, state.key.source
        value = decrypting.cipher.decrypt(data, key).value
        self._metrics.use_key(decrypting.read, self._clock.now())
        stale = (source.key_id, source.source_type) != (current.key_id, current.source_type)
        return DecryptResult(value, stale)

    def needs_keys(self, values: Sequence[bytes]) -> bool:
        """Return whether keys of stored values are not in memory."""
        return bool(self._missing(values))

    async def load_keys(self, values: Sequence[bytes]) -> None:
        """Load the keys of stored values. One that cannot be loaded is missing when its value is
        decrypted."""
        missing = self._missing(values)
        if missing:
            with span("kms", {"transformer.provider.name": self.name}):
                await self._load_all(missing)

    def _missing(self, values: Sequence[bytes]) -> dict[bytes, KeySource]:
        """Return the sources of the keys of stored values that are not in memory."""
        missing: dict[bytes, KeySource] = {}
        for stored in values:
            try:
                encoded = split_stored(stored)[1]
                if encoded not in self._keys and encoded not in missing:
                    source = decode_source(encoded)
                    canonical = source.encode()
                    if canonical not in self._keys:
                        missing[canonical] = source
            except InvalidMessage:  # `decrypt` reports it
                continue
        return missing

    def _decoded_key(self, encoded: bytes) -> _Key:
        """Return the key of a source that may be encoded in another order. Raises InvalidMessage,
        DecryptionError."""
        canonical = decode_source(encoded).encode()
        key = self._keys.get(canonical)
        if key is None:
            failure = self._failures.setdefault(canonical, KMSError("the key is not in memory"))
            _bound(self._failures)
            problem = f"failed to decrypt DEK, error: {failure}"
            raise DecryptionError(problem, failure.status)
        return key

    # Keys.

    async def _load_all(self, sources: dict[bytes, KeySource]) -> None:
        for encoded, source in sources.items():
            if encoded not in self._loading:
                self._loading[encoded] = self._tasks.start(self._load(encoded, source))
        # A request that is cancelled does not take the keys from the others.
        await asyncio.wait([self._loading[encoded] for encoded in sources])

    async def _load(self, encoded: bytes, source: KeySource) -> None:
        self._metrics.cache_misses += 1
        try:
            async with self._calls:
                plaintext = await self._service.decrypt(source)
            self._add(encoded, self._key(_cipher(plaintext, source), source))
        except (KMSError, ValueError) as error:
            failure = error if isinstance(error, KMSError) else KMSError(str(error))
            self._failures[encoded] = failure.with_traceback(None)
            _bound(self._failures)
        finally:
            del self._loading[encoded]

    def _key(self, cipher: AESGCM, source: KeySource) -> _Key:
        key_id = hash_of(source.key_id)
        read = KeyUse("from_storage", self.name, key_id)
        return _Key(cipher, source, read, KeyUse("to_storage", self.name, key_id))

    def _add(self, encoded: bytes, key: _Key) -> None:
        self._failures.pop(encoded, None)
        self._keys[encoded] = key
        _bound(self._keys)
        self._metrics.cached_keys.set(self.name, len(self._keys))

    # Probes.

    async def start(self) -> None:
        """Probe the plugin, and go on until `close`. A failure is logged."""
        await self.check()
        self._schedule()

    async def close(self) -> None:
        """End the probes and the connection. Idempotent."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._service.close()  # ends the calls, and so the tasks
        if self._tasks or self._probe is not None:
            await asyncio.wait([*self._tasks, *([self._probe] if self._probe else [])])

    async def check(self) -> str:
        """Return why the plugin is not healthy, "" if it is. The last probe answers while it is new
        enough."""
        ttl = UNHEALTHY_SECONDS if self._problem else HEALTHY_SECONDS
        if self._clock.now() - self._probed < ttl or self._is_closed:
            return self._problem
        if self._probe is None:
            self._probe = asyncio.get_running_loop().create_task(self._run_probe())
        # A health check gives up earlier than a call of the plugin.
        return await asyncio.shield(self._probe)

    def _schedule(self) -> None:
        if self._is_closed:
            return
        seconds = RETRY_SECONDS if self._problem or self._failures else POLL_SECONDS
        self._timer = self._clock.call_later(seconds, self._start_poll)

    def _start_poll(self) -> None:
        self._tasks.start(self._poll())

    async def _poll(self) -> None:
        await self.check()
        if not self._problem and self._failures:
            await self._load_all(
                {failure: decode_source(failure) for failure in list(self._failures)}
            )
        self._schedule()

    async def _run_probe(self) -> str:
        previous = self._problem
        try:
            self._problem = await self._probe_problem()
        finally:
            self._probe = None
        self._probed = self._clock.now()
        if self._is_closed or self._problem == previous:
            return self._problem
        if self._problem:
            _log.warning("the KMS plugin %s failed its health check: %s", self.name, self._problem)
        elif previous != _NEVER_CALLED:
            _log.info("the KMS plugin %s works again", self.name)
        return self._problem

    async def _probe_problem(self) -> str:
        started = self._clock.now()
        try:
            status = await self._service.status()
        except KMSError as error:
            return (
                "failed to perform status section of the healthz check for KMS Provider "
                f"{self.name}, error: {error}"
            )
        problems = [*self._status_problems(status)]
        problem = key_id_problem(status.key_id)
        if problem:
            code = "too_long" if status.key_id else "empty"
            self._metrics.invalid_key_ids.add((self.name, code))
            key_id = hash_of(status.key_id)
            problems.append(f'got invalid KMSv2 KeyID hash "{key_id}": {problem}')
        else:
            self._metrics.report_key(self.name, status.key_id, self._clock.now())
            problems += await self._rotate(status.key_id, started)
        if not problems:
            return ""
        return f"kmsv2 Provider {self.name} is not healthy, error: {join_errors(problems)}"

    def _status_problems(self, status: StatusResponse) -> Sequence[str]:
        problems = []
        if status.healthz != "ok":
            problems.append(f"got unexpected healthz status: {status.healthz}")
        if status.version not in _VERSIONS:
            problems.append(f"expected KMSv2 API version v2, got {status.version}")
        elif self._version not in ("", status.version):
            problems.append(
                "KMSv2 API version should not change after the initial status response version "
                f"{self._version}, got {status.version}"
            )
        else:
            self._version = status.version
        return problems

    async def _rotate(self, key_id: str, started: float) -> Sequence[str]:
        """Use a new seed if the plugin's key ID is not that of the current one, else go on with
        that one. Return the problems; the current seed stays in force then."""
        state, expires = self._state, started + MAX_SECONDS
        if state is not None and state.key.source.key_id == key_id:
            self._state = _WriteState(state.key, state.encoded, expires)
            return ()
        source, problem = None, ""
        try:
            key = await self._new_key()
            source = key.source
        except (KMSError, InvalidMessage) as error:
            problem = str(error)
        else:
            if source.key_id == key_id:
                encoded = source.encode()
                self._state = _WriteState(key, encoded, expires)
                self._add(encoded, key)
                return ()
        in_force = hash_of(state.key.source.key_id) if state is not None else ""
        return (
            f"failed to rotate DEK, error: {problem or 'the key ID of the status differs'}, "
            f'statusKeyIDHash="{hash_of(key_id)}", '
            f'encryptKeyIDHash="{hash_of(source.key_id) if source else ""}", '
            f'stateKeyIDHash="{in_force}"',
        )

    async def _new_key(self) -> _Key:
        """Return a new seed, encrypted by the plugin. Raises KMSError, InvalidMessage."""
        started = time.perf_counter()
        try:
            seed = os.urandom(_SEED_BYTES)
        except OSError:
            self._metrics.key_generation_failures += 1
            raise
        cipher = ExtendedNonceAESGCM(seed)
        self._metrics.key_generation_seconds.observe("", time.perf_counter() - started)
        try:
            return self._key(cipher, await self._service.encrypt(seed))
        except KMSError as error:
            raise KMSError(f"failed to encrypt DEK, error: {error}") from None


def _cipher(plaintext: bytes, source: KeySource) -> AESGCM:
    """Return the cipher of a key or seed. Raises ValueError for a wrong length."""
    if source.source_type == HKDF_SEED:
        return ExtendedNonceAESGCM(plaintext)
    return AESGCM(plaintext)


def _bound(cache: dict[bytes, Any]) -> None:
    """Remove the oldest entry of a full cache."""
    if len(cache) > MAX_SEEDS:
        del cache[next(iter(cache))]


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
