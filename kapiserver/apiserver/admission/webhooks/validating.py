"""ValidatingAdmissionWebhook: asks all webhooks that match a request, at the same time.

Mirrors pkg/admission/plugin/webhook/validating of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.matching.index import Candidate
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.webhooks.calls import WebhookCall, WebhookCaller, call_webhook
from kapiserver.apiserver.admission.webhooks.conditions import WebhookMatcher
from kapiserver.apiserver.admission.webhooks.configurations import Webhook
from kapiserver.apiserver.admission.webhooks.plugin import WebhookPlugin
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.spans import span

_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io"


class ValidatingWebhooks(WebhookPlugin):
    """The plugin ValidatingAdmissionWebhook."""

    kind = "ValidatingWebhookConfiguration"

    async def validate(
        self, server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
    ) -> None:
        """Raise the error of the first webhook, in order, that rejects the request or fails."""
        candidates = await self.candidates(server, attributes)
        if candidates:
            objects = VersionedObjects(server, attributes.target, new, old)
            await _dispatch(server, self.caller, attributes, candidates, objects)


async def _dispatch(
    server: Server,
    caller: WebhookCaller,
    attributes: Attributes,
    candidates: Sequence[Candidate[Webhook]],
    objects: VersionedObjects,
) -> None:
    calls = []
    matcher = WebhookMatcher(server, attributes, objects, "validating")
    for candidate in candidates:
        variant = await matcher.match(candidate)
        if variant is not None:
            calls.append(
                WebhookCall(caller, candidate.item, variant, attributes, is_mutating=False)
            )
    if len(calls) == 1:
        await _call(server, calls[0], 0, objects)
    elif calls:
        for call in calls:
            # Convert and encode before the calls begin, so that each version is made once.
            await objects.json(await objects.object(call.variant.kind))
            await objects.json(await objects.old_object(call.variant.kind))
        results = await asyncio.gather(
            *(_call(server, call, index, objects) for index, call in enumerate(calls)),
            return_exceptions=True,
        )
        errors = [result for result in results if isinstance(result, BaseException)]
        del results  # an error that this frame kept would be in a cycle with it
        if errors:
            raise errors.pop(0)


async def _call(server: Server, call: WebhookCall, index: int, objects: VersionedObjects) -> None:
    with span("validating-webhook", {"webhook": call.webhook.name}):
        succeeded = await call_webhook(server, call, objects)
    if not succeeded and server.audit is not None:
        key = f"{_FAILED_OPEN}/round_0_index_{index}"
        call.attributes.audit.annotations.setdefault(key, call.webhook.name)
