"""Strategies of the storagemigration group."""

from __future__ import annotations

from kapiserver.api.errors import FieldError
from kapiserver.api.storagemigration.validation import (
    validate_migration,
    validate_migration_status_update,
    validate_migration_update,
)
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class MigrationStrategy(SpecStrategy):
    """The strategy of storage version migrations, whose spec is immutable."""

    allow_unconditional_update = False
    tracks_generation = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_migration(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_migration_update(new, old))


_MIGRATION = MigrationStrategy()

STRATEGIES: dict[str, Strategy] = {
    "storageversionmigrations": _MIGRATION,
    "storageversionmigrations/status": StatusStrategy(
        _MIGRATION,
        preserved_metadata=STATUS_METADATA,
        validate_status=validate_migration_status_update,
    ),
}
