"""The metrics of the store and of the watch caches of resources.

Labels and buckets are those of storage/etcd3/metrics, storage/cacher/metrics and endpoints/metrics
of k8s.io/apiserver. Whichever backend a store has, the names are those of etcd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.metrics import STORAGE_LABELS, Metrics
from kapiserver.apiserver.serving.metrics.families import counts, histogram, numbers
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.metrics import Observations
from kapiserver.storage.cache.metrics import FILL_SECONDS, FRAME_BYTES, WAIT_SECONDS, ListMetrics
from kapiserver.storage.objects.object_store import ResourceStore

_RESOURCE = ("group", "resource")
_REVISION_DIGITS = 10**15
"""A revision modulo this number is exact as a floating-point number."""
_Stores: TypeAlias = Sequence[tuple[tuple[str, str], ResourceStore]]
_Number: TypeAlias = Callable[[ResourceStore], float]

_NUMBERS: Sequence[tuple[Literal["counter", "gauge"], str, str, _Number]] = (
    ("gauge", "apiserver_resource_objects", "Objects in the watch cache.", lambda s: s.cache.count),
    (
        "gauge",
        "apiserver_resource_size_estimate_bytes",
        "Bytes of the stored objects, estimated from some of them.",
        lambda store: store.cache.count * store.cache.average_bytes(),
    ),
    (
        "gauge",
        "apiserver_watch_cache_resource_version",
        "The last 15 digits of the revision up to which the watch cache has seen the store.",
        lambda store: store.cache.revision % _REVISION_DIGITS,
    ),
    (
        "gauge",
        "watch_cache_capacity",
        "Recent events that the watch cache has room for at present.",
        lambda store: store.cache.capacity,
    ),
    (
        "counter",
        "apiserver_storage_events_received_total",
        "Changes that the store's watch brought.",
        lambda store: store.cache.metrics.events_received,
    ),
    (
        "counter",
        "apiserver_watch_cache_events_received_total",
        "Changes that the watch cache got from the store.",
        lambda store: store.cache.metrics.events_received,
    ),
    (
        "counter",
        "apiserver_watch_cache_events_dispatched_total",
        "Changes that the watch cache passed on to the delivery to watchers.",
        lambda store: store.cache.metrics.events_received,
    ),
    (
        "counter",
        "etcd_bookmark_total",
        "Notifications of the store's watch that no change is missing.",
        lambda store: store.cache.metrics.progress_notes,
    ),
    (
        "counter",
        "apiserver_init_events_total",
        "Events with which watches began: objects, and changes since a revision.",
        lambda store: store.watch_metrics.initial_events,
    ),
    (
        "counter",
        "apiserver_terminated_watchers_total",
        "Watches that were ended because their clients read too slowly.",
        lambda store: store.watch_metrics.ended_watches,
    ),
    (
        "counter",
        "apiserver_watch_cache_initializations_total",
        "How often the watch cache was filled.",
        lambda store: sum(store.cache.metrics.fill_seconds.counts),
    ),
    (
        "counter",
        "apiserver_watch_cache_initialization_errors_total",
        "How often the watch cache could not be filled.",
        lambda store: store.cache.metrics.failed_fills,
    ),
)


def storage_families(server: Server, size: int | None) -> Iterator[Family]:
    """Yield the families of the store and of the resources in use; `size` is that of the store in
    bytes, None if the store did not tell it."""
    yield from _operations(server.metrics)
    yield Family(
        name="apiserver_storage_size_bytes",
        type="gauge",
        text="Bytes of the database file, or of the tables of the store.",
        labels=("storage_cluster_id",),
        series=[] if size is None else [(("etcd-0",), size)],
    )
    stores = [
        ((store.resource.group, store.resource.name), store) for store in server.stores.in_use()
    ]
    for type, name, text, number in _NUMBERS:
        series = [(names, number(store)) for names, store in stores]
        yield Family(name=name, type=type, text=text, labels=_RESOURCE, series=series)
    yield from _caches(stores)
    yield from _watches(stores)
    yield from _lists(stores)


def _operations(metrics: Metrics) -> Iterator[Family]:
    yield histogram(
        "etcd_request_duration_seconds",
        "Seconds that one operation of the store took, whichever backend it is.",
        STORAGE_LABELS,
        metrics.storage_seconds,
    )
    yield counts(
        "etcd_requests_total",
        "Operations of the store, whichever backend it is.",
        STORAGE_LABELS,
        metrics.storage_seconds,
    )
    yield numbers(
        "counter",
        "etcd_request_errors_total",
        "Operations of the store that it could not execute.",
        STORAGE_LABELS,
        metrics.storage_errors,
    )


def _caches(stores: _Stores) -> Iterator[Family]:
    yield Family(
        name="apiserver_watch_cache_initialization_duration_seconds",
        type="histogram",
        text="Seconds that it took to fill the watch cache.",
        labels=_RESOURCE,
        series=_observed((names, store.cache.metrics.fill_seconds) for names, store in stores),
        bounds=FILL_SECONDS,
    )
    yield Family(
        name="apiserver_watch_cache_read_wait_seconds",
        type="histogram",
        text="Seconds that reads waited for a revision that the watch cache did not have.",
        labels=_RESOURCE,
        series=_observed((names, store.cache.metrics.wait_seconds) for names, store in stores),
        bounds=WAIT_SECONDS,
    )
    yield Family(
        name="apiserver_watch_cache_consistent_read_total",
        type="counter",
        text="Reads of the newest revision, by whether the watch cache got it in time.",
        labels=(*_RESOURCE, "success", "fallback"),
        series=(
            ((*names, success, "false"), number)
            for names, store in stores
            for success, number in zip(
                ("false", "true"), store.cache.metrics.consistent_reads, strict=True
            )
            if number
        ),
    )


def _watches(stores: _Stores) -> Iterator[Family]:
    labels = ("group", "version", "resource")
    sizes = [
        ((version.group, version.version, store.resource.name), sizes)
        for _, store in stores
        for version, sizes in list(store.watch_metrics.frame_bytes.items())
    ]
    yield Family(
        name="apiserver_watch_events_total",
        type="counter",
        text="Events written to watchers.",
        labels=labels,
        series=((names, sum(observations.counts)) for names, observations in sizes),
    )
    yield Family(
        name="apiserver_watch_events_sizes",
        type="histogram",
        text="Bytes of the events written to watchers.",
        labels=labels,
        series=sizes,
        bounds=FRAME_BYTES,
    )


def _lists(stores: _Stores) -> Iterator[Family]:
    counted = [
        ((*names, storage), metrics)
        for names, store in stores
        for storage, metrics in store.list_metrics.items()
        if metrics.lists
    ]
    families: Sequence[tuple[str, str, bool, Callable[[ListMetrics], int]]] = (
        ("", "Lists, by where they were read.", True, lambda lists: lists.lists),
        ("_fetched_objects", "Objects read for lists.", True, lambda lists: lists.fetched),
        (
            "_evaluated_objects",
            "Objects read from the store that lists tried their selectors on.",
            False,
            lambda lists: lists.evaluated,
        ),
        ("_returned_objects", "Objects that lists selected.", False, lambda lists: lists.returned),
    )
    for name, text, by_index, number in families:
        yield Family(
            name=f"apiserver_storage_list{name}_total",
            type="counter",
            text=text,
            labels=(*_RESOURCE, "storage", *(["index"] if by_index else [])),
            series=[
                ((*names, *([""] if by_index else [])), number(lists)) for names, lists in counted
            ],
        )


def _observed(
    rows: Iterable[tuple[tuple[str, str], Observations]],
) -> Iterator[tuple[tuple[str, str], Observations]]:
    """Yield the rows that have observations."""
    return (row for row in rows if any(row[1].counts))
