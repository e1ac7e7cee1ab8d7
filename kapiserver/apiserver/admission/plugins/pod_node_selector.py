"""PodNodeSelector: adds the node selector of the namespace to its pods, and allows only the labels
that the configuration lists for the namespace.

The selector is in an annotation of the namespace, or is the default of the configuration. Mirrors
plugin/pkg/admission/podnodeselector.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.api.accessors import annotations_of
from kapiserver.api.core import v1
from kapiserver.api.errors import BadObject
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.selectors import requirement
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.admission.namespaces import namespace_object
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_FIELD, _DEFAULT = "podNodeSelectorPluginConfig", "clusterDefaultNodeSelector"


class PodNodeSelector:
    """The node selectors of one server's namespaces. Raises BadAdmissionConfiguration for a bad
    configuration."""

    def __init__(self, configuration: PluginConfiguration) -> None:
        selectors = configuration.decode_unversioned().get(_FIELD)
        selectors = {} if selectors is None else selectors
        if not isinstance(selectors, dict):
            raise configuration.error(f"{_FIELD} must be an object")
        self._labels: dict[str, Mapping[str, str]] = {}
        for name, text in selectors.items():
            try:
                self._labels[name] = parse_labels_map(str(text or ""))
            except BadObject as error:
                raise configuration.error(str(error)) from None

    async def admit(
        self, server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
    ) -> None:
        """Add the selector of the namespace. Raises Forbidden if the pod contradicts it, or has
        labels that are not allowed."""
        if new is None:
            return
        labels = await self._namespace_labels(server, attributes)
        spec = new.setdefault("spec", {})
        selector = spec.get("nodeSelector") or {}
        self._check(attributes, selector, labels)
        merged = {**labels, **selector}
        if merged:
            spec["nodeSelector"] = dict(sorted(merged.items()))
            reorder_keys(spec, v1.PodSpec)
        self._check_allowed(attributes, merged)

    async def validate(
        self, server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
    ) -> None:
        """Raise Forbidden as `admit` does: other plugins may have changed the pod."""
        selector = ((new or {}).get("spec") or {}).get("nodeSelector") or {}
        self._check(attributes, selector, await self._namespace_labels(server, attributes))
        self._check_allowed(attributes, selector)

    async def _namespace_labels(self, server: Server, attributes: Attributes) -> Mapping[str, str]:
        namespace = await namespace_object(server, attributes.target.key.namespace)
        text = annotations_of(namespace).get(ANNOTATION)
        if text is None:
            return self._labels.get(_DEFAULT) or {}
        try:
            return parse_labels_map(text)
        except BadObject as error:
            raise attributes.forbidden(str(error)) from None

    @staticmethod
    def _check(
        attributes: Attributes, selector: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        if any(selector.get(name, value) != value for name, value in labels.items()):
            raise attributes.forbidden(
                "pod node label selector conflicts with its namespace node label selector"
            )

    def _check_allowed(self, attributes: Attributes, selector: Mapping[str, str]) -> None:
        allowed = self._labels.get(attributes.target.key.namespace)
        if allowed and not selector.items() <= allowed.items():
            raise attributes.forbidden(
                "pod node label selector labels conflict with its namespace whitelist"
            )


def parse_labels_map(text: str) -> dict[str, str]:
    """Return the labels of a text such as `a=b,c=d`. Raises BadObject."""
    labels: dict[str, str] = {}
    for part in text.split(",") if text else ():
        pieces = part.split("=")
        if len(pieces) != 2:
            raise BadObject(f"invalid selector: [{' '.join(pieces)}]")
        name, value = (piece.strip() for piece in pieces)
        requirement(name, "=", (value,))  # checks both
        labels[name] = value
    return labels
