"""DefaultTolerationSeconds: lets pods tolerate an unreachable or not ready node for five minutes.

Mirrors plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from kapiserver.api.core import v1
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server

SECONDS = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


async def admit(
    _server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Add the tolerations that the pod does not have."""
    if new is None or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    tolerations = spec.get("tolerations") or []
    missing = [
        key for key in _TAINTS if not any(_tolerates(toleration, key) for toleration in tolerations)
    ]
    if missing:
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
            for key in missing
        ]
        spec["tolerations"] = [*tolerations, *added]
        reorder_keys(spec, v1.PodSpec)


def _tolerates(toleration: Tree, key: str) -> bool:
    return (toleration.get("key") or key) == key and (
        toleration.get("effect") or "NoExecute"
    ) == "NoExecute"
