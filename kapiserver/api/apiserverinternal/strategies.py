"""Strategies of the internal.apiserver group."""

from __future__ import annotations

from kapiserver.api.apiserverinternal.validation import name_problems, validate_status_update
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy


class StorageVersionStrategy(SpecStrategy):
    """The strategy of storage versions, whose spec is empty."""

    allow_unconditional_update = False
    tracks_generation = False

    def check_name(self, name: str) -> list[str]:
        return name_problems(name)


_VERSION = StorageVersionStrategy()

STRATEGIES: dict[str, Strategy] = {
    "storageversions": _VERSION,
    "storageversions/status": StatusStrategy(
        _VERSION, preserved_metadata=STATUS_METADATA, validate_status=validate_status_update
    ),
}
