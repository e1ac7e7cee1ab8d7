"""CustomResourceDefinitions for tests, and functions that wait for their conditions."""

import itertools
import json
from typing import Any

from tests.apiserver.conftest import Api, Response

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = itertools.count(1)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "default": 3},
                "color": {"type": "string", "enum": ["red", "green", ""]},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}


def version(name: str = "v1", schema: Any = None, **more: Any) -> dict[str, Any]:
    """A version of a definition, served and stored."""
    validation = {"openAPIV3Schema": SCHEMA if schema is None else schema}
    return {"name": name, "served": True, "storage": True, "schema": validation, **more}


def definition(
    *versions: Any, group: str = "", scope: str = "Namespaced", names: Any = None, **spec: Any
) -> dict[str, Any]:
    """A CustomResourceDefinition of Widgets in a group of its own."""
    group = group or f"g{next(_numbers)}.example.com"
    all_names = {"plural": "widgets", "kind": "Widget", **(names or {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{all_names['plural']}.{group}"},
        "spec": {
            "group": group,
            "names": all_names,
            "scope": scope,
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def conditions(obj: Any) -> dict[str, tuple[str, str]]:
    """A mapping of condition types to (status, reason)."""
    items = obj.get("status", {}).get("conditions") or []
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in items}


def wait_for_condition(api: Api, name: str, type_: str, value: str) -> Any:
    """Watch until a condition has the given status; return the definition."""
    path = f"{CRDS}?watch=1&fieldSelector=metadata.name={name}"
    with api.watch(path) as stream:
        while True:
            event = stream.event()
            assert event is not None
            if conditions(event["object"]).get(type_, ("",))[0] == value:
                return event["object"]


def wait_until_deleted(api: Api, name: str) -> None:
    """Watch until the definition is deleted."""
    definitions = api.get(f"{CRDS}?fieldSelector=metadata.name={name}").json
    if not definitions["items"]:
        return
    revision = definitions["metadata"]["resourceVersion"]
    path = f"{CRDS}?watch=1&fieldSelector=metadata.name={name}&resourceVersion={revision}"
    with api.watch(path) as stream:
        while stream.event()["type"] != "DELETED":
            pass


def establish(api: Api, crd: Any) -> str:
    """Create a definition and wait until it is Established. Returns the path of its first version,
    in the namespace default if the kind is namespaced."""
    response = api.post(CRDS, crd)
    assert response.status == 201, response.body
    wait_for_condition(api, crd["metadata"]["name"], "Established", "True")
    return path_of(crd)


def path_of(crd: Any, version_name: str = "") -> str:
    spec = crd["spec"]
    name = version_name or spec["versions"][0]["name"]
    folder = "/namespaces/default" if spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{name}{folder}/{spec['names']['plural']}"


def widget(crd: Any, name: str, version_name: str = "", **more: Any) -> dict[str, Any]:
    """An object of the definition's kind."""
    spec = crd["spec"]
    return {
        "apiVersion": f"{spec['group']}/{version_name or spec['versions'][0]['name']}",
        "kind": spec["names"]["kind"],
        "metadata": {"name": name},
        **more,
    }


def apply(api: Api, path: str, obj: Any, manager: str, query: str = "") -> Response:
    """Server-side apply of an object."""
    return api.patch(
        f"{path}?fieldManager={manager}{query}",
        json.dumps(obj).encode(),
        type="application/apply-patch+yaml",
    )
