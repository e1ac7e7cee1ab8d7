"""EventRateLimit: limits how many events are written in a second, by server, namespace, user, or
source and object.

Mirrors plugin/pkg/admission/eventratelimit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from kapiserver.api.errors import FieldError, Path, invalid, not_supported
from kapiserver.api.go_format import join_errors
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Kind, Tree, Type, field, int32
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import TooManyRequests

_CACHE_SIZE = 4096
"""The default of `cacheSize`."""


class Limit(Type):
    """One limit. `cacheSize` is the maximum number of namespaces, users or sources that are
    counted."""

    type: str = field(1, always=True)
    qps: int32 = field(2, always=True)
    burst: int32 = field(3, always=True)
    cacheSize: int32 = field(4)


class Configuration(Kind):
    """The configuration of EventRateLimit."""

    limits: list[Limit] = field(1)


_KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind("eventratelimit.admission.k8s.io", "v1alpha1", "Configuration"): Configuration
}


class EventRateLimit:
    """The limits of one server. Raises BadAdmissionConfiguration for a bad configuration."""

    def __init__(self, configuration: PluginConfiguration) -> None:
        tree = configuration.decode(_KINDS, _errors)
        self._limiters = [_Limiter(limit) for limit in tree["limits"]]

    async def validate(
        self, server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
    ) -> None:
        """Count an event. Raises TooManyRequests if it exceeds a limit."""
        now = server.clock.now()
        reached = [
            f"limit reached on type {limiter.type} for key {key}"
            for limiter in self._limiters
            if (key := limiter.exceeded_key(attributes, new or {}, now)) is not None
        ]
        if reached:
            raise TooManyRequests(f"Too many requests: {join_errors(reached)}")


class _Limiter:
    """Counts the events of one limit by its key: a token bucket for each."""

    def __init__(self, limit: Tree) -> None:
        self.type: str = limit["type"]
        self._qps, self._burst = limit["qps"], limit["burst"]
        self._size = limit.get("cacheSize") or _CACHE_SIZE
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def exceeded_key(self, attributes: Attributes, event: Tree, now: float) -> str | None:
        """Take a token for an event. Return its key if there is none, else None."""
        key = _KEYS[self.type](attributes, event)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(tokens=self._burst, time=now)
            if len(self._buckets) > self._size:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        elapsed = max(now - bucket.time, 0.0)  # a wall clock may be set back
        bucket.tokens = min(bucket.tokens + elapsed * self._qps, self._burst)
        bucket.time = now
        if bucket.tokens < 1:
            return key
        bucket.tokens -= 1
        return None


class _Bucket(Struct):
    """The tokens that one key had at `time`, in seconds since the epoch."""

    tokens: float
    time: float


def _source_and_object(_attributes: Attributes, event: Tree) -> str:
    source, involved = event.get("source") or {}, event.get("involvedObject") or {}
    parts = [source.get(name) or "" for name in ("component", "host")]
    parts += [
        involved.get(name) or "" for name in ("kind", "namespace", "name", "uid", "apiVersion")
    ]
    return "".join(parts)


_KEYS: Mapping[str, Callable[[Attributes, Tree], str]] = {
    "Server": lambda _attributes, _event: "",
    "Namespace": lambda attributes, _event: attributes.target.key.namespace,
    "User": lambda attributes, _event: attributes.user.name,
    "SourceAndObject": _source_and_object,
}


def _errors(tree: Tree) -> Iterator[FieldError]:
    limits, path = tree.get("limits") or [], Path("limits")
    if not limits:
        yield invalid(path, limits, "must not be empty")
    for index, limit in enumerate(limits):
        limit_path, type_ = path[index], limit.get("type") or ""
        if type_ not in _KEYS:
            yield not_supported(limit_path / "type", type_, sorted(_KEYS))
        for name in ("burst", "qps"):
            if (limit.get(name) or 0) <= 0:
                yield invalid(limit_path / name, limit.get(name) or 0, "must be positive")
        if type_ != "Server" and (limit.get("cacheSize") or 0) < 0:
            yield invalid(limit_path / "cacheSize", limit["cacheSize"], "must not be negative")
