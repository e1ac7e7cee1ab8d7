"""Defaults of CustomResourceDefinitions.

Mirrors k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go.
"""

from __future__ import annotations

from kapiserver.api.apiextensions import v1
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree


def _definition(obj: Tree) -> None:
    spec = obj["spec"]
    names = spec["names"]
    if not names.get("singular"):
        names["singular"] = names["kind"].lower()
    if not names.get("listKind") and names["kind"]:
        names["listKind"] = f"{names['kind']}List"
    reorder_keys(names, v1.CustomResourceDefinitionNames)
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
        reorder_keys(spec, v1.CustomResourceDefinitionSpec)
    status = obj["status"]
    if not status.get("storedVersions"):
        for version in spec.get("versions") or ():
            if version["storage"]:
                status["storedVersions"] = [version["name"]]
                break


def _service(service: Tree) -> None:
    if service.get("port") is None:
        service["port"] = 443


DEFAULTS = {
    v1.CustomResourceDefinition: _definition,
    v1.ServiceReference: _service,
}
