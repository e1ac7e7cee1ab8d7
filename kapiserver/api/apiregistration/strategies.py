"""Strategies of the apiregistration group."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.apiregistration.validation import validate_api_service, validate_status_update
from kapiserver.api.errors import FieldError
from kapiserver.api.metadata_validation import any_finalizers
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class APIServiceStrategy(SpecStrategy):
    """The strategy of API services. A service of this server is available at once."""

    allow_unconditional_update = False
    tracks_generation = False

    def check_name(self, name: str) -> list[str]:
        return names.path_segment(name)

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        if value_at(obj, "spec", "service") is None:
            obj["status"]["conditions"] = [
                {
                    "type": "Available",
                    "status": "True",
                    "lastTransitionTime": value_at(obj, "metadata", "creationTimestamp"),
                    "reason": "Local",
                    "message": "Local APIServices are always available",
                }
            ]

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_api_service(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_api_service(new))


_SERVICE = APIServiceStrategy()

STRATEGIES: dict[str, Strategy] = {
    "apiservices": _SERVICE,
    "apiservices/status": StatusStrategy(
        _SERVICE,
        preserved_metadata=("labels", "annotations", "finalizers", "ownerReferences"),
        validate_status=validate_status_update,
    ),
}
