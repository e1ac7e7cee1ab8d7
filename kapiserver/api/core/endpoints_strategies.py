"""How writes of endpoints behave."""

from __future__ import annotations

from kapiserver.api.addresses import ip_warnings
from kapiserver.api.core import v1
from kapiserver.api.core.subsets import repacked
from kapiserver.api.core.validation.endpoints import validate_endpoints
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.objects import labels_of
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree

_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_OWN_CONTROLLER = "endpoint-controller"


class EndpointsStrategy(Strategy):
    """Its subsets are kept in one form, whichever way they were grouped."""

    allow_create_on_update = True

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_endpoints(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        """What lay there before, under other rules, may stay as a whole."""
        same = (new.get("subsets") or []) == (old.get("subsets") or [])
        return [] if same else self.validate(new)

    def canonicalize(self, obj: Tree) -> None:
        if obj.get("subsets"):
            obj["subsets"] = repacked(obj["subsets"])
            for subset in obj["subsets"]:
                reorder_keys(subset, v1.EndpointSubset)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if labels_of(new).get(_MANAGED_BY) == _OWN_CONTROLLER:
            return []
        return [
            text
            for index, subset in enumerate(new.get("subsets") or ())
            for kind in ("addresses", "notReadyAddresses")
            for number, one in enumerate(subset.get(kind) or ())
            for text in ip_warnings(
                one.get("ip") or "", (Path("subsets")[index] / kind)[number] / "ip"
            )
        ]


STRATEGIES: dict[str, Strategy] = {"endpoints": EndpointsStrategy()}
