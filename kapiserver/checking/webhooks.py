"""Keeps the server of a check from calling webhooks and other servers."""

from __future__ import annotations

from kapiserver.api.resource_client import Client
from kapiserver.api.types import Tree
from kapiserver.checking.ordering import DEFINITION

NEVER_STORED = frozenset(
    {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService"}
)
"""Kinds whose objects would make the server call other programs."""

_WITHOUT = {"strategy": "None"}
_CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")


def has_conversion_webhook(tree: Tree) -> bool:
    """Report whether an object is a definition whose objects a webhook converts."""
    spec = tree.get("spec")
    conversion = spec.get("conversion") if isinstance(spec, dict) else None
    return (
        tree["kind"] == DEFINITION
        and isinstance(conversion, dict)
        and conversion.get("strategy") == "Webhook"
    )


def without_conversion(tree: Tree) -> Tree:
    """Return a definition whose objects are converted without a webhook."""
    return tree | {"spec": {**tree["spec"], "conversion": _WITHOUT}}


async def remove_webhooks(client: Client) -> None:
    """Remove the webhooks that a recording has: those of admission, and of conversion."""
    for name in _CONFIGURATIONS:
        await client.resource("admissionregistration.k8s.io/v1", name).delete_collection()
    definitions = client.resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
    for definition in (await definitions.list())["items"]:
        if has_conversion_webhook(definition):
            await definitions.update(without_conversion(definition))
