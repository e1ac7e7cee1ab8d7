"""DefaultTolerationSeconds: lets pods tolerate an unreachable or not ready node for some time, five
minutes by default.

Mirrors plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.api.core import v1
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.config import AdmissionSettings
from kapiserver.apiserver.context import Server


def seconds_by_taint(settings: AdmissionSettings) -> Mapping[str, int]:
    """Return the tolerated seconds of the flags, by the key of the taint."""
    return {
        "node.kubernetes.io/not-ready": settings.default_not_ready_toleration_seconds,
        "node.kubernetes.io/unreachable": settings.default_unreachable_toleration_seconds,
    }


async def admit(
    seconds: Mapping[str, int],
    _server: Server,
    attributes: Attributes,
    new: Tree | None,
    _old: Tree | None,
) -> None:
    """Add the tolerations that the pod does not have."""
    if new is None or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    tolerations = spec.get("tolerations") or []
    missing = [
        key for key in seconds if not any(_tolerates(toleration, key) for toleration in tolerations)
    ]
    if missing:
        added = [
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": seconds[key],
            }
            for key in missing
        ]
        spec["tolerations"] = [*tolerations, *added]
        reorder_keys(spec, v1.PodSpec)


def _tolerates(toleration: Tree, key: str) -> bool:
    return (toleration.get("key") or key) == key and (
        toleration.get("effect") or "NoExecute"
    ) == "NoExecute"
