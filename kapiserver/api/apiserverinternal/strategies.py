"""How writes of the internal.apiserver group behave."""

from __future__ import annotations

from kapiserver.api.apiserverinternal.validation import storage_version_name, validate_status_update
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy


class StorageVersionStrategy(SpecStrategy):
    """Nothing is asked for: all is in the status."""

    allow_unconditional_update = False
    generations = False

    def check_name(self, name: str) -> list[str]:
        return storage_version_name(name)


_VERSION = StorageVersionStrategy()

STRATEGIES: dict[str, Strategy] = {
    "storageversions": _VERSION,
    "storageversions/status": StatusStrategy(
        _VERSION, keeps_metadata=STATUS_METADATA, rule=validate_status_update
    ),
}
