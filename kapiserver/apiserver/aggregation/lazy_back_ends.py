"""The connections to extension API servers, made at their first use: most servers have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.apiserver.file_watch import FileWatch
from kapiserver.apiserver.proxy_settings import AggregationSettings
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.objects.store_registry import StoreRegistry

if TYPE_CHECKING:
    from kapiserver.apiserver.aggregation.back_ends import BackEnds


class LazyBackEnds:
    """The connections to extension API servers, made when an APIService first names one, or at
    start if flags say how they are reached."""

    def __init__(
        self,
        settings: AggregationSettings,
        stores: StoreRegistry,
        offloader: Offloader,
        file_watch: FileWatch,
    ) -> None:
        """Raises ValueError for an unusable file."""
        self._settings = settings
        self._stores = stores
        self._offloader = offloader
        self._file_watch = file_watch
        self._made: BackEnds | None = None
        if settings != AggregationSettings():
            self.get()

    def get(self) -> BackEnds:
        """Return the connections."""
        if self._made is None:
            from kapiserver.apiserver.aggregation.back_ends import BackEnds

            self._made = BackEnds(self._settings, self._stores, self._offloader)
            self._file_watch.add_files(self._made.files, self._made.reload)
        return self._made

    @property
    def is_made(self) -> bool:
        """Whether an APIService or a flag has needed them."""
        return self._made is not None

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._made is not None:
            self._made.close()
