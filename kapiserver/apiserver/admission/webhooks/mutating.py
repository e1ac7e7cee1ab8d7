"""MutatingAdmissionWebhook: asks the webhooks that match a request, and applies their patches.

Webhooks are asked in order of the names of their configurations. A webhook with reinvocationPolicy
IfNeeded is asked again after a later change. Mirrors pkg/admission/plugin/webhook/mutating of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.errors import BadObject, PatchFailed, PatchTooLong
from kapiserver.api.go_format import json_type, quote
from kapiserver.api.patches import json_patch
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.admission.invocations import invocations_of
from kapiserver.apiserver.admission.matching.index import Candidate
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.webhooks.calls import (
    CallFailed,
    WebhookCall,
    WebhookCaller,
    call_webhook,
)
from kapiserver.apiserver.admission.webhooks.conditions import WebhookMatcher
from kapiserver.apiserver.admission.webhooks.configurations import Webhook
from kapiserver.apiserver.admission.webhooks.plugin import WebhookPlugin
from kapiserver.apiserver.admission.webhooks.reviews import ReviewResponse
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import InternalError
from kapiserver.codecs.cost import LARGE, cost_of, cost_of_tree
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import decode_value, encode_value
from kapiserver.spans import span

PLUGIN = "MutatingAdmissionWebhook"
_MUTATION = "mutation.webhook.admission.k8s.io"
_PATCH = "patch.webhook.admission.k8s.io"
_FAILED_OPEN = "failed-open.mutation.webhook.admission.k8s.io"


class MutatingWebhooks(WebhookPlugin):
    """The plugin MutatingAdmissionWebhook."""

    kind = "MutatingWebhookConfiguration"

    async def admit(
        self, server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
    ) -> None:
        """Apply the patches of the webhooks to the object. Raises the error of a webhook that
        rejects the request or fails."""
        candidates = await self.candidates(server, attributes)
        if candidates:
            await _dispatch(server, self.caller, attributes, candidates, new, old)


async def _dispatch(
    server: Server,
    caller: WebhookCaller,
    attributes: Attributes,
    candidates: Sequence[Candidate[Webhook]],
    new: Tree | None,
    old: Tree | None,
) -> None:
    invocations = invocations_of(attributes, PLUGIN)
    invocations.begin(new)
    objects = VersionedObjects(server, attributes.target, new, old)
    matcher = WebhookMatcher(server, attributes, objects, "admit")
    for candidate in candidates:
        webhook = candidate.item
        variant = await matcher.match(candidate)
        if variant is None or invocations.is_skipped(webhook.uid):
            continue
        call = WebhookCall(caller, webhook, variant, attributes, is_mutating=True)
        if await _Mutation(server, call, objects).run():
            invocations.object_changed()
        if webhook.is_reinvoked:
            invocations.invoked.add(webhook.uid)
    invocations.end(new)


class _Mutation:
    """One call of a mutating webhook."""

    def __init__(self, server: Server, call: WebhookCall, objects: VersionedObjects) -> None:
        self._server = server
        self._call = call
        self._objects = objects
        self._is_changed = False

    async def run(self) -> bool:
        """Call the webhook and return whether it changed the object."""
        try:
            with span("mutating-webhook", {"webhook": self._call.webhook.name}):
                succeeded = await call_webhook(self._server, self._call, self._objects, self._apply)
            if not succeeded:
                self._annotate(_FAILED_OPEN, self._call.webhook.name)
        finally:
            self._annotate_mutation()
        return self._is_changed

    async def _apply(self, response: ReviewResponse) -> None:
        webhook = self._call.webhook
        run = self._server.offloader.run
        operations = await run(cost_of(response.patch), self._operations, response.patch)
        if not operations:
            return
        obj = await self._objects.object(self._call.variant.kind)
        if obj is None:
            raise InternalError(
                f"admission webhook {quote(webhook.name)} attempted to modify the object, which is "
                "not supported for this operation"
            )
        if response.patch_type != "JSONPatch":
            kind = quote(response.patch_type)
            raise CallFailed(webhook.name, f"unsupported patch type {kind}")
        cost = cost_of(response.patch) + cost_of_tree(obj)
        if cost < LARGE and json_patch.copies(operations):
            cost += LARGE
        try:
            patched = await run(cost, json_patch.apply, obj, operations)
        except PatchFailed as error:
            raise InternalError(str(error)) from None
        self._is_changed = await self._objects.replace(patched, self._call.variant.kind)
        self._annotate_patch(operations)

    def _operations(self, patch: bytes) -> Sequence[Tree]:
        """Return the operations of a JSON patch. Raises CallFailed."""
        if not patch:
            return ()
        try:
            value = decode_value(patch)
            if not isinstance(value, list | None):
                raise BadObject(
                    f"json: cannot unmarshal {json_type(value)} into Go value of type "
                    "jsonpatch.Patch"
                )
            return json_patch.read(value)
        except (BadObject, CodecError, PatchTooLong) as error:
            reason = f"received undecodable patch in webhook response: {error}"
            raise CallFailed(self._call.webhook.name, reason) from None

    # Annotations of the audit event.

    def _annotate(self, prefix: str, value: str) -> None:
        attributes = self._call.attributes
        if self._server.audit is not None:
            run = int(attributes.reinvocation.is_running)
            key = f"{prefix}/round_{run}_index_{self._call.webhook.index}"
            attributes.audit.annotations.setdefault(key, value)

    def _annotate_mutation(self) -> None:
        if self._server.audit is not None:
            self._annotate(_MUTATION, self._value(mutated=self._is_changed))

    def _annotate_patch(self, operations: Sequence[Tree]) -> None:
        if self._call.attributes.audit.has_body:
            value = self._value(patch=list(operations), patchType="JSONPatch")
            self._annotate(_PATCH, value)

    def _value(self, **fields: Value) -> str:
        webhook = self._call.webhook
        return encode_value(
            {"configuration": webhook.configuration, "webhook": webhook.name, **fields}
        ).decode()
