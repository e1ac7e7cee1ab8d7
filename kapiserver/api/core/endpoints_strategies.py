"""The strategy of endpoints."""

from __future__ import annotations

from kapiserver.api.accessors import labels_of
from kapiserver.api.addresses import ip_warnings
from kapiserver.api.core import v1
from kapiserver.api.core.endpoint_subsets import repack_subsets
from kapiserver.api.core.validation.endpoints import validate_endpoints
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree

_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_OWN_CONTROLLER = "endpoint-controller"


class EndpointsStrategy(Strategy):
    """The strategy of endpoints, which stores subsets in canonical form."""

    allow_create_on_update = True

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_endpoints(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        """Validate the subsets if they changed. Old ones need not be valid."""
        is_unchanged = (new.get("subsets") or []) == (old.get("subsets") or [])
        return [] if is_unchanged else self.validate(new)

    def canonicalize(self, obj: Tree) -> None:
        if obj.get("subsets"):
            obj["subsets"] = repack_subsets(obj["subsets"])
            for subset in obj["subsets"]:
                reorder_keys(subset, v1.EndpointSubset)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if labels_of(new).get(_MANAGED_BY) == _OWN_CONTROLLER:
            return []
        return [
            text
            for index, subset in enumerate(new.get("subsets") or ())
            for kind in ("addresses", "notReadyAddresses")
            for number, address in enumerate(subset.get(kind) or ())
            for text in ip_warnings(
                address.get("ip") or "", (Path("subsets")[index] / kind)[number] / "ip"
            )
        ]


STRATEGIES: dict[str, Strategy] = {"endpoints": EndpointsStrategy()}
