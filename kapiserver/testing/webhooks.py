"""Registers functions of a test as webhooks of a test server."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.testing.kinds import check_plural
from kapiserver.testing.loop_thread import LoopThread
from kapiserver.testing.server import TestServer
from kapiserver.testing.webhook_server import (
    ConversionWebhook,
    Function,
    MutatingWebhook,
    ValidatingWebhook,
    Webhook,
    WebhookServer,
)

ADMISSION = "admissionregistration.k8s.io/v1"
DEFINITIONS = "apiextensions.k8s.io/v1"
_JSON_PATCH = "application/json-patch+json"
_KINDS = {
    ValidatingWebhook: "ValidatingWebhookConfiguration",
    MutatingWebhook: "MutatingWebhookConfiguration",
}


class Webhooks:
    """Functions as webhooks of a test server, in force when the methods return. At the end of a
    `with` block they are removed, and the errors of functions are raised.

    A function may be `async`. That of an admission webhook is called with the request of the
    AdmissionReview, a dict. It returns None to admit the request, a text to deny it, or a dict with
    fields of the response, such as `warnings`.
    """

    def __init__(self, server: TestServer) -> None:
        self._server = server
        self._https = WebhookServer()
        self._thread = LoopThread(self._https.listen(), name="webhooks")
        self._cleanups = ExitStack()

    def __enter__(self) -> Webhooks:
        self._thread.start()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            if self._server.is_running:
                self._cleanups.close()
        finally:
            self._thread.stop()
        errors = [each for webhook in self._https.webhooks for each in webhook.errors]
        if error is None and len(errors) == 1:
            raise errors[0]
        if error is None and errors:
            raise BaseExceptionGroup("webhooks of the test failed", errors)

    def validating(
        self,
        function: Function,
        *,
        resource: str | Sequence[str],
        operation: str | Sequence[str] = ("CREATE", "UPDATE"),
        name: str = "",
        **fields: Any,
    ) -> Webhook:
        """Let a function admit or deny requests.

        resource    plural names as in RBAC: `pods`, `pods/status`, `deployments.apps`, `*`; several
                    are a list
        operation   CREATE, UPDATE, DELETE, CONNECT or `*`; several are a list
        name        the name of the webhook in messages; "" makes it from the function's name
        fields      others of the webhook, as in its configuration: `failurePolicy="Ignore"`,
                    `namespaceSelector={...}`, `matchConditions=[...]`

        Raises ValueError for a name that is not the plural of a resource, and StatusError for a
        configuration that the server refuses.
        """
        webhook = ValidatingWebhook(function, name or _name(function))
        return self._add_admission(webhook, resource, operation, fields)

    def mutating(
        self,
        function: Function,
        *,
        resource: str | Sequence[str],
        operation: str | Sequence[str] = ("CREATE", "UPDATE"),
        name: str = "",
        **fields: Any,
    ) -> Webhook:
        """Let a function change `request["object"]`, or return the new object; the server gets the
        patch. The arguments are those of `validating`."""
        webhook = MutatingWebhook(function, name or _name(function))
        return self._add_admission(webhook, resource, operation, fields)

    def conversion(self, function: Function, definition: str) -> Webhook:
        """Let a function convert the objects of a CustomResourceDefinition, such as
        `websites.example.com`, in place of the conversion that it declares. It is called with the
        object and the version to convert to, such as `example.com/v2`; it changes the object, or
        returns the new one. Raises StatusError if there is no such definition."""
        webhook = ConversionWebhook(function, _name(function))
        config = self._https.add(webhook)
        conversion = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
        }
        client = self._server.internal_client()
        definitions = client.resource(DEFINITIONS, "customresourcedefinitions")

        async def replace(value: Tree | None) -> Tree | None:
            before: Tree | None = (await definitions.get(definition))["spec"].get("conversion")
            patch = [{"op": "add", "path": "/spec/conversion", "value": value}]
            await definitions.patch(definition, patch, type=_JSON_PATCH)
            await self._server.settle_async()
            return before

        async def restore(value: Tree | None) -> None:
            with suppress(StatusError):  # the test may have deleted the definition
                await replace(value)

        before = self._server.run(replace(conversion))
        self._cleanups.callback(lambda: self._server.run(restore(before)))
        return webhook

    def _add_admission(
        self,
        webhook: ValidatingWebhook,
        resource: str | Sequence[str],
        operation: str | Sequence[str],
        fields: Tree,
    ) -> Webhook:
        resources = _items(resource)
        scheme = self._server.running.app.server.scheme
        for text in resources:
            _check_resource(text)
            self._server.call(functools.partial(check_plural, scheme, text))
        operations = [text.upper() for text in _items(operation)]
        kind = _KINDS[type(webhook)]
        entry = {
            "name": f"{webhook.name}.kapiserver.test",
            "clientConfig": self._https.add(webhook),
            "rules": [_rule(text, operations) for text in resources],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }
        (stored,) = self._server.load(
            {
                "apiVersion": ADMISSION,
                "kind": kind,
                "metadata": {"generateName": "test-"},
                "webhooks": [entry],
            }
        )
        self._cleanups.callback(self._remove, f"{kind.lower()}s", stored["metadata"]["name"])
        return webhook

    def _remove(self, resource: str, name: str) -> None:
        configurations = self._server.internal_client().resource(ADMISSION, resource)

        async def remove() -> None:
            with suppress(StatusError):  # the test may have deleted it
                await configurations.delete(name)
            await self._server.settle_async()

        self._server.run(remove())


def _items(value: str | Sequence[str]) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value
    return [part.strip() for part in parts if part.strip()]


def _name(function: Function) -> str:
    """Return a DNS label from the name of the function."""
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60].strip("-") or "webhook"


def _check_resource(text: str) -> None:
    """Raise ValueError for a star that rules of webhooks do not know: it would match nothing."""
    resource, _, subresource = text.partition("/")
    name, _, group = resource.partition(".")
    if any("*" in part and part != "*" for part in (name, group, subresource)):
        raise ValueError(
            f"{text!r} is not a resource; a star stands for a whole name, as in pods/*"
        )


def _rule(text: str, operations: Sequence[str]) -> Tree:
    """Return the rule of a resource that is written as in RBAC."""
    qualified, slash, subresource = text.partition("/")
    resource, dot, group = qualified.partition(".")
    return {
        "apiGroups": [group] if dot else ["*"],
        "apiVersions": ["*"],
        "resources": [f"{resource}{slash}{subresource}"],
        "operations": list(operations),
    }
