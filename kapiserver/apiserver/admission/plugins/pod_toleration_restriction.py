"""PodTolerationRestriction: adds the default tolerations of the namespace to its pods, and allows
only tolerations that the namespace lists.

Both lists are in annotations of the namespace, or in the configuration. Mirrors
plugin/pkg/admission/podtolerationrestriction and pkg/util/tolerations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kapiserver.api.accessors import annotations_of
from kapiserver.api.core import v1
from kapiserver.api.core.pods.quality_of_service import quality_of_service
from kapiserver.api.core.validation.scheduling import validate_tolerations
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Kind, Tree, field
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.admission.namespaces import namespace_object
from kapiserver.apiserver.admission.pod_cost import pod_cost
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST_ANNOTATION = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_MEMORY_PRESSURE = {
    "key": "node.kubernetes.io/memory-pressure",
    "operator": "Exists",
    "effect": "NoSchedule",
}
_TEXTS = ("key", "operator", "value", "effect")


class Configuration(Kind):
    """The configuration of PodTolerationRestriction, for namespaces without annotations."""

    default: list[v1.Toleration] = field(1)
    whitelist: list[v1.Toleration] = field(2)


_KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind(
        "podtolerationrestriction.admission.k8s.io", "v1alpha1", "Configuration"
    ): Configuration
}


class PodTolerationRestriction:
    """The tolerations of one server's namespaces. Raises BadAdmissionConfiguration for a bad
    configuration."""

    def __init__(self, configuration: PluginConfiguration) -> None:
        tree = configuration.decode(_KINDS, _errors)
        self._defaults: Sequence[Tree] = tree.get("default") or ()
        self._whitelist: Sequence[Tree] = tree.get("whitelist") or ()

    async def admit(
        self, server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
    ) -> None:
        """Add the default tolerations to a new pod, and that of memory pressure to a pod that is
        not BestEffort. Raises Forbidden as `validate` does."""
        if new is None:
            return
        spec = new.setdefault("spec", {})
        defaults: Sequence[Tree] = ()
        if attributes.operation == "CREATE":
            defaults = await self._tolerations(server, attributes, DEFAULTS, self._defaults)
        run = server.offloader.run
        await run(pod_cost(spec), _add_tolerations, new, defaults)
        await self.validate(server, attributes, new, old)

    async def validate(
        self, server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
    ) -> None:
        """Raise Forbidden for a toleration that the namespace does not list."""
        tolerations = ((new or {}).get("spec") or {}).get("tolerations")
        if not tolerations:
            return
        allowed = await self._tolerations(server, attributes, WHITELIST_ANNOTATION, self._whitelist)
        if allowed and not all(
            any(_covers(covering, toleration) for covering in allowed) for toleration in tolerations
        ):
            raise attributes.forbidden(
                "pod tolerations (possibly merged with namespace default tolerations) conflict "
                "with its namespace whitelist"
            )

    async def _tolerations(
        self, server: Server, attributes: Attributes, annotation: str, default: Sequence[Tree]
    ) -> Sequence[Tree]:
        """Return the tolerations in an annotation of the namespace. Without the annotation it is
        the default; an empty one has no tolerations."""
        namespace = await namespace_object(server, attributes.target.key.namespace)
        text = annotations_of(namespace).get(annotation)
        if text is None:
            return default
        try:
            return _parse_tolerations(text) if text else ()
        except ValueError as error:
            raise attributes.forbidden(f"annotation {annotation}: {error}") from None


def _add_tolerations(pod: Tree, defaults: Sequence[Tree]) -> None:
    spec = pod["spec"]
    tolerations = _merge(defaults, spec.get("tolerations") or ())
    if quality_of_service(pod) != "BestEffort":
        tolerations = _merge(tolerations, (_MEMORY_PRESSURE,))
    if tolerations:
        spec["tolerations"] = tolerations
        reorder_keys(spec, v1.PodSpec)


def _merge(first: Sequence[Tree], second: Sequence[Tree]) -> list[Tree]:
    """Return the tolerations of both, without those that another covers."""
    merged: list[Tree] = []
    tolerations = [*first, *second]
    for index, toleration in enumerate(tolerations):
        is_covered = any(_covers(covering, toleration) for covering in merged) or any(
            not _is_equal(covering, toleration) and _covers(covering, toleration)
            for covering in tolerations[index + 1 :]
        )
        if not is_covered:
            merged.append(dict(toleration))
    return merged


def _covers(wide: Tree, toleration: Tree) -> bool:
    """Whether a toleration tolerates all taints that another one tolerates."""
    if _is_equal(wide, toleration):
        return True
    key, operator, value, effect = _texts(wide)
    other_key, other_operator, other_value, other_effect = _texts(toleration)
    if key != other_key and (key or operator != "Exists"):
        return False
    if effect and effect != other_effect:
        return False
    seconds, other_seconds = wide.get("tolerationSeconds"), toleration.get("tolerationSeconds")
    if (
        effect == "NoExecute"
        and seconds is not None
        and (other_seconds is None or other_seconds > seconds)
    ):
        return False
    if operator in ("", "Equal"):
        return other_operator == "Equal" and other_value == value
    return operator == "Exists"


def _is_equal(left: Tree, right: Tree) -> bool:
    name = "tolerationSeconds"
    return _texts(left) == _texts(right) and left.get(name) == right.get(name)


def _texts(toleration: Tree) -> list[str]:
    return [toleration.get(name) or "" for name in _TEXTS]


def _parse_tolerations(text: str) -> list[Tree]:
    """Return the tolerations in an annotation. Raises ValueError."""
    tolerations = json.loads(text)
    if not isinstance(tolerations, list) or not all(map(_is_toleration, tolerations)):
        raise ValueError("must be a list of tolerations")
    return tolerations


def _is_toleration(tree: object) -> bool:
    if not isinstance(tree, dict):
        return False
    seconds = tree.get("tolerationSeconds")
    return all(isinstance(tree.get(name) or "", str) for name in _TEXTS) and (
        seconds is None or (isinstance(seconds, int) and not isinstance(seconds, bool))
    )


def _errors(tree: Tree) -> Iterator[FieldError]:
    path = Path("podtolerationrestriction")
    for name in ("default", "whitelist"):
        yield from validate_tolerations(tree.get(name), path / name)
