"""The match conditions of webhooks, evaluated after rules and selectors.

Mirrors ShouldCallHook of pkg/admission/plugin/webhook/generic in k8s.io/apiserver.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kapiserver.api.admissionregistration.validation.expressions import text_length
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.activation import Activations
from kapiserver.apiserver.admission.expressions import (
    ExpressionFailed,
    MatchConditions,
    OutOfBudget,
    compile_cost,
)
from kapiserver.apiserver.admission.matching.index import Candidate
from kapiserver.apiserver.admission.matching.rules import ResourceVariant
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.webhooks.configurations import Webhook
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.metrics import MatchConditionLabels

_log = logging.getLogger(__name__)


class WebhookMatcher:
    """Decides which webhooks are asked about one write.

    type    the type of the webhooks in metrics
    """

    def __init__(
        self, server: Server, attributes: Attributes, objects: VersionedObjects, type_: str
    ) -> None:
        self._server = server
        self._attributes = attributes
        self._objects = objects
        self._type = type_
        self._activations: Activations | None = None
        """Made for the first webhook with match conditions."""

    async def match(self, candidate: Candidate[Webhook]) -> ResourceVariant | None:
        """Return the variant of the resource that a webhook is asked about; None if it is not
        asked. Raises Forbidden if a match condition fails and the failurePolicy is Fail, NotFound
        for a missing namespace, InternalError."""
        webhook = candidate.item
        variant = await candidate.criteria.match(
            self._server, self._attributes, candidate.matches, self._objects
        )
        if variant is None or not webhook.match_conditions:
            return variant
        metrics = self._server.metrics.match_conditions
        labels = MatchConditionLabels(
            webhook.name, "webhook", self._type, self._attributes.operation
        )
        try:
            matches = await self._evaluate(webhook, variant)
        except (ExpressionFailed, OutOfBudget) as error:
            metrics.errors.add(labels)
            if webhook.ignores_failures:
                return None
            _log.warning("match conditions of %s: failing closed: %s", webhook.name, error)
            raise self._forbidden(str(error)) from None
        if not matches:
            metrics.exclusions.add(labels)
        return variant if matches else None

    async def _evaluate(self, webhook: Webhook, variant: ResourceVariant) -> bool:
        conditions = webhook.compiled.conditions
        if conditions is None:
            trees = webhook.match_conditions
            cost = compile_cost(text_length(list(trees)))
            conditions = await self._server.offloader.run(cost, _compile, trees)
            webhook.compiled.conditions = conditions
        activations = self._activations
        if activations is None:
            activations = Activations(self._server, self._attributes, self._objects)
            self._activations = activations
        activation = await activations.make(variant, conditions.free)
        return await conditions.match(activation)

    def _forbidden(self, reason: str) -> Forbidden:
        resource = self._attributes.target.resource
        name = self._attributes.requested_name
        return Forbidden(reason, resource=resource.name, group=resource.group, name=name)


def _compile(trees: Sequence[Tree]) -> MatchConditions:
    return MatchConditions(trees)
